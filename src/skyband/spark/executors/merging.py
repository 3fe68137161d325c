"""What a unit does in a micro-batch: take its parts of the rows, and report what that did to its answers.

A unit's state is one or more monitors as bytes, their own dump in a frame with a checksum; Spark keeps it in RocksDB
and in its checkpoint. (More than one after units were dealt out again: a monitor is never merged with another, it is
cut up by dropping queries, and a unit that takes over from several keeps their monitors side by side.) A worker that
still has the monitors that these very bytes were written from uses them; another worker, or one that must do the
batch again, reads the bytes.

The function `take` knows nothing of Spark: bytes and parts in, bytes and lines out, the same for the same.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.blob import FORMAT, check_format
from skyband.core.errors import InputError
from skyband.engine.pruning import Sifted
from skyband.spark.driver.engine import drop
from skyband.spark.driver.shown import answers_of
from skyband.spark.input.jobs import Packed, task
from skyband.spark.input.residents import begin_task, built, let_go
from skyband.spark.jvm.files import frame, read_frame, unframe
from skyband.spark.jvm.paths import place_of
from skyband.spark.session.progress import StreamNow, accepted_of
from skyband.spark.sinks import top_rows

from .frames import make_frame, reach_of
from .partial import answer_of
from .routing import Era, Job
from .seven import from_text, to_text
from .shards import Unit

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql.streaming.state import GroupState

    from skyband.engine.monitor import Monitor

LINE_COLUMNS = "kind string, unit bigint, query string, number bigint, blob binary"
STATE = "state string"  # see `seven`
_CODEC = "lz4"
_WRITTEN = pa.ipc.IpcWriteOptions(compression=_CODEC)
_RESIDENT = 8  # units whose monitors a worker keeps at hand
_NAME = "The state of this query in Spark's checkpoint"
_DAMAGED = f"{_NAME} is damaged: start again with an empty checkpoint and output folder."
_AGAIN = ", or start again with an empty checkpoint and output folder"


@dataclass(frozen=True)
class Part:
    """Some rows of a stream for a unit, in their place in the order of arrival."""

    order: tuple[int, int, int]
    stream: str
    blob: bytes
    task: tuple[str, int] = ("", 0)  # host and process that read them


@dataclass(frozen=True)
class Line:
    """Something that a unit reports to the driver."""

    kind: str
    query: str | None  # or several with the lengths of their answers, as JSON
    number: int
    blob: bytes


@dataclass
class _Held:
    """A unit's monitors, and the bytes that they are."""

    state: bytes
    queries: str
    monitors: list[Monitor]


_HELD: OrderedDict[int, _Held] = OrderedDict()


