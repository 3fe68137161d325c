"""The score-time picture of a query: why its state is so small, and which rows enter when the leaders expire.

**Problem.** A row can still get into a top-k only while fewer than k newer rows are at least as good. Few are, and that
is best seen: the window's rows as points, recency to the right and score upwards, and the candidates among them as a
staircase that climbs to the left. But the window's rows are not kept, which is the point of it.

**Idea.** A `Sampler` keeps some: rows are numbered as they come, and a row whose number can be divided r times by four
is kept until 1,024 * 4^r more have come. So there is an even sample of 256 to 1,024 rows for a window of any length,
none of them scored before a page shows it. Candidates and tops come from the algorithm itself, and from them the *next*
ones: the window's edge moves over the candidates, oldest first, as if no row came any more.

**What is kept.** About 3/4 * 1,024 rows for each power of four rows that have come: some thousands a stream. The sample
begins again when the server does; candidates and tops don't. For pairs, objects and streams of updates there is none.

**When wrong.** Late rows are counted by their arrival, so a sample of a stream with many of them is a little uneven.
"""

from __future__ import annotations

import math
import threading
from heapq import heappush, heapreplace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skyband.core.errors import SkybandError
from skyband.core.exchange import ALL
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.engine.object_group import ObjectGroup
from skyband.engine.pair_group import PairGroup, PairWatch
from skyband.engine.protocol import Streamed
from skyband.engine.row_group import Group
from skyband.query.expression import evaluate
from skyband.query.model import Rows
from skyband.stream import clock
from skyband.stream.arrow import numbers_array, python_value
from skyband.stream.batches import Batch, read
from skyband.stream.schema import Raw
from skyband.stream.validation import accept

if TYPE_CHECKING:
    from skyband.engine.stream_runtime import Stream
    from skyband.engine.watch import Watch

EACH = 1024  # rows kept of each power of four
POWERS = 12
WAITING = 32_768  # rows that wait to be looked at
PIECES = 512  # or the pushes that they came with
MOST_SCORED = 200_000  # rows of a kept window that are scored for a picture
MOST = 2000  # candidates in a picture
NEXT = 12  # rows that enter next


class Sample:
    """Some rows of one stream: their numbers in order of arrival, seqs, times and columns."""

    def __init__(self) -> None:
        self.count = 0  # rows that have come
        self.waiting: list[tuple[Any, Ints, Ints]] = []
        self.waiting_rows = 0
        self.number: Ints = np.empty(0, dtype=np.int64)
        self.seq: Ints = np.empty(0, dtype=np.int64)
        self.time: Ints = np.empty(0, dtype=np.int64)
        self.table: pa.Table | None = None

    def pushed(self, batch: Any, rows: int, first_seq: int) -> None:
        """Rows come. What is to be kept of them is put aside, and looked at later."""
        begin, self.count = self.count, self.count + rows
        number = _kept_numbers(begin, self.count)
        self.waiting.append((_some(batch, number - begin), number, number - begin + first_seq))
        self.waiting_rows += len(number)

    @property
    def full(self) -> bool:
        return self.waiting_rows > WAITING or len(self.waiting) > PIECES

    def settle(self, stream: Streamed) -> None:
        """Bring what waits into the stream's types, without its rejects, and forget what is too old by now."""
        parts = [(self.number, self.seq, self.time, self.table)] if self.table is not None else []
        for batch, number, seq in _together(self.waiting):
            young = self._young(number)  # by now most of them are too old, and need no looking at
            if not len(young):
                continue
            batch, number, seq = _some(batch, young), number[young], seq[young]
            try:
                raw, rows = read(batch)
                found = accept(stream.door(), raw, rows, most_texts=0)
            except (SkybandError, pa.ArrowException):
                continue  # the stream has refused it as a whole
            at = slice(None) if found.position is None else found.position
            parts.append((number[at], seq[at], found.time, found.table))
        self.waiting, self.waiting_rows = [], 0
        if not parts:
            return
        numbers, seqs, times = (np.concatenate([part[i] for part in parts]) for i in (0, 1, 2))
        table = pa.concat_tables([part[3] for part in parts], promote_options="permissive")
        keep = self._young(numbers)
        self.number, self.seq, self.time = numbers[keep], seqs[keep], times[keep]
        self.table = table.take(numbers_array(keep)).combine_chunks()

    def _young(self, number: Ints) -> Ints:
        """Return the places of those that are kept still."""
        return np.flatnonzero(number >= self.count - EACH * 4.0 ** _powers(number))

    def evenly(self, rows: int, horizon: Recency) -> Batch | None:
        """Return an even sample of the last so many rows, from the horizon on."""
        if self.table is None:
            return None
        power = 0 if rows <= EACH else math.ceil(math.log(rows / EACH, 4))
        inside = (self.time > horizon.time) | ((self.time == horizon.time) & (self.seq >= horizon.seq))
        keep = np.flatnonzero(inside & (_powers(self.number) >= power))
        return Batch(self.table.take(numbers_array(keep)), self.seq[keep], self.time[keep])


