"""What several families share: candidate lists, ranked lists, the k-skyband of a batch, and kernels that score rows.

In reading order: batch_skyband (a batch swept against itself), candidate_lists (candidates by recency), list_answers
(the present answers from them), score_select (scores and selects in one loop); batch_tops and search_tree (many
answers of one list); ranked_lists (the best, in order), barred_lists (those of slots with a bar), best_rows (what a
search finds); row_slots (the window's rows), recent_buffer (the newest rows); capacity (how long a list must be that
may miss a row); scalar_intervals, cell_shape.
"""
