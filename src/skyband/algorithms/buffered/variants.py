"""The six buffered algorithms, by name (Pripužić, Podnar Žarko and Aberer 2015, sections 5 and 6).

Two letters for the skyband of each query, two for its filter: `sa` or `ra`, and a strict, relaxed or probable one. So
`rapf` is `ra` behind a probable filter, the paper's fastest exact algorithm. base.py explains how they work; here are
their cards, in one file because they differ in nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from skyband.algorithms.buffered.base import FEW, SHARE, Buffered, room_for
from skyband.algorithms.buffered.filters import PROBABLE, RELAXED, STRICT
from skyband.algorithms.contract import Card, Workload
from skyband.algorithms.kernels.batch_skyband import expected_size
from skyband.algorithms.skyband import ra

GAMMA = 0.2
SOURCE = "Pripužić, Podnar Žarko, Aberer 2015, sections 5 and 6; Böhm et al. 2007"
FILTERS = {STRICT: "strict", RELAXED: "relaxed", PROBABLE: "probabilistic"}


def expected(gamma: float) -> Callable[[int, float], float]:
    """Return the expected rows of a query's skyband, in random order.

    They are its rows that have left the buffer, and those of the buffer that were among the k best of a buffer on
    arrival and have fewer than k newer dominators now. Of the second kind there aren't quite k. With u the share of
    all rows that are better, a row of age a (in buffers) is there if fewer than k of Poisson(bu) and of Poisson(abu)
    rows are better: for k = 1 that is ln 2 in all, and it falls short of k by 0.31 (k = 1) to 0.5 (k large) rows. A
    relaxed skyband has half of gamma of its candidates more, unless these are so few that its limit, rounded up, is
    the next row: then each new row causes a sweep.
    """

    def size(k: int, n: float) -> float:
        buffer = max(1.0, SHARE * n)
        strict = expected_size(k, n) - expected_size(k, buffer) + max(min(k, n) - (1 - np.log(2)), 0.0)
        more = gamma * (strict - min(k, strict))
        return float(strict + (more / 2 if more > 1 else 0.0))

    return size


def cost(relaxed: bool, kind: int) -> Callable[[Workload], float]:
    """Return roughly the CPU seconds for a batch: the cost of `ra`, plus buffer and filters.

    Without an index strict and relaxed filters receive every row; behind one a probable filter saves `ra`'s work for
    queries that no row concerns. Set by hand after `python -m benchmarks planner`.
    """

    def predicted(work: Workload) -> float:
        buffer = max(1.0, SHARE * work.window)
        stages = max(1.0, 4 * work.batch / buffer)
        # the share of rows that enter a filter behind an index, and the cost of each
        wanted = (work.k + room_for(work.k)) if kind == PROBABLE else 3 * work.k
        indexed = work.queries >= FEW
        taken = min(1.0, wanted / buffer) if indexed or kind == PROBABLE else 1.0
        each = 1.5e-7 + 1e-9 * work.k if kind == PROBABLE else 1.5e-7 + 3e-9 * expected_size(work.k, buffer)
        admitted = min(1.0, 1.3 * work.k / buffer) * (2e-7 if relaxed else 4e-7)
        staged, scores = stages * (1e-4 + work.queries * 3e-7), work.batch * work.queries
        if indexed and kind == PROBABLE:
            score = 4e-9 if work.rendered else 2.2e-8
            alone = ra.cost_of(replace(work, queries=1, scores=1))
            return float(alone + staged + scores * (score + 2.5 * (taken * each + admitted)))
        return float(ra.cost_of(work) + staged + scores * (taken * each + admitted))

    return predicted


def card(name: str, relaxed: bool, kind: int) -> Card:
    skyband, filter_ = ("relaxed" if relaxed else "strict"), FILTERS[kind]
    options: dict[str, float] = {"buffer": SHARE, "cells": 0.0}
    if relaxed or kind == RELAXED:
        options["gamma"] = GAMMA
    if kind == PROBABLE:
        options["limit"] = 0.0
    return Card(
        name=name,
        title=f"{skyband} k-skyband behind a {filter_} filter",
        source=SOURCE,
        answers=frozenset({"topk"}),
        exact=True,
        keeps=f"the newest rows, once for all queries; for each query a {filter_} filter of these, and the {skyband} "
        "skyband of the rows that it let through",
        cost="a batch: each row is compared on arrival and when it leaves the buffer, for the queries it concerns",
        wrong_when="there is one query only, or batches are as large as the buffer (take `ra`)",
        expected=expected(GAMMA if relaxed else 0.0),
        options=options,
        cost_of=cost(relaxed, kind),
    )


_LIST: Mapping[bool, tuple[str, ...]] = {
    False: ("admitted", "evicted"),
    True: ("admitted", "sweeps", "swept"),
}
_FILTER = {
    STRICT: ("met", "filtered", "evicted from the filter"),
    RELAXED: ("met", "filtered", "sweeps of the filter"),
    PROBABLE: ("met", "filtered", "lowered"),
}


class SASF(Buffered):
    relaxed, kind, counted = False, STRICT, True
    card = card("sasf", False, STRICT)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[False] + _FILTER[STRICT]


class SARF(Buffered):
    relaxed, kind, counted = False, RELAXED, True
    card = card("sarf", False, RELAXED)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[False] + _FILTER[RELAXED]


class SAPF(Buffered):
    relaxed, kind, counted = False, PROBABLE, True
    card = card("sapf", False, PROBABLE)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[False] + _FILTER[PROBABLE]


class RASF(Buffered):
    relaxed, kind = True, STRICT
    card = card("rasf", True, STRICT)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[True] + _FILTER[STRICT]


class RARF(Buffered):
    relaxed, kind = True, RELAXED
    card = card("rarf", True, RELAXED)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[True] + _FILTER[RELAXED]


class RAPF(Buffered):
    relaxed, kind = True, PROBABLE
    card = card("rapf", True, PROBABLE)
    counter_names: ClassVar[tuple[str, ...]] = _LIST[True] + _FILTER[PROBABLE]
