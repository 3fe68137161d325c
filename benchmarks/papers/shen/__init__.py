"""Shen, Cheema, Lin, Zhang and Wang (ICDE 2012): pairs of rows.

- pairing.py: runs of pair algorithms alone, and the bound that none can pass;
- experiment.py: the figures; goals.py: the goals beside what was reached;
- page.py: the claims and the page.
"""
