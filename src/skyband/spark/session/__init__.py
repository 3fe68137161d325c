"""Spark itself: how a session starts and what a run reports.

In reading order: start (a session's settings), java (finds one), home (of PySpark), connector (of Kafka), signals,
progress, metrics.
"""
