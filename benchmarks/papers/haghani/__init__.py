"""Haghani, Michel and Aberer (CIKM 2009): objects whose attributes arrive in several streams.

- experiment.py: the figures; speed.py: how fast objects are kept; id_sets.py: eaa with the paper's sets of ids;
- page.py: the claims and the page.
"""
