"""`heightmap`: one look-up rejects a row for all queries of one shape of score.

Files in reading order. Maps: maps (the height map), map_set (a family's maps and when to rebuild them), block_maps (a
coarse map for each block of queries), box_maps (queries with a box each), map_filter (the look-up for rows that are
not stored), cell_filter (bits instead of heights, for scores that are not monotone). Rows: row_blocks, ingest (a
step's rows past the maps), score_blocks (survivors against 64 queries at once). Lists: slack_lists, refill (a list
rebuilt from stored rows), refill_cursor, float32_filter. The family: state (what it holds), maintenance (when to
rebuild what), family (the algorithm and its card), whole_step (a step in one call).
"""
