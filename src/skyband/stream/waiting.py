"""Rows that are stamped far ahead wait, so that one wrong time doesn't make every right row late.

**Problem.** The latest time says which rows are late and which have left. One row whose time is in milliseconds among
seconds would carry it far into the future, and all rows after it would be rejected.

**Rule.** With `max_ahead`, a row stamped further ahead of the latest time taken waits. Waiting and new rows of all
streams are gone through in order of time, and a row is taken, with the seq of its arrival, as soon as it is at most
`max_ahead` after the latest time taken.

- A stream's first rows: time starts at the earliest of them, or, if most of them can't be reached from there, at the
  earliest of those.
- Three steps in a row all of whose rows are ahead: time starts again at the median of those rows' times (the lower one
  of two), and the waiting rows are judged again. Rows rejected for another reason than lateness don't count.
- At most 100,000 rows of a stream wait, those that came first; the others are rejected as `ahead`.
- Update streams: a waiting row is rejected as `overtaken` when a row of its key that came after it is taken before it.

A row that is taken after waiting is newer than every row taken in earlier steps: they were at most `max_ahead` before
it, or it would not have waited. Only its seq may be lower than theirs.

`judge` decides for a whole step and changes nothing; `Judged.take` applies it. Where rows are dealt out to several
processes each decides by the times of all rows (`Accepted.passed`), which they all have, so they decide alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from skyband.core.types import MINIMUM, Ints
from skyband.query.window import Last
from skyband.stream import clock
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import flat
from skyband.stream.keys import keys_for
from skyband.stream.notices import Notice
from skyband.stream.payloads import recast
from skyband.stream.rejects import Reject, raw_text
from skyband.stream.updates import DATA, Codes
from skyband.stream.validation import Accepted

Bools = npt.NDArray[np.bool_]

MOST = 100_000  # rows of a stream that wait
STEPS = 3  # so many steps in a row all of whose rows are ahead mean that time goes on elsewhere
NONE: Ints = np.empty(0, dtype=np.int64)


class Waiting:
    """The rows of one stream that wait, in order of arrival."""

    def __init__(self) -> None:
        self.table: pa.Table | None = None
        self.seq, self.time = NONE, NONE  # of the table's rows
        self.codes: Codes | None = None  # of an update stream
        self.all_seq, self.all_time = (
            NONE,
            NONE,
        )  # of all that wait; where rows are dealt out others have some of them
        self.steps: list[Ints] = []  # the times of the latest steps in a row all of whose rows were ahead
        self.earliest = 2**63 - 1  # time of all that wait

    def __len__(self) -> int:
        return len(self.all_seq)

    def bytes(self) -> int:
        """Return the bytes that the waiting rows take."""
        return 0 if self.table is None else int(self.table.nbytes) + 2 * self.seq.nbytes

    def cast(self, types: Mapping[str, pa.DataType]) -> None:
        """Give columns other types, which hold their values."""
        if self.table is not None:
            self.table = recast(self.table, types)

    def keep(self, rows: Bools, every: Bools) -> None:
        """Keep these rows of the table, and these of all that wait."""
        if self.table is not None:
            self.table = self.table.filter(numbers_array(rows)).combine_chunks()
        self.seq, self.time = self.seq[rows], self.time[rows]
        self.codes = None if self.codes is None else self.codes[rows]
        self.all_seq, self.all_time = self.all_seq[every], self.all_time[every]
        self.earliest = int(self.all_time.min(initial=2**63 - 1))

    def add(self, table: pa.Table, seq: Ints, time: Ints, codes: Codes | None) -> None:
        """Let rows wait that came after all others."""
        if len(seq):
            there = [] if self.table is None else [self.table]
            self.table = pa.concat_tables([*there, table], promote_options="default").combine_chunks()
        if codes is not None:
            self.codes = codes if self.codes is None else np.concatenate([self.codes, codes])
        self.seq, self.time = np.concatenate([self.seq, seq]), np.concatenate([self.time, time])

    def add_times(self, seq: Ints, time: Ints) -> None:
        """Count rows that wait, here or elsewhere."""
        self.all_seq = np.concatenate([self.all_seq, seq])
        self.all_time = np.concatenate([self.all_time, time])
        self.earliest = int(self.all_time.min(initial=2**63 - 1))

    def dump(self) -> dict[str, Any]:
        """Return the state as plain data, arrays and tables."""
        blob: dict[str, Any] = {"steps": [times.copy() for times in self.steps]}
        if len(self):
            blob |= {"table": self.table, "seq": self.seq, "time": self.time, "codes": self.codes}
            blob |= {"all_seq": self.all_seq, "all_time": self.all_time}
        return blob

    def load(self, blob: Mapping[str, Any]) -> None:
        """Continue from what `dump` gave."""
        self.steps = [times.copy() for times in blob.get("steps", ())]
        for name in ("table", "seq", "time", "codes", "all_seq", "all_time"):
            if name in blob:
                setattr(self, name, blob[name])
        self.earliest = int(self.all_time.min(initial=2**63 - 1))

    def _check(self) -> None:
        # the table has a row for each seq, and a code in an update stream
        assert len(self.seq) == len(self.time) == (0 if self.table is None else self.table.num_rows)
        assert self.codes is None or len(self.codes) == len(self.seq)
        # seqs ascend, and what is here is among all that wait
        assert bool(np.all(np.diff(self.all_seq) > 0)) and bool(np.isin(self.seq, self.all_seq).all())
        assert len(self.all_seq) == len(self.all_time) <= MOST
        # three steps would have ended the waiting
        assert len(self.steps) < STEPS


class Waits(Protocol):
    """What a stream is here."""

    name: str
    waiting: Waiting
    latest: int | None  # the latest time taken

    @property
    def time(self) -> str | None: ...
    @property
    def max_ahead(self) -> Last | None: ...
    @property
    def schema(self) -> pa.Schema | None: ...
    @property
    def updates(self) -> Any: ...


class _Came:
    """What a step brings to one stream."""

    def __init__(self, stream: Any, parts: list[Accepted], first: int) -> None:
        self.stream: Waits = stream
        self.parts = parts
        counts = np.cumsum([first, *(part.count for part in parts)])
        self.base: list[int] = (
            counts.tolist()
        )  # the seq of each part's first row; at the end that of the next row
        timed = stream.time is not None and stream.max_ahead is not None
        self.ahead: int | None = stream.max_ahead.nanoseconds if timed else None
        self.key: str | None = None if stream.updates is None else stream.updates.key
        self.limit = 2**63 - 1  # rows stamped later than this wait
        self.steps: list[Ints] = []  # of rows ahead, this one included
        self.jumped: int | None = None  # where time starts again
        every = [_every(part) for part in parts]
        self.seq = _one([base + at for (at, _), base in zip(every, self.base, strict=False)])
        self.time = _one([time for _, time in every])
        self.judged = self.time[self.time > MINIMUM]  # a delete may have no time
        self.late = sum(reject.reason == "late" for part in parts for reject in part.rejects)

    @property
    def all_ahead(self) -> bool:
        """Whether there are rows and every one is ahead."""
        return bool(len(self.judged)) and not self.late and int(self.judged.min()) > self.limit

    def settle(self) -> None:
        """Find, once the limit is known, which rows are taken, wait, or are rejected."""
        waiting, taken = self.stream.waiting, self.time <= self.limit
        self.released = waiting.all_time <= self.limit
        self.overtaken = np.zeros(len(waiting), dtype=bool)
        lost = np.zeros(len(taken), dtype=bool)
        if self.key is not None and (len(waiting) or not taken.all()):
            self.overtaken, lost = self._overtaken(taken)
            self.released &= ~self.overtaken
        held = ~taken & ~lost
        room = MOST - int(np.count_nonzero(~self.released & ~self.overtaken))
        self.roomless = held & (np.cumsum(held) > room)
        self.lost, self.held = lost, held & ~self.roomless

    def _overtaken(self, taken: Bools) -> tuple[Bools, Bools]:
        """Return which waiting rows and which new rows are rejected since a later row of their key is taken first."""
        waiting, old = self.stream.waiting, len(self.stream.waiting)
        tables = [*(() if waiting.table is None else (waiting.table,)), *(part.table for part in self.parts)]
        columns = [flat(table.column(self.key)) for table in tables]
        slots = keys_for(columns[0].type).find(pa.concat_arrays(columns))
        time = np.concatenate([waiting.all_time, self.time])
        seq = np.concatenate([waiting.all_seq, self.seq])
        waits = np.concatenate([np.ones(old, dtype=bool), ~taken])
        first = np.concatenate(
            [waiting.all_time <= self.limit, taken]
        )  # they are taken if nothing overtakes them
        rows = np.flatnonzero(np.isin(slots, slots[waits]))
        rows = rows[np.argsort(-seq[rows])]
        gone = np.zeros(len(slots), dtype=bool)
        earliest: dict[int, int] = {}  # by key, of the rows that came later and are taken
        for row, slot, at in zip(rows.tolist(), slots[rows].tolist(), time[rows].tolist(), strict=True):
            if waits[row] and earliest.get(slot, at) < at:
                gone[row] = True
            if first[row] and at < earliest.get(slot, at + 1):
                earliest[slot] = at
        return gone[:old], gone[old:]

    def apply(self) -> list[Accepted]:
        """Move rows into the waiting room and out of it; return the parts that are taken, earlier rows first."""
        waiting = self.stream.waiting
        like = self.parts[0].table.schema if self.parts else None
        out = self._out(like)
        some = bool(self.held.any() or self.lost.any() or self.roomless.any())
        parts = [self._cut(*which) for which in self._each()] if some else self.parts
        if out is not None:
            waiting.keep(*self._staying())
        if some:
            for part, base, held, _ in self._each():
                rows = np.flatnonzero(held[_places(part)])
                position = _position(part)[rows]
                codes = None if part.codes is None else part.codes[rows]
                waiting.add(part.table.take(numbers_array(rows)), base + position, part.time[rows], codes)
            waiting.add_times(self.seq[self.held], self.time[self.held])
        return parts if out is None else [out, *parts]

    def _each(self) -> Iterable[tuple[Accepted, int, Bools, Bools]]:
        """Yield each part, its first seq, and which of all its rows wait and which go no further."""
        at = 0
        for part, base in zip(self.parts, self.base, strict=False):
            rows = slice(at, at := at + len(_every(part)[0]))
            yield part, base, self.held[rows], (self.lost | self.roomless)[rows]

    def _staying(self) -> tuple[Bools, Bools]:
        every = ~(self.released | self.overtaken)
        waiting = self.stream.waiting
        return np.isin(waiting.seq, waiting.all_seq[every]), every

    def _out(self, like: pa.Schema | None) -> Accepted | None:
        """Return the rows that have waited long enough, as a part: seqs by their distance from the next row's."""
        waiting, name, base = self.stream.waiting, self.stream.name, self.base[0]
        if not self.released.any() and not self.overtaken.any():
            return None
        table = waiting.table if waiting.table is not None else (like or pa.schema([])).empty_table()
        rejects = [
            Reject(int(waiting.all_seq[row]) - base, name, "overtaken", "a newer row of its key was taken before it",
                   raw_text(table, row))
            for row in np.flatnonzero(self.overtaken).tolist()
        ]  # fmt: skip
        rows = np.flatnonzero(np.isin(waiting.seq, waiting.all_seq[self.released]))
        codes = None if waiting.codes is None else waiting.codes[rows]
        shape = like or self.stream.schema
        assert shape is not None
        every = waiting.all_seq[self.released] - base, waiting.all_time[self.released]
        whole = len(rows) == len(every[0])
        return Accepted(
            count=0,
            table=_shaped(table.take(numbers_array(rows)), shape),
            position=waiting.seq[rows] - base,
            time=waiting.time[rows],
            rejects=rejects,
            passed=None if whole else every,
            total=len(every[0]) if codes is None else int(np.count_nonzero(codes == DATA)),
            codes=codes,
        )

    def _cut(self, part: Accepted, base: int, held: Bools, gone: Bools) -> Accepted:
        """Return a part without the rows that wait or are rejected."""
        out = held | gone
        if not out.any():
            return part
        position, (every, times) = _position(part), _every(part)
        here = np.flatnonzero(~out[_places(part)])
        rejects = [*part.rejects, *self._rejected(part, base, gone)]
        codes = None if part.codes is None else part.codes[here]
        stays = int(np.count_nonzero(~out))
        return replace(
            part,
            table=part.table.take(numbers_array(here)),
            position=position[here],
            time=part.time[here],
            rejects=sorted(rejects),
            passed=None if part.passed is None else (every[~out], times[~out]),
            total=stays if codes is None else int(np.count_nonzero(codes == DATA)),
            codes=codes,
        )

    def _rejected(self, part: Accepted, base: int, gone: Bools) -> Iterable[Reject]:
        every, _ = _every(part)
        where = {at: row for row, at in enumerate(_position(part).tolist())} if gone.any() else {}
        lost = {int(seq) - base for seq in self.seq[self.lost].tolist()}
        for at in every[gone].tolist():
            raw = raw_text(part.table, where[at]) if at in where else ""
            if at in lost:
                yield Reject(
                    at, self.stream.name, "overtaken", "a newer row of its key was taken before it", raw
                )
            else:
                detail = f"stamped more than {self.stream.max_ahead} ahead, and {MOST:,} rows wait already"
                yield Reject(at, self.stream.name, "ahead", detail, raw)

    def rejected(self) -> list[Reject]:
        """Return the new rows that would be rejected, for a strict batch."""
        return [r for part, base, _, gone in self._each() for r in self._rejected(part, base, gone)]


