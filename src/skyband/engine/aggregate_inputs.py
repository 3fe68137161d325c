"""What a question about objects reads of its rows, and what it computes of their totals.

A grouped query evaluates the arguments of SUM and MAX on each row of its stream and its score on the totals. A joined
query takes columns of several streams as they are, adds up (or takes the greatest, or the last of) what each stream
has of an object, and puts 0 where a stream has nothing; its score and its WHERE are over objects.

Both give the algorithm that keeps the objects the same: which aggregates there are, which columns a row brings, and how
good an object is. A row with a null or a NaN in a column that is used, or in an argument, stays out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from skyband.algorithms.objects.record_layout import LAST, MAX, SUM, Aggregate
from skyband.algorithms.objects.sums import Asked
from skyband.algorithms.objects.window_objects import Objects
from skyband.core.errors import QueryError
from skyband.core.types import Floats, Ints
from skyband.query.aggregates import COUNTED, SIDE, row_columns, split
from skyband.query.assumptions import Promise, Range, cannot_walk, promise_of, uses_count
from skyband.query.expression import Column, check, evaluate, nodes, unknown_column
from skyband.query.expression.check import NUMERIC, check_condition, check_score
from skyband.query.expression.nodes import Arithmetic, Expression
from skyband.query.model import Grouped, Joined, Output
from skyband.query.suggestions import located
from skyband.stream.arrow import numbers_array
from skyband.stream.batches import Batch, View, numbers
from skyband.stream.key_text import array_ids, values_in
from skyband.stream.keys import can_be_key

KINDS = {"sum": SUM, "max": MAX, "last": LAST}
Read = tuple[pa.Array, tuple[Floats, ...], Ints, Ints]
"""Keys, columns, times and seqs of rows, oldest first."""


class Totalled:
    """Some objects as a source of columns: keys and aggregates."""

    def __init__(self, reading: Reading, objects: Objects, codes: Ints, values: Floats, counts: Ints) -> None:
        self.reading, self.objects, self.codes, self.values, self.counts = (
            reading,
            objects,
            codes,
            values,
            counts,
        )

    def __len__(self) -> int:
        return len(self.codes)

    def number(self, name: str) -> Floats:
        if name == COUNTED.key:
            return self.counts.astype(np.float64)
        if name.startswith(f"{SIDE}."):
            parts = self.reading.parts[int(name.partition(".")[2])]
            found: Floats = self.values[parts[0]]
            for part in parts[1:]:  # a column that one stream has: it is 0 in the others
                found = found + self.values[part]
            return found
        return np.ascontiguousarray(numbers(self.array(name)))

    def array(self, name: str) -> pa.Array:
        if name.startswith(f"{SIDE}."):
            return numbers_array(self.number(name))
        assert self.objects.keys is not None
        return self.reading.key_column(self.objects.keys.values(self.codes), name)


class Reading:
    """What is common to both."""

    key: tuple[str, ...]
    aggregates: tuple[Aggregate, ...]
    width: int  # columns that a row brings
    several: bool  # streams
    parts: list[list[int]]  # the aggregates that make up each column of objects
    score: Expression
    condition: Expression | None  # that an object must meet
    outputs: tuple[tuple[Output, Expression], ...]
    sign: float
    used: tuple[str, ...] = ()  # columns of rows

    def __init__(self, query: Grouped | Joined) -> None:
        self.types: dict[str, pa.DataType] = {}  # of the key columns
        self.promise: Promise = promise_of(query)
        self.streams: tuple[str | None, ...] = (None,)
        self.columns: tuple[str, ...] = ()  # names of what rows bring
        self.outside = 0  # rows with a value outside its range
        self._question = query

    def range_of(self, column: int, stream: int) -> Range | None:
        """Return what is promised of a column that rows of a stream bring."""
        return self.promise.range_of(self.columns[column], self.streams[stream])

    def asked(self) -> Asked:
        """Return what an algorithm is to know."""
        ranges = [self.range_of(a.column, a.stream) for a in self.aggregates]
        return Asked(
            aggregates=self.aggregates,
            width=self.width,
            several=self.several,
            streams=len(self.streams),
            most=tuple(None if known is None else known[1] for known in ranges),
            rows=self.promise.most,
            ever=self.promise.ever,
            plain=self._plain(),
            sign=self.sign,
            everywhere=cannot_walk(self._question, lists=True, everywhere=True) is None,
            counting=uses_count(self._question),
            options=dict(self._question.options),
        )

    def _plain(self) -> tuple[int, ...]:
        """Return the sums that make the score by being added up from left to right, if that is all there is to it."""
        columns: list[Expression] = []
        e = self.score
        while isinstance(e, Arithmetic) and e.op == "+":
            columns.insert(0, e.right)
            e = e.left
        columns.insert(0, e)
        if self.condition is not None or any(a.kind != SUM for a in self.aggregates):
            return ()
        found: list[int] = []
        for column in columns:
            if not isinstance(column, Column) or column.side != SIDE or column == COUNTED:
                return ()
            parts = self.parts[int(column.name)]
            if found and len(parts) > 1:
                return ()
            found += parts
        return tuple(found)

    def rows_of(self, batch: Batch, stream: int = 0) -> Read:
        raise NotImplementedError

    def check(self, schemas: list[pa.Schema | None]) -> None:
        raise NotImplementedError

    def good(self, objects: Objects, codes: Ints, values: Floats, counts: Ints) -> Floats:
        """Return how good some objects are; NaN for those that are in no answer."""
        source = Totalled(self, objects, codes, values, counts)
        score = np.asarray(evaluate(self.score, source), dtype=np.float64)
        good = score + 0.0 if self.sign > 0 else 0.0 - score
        if self.condition is not None:
            good[~np.asarray(evaluate(self.condition, source), dtype=bool)] = np.nan
        return good

    def selected(self, objects: Objects, codes: Ints) -> list[tuple[Output, pa.Array]]:
        """Return the selected columns of some objects."""
        if objects.keys is None:
            return [(output, pa.nulls(0)) for output, _ in self.outputs]
        source = Totalled(self, objects, codes, *objects.values(codes))
        found: list[tuple[Output, pa.Array]] = []
        for output, value in self.outputs:
            if value == COUNTED:
                found.append((output, numbers_array(source.counts)))
            elif isinstance(value, Column) and value.side is None:
                found.append((output, source.array(value.key)))
            else:
                found.append((output, numbers_array(np.asarray(evaluate(value, source)))))
        return found

    def keys_of(self, batch: Batch, place: Ints | None) -> pa.Array:
        """One key for each row (None: for all, as they came): the column itself, or a JSON array of several."""
        if place is None:
            arrays = [batch.column(name) for name in self.key]
        else:
            arrays = [batch.array(name).take(numbers_array(place)) for name in self.key]
        for name, array in zip(self.key, arrays, strict=True):
            if not pa.types.is_null(array.type):
                self.types.setdefault(name, array.type)
        if len(arrays) > 1:
            return array_ids(arrays)
        return arrays[0].dictionary_decode() if pa.types.is_dictionary(arrays[0].type) else arrays[0]

    def key_column(self, keys: pa.Array, name: str) -> pa.Array:
        """One of the key columns of some objects."""
        return keys if len(self.key) == 1 else values_in(keys, self.key.index(name), self.types.get(name))

    def _ordered(
        self, batch: Batch, view: View, columns: list[Floats], stream: int, there: list[int]
    ) -> Read:
        """Rows of a view, which has them newest first, without those that have a NaN or a value outside its range.

        there: the columns that rows of this stream have a value in, which may have a range.
        """
        sound = np.ones(len(view), dtype=bool)
        for column in columns:
            sound &= ~np.isnan(column)
        if self.promise.ranges:
            inside = sound.copy()
            for number in there:
                known = self.range_of(number, stream)
                if known is not None:
                    inside &= (columns[number] >= known[0]) & (columns[number] <= known[1])
            self.outside += int(np.count_nonzero(sound & ~inside))
            sound = inside
        if view.index is None and batch.order is None and sound.all():  # as they came
            turned = tuple(np.ascontiguousarray(column[::-1]) for column in columns)
            return self.keys_of(batch, None), turned, batch.time_arrived, batch.seq_arrived
        order = np.flatnonzero(sound)[::-1]
        place = order if view.index is None else view.index[order]
        own = tuple(column[order] for column in columns)
        return self.keys_of(batch, place), own, batch.time[place], batch.seq[place]


class GroupedReading(Reading):
    def __init__(self, query: Grouped) -> None:
        super().__init__(query)
        self.query = query
        halves = self.halves = split(query)
        self.key, self.several = query.key, False
        self.aggregates = tuple(Aggregate(KINDS[kind], argument) for kind, argument in halves.aggregates)
        self.width = len(halves.arguments)
        self.columns = tuple(e.name if isinstance(e, Column) else "" for e in halves.arguments)
        self.parts = [[i] for i in range(len(self.aggregates))]
        self.score, self.condition = halves.score, halves.having
        values = (output.value for output in halves.outputs)
        self.outputs = tuple(zip(query.select or (), values, strict=True))
        self.sign = 1.0 if query.descending else -1.0
        self.used = row_columns(query)

    def rows_of(self, batch: Batch, stream: int = 0) -> Read:
        where = self.query.where
        predicate = None if where is None else (lambda view: np.asarray(evaluate(where, view), dtype=bool))
        view = View(batch).where(self.used, predicate)
        columns = [np.asarray(evaluate(e, view), dtype=np.float64) for e in self.halves.arguments]
        values = [i for i in range(len(columns)) if i not in self.halves.truths]
        return self._ordered(batch, view, columns, 0, values)

    def check(self, schemas: list[pa.Schema | None]) -> None:
        (schema,) = schemas
        query = self.query
        if schema is None:
            return
        for name, place in zip(query.key, query.places or (None,) * len(query.key), strict=True):
            if name not in schema.names:
                raise unknown_column(name, schema.names, place)
            _must_be_key("GROUP BY", name, schema.field(name).type, place)
        check_condition("WHERE", query.where, schema)
        for number, argument in enumerate(self.halves.arguments):
            kinds = ("bool", "any") if number in self.halves.truths else NUMERIC
            if check(argument, schema) not in kinds:
                place = next((node.place for node in nodes.walk(argument) if isinstance(node, Column)), None)
                raise QueryError(
                    located("SUM and MAX need a number, not a condition or a text", place), place
                )
        check_score(query.score, schema)
        check_condition("HAVING", query.having, schema)
        for output in query.select or ():
            if not isinstance(output.value, Column):
                check(output.value, schema)


class JoinedReading(Reading):
    def __init__(self, query: Joined) -> None:
        super().__init__(query)
        self.query = query
        self.key, self.several = (query.key,), True
        self.sign = 1.0 if query.descending else -1.0
        kind = KINDS[query.repeat]
        places: dict[tuple[str, str | None], int] = {}  # columns of objects
        names: dict[str, int] = {}  # columns of rows
        aggregates: list[Aggregate] = []
        self.parts = []

        def over_objects(e: Expression) -> Expression:
            if not isinstance(e, Column):
                return nodes.rebuild(e, tuple(over_objects(part) for part in nodes.children(e)))
            if e.name == query.key:
                return Column(e.name)
            if (e.name, e.side) not in places:
                places[e.name, e.side] = len(self.parts)
                at = names.setdefault(e.name, len(names))
                own = [i for i, s in enumerate(query.streams) if e.side in (None, s)]
                self.parts.append([len(aggregates) + i for i in range(len(own))])
                aggregates.extend(Aggregate(kind, at, stream) for stream in own)
            return Column(str(places[e.name, e.side]), SIDE)

        self.score = over_objects(query.score)
        self.condition = None if query.where is None else over_objects(query.where)
        if query.select is not None:
            self.outputs = tuple((output, over_objects(output.value)) for output in query.select)
        else:
            first = Output(query.key, Column(query.key))
            shown = [
                Output(name if side is None else f"{side}.{name}", Column(name, side))
                for name, side in places
            ]
            self.outputs = tuple((output, over_objects(output.value)) for output in (first, *shown))
        self.aggregates, self.parts_of, self.names = tuple(aggregates), tuple(places), tuple(names)
        self.width = len(names)
        self.columns, self.streams = tuple(names), query.streams

    def _own(self, stream: int, known: list[str]) -> list[str]:
        """Return the columns that rows of a stream bring: those said to be its own, and others that it has."""
        name = self.query.streams[stream]
        found = {n for n, side in self.parts_of if side == name or (side is None and n in known)}
        return sorted(found)

    def rows_of(self, batch: Batch, stream: int = 0) -> Read:
        own = self._own(stream, batch.table.column_names)
        there = set(batch.table.column_names)
        if not {self.query.key, *own} <= there:  # a column that isn't there counts as null: no row has all
            batch = Batch(batch.table.slice(0, 0), batch.seq_arrived[:0], batch.time_arrived[:0])
            own = [name for name in own if name in there]
            if self.query.key not in there:
                none = np.empty(0, dtype=np.int64)
                return pa.nulls(0, pa.int64()), (np.empty(0),) * self.width, none, none
        view = View(batch).where((self.query.key, *own), None)
        empty = np.zeros(len(view))
        columns = [view.number(name) if name in own else empty for name in self.names]
        return self._ordered(batch, view, columns, stream, [self.names.index(name) for name in own])

    def check(self, schemas: list[pa.Schema | None]) -> None:
        query = self.query
        known = [
            (name, schema) for name, schema in zip(query.streams, schemas, strict=True) if schema is not None
        ]
        types: dict[str, tuple[str, pa.DataType]] = {}
        (place,) = query.places or (None,)
        for stream, schema in known:
            if query.key not in schema.names:
                raise unknown_column(query.key, schema.names, place)
            found = schema.field(query.key).type
            _must_be_key("USING", query.key, found, place)
            if pa.types.is_null(found):
                continue  # not known yet: it will be what the others have
            other, type_ = types.setdefault("key", (stream, found))
            if found != type_:
                raise QueryError(
                    f'"{query.key}" is {type_} in stream {other} and {found} in {stream}: cast one of them.'
                )
        for name, side in self.parts_of:
            place = self._place(name, side)
            having = [(stream, schema) for stream, schema in known if side in (None, stream)]
            own = [(stream, schema) for stream, schema in having if name in schema.names]
            if side is None and len(own) > 1:
                written = f"write {own[0][0]}.{name} or {own[1][0]}.{name}"
                both = f"Both {own[0][0]} and {own[1][0]} have a column {name}"
                raise QueryError(located(f"{both}; {written}", place), place)
            if not own and len(having) == (1 if side is not None else len(query.streams)):
                raise unknown_column(name, [n for _, schema in having for n in schema.names], place)
            for stream, schema in own:
                if check(Column(name), schema) not in NUMERIC:
                    wrong = f"{stream}.{name} must be a number, not a condition or a text"
                    raise QueryError(located(wrong, place), place)

    def _place(self, name: str, side: str | None) -> nodes.Place | None:
        """Return where a column stands in the query's text."""
        query = self.query
        used = (query.score, query.where, *(output.value for output in query.select or ()))
        every = (n for e in used if e is not None for n in nodes.walk(e) if isinstance(n, Column))
        return next((c.place for c in every if (c.name, c.side) == (name, side)), None)


def _must_be_key(clause: str, name: str, type_: pa.DataType, place: nodes.Place | None) -> None:
    """Raise an error if a column of this type can't identify objects; an interval has no text that could be an id."""
    plain = type_.value_type if pa.types.is_dictionary(type_) else type_
    if not can_be_key(plain) or pa.types.is_interval(plain):
        wrong = f'{clause} can\'t take "{name}", which is {type_}; take a column of numbers, texts or times'
        raise QueryError(located(wrong, place), place)


def reading_of(query: Any) -> Reading:
    return GroupedReading(query) if isinstance(query, Grouped) else JoinedReading(query)
