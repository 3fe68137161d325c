"""What a monitor knows of its journal: each of its steps goes through it, and comes back once it is on disk.

`durable/engine.py: Engine` is the one class that has these methods. The monitor names it only where it makes one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import pyarrow as pa

    from skyband.engine.watch import Watch
    from skyband.query.model import Query, Window


class Taken(Protocol):
    """What became of a step."""

    @property
    def changes(self) -> pa.Table: ...


class Journal(Protocol):
    """Takes the steps of a monitor; the methods are the monitor's own."""

    def watch(self, query: str | Query, name: str | None = None) -> Watch: ...
    def drop(self, name: str) -> None: ...
    def change(self, name: str, k: int | None = None, window: str | Window | None = None) -> None: ...
    def push(self, batch: Any, stream: str | None, key: str | None, *, strict: bool | None) -> Taken: ...
    def advance(self, time: Any, force: bool = False) -> Taken: ...
    def restart(self, stream: str | None = None) -> Taken: ...
    def close(self) -> None: ...
