"""What heightmap holds: no more than a step needs, and all of it told."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tests.algorithms.heightmap.test_heightmap import Stream, space, weighted

from benchmarks.harness.sizes import held
from benchmarks.peers.heightmap import SCALES, engine, run
from benchmarks.peers.heightmap import stream as stream_of
from skyband.algorithms.heightmap.ingest import RESERVED
from skyband.algorithms.heightmap.state import WAY


def told(stream: Stream) -> int:
    """Bytes of the window and of all lists, as `explain` has them."""
    algorithm = stream.algorithm
    lists = sum(algorithm.size(slot)[1] for slot in stream.windows)
    return algorithm.window_size()[1] + lists


def positive(count: int, rng: Any) -> Stream:
    stream = Stream(space(weighted(3), 3), rows=9_000, block=512, cells=1024)
    for _ in range(count):
        stream.add(4, rng.random(3).tolist())
    return stream


def drop(stream: Stream, slot: int) -> None:
    stream.algorithm.remove(slot)
    del stream.windows[slot]


@pytest.mark.parametrize("kind", ["plain", "timed", "late", "falling", "signs", "fewer"])
def test_all_that_is_held_is_told(kind: str) -> None:
    rng = np.random.default_rng(1)
    stream = positive(30, rng)
    if kind == "signs":
        stream.add(4, [-1.0, -2.0, -1.0])
    for step in range(32):
        time = None
        if kind == "timed" or (kind == "late" and step > 12):
            time = np.sort(rng.integers(0, 50, 900)) + 50 * step - (70 if step % 4 == 0 else 0)
        stream.push(rng.random((900, 3)) * (0.9**step if kind == "falling" else 1.0), time)
    if kind == "fewer":
        drop(stream, 3)
    stream.compare(thorough=False)
    assert told(stream) == held(stream.algorithm)
    assert stream.algorithm.blocks.bytes() == held(stream.algorithm.blocks)
    # it went the way that most steps go, too
    assert stream.algorithm._whole is not None


def test_nothing_is_held_that_no_step_needs() -> None:
    """One face's maps, no times, room for the few rows that pass, lists side by side, reservoirs as large as they are;
    and where another step needs more it is there."""
    rng = np.random.default_rng(2)
    stream = positive(30, rng)
    algorithm = stream.algorithm
    for _ in range(30):
        stream.push(rng.random((900, 3)))
        stream.compare(thorough=False)
    assert algorithm._points.shape == (1, 3, WAY)
    assert len(algorithm.relief.outer) == len(algorithm.relief.inner) == len(algorithm._picks) == 1
    assert not len(algorithm.ranked.time) and not algorithm._when.size
    assert algorithm.relief.outer.itemsize == algorithm.relief.inner.itemsize == 2
    assert not len(algorithm.edge)  # it has no threshold queries
    assert algorithm.size(0)[1] == 16 * algorithm.ranked.room[0]
    assert len(algorithm.ranked.good) < 1.2 * algorithm.ranked.room.sum()
    narrow = algorithm.blocks.index.shape[1]
    assert algorithm.blocks.meta[:, RESERVED].max() <= narrow < algorithm.blocks.room
    # a query that wants the last axis low, until it has a map
    slot = stream.add(4, [1.0, 1.0, -2.0])
    for _ in range(30):
        stream.push(rng.random((900, 3)))
        stream.compare(thorough=False)
    algorithm._make_map()
    assert len(algorithm.relief.outer) == 2 and len(algorithm._picks) == 3
    stream.push(rng.random((5_000, 3)))
    stream.compare()
    # those who want it low alone: one map again
    for other in [each for each in stream.windows if each != slot]:
        drop(stream, other)
    for _ in range(20):
        stream.push(rng.random((900, 3)))
        stream.compare(thorough=False)
    algorithm._make_map()
    assert len(algorithm.relief.outer) == 1
    for _ in range(12):
        stream.push(rng.random((900, 3)))
        stream.compare(thorough=False)
    algorithm._check()


def test_a_thousand_queries_over_a_million_rows() -> None:
    """32 bytes for each row of the window and 2 KB for each query, whatever they are spent on."""
    scale = replace(SCALES["full"], cycles=15)
    rows = stream_of(scale, "ANT", 22)
    made = engine("heightmap", scale, rows)
    run([made], rows, scale, 22)
    assert held(made.algorithm) <= 32 * scale.n + 2048 * scale.q


def test_times_that_come_later_come_to_lists_too() -> None:
    rng = np.random.default_rng(3)
    stream = positive(20, rng)
    for step in range(20):
        stream.push(rng.random((900, 3)).round(1))
        stream.compare(thorough=step % 8 == 0)
    assert not len(stream.algorithm.ranked.time)
    for step in range(40):
        # ties by the dozen: which of them comes first is a matter of time
        stream.push(rng.random((900, 3)).round(1), np.sort(rng.integers(0, 9, 900)) + 5 * step)
        stream.compare(thorough=step % 16 == 0)
    assert stream.algorithm.ranked.time.any()


def test_reservoirs_get_the_room_that_they_want() -> None:
    rng = np.random.default_rng(4)
    stream = positive(40, rng)
    blocks = stream.algorithm.blocks
    narrow = blocks.index.shape[1]
    for step in range(70):
        stream.push(rng.random((900, 3)) * 0.97**step)
        stream.compare(thorough=False)
    stream.algorithm._check()
    assert narrow < blocks.index.shape[1] <= blocks.room
    assert blocks.meta[:, RESERVED].max() > narrow
