"""What is read, and how it gets its order.

In reading order: filelog (files in the order in which they were first seen), splits (pieces of them), source (Spark's
source of files), inputs (all streams as one DataFrame), reading (from a piece to rows), values (of records, with
registered, registry, avro and protobuf), expected (what a strict stream takes), jobs (what tasks know and answer with),
residents (what stays in a worker).
"""