def stepper(
    packed: Packed,
) -> Callable[[Any, Iterator[pd.DataFrame], GroupState], Iterator[pd.DataFrame]]:
    """The stateful function: one call is one unit's micro-batch."""

    def step(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        begin_task()
        job, (batch, _) = packed.get(), task()
        parts = [part for rows in frames for part in _parts(rows)]
        before = state_bytes(state.get[0]) if state.exists else None
        number = int(key[0])
        after, lines = take(job, batch, number, parts, before)
        if after is None:
            if state.exists:
                state.remove()
        else:
            state.update((to_text(after),))
        if lines:
            rows = [(line.kind, number, line.query, line.number, line.blob) for line in lines]
            yield pd.DataFrame(rows, columns=["kind", "unit", "query", "number", "blob"])

    return step


def _parts(rows: pd.DataFrame) -> Iterator[Part]:
    for row in rows.itertuples(index=False):
        if row.blob is not None:
            order = int(row.place), int(row.number), int(row.piece)
            yield Part(order, row.stream, row.blob, (row.host, int(row.process)))


def take(
    job: Job, batch: int, key: int, parts: Sequence[Part], before: bytes | None
) -> tuple[bytes | None, list[Line]]:
    """One unit's batch: its state afterwards (None: it has none any more), and what it reports."""
    era = job.era(batch)
    unit = next((unit for unit in era.units if unit.key == key), None)
    gone = unit is None
    if key in era.moved or (gone and batch > era.first):
        return None, []
    if unit is None:
        unit = next(unit for unit in era.retired if unit.key == key)
    held = _held(job, era, unit, before)
    report = _Report(unit, everything=batch == job.begins)
    if held.queries != unit.digest:
        built()
        report.ask(held.monitors)
        held.queries = unit.digest
    report.begin(held.monitors)
    rows = _grouped(parts)
    begun = accepted_of(held.monitors[0])
    for monitor in held.monitors:
        report.changed(monitor, monitor.push_sifted(rows))
    lines = report.lines(held.monitors) + _counted(
        unit, held.monitors, rows, parts, len(before or b""), begun
    )
    if gone:
        _forget(held)
        return None, lines
    held.state = _packed(held)
    _HELD[key] = held
    _HELD.move_to_end(key)
    while len(_HELD) > _RESIDENT:
        _forget(_HELD.popitem(last=False)[1])
    return held.state, lines


def _grouped(parts: Sequence[Part]) -> list[tuple[str | None, list[Sifted]]]:
    """Parts in order of arrival, those of one stream together."""
    found: list[tuple[str | None, list[Sifted]]] = []
    for part in sorted(parts, key=lambda part: part.order):
        if not found or found[-1][0] != part.stream:
            found.append((part.stream, []))
        found[-1][1].append(Sifted.from_bytes(part.blob))
    return found


# -- state


def _held(job: Job, era: Era, unit: Unit, before: bytes | None) -> _Held:
    """The unit's monitors before the batch."""
    known = _HELD.pop(unit.key, None)
    if known is not None and known.state == before:
        return known
    if known is not None:
        _forget(known)
    built()
    return _taken_over(job, unit, first=era.first == 0) if before is None else unpacked(before)


def _forget(held: _Held) -> None:
    for monitor in held.monitors:
        let_go(monitor)


def _packed(held: _Held) -> bytes:
    """The bytes of a unit's monitors. They pass through many hands on their way to the disk and back, so they are
    compressed, which takes less time than any of these."""
    dumps = [monitor.to_bytes() for monitor in held.monitors]
    header = {"format": FORMAT, "queries": held.queries, "sizes": [len(dump) for dump in dumps]}
    return frame(header, *(pa.compress(dump, codec=_CODEC, asbytes=True) for dump in dumps))


def state_bytes(text: str) -> bytes:
    """A unit's state as Spark has it."""
    found = from_text(text)
    if found is None:
        raise InputError(_DAMAGED)
    return found


def unpacked(state: bytes) -> _Held:
    """A unit's monitors from its state, which is whole or refused."""
    from skyband.engine.monitor import Monitor

    found = unframe(state)
    if found is None:
        raise InputError(_DAMAGED)
    header, blobs = found
    check_format(header.get("format", 1), _NAME, _AGAIN)
    if "sizes" in header:  # what is handed over is not compressed, nor was anything before
        blobs = [
            pa.decompress(blob, decompressed_size=size, codec=_CODEC, asbytes=True)
            for blob, size in zip(blobs, header["sizes"], strict=True)
        ]
    held = _Held(state, header["queries"], [Monitor.from_bytes(blob) for blob in blobs])
    for monitor in held.monitors:
        _prepare(monitor)
    return held


def _taken_over(job: Job, unit: Unit, first: bool) -> _Held:
    """A unit that has no state yet: it begins with nothing, or with what older units have left for it."""
    own = place_of(job.checkpoint)
    path = own / "handover" / f"{unit.key}.state"
    found = read_frame(path)
    if found is None and path.exists():
        raise InputError(f"{path} is damaged: remove the folder it is in, and start again.")
    if found is not None:
        header, blobs = found
        check_format(header.get("format", 1), str(path), _AGAIN)
        return unpacked(blobs[0])
    if not first:
        raise InputError(
            f"The checkpoint {own.parent} has no state of unit {unit.key}: it is damaged; start again "
            f"with an empty checkpoint and output folder."
        )
    monitor = job.streams.monitor()
    monitor.share = unit.share
    _prepare(monitor)
    return _Held(b"", "", [monitor])


def _prepare(monitor: Monitor) -> None:
    monitor.lists_only = True  # tasks prune
    monitor._notices.silent = True  # the driver logs them


# -- reporting


class _Report:
    """Collects what a unit's batch did to its answers."""

    def __init__(self, unit: Unit, everything: bool) -> None:
        self._unit = unit
        self._fresh = {name for name, _ in unit.queries} if everything else set()
        self._changes: list[pa.Table] = []
        self._before: dict[str, Any] = {}
        self._gone: dict[str, Any] = {}

    def ask(self, monitors: list[Monitor]) -> None:
        """Let the unit's queries hold: others are dropped, new ones asked."""
        wanted = dict(self._unit.queries)
        there = set()
        for monitor in monitors:
            for name in list(monitor.watches):
                if name in wanted and wanted[name] == monitor.watches[name].query:
                    there.add(name)
                elif self._unit.whole:
                    self._changes.append(drop(monitor, name))
                else:
                    self._gone[name] = answer_of(monitor.watches[name])
                    monitor.drop(name)
        for name, query in wanted.items():
            if name not in there:
                monitors[0].watch(query, name=name)
                self._fresh.add(name)

    def begin(self, monitors: list[Monitor]) -> None:
        """Before the rows come: answers that the driver will have to compare."""
        if not self._unit.whole:
            self._before = {
                name: answer_of(watch) for monitor in monitors for name, watch in monitor.watches.items()
            }

    def changed(self, monitor: Monitor, changes: pa.Table) -> None:
        if self._unit.whole and changes.num_rows:
            self._changes.append(changes)
            self._fresh |= set(changes.column("query").unique().to_pylist())

    def lines(self, monitors: list[Monitor]) -> list[Line]:
        if self._unit.whole:
            found = [Line("changes", None, i, table_bytes(c)) for i, c in enumerate(self._changes)]
            return found + self._tops(monitors)
        return self._answers(monitors)

    def _tops(self, monitors: list[Monitor]) -> list[Line]:
        """The answers that have changed."""
        lines = []
        for monitor in monitors:
            watches = [watch for name, watch in monitor.watches.items() if name in self._fresh]
            for found in answers_of(watches):
                names = json.dumps([found.names, found.sizes])
                lines.append(Line("tops", names, 0, table_bytes(found.tops)))
                # Names, ranks and scores stand with the tops, and a row is mostly in many answers: each text goes once.
                rows = found.shown.column("row").combine_chunks().dictionary_encode()
                lines.append(Line("rows shown", names, 0, table_bytes(pa.table({"row": rows}))))
        return lines

    def _answers(self, monitors: list[Monitor]) -> list[Line]:
        """This unit's part of each answer, before and after."""
        lines = [Line("gone", name, 0, table_bytes(answer)) for name, answer in self._gone.items()]
        for monitor in monitors:
            for name, watch in monitor.watches.items():
                lines.append(Line("before", name, 0, table_bytes(self._before[name])))
                lines.append(Line("after", name, 0, table_bytes(answer_of(watch))))
                top = watch.top()
                shown = top_rows(name, top, watch.selected(top))
                lines.append(Line("top", name, top.num_rows, table_bytes(top)))
                lines.append(Line("shown", name, top.num_rows, table_bytes(shown)))
        return lines


def _counted(
    unit: Unit,
    monitors: list[Monitor],
    rows: list[tuple[str | None, list[Sifted]]],
    parts: Sequence[Part],
    size: int,
    begun: dict[str, int],
) -> list[Line]:
    """How far back the queries reach; of the reporting unit also what was rejected."""
    from skyband.stream.rejects import to_table

    monitor = monitors[0]
    frame_ = make_frame(reach_of(monitors), monitor._now, monitor._kind, monitor.rows_seen)
    frame_["kept"] = sum(part.kept for _, sifted in rows for part in sifted)
    frame_["bytes"] = size  # of the state before this batch
    if unit.reporter:
        frame_["tasks"] = [part.task for part in parts]
        frame_["notices"] = [list(notice) for notice in monitor.step_notices]
        frame_["streams"] = StreamNow.all_of(monitor, begun)
        frame_["waiting"] = {name: len(stream.waiting) for name, stream in monitor.streams.items()}
    lines = [Line("frame", None, 0, json.dumps(frame_).encode())]
    for other in monitors:
        other._rejects.last.clear()  # they are put out: no need to keep the last of them
    if unit.reporter:
        found = monitor.step_rejects
        lines.append(Line("rejects", None, len(found), table_bytes(to_table(found))))
        lines.append(Line("counts", None, 0, json.dumps(monitor.reject_counts).encode()))
    return lines


def table_bytes(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_WRITTEN) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


def table_of(data: bytes) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()
