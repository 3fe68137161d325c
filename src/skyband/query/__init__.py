"""Queries as frozen values, SQL and functions that make them, and their expressions.

In reading order: model (the queries), window, options, builders and sql/ (which make queries), coerce (text or query),
expression/ (trees over columns), aggregates, column_kinds (what a query needs of its columns), assumptions (promises
about rows to come), text (queries as SQL), serialise (as plain data), spark_columns, suggestions (near names).
"""
