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
            alike.setdefault((watch._stream.name, watch.outputs()), []).append(watch)
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
    whole = np.unique(np.concatenate([seq for _, seq in found]))
    selected = watches[0]._selected(whole)
    table = pa.table([column for _, column in selected], names=[output.name for output, _ in selected])
    texts = [json_text(row) for row in python_rows(table)] if selected else ["{}"] * len(whole)
    rows = pa.array(texts, pa.string())
    for watch, (score, seq) in zip(watches, found, strict=True):
        index = numbers_array(np.searchsorted(whole, seq))
        ranks = numbers_array(np.arange(1, len(seq) + 1, dtype=np.int32))
        columns: list[Any] = [ranks, numbers_array(score + 0.0), numbers_array(seq)]
        top = watch._named(list(columns), [(output, column.take(index)) for output, column in selected])
        names = pa.array([watch.name] * len(seq), pa.string())
        shown = pa.Table.from_arrays([names, ranks, columns[1], rows.take(index)], schema=TOP_SCHEMA)
        yield watch.name, top, shown
