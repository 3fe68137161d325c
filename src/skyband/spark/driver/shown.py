"""Many answers at once, as the `top` output and the live view want them.

A thousand queries over one stream show the same few thousand rows again and again. So the selected columns of all rows
that any of them shows are looked up once, and each row's JSON is written once, for all queries that select the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
import pyarrow as pa

from skyband.engine.row_group import Group
from skyband.engine.watch import Watch
from skyband.spark.sinks import TOP_SCHEMA, json_text, top_rows
from skyband.stream.arrow import numbers_array, python_rows

if TYPE_CHECKING:
    from skyband.core.types import Floats, Ints


class Answers(NamedTuple):
    """The answers of some queries, one after the other, and the same in the columns of the `top` output."""

    names: list[str]
    sizes: list[int]
    tops: pa.Table
    shown: pa.Table


class Slices(Mapping[str, pa.Table]):
    """Tables by name that are stretches of larger ones: they are cut out when they are asked for, as most are not."""

    def __init__(self, known: Mapping[str, tuple[pa.Table, int, int]] | None = None) -> None:
        self._known = dict(known or {})

    def put(self, names: Sequence[str], sizes: Sequence[int], table: pa.Table) -> None:
        """So many rows of a table for each name, in order."""
        first = 0
        for name, size in zip(names, sizes, strict=True):
            self._known[name] = table, first, size
            first += size

    def __getitem__(self, name: str) -> pa.Table:
        table, first, size = self._known[name]
        return table.slice(first, size)

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    def __contains__(self, name: object) -> bool:
        return name in self._known

    def forget(self, name: str) -> None:
        self._known.pop(name, None)

    def copy(self) -> Slices:
        return Slices(self._known)

    def joined(self, names: Iterable[str]) -> list[pa.Table]:
        """The tables of these names, neighbours in one piece."""
        found: list[tuple[pa.Table, int, int]] = []
        for name in names:
            table, first, size = self._known[name]
            if found and found[-1][0] is table and found[-1][1] + found[-1][2] == first:
                first, size = found[-1][1], found.pop()[2] + size
            found.append((table, first, size))
        return [table.slice(first, size) for table, first, size in found]


def answers_of(watches: Iterable[Watch]) -> Iterator[Answers]:
    """The answers of some watches after a step."""
    alike: dict[Any, list[Watch]] = {}
    for watch in watches:
        if _on_board(watch):
            alike.setdefault(_looks(watch), []).append(watch)
        else:
            top = watch.top()
            yield Answers([watch.name], [top.num_rows], top, top_rows(watch.name, top, watch.selected(top)))
    for fellows in alike.values():
        yield _together(fellows)


_LOOKS: dict[Any, int] = {}  # a number for each: to find equal ones among ten thousand takes a while
_KNOWN: WeakKeyDictionary[Watch, tuple[Any, Any]] = WeakKeyDictionary()


def _looks(watch: Watch) -> Any:
    """What watches must have in common to be shown in one table."""
    schema, known = watch._stream.schema, _KNOWN.get(watch)
    if known is None or known[0] is not schema:
        # one that is called `score` may be the score itself, and is not shown twice
        outputs = watch.outputs()
        own = watch.query.score if any(output.name == "score" for output in outputs) else None
        looks = watch._stream.name, outputs, own
        known = _KNOWN[watch] = schema, _LOOKS.setdefault(looks, len(_LOOKS))
    return known[1]


def _on_board(watch: Watch) -> bool:
    """Whether the answer is what the step's changes were made from."""
    return type(watch) is Watch and type(watch.group) is Group and not watch.group.windowed


def _together(watches: list[Watch]) -> Answers:
    """Answers that show the same columns of one stream."""
    groups: dict[int, tuple[Any, list[Watch]]] = {}
    for watch in watches:
        groups.setdefault(id(watch.group), (watch.group, []))[1].append(watch)
    found = [_entries(group, own) for group, own in groups.values()]
    watches = [watch for _, own in groups.values() for watch in own]
    sizes = np.concatenate([size for size, _, _ in found])
    seqs = np.concatenate([seq for _, _, seq in found])
    before = np.cumsum(sizes) - sizes
    whole, index = np.unique(seqs, return_inverse=True)
    selected = watches[0]._selected(whole)
    table = pa.table([column for _, column in selected], names=[output.name for output, _ in selected])
    texts = [json_text(row) for row in python_rows(table)] if selected else ["{}"] * len(whole)
    places = numbers_array(index.astype(np.int64))
    ranks = numbers_array((np.arange(len(seqs)) - np.repeat(before, sizes) + 1).astype(np.int32))
    scores = numbers_array(np.concatenate([score for _, score, _ in found]) + 0.0)
    names = [watch.name for watch in watches]
    owners = pa.array(names, pa.string()).take(numbers_array(np.repeat(np.arange(len(names)), sizes)))
    columns: list[Any] = [ranks, scores, numbers_array(seqs)]
    tops = watches[0]._named(columns, [(output, column.take(places)) for output, column in selected])
    rows = pa.array(texts, pa.string()).take(places)
    shown = pa.Table.from_arrays([owners, ranks, scores, rows], schema=TOP_SCHEMA)
    return Answers(names, sizes.tolist(), tops, shown)


def _entries(group: Group, watches: list[Watch]) -> tuple[Ints, Floats, Ints]:
    """How many rows each answer has, and all scores and seqs: as they were reported last."""
    if watches == group.watches:
        index = np.arange(len(watches))
    else:
        known = {id(watch): number for number, watch in enumerate(group.watches)}
        index = np.array([known[id(watch)] for watch in watches], dtype=np.int64)
    size, good, seq = group.answers.all_of(index)
    return size, good if group.sign > 0 else np.negative(good), seq
