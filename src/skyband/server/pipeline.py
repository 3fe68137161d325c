"""The answers of a pipeline on Spark, shown as an embedded engine's are.

The pipeline runs in a thread of the server, as `skyband run` runs it, with the same checkpoint and the same sinks.
After each micro-batch it hands over its answers and changes; they are all that is kept here. A micro-batch is a step:
its offset is its number plus one. What was put out before the server started is read from the output folder, where that
holds Parquet.

Rows come from where the pipeline file says, and so do the queries: a push or a new query is refused with a sentence.

The score-time picture is taken from the driver's engine between two batches, without the faint points of the window's
rows, which never come to the driver. Where the state is in the executors there is none.
"""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError, SkybandError
from skyband.files.source import Openable
from skyband.query.model import Last
from skyband.query.sql.parser import parse
from skyband.query.text import to_sql
from skyband.server import allowed
from skyband.server.guard import Names
from skyband.server.hub import Entry, Hub
from skyband.server.lately import Lately, seconds_behind, warning_of
from skyband.server.numbers import Numbers, state_of
from skyband.server.problems import Problem, no_query
from skyband.server.service import top_of
from skyband.server.settings import Settings
from skyband.stream.arrow import json_rows
from skyband.stream.notices import Notices
from skyband.stream.rejects import Reject

if TYPE_CHECKING:
    from skyband.engine.explain import Plan
    from skyband.spark.config import StreamSpec
    from skyband.spark.session.progress import BatchInfo, Resident, StreamNow

log = logging.getLogger("skyband")

_STOP_SECONDS = 40.0  # for the batch under way, and for Spark itself
_PATIENCE = 2.0  # seconds that a picture waits for the batch under way


