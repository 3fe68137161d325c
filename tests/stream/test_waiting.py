"""Rows that are stamped far ahead wait: every case of the rule, and everything against the oracle."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import Question, Twin

import skyband as sb
from skyband.algorithms import CARDS, REGISTRY

TOP = "SELECT x FROM s ORDER BY x DESC LIMIT 9 WINDOW 100 ROWS"


def ahead(*times: float, seconds: Any = "10 seconds", **options: Any) -> Any:
    m = sb.Monitor(time="t", max_ahead=seconds, **options)
    m.watch(TOP, name="w")
    feed(m, *times)
    return m


def feed(m: Any, *times: float, **options: Any) -> list[int]:
    """Push rows with these times; the seqs of the rows that are in the answer now, by time."""
    m.push({"t": list(times), "x": [float(t) for t in times]}, **options)
    m._check()
    return seqs(m)


def seqs(m: Any) -> list[int]:
    found = m.watches["w"].top()
    return sorted(found["seq"].to_pylist())


def waits(m: Any) -> list[int]:
    return [int(seq) for stream in m.streams.values() for seq in stream.waiting.all_seq]


def kinds(m: Any) -> dict[str, int]:
    return {n["notice"]: n["rows"] for n in m.notices().to_pylist()}


def test_a_row_far_ahead_waits_until_time_comes_near() -> None:
    m = ahead(100.0)
    assert feed(m, 130.0) == [0] and waits(m) == [1] and m.now == 100.0
    assert feed(m, 110.0, 119.0) == [0, 2, 3]
    assert feed(m, 120.0) == [0, 1, 2, 3, 4]  # 130 is 10 after it
    assert m.now == 130.0 and not waits(m) and not m.reject_counts["ahead"]
    assert kinds(m) == {"waiting": 1}


def test_it_is_taken_with_the_seq_of_its_arrival() -> None:
    m = ahead(0.0)
    feed(m, 15.0)
    changes = m.push({"t": [7.0], "x": [1.0]})
    assert changes["seq"].to_pylist() == [1, 2] and changes["change"].to_pylist() == ["enter"] * 2
    assert changes["time"].to_pylist() == [15.0, 7.0]


def test_rows_of_one_step_are_gone_through_in_order_of_time() -> None:
    m = ahead(100.0)
    assert feed(m, 128.0, 119.0, 110.0) == [0, 1, 2, 3]
    assert feed(m, 150.0, 139.0, 129.0) == [0, 1, 2, 3, 5, 6]  # 139 is not near enough for 150
    assert waits(m) == [4]


def test_the_first_step_starts_at_the_earliest_time() -> None:
    m = ahead(1.7e12, 1.7e9, 1.7e9 + 1)
    assert seqs(m) == [1, 2] and waits(m) == [0] and m.now == 1.7e9 + 1


def test_the_first_step_starts_where_most_rows_are() -> None:
    m = ahead(5.0, 1.7e9, 1.7e9 + 1)
    assert seqs(m) == [0, 1, 2] and m.now == 1.7e9 + 1
    m = ahead(5.0, 6.0, 1000.0, 1001.0)  # half is not most
    assert seqs(m) == [0, 1] and waits(m) == [2, 3]
    m = ahead(5.0, 100.0, 1000.0, 1001.0)  # the earliest of those that are ahead
    assert seqs(m) == [0, 1] and waits(m) == [2, 3] and m.now == 100.0


def test_three_steps_ahead_start_time_again_at_their_median(caplog: pytest.LogCaptureFixture) -> None:
    m = ahead(100.0)
    feed(m, 5000.0, 9999.0)
    feed(m, 5001.0)
    with caplog.at_level(logging.WARNING, "skyband"):
        assert feed(m, 5002.0) == [0, 1, 3, 4]  # the median of 5000, 5001, 5002, 9999
    assert "jumped" in caplog.text and "5001.0" in caplog.text
    assert m.now == 5002.0 and waits(m) == [2]
    assert kinds(m) == {"waiting": 3, "jumped": 1}


def test_a_row_that_fits_starts_the_count_again() -> None:
    m = ahead(100.0)
    for times in ((1000.0,), (1001.0,), (101.0, 1002.0), (1003.0,), (1004.0,)):
        feed(m, *times)
    assert m.now == 101.0 and waits(m) == [1, 2, 4, 5, 6]
    feed(m, 1005.0)
    assert m.now == 1005.0 and not waits(m)


def test_a_late_row_starts_the_count_again_and_other_rejects_do_not() -> None:
    m = sb.Monitor(time="t", max_ahead=10)
    m.watch("SELECT x FROM s ORDER BY x LIMIT 2 WINDOW 5 SECONDS", name="w")
    m.push({"t": [100.0], "x": [1.0]})
    m.push({"t": [1000.0], "x": [1.0]})
    m.push({"t": [1001.0, None], "x": [1.0, 1.0]})
    m.push({"t": [1002.0, 5.0], "x": [1.0, 1.0]})
    assert m.now == 100.0 and m.reject_counts["late"] == 1
    m.push({"t": [1003.0], "x": [1.0]})
    m.push([{"t": 1004.0, "x": 1.0}, {"t": 1004.0, "x": "no"}])
    m.push({"t": pa.array([], pa.float64()), "x": pa.array([], pa.float64())})
    assert m.now == 100.0
    m.push({"t": [1004.0], "x": [1.0]})
    assert m.now == 1004.0 and m.reject_counts["type"] == 1


def test_waiting_rows_are_judged_by_the_same_rule_after_a_jump() -> None:
    m = ahead(0.0)
    feed(m, 500.0)
    for t in (1000.0, 1001.0, 1002.0):
        feed(m, t, 9000.0 + t)
    # the median of 1000, 1001, 1002 and 10000, 10001, 10002 is 1002; 500 lies before it
    assert m.now == 1002.0 and waits(m) == [3, 5, 7]
    assert seqs(m) == [0, 1, 2, 4, 6]


def test_an_advance_releases_rows() -> None:
    m = ahead(100.0)
    feed(m, 1000.0)
    changes = m.advance(995.0, force=True)
    assert changes["seq"].to_pylist() == [1] and m.now == 1000.0


def test_one_stream_releases_the_rows_of_another() -> None:
    m = sb.Monitor(time="t", max_ahead=10)
    m.push({"t": [0.0], "x": [1.0]}, stream="a")
    m.push({"t": [0.0], "x": [1.0]}, stream="b")
    m.watch("SELECT x FROM a ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS", name="w")
    m.push({"t": [15.0], "x": [2.0]}, stream="a")
    changes = m.push({"t": [6.0], "x": [1.0]}, stream="b")
    assert changes["seq"].to_pylist() == [2] and m.now == 15.0


def test_each_stream_may_have_its_own() -> None:
    m = sb.Monitor(time="t", max_ahead={"a": 10, "b": "1 hour"})
    for name in ("a", "b", "c"):
        m.push({"t": [0.0], "x": [1.0]}, stream=name)
    m.push({"t": [1000.0], "x": [1.0]}, stream="a")
    m.push({"t": [990.0], "x": [1.0]}, stream="b")
    assert m.now == 1000.0
    m.push({"t": [2000.0], "x": [1.0]}, stream="a")
    m.push({"t": [9000.0], "x": [1.0]}, stream="c")  # it has none: any time is taken
    assert m.now == 9000.0 and not waits(m)


def test_a_stream_that_comes_later_starts_where_its_rows_are() -> None:
    m = sb.Monitor(time="t", max_ahead=10)
    m.push({"t": [0.0], "x": [1.0]}, stream="a")
    m.push({"t": [5000.0], "x": [1.0]}, stream="b")
    assert m.now == 5000.0


def test_at_most_so_many_rows_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.stream.waiting.MOST", 3)
    m = ahead(100.0)
    feed(m, 1000.0, 1001.0)
    feed(m, 1003.0, 101.0, 1002.0, 999.0)
    assert waits(m) == [1, 2, 3]
    assert [(r["seq"], r["reason"]) for r in m.rejects().to_pylist()] == [(5, "ahead"), (6, "ahead")]
    assert "3 rows wait already" in m.rejects()["detail"][0].as_py()
    with pytest.raises(sb.StrictError, match="ahead"):
        feed(m, 1004.0, strict=True)
    assert m.rows_seen == 7


def test_waiting_rows_are_not_against_strict() -> None:
    m = ahead(100.0)
    feed(m, 1000.0, strict=True)
    assert waits(m) == [1]


def test_an_overtaken_row() -> None:
    m = sb.Monitor(time="t", key="id", op="op", max_ahead=10)
    w = m.watch("SELECT id, x FROM s ORDER BY x DESC LIMIT 9 WINDOW 1 DAY")

    def push(t: float | None, key: int, x: float, op: str = "u") -> list[tuple[int, float]]:
        m.push([{"t": t, "id": key, "x": x, "op": op}])
        m._check()
        return [(r["id"], r["x"]) for r in w.rows()]

    assert push(100.0, 1, 1.0) == [(1, 1.0)]
    assert push(115.0, 1, 2.0) == [(1, 1.0)]  # waits
    assert push(115.0, 2, 3.0) == [(1, 1.0)]
    assert push(101.0, 1, 5.0) == [(1, 5.0)]
    assert push(115.0, 3, 4.0) == [(1, 5.0)]
    assert [(r["seq"], r["reason"]) for r in m.rejects().to_pylist()] == [(1, "overtaken")]
    assert push(None, 2, 0.0, "d") == [(1, 5.0)]  # a delete is newer, too
    assert [(r["seq"], r["reason"]) for r in m.rejects().to_pylist()][1:] == [(2, "overtaken")]
    assert push(106.0, 4, 6.0) == [(4, 6.0), (1, 5.0), (3, 4.0)]
    assert m.reject_counts["overtaken"] == 2
    assert m.update_counts == {"new": 3, "replaced": 1, "deleted": 0, "unknown": 1}


def test_a_receipt_is_about_its_own_rows(tmp_path: Path) -> None:
    with sb.Monitor(time="t", key="id", max_ahead=10, journal=tmp_path / "j") as m:
        for t in (100.0, 115.0, 101.0):
            receipt = m.journal.push([{"t": t, "id": 1, "x": 1.0}])
            assert receipt.rejected == 0
        assert [notice.notice for notice in receipt.notices] == []
        assert m.reject_counts["overtaken"] == 1
        waits_again = m.journal.push([{"t": 999.0, "id": 1, "x": 1.0}])
        assert [notice.notice for notice in waits_again.notices] == ["waiting"]
        assert not m.journal.restart("s").notices


def test_a_restart_drops_waiting_rows() -> None:
    m = ahead(100.0)
    feed(m, 1000.0)
    m.restart("s")
    assert not waits(m) and m.now is None
    assert feed(m, 5.0) == [2]


def test_saved_and_journalled(tmp_path: Path) -> None:
    plain = ahead(100.0)
    with ahead(100.0, journal=tmp_path / "j") as kept:
        for m in (plain, kept):
            feed(m, 130.0, 1000.0)
            feed(m, 1001.0)
    saved = sb.Monitor.from_bytes(plain.to_bytes())
    with sb.Monitor(journal=tmp_path / "j") as again:
        for m in (plain, saved, again):
            feed(m, 1002.0)  # one of the steps had a row that fitted no step
            feed(m, 110.0, 120.0)
            assert seqs(m) == seqs(plain) and m.now == plain.now and waits(m) == waits(plain)
        assert again.notices().equals(plain.notices())


def test_types_that_widen_while_rows_wait() -> None:
    m = sb.Monitor(time="t", max_ahead=10)
    w = m.watch("SELECT * FROM s ORDER BY x DESC LIMIT 9 WINDOW 9 ROWS")
    m.push([{"t": 0, "x": 1}])
    m.push([{"t": 15, "x": 2}])
    m.push([{"t": 1.5, "x": 3.5, "c": "new"}])
    m.push([{"t": 5, "x": 4, "c": "d"}])
    assert [(r["x"], r["c"]) for r in w.rows()] == [(4.0, "d"), (3.5, "new"), (2.0, None), (1.0, None)]


def test_explain_counts_them() -> None:
    m = ahead(100.0)
    feed(m, 1000.0, 2000.0)
    assert "2 rows that wait, stamped far ahead" in str(m.watches["w"].explain())


JITTER = [0, 0, 0, 1, 2, 3, -2, 8, 15, 40, 200]


@st.composite
def far_rows(draw: st.DrawFn, nulls: bool = True) -> list[dict[str, Any]]:
    """Rows along time, some of them far ahead."""
    moment, found = 0, []
    values = st.sampled_from([0.0, 1.0, 2.0, 3.0, *([None] if nulls else [])])
    for _ in range(draw(st.integers(1, 24))):
        moment += draw(st.sampled_from([0, 1, 1, 2, 4]))
        found.append(
            {
                "x": draw(values),
                "y": draw(values),
                "c": draw(st.sampled_from(["a", "b", None])),
                "t": moment + draw(st.sampled_from(JITTER)),
            }
        )
    return found


NAMES = [
    "plain",
    *(name for name, card in CARDS.items() if name in REGISTRY and card.exact and name != "threshold"),
]


def questions(name: str) -> st.SearchStrategy[Question]:
    """Any question, and of one algorithm those that share one compiled score."""
    if name == "plain":
        return draws.questions(True)
    made = draws.questions(True, [name], threshold=False)
    return made.map(lambda q: replace(q, score="x", where="", descending=True))


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
def test_every_algorithm_equals_the_oracle(name: str, data: st.DataObject) -> None:
    """Steps cut in any way, several streams, advances, copies in between."""
    streams = data.draw(st.sampled_from([("s",), ("r1", "r2")]))
    retain = data.draw(st.sampled_from([None, ("rows", 5), ("seconds", 6)]))
    kind = data.draw(st.sampled_from(["whole", "timestamp", "number"]))
    twin = Twin(kind, max_ahead=data.draw(st.sampled_from([3, 8])), streams=streams, retain=retain)
    for stream in streams:
        for number in range(2):
            question = data.draw(questions(name))
            twin.watch(f"{stream}{number}", replace(question, stream=stream))
    for batch in data.draw(far_rows().flatmap(draws.cuts)):
        twin.push(list(batch), data.draw(st.sampled_from(streams)) if len(streams) > 1 else None)
        what = data.draw(st.integers(0, 5))
        if what == 0:
            twin.reload()
        if what == 1 and twin.oracle.now is not None:
            twin.advance(twin.oracle.now + 2)
    check_notices(twin)


def check_notices(twin: Twin) -> None:
    found = [n for n in twin.monitor.notices().to_pylist() if n["notice"] in ("waiting", "jumped")]
    for kind in ("waiting", "jumped"):
        rows = sum(n["rows"] for n in found if n["notice"] == kind)
        assert rows == sum(count for what, count in twin.oracle.notices if what == kind)
