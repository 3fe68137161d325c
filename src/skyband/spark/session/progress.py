"""What a running pipeline reports: one record for each micro-batch."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

import pyarrow as pa

from skyband.stream.arrow import json_value

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.stream.notices import Notice


@dataclass(frozen=True)
class Resident:
    """The driver's own engine, to look into. It stands still while a batch is reported; at other times only for the
    thread that holds `busy`."""

    monitor: Callable[[], Monitor]
    busy: threading.Lock  # held while a batch is under way


class StreamNow(NamedTuple):
    """Where a stream stands after a batch."""

    accepted: int  # rows of the batch
    latest: Any  # the latest time of a row, as JSON has it
    seconds: float | None  # the same as seconds since 1970

    @classmethod
    def all_of(cls, monitor: Monitor, before: Mapping[str, int]) -> dict[str, StreamNow]:
        """All streams of a monitor, which had accepted so many rows before the batch."""
        return {
            name: cls(
                stream.accepted - before.get(name, 0),
                json_value(stream.latest_time()),
                stream.latest_seconds(),
            )
            for name, stream in monitor.streams.items()
        }


def accepted_of(monitor: Monitor) -> dict[str, int]:
    """How many rows each stream of a monitor has accepted."""
    return {name: stream.accepted for name, stream in monitor.streams.items()}


@dataclass(frozen=True)
class BatchInfo:
    """One micro-batch, as the live view shows it."""

    batch: int
    rows: int  # rows read from files
    crossed: int  # rows that came to the driver; the others were pruned in the tasks
    changes: int
    rejects: int
    seconds: float
    tops: Mapping[str, pa.Table]  # by query: rank, score, seq and the selected columns
    replayed: bool = False  # the batch had been logged before a stop and was put out again
    tasks: tuple[tuple[str, int], ...] = ()  # host and process of every task that read rows
    reject_counts: Mapping[str, int] = field(default_factory=dict)
    waiting: Mapping[str, int] = field(default_factory=dict)  # by stream: rows stamped far ahead
    changed: pa.Table | None = None  # the batch's change table
    state_rows: int = 0  # what the engine keeps; looked at every few seconds
    state_bytes: int = 0
    lag_files: int = 0  # files that are there and not read
    lag_records: int = 0  # records that are there and not read, as of the batch before
    resident: Resident | None = None  # where the state is in the driver
    queries: Mapping[str, str] = field(
        default_factory=dict
    )  # those that held in the batch, by name: their SQL
    streams: Mapping[str, StreamNow] = field(default_factory=dict)
    rejected: pa.Table | None = None  # the batch's rejected rows
    notices: Sequence[Notice] = ()  # of the batch

    @property
    def rows_per_second(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0


OnBatch = Callable[[BatchInfo], None]


@dataclass(frozen=True)
class Summary:
    """What a run did, from its start to its stop."""

    batches: int
    rows: int
    changes: int
    rejects: int
    seconds: float
    stopped: bool  # by a signal, not because there was no more to read
    waiting: tuple[str, ...] = ()  # files that were left because they cannot be read yet


def lag_words(info: BatchInfo) -> str:
    """What is there and not read, in words; nothing if all is read."""
    files = f"{info.lag_files:,} file{'s' if info.lag_files != 1 else ''}" if info.lag_files else ""
    records = f"{info.lag_records:,} record{'s' if info.lag_records != 1 else ''}" if info.lag_records else ""
    return " and ".join(filter(None, [files, records]))


def size_words(size: float) -> str:
    """Bytes for people."""
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"


def print_batch(info: BatchInfo, out: TextIO | None = None) -> None:
    """The plain view: one line for each batch on standard error."""
    again = " (again)" if info.replayed else ""
    rejects = f", {info.rejects:,} rejected" if info.rejects else ""
    state = f", state {size_words(info.state_bytes)}" if info.state_bytes else ""
    lag = f", {lag_words(info)} waiting" if lag_words(info) else ""
    print(
        f"batch {info.batch}{again}: {info.rows:,} rows in {info.seconds:.2f} s "
        f"({info.rows_per_second:,.0f} rows/s), {info.crossed:,} to the driver, {info.changes:,} changes{rejects}"
        f"{state}{lag}",
        file=out or sys.stderr,
        flush=True,
    )
