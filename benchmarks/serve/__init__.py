"""The server on this machine.

- load.py: sizes, queries, rows and pushes;
- experiment.py: rows a second, latency, start; readers.py: a thousand readers; crowd.py: eleven thousand;
- browser.py: the dashboard in Chromium;
- page.py: the page, with the goals;
- journal.py: what a journal costs; startup.py: the start of a process.
"""
