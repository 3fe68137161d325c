"""What experiments share.

- settings.py: scale, parts and folder of a run;
- clock.py: the times of steps;
- drive.py: contestants, which take the same rows in turns;
- figures.py: the measured points of a figure, as table, CSV and JSON;
- charts.py: a figure as SVG;
- claims.py: the claims of a paper, judged by the figures, and the page of an experiment;
- sizes.py: the bytes that an algorithm holds;
- readings.py: rows from a file of the user's.
"""
