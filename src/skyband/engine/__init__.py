"""The engine: rows in, exact changes out. In reading order: `monitor`, `stream_runtime`, `watch`, `row_group`,
`pair_group`, `object_group`, `joined_stream`, `report`, `planner`, `explain`, `snapshot`, `pruning`."""
