"""Beginnings, `retain` and `change`, by small examples worked out by hand from the contract."""

from __future__ import annotations

from typing import Any

import pytest

import skyband as sb
from skyband.query.window import Window

TOP = "SELECT x FROM s ORDER BY x DESC LIMIT {} WINDOW {}"


def xs(watch: Any, **asked: Any) -> list[float]:
    return watch.top(**asked)["x"].to_pylist()


def push(m: Any, *values: float) -> Any:
    return m.push({"x": [float(v) for v in values]})


def timed(m: Any, *rows: tuple[float, float]) -> Any:
    return m.push({"t": [float(t) for t, _ in rows], "x": [float(x) for _, x in rows]})


def test_a_watch_sees_only_what_comes_after_it() -> None:
    m = sb.Monitor()
    first = m.watch(TOP.format(2, "5 ROWS"), name="first")
    push(m, 9, 8, 7)
    second = m.watch(TOP.format(2, "5 ROWS"), name="second")
    assert xs(second) == []
    push(m, 1)
    assert (xs(first), xs(second)) == ([9, 8], [1])
    push(m, 2, 3)
    assert (xs(first), xs(second)) == ([8, 7], [3, 2])


@pytest.mark.parametrize("n", [1, 2, 3])
def test_a_watch_in_mid_stream_fills_its_window_and_no_more(n: int) -> None:
    m = sb.Monitor()
    m.watch(TOP.format(9, "9 ROWS"), name="before")
    push(m, 9, 8)
    w = m.watch(TOP.format(9, f"{n} ROWS"), name="after")
    told: set[float] = set()
    for value in range(7, 0, -1):
        for change in push(m, value).to_pylist():
            if change["query"] == "after":
                (told.add if change["change"] == "enter" else told.remove)(change["score"])
        assert xs(w) == list(range(min(7, value + n - 1), value - 1, -1)) == sorted(told, reverse=True)


def test_a_late_row_from_before_a_beginning_does_not_count() -> None:
    m = sb.Monitor(time="t")
    old = m.watch(TOP.format(3, "100 SECONDS"), name="old")
    timed(m, (10, 1), (20, 2))
    new = m.watch(TOP.format(3, "100 SECONDS"), name="new")
    timed(m, (15, 9), (20, 5), (19, 8), (21, 3))
    assert xs(old) == [9, 8, 5]
    assert xs(new) == [5, 3]  # 20 again is newer by its seq; 15 and 19 are older than the beginning


def test_a_watch_of_an_empty_monitor_begins_before_everything() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP.format(2, "2 ROWS"))
    timed(m, (10, 1))
    timed(m, (5, 7))
    assert xs(w) == [7, 1]


@pytest.mark.parametrize("retain", ["3 rows", "2 seconds"])
def test_with_retain_a_new_watch_sees_what_is_retained(retain: str) -> None:
    m = sb.Monitor(time="t", retain=sb.rows(3) if retain == "3 rows" else sb.last("2 seconds"))
    timed(m, (1, 9), (2, 8), (3, 7), (4, 6))
    w = m.watch(TOP.format(5, "100 SECONDS"))
    assert xs(w) == [8, 7, 6]
    changes = timed(m, (5, 1))
    assert changes["change"].to_pylist() == ["enter"] * 4
    assert changes["score"].to_pylist() == [8, 7, 6, 1]
    assert xs(w) == [8, 7, 6, 1]  # the watch keeps its own rows from then on


def test_retained_rows_come_with_their_columns() -> None:
    m = sb.Monitor(retain=sb.rows(10))
    m.push({"x": [1.0, 3.0, 2.0], "name": ["a", "b", "c"]})
    w = m.watch("SELECT name FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS")
    assert w.top()["name"].to_pylist() == ["b", "c"]


def test_retain_with_nothing_retained_begins_at_the_newest() -> None:
    m = sb.Monitor(time="t", retain=sb.last("2 seconds"))
    timed(m, (1, 9))
    m.advance(50.0)
    w = m.watch(TOP.format(2, "100 SECONDS"))
    timed(m, (50, 1))
    assert xs(w) == [1]


def test_retain_counts_as_a_window_for_lateness() -> None:
    m = sb.Monitor(time="t", retain=sb.last("10 seconds"))
    m.watch(TOP.format(2, "1 SECOND"))
    timed(m, (100, 1))
    timed(m, (95, 2), (89, 3), (90, 4))
    assert m.rejects()["seq"].to_pylist() == [2]
    assert xs(m.watch(TOP.format(9, "99 SECONDS"))) == [4, 2, 1]


def test_a_smaller_k_or_window_holds_at_once() -> None:
    m = sb.Monitor()
    w = m.watch(TOP.format(3, "5 ROWS"), name="w")
    push(m, 5, 4, 3, 2, 1)
    w.change(k=2)
    assert xs(w) == [5, 4]
    w.change(window=sb.rows(3))
    assert xs(w) == [3, 2]
    assert (w.k, w.window) == (2, sb.rows(3))
    changes = push(m)  # the next step tells what the changes did
    told = list(zip(changes["change"].to_pylist(), changes["score"].to_pylist(), strict=True))
    assert sorted(told[:2]) == [("leave", 4.0), ("leave", 5.0)]
    assert told[2:] == [("enter", 2.0)]


