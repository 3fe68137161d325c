"""`heightmap`: one look-up rejects a row for all queries. In reading order: `maps`, `map_set`, `row_blocks`, `ingest`,
`score_blocks`, `slack_lists`, `refill`, `state`, `maintenance`, `family`."""
