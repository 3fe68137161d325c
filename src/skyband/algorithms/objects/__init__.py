"""Top-k objects whose rows add up: exact totals (`sums`), pruned instances (`eaa`), sorted lists (`sla`), and estimates
(`correlated`)."""
