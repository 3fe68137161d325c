"""The experiments of four papers, one folder each: experiment.py measures, page.py has the claims and the page."""
