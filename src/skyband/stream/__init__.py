"""What arrives: batches, schemas, keys, event time, windows, rejects, and the rows that are kept for answers.

In reading order. Rows: batches (whatever comes in, as Arrow columns), schema (types, and values that don't fit),
widening, validation (which rows are accepted), rules (the version of that), waiting (rows stamped far ahead), rejects,
notices, row (one row of plain values, without Arrow). Time: clock, windows (recencies and horizons), row_rate. Kept
rows: payloads (of candidates), history (retained ones). Keys: updates (update streams), keys, text_keys, slot_table,
key_text. Texts of WHERE as numbers: text_numbers. Below all of these: arrow.
"""
