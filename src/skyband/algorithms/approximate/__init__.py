"""Top-k rows with a bounded error: `pa` keeps fewer candidates and certifies which answers are exact.

Files in reading order: pa (the algorithm and its card), capped_admission (which rows of a batch enter a capped list),
certificate (what is known of dropped rows), order_test (whether rows arrive in random order), indexed_admission (the
same lists behind a query index). kernels/capacity.py computes the length of the lists.
"""
