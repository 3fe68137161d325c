"""Rows into candidate lists and out of them, and the best of one: as a plain list would."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.arrivals import Step
from skyband.algorithms.kernels.batch_skyband import Picks
from skyband.algorithms.kernels.candidate_lists import (
    FEW,
    SHORT,
    Lists,
    append,
    best,
    expire_all,
    prune,
    remove,
)
from skyband.algorithms.kernels.list_answers import ListAnswers
from skyband.algorithms.skyband.threshold import Threshold
from skyband.core.exchange import ROW, Changes
from skyband.core.types import LOWEST, Recency
from skyband.engine.answers import Answers

SCORES = st.one_of(st.sampled_from([-np.inf, -0.0, 0.0, 1.0, 2.0, np.inf]), st.floats(-2, 2))
recencies = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), unique=True, max_size=15).map(sorted)


def columns(rows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    array = np.array(rows, dtype=np.int64).reshape(-1, 2)
    return array[:, 0].copy(), array[:, 1].copy()


def one_list(good: np.ndarray, time: np.ndarray, seq: np.ndarray, start: int, head: int, size: int) -> Lists:
    """A list within these arrays, with the room that they have behind it."""
    lists = Lists()
    lists.grow(slot=1, place=len(seq))
    lists.good, lists.time, lists.seq = good.astype(float), time.astype(np.int64), seq.astype(np.int64)
    lists.start[0], lists.head[0], lists.size[0], lists.room[0] = start, head, size, len(seq) - start
    return lists


def picked(rows: list[int], good: list[float]) -> Picks:
    picks = Picks(row=len(rows), rank=1)
    picks.row[:], picks.good[:] = rows, good
    return picks


@given(recencies, recencies, st.integers(0, 3), st.integers(0, 3))
def test_remove(rows: list[tuple[int, int]], gone: list[tuple[int, int]], before: int, behind: int) -> None:
    """Rows that are there and rows that are not, in any number; what lies around the list stays as it is."""
    # one row has one seq, so a recency that is gone is the row's own or that of none
    gone = [g for g in gone if g in rows or g[1] not in [seq for _, seq in rows]]
    time, seq = columns([(7, 7)] * before + rows + [(8, 8)] * behind)
    lists = one_list(np.arange(len(seq)), time, seq, before, 0, len(rows))
    left = [(t, s, float(before + i)) for i, (t, s) in enumerate(rows) if (t, s) not in gone]
    assert remove(lists, 0, *columns(gone)) == (len(left) < len(rows))
    span = lists.span(0)
    assert (span.start, span.stop) == (before, before + len(left))
    assert list(zip(lists.time[span], lists.seq[span], lists.good[span], strict=True)) == left
    assert lists.time[:before].tolist() == [7] * before
    assert lists.time[len(seq) - behind :].tolist() == [8] * behind


@given(
    scores=st.one_of(
        st.lists(st.sampled_from([-np.inf, 0.0, 1.0, 2.0, 3.0, np.inf]), max_size=30),
        st.lists(st.floats(allow_nan=False), min_size=SHORT - 2, max_size=SHORT + 2),
    ),
    k=st.integers(1, 7),
    before=st.integers(0, 3),
    closer=st.integers(0, 3),
)
def test_a_sweep_leaves_the_skyband(scores: list[float], k: int, before: int, closer: int) -> None:
    """Short stretches are swept by counting, long ones by a heap; what lies behind and before stays as it is."""
    n, begin = len(scores), before + closer
    good = np.array([9.0] * begin + scores + [9.0] * 5)
    time, seq = np.full(len(good), 4), np.arange(len(good)) - begin
    lists = one_list(good, time, seq, before, closer, closer + n)
    stays = [i for i in range(n) if sum(newer >= scores[i] for newer in scores[i + 1 :]) < k]
    assert prune(lists, 0, k, np.empty(k)) == n - len(stays)
    assert lists.span(0) == slice(before, before + len(stays))
    assert lists.seq[lists.span(0)].tolist() == stays
    assert lists.good[lists.span(0)].tolist() == [scores[i] for i in stays]
    assert lists.seq[:before].tolist() == list(range(-begin, -begin + before))
    assert lists.seq[begin + n :].tolist() == list(range(n, n + 5))


@given(
    scores=st.lists(SCORES, max_size=60),
    k=st.one_of(st.integers(0, 5), st.integers(FEW - 1, FEW + 2), st.just(40)),
    before=st.integers(0, 5),
    behind=st.integers(0, 5),
)
def test_the_best_of_a_stretch(scores: list[float], k: int, before: int, behind: int) -> None:
    """In order, the newer of equals first; whether few are wanted or many."""
    good = np.array([9.0] * before + scores + [9.0] * behind)
    found, places = np.full(k, np.nan), np.full(k, -1, dtype=np.int64)
    count = int(best(good, before, before + len(scores), k, found, places))
    wanted = sorted(((score, before + i) for i, score in enumerate(scores)), reverse=True)[:k]
    assert list(zip(found[:count].tolist(), places[:count].tolist(), strict=True)) == wanted


@given(
    there=st.sets(st.integers(0, 30), max_size=12),
    new=st.sets(st.integers(0, 30), min_size=1, max_size=8),
    gone=st.integers(0, 4),
)
def test_rows_come_in_by_recency_however_late(there: set[int], new: set[int], gone: int) -> None:
    held, come = sorted(there - new), sorted(new)
    gone = min(gone, len(held))
    n, room = len(held), len(held) + len(come) + 2
    good, time, seq = np.full(room, np.nan), np.full(room, -1), np.full(room, -1)
    good[:n], time[:n], seq[:n] = np.array(held) / 8, np.array(held) // 3, held
    lists = one_list(good, time, seq, 0, gone, n)
    rows = np.array(come, dtype=np.int64)
    picks = picked(list(range(len(come)))[::-1], (rows[::-1] / 8).tolist())
    step = Step().hold(rows // 3, rows, rows[:0], np.zeros(0, dtype=np.uint8))
    append(lists, 0, len(come), picks, step)
    whole = held[:gone] + sorted(held[gone:] + come)
    size = int(lists.size[0])
    assert size == len(whole) and lists.seq[size] == -1
    assert lists.seq[:size].tolist() == whole and lists.time[:size].tolist() == [row // 3 for row in whole]
    assert lists.good[:size].tolist() == [row / 8 for row in whole]


@given(
    rows=st.lists(st.sets(st.integers(0, 20), max_size=10), min_size=1, max_size=4),
    heads=st.lists(st.integers(0, 10), min_size=4, max_size=4),
    horizon=st.integers(0, 21),
)
def test_lists_are_cut_at_the_horizon(rows: list[set[int]], heads: list[int], horizon: int) -> None:
    sizes = np.array([len(each) for each in rows], dtype=np.int64)
    lists = Lists()
    lists.grow(slot=len(rows))
    left = np.minimum(heads[: len(rows)], sizes)
    lists.size[:], lists.head[:], lists.start[:] = sizes, left, np.cumsum(sizes) - sizes
    lists.seq = np.array([row for each in rows for row in sorted(each)], dtype=np.int64)
    lists.time, lists.good = lists.seq // 4, np.zeros(len(lists.seq))
    lists.ks[:] = 1
    lists.ks[-1] = len(rows) > 1  # one that is free is left alone
    lists.horizon_time[:], lists.horizon_seq[:] = horizon // 4, horizon
    expire_all(lists)
    for slot, each in enumerate(rows):
        older = sum(row < horizon for row in each)
        assert lists.head[slot] == (max(left[slot], older) if lists.ks[slot] else left[slot])


@pytest.mark.parametrize("slots", [1, 3])
def test_a_deleted_row_leaves_the_answer(slots: int) -> None:
    algorithm, answers, listed = Threshold({}), Answers(ROW), ListAnswers()
    for _ in range(slots):
        answers.add(algorithm.add(1))
        listed.add()
    n = 200
    seq = np.arange(n)[::-1].copy()
    for slot in range(slots):
        algorithm._scratch(n)
        algorithm.rows.hold(0 * seq, seq, seq, np.zeros(n, dtype=np.uint8))
        algorithm._insert_scored(slot, seq.astype(float))
    everything = np.full(slots, 10**6)
    edges = [np.full(slots, edge) for edge in LOWEST]

    def changed() -> Changes | None:
        return answers.compare(algorithm.present(listed, answers.slot, answers.stale, everything, *edges))

    first = changed()
    assert first is not None and len(first.seq) == n * slots
    gone = np.array([150, 3, 999, 77, 0])  # in any order; one was never there
    algorithm.step(None, *edges, 0 * gone, gone)
    algorithm._check()
    changes = changed()
    assert changes is not None
    assert changes.seq.tolist() == [150, 77, 3, 0] * slots
    assert not changes.rank.any()  # they leave, and nobody enters
    assert 77 not in algorithm.top(0, 10**6, Recency(0, 0))[2]
    algorithm.step(None, *edges, 0 * gone, gone)
    assert changed() is None
