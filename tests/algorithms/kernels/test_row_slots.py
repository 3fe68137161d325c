"""Stored rows: places that stay, the order of recency, late rows, deletions, growth."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from skyband.algorithms.kernels.row_slots import GONE, Rows
from skyband.core.types import Recency

none = np.empty(0, dtype=np.int64)


def add(rows: Rows, seqs: list[int], times: list[int], nans: set[int] = frozenset()) -> dict[int, int]:  # type: ignore[assignment]
    """The places of the rows that were stored, by seq; coordinates tell the seq."""
    order = sorted(range(len(seqs)), key=lambda i: (times[i], seqs[i]))
    time = np.array([times[i] for i in order], dtype=np.int64)
    seq = np.array([seqs[i] for i in order], dtype=np.int64)
    x = np.where(np.isin(seq, list(nans)), np.nan, seq.astype(float))
    places = rows.add((seq.astype(float), x), time, seq)
    stored = [int(number) for number in seq if int(number) not in nans]
    assert rows.seq[places].tolist() == stored
    return dict(zip(stored, places.tolist(), strict=True))


@given(st.data())
def test_rows_stay_where_they_are_and_leave_in_order(data: st.DataObject) -> None:
    rows = Rows(2)
    model: dict[int, tuple[int, int]] = {}  # seq: time, place
    horizon, seq = Recency(-100, 0), 0
    for _ in range(data.draw(st.integers(1, 12))):
        n = data.draw(st.integers(0, 40))
        late = data.draw(st.lists(st.integers(0, 30), min_size=n, max_size=n))
        nans = set(data.draw(st.lists(st.integers(seq, seq + n), max_size=2)))
        seqs = list(range(seq, seq + n))
        times = [number - delay for number, delay in zip(seqs, late, strict=True)]
        seq += n
        for number, place in add(rows, seqs, times, nans).items():
            model[number] = (times[number - seqs[0]], place)
        rows._check()
        if model and data.draw(st.booleans()):
            gone = data.draw(st.lists(st.sampled_from([*model, 10**9]), max_size=60))
            times_of = [model.get(number, (0, 0))[0] for number in gone]
            found = rows.find(np.array(times_of, dtype=np.int64), np.array(gone, dtype=np.int64))
            known = {number for number in gone if number in model}
            assert sorted(found.tolist()) == sorted(model[number][1] for number in known)
            rows.remove(found)
            for number in known:
                del model[number]
            rows._check()
        if data.draw(st.booleans()):
            horizon = max(horizon, Recency(data.draw(st.integers(-30, seq)), data.draw(st.integers(0, seq))))
            left = rows.expire(horizon)
            out = sorted((time, number) for number, (time, _) in model.items() if (time, number) < horizon)
            # still readable, in order
            assert rows.seq[left].tolist() == [number for _, number in out]
            for _, number in out:
                del model[number]
            rows._check()
        alive = sorted((time, number) for number, (time, _) in model.items())
        assert len(rows) == len(alive)
        places = rows.living()
        assert places.tolist() == [model[number][1] for _, number in alive]
        columns, time, numbers = rows.values(places)
        assert columns[0].tolist() == columns[1].tolist() == [float(number) for _, number in alive]
        assert list(zip(time.tolist(), numbers.tolist(), strict=True)) == alive
        half = Recency(*alive[len(alive) // 2]) if alive else horizon
        assert rows.seq[rows.living(half)].tolist() == [number for t, number in alive if (t, number) >= half]


def test_in_order_the_places_go_round() -> None:
    rows = Rows(1)
    for start in range(0, 10_000, 100):
        seq = np.arange(start, start + 100)
        places = rows.add((seq.astype(float),), np.zeros(100, dtype=np.int64), seq)
        assert places.tolist() == [(start + i) % len(rows.order) for i in range(100)]
        rows.expire(Recency(0, start - 100))
    assert len(rows.order) == 512 and rows.bytes() == 512 * (8 + 16 + 4 + 12)


def test_deleted_rows_make_room() -> None:
    """Without an expiry, as in an update stream whose window is everything."""
    rows = Rows(1)
    zero = np.zeros(100, dtype=np.int64)
    for start in range(0, 20_000, 100):
        seq = np.arange(start, start + 100)
        rows.add((seq.astype(float),), zero, seq)
        rows.remove(rows.find(zero, seq - 100))
        rows._check()
    assert len(rows) == 100 and len(rows.order) == 512
    assert not np.any(rows.cell[rows.living()] == GONE)
