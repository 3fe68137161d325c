"""The recencies of the newest rows equal a sorted list's, however they come."""

from __future__ import annotations

import random

import numpy as np
import pytest

from skyband.core.types import LOWEST, Recency
from skyband.stream.windows import Recencies, Runs


@pytest.mark.parametrize("most", [0, 1, 7, 900])
@pytest.mark.parametrize("late", [0.0, 0.2])
def test_recencies_are_those_of_the_newest_rows(most: int, late: float) -> None:
    """Rows come singly and in batches, until the memory has been gone through several times."""
    rng = random.Random(most + int(10 * late))
    log, rows, seq = Recencies(), [], 0
    for step in range(700):
        count = 1 if rng.random() < 0.5 else rng.randrange(2, 30)
        times = sorted(step - (rng.randrange(9) if rng.random() < late else 0) for _ in range(count))
        if count == 1:
            log.add_one(times[0], seq, most)
        else:
            log.add(np.array(times), np.arange(seq, seq + count), most)
            log.trim(most)
        rows += [Recency(time, seq + place) for place, time in enumerate(times)]
        seq += count
        rows.sort()
        kept = min(most, len(rows))
        there = slice(log.begin, log.end)
        if not late:  # a late row may be older than all that are kept
            assert (
                list(zip(log.time[there].tolist(), log.seq[there].tolist(), strict=True))
                == rows[len(rows) - kept :]
            )
        assert log.newest() == rows[-1]
        for n in {1, most // 2, most} - {0}:
            if n <= most:
                assert log.horizon(n) == (rows[-n] if n <= len(rows) else LOWEST)
        if step % 50 == 0:
            assert {*zip(log.time[there].tolist(), log.seq[there].tolist(), strict=True)} <= {*rows}
        if most:
            assert log.complete_from <= rows[-kept]


def test_runs_take_rows_singly() -> None:
    """One row more is what a range of one is, whether it goes on with the last run or begins another."""
    rng = random.Random(2)
    one, other, seq = Runs(), Runs(), 0
    for _ in range(500):
        seq += rng.choice([1, 1, 1, 3])
        one.add_one(0, seq, 50)
        other.add(np.zeros(1, dtype=np.int64), np.array([seq]))
        assert [one.horizon(n) for n in (1, 5, 40)] == [other.horizon(n) for n in (1, 5, 40)]
        assert one.newest() == other.newest() and one.total == other.total
