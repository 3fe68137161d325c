"""Fill the cache of compiled code by running queries over made-up rows.

`run_plan` does what a stream asked for (stand_in.py), in a process of its own. `warm` is `skyband warm`: it runs a
query as a stream would, and waits until its compiled code is there.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms import REGISTRY
from skyband.compiling import background
from skyband.engine.monitor import Monitor
from skyband.engine.planner import STAND_IN, Choice
from skyband.engine.row_group import Group
from skyband.engine.stand_in import schema_of
from skyband.query.coerce import asked
from skyband.query.column_kinds import named_columns, numeric_columns
from skyband.query.expression.nodes import Text, walk
from skyband.query.model import Joined, Last, Query, Rows
from skyband.query.serialise import from_dict
from skyband.stream import clock

MOST_ROWS = 5_000  # of a window: what is compiled doesn't depend on it
MEMBERS = 70  # queries of a family that keeps the window's rows: from so many on it calls all of its kernels
LEAST_BATCH, MOST_BATCH = 1_000, 5_000
STEPS = 32
KEYS = 300  # of an update stream
USUAL = (
    "SELECT x FROM s ORDER BY x DESC LIMIT 10 WINDOW 10000 ROWS",
    "SELECT x FROM s ORDER BY x DESC LIMIT 10 WINDOW 5 MINUTES",
    "SELECT x, y FROM s ORDER BY x + y DESC LIMIT 10 WINDOW 10000 ROWS",
    "SELECT x FROM s WHERE x > 0.9 WINDOW 10000 ROWS",
    "SELECT x FROM s WHERE x > 0.9 WINDOW 5 MINUTES",
    "SELECT a.x, b.x FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 10 WINDOW 1000 ROWS",
    "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 10 WINDOW 10000 ROWS",
)


def attend(key: str) -> None:
    """Be the process that compiles beside a stream: read what is asked, compile it, write down what was called."""
    import json

    content = json.loads(background.attend())
    with background.one_at_a_time():
        if "kernels" in content:
            called = background.compile_kernels(content["kernels"])
        else:
            run_plan(content)
            called = background.called()
        background.note(key, called)


def run_plan(content: Any) -> None:
    """Run the queries of a request, with their algorithm from the first row on, and taken over from the stand-in."""
    queries = []
    for query in map(from_dict, content["queries"]):
        window = query.window
        queries.append(
            replace(query, window=Rows(min(window.n, MOST_ROWS)) if isinstance(window, Rows) else window)
        )
    more = [_other(queries[n % len(queries)], n) for n in range(MEMBERS - len(queries))]
    named = content["algorithm"]
    if named not in REGISTRY:  # pairs and objects: their own kernels stand in
        runs = [(named, queries)]
    else:
        runs = [(named, queries + more if REGISTRY[named].card.window else queries), (STAND_IN, queries)]
    for algorithm, asked_for in runs:
        schema = schema_of(content)
        monitor = Monitor(
            time=content["time"],
            time_unit=content["unit"],
            schema=schema,
            key=content["key"],
            op=content["op"],
        )
        options = () if algorithm == STAND_IN else tuple(content["options"].items())
        for query in asked_for:
            own = tuple(sorted({**dict(query.options), **dict(options), "algorithm": algorithm}.items()))
            monitor.watch(replace(query, options=own))
        sizes = [int(min(max(content["batch"] or 1, LEAST_BATCH), MOST_BATCH)), 1, 200]
        for number, table in enumerate(_tables(schema, monitor, queries, sizes)):
            monitor.push(table)
            if number == STEPS // 2 and algorithm == STAND_IN:
                _hand_over(monitor, Choice(content["algorithm"], content["options"], ""))
            for watch in [*monitor.watches.values()][:2]:
                watch.rows()


def _other(query: Query, number: int) -> Query:
    """The same query over another window."""
    window = query.window
    shorter = (
        Last(window.nanoseconds - number) if isinstance(window, Last) else Rows(max(1, window.n - number))
    )
    return replace(query, window=shorter)


def _hand_over(monitor: Monitor, choice: Choice) -> None:
    (stream,) = monitor.streams.values()
    for group in [*stream.groups]:
        assert isinstance(group, Group)
        stream.review.succeed(group, list(group.watches), choice)
        stream.review.hand_over(group)


def _tables(
    schema: pa.Schema, monitor: Monitor, queries: list[Query], sizes: list[int]
) -> Iterator[pa.Table]:
    """Made-up batches: level scores, then falling and rising ones; some rows late, some values missing."""
    random = np.random.default_rng(1)
    lengths = [q.window.nanoseconds for q in queries if isinstance(q.window, Last)]
    tick = max(1_000, min(lengths, default=0) // MOST_ROWS)  # nanoseconds between two rows
    now = 1_700_000_000_000_000_000
    (stream,) = monitor.streams.values() or [None]
    texts = _texts_of(queries)
    for step in range(STEPS):
        rows = sizes[step % len(sizes)]
        level = 1.0 if step < STEPS // 2 else 0.5 ** (step % 4)
        columns = []
        for field in schema:
            if stream is not None and field.name == stream.time:
                times = now + tick * (np.arange(rows) - (random.random(rows) < 0.05) * 20 * (step % 4 == 1))
                columns.append(_times(times, field.type, stream.unit))
            elif stream is not None and stream.updates is not None and field.name == stream.updates.key:
                columns.append(_values(random.integers(0, KEYS, rows), field.type, None))
            elif stream is not None and stream.updates is not None and field.name == stream.updates.op:
                columns.append(
                    pa.array(random.choice(["update", "delete"], rows, p=[0.9, 0.1])).cast(field.type)
                )
            elif pa.types.is_string(field.type) and texts:
                columns.append(pa.array(random.choice(texts, rows), field.type))
            else:
                missing = random.random(rows) < 0.01 if step % 4 == 1 else None
                columns.append(_values(random.random(rows) * level, field.type, missing))
        yield pa.Table.from_arrays(columns, schema=schema)
        now += tick * rows


def _texts_of(queries: list[Query]) -> list[str]:
    """Return the texts that predicates name, so that some rows fit each of them."""
    wheres = [query.where for query in queries if query.where is not None]
    return sorted({node.value for where in wheres for node in walk(where) if isinstance(node, Text)})


def _times(times: Any, type_: pa.DataType, unit: clock.Kind | None) -> pa.Array:
    if pa.types.is_timestamp(type_):
        return pa.array(times, pa.timestamp("ns")).cast(type_, safe=False)
    if pa.types.is_date(type_):
        return pa.array(times, pa.timestamp("ns")).cast(pa.timestamp("s"), safe=False).cast(type_, safe=False)
    parts = {"s": 1e9, "ms": 1e6, "us": 1e3}.get(unit or "s", 1.0)
    return pa.array(times / parts).cast(type_, safe=False)


def _values(values: Any, type_: pa.DataType, missing: Any) -> pa.Array:
    if pa.types.is_floating(type_):
        return pa.array(values, type_, mask=missing)
    whole = values if values.dtype.kind == "i" else (values * 100).astype(np.int64)
    if pa.types.is_timestamp(type_) or pa.types.is_date(type_) or pa.types.is_time(type_):
        return pa.array(whole, pa.int32() if type_.bit_width == 32 else pa.int64(), mask=missing).cast(type_)
    if pa.types.is_boolean(type_):
        return pa.array(whole % 2 == 0, mask=missing)
    try:
        return pa.array(whole, mask=missing).cast(type_)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # nothing that a score reads
        return pa.nulls(len(whole), type_)


def warm(sql: str) -> str:
    """Compile what a query needs; return a sentence about it."""
    began = time.monotonic()
    query = asked(sql)
    timed = isinstance(query.window, Last)
    names = sorted({*named_columns(query)} - {"ts"}) or ["x"]
    numbers = {column.name for column in numeric_columns(query)}
    schema = pa.schema([("ts", pa.timestamp("us"))] * timed + [(n, _type(n, numbers, query)) for n in names])
    streams = query.streams if isinstance(query, Joined) else (None,)
    monitor = Monitor(time="ts" if timed else None)
    watch = monitor.watch(query)
    tick = (query.window.nanoseconds if isinstance(query.window, Last) else 0) // MOST_ROWS
    now = 1_700_000_000_000_000_000
    random = np.random.default_rng(1)
    step = 0
    while step < 6 or background.is_busy():
        if background.is_busy() and step > 1:
            time.sleep(0.1)
            continue
        for stream in streams:
            rows = 500
            columns = [
                pa.array(now + tick * np.arange(rows), pa.timestamp("ns")).cast(f.type, safe=False)
                if f.name == "ts"
                else _values(random.random(rows), f.type, None)
                for f in schema
            ]
            monitor.push(pa.Table.from_arrays(columns, schema=schema), stream=stream)
        now += tick * 500
        step += 1
        watch.rows()
    return f"ready in {time.monotonic() - began:.1f} s ({watch.explain().algorithm}): {sql}"


def _type(name: str, numbers: set[str], query: Query) -> pa.DataType:
    """The type of a made-up column: numbers where the query counts, else texts."""
    key = getattr(query, "key", ())
    keys = {key} if isinstance(key, str) else {*key}
    return pa.float64() if name in numbers or (query.select is not None and name not in keys) else pa.string()
