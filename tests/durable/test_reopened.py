"""Any mixture of steps, repeats, snapshots and reopenings: the twin without a journal is always in the same state."""

from __future__ import annotations

import contextlib
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st
from tests.durable.disks import Quick
from tests.durable.story import SMALL, leave, rows
from tests.durable.test_saved_files import feed

import skyband as sb
from skyband.durable import Engine, Settings
from skyband.query.sql.parser import parse

QUERIES = [
    parse(text)
    for text in (
        "SELECT c FROM s ORDER BY x DESC LIMIT 3 WINDOW 8 ROWS WITH (algorithm = 'sa')",
        "SELECT x FROM s ORDER BY x + 1 LIMIT 2 WINDOW 5 SECONDS WITH (algorithm = 'sa')",
        "SELECT * FROM s WHERE x > 0.6 WINDOW 10 ROWS",
        "SELECT c, SUM(x) FROM s GROUP BY c ORDER BY SUM(x) DESC LIMIT 2 WINDOW 9 ROWS",
        "SELECT x FROM s ORDER BY c LIMIT 3 WINDOW 8 ROWS",  # refused once c is known to be a text
    )
]
NAMES = ["a", "b", "c"]
Act = tuple[Any, ...]

acts = st.one_of(
    st.tuples(st.just("push"), st.integers(0, 30), st.integers(0, 6)),
    st.tuples(st.just("push"), st.integers(0, 30), st.integers(0, 6)),
    st.tuples(st.just("advance"), st.integers(-3, 40)),
    st.tuples(st.just("watch"), st.integers(0, len(QUERIES) - 1), st.sampled_from([None, *NAMES])),
    st.tuples(st.just("drop"), st.sampled_from(NAMES)),
    st.tuples(
        st.just("change"),
        st.sampled_from(NAMES),
        st.sampled_from([None, 0, 1, 4]),
        st.sampled_from([None, "3 rows", "12 rows", "2 seconds"]),
    ),
    st.tuples(st.just("repeat"), st.integers(0, 30)),
    st.just(("snapshot",)),
    st.just(("close",)),
    st.just(("kill",)),
)


def take(monitor: sb.Monitor, act: Act, key: str | None) -> Any:
    """A step; None for one that is refused, or of a watch that isn't there."""
    kind, *given_ = act
    with contextlib.suppress(sb.InputError, sb.QueryError):
        if kind == "push":
            return monitor.push(rows(*given_), key=key)
        if kind == "advance":
            return monitor.advance(float(given_[0]))
        if kind == "watch":
            monitor.watch(QUERIES[given_[0]], name=given_[1])
        elif given_[0] in monitor.watches:
            if kind == "drop":
                monitor.drop(given_[0])
            else:
                monitor.watches[given_[0]].change(k=given_[1], window=given_[2])
    return None


class Pair:
    """A monitor with a journal that is opened again and again, and its twin."""

    def __init__(self, folder: Path, timed: bool, settings: Settings) -> None:
        self.folder, self.settings = folder, settings
        self.twin = sb.Monitor(time="t" if timed else None)
        self.engine = Engine(sb.Monitor(time="t" if timed else None), folder, settings, Quick())
        self.pushed: dict[str, tuple[Act, int]] = {}  # batches with their keys and offsets
        self.told: dict[int, Any] = {}  # changes by offset

    def act(self, number: int, act: Act) -> None:
        engine = self.engine
        if act[0] == "snapshot":
            engine.snapshot()
        elif act[0] in ("close", "kill"):
            engine.close() if act[0] == "close" else leave(engine)
            self.engine = Engine(sb.Monitor(), self.folder, self.settings, Quick())
        elif act[0] == "repeat":
            if self.pushed:
                key, (batch, offset) = list(self.pushed.items())[act[1] % len(self.pushed)]
                receipt = engine.push(rows(*batch[1:]), key=key)
                assert receipt.repeated and receipt.offset == offset
        else:
            key = f"key {number}" if act[0] == "push" else None
            changes, expected = take(engine.monitor, act, key), take(self.twin, act, None)
            assert (changes is None) == (expected is None)
            if changes is not None and key is not None:
                self.pushed[key] = act, engine.offset
            if changes is not None and changes.num_rows:
                self.told[engine.offset] = expected.to_pylist()
        self.check()

    def check(self) -> None:
        assert self.engine.monitor.to_bytes() == self.twin.to_bytes()
        steps = self.engine.changes_since(0)
        assert {s.offset: s.changes.to_pylist() for s in steps if s.changes.num_rows} == self.told


@given(st.booleans(), st.booleans(), st.lists(acts, max_size=25))
def test_it_goes_on_as_if_nothing_had_happened(timed: bool, small: bool, story: list[Act]) -> None:
    settings = Settings(segment_bytes=1000, snapshot_steps=4 if small else 1000, background=False)
    with tempfile.TemporaryDirectory() as folder:
        pair = Pair(Path(folder) / "j", timed, settings)
        for number, act in enumerate([*story, ("kill",)]):
            pair.act(number, act)
        pair.engine.close()


def test_several_streams_and_all_options(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.timestamp("us")), ("x", pa.float64()), ("c", pa.string())])
    options: dict[str, Any] = {
        "time": "t", "schema": {"a": schema, "b": schema}, "retain": sb.rows(50), "max_ahead": "1 hour",
    }  # fmt: skip
    twin, engine = sb.Monitor(**options), Engine(sb.Monitor(**options), tmp_path / "j", SMALL, Quick())
    for monitor in (twin, engine.monitor):
        monitor.watch(
            "SELECT c FROM a ORDER BY x DESC LIMIT 3 WINDOW 40 ROWS WITH (algorithm = 'sa')", name="a"
        )
        monitor.watch("SELECT * FROM b WHERE x > 0.9 WINDOW 20 SECONDS", name="b")
    for number in range(9):
        for one, other in zip(feed(twin, number), feed(engine.monitor, number), strict=True):
            assert one.to_pylist() == other.to_pylist()
        engine.leave()
        engine = Engine(sb.Monitor(**options if number % 2 else {}), tmp_path / "j", SMALL, Quick())
        assert engine.monitor.to_bytes() == twin.to_bytes()
    assert engine.monitor.reject_counts == twin.reject_counts and sum(twin.reject_counts.values())
    engine.close()


def test_an_update_stream(tmp_path: Path) -> None:
    twin, engine = (
        sb.Monitor(key="id", op="op"),
        Engine(sb.Monitor(key="id", op="op"), tmp_path / "j", SMALL, Quick()),
    )
    for monitor in (twin, engine.monitor):
        monitor.watch("SELECT id, x FROM s ORDER BY x DESC LIMIT 2 WINDOW 50 ROWS", name="best")
    for number in range(9):
        ops = ["insert", "update", "delete" if number % 3 == 2 else "c", "odd" if number % 4 == 3 else "u"]
        batch = {
            "op": ops,
            "id": [number, number // 2, number - 2, 1],
            "x": [number * 7 % 5, 1.5, 2.5, 3.5 + number],
        }
        assert twin.push(batch).to_pylist() == engine.push(batch).changes.to_pylist()
        engine.leave()
        engine = Engine(sb.Monitor(), tmp_path / "j", SMALL, Quick())
        # not byte by byte: tma also counts the work of building its index again
        assert engine.monitor.watches["best"].top().equals(twin.watches["best"].top())
        assert engine.monitor.rejects().equals(twin.rejects())
    assert engine.monitor.update_counts == twin.update_counts
    engine.close()
