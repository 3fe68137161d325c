"""The score-time picture against the brute force, and the sample of rows behind it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.compiling import jit
from skyband.core.types import Recency
from skyband.server.picture import EACH, Sample, Sampler, picture

K, ROWS = 3, 60


@pytest.fixture(autouse=True)
def plain_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few rows are not worth compiling for."""
    monkeypatch.setattr(jit, "_interpreted", True)


def rows_of(random: np.random.Generator, count: int, start: int) -> list[dict[str, Any]]:
    """Few different scores, so that there are ties."""
    return [
        {
            "ts": 1000.0 + start + i,
            "name": f"r{start + i}",
            "x": int(random.integers(0, 40)),
            "g": f"g{random.integers(0, 4)}",
        }
        for i in range(count)
    ]


def fed(
    sql: str, time: str | None = None, batches: int = 9
) -> tuple[sb.Monitor, Sampler, list[dict[str, Any]]]:
    random = np.random.default_rng(5)
    monitor, sampler = sb.Monitor(time=time), Sampler()
    monitor.watch(sql, name="q")
    everything: list[dict[str, Any]] = []
    for _ in range(batches):
        batch = rows_of(random, 20, len(everything))
        first = monitor.rows_seen
        monitor.push(batch, stream="s")
        sampler.pushed(monitor.streams["s"], batch, first, len(batch))
        everything += batch
    return monitor, sampler, everything


def future(window: list[tuple[float, int]], k: int) -> list[tuple[int, int | None]]:
    """Who leaves and who enters, by the brute force: rows (good, seq) leave oldest first, none comes."""

    def top(rows: list[tuple[float, int]]) -> list[int]:
        return [seq for _, seq in sorted(rows, reverse=True)[:k]]

    told: list[tuple[int, int | None]] = []
    left = list(window)
    while left:
        before = top(left)
        gone = left.pop(0)[1]
        after = top(left)
        if gone in before:
            entered = [seq for seq in after if seq not in before]
            told.append((gone, entered[0] if entered else None))
    return told


@pytest.mark.parametrize("time", [None, "ts"])
@pytest.mark.parametrize("order", ["DESC", "ASC"])
@pytest.mark.parametrize("algorithm", ["ra", "tma"])
def test_candidates_top_and_next_are_those_of_the_window(
    time: str | None, order: str, algorithm: str
) -> None:
    window = "60 SECONDS" if time else f"{ROWS} ROWS"
    sql = f"SELECT name FROM s ORDER BY x {order} LIMIT {K} WINDOW {window} WITH (algorithm = '{algorithm}')"
    monitor, sampler, rows = fed(sql, time)
    found = picture(monitor.watches["q"], sampler)
    json.dumps(found, allow_nan=False)
    sign = 1 if order == "DESC" else -1
    inside = [(seq, row) for seq, row in enumerate(rows) if not time or row["ts"] >= rows[-1]["ts"] - 60]
    inside = inside if time else inside[-ROWS:]
    assert found["kind"] == "rows" and found["unit"] == ("time" if time else "seq")
    assert found["now"] == (rows[-1]["ts"] if time else len(rows) - 1)
    # how many rows a time window has is known by batches only
    assert len(inside) <= found["window_rows"] <= len(inside) + (20 if time else 0)
    # the few rows of the window are all in the sample
    place = [row["ts"] if time else seq for seq, row in inside]
    assert sorted(tuple(p) for p in found["rows"]) == sorted(
        (at, float(row["x"])) for at, (_, row) in zip(place, inside, strict=True)
    )
    by_seq = {seq: (at, row) for at, (seq, row) in zip(place, inside, strict=True)}
    for at, score, seq in found["candidates"]:
        assert (at, score) == (by_seq[seq][0], by_seq[seq][1]["x"])
    best = sorted(((sign * row["x"], seq) for seq, row in inside), reverse=True)[:K]
    assert [point[2] for point in found["top"]] == [seq for _, seq in best]
    assert [point[3] for point in found["top"]] == [1, 2, 3]
    expected = future([(sign * row["x"], seq) for seq, row in inside], K)
    told = [(step["leaves"], step["enters"]) for step in found["next"]]
    assert told == expected[: len(told)] and len(told) == min(12, len(expected))
    for step in found["next"]:
        assert step["at"] == by_seq[step["leaves"]][0]
        if step["enters"] is not None:
            assert step["row"] == {"name": rows[step["enters"]]["name"]}


