"""The engine: rows in, exact changes out.

In reading order: `monitor` (streams, watches, steps), `protocol` (what a family is), `families` (which one serves which
query), `stream_runtime`, `watch`, `row_group`, `approximate_group`, `pair_group`, `object_group`, `joined_stream`,
`report`, `planner`, `explain`, `snapshot`, `pruning`.
"""
