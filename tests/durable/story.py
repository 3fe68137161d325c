"""A story that a monitor with a journal and its twin without one both live through, step by step."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from tests.durable.disks import Quick

import skyband as sb
from skyband.durable import Engine, Files, Settings
from skyband.query.sql.parser import parse

SMALL = Settings(segment_bytes=1500, snapshot_steps=5, background=False)
"""Bounds that let a short story begin segments, write snapshots and remove both."""

Act = Callable[[sb.Monitor, str | None], pa.Table | None]
TALKERS = parse("SELECT c FROM s ORDER BY x DESC LIMIT 3 WINDOW 8 ROWS WITH (algorithm = 'sa')")
BEYOND = parse("SELECT x FROM s WHERE x > 0.8 WINDOW 4 SECONDS")
REFUSED = parse("SELECT * FROM s ORDER BY c LIMIT 1 WINDOW 1 ROWS")  # c is no number


def rows(number: int, count: int = 4) -> dict[str, Any]:
    random = np.random.default_rng(number)
    batch: dict[str, Any] = {
        "t": (number + random.random(count) * 3 - 2).round(1),
        "x": random.random(count).round(1),
        "c": [f"{number}-{place}" for place in range(count)],
    }
    if number % 3 == 2:
        batch["x"] = ["odd", None, *batch["x"].tolist()[2:]]
    return batch


def push(batch: Any) -> Act:
    def act(monitor: sb.Monitor, key: str | None) -> pa.Table:
        return monitor.push(batch, key=key if monitor.journal is not None else None)

    return act


@functools.cache
def story() -> list[Act]:
    """Every kind of step, and one that is refused."""
    acts: list[Act] = [
        lambda m, _: m.watch(TALKERS, name="talkers") and None,
        push(rows(0)),
        lambda m, _: m.watch(BEYOND) and None,
        push(pa.table(rows(1))),
        lambda m, _: m.watches["talkers"].change(k=4, window="6 rows"),
        push(rows(2)),
        lambda m, _: m.advance(4.0),
        push({"t": ["no time"], "x": ["no number"], "wrong": [object]}),
        lambda m, _: m.watch(REFUSED) and None,
    ]
    acts += [push(rows(number)) for number in (5, 6)]
    acts += [lambda m, _: m.drop("query2"), push(rows(8)), lambda m, _: m.advance(30.0)]
    return acts


class Twin:
    """The monitor without a journal, and what each of its steps changed, by offset."""

    def __init__(self) -> None:
        self.monitor = sb.Monitor(time="t")
        self.changes: dict[int, list[dict[str, Any]]] = {}
        self.offset = 0

    def take(self, act: Act) -> None:
        self.offset += 1
        with contextlib.suppress(sb.InputError, sb.QueryError):
            table = act(self.monitor, None)
            if table is not None and table.num_rows:
                self.changes[self.offset] = table.to_pylist()

    def same(self, engine: Engine) -> None:
        """The engine is in the same state, to the last byte, and tells of the same past."""
        assert engine.offset == self.offset
        assert engine.monitor.to_bytes() == self.monitor.to_bytes()
        for name, watch in self.monitor.watches.items():
            assert engine.monitor.watches[name].top().equals(watch.top())
        assert changes_of(engine) == self.changes


def changes_of(engine: Engine) -> dict[int, list[dict[str, Any]]]:
    return {
        step.offset: step.changes.to_pylist() for step in engine.changes_since(0) if step.changes.num_rows
    }


@functools.cache
def past() -> tuple[list[bytes], dict[int, list[dict[str, Any]]]]:
    """What the story's state is after each step, as told by a monitor without a journal, and what each step changed."""
    twin = Twin()
    states = [twin.monitor.to_bytes()]
    for act in story():
        twin.take(act)
        states.append(twin.monitor.to_bytes())
    return states, twin.changes


def same(engine: Engine, offset: int) -> None:
    """The engine is where the story is after so many steps."""
    states, changes = past()
    assert engine.offset == offset
    assert engine.monitor.to_bytes() == states[offset]
    assert changes_of(engine) == {step: table for step, table in changes.items() if step <= offset}


def open_engine(folder: Path, files: Files | None = None, settings: Settings = SMALL) -> Engine:
    return Engine(sb.Monitor(time="t"), folder, settings, files or Quick())


def leave(engine: Engine) -> None:
    """Let go of the files as the end of a process does, and of nothing else."""
    engine.leave()


BIG = Settings(background=False)  # one segment, no snapshot but the first
TOP = "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 ROWS WITH (algorithm = 'sa')"


def some(folder: Path | None, settings: Settings = SMALL, steps: int = 5) -> Engine:
    engine = Engine(sb.Monitor(), folder, settings, Quick())
    engine.watch(TOP, name="top")
    for number in range(steps):
        engine.push({"x": [float(number), 0.5]}, key=f"k{number}")
    return engine


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.journal"))
