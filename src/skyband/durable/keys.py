"""Idempotency keys: a client that doesn't know whether its batch arrived may send it again under the same key.

What is remembered of a batch is the answer that it got. Only so many keys are kept, oldest out first: a key protects
against a repeat within minutes, not within years.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skyband.core.errors import InputError

LONGEST = 200


class KeyReused(InputError):
    """A key was given to two batches that are not the same."""


class Answer(NamedTuple):
    """The numbers of a batch's first receipt."""

    rows: int
    rejected: int
    first_seq: int
    offset: int
    changed: int


class Keys:
    """The answers to the last batches that had a key."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._answers: dict[str, Answer] = {}

    def __len__(self) -> int:
        return len(self._answers)

    def add(self, key: str, answer: Answer) -> None:
        self._answers[key] = answer
        while len(self._answers) > self.most:
            del self._answers[next(iter(self._answers))]

    def get(self, key: str) -> Answer | None:
        return self._answers.get(key)

    def dump(self) -> Callable[[], pa.Table]:
        """Return all as a table, which may be made later: what comes meanwhile isn't in it."""
        answers = self._answers.copy()

        def table() -> pa.Table:
            numbers = np.array(list(answers.values()), dtype=np.int64).reshape(-1, len(Answer._fields))
            columns = [pa.array(list(answers), pa.string()), *map(pa.array, numbers.T.copy())]
            return pa.Table.from_arrays(columns, names=["key", *Answer._fields])

        return table

    def load(self, table: pa.Table) -> None:
        self._answers.clear()
        columns: list[list[Any]] = [column.to_pylist() for column in table.columns]
        for key, *numbers in zip(*columns, strict=True):
            self.add(key, Answer(*numbers))


def checked(key: Any) -> str | None:
    """A key as it may be given."""
    if key is None:
        return None
    if not isinstance(key, str) or not key or len(key) > LONGEST or not key.isprintable():
        raise InputError(
            f"An idempotency key must be a text of 1 to {LONGEST} printable characters, not {str(key)[:40]!r}."
        )
    return key
