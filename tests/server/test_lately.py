"""The last minute of each stream, by a clock that the test moves."""

from __future__ import annotations

import time
from typing import Any

import pytest

import skyband as sb
from skyband.server.lately import Lately, seconds_behind, warning_of


class Watched:
    """A monitor whose steps are counted."""

    def __init__(self) -> None:
        self.now = 0.0
        self.monitor = sb.Monitor(schema={"s": {"x": "double"}, "t": {"x": "double"}})
        self.monitor.push({"x": ["before"]}, stream="s")
        self.lately = Lately(lambda: self.now)
        self.lately.begin(self.monitor)

    def push(self, values: list[Any], stream: str = "s") -> None:
        self.monitor.push({"x": values}, stream=stream)
        self.lately.step(self.monitor)

    def rows(self, stream: str = "s") -> tuple[int, int]:
        found = self.lately.of(stream)
        return found["accepted"], found["rejected"]


def test_what_is_older_than_a_minute_is_forgotten() -> None:
    watched = Watched()
    assert watched.rows() == (0, 0), "what came before the start isn't counted"
    watched.push([1.0, "a", "b"])
    watched.now = 0.7
    watched.push([2.0])
    watched.push([2.0, "c"], "t")
    assert watched.rows() == (2, 2) and watched.rows("t") == (1, 1) and watched.rows("none") == (0, 0)
    watched.now = 59.9
    assert watched.rows() == (2, 2)
    watched.now = 60.8
    watched.push(["d"])
    assert watched.rows() == (0, 1) and watched.rows("t") == (0, 0)
    watched.now = 1000.0
    assert watched.rows() == (0, 0)


def test_each_reason_has_its_latest_row_as_an_example() -> None:
    watched = Watched()
    watched.push([1.0, "first", "second"])
    (found,) = watched.lately.of("s")["rejects"]
    assert (found["reason"], found["rows"], found["seq"], found["raw"]) == ("type", 2, 3, '{"x": "second"}')
    watched.push(["x" * 10_000] * 300)
    (found,) = watched.lately.of("s")["rejects"]
    assert found["rows"] == 302 and len(found["raw"]) == 300


def test_a_stream_that_most_rows_miss_has_a_sentence() -> None:
    watched = Watched()
    assert warning_of(watched.lately.of("s")) is None
    watched.push(["a"])
    assert str(warning_of(watched.lately.of("s"))).startswith("The only row of the last minute was rejected")
    watched.push([1.0])
    assert warning_of(watched.lately.of("s")) is None, "half of them get in"
    watched.push(["a"] * 1500)
    assert warning_of(watched.lately.of("s")) == (
        "1,501 of 1,502 rows of the last minute were rejected, the reason is type: a value is not of its column's type."
    )


def test_times_that_are_no_dates_are_not_compared_with_the_clock() -> None:
    for latest in (None, 17.0, 1e12, float("nan"), -1.0):
        assert seconds_behind(latest) is None
    assert seconds_behind(time.time() - 90) == pytest.approx(90, abs=5)
    assert seconds_behind(time.time() + 3600) == pytest.approx(-3600, abs=5)


def test_a_stream_most_of_whose_rows_wait_has_a_sentence() -> None:
    m = sb.Monitor(time="t", max_ahead=10)
    lately = Lately(lambda: 0.0)
    lately.begin(m)
    for times in ([0.0, 500.0], [501.0, 502.0], [1.0]):
        m.push({"t": times, "x": times})
        lately.step(m)
        if times[0] == 0.0:
            assert warning_of(lately.of(next(iter(m.streams)))) is None
    found = lately.of(next(iter(m.streams)))
    assert (found["accepted"], found["waiting"], found["rejected"]) == (2, 3, 0)
    said = warning_of(found)
    assert said is not None and said.startswith("3 of 5 rows of the last minute wait, stamped far ahead")
