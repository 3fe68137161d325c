"""The changes of recent steps, for readers that come back.

A subscriber that was away names the offset up to which it knows everything and gets the steps since. Steps that
changed nothing are not kept, only that they happened: the offsets without an entry. The memory is bounded by steps and
by changes, oldest out first; a reader that asks for more gets an error that says from where on there is an answer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa

from skyband.core.errors import InputError


@dataclass(frozen=True)
class Step:
    """What one step did. `kind` is push, advance, watch, drop or change; `name` the watch of the last three."""

    offset: int
    kind: str
    changes: pa.Table
    name: str | None = None
    rows: int = 0


class Forgotten(InputError):
    """The changes since that offset are gone; `first` is the earliest offset that can be asked for."""

    def __init__(self, offset: int, first: int) -> None:
        super().__init__(
            f"The changes since offset {offset} are no longer kept, only those since {first}: take the tops as they "
            "are now and go on from there."
        )
        self.offset, self.first = offset, first

    def __reduce__(self) -> tuple[type[Forgotten], tuple[int, int]]:
        return type(self), (self.offset, self.first)


class History:
    """The last steps that changed something."""

    def __init__(self, steps: int, changes: int) -> None:
        self.most_steps, self.most_changes = steps, changes
        self.first = 0  # the earliest offset that can be asked for: every change after it is here
        self._steps: dict[int, Step] = {}  # by offset, ascending
        self._changes = 0

    def add(self, step: Step) -> None:
        if not step.changes.num_rows and step.name is None:
            return
        self._steps[step.offset] = step
        self._changes += step.changes.num_rows
        while len(self._steps) > self.most_steps or self._changes > self.most_changes:
            gone = self._steps.pop(next(iter(self._steps)))
            self._changes -= gone.changes.num_rows
            self.first = gone.offset

    def since(self, offset: int) -> list[Step]:
        """Return the steps after this offset that changed something."""
        if offset < self.first:
            raise Forgotten(offset, self.first)
        later = list(takewhile(lambda step: step.offset > offset, reversed(self._steps.values())))
        return later[::-1]

    def at(self, offset: int) -> Step | None:
        """Return the step of this offset, if it is here."""
        return self._steps.get(offset)

    def dump(self) -> Callable[[], dict[str, Any]]:
        """As plain data, which may be made later: tables never change, and what comes meanwhile isn't in it."""
        first, steps = self.first, list(self._steps.values())

        def content() -> dict[str, Any]:
            return {
                "first": first,
                "steps": [[s.offset, s.kind, s.name, s.rows, s.changes.num_rows] for s in steps],
                "changes": _together(step.changes for step in steps if step.changes.num_rows),
            }

        return content

    def load(self, blob: dict[str, Any], empty: pa.Table) -> None:
        self._steps.clear()
        self._changes, self.first = 0, blob["first"]
        tables = deque(blob["changes"])
        at = 0
        for offset, kind, name, rows, count in blob["steps"]:
            if count and at == tables[0].num_rows:
                tables.popleft()
                at = 0
            changes = tables[0].slice(at, count) if count else empty
            at += count
            self.add(Step(offset, kind, changes, name, rows))


def _together(tables: Iterable[pa.Table]) -> list[pa.Table]:
    """Change tables one after the other as few; the type of their times may change when a new stream begins."""
    runs: list[list[pa.Table]] = []
    for table in tables:
        if not runs or not runs[-1][0].schema.equals(table.schema):
            runs.append([])
        runs[-1].append(table)
    return [pa.concat_tables(run).unify_dictionaries().combine_chunks() for run in runs]
