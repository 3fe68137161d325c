"""Writes the fixtures of this folder, with the source of commit 5be4cef and no other.

    git worktree add OLD 5be4cef
    PYTHONPATH=OLD/src:. .venv/bin/python -m tests.compatibility.make_fixtures [NAME ...]

Without names all of them are written. What is in the folder already is never written again: what 5be4cef did is the
truth for ever. So a scenario that is new needs its name here, and one that changes needs another name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from tests.compatibility import pipelines, recording
from tests.compatibility.scenarios import (
    JOURNALS,
    OLD_RULES,
    QUERIES,
    SCENARIOS,
    Ask,
    Push,
    Scenario,
    sources_of,
)

import skyband as sb
from skyband.durable import Engine, Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMMIT = "5be4cef"


def check_source() -> None:
    """The source must be that commit's."""
    source = Path(sb.__file__).parent

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command], cwd=source, capture_output=True, text=True, check=True
        ).stdout

    if not git("rev-parse", "HEAD").startswith(COMMIT) or git("status", "--porcelain", "."):
        sys.exit(f"{source} is not the source of {COMMIT}: see the top of {__file__}.")


def make(scenario: Scenario) -> None:
    """One scenario from begin to end, saved in the middle."""
    monitor, middle = scenario.monitor(), scenario.middle
    first = recording.play(scenario, monitor, 0, middle)
    saved, state = monitor.to_bytes(), recording.state_of(monitor)
    second = recording.play(scenario, monitor, middle)
    answers = {kind: first.answers[kind] | second.answers[kind] for kind in first.answers}
    answers |= {"middle": recording.plain(state), "end": recording.plain(recording.state_of(monitor))}
    recording.write(scenario, recording.Record(first.changes | second.changes, answers), saved)


