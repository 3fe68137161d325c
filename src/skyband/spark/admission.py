"""Admission in the JVM: Spark's own code rejects rows, and only those that can matter come to Python.

**Problem.** Of a large micro-batch nearly all rows are in nobody's k-skyband. To find that out, our tasks read and
score all of them in Python.

**Idea.** Look at the newest rows of the batch first, the *head*, in the driver. Their k-th best score of a query is a
bar: an older row that does not reach it has k better rows that are newer, and is out for good, whatever comes. So
the older rows are read by Spark's own code and have to pass a gate in front of Python: the scores
themselves against the bars where the queries are few, a look-up by the row's cell where they are many: in a height map
(heightmap/maps.py), or in bits that say whom a cell concerns (heightmap/cell_filter.py) where scores have no map or
Spark might round them otherwise. The bound of a threshold query is tested as it is; many are bars, too (bounds.py).
How Spark reads rows and knows their places is told where it does: Parquet files in filescan.py, Kafka's records in
recordscan.py. A row gets the seq that it would have got on any other way.

**Exact**, and nothing to mend later. The bars are of newer rows of the very same batch, so a row that stays behind is
one that our tasks would have dropped, too: no list can run short for it, however the scores go on. What passes is
accepted, pruned and merged by the code that does it for rows from tasks.

**What windows must know** of rows that stay behind: without event times, how many they are, which footers and offsets
tell. With event times also the newest one: rows that are newer than the head's pass though they came earlier, and so do
rows that may be rejected (no time, or late).

**Not for** row windows over event times (all times must be known), update streams, joined, grouped and pairs queries,
files that aren't Parquet or have columns in other types than the stream: those go the old way. So does a batch whose
oldest rows show that the gate would let many of them pass, as when scores fall or thousands of points have their
nearest rows everywhere, and then some batches more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa

from skyband.core.types import LOWEST, Floats
from skyband.engine.batch_filter import Family, Gate
from skyband.engine.pruning import Sifted, Sifter, edge_of, families
from skyband.query.expression.threshold import split
from skyband.stream import clock
from skyband.stream.arrow import has_text, numbers_array
from skyband.stream.batches import Batch, read
from skyband.stream.validation import Accepted, accept

from .bounds import as_bars
from .cells import meets
from .columns import AT, Types, Unfit, may_hold, number_of, quoted, reaches, spark_type, sums_integers
from .heights import Beside, lets_pass

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

log = logging.getLogger("skyband")

LEAST_ROWS = 1_000_000  # below this a batch is sifted by our tasks before Spark has planned to read it
LARGE_FILE = 8 << 20  # bytes of a file that may have so many rows
FEW = 16  # queries whose scores are computed in the gate; a map or cells serve more
_HEAD = 16  # one row in so many is looked at in the driver
_HEAD_ROWS = (65_536, 262_144)  # but not fewer and not more than these
_SAMPLE = 16_384  # rows that show what rows are like
_OFTEN = 0.1  # a gate that lets so many of the oldest rows pass is none
_PAUSE = 8  # batches that go the old way after such a one


@dataclass(frozen=True)
class Admitted:
    """A batch's rows behind the gate."""

    parts: tuple[Sifted, ...]  # in order of arrival
    looked_at: int  # rows that Spark's own code looked at
    came: int  # of those: rows that it let pass


Texts = dict[int, tuple[str, str]] | None
"""Of rows that can't be parsed, by position: what is wrong, and the text."""


@dataclass(frozen=True)
class Came:
    """Rows that have passed a gate, in order of arrival."""

    table: pa.Table
    places: Any  # of each among the batch's rows
    texts: Texts
    count: int  # with those of the head, which the driver has already


class Scan(Protocol):
    """A batch's rows as Spark reads them, and their ends as the driver does. It raises Unfit where Spark isn't sure to
    read these very rows, in the stream's types."""

    rows: int
    runs: int  # how many runs there are in which times begin anew: files are one after the other, partitions aren't
    whole: bool  # whether rows come with all columns, so that a reject can be shown

    def newest(self, rows: int) -> tuple[pa.Table, Texts]:
        """The last so many rows."""

    def oldest(self, rows: int) -> pa.Table:
        """The first so many rows, or fewer."""

    def passing(self, test: str, beside: Beside, lines: DataFrame, older: int) -> Came:
        """Of the first `older` rows those that pass."""

    def check(self) -> None:
        """An error if the rows aren't those any more that were numbered."""


