"""The query index: for each cell of space the queries that a row in it may concern. Used by snn, cpm, pa and buffers.

Files in reading order: index (the index), probe (generated look-ups of rows), loops (generated entry of regions,
scores and searches).
"""