class Sampler:
    """Samples of all streams of a monitor. Rows may come while one is read."""

    def __init__(self) -> None:
        self.samples: dict[str, Sample] = {}
        self._lock = threading.Lock()

    def pushed(self, stream: Stream, batch: Any, first_seq: int, rows: int) -> bool:
        """Call it after each push: the batch as it was pushed, its first row's seq and how many rows it has.

        Return whether it wants to be settled. This needs no lock of the engine."""
        if stream.updates is not None or not rows:
            return False
        with self._lock:
            sample = self.samples.setdefault(stream.name, Sample())
            sample.pushed(batch, rows, first_seq)
            return sample.full

    def clear(self) -> None:
        """Forget all rows."""
        with self._lock:
            self.samples.clear()

    def settle(self, stream: Streamed) -> None:
        """Look at what waits. The caller, as that of `of`, holds the engine's lock."""
        with self._lock:
            if stream.name in self.samples:
                self.samples[stream.name].settle(stream)

    def of(self, stream: Streamed, rows: int, horizon: Recency) -> Batch | None:
        sample = self.samples.get(stream.name)
        if sample is None or stream.schema is None:
            return None
        with self._lock:
            sample.settle(stream)
            found = sample.evenly(rows, horizon)
        if found is None:
            return None
        missing = [field for field in stream.schema if field.name not in found.table.column_names]
        for field in missing:  # a column that came later
            found.table = found.table.append_column(field, pa.nulls(len(found), field.type))
        return found


