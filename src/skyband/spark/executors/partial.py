"""Answers in parts: of objects and of pairs each unit has its own best, and the best of all is among them.

A unit reports its part of an answer as a table of what decides the order: how good each entry is, and the recencies
that break ties. The driver puts the parts together, before the batch and after it, cuts both at k, and what they
differ in are the changes. It needs no memory for that: the units report both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.engine.report import COLUMNS
from skyband.stream import clock

if TYPE_CHECKING:
    from skyband.engine.watch import Watch

ANSWER = pa.schema(
    [
        ("good", pa.float64()),
        ("time", pa.int64()),
        ("seq", pa.int64()),
        ("time_b", pa.int64()),  # of a pair, the newer row's
        ("seq_b", pa.int64()),
        ("id", pa.string()),  # of an object
    ]
)


def answer_of(watch: Watch) -> pa.Table:
    """A watch's answer now, best first."""
    horizon = watch.horizon()
    found = watch.group.top(watch.slot, watch.ranks(horizon), horizon)
    n = len(found.seq)
    nothing = np.zeros(n, dtype=np.int64)
    of_pairs = [nothing if column is None else column for column in (found.time_b, found.seq_b)]
    ids = pa.nulls(n, pa.string()) if found.id is None else pa.array(found.id, pa.string())
    return pa.table([found.good, found.time, found.seq, *of_pairs, ids], schema=ANSWER)


def merged(parts: list[pa.Table], k: int | None) -> tuple[pa.Table, np.ndarray[Any, Any]]:
    """The best k of all parts, best first, and where they were in the parts one after the other."""
    whole = pa.concat_tables([ANSWER.empty_table(), *parts]).combine_chunks()
    keys = [whole.column(name).to_numpy() for name in ("seq_b", "time_b", "seq", "time", "good")]
    order = np.lexsort(keys)[::-1][:k]
    return whole.take(pa.array(order)), order


def changes_of(
    query: str, before: pa.Table, after: pa.Table, sign: float, time: tuple[Any, pa.DataType], pairs: bool
) -> pa.Table:
    """What leaves and what enters, as a change table: of pairs by their seqs, of objects by their ids."""
    old, new = _names(before), _names(after)
    there, still = set(old), set(new)
    left = [place for place, name in enumerate(old) if name not in still]
    came = [place for place, name in enumerate(new) if name not in there]
    rows = pa.concat_tables([before.take(pa.array(left, pa.int64())), after.take(pa.array(came, pa.int64()))])
    n = len(left) + len(came)
    kind, type_ = time
    seqs: list[Any] = [pa.nulls(n, pa.int64())] * 2
    if pairs:
        seqs = [rows.column(name) for name in ("seq", "seq_b")]
    columns = [
        pa.array([query] * n, pa.string()),
        pa.array(["leave"] * len(left) + ["enter"] * len(came), pa.string()),
        pa.array([None] * len(left) + [place + 1 for place in came], pa.int32()),
        pa.array(sign * rows.column("good").to_numpy() + 0.0, pa.float64()),
        *seqs,
        rows.column("id"),
        pa.nulls(n, type_) if kind is None else clock.column(rows.column("time").to_numpy(), kind, type_),
    ]
    return pa.table(columns, names=COLUMNS)


def _names(answer: pa.Table) -> list[tuple[Any, ...]]:
    """What distinguishes entries: an object whose score or latest row has changed is another."""
    return list(zip(*(answer.column(key).to_pylist() for key in ("seq", "seq_b", "good")), strict=True))
