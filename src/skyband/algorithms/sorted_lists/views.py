"""Views: for each query the best rows of the window down to some rank, exact to their last.

A view is a ranked list (ranked_lists.py) of at most `most` rows. The rule that keeps it exact is one comparison: a new
row enters if it is before the view's last in the one total order, or if the view is `whole`, that is, if it holds every
row inside the window. A row that leaves the window leaves the view, and the rest is still the best of the rest.

Here are the kernels on views: offering a step's rows, removing rows, and `take`, which collects the best of rows that
a computation meets in any order, some of them more than once. For a shape of score that is used much, kernels are
generated that score and compare in one loop, in blocks of 64 rows as in score_select.py.
"""

from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from skyband.algorithms.kernels.barred_lists import Bars
from skyband.algorithms.kernels.ranked_lists import Ranked, insert, replace_worst
from skyband.algorithms.kernels.row_slots import Rows
from skyband.compiling.jit import generated, kernel
from skyband.compiling.state import State, field
from skyband.core.order import before
from skyband.core.types import Floats, Ints
from skyband.query.expression.score_space import Space

Bytes = npt.NDArray[np.uint8]
Small = npt.NDArray[np.int32]


class Views(Bars):
    """By slot: how many rows its view may have. A view is whole where it is complete."""

    most: Ints = field("i8[slot]")


class Best(State):
    """The best rows that a walk has met, worst first."""

    good: Floats = field("f8[rank]")
    time: Ints = field("i8[rank]")
    seq: Ints = field("i8[rank]")


@kernel
def offer(slot: int, value: float, when: int, number: int, views: Views, ranked: Ranked) -> None:
    """Insert a row that is inside the window, if it is better than the view's last or the view is whole."""
    first, n = ranked.start[slot], ranked.size[slot]
    full, whole = n == views.most[slot], views.complete[slot] > 0
    if full:
        views.complete[slot] = 0  # a row is outside from now on: this one, or the worst
    if (full or not whole) and (
        n == 0 or not before(value, when, number, ranked.good[first], ranked.time[first], ranked.seq[first])
    ):
        return
    views.counts[slot, 0] += 1
    if full:
        at = replace_worst(ranked, slot, value, when, number)
    else:
        at = insert(ranked, slot, value, when, number)
    if first + ranked.size[slot] - at <= views.ks[slot]:
        views.touched[slot] = 1


@kernel
def meet(
    slot: int, begin: int, values: Floats, fits: Bytes, time: Ints, seq: Ints, views: Views, ranked: Ranked
) -> None:
    """Offer the rows of a step from `begin` on, scored, to one slot's view."""
    for row in range(begin, values.shape[0]):
        value = values[row]
        if value == value and fits[row]:
            offer(slot, value, time[row], seq[row], views, ranked)


@kernel
def leave(deleted: Ints, short: Ints, views: Views, ranked: Ranked) -> int:
    """Remove from each view the rows that left its window or were deleted (seqs in order); return how many are
    short."""
    ks, horizon_time, horizon_seq = views.ks, views.horizon_time, views.horizon_seq
    good, time, seq = ranked.good, ranked.time, ranked.seq
    count = 0
    for slot in range(ks.shape[0]):
        if ks[slot] == 0:
            continue
        first, n = ranked.start[slot], ranked.size[slot]
        write = first
        for at in range(first, first + n):
            stays = time[at] > horizon_time[slot] or (
                time[at] == horizon_time[slot] and seq[at] >= horizon_seq[slot]
            )
            if stays and deleted.shape[0] > 0:
                place = np.searchsorted(deleted, seq[at])
                stays = place == deleted.shape[0] or deleted[place] != seq[at]
            if stays:
                if write != at:
                    good[write] = good[at]
                    time[write] = time[at]
                    seq[write] = seq[at]
                write += 1
            elif first + n - at <= ks[slot]:
                views.touched[slot] = 1
        ranked.size[slot] = write - first
        if ranked.size[slot] < ks[slot] and views.complete[slot] == 0:
            short[count] = slot
            count += 1
    return count


