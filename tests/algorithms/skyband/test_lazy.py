"""lazy: the answers of many watches of one score follow the rows, whatever comes and goes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.skyband import incremental_tops as following


def stream(random: np.random.Generator, shape: str, steps: int) -> list[dict[str, Any]]:
    """Batches of 1 to 40 rows, with event times of which a third may be late, and scores with ties."""
    batches, now = [], 100
    for _ in range(steps):
        n = int(random.integers(1, 40))
        times = now + np.sort(random.integers(0, 10, n))
        now = int(times[-1])
        late = random.random(n) < (0.3 if shape == "late" else 0.0)
        times = times - late * random.integers(0, 60, n)
        scores = random.integers(0, 30, n).astype(float)
        if shape == "falling":  # nothing new is as good as what is there: answers run short
            scores = -np.arange(now * 40, now * 40 + n, dtype=float)
        batches.append({"t": times.astype(float), "x": scores})
    return batches


@pytest.mark.parametrize("shape", ["ties", "late", "falling"])
@pytest.mark.parametrize("window", ["rows", "seconds"])
def test_many_watches_of_one_score_are_told_what_ra_is_told(
    shape: str, window: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Changes of every step, watches that come, change and go, and a save and load in between."""
    monkeypatch.setattr(following, "ranks_held", lambda ks: ks + 2)  # so that they are used up now and then
    random = np.random.default_rng(len(shape) + len(window))
    monitors = {name: sb.Monitor(time="t") for name in ("lazy", "ra")}

    def watch(number: int, k: int, n: int) -> None:
        for name, monitor in monitors.items():
            monitor.watch(
                f"SELECT x FROM s ORDER BY x DESC LIMIT {k} WINDOW {n} {window} WITH (algorithm = '{name}')",
                name=f"w{number}",
            )

    for number in range(12):
        watch(number, int(random.integers(1, 12)), int(random.integers(1, 90)))
    for step, batch in enumerate(stream(random, shape, 60)):
        changes = {name: monitor.push(batch) for name, monitor in monitors.items()}
        assert changes["lazy"].equals(changes["ra"])
        if step % 7 == 3:
            for monitor in monitors.values():
                monitor.drop(f"w{step}" if f"w{step}" in monitor.watches else next(iter(monitor.watches)))
            watch(100 + step, int(random.integers(1, 12)), int(random.integers(1, 90)))
        if step % 7 == 5:
            k, n = int(random.integers(1, 12)), int(random.integers(1, 90))
            for monitor in monitors.values():
                next(iter(monitor.watches.values())).change(k=k, window=f"{n} {window}")
        if step == 30:
            monitors = {name: sb.Monitor.from_bytes(monitor.to_bytes()) for name, monitor in monitors.items()}
        monitors["lazy"]._check()
    for name, one in monitors["lazy"].watches.items():
        assert one.top().equals(monitors["ra"].watches[name].top())


def test_an_answer_is_searched_for_only_when_its_spare_ranks_are_used_up() -> None:
    random = np.random.default_rng(1)
    monitor = sb.Monitor()
    for n in (200, 400, 800):
        monitor.watch(f"SELECT x FROM s ORDER BY x DESC LIMIT 20 WINDOW {n} ROWS WITH (algorithm = 'lazy')")
    for _ in range(100):
        monitor.push({"x": random.random(20)})
    (group,) = next(iter(monitor.streams.values())).groups
    before = group.algorithm.following.searched
    for _ in range(100):
        monitor.push({"x": random.random(20)})
    # by the rule for k ranks alone nearly every second step would need a search
    assert group.algorithm.following.searched - before < 60


@pytest.mark.parametrize("nothing", [[], [{"x": None}], [{"x": 7.0, "y": 1.0}]])
@pytest.mark.parametrize("raised", [False, True])
def test_retained_rows_are_told_once(nothing: list[dict[str, float | None]], raised: bool) -> None:
    """Rows that came back from what is retained, in a step that brought no new one, entered once more with the next."""
    monitor = sb.Monitor(retain=sb.rows(20), schema={"x": "double", "y": "double"})
    text = "SELECT x FROM s WHERE y < 1 ORDER BY x DESC LIMIT {} WINDOW 10 ROWS WITH (algorithm = 'lazy')"
    told: set[int] = set()
    watch = monitor.watch(text.format(1)) if raised else None
    steps = [[{"x": float(x), "y": 0.0} for x in (5, 4, 3, 2, 1)], nothing, [{"x": 2.5, "y": 0.0}], []]
    for number, step in enumerate(steps):
        if number == 1 and watch is not None:
            watch.change(k=4)
        elif number == 1:
            watch = monitor.watch(text.format(4))
        for change in monitor.push(step).to_pylist():
            assert (change["seq"] in told) == (change["change"] == "leave")
            told ^= {change["seq"]}
        if watch is not None:
            assert told == {*watch.top()["seq"].to_pylist()}
        monitor._check()
