"""The rows and queries that experiments run on.

- generators.py: independent, anti-correlated, clustered and drifting rows, sensor readings, queries;
- incomplete.py: objects whose attributes arrive in several streams.
"""
