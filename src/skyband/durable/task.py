"""A step on its way: what was asked, how it is written down, and who waits for it."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa


@dataclass(frozen=True)
class Receipt:
    """What became of a step: it is on disk, and this is what it did.

    `repeated`: the batch came before under the same key; these are its first answer's numbers, and nothing was done.
    `changed` counts the changes; `changes` of a repeated batch is empty once its step is forgotten.
    """

    rows: int
    rejected: int
    first_seq: int
    offset: int
    changed: int
    changes: pa.Table
    repeated: bool = False


@dataclass
class Task:
    """One step that waits to be written and taken."""

    kind: str
    given: tuple[Any, ...]  # what the monitor's method takes
    meta: dict[str, Any] = field(default_factory=dict)  # the same as plain data, for the journal
    body: Any = b""  # and as bytes
    rows: int = 0
    key: str | None = None
    name: str | None = None  # the watch that it is about
    offset: int = 0  # known once it is written
    taken: bool = False  # somebody is writing it, or it needs no writing
    future: Future[Any] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # from here on it can't be cancelled: it may be on its way
