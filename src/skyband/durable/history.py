"""The changes of recent steps, for those who come back.

A subscriber that was away names the offset up to which it knows everything and gets the steps since. Steps that
changed nothing are not kept, only that they happened: the offsets without an entry. The memory is bounded by steps and
by changes, oldest out first; who asks for more gets an error that says from where on there is an answer.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from skyband.errors import InputError


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
        self._steps: deque[Step] = deque()
        self._changes = 0

    def add(self, step: Step) -> None:
        if not step.changes.num_rows and step.name is None:
            return
        self._steps.append(step)
        self._changes += step.changes.num_rows
        while len(self._steps) > self.most_steps or self._changes > self.most_changes:
            gone = self._steps.popleft()
            self._changes -= gone.changes.num_rows
            self.first = gone.offset

    def since(self, offset: int) -> list[Step]:
        """The steps after this offset that changed something."""
        if offset < self.first:
            raise Forgotten(offset, self.first)
        start = bisect_right(self._steps, offset, key=lambda step: step.offset)
        return list(islice(self._steps, start, None))

    def at(self, offset: int) -> Step | None:
        """The step of this offset, if it is here."""
        found = bisect_right(self._steps, offset - 1, key=lambda step: step.offset)
        if found < len(self._steps) and self._steps[found].offset == offset:
            return self._steps[found]
        return None

    def dump(self) -> dict[str, Any]:
        """As plain data, for the snapshot."""
        tables = [step.changes for step in self._steps if step.changes.num_rows]
        return {
            "first": self.first,
            "steps": [[s.offset, s.kind, s.name, s.rows, s.changes.num_rows] for s in self._steps],
            "changes": pa.concat_tables(tables, promote_options="permissive").unify_dictionaries()
            if tables
            else None,
        }

    def load(self, blob: dict[str, Any], empty: pa.Table) -> None:
        self.first = blob["first"]
        table, at = blob["changes"], 0
        for offset, kind, name, rows, count in blob["steps"]:
            changes = empty if table is None or not count else table.slice(at, count)
            at += count
            self.add(Step(offset, kind, changes, name, rows))
