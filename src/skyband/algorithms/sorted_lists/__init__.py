"""`tsl`: one sorted list for each attribute, and the threshold algorithm over them. The baseline of tma and sma.

Files in reading order: tsl (the algorithm and its card), lists (the sorted lists), views (each query's best rows).
"""