def test_pairs_objects_and_thresholds_have_their_pictures() -> None:
    near = "SELECT a.name, b.name FROM s a, s b WHERE a.x < b.x ORDER BY b.x - a.x LIMIT 2 WINDOW 20 ROWS"
    monitor, sampler, _ = fed(near, batches=2)
    found = picture(monitor.watches["q"], sampler)
    assert found["kind"] == "pairs" and found["rows"] == []
    assert [point[3] for point in found["top"]] == [1, 2]
    assert found["next"][0]["leaves"] in [point[2] for point in found["candidates"]]
    assert set(found["next"][0]["row"]) == {"a.name", "b.name"}

    monitor, sampler, rows = fed(
        "SELECT g, SUM(x) AS t FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW 50 ROWS"
    )
    found = picture(monitor.watches["q"], sampler)
    totals = {g: sum(row["x"] for row in rows[-50:] if row["g"] == g) for g in ("g0", "g1", "g2", "g3")}
    assert {point[2]: point[1] for point in found["candidates"]} == totals
    assert [point[1] for point in found["top"]] == sorted(totals.values(), reverse=True)[:2]
    assert found["kind"] == "objects" and found["next"] == []

    monitor, sampler, rows = fed("SELECT name FROM s WHERE x > 35 WINDOW 50 ROWS")
    found = picture(monitor.watches["q"], sampler)
    beyond = [seq for seq, row in enumerate(rows) if row["x"] > 35 and seq >= len(rows) - 50]
    assert found["kind"] == "threshold" and sorted(point[2] for point in found["top"]) == beyond
    assert [step["leaves"] for step in found["next"]] == beyond[:12]
    assert all(step["enters"] is None for step in found["next"])


def test_no_rows_yet() -> None:
    monitor = sb.Monitor(time="ts")
    watch = monitor.watch("SELECT * FROM s ORDER BY x DESC LIMIT 2 WINDOW 1 MINUTE", name="q")
    found = picture(watch, Sampler())
    assert found["candidates"] == found["top"] == found["rows"] == found["next"] == []
    json.dumps(found, allow_nan=False)


def test_infinite_scores_and_nulls_are_json_too() -> None:
    monitor, sampler = sb.Monitor(), Sampler()
    watch = monitor.watch("SELECT name FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS", name="q")
    batch = {"name": ["a", "b", "c", None], "x": [float("inf"), 1.0, None, 2.0]}
    monitor.push(batch, stream="s")
    sampler.pushed(monitor.streams["s"], batch, 0, 4)
    found = picture(watch, sampler)
    json.dumps(found, allow_nan=False)
    assert [point[1] for point in found["top"]] == [2.0]  # an infinite score has no place in a drawing
    assert sorted(point[1] for point in found["rows"]) == [1.0, 2.0]


def test_the_sample_is_even_and_bounded_however_rows_come() -> None:
    whole, single = Sample(), Sample()
    count = 9 * EACH
    whole.pushed(pa.table({"x": np.arange(count)}), count, 0)
    for start in range(0, count, 7):
        piece = list(range(start, min(start + 7, count)))
        single.pushed([{"x": i} for i in piece], len(piece), start)
        if single.full:
            single.settle(_stream())
    for sample in (whole, single):
        sample.settle(_stream())
        kept = sample.number.tolist()
        assert kept == sorted(set(kept)) and kept == sample.seq.tolist()
        assert kept[-EACH:] == list(range(count - EACH, count))
        assert len(kept) < 3 * EACH
        even = sample.evenly(4 * EACH, Recency(0, count - 4 * EACH))
        assert even is not None and even.seq_arrived.tolist() == list(range(count - 4 * EACH, count, 4))
    assert whole.number.tolist() == single.number.tolist()


def _stream() -> Any:
    monitor = sb.Monitor()
    monitor.push({"x": [1]}, stream="s")
    return monitor.streams["s"]


def test_rejected_rows_are_in_no_picture() -> None:
    monitor, sampler = sb.Monitor(), Sampler()
    watch = monitor.watch("SELECT * FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS", name="q")
    for batch in ([{"x": 1}], [{"x": "no number"}, {"x": 2}], [{"x": 3, "late column": "y"}]):
        first = monitor.rows_seen
        monitor.push(batch, stream="s")
        sampler.pushed(monitor.streams["s"], batch, first, len(batch))
    assert sorted(picture(watch, sampler)["rows"]) == [(0, 1.0), (2, 2.0), (3, 3.0)]
