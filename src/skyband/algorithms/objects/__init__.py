"""Top-k objects whose score comes from the totals of several rows: grouped and joined queries.

An object is a group, or one id whose attributes arrive in several streams. `sums` keeps every row of the window and
exact totals. `eaa` removes rows that cannot matter any more, under promises about rows to come. `correlated` removes
more, by estimates: an approximation. `sla` is the fourth paper's baseline with sorted lists.

Files in reading order: sums (the algorithm and its card), window_objects (one window's rows, totals and list of the
best), key_mapping, aggregates (totals), record_layout, sum_kernels, exact_sum, top_objects (the list of the best);
then eaa, pruned_instances, suffix_totals; then correlated, estimated_instances, sketches; then sla, threshold_lists.
"""