class Admission:
    """The gate of a stream, made anew for every batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._pause = 0
        self._bounded: tuple[object, list[tuple[Family, Floats]]] = (
            None,
            [],
        )  # threshold queries by their scores

    def read(
        self, lines: DataFrame, scan: Callable[[list[str]], Scan], sifter: Sifter, threads: int = 1
    ) -> Admitted | None:
        """A batch's rows; None if it had better go the old way. `lines` are the batch's, `scan` reads columns of it."""
        if self._pause:
            self._pause -= 1
            return None
        for family in families(sifter.queries):
            family.threads = threads
        try:
            return self._read(lines, scan, sifter)
        except Unfit as why:
            log.debug("A batch and the next %d go without admission in the JVM: %s.", _PAUSE, why)
            self._pause = _PAUSE
        except (pa.ArrowException, OSError):  # the tasks will say what it is
            self._pause = _PAUSE
        return None

    def _read(
        self, lines: DataFrame, scan_of: Callable[[list[str]], Scan], sifter: Sifter
    ) -> Admitted | None:
        names = self._columns(sifter)
        if names is None:
            return None
        scan = scan_of(names)
        timed = sifter.door.time is not None
        size = min(max(scan.rows // _HEAD, _HEAD_ROWS[0]), _HEAD_ROWS[1])
        # every run has rows as new as the head's, and they all pass
        size = size // scan.runs if timed else size
        if scan.rows <= 2 * size:
            return None
        head, texts = scan.newest(size)
        part = accept(sifter.door, *read(head), texts)
        _check_shown(part, scan)
        if not len(part.time):
            raise Unfit("no row of the head is accepted")
        sifted = sifter.pruned(part)
        edge = edge_of(part) if timed else None
        gates = self._gates(sifter, part, sifted, edge)
        if not self._pays(gates, scan.oldest(_SAMPLE), sifter, edge):
            raise Unfit("the scores")
        test, beside = self._test(gates, sifter, edge)
        older = scan.rows - head.num_rows
        try:
            came = scan.passing(test, beside, lines, older)
        except Unfit:
            raise
        except Exception as problem:  # the tasks know what to do with a damaged file
            log.warning("Spark's own reader failed, so that tasks read the batch: %s", str(problem)[:500])
            raise Unfit("the reader") from problem
        scan.check()
        return Admitted((_behind(sifter, scan, came, older), sifted), scan.rows, came.count)

    def _columns(self, sifter: Sifter) -> list[str] | None:
        """The columns to read; None if the stream's queries or columns can't be served."""
        if not sifter.can_prune or sifter.counts_rows or sifter.door.key is not None:
            return None
        # a rejected row is shown whole, and of files with the right types few are rejected but for their times
        names = list(sifter.columns or ())
        names += [one.name for one in self._schema if has_text(one.type) and one.name not in names]
        names = self._schema.names if sifter.door.time is not None else names
        known = all(spark_type(self._schema.field(name).type) is not None for name in names)
        lower = {name.lower() for name in names}
        clear = len(lower) == len(names) and not any(
            one == "_metadata" or one.startswith(AT) for one in lower
        )
        return names if names and known and clear else None

    def _gates(
        self, sifter: Sifter, part: Accepted, sifted: Sifted, edge: int | None
    ) -> list[tuple[Any, Gate | None]]:
        """For each family its gate; that of few threshold queries is their predicates."""
        kept = sifted.part
        backing = np.arange(kept.table.num_rows) if edge is None else np.flatnonzero(kept.time >= edge)
        if not len(backing):
            raise Unfit("no row of the head is kept")
        assert kept.position is not None
        newer = Batch(
            kept.table.take(numbers_array(backing)),
            kept.position[backing],
            kept.time[backing],
            edge is not None,
        )
        some = max(0, part.table.num_rows - _SAMPLE)
        sample = Batch(
            part.table.slice(some), np.arange(some, part.table.num_rows), part.time[some:], edge is not None
        )
        known = families(sifter.queries)
        found, wanted = self._wanted(known, newer)
        left = FEW - len(found)
        for family, bars in sorted(wanted, key=lambda one: int(np.count_nonzero(one[0].group.algorithm.ks))):
            gate = family.gate(bars, sample, left if self._written(family.group) else 0)
            if gate is None:
                raise Unfit("somebody has no gate")
            left -= len(gate.slots) if gate.tests_scores else 0
            found.append((family.group, gate))
        return found

    def _wanted(
        self, known: list[Family], newer: Batch
    ) -> tuple[list[tuple[Any, Gate | None]], list[tuple[Family, Floats]]]:
        """The few threshold queries, whose predicates are tested as they are; families with the bars of all others."""
        bounded = [one for one in known if "threshold" in one.group.algorithm.card.answers]
        wanted: list[tuple[Family, Floats]] = []
        types = {field.name: field.type for field in self._schema}
        if len(bounded) > FEW or any(may_hold(one.group.where, types) is None for one in bounded):
            scores = [found[0] for one in bounded if (found := split(one.group.where)) is not None]
            if any(sums_integers(score, types) for score in scores):
                raise Unfit("sums of integers, which only few comparisons may have")
            if self._bounded[0] is not known:  # they stay the same from batch to batch
                self._bounded = known, as_bars(bounded)
            wanted += self._bounded[1]
            bounded = []
        for one in known:
            if "threshold" not in one.group.algorithm.card.answers:
                bars = one.bars(newer)
                if bars is None:
                    raise Unfit("somebody has too few rows")
                wanted.append((one, bars))
        return [(one.group, None) for one in bounded], wanted

    def _written(self, group: Any) -> bool:
        """Whether Spark computes a family's scores as we do."""
        types = {field.name: field.type for field in self._schema}
        try:
            return bool(reaches(group.shape, [0.0] * group.constants.shape[1], group.sign, 0.0, types))
        except Unfit:
            return False

    def _pays(
        self, gates: list[tuple[Any, Gate | None]], table: pa.Table, sifter: Sifter, edge: int | None
    ) -> bool:
        """Whether the gate rejects most of the oldest rows."""
        part = accept(sifter.door, *read(table))
        rows = part.table.num_rows
        batch = Batch(part.table, np.arange(rows), part.time, sifter.door.time is not None)
        passing = np.zeros(rows, dtype=bool) if edge is None else part.time > edge
        for group, gate in gates:
            some = group.arrivals(batch, np.zeros(rows, dtype=np.uint8))
            passing[some.place if gate is None else some.place[gate.passing(some)]] = True
        return bool(np.count_nonzero(passing) <= _OFTEN * max(rows, 1))

    def _test(
        self, gates: list[tuple[Any, Gate | None]], sifter: Sifter, edge: int | None
    ) -> tuple[str, Beside]:
        """What a row has to be to pass, and the numbers that stand beside that."""
        types = {field.name: field.type for field in self._schema}
        beside = Beside(AT, f"CAST({AT} < 0 AS int)")
        tests: list[str] = []
        for group, gate in gates:
            where = may_hold(group.where, types)
            if gate is None:
                assert where is not None
                tests.append(where)
                continue
            axes = [number_of(name, types) for name in group.score_columns]
            if gate.relief is not None:
                passes = lets_pass(gate, axes, beside)
            elif gate.cells is not None:
                passes = meets(gate.cells, axes, beside)
            else:
                constants, bars = group.constants.tolist(), gate.bars.tolist()
                each = [
                    reaches(group.shape, constants[slot], group.sign, bars[slot], types, beside.number)
                    for slot in gate.slots.tolist()
                ]
                passes = f"({' OR '.join(each)})"
            tests.append(passes if where is None else f"({where} AND {passes})")
        if edge is not None:
            tests.append(_timely(sifter, types, edge, beside))
        return " OR ".join(tests), beside


