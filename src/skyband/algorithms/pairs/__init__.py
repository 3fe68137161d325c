"""Top-k pairs of two rows of a window, by any score of the two.

All algorithms keep the K-skyband of pairs and its staircase. `scase` scores each new row with every row of the window;
`ta` and `kd` find the partners that can matter by sorted lists and by a k-d tree, for scores made of differences;
`sharded_scase` keeps a part of the pairs, for several processes; `baselines` are for comparison only.

Files in reading order: pair_base (the rows as partners), key_runs, ranks, scase (the algorithm and its card),
pair_skyband (skyband and staircase), pair_scoring (the generated loops), pair_topk; then ta, ta_search,
blocked_sorted_list; then kd, kd_tree; then sharded_scase, baselines.
"""
