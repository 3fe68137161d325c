"""A stream begins again: as a new one with the same watches, whatever came before."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import skyband as sb
from skyband.algorithms import REGISTRY

ROWS = {
    "rows": "SELECT x, g FROM s ORDER BY x DESC LIMIT 3 WINDOW 6 ROWS",
    "lately": "SELECT x FROM s WHERE x > 1 ORDER BY x LIMIT 2 WINDOW 5 SECONDS",
    "all": "SELECT * FROM s WHERE x > 4 WINDOW 7 ROWS",
    "pairs": "SELECT * FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 5 ROWS",
    "sums": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW 6 ROWS",
}
row = st.fixed_dictionaries(
    {"ts": st.integers(0, 20).map(float), "id": st.integers(0, 9), "x": st.integers(0, 9).map(float),
     "g": st.sampled_from(["a", "b", "c"])}
)  # fmt: skip
batches = st.lists(st.lists(row, max_size=5), max_size=4)


def fold(folded: dict[str, dict[Any, Any]], changes: pa.Table) -> None:
    for change in changes.to_pylist():
        who = change["seq"], change["seq_b"], change["id"]
        if change["change"] == "leave":
            assert folded[change["query"]].pop(who) == change["score"]
        else:
            folded[change["query"]][who] = change["score"]


@settings(max_examples=40, deadline=None)
@given(timed=st.booleans(), before=batches, after=batches, keyed=st.booleans(), retain=st.booleans())
def test_as_a_new_stream(timed: bool, before: Any, after: Any, keyed: bool, retain: bool) -> None:
    """Same changes and answers as a monitor in which nothing was before, but for the seqs."""
    options: dict[str, Any] = {"time": "ts"} if timed else {}
    queries = {name: sql for name, sql in ROWS.items() if timed or "SECONDS" not in sql}
    if keyed:
        options["key"] = "id"
        del queries["pairs"]
    if retain:
        options["retain"] = sb.rows(5)
    m = sb.Monitor(**options)
    folded: dict[str, dict[Any, Any]] = defaultdict(dict)
    for name, sql in queries.items():
        m.watch(sql, name=name)
    m.push({"ts": [0.0], "id": [1], "x": [3.0], "g": ["a"]})
    fresh = sb.Monitor(**options, schema=m.streams["s"].schema)
    fresh.watch("SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 1 ROWS", name="planned")
    m.restart()
    for name in queries:
        assert m.watches[name].top().num_rows == 0
    for batch in before:
        fold(folded, m.push(batch))
    if before and not retain:
        m.watches["rows"].change(k=5)
        m.watches["rows"].change(window="9 ROWS")
    left = m.restart()
    assert set(left["change"].to_pylist()) <= {"leave"}
    fold(folded, left)
    assert not any(folded.values())
    assert m.now is None
    m._check()
    fresh.drop("planned")
    for name, watch in m.watches.items():
        k = 5 if before and not retain and name == "rows" else watch.k
        query = queries[name].replace("LIMIT 3", f"LIMIT {k}")
        fresh.watch(query.replace("WINDOW 6 ROWS", f"WINDOW {watch.window!s}"), name=name)
    fresh._next_seq = m.rows_seen
    if before:
        m = sb.Monitor.from_bytes(m.to_bytes())
    for batch in after:
        assert m.push(batch).to_pylist() == fresh.push(batch).to_pylist()
        for name in queries:
            assert m.watches[name].top().equals(fresh.watches[name].top())
        m._check()


@pytest.mark.parametrize("name", sorted(REGISTRY))
def test_every_algorithm(name: str) -> None:
    base = "SELECT x, y FROM s ORDER BY {} LIMIT 3 WINDOW 40 ROWS WITH (algorithm = '" + name + "'{})"
    tried = [
        base.format("x DESC", ""),
        base.format("dist(x, y, 0.5, 0.5)", ""),
        base.format("x DESC", ", error = 0.1"),
        f"SELECT x, y FROM s WHERE x > 0.97 WINDOW 40 ROWS WITH (algorithm = '{name}')",
    ]
    m, fresh = sb.Monitor(), sb.Monitor()
    for sql in tried:
        try:
            m.watch(sql, name="q")
        except sb.SkybandError:
            continue
        break
    fresh.watch(sql, name="q")
    numbers = [i * 9 + j for i in range(12) for j in range(9)]
    values = [(n * 37 % 101 / 101, n * 53 % 97 / 97) for n in numbers]
    steps = [
        dict(zip("xy", map(list, zip(*values[at : at + 9], strict=True)), strict=True))
        for at in range(0, 108, 9)
    ]
    for step in steps:
        m.push(step)
    size = m.watches["q"].top().num_rows
    assert m.restart()["change"].to_pylist() == ["leave"] * size and size
    fresh._next_seq = m.rows_seen
    for step in steps:
        assert m.push(step).to_pylist() == fresh.push(step).to_pylist()
        assert m.watches["q"].top().equals(fresh.watches["q"].top())
        m._check()


BOTH = "SELECT id FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.y DESC LIMIT 5 WINDOW 1 MINUTE"
ONE = "SELECT {} FROM {} ORDER BY {} DESC LIMIT 2 WINDOW 1 MINUTE"


def joined(**options: Any) -> sb.Monitor:
    m = sb.Monitor(time="ts", **options)
    m.watch(BOTH, name="both")
    m.push({"ts": [100.0], "id": [1], "x": [1.0]}, stream="r1")
    m.push({"ts": [50.0], "id": [1], "y": [2.0]}, stream="r2")
    m.watch(ONE.format("x", "r1", "x"), name="first")
    m.watch(ONE.format("y", "r2", "y"), name="second")
    m.push({"ts": [101.0], "id": [2], "x": [5.0]}, stream="r1")
    m.push({"ts": [51.0], "id": [2], "y": [6.0]}, stream="r2")
    return m


def sizes(m: sb.Monitor) -> dict[str, int]:
    return {name: watch.top().num_rows for name, watch in m.watches.items()}


def test_another_stream_holds_the_time() -> None:
    """Then only one begins again, and its joined watches in all of their streams."""
    m = joined()
    assert sizes(m) == {"both": 2, "first": 1, "second": 1}
    left = m.restart("r2")
    assert sorted(set(left["query"].to_pylist())) == ["both", "second"]
    assert sizes(m) == {"both": 0, "first": 1, "second": 0} and m.now == 101.0
    m.push({"ts": [102.0], "id": [2], "y": [7.0]}, stream="r2")
    assert m.watches["both"].top()["score"].to_pylist() == [7.0], "r1's rows went from it, too"


def test_time_that_would_go_back_begins_again_everywhere() -> None:
    m = joined()
    left = m.restart("r1")
    assert sorted(set(left["query"].to_pylist())) == ["both", "first", "second"]
    assert sizes(m) == {"both": 0, "first": 0, "second": 0} and m.now is None
    m.push({"ts": [7.0], "id": [2], "y": [7.0]}, stream="r2")
    assert m.now == 7.0 and sizes(m) == {"both": 1, "first": 0, "second": 1}


def test_an_advance_holds_the_time_of_several_streams() -> None:
    m = joined()
    m.advance(110.0)
    m.restart("r1")
    assert m.now == 110.0 and sizes(m) == {"both": 0, "first": 0, "second": 1}
    m.restart("r2")
    assert m.now is None, "the last stream with times: the advance is forgotten"


@pytest.mark.parametrize("poison", ["row", "advance"])
def test_the_way_back_from_a_wrong_time(poison: str) -> None:
    """One row in milliseconds, or one advance, made every later row late, for ever."""
    m = sb.Monitor(time="ts")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 1 MINUTE")
    m.push({"ts": [1_700_000_000.0], "x": [1.0]})
    if poison == "row":
        m.push({"ts": [1_700_000_000_000.0], "x": [2.0]})
    else:
        m.advance(1e308)
    m.push({"ts": [1_700_000_001.0], "x": [3.0]})
    assert m.reject_counts["late"] == 1
    m.restart("s")
    m.push({"ts": [1_700_000_002.0], "x": [4.0]})
    assert w.top()["x"].to_pylist() == [4.0] and m.now == 1_700_000_002.0


def test_what_stays(tmp_path: Path) -> None:
    """Seqs go on, rejects stay counted, types stay, and a new watch begins after the restart."""
    m = sb.Monitor(retain=sb.rows(10))
    m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 5 ROWS", name="old")
    m.push([{"x": 1.0}, {"x": "text"}, {"x": 2.0}])
    m.restart()
    assert m.rows_seen == 3 and m.reject_counts["type"] == 1 and m.streams["s"].schema is not None
    assert m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 5 ROWS").top().num_rows == 0
    m.push([{"x": 1}])
    assert m.watches["old"].top()["seq"].to_pylist() == [3]
    with pytest.raises(sb.SkybandError, match='There is no stream "other" to restart: there are s, t'):
        several = sb.Monitor()
        several.push({"x": [1.0]}, stream="s")
        several.push({"x": [1.0]}, stream="t")
        several.restart("other")


def test_a_journal_repeats_it(tmp_path: Path) -> None:
    with sb.Monitor(time="ts", journal=tmp_path / "j") as m:
        m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 1 MINUTE", name="q")
        m.push({"ts": [5.0], "x": [1.0]}, stream="s")
        m.advance(1e6)
        assert m.restart("s")["change"].to_pylist() == []
        m.push({"ts": [5.0, 6.0], "x": [1.0, 2.0]}, stream="s")
        assert m.restart("s")["change"].to_pylist() == ["leave"] * 2
        m.push({"ts": [7.0], "x": [3.0]}, stream="s")
        expected = m.to_bytes()
    with sb.Monitor(journal=tmp_path / "j") as m:
        assert m.watches["q"].top()["x"].to_pylist() == [3.0] and m.now == 7.0
        assert m.to_bytes() == expected