def _timely(sifter: Sifter, types: Types, edge: int, beside: Beside) -> str:
    """Rows that pass for their time: newer than the head's, so that nobody misses the newest of all; and those that
    may be rejected: without a time, late, or so early or far ahead that it is none."""
    door = sifter.door
    assert door.time is not None
    column, lowest = quoted(door.time), LOWEST.time + 10**9
    if door.kind == "number":
        column, lowest = number_of(door.time, types), clock.number_keys(np.array([-np.inf]))[0]
        value: Callable[[int], str] = lambda key: beside.number(clock.number_of(int(key)))  # noqa: E731
    elif pa.types.is_timestamp(types[door.time]):
        kind = str(spark_type(types[door.time]))
        value = lambda key: beside.number(key // 1000, kind)  # noqa: E731
    else:
        raise Unfit(door.time)
    late = lowest if door.late_before is None else max(lowest, door.late_before)
    return f"({column} IS NULL OR {column} > {value(edge)} OR {column} <= {value(late)})"


def _check_shown(part: Accepted, scan: Scan) -> None:
    if part.rejects and not scan.whole:
        raise Unfit("a row is rejected, and only part of it is here")


def _behind(sifter: Sifter, scan: Scan, came: Came, count: int) -> Sifted:
    """The rows that came through the gate, as a part of `count` rows of which the others stayed behind."""
    part = accept(sifter.door, *read(came.table), came.texts)
    _check_shown(part, scan)
    at = came.places if part.position is None else came.places[part.position]
    rejects = [reject._replace(seq=int(came.places[reject.seq])) for reject in part.rejects]
    part = replace(part, count=count, position=at, rejects=rejects, total=count - len(rejects))
    found = sifter.pruned(part).part
    if sifter.door.time is None:  # windows count all of them
        there: Any = range(count)
        if rejects:
            there = np.delete(np.arange(count), [reject.seq for reject in rejects])
        found = replace(found, passed=(there, np.broadcast_to(np.int64(0), len(there))))
    return Sifted(found)
