"""What a pipeline knows of its past.

Spark keeps its own offsets and commits in the checkpoint folder. Beside them, in `skyband/`, we keep:

    streams.json      the streams and their schemas, fixed by the first start
    queries.json      which queries hold from which batch on
    asked.json        which queries `skyband queries` added to those of the pipeline file, and which it dropped
    files.jsonl       the arrival order of files (see `filelog`)
    refused.json      the batch that a strict stream did not take, until the next start
    batches.jsonl     up to which file each batch reads
    steps/N.step      what batch N brought to the engine, as the tasks sent it
    snapshots/N.snap  the engine after batch N

A step is written before the engine takes it and before anything is put out. So a batch that Spark asks for
again is either not there, then nothing of it was ever shown, or it is there, then the same bytes meet the same
state and the same output comes out again. The engine of batch N is the newest snapshot before N and the steps
since; a snapshot or step with a wrong checksum counts as absent, one in another format (see `blob`) is an error.
Two snapshots are kept, and the steps since the older one.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.core.blob import FORMAT, check_format
from skyband.core.errors import InputError
from skyband.spark.config import (
    OUR_SOURCE,
    Pipeline,
    QuerySpec,
    StreamSpec,
    sources_of,
)
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.jvm.files import (
    append_line,
    damaged,
    frame,
    read_frame,
    read_json,
    read_lines,
    write_atomic,
    write_json,
)
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place

Queries = tuple[QuerySpec, ...]


@dataclass(frozen=True)
class Step:
    """One micro-batch as it came from the tasks: (stream, sifted rows) in arrival order."""

    batch: int
    parts: tuple[tuple[str, bytes], ...]
    read: int  # rows in the files
    crossed: int  # rows that came to the driver
    tasks: tuple[tuple[str, int], ...] = ()  # host and process of every task


class Checkpoint:
    """The folder of one pipeline's checkpoint."""

    def __init__(self, folder: Place, sources: tuple[str, ...] = (OUR_SOURCE,)) -> None:
        self.folder = folder
        self.sources = sources  # in the order of Spark's offset log
        self.own = folder / "skyband"
        self.files = self.own / "files.jsonl"
        self._batches = self.own / "batches.jsonl"
        self._steps = self.own / "steps"
        self._snapshots = self.own / "snapshots"
        self._driver: int | None = None  # the number of this process, in a store
        self._history: list[tuple[int, Queries]] | None = (
            None  # what queries.json says; only this process writes it
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process at a time may run a pipeline on a checkpoint.

        On a disk the second one is refused. A store has no locks that end with their process: there every driver takes
        the next number, the one with the greatest goes on, and one before it is stopped by `check_owner`."""
        if isinstance(self.own, HadoopPath):
            self._driver = self._next_driver(self.own / "drivers")
            yield
            return
        self.own.mkdir(parents=True, exist_ok=True)
        with open(self.own / "lock", "w") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise InputError(
                    f"Another process runs a pipeline on the checkpoint {self.folder}: stop it first."
                ) from None
            yield

    def _next_driver(self, drivers: HadoopPath) -> int:
        mine = json.dumps({"host": socket.gethostname(), "process": os.getpid()}).encode()
        while True:
            there = self._drivers(drivers)
            number = max(there, default=0) + 1
            try:
                (drivers / str(number)).put_new(mine)
            except FileExistsError:
                continue  # another one, at the same moment
            except OSError as problem:
                raise InputError(
                    f"The checkpoint folder {self.folder} cannot be written ({problem}): choose another in [spark], or "
                    f"see to its rights."
                ) from None
            for old in there:
                (drivers / str(old)).unlink()
            return number

    def _drivers(self, drivers: HadoopPath) -> list[int]:
        return [int(one.name) for one in drivers.list() if one.name.isdigit()]

    def check_owner(self) -> None:
        """Raise a sentence if another driver has begun to work on this checkpoint since this one did."""
        if self._driver is None:
            return
        assert isinstance(self.own, HadoopPath)
        drivers = self.own / "drivers"
        last = max(self._drivers(drivers), default=0)
        if last != self._driver:
            what = "has" if last else "had"
            raise InputError(
                f"Another process {what} the checkpoint {self.folder}: it was started later, so this one stops; let "
                f"only one of them run."
            )

    # -- streams

    def schemas(self, streams: tuple[StreamSpec, ...]) -> dict[str, pa.Schema] | None:
        """The schemas fixed by the first start, or None before it; an error if the streams are others now."""
        stored = self._read_json("streams.json")
        if stored is None:
            return None
        if [s["name"] for s in stored] != [s.name for s in streams]:
            raise self._changed("The streams are not those")
        for old, new in zip(stored, streams, strict=True):
            for key, value in _identity(new).items():
                if old.get(key) != value:  # what an older version did not know yet was not there
                    raise self._changed(f"'{key}' of stream '{new.name}' is not that")
        try:
            return {s["name"]: pa.ipc.read_schema(pa.py_buffer(base64.b64decode(s["arrow"]))) for s in stored}
        except (OSError, ValueError):
            raise damaged(self.own / "streams.json") from None

    def fix_schemas(self, streams: tuple[StreamSpec, ...], schemas: dict[str, pa.Schema]) -> None:
        """Write the streams down, for ever."""
        records = []
        for spec in streams:
            arrow = base64.b64encode(schemas[spec.name].serialize().to_pybytes()).decode()
            records.append({"name": spec.name, **_identity(spec), "arrow": arrow})
        self._write_json("streams.json", records)

    # -- queries

    def first_new(self) -> int:
        """The first batch that was never attempted."""
        attempted = [-1]
        for folder in (self.folder / "offsets", self._steps):
            if folder.is_dir():
                attempted += [int(p.stem) for p in folder.iterdir() if p.stem.isdigit()]
        attempted += [record["batch"] for record in read_lines(self._batches)]
        return max(attempted) + 1

    def queries(self, batch: int) -> Queries:
        """The queries in force at a batch."""
        return next((queries for first, queries in reversed(self.history()) if first <= batch), ())

    def sql_of(self, batch: int) -> dict[str, str]:
        """The SQL of the queries in force at a batch, by name."""
        return {query.name: query.sql for query in self.queries(batch)}

    def history(self) -> list[tuple[int, Queries]]:
        """Which queries hold, each with the first batch that they hold in."""
        if self._history is None:
            self._history = [
                (record["from"], tuple(QuerySpec(name, sql) for name, sql in record["queries"]))
                for record in self._read_json("queries.json") or []
            ]
        return self._history

    def set_queries(self, first: int, queries: Queries) -> None:
        """Let `queries` hold from batch `first` on."""
        history = [r for r in self._read_json("queries.json") or [] if r["from"] < first]
        if self.queries(first - 1) != queries or not history:
            history.append({"from": first, "queries": [[q.name, q.sql] for q in queries]})
        self._write_json("queries.json", history)
        self._history = None

    # -- batches and steps

    def write_batch(self, batch: int, offset: dict[str, Any], rows: int) -> None:
        """Note what a batch reads, before anything of it is put out."""
        append_line(self._batches, {"batch": batch, "end": offset, "rows": rows})

    def write_step(self, step: Step, offset: dict[str, Any]) -> None:
        """Write a step down, before anything is done with it."""
        self.write_batch(step.batch, offset, step.read)
        header = {
            "format": FORMAT,
            "batch": step.batch,
            "streams": [stream for stream, _ in step.parts],
            "read": step.read,
            "crossed": step.crossed,
            "end": offset,
            "tasks": step.tasks,
        }
        write_atomic(self._steps / f"{step.batch}.step", frame(header, *(blob for _, blob in step.parts)))

    def step(self, batch: int, offset: dict[str, Any] | None = None) -> Step | None:
        """The step of a batch, if it was written whole (and, with `offset`, of the same files)."""
        found = _read(self._steps / f"{batch}.step")
        if found is None:
            return None
        header, blobs = found
        if header["batch"] != batch or (offset is not None and header["end"] != offset):
            return None
        parts = tuple(zip(header["streams"], blobs, strict=True))
        tasks = tuple((host, pid) for host, pid in header["tasks"])
        return Step(batch, parts, header["read"], header["crossed"], tasks)

    def first(self, stream: str) -> Any:
        """What a source of Spark's own has written down when it was made: where it begins."""
        path = self.folder / "sources" / str(self.sources.index(stream)) / "0"
        try:
            return json.loads(path.read_text().splitlines()[1])
        except (OSError, IndexError, ValueError):
            raise InputError(f"{path} cannot be read: the checkpoint is damaged.") from None

    def offset(self, batch: int) -> dict[str, Any]:
        """The files that Spark has put into a batch: its own log, written before the batch runs."""
        path = self.folder / "offsets" / str(batch)
        try:
            found: dict[str, Any] = {}
            _, settings, *lines = path.read_text().splitlines()
            json.loads(settings)
            for name, line in zip(self.sources, lines, strict=True):
                end = None if line == "-" else json.loads(line)
                if name == OUR_SOURCE:
                    found.update(end or {})
                elif end is not None:
                    found[name] = end
            return found
        except (OSError, IndexError, ValueError):
            raise damaged(path) from None

    def committed(self, batch: int) -> bool:
        """Whether Spark will not ask for a batch again; there is nothing to ask for before batch 0."""
        return batch < 0 or (self.folder / "commits" / str(batch)).exists()

    def last_commit(self) -> int:
        """The last batch that Spark has committed; -1 if there is none."""
        return max(self._plain_numbers("commits"), default=-1)

    def batches(self) -> dict[int, dict[str, Any]]:
        """Up to which file each batch reads, for all batches ever."""
        return {record["batch"]: record["end"] for record in read_lines(self._batches)}

    def check_format(self) -> None:
        """An error if another version wrote the newest step or snapshot: better now than after Spark has started."""
        for folder, suffix in ((self._snapshots, ".snap"), (self._steps, ".step")):
            for number in sorted(self._numbers(folder, suffix))[-1:]:
                _read(folder / f"{number}{suffix}")

    def repair(self) -> None:
        """Cut off torn ends of logs; only the one running pipeline calls it."""
        read_lines(self._batches, repair=True)

    def check_offsets(self) -> None:
        """An error if the offsets that Spark goes on from are not those that we noted when their batch ran: nothing
        else would notice a number that has become another, and rows would be left out or read twice. (A batch that was
        not committed may be another one of its number: a machine that lost its power may have kept our note alone.)"""
        last = self.last_commit()
        noted = self.batches().get(last)
        path = self.folder / "offsets" / str(last)
        if noted is not None and path.exists() and self.offset(last) != noted:
            raise damaged(path)

    def check_whole(self, streams: tuple[StreamSpec, ...]) -> None:
        """An error if something is missing or cannot be read that a batch has left, ours or Spark's: to go on without
        it would be to begin again in the middle, or leave out what it was to say."""
        last, planned = self.last_commit(), max(self._plain_numbers("offsets"), default=-1)
        if max(last, planned) < 0:
            return
        needed = [self.own / "streams.json", self.own / "queries.json"]
        if (self.folder / "state").is_dir():
            needed.append(self.own / "shards.json")
        for path in needed:
            if read_json(path) is None:
                raise damaged(path)
        for path in (self.folder / "metadata", self.folder / "commits" / str(last)):
            if (path.name == "metadata" or last >= 0) and not _is_log(path):
                raise damaged(path)
        if last > planned:
            raise damaged(self.folder / "offsets" / str(last))
        if planned > 0:
            self.offset(planned - 1)  # where the last one begins
        if last >= 0 and last not in self.batches():
            raise damaged(self._batches)
        log, end = FileLog(self.files), self.offset(planned)
        for spec in streams:
            if spec.files and len(log.taken(spec.name)) < end.get(spec.name, 0):
                raise damaged(self.files)

    def _plain_numbers(self, folder: str) -> list[int]:
        """The batches that one of Spark's own logs knows."""
        path = self.folder / folder
        return [int(p.name) for p in path.iterdir() if p.name.isdigit()] if path.is_dir() else []

    # -- batches that strict refused

    def refuse(self, batch: int) -> None:
        """Note that nothing of a batch was taken: its files may be mended before the next start."""
        self._write_json("refused.json", {"batch": batch})

    def read_again(self, streams: list[StreamFiles]) -> None:
        """Let the files of a batch that was refused be what they are now. No row of them has been counted."""
        found = self._read_json("refused.json")
        if found is None:
            return
        batch = int(found["batch"])
        if not self.committed(batch) and self.step(batch) is None:
            before = self.offset(batch - 1) if batch else {}
            end = self.offset(batch)
            log = FileLog(self.files, writer=True)
            for stream in streams:
                log.again(stream, before.get(stream.name, 0), end.get(stream.name, 0))
        (self.own / "refused.json").unlink(missing_ok=True)

    # -- snapshots

    def write_snapshot(self, batch: int, queries: Queries, state: bytes) -> None:
        """Keep the engine after a batch; older snapshots and steps that nothing needs any more go."""
        header = {"format": FORMAT, "batch": batch, "queries": [[q.name, q.sql] for q in queries]}
        write_atomic(self._snapshots / f"{batch}.snap", frame(header, state))
        keep = sorted(self._numbers(self._snapshots, ".snap"))[-2:]
        # With one snapshot only, all steps before it may still be needed should it turn out torn.
        oldest = keep[0] if len(keep) == 2 else -1
        for folder, suffix in ((self._snapshots, ".snap"), (self._steps, ".step")):
            for number in self._numbers(folder, suffix):
                gone = number < oldest if suffix == ".snap" else number <= oldest
                if gone:
                    (folder / f"{number}{suffix}").unlink(missing_ok=True)

    def snapshots_before(self, batch: int) -> Iterator[tuple[int, Queries, bytes | None]]:
        """(batch, queries, state) of usable snapshots, newest first; last of all the empty one before batch 0."""
        for number in sorted(self._numbers(self._snapshots, ".snap"), reverse=True):
            found = _read(self._snapshots / f"{number}.snap") if number < batch else None
            if found is not None:
                header, blobs = found
                yield number, tuple(QuerySpec(n, s) for n, s in header["queries"]), blobs[0]
        yield -1, (), None

    def unreadable(self, problem: Exception) -> InputError | None:
        """The sentence for what Spark keeps and can't read; None if a problem is another."""
        torn = re.search(r"Checksum error: file:(/\S+) at ", str(problem))
        if torn is not None and Path(torn[1]).is_relative_to(str(self.folder)):
            return damaged(Path(torn[1]))
        found = re.search(r"\[(?:CANNOT_LOAD_STATE_STORE|STDS_\w+)[.\w]*\] (.*)", str(problem))
        if found is None:
            return None
        return InputError(
            f"The state in {self.folder / 'state'} cannot be read ({found[1].strip().rstrip('. ')[:300]}): bring it "
            f"back from a copy, or start again with an empty checkpoint and output folder."
        )

    def _numbers(self, folder: Place, suffix: str) -> list[int]:
        if not folder.is_dir():
            return []
        return [int(p.stem) for p in folder.iterdir() if p.suffix == suffix and p.stem.isdigit()]

    def _read_json(self, name: str) -> Any:
        return read_json(self.own / name)

    def _write_json(self, name: str, value: Any) -> None:
        write_json(self.own / name, value)

    def _changed(self, what: str) -> InputError:
        return InputError(
            f"{what} which the checkpoint {self.folder} began with: undo the change, or start again with another "
            f"checkpoint and output folder."
        )


def _read(path: Place) -> tuple[dict[str, Any], list[bytes]] | None:
    """A step or a snapshot; None if it isn't there whole."""
    found = read_frame(path)
    if found is not None:
        again = ", or start again with an empty checkpoint and output folder"
        check_format(found[0].get("format", 1), str(path), again)
    return found


def _is_log(path: Place) -> bool:
    """Whether a file of Spark's is there and says something: a JSON object, in a log after a line with a version."""
    try:
        lines = path.read_text().splitlines()
        return isinstance(json.loads(lines[-1]), dict) and (path.name != "metadata" or _has_id(lines[-1]))
    except (OSError, IndexError, ValueError):
        return False


def _has_id(text: str) -> bool:
    return (
        re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", str(json.loads(text).get("id")))
        is not None
    )


def _identity(spec: StreamSpec) -> dict[str, Any]:
    """What of a stream may not change under a checkpoint."""
    schema = None if spec.schema is None else [list(pair) for pair in spec.schema]
    return {
        "format": spec.format,
        "path": spec.text,
        "time": spec.time,
        "time_unit": spec.time_unit,
        "schema": schema,
        "key": spec.key,
        "op": spec.op,
        "max_ahead": spec.max_ahead,
    }


def open_checkpoint(pipeline: Pipeline) -> Checkpoint:
    """The checkpoint of a pipeline; an error if its folder cannot be written."""
    folder = pipeline.spark.checkpoint
    if isinstance(folder, HadoopPath):
        return Checkpoint(folder, sources_of(pipeline))
    try:
        (folder / "skyband").mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise InputError(f"The checkpoint folder {folder} cannot be made: {problem.strerror}.") from None
    if not os.access(folder, os.W_OK):
        raise InputError(f"The checkpoint folder {folder} is not writable: choose another in [spark].")
    return Checkpoint(folder.resolve(), sources_of(pipeline))
