"""The window's rows in a grid: `tma`, `sma` and `cpm` search its cells when a top k loses a row."""