@kernel
def take(
    places: Small, values: Floats, rows: Rows, horizon_time: int, horizon_seq: int, boxed: Ints, low: Floats,
    high: Floats, size: int, best: Best,
) -> int:  # fmt: skip
    """Keep the best of the rows met, as many as there is room for; a row met again counts once. Return their number."""
    x, times, seqs, good, time, seq = rows.x, rows.time, rows.seq, best.good, best.time, best.seq
    want = good.shape[0]
    for i in range(places.shape[0]):
        value = values[i]
        if not (value == value and (size < want or value >= good[0])):
            continue
        row = places[i]
        when, number = times[row], seqs[row]
        inside = when > horizon_time or (when == horizon_time and number >= horizon_seq)
        for b in range(boxed.shape[0]):
            inside &= low[b] <= x[row, boxed[b]] <= high[b]
        if not inside or (size == want and not before(value, when, number, good[0], time[0], seq[0])):
            continue
        begin, end = 0, size  # behind all worse rows
        while begin < end:
            middle = (begin + end) // 2
            if before(value, when, number, good[middle], time[middle], seq[middle]):
                begin = middle + 1
            else:
                end = middle
        if begin < size and seq[begin] == number:
            continue
        if size < want:
            for j in range(size, begin, -1):
                good[j] = good[j - 1]
                time[j] = time[j - 1]
                seq[j] = seq[j - 1]
            size += 1
        else:
            begin -= 1
            for j in range(begin):
                good[j] = good[j + 1]
                time[j] = time[j + 1]
                seq[j] = seq[j + 1]
        good[begin] = value
        time[begin] = when
        seq[begin] = number
    return size


_TEMPLATE = '''"""Generated by algorithms.sorted_lists.views: scores of one shape."""
import numpy as np
from skyband.compiling.jit import kernel
from skyband.core.order import first_inside
from skyband.algorithms.sorted_lists.views import offer

@kernel
def meet_all(sign, {columns}, time, seq, views, ranked):
    ks, constants, low, high, whole = views.ks, views.constants, views.low, views.high, views.complete
    horizon_time, horizon_seq = views.horizon_time, views.horizon_seq
    start, size, good = ranked.start, ranked.size, ranked.good
    n = time.shape[0]
    block = np.empty(64, np.float64)
    for slot in range(ks.shape[0]):
        if ks[slot] == 0 or (size[slot] == 0 and whole[slot] == 0):
            continue
{parameters}
        begin = first_inside(time, seq, 0, n, horizon_time[slot], horizon_seq[slot])
        for b in range((n + 63) // 64):
            if b * 64 + 64 <= begin:
                continue
            bar = -np.inf if whole[slot] else good[start[slot]]
            stop = min(n - b * 64, 64)
            hit = False
            if stop == 64:
                for j in range(64):
{loads}
                    value = sign * ({score})
                    block[j] = value
                    hit |= value >= bar
            else:
                for j in range(stop):
{loads}
                    value = sign * ({score})
                    block[j] = value
                    hit |= value >= bar
            if not hit:
                continue
            for j in range(max(0, begin - b * 64), stop):
                row = b * 64 + j
                if block[j] >= bar{fits}:
                    offer(slot, block[j], time[row], seq[row], views, ranked)
                    bar = -np.inf if whole[slot] else good[start[slot]]

@kernel
def score_at(places, slot, constants, sign, x, out):
{own}
    for i in range(places.shape[0]):
        row = places[i]
{gathers}
        out[i] = sign * ({score})
'''


@lru_cache(maxsize=256)
def compiled(space: Space, constants: int) -> Any:
    """Return the kernels of a shape, as a module."""
    score, d = space.rendered or "", len(space.columns)
    for i in reversed(range(constants)):
        score = score.replace(f"p[{i}]", f"p{i}")
    names = [f"p{i} = constants[slot, {i}]" for i in range(constants)] or ["pass"]
    limits = (f"low[slot, {i}] <= X{axis}[row] <= high[slot, {i}]" for i, axis in enumerate(space.boxed))
    source = _TEMPLATE.format(
        columns=", ".join(f"X{i}" for i in range(d)),
        parameters="\n".join(" " * 8 + name for name in names),
        own="\n".join(" " * 4 + name for name in names),
        loads="\n".join(" " * 20 + f"x{i} = X{i}[b * 64 + j]" for i in range(d)),
        gathers="\n".join(" " * 8 + f"x{i} = x[row, {i}]" for i in range(d)),
        score=score,
        fits="".join(f" and {limit}" for limit in limits),
    )
    return generated(source)
