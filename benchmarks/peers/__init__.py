"""Algorithms against each other, against other engines and against the machine.

- engine.py: ra and sa beside a brute force and DuckDB;
- heightmap.py: heightmap beside one copy of the rows and sma;
- planner.py: the pick of the planner beside the fastest algorithm.
"""