class PipelineService:
    """A running pipeline, with the methods of skyband.server.service.Service."""

    readonly = True
    sampler: Any = None

    def __init__(self, settings: Settings, path: str, start: bool = True) -> None:
        from skyband.spark.config import load_pipeline
        from skyband.spark.session.start import reach

        if importlib.util.find_spec("pyspark") is None:
            raise InputError("Spark isn't installed: install it with pip install 'skyband[spark]'.")
        self.settings = settings
        self.path = path
        self.pipeline = load_pipeline(path)
        self._set_queries({query.name: query.sql for query in self.pipeline.queries})
        self.numbers = Numbers()
        self.hub = Hub(settings.max_changes, self.tops)
        self.on_step: Callable[[set[str] | None], None] = lambda names: None
        self.problem: BaseException | None = None
        self._lock = threading.Lock()
        self._tops: dict[str, pa.Table] = {}
        self._rejects: dict[str, int] = {}
        self._waiting: dict[str, int] = {}  # by stream
        self._streams: dict[str, StreamNow] = {}
        self._lately, self._notices = Lately(), Notices()
        self._notices.silent = True  # the run logs them
        self._resident: Resident | None = None
        self._crossed = 0  # rows that came to the driver
        self._state: tuple[float, dict[str, Any]] = 0.0, {"state_rows": 0, "state_bytes": 0, "window_rows": 0}
        self._stop = threading.Event()
        reach(self.pipeline)
        self._begin()
        self._thread = threading.Thread(target=self._run, name="skyband-pipeline", daemon=True)
        if start:
            self._thread.start()

    # -- the pipeline --------------------------------------------------------------------------------------

    def _run(self) -> None:
        from skyband.spark.pipeline import run_pipeline

        try:
            run_pipeline(self.path, on_batch=self.batch, stopping=self._stop)
        except BaseException as problem:
            self.problem = problem
            said = (
                str(problem) if isinstance(problem, SkybandError) else f"{type(problem).__name__}: {problem}"
            )
            log.error("the pipeline has ended: %s", said.splitlines()[0] if said else type(problem).__name__)
            if not self._stop.is_set():
                os.kill(
                    os.getpid(), signal.SIGTERM
                )  # a server that shows nothing new had better not seem alive

    def batch(self, info: BatchInfo) -> None:
        """After each micro-batch, in the pipeline's thread."""
        offset = info.batch + 1
        changes = info.changed
        with self._lock:
            if offset <= self.hub.offset and info.replayed:
                changes = None  # its changes were sent before the restart
            self._tops = dict(info.tops)
            if info.queries and info.queries != self.specs:
                self._set_queries(info.queries)
            self._rejects = dict(info.reject_counts)
            self._waiting = dict(info.waiting)
            self._streams = dict(info.streams)
            self._note(info)
            self._resident = info.resident
            self._crossed += info.crossed
        self._look_at_state(info)
        self.numbers.step(info.rows, info.changes)
        self.numbers.pushed(info.seconds, 0)
        names: set[str] = set()
        entry = None
        if changes is not None and changes.num_rows:
            entry = Entry(offset, changes)
            names = entry.names
        self.hub.add(max(offset, self.hub.offset), entry)
        self.on_step(names)

    def _note(self, info: BatchInfo) -> None:
        """Count a batch in the last minute of each stream."""
        rejects = [] if info.rejected is None else info.rejected.select(list(Reject._fields)).to_pylist()
        accepted = {name: one.accepted for name, one in info.streams.items()}
        self._lately.batch(accepted, (Reject(**each) for each in rejects), info.notices)
        for notice in info.notices:
            self._notices.add(notice)

    def _set_queries(self, queries: Mapping[str, str]) -> None:
        self.specs = dict(queries)
        self.models = {name: parse(sql) for name, sql in queries.items()}

    def _look_at_state(self, info: BatchInfo) -> None:
        """How much is kept. Looking at every query takes a while, so it is done seldom."""
        began = time.monotonic()
        if began < self._state[0]:
            return
        found = {"state_rows": info.state_rows, "state_bytes": info.state_bytes, "window_rows": 0}
        if info.resident is not None:
            found = state_of(info.resident.monitor())
        now = time.monotonic()
        self._state = now + max(1.0, 50 * (now - began)), found

    def _begin(self) -> None:
        """What an earlier run has put out."""
        folder = self.pipeline.sink.path
        if folder is None or self.pipeline.sink.format != "parquet":
            return
        batches = sorted(
            (int(file.stem.removeprefix("batch-")), file)
            for file in (folder / "changes").glob("batch-*.parquet")
            if file.stem.removeprefix("batch-").isdigit()
        )
        if not batches:
            return
        entries, held, first = [], 0, 0
        for number, file in reversed(batches):
            changes = _read(file)
            held += changes.num_rows
            if held > self.settings.max_changes:
                first = number + 1
                break
            if changes.num_rows:
                entries.append(Entry(number + 1, changes))
        self.hub.begin(batches[-1][0] + 1, first, reversed(entries))
        top = folder / "top" / "top.parquet"
        if top.exists():
            self._tops = _kept_tops(_read(top))

    def close(self) -> None:
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOP_SECONDS)

    def failure(self) -> BaseException | None:
        """Return what ended the pipeline, if something did."""
        return self.problem

    def unready(self) -> str | None:
        return None if self.problem is None else "The pipeline has ended: the server's log says why."

    def notes(self) -> list[str]:
        return [f"{self.path}: starting Spark"]

    @property
    def offset(self) -> int:
        return self.hub.offset

    @property
    def time(self) -> str | None:
        return self.pipeline.streams[0].time if self.pipeline.streams else None

    # -- answers -------------------------------------------------------------------------------------------

    def streams(self) -> list[dict[str, Any]]:
        with self._lock:
            return [self._about(spec) for spec in self.pipeline.streams]

    def _about(self, spec: StreamSpec) -> dict[str, Any]:
        """Return a stream: its columns and settings, where it stands in time, and its last minute."""
        lately, now = self._lately.of(spec.name), self._streams.get(spec.name)
        return {
            "name": spec.name,
            "columns": [{"name": name, "type": kind} for name, kind in spec.schema or ()],
            "schema": dict(spec.schema) if spec.schema else None,
            "time": spec.time,
            "key": spec.key,
            "op": spec.op,
            "time_unit": spec.time_unit,
            "max_ahead": spec.max_ahead,
            "strict": spec.strict,
            "rows": self.numbers.rows,
            "waiting": self._waiting.get(spec.name, 0),
            "now": None if now is None else now.latest,
            "latest": None if now is None else now.latest,
            "behind": seconds_behind(None if now is None else now.seconds),
            "last_minute": lately,
            "notices": self._lately.notices(spec.name, self._notices.by_what.values()),
            "warning": warning_of(lately),
        }

    def queries(self) -> list[dict[str, Any]]:
        return [self.query(name) for name in self.specs]

    def query(self, name: str) -> dict[str, Any]:
        if name not in self.models:
            raise no_query(name)
        model = self.models[name]
        return {
            "name": name,
            "sql": to_sql(model),
            "k": getattr(model, "k", None),
            "window": str(model.window),
            "algorithm": self._plan(name).algorithm,
            "kind": type(model).__name__.lower(),
            "stream": getattr(model, "stream", None) or "",
        }

    def _plan(self, name: str) -> Plan:
        return _plan(self.models[name], name)

    def top(self, name: str, most: int) -> dict[str, Any]:
        offset, table = self.top_table(name)
        return top_of(name, offset, table.slice(0, most)) | {"total": table.num_rows}

    def top_table(self, name: str, k: int | None = None, wanted: str | None = None) -> tuple[int, pa.Table]:
        if name not in self.models:
            raise no_query(name)
        if wanted is not None:
            raise Problem(
                "read_only",
                "A pipeline's answers are of the windows that its file names: leave window= away.",
            )
        with self._lock:
            offset, table = self.hub.offset, self._tops.get(name)
        if table is None:
            table = pa.table({"rank": pa.array([], pa.int32()), "score": pa.array([], pa.float64())})
        known = getattr(self.models[name], "k", None)
        if k is not None and known is not None and k > known:
            raise Problem("bad_query", f'"{name}" has {known} ranks: ask for as many or fewer.')
        return offset, table if k is None else table.slice(0, k)

    def tops(self, wanted: Names) -> tuple[int, dict[str, Any]]:
        with self._lock:
            offset, tops = self.hub.offset, dict(self._tops)
        return offset, {
            name: json_rows(table) for name, table in tops.items() if wanted is None or name in wanted
        }

    def explain(self, name: str) -> dict[str, Any]:
        self.query(name)
        plan = self._plan(name)
        return {"text": str(plan), "plan": plan.to_dict()}

    def check(self, sql: str) -> dict[str, Any]:
        query = allowed.read_query(sql, self.settings)
        plan = _plan(query, "this")
        about = {
            "sql": plan.sql, "k": plan.k, "window": plan.window, "algorithm": plan.algorithm,
            "kind": type(query).__name__.lower(), "stream": getattr(query, "stream", None) or "",
            "columns": [output.name for output in query.select or ()],
        }  # fmt: skip
        return {"ok": True, "query": about, "explain": str(plan)}

    def streams_of(self, sql: str) -> list[str]:
        query = allowed.read_query(sql, self.settings)
        return list(getattr(query, "streams", None) or [getattr(query, "stream", None) or ""])

    def rejects(self, most: int, streams: Names = None) -> dict[str, Any]:
        """Return the last rejected rows of these streams, from the output folder where that holds Parquet."""
        with self._lock:
            counts = dict(self._rejects)
        rows: list[dict[str, Any]] = []
        folder = self.pipeline.sink.path
        if folder is not None and self.pipeline.sink.format == "parquet" and most:
            files = [*(folder / "rejects").glob("batch-*.parquet")]
            for file in sorted(files, key=lambda file: file.stat().st_mtime_ns, reverse=True):
                found = json_rows(_read(file))
                rows = [row for row in found if streams is None or row["stream"] in streams] + rows
                if len(rows) >= most:
                    break
        return {"rejects": rows[-most:] if most else [], "counts": counts}

    def stats(self) -> dict[str, Any]:
        with self._lock:
            rejects = dict(self._rejects)
        return {
            "rows": self.numbers.rows,
            "now": None,
            "offset": self.hub.offset,
            "rejects": rejects,
            "rejected": sum(rejects.values()),
            "queries": len(self.specs),
            "waiting": 0,
            **self._state[1],
            "pruned": round(1 - self._crossed / self.numbers.rows, 6) if self.numbers.rows else None,
            **self.numbers.summary(),
            "subscribers": self.hub.readers,
            "missed": self.hub.missed,
        }

    # -- what only an engine of one's own can do -----------------------------------------------------------

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Problem(
            "read_only",
            f"This server shows the pipeline {Path(self.path).name}: its rows and queries come from there; change the "
            "file, or start skyband serve without one.",
        )

    submit = set_stream = restarted_with = restart = advance = watch = drop = change = _refuse

    def picture(self, name: str) -> dict[str, Any]:
        """Return the picture of the driver's engine, between two batches."""
        from skyband.server.picture import picture

        self.query(name)
        resident = self._resident
        if resident is None:
            raise Problem(
                "read_only",
                "There is no picture yet: it comes with the pipeline's first batch, and never where placement is "
                "executors, which keep the state to themselves.",
            )
        if not resident.busy.acquire(timeout=_PATIENCE):
            raise Problem("busy", "The pipeline is in the middle of a batch: the picture comes after it.")
        try:
            watch = resident.monitor().watches.get(name)
            if watch is None:
                raise no_query(name)
            return picture(watch)
        finally:
            resident.busy.release()


