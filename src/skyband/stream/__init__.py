"""What arrives: batches, schemas, keys, event time, windows, rejects, and the rows that are kept for answers."""
