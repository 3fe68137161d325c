"""Top-k pairs: the K-skyband of pairs and its staircase (`pair_skyband`), kept by `scase`, `ta` or `kd`."""