def _plan(query: Any, name: str) -> Plan:
    """The plan of a query before any row has come."""
    from skyband.engine.monitor import Monitor

    return Monitor(time="ts" if isinstance(query.window, Last) else None).watch(query, name).explain()


def _read(file: Openable) -> pa.Table:
    import pyarrow.parquet as pq

    with file.open("rb") as data, pq.ParquetFile(data) as parquet:
        return parquet.read()


def _kept_tops(table: pa.Table) -> dict[str, pa.Table]:
    """Return the answers of top.parquet by query: rank, score, then the selected columns."""
    tops: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        values = json.loads(row["row"])
        own = {"rank": row["rank"], "score": row["score"]}
        tops.setdefault(row["query"], []).append(own | {n: v for n, v in values.items() if n not in own})
    return {name: _table(rows) for name, rows in tops.items()}


def _table(rows: list[dict[str, Any]]) -> pa.Table:
    names = list(dict.fromkeys(name for row in rows for name in row))
    columns = []
    for name in names:
        values = [row.get(name) for row in rows]
        try:
            columns.append(pa.array(values))
        except (pa.ArrowInvalid, pa.ArrowTypeError):  # an infinity, as text, among numbers
            columns.append(pa.array([None if value is None else str(value) for value in values]))
    return pa.table(columns, names=names)
