"""Reservoirs in numbers of four bytes: no row above a bar is passed over, and lists are the same as without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.heightmap.family import HeightMap
from skyband.algorithms.heightmap.float32_filter import abridge
from skyband.algorithms.heightmap.ingest import BRIEF, META, RESERVED
from skyband.algorithms.heightmap.map_set import Relief
from skyband.algorithms.heightmap.refill import catching
from skyband.core.types import Recency
from skyband.query.expression.nodes import Arithmetic, Column, Parameter
from skyband.query.expression.score_space import Space

AXES = 3
NAMES = ("x0", "x1", "x2")
SCORE = "p[0] * x0 + p[1] * x1 + p[2] * x2"


def weighted() -> Any:
    terms = [Arithmetic("*", Parameter(i), Column(name)) for i, name in enumerate(NAMES)]
    return Arithmetic("+", Arithmetic("+", terms[0], terms[1]), terms[2])


sizes = st.sampled_from([1e-30, 1e-18, 1e-6, 1.0, 3.7, 1e6, 1e18, 1e28, 1e200])


@given(st.integers(0, 2**32 - 1), st.lists(sizes, min_size=AXES, max_size=AXES), sizes, st.booleans())
def test_no_row_above_a_bar_is_passed_over(
    seed: int, spread: list[float], heavy: float, shifted: bool
) -> None:
    """Whatever the magnitudes of rows and weights, rows far outside the frame, infinite ones and such as are no
    numbers: a chunk with a row above a query's bar is told, with bars that are the very scores of rows."""
    rng = np.random.default_rng(seed)
    rows, queries = 64, 4
    weights = rng.normal(size=(queries, AXES)) * heavy
    weights[rng.random(weights.shape) < 0.2] = 0.0
    relief = Relief(Space(weighted(), NAMES, 1.0), 64)
    points = (rng.random((512, AXES)) - 0.5 + shifted) * spread
    for slot in range(queries):
        relief.know(slot, weights[slot])
    if not relief.survey(list(points.T.copy()), np.arange(queries), weights):
        return
    assert relief.frame is not None
    some = points[:rows] * rng.choice([1.0, 1.0, 3.0, 50.0], (rows, 1))
    some[rng.random(rows) < 0.05, 0] = rng.choice([np.inf, -np.inf, np.nan])
    pool = np.ascontiguousarray(some.T)[None]
    meta = np.zeros((1, META), dtype=np.int64)
    meta[0, RESERVED] = rows
    brief = np.zeros((1, AXES, rows), dtype=np.float32)
    with np.errstate(all="ignore"):
        abridge(0, pool, meta, relief.frame.low, relief.frame.high, brief)
        scores = np.stack([w[0] * some[:, 0] + w[1] * some[:, 1] + w[2] * some[:, 2] for w in weights])
    assert meta[0, BRIEF] == rows
    bars = np.array([rng.choice(np.append(s[np.isfinite(s)], 0.0)) for s in scores])
    with np.errstate(all="ignore"):
        low = (bars - relief.offset[:queries] - relief.blur[:queries]).astype(np.float32)
    above = np.zeros(rows // 32, dtype=np.int32)
    catching(SCORE, AXES, AXES, 1.0).skim_brief(
        brief, 0, rows // 32, *low, relief.weight, *range(queries), above
    )
    for chunk, told in enumerate(above.tolist()):
        part = slice(32 * chunk, 32 * chunk + 32)
        for slot in range(queries):
            assert told >> slot & 1 or not (scores[slot, part] > bars[slot]).any()


@pytest.mark.parametrize("kind", ["falls", "from far outside", "with odd rows"])
def test_lists_are_the_same(kind: str) -> None:
    """Scores fall, and lists run short all the time: each is what sorting the window gives, and made with others that
    would have run short next."""
    rng = np.random.default_rng(3)
    n, r, k, queries = 6000, 300, 4, 80
    made = HeightMap({"block": 256.0, "cells": 4096.0}, Space(weighted(), NAMES, 1.0))
    constants = rng.random((queries, AXES))
    points = rng.random((n + 70 * r, AXES))
    points[n:] *= 0.99 ** (np.arange(70 * r) / r)[:, None]
    if kind == "from far outside":
        points[: n + 10 * r] *= 9.0
    elif kind == "with odd rows":
        points[rng.random(len(points)) < 0.001, 1] = np.inf
        points[rng.random(len(points)) < 0.001, 2] = np.nan
    none = np.empty(0, dtype=np.int64)
    made.fill(tuple(points[:n].T.copy()), np.zeros(n, dtype=np.int64), np.arange(n))
    slots = [made.add(k, tuple(each.tolist()), Recency(0, 0)) for each in constants]
    seen_brief, groups = 0, []
    for end in range(n + r, len(points) + 1, r):
        before = made.counters(slots[0])["catch-ups"]
        edge = np.full(len(made.ks), end - n, dtype=np.int64)
        rows = points[end - r : end]
        made.step(
            tuple(rows.T.copy()), np.zeros(r, dtype=np.int64), np.arange(end - r, end), np.zeros_like(edge), edge,
            none, none,
        )  # fmt: skip
        groups.append(made.counters(slots[0])["catch-ups"] - before)
        seen_brief += int(made.blocks.meta[:, BRIEF].any()) if len(made.blocks.brief) else 0
        window = points[end - n : end]
        for slot, weight in list(zip(slots, constants, strict=True))[:: 1 if end % (10 * r) == 0 else 16]:
            with np.errstate(invalid="ignore"):
                good = weight[0] * window[:, 0] + weight[1] * window[:, 1] + weight[2] * window[:, 2]
            seq = np.arange(end - n, end)
            best = [i for i in np.lexsort((-seq, -good)) if not np.isnan(good[i])][:k]
            _, _, told = made.top(slot, k, Recency(0, end - n))
            assert told.tolist() == seq[best].tolist()
        if end % (20 * r) == 0:
            made._check()
    assert seen_brief > 10  # they were used
    assert sum(1 for each in groups if each) < sum(groups) / 4  # and lists were made in company
