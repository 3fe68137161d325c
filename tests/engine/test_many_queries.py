"""Many queries of one shape: scored by a generated kernel, and equal to the last bit to what numpy gives."""

from __future__ import annotations

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms.kernels.score_select import fused

SHAPES = {
    "{0} * a + {1} * b - {2} * c": lambda p, a, b, c: p[0] * a + p[1] * b - p[2] * c,
    "dist(a, b, {0}, {1}) * {2}": lambda p, a, b, c: np.sqrt((a - p[0]) ** 2 + (b - p[1]) ** 2) * p[2],
    "least(a * {0}, b) / (c + {1}) + abs({2} - a) ^ 2": lambda p, a, b, c: (
        np.minimum(a * p[0], b) / (c + p[1]) + np.abs(p[2] - a) * np.abs(p[2] - a)
    ),
    "a + {0} * b": lambda p, a, b, c: a + p[0] * b,  # a column that nothing is done to by itself
    "exp(a * {0}) + ln(b + {1}) * {2}": lambda p, a, b, c: np.exp(a * p[0]) + np.log(b + p[1]) * p[2],
}
WATCHES, ROWS, STEPS = 100, 150, 7


@pytest.mark.parametrize(
    ("algorithm", "shape"),
    # what a shape changes is the same for both
    [*(("ra", shape) for shape in SHAPES), ("sa", next(iter(SHAPES))), ("rapf", "a + {0} * b")],
)
def test_a_thousand_weights_are_as_exact_as_one(algorithm: str, shape: str) -> None:
    """The columns are lattices, so that ties abound; times go back and on."""
    random = np.random.default_rng(8)
    m = sb.Monitor(time="t")
    parameters = np.round(random.random((WATCHES, 3)), 2) + 0.01
    for i, p in enumerate(parameters):
        window = "250 ROWS" if i % 2 else "20 SECONDS"
        order = "DESC" if i % 3 else "ASC"
        score = shape.format(*p)
        using = f"WITH (algorithm = '{algorithm}')"
        m.watch(
            f"SELECT a FROM s ORDER BY {score} {order} LIMIT {i % 7 + 1} WINDOW {window} {using}",
            name=f"q{i}",
        )
    before = fused.cache_info()
    columns = {name: np.empty(0) for name in "tabc"}
    for step in range(STEPS):
        batch = {name: random.integers(0, 12, ROWS) / 7 for name in "abc"}
        batch["t"] = step * 10 + random.integers(-4, 10, ROWS).astype(float)
        m.push(batch)
        columns = {name: np.concatenate([columns[name], batch[name]]) for name in columns}
        compare(m, columns, SHAPES[shape], parameters)
    after = fused.cache_info()
    if algorithm == "rapf":  # whose index has kernels of its own
        return
    if "exp" not in shape:  # those round differently in compiled code and stay with numpy
        assert after.hits + after.misses > before.hits + before.misses


def compare(m: sb.Monitor, columns: dict[str, np.ndarray], score: object, parameters: np.ndarray) -> None:
    rejected = m.rejects()["seq"].to_numpy()
    seq = np.setdiff1d(np.arange(len(columns["t"])), rejected)
    time = columns["t"][seq]
    recency = np.lexsort((seq, time))
    for i, p in enumerate(parameters):
        scores = score(p, *(columns[name][seq] for name in "abc"))
        inside = recency[-250:] if i % 2 else recency[time[recency] >= time.max() - 20]
        newest_first = inside[::-1]
        good = scores[newest_first] if i % 3 else -scores[newest_first]
        best = newest_first[np.argsort(-good, kind="stable")[: i % 7 + 1]]
        top = m.watches[f"q{i}"].top()
        assert top["seq"].to_pylist() == seq[best].tolist(), i
        assert top["score"].to_pylist() == scores[best].tolist(), i
