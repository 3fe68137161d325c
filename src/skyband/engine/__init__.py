"""The engine: rows in, exact changes out.

In reading order. Steps: monitor (streams, watches, steps), protocol (what a family is), families (which one serves
which query), stream_runtime (one stream), plan (what its steps have prepared), joined_stream (several as one), watch,
journalled (what a monitor knows of its journal).
Families: row_group, approximate_group, pair_group, object_group, aggregate_inputs (what objects are made of).
Reporting: answers (the one comparison), change_writer, report (the change table). Planning: planner, explain,
replanning (while rows come in), stand_in and warming (compiled code). Then snapshot, restart, stream_settings, pruning
and batch_filter (what Spark's tasks may drop), lane (the commonest step).
"""
