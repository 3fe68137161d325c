"""Pripužić, Podnar Žarko and Aberer (TODS 2015): ra, pa, the buffered algorithms and the index over queries.

- settings.py: the sizes of Table IX, the data and the queries;
- experiment.py: the figures; errors.py: how often pa is wrong; size_law.py: how many rows are kept;
- page.py: the claims and the page.
"""