def make_journal(scenario: Scenario, way: str) -> None:
    """A folder as a process left it after the scenario's first half."""
    short = Settings(segment_bytes=4000, snapshot_steps=9, background=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "journal"
        monitor = scenario.monitor()
        journal = Engine(monitor, folder, short if way == "snapshots" else Settings(background=False))
        last, steps = scenario.middle, {}
        if scenario is OLD_RULES:
            last = len(scenario.acts)
        while way == "unfinished" and not isinstance(scenario.acts[last - 1], Push):
            last += 1
        for number, act in enumerate(scenario.acts[:last]):
            if way == "left out" and number == 12:
                interrupted(monitor, act, number)
            with contextlib.suppress(sb.InputError, sb.QueryError):
                act.do(monitor, f"batch {number}")
            if journal.offset not in steps.values() and not isinstance(act, Ask):
                steps[number] = journal.offset
        offset, state = journal.offset, recording.plain(recording.state_of(monitor))
        if way == "closed":
            journal.close()
        else:
            journal.leave()
        if way == "unfinished":
            cut(folder)
            last, offset = last - 1, offset - 1
            del steps[last]
            before = scenario.monitor()
            recording.play(scenario, before, 0, last)
            state = recording.plain(recording.state_of(before))
        about = {"acts": last, "offset": offset, "steps": steps, "state": state}
        recording.write_journal(recording.journal_path(scenario, way), folder, about)


def interrupted(monitor: sb.Monitor, act: Push, number: int) -> None:
    """A step that was written and ends in the middle: the journal says that it must not be taken."""
    whole = monitor._push

    def half(*given: object) -> None:
        monitor._push = whole
        raise MemoryError

    monitor._push = half
    with contextlib.suppress(MemoryError, sb.JournalError):
        act.do(monitor, f"batch {number}")


def cut(folder: Path) -> None:
    """The last record is not whole."""
    segment = max(folder.glob("*.journal"))
    with open(segment, "r+b") as file:
        file.truncate(segment.stat().st_size - 100)


def session(folder: Path) -> SparkSession:
    """As the tests of Spark have it."""
    conf = {"spark.sql.shuffle.partitions": "1"}
    spec = then("config").SparkSpec(checkpoint=folder, master="local[2]", conf=tuple(conf.items()))
    started: SparkSession = then("session").start_session(spec, folder / "spark.log")
    return started


def then(name: str) -> Any:
    """A module of Spark's room, under the name that it had in 5be4cef."""
    return import_module(f"skyband.spark.{name}")


def write_files(folder: Path, numbers: range, streams: Sequence[str]) -> None:
    """Files of each stream, changed at a time that can be had again."""
    for name, source in sources_of("pipeline").items():
        for number in range(pipelines.ALL if name in streams else 0):
            rows = source.batch(15 + source.below(25))
            if number in numbers:
                file = folder / name / f"{number:03}.parquet"
                file.parent.mkdir(exist_ok=True, parents=True)
                pq.write_table(rows, file, row_group_size=23)
                os.utime(file, (pipelines.CHANGED, pipelines.CHANGED))


def halves(folder: Path, path: Path, streams: Sequence[str], run: Callable[[Path], Any]) -> None:
    """Run over the first files, keep the folder, and run over the rest: what comes of it is the truth."""
    whole, kept = folder / "whole", folder / "kept"
    write_files(whole, range(pipelines.FIRST), streams)
    run(whole)
    shutil.copytree(whole, kept)
    (kept / "later").mkdir()
    rest = range(pipelines.FIRST, pipelines.ALL)
    write_files(whole, rest, streams)
    write_files(kept / "later", rest, streams)
    about = {"folder": str(whole), "expected": run(whole)}
    (kept / "about.json").write_text(json.dumps(about, ensure_ascii=False, indent=0))
    pipelines.pack(kept, path)


def make_pipeline(placement: str, spark: SparkSession, path: Path) -> None:
    """A pipeline in a placement. Plain ones have no update stream, which would let one unit have it all."""
    place, streams = placement.split("-")[0], ["one", "two", *(["up"] if "plain" not in placement else [])]
    text = "".join(f'[stream.{name}]\npath = "{name}"\ntime = "t"\nmax_files = 1\n' for name in streams)
    text += 'key = "id"\nop = "op"\n' if "up" in streams else ""
    for name, sql in QUERIES.items():
        if "FROM still" not in sql and ("up" in streams or "FROM up" not in sql):
            text += f'[[query]]\nname = "{name}"\nsql = "{sql}"\n'
    text += '[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\n'
    text += f'prune_rows = 0\nplacement = "{place}"\nshards = 2\n'

    def run(folder: Path) -> Any:
        pipelines.go_on(folder, spark)
        return pipelines.output(folder)

    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "whole").mkdir()
        (Path(name) / "whole" / "pipeline.toml").write_text(text)
        halves(Path(name), path, streams, run)


def make_watch(shards: int, spark: SparkSession, path: Path) -> None:
    """A streaming DataFrame of changes."""
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "whole").mkdir()
        halves(Path(name), path, ["one"], lambda folder: pipelines.changes_of(folder, spark, shards))


def make_with_spark() -> None:
    """Pipelines and streaming DataFrames."""
    then("engine")._SNAPSHOT_BATCHES = 3  # one snapshot, and a step after it
    missing = [name for name in pipelines.names() if not pipelines.path_of(name).exists()]
    if not missing:
        return
    with tempfile.TemporaryDirectory() as folder:
        spark = session(Path(folder))
        for name in missing:
            kind, _, which = name.partition("-")
            if kind == "pipeline":
                make_pipeline(which, spark, pipelines.path_of(name))
            else:
                make_watch(int(which), spark, pipelines.path_of(name))
            print(name)
        spark.stop()


def main(names: list[str]) -> None:
    check_source()
    (recording.HERE / "journals").mkdir(exist_ok=True, parents=True)
    known = {**SCENARIOS, OLD_RULES.name: OLD_RULES}
    for name in names or known:
        if not recording.path_of(known[name]).exists():
            make(known[name])
            print(name)
    for name, way in JOURNALS:
        if name in (names or known) and not recording.journal_path(known[name], way).exists():
            make_journal(known[name], way)
            print(f"{name}, its journal: {way}")
    if not names:
        make_with_spark()


if __name__ == "__main__":
    main(sys.argv[1:])
