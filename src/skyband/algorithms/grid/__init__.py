"""The window's rows in a grid: `tma`, `sma` and `cpm` search its cells when a top k loses a row.

Files in reading order: tma, sma, cpm (the algorithms and their cards), base (what they share: rows in cells, influence
lists, searches), cells (the grid), search (the generated loops), search_numpy (the same for scores that do not
compile), merge_batch (lists without a limit, for thresholds).
"""
