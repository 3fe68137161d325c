"""What the tasks must know of the state before a batch: which rows are late.

The state is with the executors' units, and the tasks that read rows cannot see it. So after each batch every unit
reports how far back its queries reach, the driver takes the least for each stream and writes it down, and the tasks of
the next batch read that. Written before Spark commits the batch, it is there whenever the next one runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from skyband.core.errors import InputError
from skyband.core.types import LOWEST
from skyband.query.model import Joined, Last
from skyband.spark.jvm.files import read_json, write_json
from skyband.spark.jvm.paths import Place
from skyband.stream import clock

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.query.model import Query

_KEPT = 20  # frames of older batches than that go

Reach = dict[str, int | None]  # how far back a query reaches: a time key; None: it takes any row


def reach_of(monitors: Iterable[Monitor]) -> Reach:
    """How far back each query of some monitors reaches."""
    found: Reach = {}
    known: dict[Any, int | None] = {}
    for monitor in monitors:
        for name, watch in monitor.watches.items():
            stream = watch._stream
            key = (stream.name, watch.window, watch.beginning)
            if key not in known:
                full = stream._full_from(watch.window, watch.beginning)
                known[key] = None if full == LOWEST else full.time
            found[name] = known[key]
    return found


def make_frame(reach: Reach, now: int | None, kind: str | None, rows: int) -> dict[str, Any]:
    return {"reach": reach, "now": now, "kind": kind, "rows": rows}


def late_of(
    frame: Mapping[str, Any] | None,
    queries: Iterable[tuple[str, Query]],
    timed: Iterable[str],
    kept: set[str],
) -> dict[str, int | None]:
    """From which time on a row of each stream is not late, for these queries; `kept` are those that the frame knows."""
    late: dict[str, int | None] = {}
    if frame is None:
        return late
    for stream in timed:
        values = []
        for name, query in queries:
            if stream in (query.streams if isinstance(query, Joined) else (query.stream,)):
                values.append(frame["reach"].get(name) if name in kept else _fresh(frame, query))
        late[stream] = None if not values or None in values else min(v for v in values if v is not None)
    return late


def _fresh(frame: Mapping[str, Any], query: Query) -> int | None:
    """How far back a query reaches that is asked just now."""
    if not isinstance(query.window, Last) or frame["now"] is None or frame["kind"] is None:
        return None
    return clock.minus(frame["now"], query.window.nanoseconds, frame["kind"])


def write_frame(own: Place, batch: int, frame: Mapping[str, Any], late: Mapping[str, int | None]) -> None:
    """Keep what is known after a batch, and what is late in the next one."""
    write_json(_path(own, batch), {**frame, "late": late}, indent=None)
    (_path(own, batch - _KEPT)).unlink(missing_ok=True)


def read_frame(own: Place, batch: int) -> dict[str, Any] | None:
    """What is known after a batch; None before the first."""
    if batch < 0:
        return None
    try:
        return dict(read_json(_path(own, batch)))
    except (OSError, TypeError, InputError):
        raise InputError(
            f"{_path(own, batch)} cannot be read: every executor must see the checkpoint folder; if it is damaged, "
            f"start again with an empty checkpoint and output folder."
        ) from None


def late_before(own: Place, batch: int) -> dict[str, int | None]:
    """What is late in a batch, by stream."""
    frame = read_frame(own, batch - 1)
    return {} if frame is None else dict(frame["late"])


def _path(own: Place, batch: int) -> Place:
    return own / "frames" / f"{batch}.json"
