"""The best rows that a search has found so far, and how they become a slot's list."""

from __future__ import annotations

import numpy as np

from skyband.algorithms.kernels.barred_lists import LATEST, Bars
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.compiling.jit import inlined, kernel
from skyband.compiling.state import State, field
from skyband.core.types import Floats, Ints

FEW = 128  # rows that are kept in order


class Found(State):
    """Scratch memory: the best rows found so far, worst first."""

    good: Floats = field("f8[rank]")
    place: Ints = field("i8[rank]")


@inlined
def worse(good: float, place: int, other_good: float, other: int, time: Ints, seq: Ints) -> bool:
    """Whether a row comes after another in the one total order."""
    if good != other_good:
        return good < other_good
    if time[place] != time[other]:
        return bool(time[place] < time[other])
    return bool(seq[place] < seq[other])


@kernel
def sink_row(good: Floats, places: Ints, size: int, value: float, place: int, time: Ints, seq: Ints) -> None:
    """Replace the root of a heap of rows, worst first."""
    at = 0
    while True:
        child = 2 * at + 1
        if child >= size:
            break
        if child + 1 < size and worse(
            good[child + 1], places[child + 1], good[child], places[child], time, seq
        ):
            child += 1
        if worse(value, place, good[child], places[child], time, seq):
            break
        good[at] = good[child]
        places[at] = places[child]
        at = child
    good[at] = value
    places[at] = place


@kernel
def hold(
    value: float, place: int, found: int, wanted: int, good: Floats, places: Ints, time: Ints, seq: Ints
) -> int:
    """Insert a row into the best found so far, worst first; return how many there are.

    They are a heap. Few of them are sorted, which is a heap as well: moving ten of them takes less time than the
    unpredictable branches of a heap."""
    if found == wanted:
        if worse(good[0], places[0], value, place, time, seq):
            if wanted > FEW:
                sink_row(good, places, wanted, value, place, time, seq)
            else:
                at = 0
                while at + 1 < found and worse(good[at + 1], places[at + 1], value, place, time, seq):
                    good[at] = good[at + 1]
                    places[at] = places[at + 1]
                    at += 1
                good[at] = value
                places[at] = place
    else:
        at = found
        while at > 0:
            parent = at - 1 if wanted <= FEW else (at - 1) >> 1
            if worse(good[parent], places[parent], value, place, time, seq):
                break
            good[at] = good[parent]
            places[at] = places[parent]
            at = parent
        good[at] = value
        places[at] = place
        found += 1
    return found


@kernel
def finish(
    slot: int,
    found: int,
    wanted: int,
    floor: float,
    held: Found,
    time: Ints,
    seq: Ints,
    bars: Bars,
    ranked: Ranked,
) -> None:
    """Write the rows found into the slot's list, best last."""
    held_good, held_place = held.good, held.place
    bars.complete[slot] = 1 if found < wanted else 0
    bars.bar[slot] = -np.inf if found < wanted else floor
    ranked.size[slot] = found
    oldest, oldest_number = LATEST, LATEST
    at = ranked.start[slot]
    for i in range(found):
        root = i if wanted <= FEW else 0
        place = held_place[root]
        ranked.good[at + i] = held_good[root]
        ranked.time[at + i] = time[place]
        ranked.seq[at + i] = seq[place]
        if time[place] < oldest or (time[place] == oldest and seq[place] < oldest_number):
            oldest, oldest_number = time[place], seq[place]
        if wanted > FEW:
            last = found - 1 - i
            sink_row(held_good, held_place, last, held_good[last], held_place[last], time, seq)
    bars.oldest_time[slot], bars.oldest_seq[slot] = oldest, oldest_number
