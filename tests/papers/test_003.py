"""What Haghani, Michel and Aberer (2009) print: the scores of Figure 1, the instances of Figure 2, Lemma 1."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms.objects.aggregates import SUM, Aggregate
from skyband.algorithms.objects.pruned_instances import Instances
from skyband.core.types import Recency

ROUTERS = {
    "r1": [("p", 0.3, 10), ("q", 0.2, 11), ("r", 0.5, 109), ("o", 0.5, 110), ("t", 0.9, 111)],
    "r2": [("r", 0.6, 10), ("p", 0.1, 11), ("q", 0.7, 109), ("w", 0.6, 110), ("s", 0.2, 111)],
    "r3": [("q", 0.6, 10), ("r", 0.1, 11), ("o", 0.5, 109), ("s", 0.4, 110), ("t", 0.1, 111)],
}
SCORES = {
    10: {"p": 0.3, "r": 0.6, "q": 0.6},
    11: {"p": 0.4, "r": 0.7, "q": 0.8},
    109: {"p": 0.4, "r": 1.2, "q": 1.5, "o": 0.5},
    110: {"p": 0.4, "r": 1.2, "q": 1.5, "o": 1.0, "w": 0.6, "s": 0.4},
    111: {"p": 0.1, "r": 0.6, "q": 0.9, "o": 1.0, "w": 0.6, "s": 0.6, "t": 1.0},
}


@pytest.mark.parametrize("algorithm", ["sums", "sla", "eaa"])
def test_figure_1(algorithm: str) -> None:
    """A tuple counts while now - t <= 100: p's 0.3 of time 10 is there at 110 and gone at 111."""
    monitor = sb.Monitor(time="t")
    watch = monitor.watch(
        "SELECT flow FROM r1 FULL JOIN r2 USING (flow) FULL JOIN r3 USING (flow) ORDER BY r1.size + r2.size + r3.size "
        f"DESC LIMIT 7 WINDOW 100 SECONDS WITH (algorithm = '{algorithm}', range = '0..1', appears = 'once')"
    )
    for now, expected in SCORES.items():
        for router, told in ROUTERS.items():
            rows = [{"t": float(t), "flow": flow, "size": size} for flow, size, t in told if t == now]
            monitor.push(rows, stream=router)
        top = watch.top()
        found = dict(zip(top.column("flow").to_pylist(), top.column("score").to_pylist(), strict=True))
        assert {flow: round(score, 12) for flow, score in found.items()} == expected


def plain_sum(objects: object, codes: object, values: np.ndarray, counts: object) -> np.ndarray:
    return values[0] + values[1] + values[2]


def test_figure_2() -> None:
    """Three instances of one object, each with its score now and its best; <0.2, 1> in stream 2, then 3, then 1."""
    instances = Instances(
        tuple(Aggregate(SUM, 0, stream) for stream in range(3)), 1, 3, True, [1.0] * 3, 1, True, True
    )
    seen = []
    for time, stream, value in [(1, 1, 0.2), (5, 2, 0.3), (10, 0, 0.8)]:
        told = (np.array([value]),), np.array([time]), np.array([time])
        instances.add(pa.array(["p"]), *told, stream)
        instances.settle(plain_sum)
        places = instances.linked()
        assert len(places) == len(instances.rows)
        now, best = instances.bounds(places, plain_sum)
        seen.append([*zip(now.round(12).tolist(), best.round(12).tolist(), strict=True)])
    assert seen == [[(0.2, 2.2)], [(0.5, 1.5), (0.3, 1.3)], [(1.3, 1.3), (1.1, 1.1), (0.8, 0.8)]]
    # they expire one after the other, and the object's score with them
    for now, score in [(101, 1.3), (102, 1.1), (106, 0.8)]:
        instances.expire(Recency(now - 100, 0))
        instances.settle(plain_sum)
        assert instances.best(1)[1].round(12).tolist() == [score]
    instances.expire(Recency(11, 0))
    instances.settle(plain_sum)
    assert not len(instances.best(1)[0])


@pytest.mark.parametrize("width", [0.05, 0.2])
def test_lemma_1(width: float) -> None:
    """At least n * width instances are kept where an interval has this width: linear, not logarithmic."""
    n, kept = 1000, []
    rng = np.random.default_rng(3)
    for _ in range(5):
        now = rng.random(n)
        best = np.minimum(now + width, 1.0)
        beaten = [(now[i + 1 :] > best[i]).any() for i in range(n)]
        kept.append(n - sum(beaten))
    assert n * width * 0.95 <= np.mean(kept) <= n * width + 30


@pytest.mark.parametrize("length", [8, 9, 10])
@pytest.mark.parametrize("algorithm", ["sums", "sla", "eaa"])
def test_two_rows_of_a_stream_in_a_window(algorithm: str, length: int) -> None:
    """Section 5, at most two a window, at 0, 5 and 11: what an instance may yet gain depends on the rows in it, not on
    all that were seen, or the third row would be one too many for the object of the second."""
    monitor = sb.Monitor(time="t")
    watch = monitor.watch(
        "SELECT id FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.x DESC LIMIT 1 "
        f"WINDOW {length} SECONDS WITH (algorithm = '{algorithm}', range = '0..1', appears = '2 per window')"
    )
    rows = [(0, "p", 0.5), (5, "p", 0.5), (6, "q", 0.9), (7, "q", 0.5), (11, "p", 1.0)]
    for now, id_, x in rows:
        monitor.push([{"t": float(now), "id": id_, "x": x}], stream="r1")
        inside = [row for row in rows if now - length <= row[0] <= now]
        totals = {row[1]: sum(x for _, i, x in inside if i == row[1]) for row in inside}
        best = max(totals.values())
        assert watch.top().column("score").to_pylist() == [best]
        assert totals[watch.top().column("id").to_pylist()[0]] == best
