"""Many answers at once, as the `top` output and the live view want them.

A thousand queries over one stream show the same few thousand rows again and again. So the selected columns of all rows
that any of them shows are looked up once, and each row's JSON is written once, for all queries that select the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ..approximate import Approximate
from ..group import ALL
from ..stream.arrow import numbers_array, python_rows
from ..watch import Watch
from .sinks import TOP_SCHEMA, json_text, top_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

Answer = tuple[str, pa.Table, pa.Table]
"""A query's name, its answer, and the same in the columns of the `top` output."""


def answers_of(watches: Iterable[Watch]) -> Iterator[Answer]:
    """The answers of some watches now."""
    alike: dict[Any, list[Watch]] = {}
    for watch in watches:
        plain = type(watch) is Watch and not isinstance(watch.group, Approximate) and not watch.group.windowed
        if plain:
            outputs = (
                watch.outputs()
            )  # one that is called `score` may be the score itself, and is not shown twice
            own = watch.query.score if any(output.name == "score" for output in outputs) else None
            alike.setdefault((watch._stream.name, outputs, own), []).append(watch)
        else:
            top = watch.top()
            yield watch.name, top, top_rows(watch.name, top, watch.selected(top))
    for fellows in alike.values():
        yield from _together(fellows)


def _together(watches: list[Watch]) -> Iterator[Answer]:
    """Answers that show the same columns of one stream."""
    found = []
    for watch in watches:
        horizon = watch.horizon()
        ranks = watch.ranks(horizon)
        good, _, seq = watch.group.algorithm.top(watch.slot, ALL if ranks is None else ranks, horizon)
        found.append((good if watch.group.sign > 0 else np.negative(good), np.asarray(seq)))
    sizes = np.array([len(seq) for _, seq in found], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)])
    seqs = np.concatenate([seq for _, seq in found])
    whole, index = np.unique(seqs, return_inverse=True)
    selected = watches[0]._selected(whole)
    table = pa.table([column for _, column in selected], names=[output.name for output, _ in selected])
    texts = [json_text(row) for row in python_rows(table)] if selected else ["{}"] * len(whole)
    places = numbers_array(index.astype(np.int64))
    ranks = numbers_array((np.arange(len(seqs)) - np.repeat(starts[:-1], sizes) + 1).astype(np.int32))
    scores = numbers_array(np.concatenate([score for score, _ in found]) + 0.0)
    whose = numbers_array(np.repeat(np.arange(len(watches)), sizes))
    names = pa.array([watch.name for watch in watches], pa.string()).take(whose)
    columns: list[Any] = [ranks, scores, numbers_array(seqs)]
    tops = watches[0]._named(columns, [(output, column.take(places)) for output, column in selected])
    rows = pa.array(texts, pa.string()).take(places)
    shown = pa.Table.from_arrays([names, ranks, scores, rows], schema=TOP_SCHEMA)
    for watch, start, size in zip(watches, starts.tolist(), sizes.tolist(), strict=False):
        yield watch.name, tops.slice(start, size), shown.slice(start, size)