def _kept_numbers(begin: int, end: int) -> Ints:
    """Return the numbers of rows from begin to end that are kept when `end` rows have come."""
    parts = []
    for power in range(POWERS):
        step = 4**power
        start = max(begin, end - EACH * step)
        parts.append(np.arange(-(-start // step) * step, end, step, dtype=np.int64))
        if start == begin and step > end - begin:
            break  # rarer rows of this batch are among these already
    return parts[0] if len(parts) == 1 else np.unique(np.concatenate(parts))


def _powers(number: Ints) -> Ints:
    """Return how often each number can be divided by four."""
    found = np.zeros(len(number), dtype=np.int64)
    for power in range(1, POWERS):
        found[number % 4**power == 0] = power
    return found


def _some(batch: Any, places: Ints) -> Any:
    """Return some rows of a batch, copied: the batch itself must not be held."""
    if isinstance(batch, pa.Table):
        return batch.take(numbers_array(places))
    if isinstance(batch, list | tuple):
        return [batch[place] for place in places.tolist()]
    raw: Raw = read(batch)[0]
    if isinstance(raw, pa.Table):
        return raw.take(numbers_array(places))
    return {
        name: column.take(numbers_array(places))
        if isinstance(column, pa.ChunkedArray)
        else [column[place] for place in places.tolist()]
        for name, column in raw.items()
    }


def _together(waiting: list[tuple[Any, Ints, Ints]]) -> list[tuple[Any, Ints, Ints]]:
    """Neighbours of one form as one: single rows come by the hundred."""
    runs: list[list[tuple[Any, Ints, Ints]]] = []
    for piece in waiting:
        if runs and _alike(runs[-1][0][0], piece[0]):
            runs[-1].append(piece)
        else:
            runs.append([piece])
    found = []
    for run in runs:
        batches = [batch for batch, _, _ in run]
        one = batches[0]
        if len(run) > 1:
            one = pa.concat_tables(batches) if isinstance(one, pa.Table) else [r for b in batches for r in b]
        found.append((one, np.concatenate([n for _, n, _ in run]), np.concatenate([s for _, _, s in run])))
    return found


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, pa.Table):
        return isinstance(other, pa.Table) and bool(one.schema.equals(other.schema))
    return isinstance(one, list) and isinstance(other, list)


# -- the picture -----------------------------------------------------------------------------------------------


def picture(watch: Watch, sampler: Sampler | None = None) -> dict[str, Any]:
    """Return a query's picture, as JSON takes it. The caller holds the engine's lock."""
    stream, group = watch._stream, _group(watch)
    horizon = watch.horizon()
    plan = watch.explain()
    scale = _Scale(stream)
    good, time, seq, names = _candidates(watch, horizon)
    top = watch.top()
    sign = float(group.sign)
    answer: dict[str, Any] = {
        "query": watch.name,
        "kind": _kind(group),
        "unit": scale.unit,
        "k": watch.k,
        "descending": sign > 0,
        "window": str(watch.window),
        "length": watch.window.n if isinstance(watch.window, Rows) else watch.window.nanoseconds / 1e9,
        "counts_rows": isinstance(watch.window, Rows),
        "now": scale.now(),
        "horizon": None if horizon == LOWEST else scale.one(horizon),
        "window_rows": plan.rows_in_window,
        "state_rows": plan.candidates,
        "state_bytes": plan.bytes,
        "keeps_window": plan.keeps_window or not isinstance(group, Group),
        "algorithm": plan.algorithm,
        "rows": [],
        "note": _NOTES[_kind(group)],
    }
    if sampler is not None and isinstance(group, Group):
        answer["rows"] = _sampled(watch, sampler, horizon, plan.rows_in_window or 0, scale)
    score = sign * good + 0.0
    points = list(zip(scale.many(time, seq), score.tolist(), names, strict=True))
    answer["candidates"] = [point for point in points if math.isfinite(point[1])]
    rank_of = {key: rank for rank, key in enumerate(_keys(watch, top), 1)}
    answer["top"] = [(*point, rank_of[point[2]]) for point in answer["candidates"] if point[2] in rank_of]
    answer["top"].sort(key=lambda point: point[3])
    answer["next"] = [] if isinstance(group, ObjectGroup) else _next(watch, good, time, seq, names, scale)
    return answer


_NOTES = {
    "rows": "A row can still get into the answer only while fewer than k newer rows are at least as good.",
    "pairs": "A pair lives as long as its older row, so it stands where that row does.",
    "objects": "Totals rise and fall with every row, so every object of the window is kept; each stands at its "
    "latest row.",
    "threshold": "Every row beyond the bound is in the answer until it leaves the window.",
}


def _group(watch: Watch) -> Any:
    """Return the family of a watch: of rows, pairs or objects."""
    return watch.group


def _kind(group: Any) -> str:
    if isinstance(group, PairGroup):
        return "pairs"
    if isinstance(group, ObjectGroup):
        return "objects"
    return "threshold" if all(watch.k is None for watch in group.watches) else "rows"


class _Scale:
    """Recencies as numbers on the picture's axis: seconds, or seqs."""

    def __init__(self, stream: Streamed) -> None:
        self.monitor, self.stream = stream.monitor, stream
        self.unit = "seq" if stream.time is None else "time"

    def many(self, time: Ints, seq: Ints) -> list[Any]:
        if self.unit == "seq":
            return list(seq.tolist())
        if self.monitor._kind == "number":
            return list(clock.numbers_of(time).tolist())
        return list((time / 1e9).tolist())

    def one(self, recency: Recency) -> Any:
        return self.many(np.array([recency.time]), np.array([recency.seq]))[0]

    def now(self) -> Any:
        if self.unit == "seq":
            return max(self.monitor.rows_seen - 1, 0)
        now = self.monitor._now
        return None if now is None else self.one(Recency(now, 0))


def _sampled(
    watch: Watch, sampler: Sampler, horizon: Recency, rows: int, scale: _Scale
) -> list[tuple[Any, float]]:
    """Return some of the window's rows: recency and score."""
    batch = sampler.of(watch._stream, rows, horizon)
    if batch is None or not len(batch):
        return []
    group = _group(watch)
    view = group.view(batch)
    score = group.sign * group.good(view, watch.slot)
    place = np.arange(len(batch)) if view.index is None else view.index
    fine = np.isfinite(score)
    where = watch.query.where
    if group.space.boxed and where is not None:  # the predicate is in the index
        fine &= np.array(evaluate(where, view), dtype=bool)
    time, seq = batch.time[place][fine], batch.seq[place][fine]
    return list(zip(scale.many(time, seq), score[fine].tolist(), strict=True))


def _candidates(watch: Watch, horizon: Recency) -> tuple[Floats, Ints, Ints, list[Any]]:
    """Return what can still get into the answer, best first: good, time, seq, and what each is called."""
    group = _group(watch)
    if isinstance(group, ObjectGroup):
        found = group.top(watch.slot, None, horizon)
        return found.good[:MOST], found.time[:MOST], found.seq[:MOST], list(found.id or ())[:MOST]
    if isinstance(group, PairGroup):
        found = group.top(watch.slot, ALL, horizon)
        names = [
            f"{a}:{b}"
            for a, b in zip(
                found.seq.tolist(),
                (found.seq_b if found.seq_b is not None else found.seq).tolist(),
                strict=True,
            )
        ]
        return found.good[:MOST], found.time[:MOST], found.seq[:MOST], names[:MOST]
    algorithm = group.algorithm
    if group.windowed and watch.k is not None and algorithm.window_size()[0] <= MOST_SCORED:
        good, time, seq = algorithm.scored(watch.slot, horizon)
        kept = _undominated(good, time, seq, watch.k)
        good, time, seq = good[kept], time[kept], seq[kept]
    else:
        good, time, seq = algorithm.top(watch.slot, ALL, horizon)
    order = np.lexsort((seq, time, good))[::-1][:MOST]
    return good[order], time[order], seq[order], seq[order].tolist()


def _undominated(good: Floats, time: Ints, seq: Ints, k: int) -> Ints:
    """Return the rows with fewer than k newer ones that are at least as good."""
    best: list[float] = []
    kept: list[int] = []
    order = np.lexsort((seq, time))[::-1]
    for place, value in zip(order.tolist(), good[order].tolist(), strict=True):
        if len(best) < k:
            heappush(best, value)
        elif value > best[0]:
            heapreplace(best, value)
        else:
            continue
        kept.append(place)
    return np.array(kept, dtype=np.int64)


def _keys(watch: Watch, top: pa.Table) -> list[Any]:
    """Return what the answer's rows are called among the candidates."""
    group = _group(watch)
    if isinstance(group, ObjectGroup):
        return list(group.top(watch.slot, watch.ranks(watch.horizon()), watch.horizon()).id or ())
    seq = top.column("seq").to_pylist()
    if isinstance(group, PairGroup):
        return [f"{a}:{b}" for a, b in zip(seq, top.column("seq_b").to_pylist(), strict=True)]
    return list(seq)


def _next(
    watch: Watch, good: Floats, time: Ints, seq: Ints, keys: list[Any], scale: _Scale
) -> list[dict[str, Any]]:
    """Return the rows that leave and enter, if no row came any more: the window's edge moves over the candidates."""
    k = len(seq) if watch.k is None else watch.k
    at = scale.many(time, seq)
    inside, gone, waits = set(range(min(k, len(seq)))), set(), k  # places are ranks: best first
    found: list[dict[str, Any]] = []
    entering: list[int] = []
    for place in np.lexsort((seq, time)).tolist():
        gone.add(place)
        if place not in inside:
            continue
        inside.discard(place)
        while waits < len(seq) and waits in gone:
            waits += 1
        step: dict[str, Any] = {"at": at[place], "leaves": keys[place], "enters": None}
        if waits < len(seq):
            inside.add(waits)
            entering.append(waits)
            score = float(watch.group.sign * good[waits] + 0.0)
            step |= {
                "enters": keys[waits],
                "rank": sum(other <= waits for other in inside),
                "score": score if math.isfinite(score) else None,
            }
            waits += 1
        found.append(step)
        if len(found) == NEXT:
            break
    values = iter(_values(watch, [keys[place] for place in entering]))
    for step in found:
        if step["enters"] is not None:
            step["row"] = next(values)
    return found


def _values(watch: Watch, keys: list[Any]) -> list[dict[str, Any]]:
    """Return the selected columns of candidates, by what they are called."""
    if isinstance(watch, PairWatch):
        both = np.array([key.split(":") for key in keys], dtype=np.int64).reshape(-1, 2)
        columns = watch._chosen(both[:, 0].copy(), both[:, 1].copy())
    else:
        columns = watch._selected(np.array(keys, dtype=np.int64))
    names = [output.name for output, _ in columns]
    lists = [[_plain(python_value(value)) for value in column] for _, column in columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*lists, strict=True)] or [{} for _ in keys]


def _plain(value: Any) -> Any:
    """A value as JSON has it."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value.isoformat() if hasattr(value, "isoformat") else str(value)
