"""Nearest neighbours of hundreds of points: `snn` keeps a short list for each query behind a query index.

Files in reading order: snn (the algorithm and its card), ring_base (the window's rows in a ring, searches and bars),
arrival_lists (a query's rows in order of arrival), row_loop (generated loops over a batch, row by row).
"""