@dataclass
class Judged:
    """What is decided about a step."""

    arriving: list[tuple[Any, list[Accepted]]]
    came: list[_Came] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)
    jumped: int | None = None  # where time starts again

    def take(self) -> list[tuple[Any, list[Accepted]]]:
        """Apply it: move rows into the waiting rooms and out of them; return the parts that are taken."""
        if not self.came:
            return self.arriving
        found = []
        for came in self.came:
            came.stream.waiting.steps = came.steps
            if came.jumped is not None:
                latest = came.stream.latest
                came.stream.latest = came.jumped if latest is None else max(latest, came.jumped)
            parts = came.apply()
            if parts:
                found.append((came.stream, parts))
        return found

    def rejected(self) -> list[Reject]:
        """Return the step's own rows that are rejected here."""
        return [reject for came in self.came for reject in came.rejected()]


def judge(
    arriving: list[tuple[Any, list[Accepted]]],
    streams: Iterable[Waits],
    now: int | None,
    kind: clock.Kind | None,
    next_seq: int,
) -> Judged:
    """Decide which rows of a step, and which that wait, are taken, wait, or are rejected; change nothing."""
    timed = [stream for stream in streams if stream.time is not None]
    if kind is None or all(stream.max_ahead is None and not len(stream.waiting) for stream in timed):
        return Judged(arriving)
    if _is_plain(arriving, timed, now, kind):
        for stream, _ in arriving:
            stream.waiting.steps = []
        return Judged(arriving)
    came, seq = [], next_seq
    for stream, parts in arriving:
        came.append(_Came(stream, parts, seq))
        seq = came[-1].base[-1]
    here = {one.stream.name for one in came}
    came += [_Came(stream, [], seq) for stream in timed if len(stream.waiting) and stream.name not in here]
    reach = MINIMUM if now is None else now
    for one in came:
        if one.stream.time is None or not len(one.judged):
            continue
        if one.ahead is None:
            reach = max(reach, int(one.judged.max()))
        elif one.stream.latest is None:
            rows = len(one.judged) + (one.late if one.key is None else 0)  # an update stream's are among them
            reach = _start(one.judged, rows, reach, one.ahead, kind)
    times = _by_allowance(came)
    reach = _walk(reach, times, kind)
    jumped = None
    for one in came:
        _limit(one, reach, kind)
        if not one.all_ahead:
            continue
        one.steps = [*one.stream.waiting.steps, one.judged]
        if len(one.steps) == STEPS:
            every = np.concatenate(one.steps)
            one.jumped = jumped = int(np.partition(every, (len(every) - 1) // 2)[(len(every) - 1) // 2])
            reach = _walk(max(reach, jumped), times, kind)
    for one in came:
        _limit(one, reach, kind)
        if one.jumped is not None or (len(one.judged) and not one.all_ahead) or one.late:
            one.steps = []
        elif not len(one.judged):
            one.steps = one.stream.waiting.steps
        one.settle()
    found = Judged(arriving, came, jumped=reach if jumped is not None else None)
    for one in came:
        found.notices += _notices(one, now, kind)
    return found


def _is_plain(
    arriving: Sequence[tuple[Any, list[Accepted]]], timed: Iterable[Waits], now: int | None, kind: clock.Kind
) -> bool:
    """Whether no new row is ahead, none that waits is taken, and no stream begins: as nearly always."""
    if now is None:
        return False
    reach = now
    for stream, parts in arriving:
        times = [time for time in (_every(part)[1] for part in parts) if len(time)]
        if stream.time is None:
            continue
        if not times or (stream.latest is None and stream.max_ahead is not None):
            return False
        latest = max(int(time.max()) for time in times)
        if stream.max_ahead is not None and latest > clock.plus(now, stream.max_ahead.nanoseconds, kind):
            return False
        reach = max(reach, latest)
    for stream in timed:
        if len(stream.waiting) and (
            stream.max_ahead is None
            or stream.updates is not None
            or stream.waiting.earliest <= clock.plus(reach, stream.max_ahead.nanoseconds, kind)
        ):
            return False
    return True


def _start(times: Ints, rows: int, reach: int, ahead: int, kind: clock.Kind) -> int:
    """Return where time starts with a stream's first rows: at the earliest, or where most of so many rows are."""
    ordered = np.unique(times)
    first = max(reach, int(ordered[0]))
    far = times[times > clock.plus(_chain(first, ordered, ahead, kind), ahead, kind)]
    return int(far.min()) if 2 * len(far) > rows else first


def _by_allowance(came: Iterable[_Came]) -> list[tuple[int, Ints]]:
    """Return the times of waiting and new rows in order, by how far ahead they may be."""
    found: dict[int, list[Ints]] = {}
    for one in came:
        if one.ahead is not None:
            found.setdefault(one.ahead, []).extend((one.judged, one.stream.waiting.all_time))
    return [(ahead, np.unique(np.concatenate(times))) for ahead, times in found.items()]


def _walk(reach: int, times: Sequence[tuple[int, Ints]], kind: clock.Kind) -> int:
    """Return the latest time taken when rows are gone through in order of time."""
    while True:
        before = reach
        for ahead, ordered in times:
            reach = _chain(reach, ordered, ahead, kind)
        if reach == before or len(times) == 1:
            return reach


def _chain(reach: int, ordered: Ints, ahead: int, kind: clock.Kind) -> int:
    """Return the latest of some times that follow one another by at most so many nanoseconds."""
    steps = np.concatenate([[reach], ordered[np.searchsorted(ordered, reach, side="right") :]])
    if kind == "number":
        values = clock.numbers_of(steps)
        gaps = values[1:] > values[:-1] + ahead / 1e9
    else:  # as unsigned numbers no difference of two keys overflows
        gaps = np.diff(steps).view(np.uint64) > np.uint64(ahead)
    return int(steps[int(np.argmax(gaps)) if gaps.any() else -1])


def _limit(one: _Came, reach: int, kind: clock.Kind) -> None:
    """Set up to which time rows are taken."""
    if one.ahead is not None:
        one.limit = MINIMUM if reach == MINIMUM else clock.plus(reach, one.ahead, kind)


def _notices(one: _Came, now: int | None, kind: clock.Kind) -> list[Notice]:
    """Return the notices about rows that wait, and about time that starts again."""
    found, name, ahead = [], one.stream.name, one.stream.max_ahead
    column = one.stream.time
    seqs = one.seq[one.held]
    if len(seqs):
        example = clock.value_of(int(one.time[one.held][0]), kind)
        since = "" if now is None else f" of {clock.value_of(now, kind)}"
        hint = (
            f"stamped more than {ahead} ahead{since}, such as {example}; they are taken when time comes that near, or "
            f"after {STEPS} steps of such rows"
        )
        found.append(Notice("waiting", name, column, len(seqs), int(seqs[0]), int(seqs[-1]), hint))
    if one.jumped is not None:
        start = clock.value_of(one.jumped, kind)
        hint = (
            f"time starts again at {start}, since all rows of {STEPS} steps in a row were stamped far ahead"
        )
        first, last = (int(one.seq[0]), int(one.seq[-1])) if len(one.seq) else (None, None)
        found.append(Notice("jumped", name, column, len(one.judged), first, last, hint))
    return found


def _position(part: Accepted) -> Ints:
    """Return the place in the batch of each row of a part's table."""
    return np.arange(part.count) if part.position is None else part.position


def _every(part: Accepted) -> tuple[Ints, Ints]:
    """Return the places and times of all accepted rows of a part, those that others have included."""
    if part.passed is None:
        return _position(part), part.time
    return np.asarray(part.passed[0]), part.passed[1]


def _places(part: Accepted) -> Ints:
    """Return where a part's own rows are among all of its rows."""
    if part.passed is None:
        return np.arange(part.table.num_rows if part.position is None else len(part.position))
    return np.searchsorted(_every(part)[0], _position(part))


def _one(arrays: list[Ints]) -> Ints:
    return np.concatenate(arrays) if arrays else NONE


def _shaped(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table with the columns of a schema; those that it lacks are null."""
    names = set(table.column_names)
    columns = [
        table.column(f.name).cast(f.type) if f.name in names else pa.nulls(table.num_rows, f.type)
        for f in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


# -- steps written before rows could wait --------------------------------------------------------------------------


def reject_ahead(
    stream: Any, parts: list[Accepted], now: int | None, kind: clock.Kind | None
) -> list[Accepted]:
    """Return a step's parts as rules before `WAITING` have them: rows far ahead are rejected.

    After three steps in a row that are ahead as a whole, rows are accepted until one is ahead.
    """
    if now is None or kind is None or stream.max_ahead is None or not any(part.count for part in parts):
        return parts
    ahead = stream.max_ahead.nanoseconds
    if stream.time is not None and stream.ahead_steps < STEPS:
        times = np.unique(np.concatenate([part.time for part in parts]))
        limit = clock.plus(_chain(now, times, ahead, kind), ahead, kind)
        found = [_without_ahead(part, limit, stream.name) for part in parts]
        whole = all(far == part.count for part, far in found if part.count)
        stream.ahead_steps = stream.ahead_steps + 1 if whole else 0
        return [part for part, _ in found]
    far = clock.plus(now, ahead, kind)
    if any(part.total and int(part.time.max()) > far for part in parts):
        stream.ahead_steps = 0
    return parts


def _without_ahead(part: Accepted, limit: int, stream: str) -> tuple[Accepted, int]:
    """Return a part without the rows stamped after a limit, and how many these are."""
    ahead = part.time > limit
    if not ahead.any():
        return part, 0
    position = _position(part)
    rejects = [
        Reject(int(position[row]), stream, "ahead", "stamped further ahead of now than max_ahead",
               raw_text(part.table, row))
        for row in np.flatnonzero(ahead).tolist()
    ]  # fmt: skip
    kept = np.flatnonzero(~ahead)
    codes = None if part.codes is None else part.codes[kept]
    left = replace(
        part,
        table=part.table.take(numbers_array(kept)),
        position=position[kept],
        time=part.time[kept],
        rejects=sorted([*part.rejects, *rejects]),
        total=len(kept) if codes is None else int(np.count_nonzero(codes == DATA)),
        codes=codes,
    )
    return left, len(rejects)
