"""Queries that come and go while a pipeline runs: `skyband queries add|drop|list`.

What was added to the queries of pipeline.toml, and which of them were dropped, is one file in the checkpoint. A running
pipeline looks at it between micro-batches, and every start does. The queries then hold from the first micro-batch never
attempted: the file says what is wanted, `queries.json` what held when.
"""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from skyband.core.errors import InputError
from skyband.spark.config import (
    Pipeline,
    QuerySpec,
    check_query,
    load_pipeline,
)
from skyband.spark.jvm.files import read_json, write_json
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.session.start import reach

from .checkpoint import Checkpoint, Queries, open_checkpoint

_LOOK_SECONDS = 2.0
_LOCK_SECONDS = 20.0  # a command holds it for a moment


class Asked:
    """What was asked for beside the pipeline file."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._path = checkpoint.own / "asked.json"
        self._looked: tuple[float, Any] = (0.0, None)  # when a store was last asked, and what it said

    def stamp(self) -> Any:
        """Return something that is another after every change of the file; a store is asked every two seconds."""
        if isinstance(self._path, HadoopPath):
            if time.monotonic() >= self._looked[0]:
                found = [one for one in self._path.parent.list() if one.name == self._path.name]
                self._looked = time.monotonic() + _LOOK_SECONDS, found
            return self._looked[1]
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino, status.st_size

    def applied(self, queries: Queries) -> Queries:
        """Return the queries that hold, given those of the pipeline file."""
        added, dropped = self._read()
        kept = [query for query in queries if query.name not in dropped and query.name not in added]
        return *kept, *(QuerySpec(name, sql) for name, sql in added.items())

    def add(self, queries: Queries, query: QuerySpec) -> None:
        added, dropped = self._read()
        if query.name in {known.name for known in self.applied(queries)}:
            raise InputError(
                f"There is a query '{query.name}' already: drop it first, or choose another name."
            )
        if query in queries:
            dropped.remove(query.name)
        else:
            added[query.name] = query.sql
        self._write(added, dropped)

    def drop(self, queries: Queries, name: str) -> None:
        added, dropped = self._read()
        names = [known.name for known in self.applied(queries)]
        if name not in names:
            raise InputError(f"There is no query '{name}'; there are {', '.join(names)}.")
        if len(names) == 1:
            raise InputError(f"'{name}' is the only query, and a pipeline needs one: add another before.")
        added.pop(name, None)
        if name in {query.name for query in queries}:
            dropped.append(name)
        self._write(added, dropped)

    def _read(self) -> tuple[dict[str, str], list[str]]:
        found = read_json(self._path) or {"added": {}, "dropped": []}
        return dict(found["added"]), list(found["dropped"])

    def _write(self, added: dict[str, str], dropped: list[str]) -> None:
        write_json(self._path, {"added": added, "dropped": list(dict.fromkeys(dropped))})

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Let one command at a time change the file."""
        if isinstance(self._path, HadoopPath):
            with _held(self._path.parent / "asked.lock"):
                yield
            return
        with open(self._path.with_suffix(".lock"), "w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield


@contextlib.contextmanager
def _held(lock: HadoopPath) -> Iterator[None]:
    """An object that only one process can make; one that a killed process left goes after a while."""
    end = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            lock.put_new(b"")
            break
        except FileExistsError:
            if time.monotonic() > end:
                lock.unlink()
            time.sleep(0.2)
    try:
        yield
    finally:
        lock.unlink()


class Listed(NamedTuple):
    """A query of a pipeline, and the micro-batch from which on it holds; None: the next one."""

    name: str
    sql: str
    since: int | None


def add_query(path: str | Path, name: str, sql: str) -> None:
    """Ask a pipeline one more query, from the next micro-batch on."""
    pipeline, checkpoint, asked = _open(path)
    query = QuerySpec(name, sql)
    check_query(pipeline, query)
    schemas = checkpoint.schemas(pipeline.streams)
    if schemas is not None:
        from .engine import bound, new_monitor

        monitor = new_monitor(pipeline, schemas)
        monitor.lists_only = True
        monitor.watch(bound(query, pipeline), name=name)
    with asked.locked():
        asked.add(pipeline.queries, query)


def drop_query(path: str | Path, name: str) -> None:
    """Ask a pipeline a query no longer, from the next micro-batch on."""
    pipeline, _, asked = _open(path)
    with asked.locked():
        asked.drop(pipeline.queries, name)


def list_queries(path: str | Path) -> list[Listed]:
    """Return the queries of a pipeline, those that wait for the next micro-batch included."""
    pipeline, checkpoint, asked = _open(path)
    since: dict[QuerySpec, int] = {}
    for first, queries in checkpoint.history():
        since = {query: since.get(query, first) for query in queries}
    return [Listed(q.name, q.sql, since.get(q)) for q in asked.applied(pipeline.queries)]


def _open(path: str | Path) -> tuple[Pipeline, Checkpoint, Asked]:
    pipeline = load_pipeline(path)
    reach(pipeline)
    checkpoint = open_checkpoint(pipeline)
    return pipeline, checkpoint, Asked(checkpoint)