def test_a_larger_row_window_grows_from_the_old_one() -> None:
    m = sb.Monitor()
    w = m.watch(TOP.format(2, "2 ROWS"))
    push(m, 9, 8, 7, 6)
    w.change(window="4 rows")
    assert xs(w) == [7, 6]
    push(m, 1)
    assert xs(w) == [7, 6]
    push(m, 2, 3)
    assert xs(w) == [6, 3]


def test_a_larger_time_window_grows_from_the_old_one() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP.format(3, "2 SECONDS"), name="w")
    m.watch(TOP.format(9, "100 SECONDS"), name="holds everything, which must not show")
    timed(m, (1, 9), (8, 8), (9, 7), (10, 6))
    w.change(window="5 seconds")
    assert xs(w) == [8, 7, 6]
    timed(m, (7, 99), (8, 50))  # 7 is before the old window's start, which was 8
    assert xs(w) == [50, 8, 7]
    timed(m, (13, 1))
    assert xs(w) == [50, 8, 7]
    m.advance(14.0)
    assert xs(w) == [7, 6, 1]


def test_a_larger_k_returns_the_old_ranks_until_the_old_rows_have_left() -> None:
    m = sb.Monitor()
    w = m.watch(TOP.format(1, "3 ROWS"))
    push(m, 5, 4, 3)
    w.change(k=3)
    assert xs(w) == [5]
    push(m, 1)
    assert xs(w) == [4]
    push(m, 2)
    assert xs(w) == [3]
    push(m, 0)
    assert xs(w) == [2, 1, 0]


def test_both_are_exact_at_once_where_retained_rows_cover_them() -> None:
    m = sb.Monitor(retain=sb.rows(10))
    w = m.watch(TOP.format(1, "2 ROWS"))
    push(m, 5, 4, 3, 2)
    w.change(k=3)
    assert xs(w) == [3, 2]
    w.change(window="3 rows")
    assert xs(w) == [4, 3, 2]


JOIN = "SELECT id FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.x DESC LIMIT 9 WINDOW {}"


@pytest.mark.parametrize("retain", [None, sb.rows(2), sb.rows(9), sb.last("100 seconds")])
@pytest.mark.parametrize("window", ["100 SECONDS", "2 ROWS", "4 ROWS"])
def test_a_join_begins_with_the_oldest_row_that_any_of_its_streams_retains(
    retain: Window | None, window: str
) -> None:
    """It began where the stream began that was the last to have rows: retained rows of the others didn't count."""
    m = sb.Monitor(time="t", retain=retain)
    m.push({"t": [10.0, 20.0, 30.0], "id": [1, 2, 3], "x": [1.0, 2.0, 3.0]}, stream="r1")
    m.push({"t": [25.0], "id": [1], "x": [4.0]}, stream="r2")
    known = {1: (10.0, 1.0), 2: (20.0, 2.0), 3: (25.0, 4.0), 4: (30.0, 3.0)}
    count = 0 if retain is None else 3 if retain == sb.rows(2) else 4
    rows = list(known.values())[4 - count :][-int(window.split()[0]) :]
    ids = {10.0: 1, 20.0: 2, 25.0: 1, 30.0: 3}
    for pushed in ([], [(31.0, 5.0)]):
        if pushed:
            m.push({"t": [31.0], "id": [5], "x": [5.0]}, stream="r2")
            rows, ids = [*rows, *pushed][-int(window.split()[0]) :], {**ids, 31.0: 5}
        else:
            w = m.watch(JOIN.format(window))
        totals: dict[int, float] = {}
        for time, x in rows:
            totals[ids[time]] = totals.get(ids[time], 0.0) + x
        answer = w.top().to_pylist()
        assert {row["id"]: row["score"] for row in answer} == totals


@pytest.mark.parametrize("retain", [3, 9])
def test_a_join_without_times_counts_the_retained_rows_of_all_its_streams(retain: int) -> None:
    m = sb.Monitor(retain=sb.rows(retain))
    for value in range(6):
        m.push({"id": [value], "x": [float(value)]}, stream=f"r{1 + value % 2}")
    w = m.watch(JOIN.format("4 ROWS"))
    assert w.top()["id"].to_pylist() == [5, 4, 3, 2]
    m.push({"id": [6], "x": [6.0]}, stream="r1")
    assert w.top()["id"].to_pylist() == [6, 5, 4, 3]
    w.change(window="2 rows")
    w.change(window="5 rows")
    assert w.top()["id"].to_pylist() == [6, 5, 4, 3, 2]


