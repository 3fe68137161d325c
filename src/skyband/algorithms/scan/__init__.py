"""`scan`: the window's rows, scored by numpy. It needs no compiled code, so it answers while other algorithms' kernels
are being compiled (engine/stand_in.py).

Files in reading order: scan (the algorithm and its card), rows (the window's rows in order of recency).
"""
