"""Strict: a batch with a missing or an unknown column, or with a row that would be rejected, is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import skyband as sb

TOP = "SELECT id, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS"
GOOD = {"ts": [1.0, 20.0], "id": ["a", "b"], "x": [1.0, 2.0]}


def watching(**options: Any) -> sb.Monitor:
    m = sb.Monitor(time="ts", **options)
    m.watch(TOP, name="q")
    return m


UNFIT: dict[str, tuple[Any, str]] = {
    "missing": ([{"ts": 21.0, "id": "c"}], 'missing column "x"'),
    "misspelt": ([{"ts": 21.0, "id": "c", "X": 1.0}], 'has "X": rename it'),
    "unknown": ([{"ts": 21.0, "id": "c", "x": 1.0, "more": 1}], 'unknown column "more"'),
    "no time": ([{"id": "c", "x": 1.0}], 'missing column "ts"'),
    "type": ([{"ts": 21.0, "id": "c", "x": 1.0}, {"ts": 21.0, "id": "c", "x": "y"}], r"Row 1 of .*type: "),
    "time": ([{"ts": None, "id": "c", "x": 1.0}, {"ts": 25.0, "id": "c", "x": 1.0}], r"Row 0 of .*\(time: "),
}


@pytest.mark.parametrize("case", sorted(UNFIT))
@pytest.mark.parametrize("where", ["monitor", "push", "stream", "journal"])
def test_nothing_of_it_is_taken(case: str, where: str, tmp_path: Path) -> None:
    batch, said = UNFIT[case]
    options: dict[str, Any] = {
        "monitor": {"strict": True},
        "stream": {"strict": {"s": True, "t": False}},
    }.get(where, {})
    if where == "journal":
        options = {"strict": True, "journal": tmp_path / "j"}
    m = watching(**options)
    m.push(GOOD, stream="s")
    before = m.to_bytes()
    with pytest.raises(sb.StrictError, match=said) as problem:
        m.push(batch, strict=True) if where == "push" else m.push(batch)
    assert str(problem.value).endswith(".") and "\n" not in str(problem.value)
    assert m.to_bytes() == before and m.rows_seen == 2 and m.rejects().num_rows == 0
    m.push({"ts": [22.0], "id": ["d"], "x": [5]})
    assert m.watches["q"].top()["seq"].to_pylist() == [2, 1]
    m.push(batch, strict=False)
    assert m.rows_seen == 3 + len(batch)
    m.close()


def test_late_rows_do_not_count() -> None:
    m = watching(strict=True)
    m.push(GOOD)
    m.push({"ts": [1.0, 21.0], "id": ["a", "b"], "x": [9.0, 3.0]})
    assert m.reject_counts["late"] == 1 and m.watches["q"].top()["x"].to_pylist() == [3.0, 2.0]
    m.push({"ts": [22.0], "id": ["c"], "x": [4]})  # a lossless cast
    assert m.watches["q"].top()["x"].to_pylist() == [4.0, 3.0, 2.0]


def test_types_still_widen() -> None:
    m = sb.Monitor(strict=True)
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS")
    m.push({"x": 1})
    m.push({"x": 1.5})
    assert w.top()["x"].to_pylist() == [1.5, 1.0]


def test_a_first_batch_leaves_no_trace() -> None:
    m = watching(strict=True)
    m.advance(3.0)
    before = m.to_bytes()
    with pytest.raises(sb.StrictError):
        m.push([{"ts": 1.0, "id": "a", "x": 1.0}, {"ts": 1.0, "id": "a", "x": "y"}], stream="s")
    assert m.to_bytes() == before
    with pytest.raises(sb.StrictError):
        m.push([{"ts": 1.0, "id": "a", "x": 1.0}, {"ts": "soon", "id": "a", "x": 1.0}], stream="t")
    m.push({"ts": ["2024-02-29T12:00:00"], "id": ["a"], "x": [1]}, stream="u")
    m.push({"ts": ["2024-02-29T12:00:00"], "id": ["a"], "y": [1]}, stream="v")
    with pytest.raises(sb.StrictError):
        m.push([{"a": 1}, {"a": "b"}, {"ts": None}], stream="w")
    assert sorted(m.streams) == ["u", "v"]


def test_a_declared_schema() -> None:
    m = sb.Monitor(schema={"x": "double", "y": "double"}, strict=True)
    m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS")
    with pytest.raises(sb.StrictError, match='unknown column "z"'):
        m.push({"x": [1.0], "z": [1.0]})
    m.push({"x": [1.0]})  # no query reads y
    assert m.rows_seen == 1


def test_an_update_stream() -> None:
    m = sb.Monitor(key="id", op="op", strict=True)
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 9 ROWS")
    m.push({"id": ["a"], "op": ["insert"], "x": [1.0]})
    for batch, said in (
        ({"id": ["a"], "op": ["upsert"], "x": [1.0]}, r"\(op: "),
        ({"id": [None], "op": ["insert"], "x": [1.0]}, r"\(key: "),
        ({"id": ["b"], "x": [1.0]}, 'missing column "op"'),
    ):
        with pytest.raises(sb.StrictError, match=said):
            m.push(batch)
    assert w.top().num_rows == 1 and m.rows_seen == 1


def test_it_is_saved_and_can_be_turned_off(tmp_path: Path) -> None:
    m = watching(strict=True)
    m.push(GOOD)
    m.save(tmp_path / "m")
    loaded = sb.Monitor.load(tmp_path / "m")
    with pytest.raises(sb.StrictError):
        loaded.push([{"ts": 2.0}])
    loaded.set_strict(False)
    loaded.push([{"ts": 2.0}])


@pytest.mark.parametrize("snapshot", [True, False])
def test_a_journal_repeats_what_strict_refused(tmp_path: Path, snapshot: bool) -> None:
    def end(m: sb.Monitor) -> None:
        assert m.journal is not None
        m.close() if snapshot else m.journal.leave()

    wrong = [{"ts": 21.0, "id": "c"}]
    m = sb.Monitor(journal=tmp_path / "j", time="ts", strict=True)
    m.watch(TOP, name="q")
    m.push(GOOD)
    with pytest.raises(sb.StrictError):
        m.push(wrong, key="one")
    end(m)
    m = sb.Monitor(journal=tmp_path / "j", strict=False)
    assert m.rows_seen == 2
    m.push(wrong, key="one")
    end(m)
    m = sb.Monitor(journal=tmp_path / "j", strict=True)
    assert m.rows_seen == 3 and m.notices()["notice"].to_pylist() == ["missing column"]
    with pytest.raises(sb.StrictError):
        m.push(wrong)
    m.push([{"ts": 22.0, "id": "d", "x": 7}])
    before = m.watches["q"].rows()
    end(m)
    with sb.Monitor(journal=tmp_path / "j") as m:
        assert m.rows_seen == 4 and m.watches["q"].rows() == before


@pytest.mark.parametrize("strict", ["yes", 1, {"s": "no"}])
def test_what_strict_can_be(strict: Any) -> None:
    with pytest.raises(sb.InputError, match="strict= must be True or False"):
        sb.Monitor(strict=strict)