def test_retained_rows_whose_columns_an_index_has_are_not_put_aside() -> None:
    """Rows without columns would be rows that nothing finds again: the next change ended in an error."""
    monitor = sb.Monitor(retain=sb.rows(50))
    one = monitor.watch("SELECT x FROM s ORDER BY x + y DESC LIMIT 3 WINDOW 20 ROWS WITH (algorithm = 'sma')")
    monitor.push(
        {"x": [float(i % 7) for i in range(60)], "y": [float(i % 5) for i in range(60)], "n": list(range(60))}
    )
    one.change(k=2)
    one.change(k=4)
    other = monitor.watch("SELECT n FROM s ORDER BY x DESC LIMIT 3 WINDOW 20 ROWS WITH (algorithm = 'ra')")
    one.change(window="30 rows")
    other.change(k=5)
    monitor.push({"x": [0.0], "y": [0.0], "n": [60]})
    assert one.top()["seq"].to_pylist() == [34, 54, 48, 39]
    assert one.top()["x"].to_pylist() == [6.0, 5.0, 6.0, 4.0]
    assert other.top()["n"].to_pylist() == [55, 48, 41, 54, 47]


def test_a_watch_can_be_dropped_and_its_name_used_again() -> None:
    m = sb.Monitor()
    m.watch(TOP.format(1, "3 ROWS"), name="w")
    push(m, 5)
    m.drop("w")
    assert list(m.watches) == []
    assert len(push(m, 6)) == 0
    w = m.watch(TOP.format(1, "3 ROWS"), name="w")
    push(m, 1)
    assert xs(w) == [1]


def test_snapshots() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP.format(3, "10 SECONDS"), name="time")
    by_rows = m.watch(TOP.format(3, "4 ROWS"), name="rows")
    timed(m, (1, 9), (5, 8), (9, 7), (10, 6), (11, 5))
    assert xs(w, k=1) == [9]
    assert xs(w, window="2 seconds") == [7, 6, 5]
    assert xs(w, k=2, window=sb.rows(1)) == [5]
    assert xs(w, k=2, window="2 rows") == [6, 5]
    assert xs(by_rows, window=sb.last("1 second")) == [6, 5]
    with pytest.raises(sb.SkybandError, match="4"):
        w.top(k=4)


def test_a_snapshot_beyond_what_is_watched_is_an_error() -> None:
    m = sb.Monitor(time="t")
    w = m.watch(TOP.format(3, "5 SECONDS"), name="time")
    by_rows = m.watch("SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 6 ROWS", name="rows")
    timed(m, *[(float(i), float(i)) for i in range(100)])
    for window in ("6 seconds", sb.last("1 minute"), "7 rows", "90 rows"):
        with pytest.raises(sb.SkybandError):
            w.top(window=window)
    assert xs(w, window="6 rows") == [99, 98, 97]  # 94 to 99: that is five seconds
    assert xs(by_rows, window="4 seconds") == [95]
    with pytest.raises(sb.SkybandError):
        by_rows.top(window="6 seconds")


def test_a_snapshot_does_not_disturb() -> None:
    m = sb.Monitor()
    w = m.watch(TOP.format(2, "4 ROWS"))
    push(m, 4, 3, 2, 1)
    assert xs(w, k=1, window="1 rows") == [1]
    assert xs(w) == [4, 3]
    assert push(m).num_rows == 0


@pytest.mark.parametrize("retain", [sb.rows(50), sb.last("1 hour")])
def test_retained_rows_say_which_are_the_last(retain: Window) -> None:
    """With event times a row window needs the recencies of its rows: retained rows have them."""
    m = sb.Monitor(time="t", retain=retain)
    w = m.watch("SELECT x FROM s ORDER BY x LIMIT 5 WINDOW 100 SECONDS")
    m.push({"t": [1.0, 2.0, 3.0, 4.0], "x": [1.0, 2.0, 3.0, 4.0]})
    m.push({"t": [5.0, 0.5], "x": [9.0, 0.0]})
    assert w.top(window="3 rows")["x"].to_pylist() == [3.0, 4.0, 9.0]
    w.change(window="2 rows")
    assert w.top()["x"].to_pylist() == [4.0, 9.0]
    m.push({"t": [5.5, 4.5], "x": [7.0, 0.0]})
    assert w.top()["x"].to_pylist() == [7.0, 9.0]


def test_retained_rows_say_that_there_are_no_others() -> None:
    """From the first moment on that is retained all rows are known, though the first row came later."""
    m = sb.Monitor(time="t", retain=sb.last("10 seconds"))
    w = m.watch(TOP.format(5, "8 SECONDS"))
    rows = m.watch(TOP.format(5, "1 ROWS"))
    timed(m, (0, 9), (97, 1), (98, 2), (100, 3))
    w.change(window="20 rows")  # was refused: which rows are the last 20 was held to be unknown
    rows.change(window="7 rows")
    assert xs(w) == xs(rows) == [3, 2, 1]
    assert xs(rows, window="4 rows") == [3, 2, 1]  # was refused too
    timed(m, (99, 4))
    assert xs(w) == [4, 3, 2, 1]
    assert xs(rows, window="2 rows") == [4, 3]
