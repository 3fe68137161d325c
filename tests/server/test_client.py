"""`sb.connect`: a server asked with the methods of a monitor."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import skyband as sb
from skyband.core.errors import InputError, QueryError, SkybandError
from skyband.server.client import Client
from skyband.server.testing import Running

from .conftest import start

SQL = "SELECT id, x FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 SECONDS"
BEGIN = datetime(2024, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = start(data=tmp_path_factory.mktemp("client") / "data", time="ts", retain="1 hour")
    yield found
    assert found.stop() == 0 and "Traceback" not in found.said()


@pytest.fixture(scope="module")
def m(server: Running) -> Iterator[Client]:
    with sb.connect(server.url) as client:
        yield client


def batch(seconds: float, *values: float) -> dict[str, list[object]]:
    n = len(values)
    return {
        "ts": [BEGIN + timedelta(seconds=seconds)] * n,
        "id": [f"r{v:g}" for v in values],
        "x": list(values),
    }


def test_the_same_as_a_monitor(m: Client) -> None:
    """Step by step next to a monitor in this process: the same changes, answers, rejects and errors."""
    local = sb.Monitor(time="ts", retain="1 hour")
    both = (local, m)
    assert m._stream() == "rows"
    for each in both:
        each.push(batch(0, 1.0), stream="s")
        each.watch(SQL, name="q")
        each.watch(sb.above("x", 5, "1 minute"), name="high")
    assert m._stream() == "s"
    for step in (
        batch(1, 7.0, 8.0),
        batch(5, 9.0, 3.0),
        batch(12, 6.0),
        {"ts": [None], "id": ["z"], "x": [1.0]},
    ):
        one, other = (each.push(step, stream="s") for each in both)
        assert one.to_pylist() == other.to_pylist()
    later = BEGIN + timedelta(seconds=21)
    assert local.advance(later).to_pylist() == m.advance(later).to_pylist()
    for name in ("q", "high"):
        mine, theirs = local.watches[name].top(), m.watches[name].top()
        assert mine.schema.equals(theirs.schema) and mine.equals(theirs)
    assert local.watches["q"].top(k=1, window="5 seconds").equals(m.watches["q"].top(1, sb.last("5 seconds")))
    assert local.rejects().equals(m.rejects()) and local.reject_counts == m.reject_counts
    assert local.rows_seen == m.rows_seen and local.now.isoformat() == m.now
    assert m.watches["q"].explain().algorithm == local.watches["q"].explain().algorithm
    for wrong in (
        lambda each: each.watch("SELECT nothing FROM s ORDER BY x LIMIT 1 WINDOW 1 ROWS"),
        lambda each: each.watch("SELECT"),
        lambda each: each.watches["q"].top(k=99),
        lambda each: each.watches["q"].change(k=0),
        lambda each: each.advance("soon"),
    ):
        said = []
        for each in both:
            with pytest.raises((QueryError, InputError)) as error:
                wrong(each)
            said.append((type(error.value), str(error.value), getattr(error.value, "place", None)))
        assert said[0] == said[1]


def test_change_and_drop(m: Client) -> None:
    m.push(batch(21, 1.0), stream="s")
    w = m.watch(SQL, name="mine")
    w.change(k=1, window=sb.last("5 seconds"))
    assert (w.k, w.window) == (1, "5 SECONDS") and m.watches["mine"].sql == w.sql
    assert "mine" in repr(w) and m.url in repr(m)
    m.drop("mine")
    assert "mine" not in m.watches
    with pytest.raises(InputError, match='no query "mine"'):
        w.top()


def test_columns_of_several_types_and_repeats(m: Client) -> None:
    before = m.rows_seen
    rows = [{"ts": BEGIN.isoformat(), "id": "a", "x": 1.0}, {"ts": BEGIN.isoformat(), "id": 5, "x": "much"}]
    for _ in range(2):
        m.push(rows, stream="s", key="mixed")
    assert m.rows_seen == before + 2
    m.push(pa.table({"ts": [BEGIN], "id": ["b"], "x": [2.0]}), stream="s")
    assert m.rows_seen == before + 3


def test_following(m: Client, server: Running) -> None:
    steps = m.changes(from_=0, query="high")
    first = next(steps)
    assert first.offset > 0 and first.missed is None and first.changes.num_rows + len(first.queries)
    heard: list[object] = []

    def read() -> None:
        for step in sb.connect(server.url).changes():
            heard.append(step)
            return

    thread = threading.Thread(target=read)
    thread.start()
    number, end = 0, time.monotonic() + 120
    while thread.is_alive() and time.monotonic() < end:
        number += 1
        m.push(batch(22 + number / 100, 1000.0 + number), stream="s")
        thread.join(0.02)
    assert heard
    with pytest.raises(InputError, match="no query"):
        next(m.changes(query="none"))


def test_what_is_hardly_meant(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    import pandas as pd

    with sb.connect(server.url) as m:
        index = pd.date_range(BEGIN.replace(tzinfo=None) + timedelta(hours=1), periods=2, freq="s")
        m.push(pd.DataFrame({"speed": [1, 2]}, index=index), stream="lanes")
        w = m.watch("SELECT speed FROM lanes ORDER BY speed DESC LIMIT 2 WINDOW 1 MINUTE", name="lanes")
        m.push(pd.DataFrame({"speed": [3, 4]}, index=index), stream="lanes")
        assert [row["speed"] for row in w.rows()] == [4, 3] and w.tops([(1, None)])[0].num_rows == 1
        m.push(pd.DataFrame({"speed": [5]}, index=index[:1]).iloc[0], stream="lanes")
        assert w.rows(k=1)[0]["speed"] == 5
        caplog.clear()
        for _ in range(2):
            m.push({"ts": index[0], "Speed": 6}, stream="lanes")
        said = [record.getMessage() for record in caplog.records if record.name == "skyband"]
        assert said[0].startswith('missing column "speed" in stream "lanes": the batch has "Speed"')
        assert len(said) == 2, "each is logged once"
        rows = [row for row in m.notices().to_pylist() if row["stream"] == "lanes"]
        assert {(row["notice"], row["column"], row["rows"]) for row in rows} == {
            ("missing column", "speed", 2), ("unknown column", "Speed", 1),
        }  # fmt: skip
        wide = {"ts": index[0]} | {f"a rather long name of a column {number}": 1 for number in range(900)}
        caplog.clear()
        m.push(wide, stream="lanes")
        assert 0 < len(caplog.records) < 100, "all of its notices would fit no header"
        m.drop("lanes")


def test_a_server_that_comes_back(tmp_path: Path, starting: Callable[..., Running]) -> None:
    """A client goes on through a restart: a push waits for it, a reader continues."""
    server = starting(data=tmp_path / "data")
    port = server.url.rsplit(":", 1)[1]
    with sb.connect(server.url, patience=200) as m:
        m.push({"id": ["a"], "x": [1.0]}, stream="s")
        m.watch("SELECT id FROM s ORDER BY x LIMIT 3 WINDOW 9 ROWS", name="q")
        m.push({"id": ["b"], "x": [2.0]})
        steps = m.changes(from_=0)
        seen = [next(steps)]
        while seen[-1].offset < 3:
            seen.append(next(steps))
        server.kill()
        back: list[Running] = []
        thread = threading.Thread(target=lambda: back.append(starting(data=tmp_path / "data", port=port)))
        thread.start()
        m.push({"id": ["c"], "x": [3.0]})
        thread.join(200)
        assert [row["id"] for row in m.watches["q"].top().to_pylist()] == ["b", "c"]
        step = next(steps)
        assert step.offset == 4 and step.missed is None and step.changes.column("seq").to_pylist() == [2]


def test_no_server() -> None:
    with pytest.raises(SkybandError, match="is the server there"):
        sb.connect("http://127.0.0.1:9", patience=0.1)
    for wrong in ("127.0.0.1:8321", "ftp://x", "http://"):
        with pytest.raises(InputError, match="no address of a server"):
            sb.connect(wrong)
