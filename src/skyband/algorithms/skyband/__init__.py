"""Top-k rows by candidate lists.

In reading order: ra (the relaxed k-skyband), sa (the strict one), lazy (one list for many k and windows),
incremental_tops (its answers from step to step), threshold (every row beyond a bound).
"""
