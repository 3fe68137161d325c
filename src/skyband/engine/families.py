"""The kinds of questions: the one place where they part.

A query's type says which family keeps its answer, which class its watch is of, and how its columns are checked. A new
kind of question is a line in `KINDS`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.algorithms import REGISTRY
from skyband.core.errors import QueryError
from skyband.engine.aggregate_inputs import reading_of
from skyband.engine.approximate_group import Approximate
from skyband.engine.object_group import ObjectGroup, ObjectWatch, object_family
from skyband.engine.pair_group import PairGroup, PairWatch, check_pairs, pair_family
from skyband.engine.protocol import Family, Streamed
from skyband.engine.row_group import Group, family
from skyband.engine.watch import Watch
from skyband.query.expression import Column, check, unknown_column
from skyband.query.expression.check import check_condition, check_score
from skyband.query.model import Grouped, Joined, Pairs, Threshold, TopK

Options = dict[str, float]


class Kind(NamedTuple):
    """How questions of one kind are answered."""

    watch: type[Watch]
    make: Callable[[Any, str, Options, Streamed], Family]
    key: Callable[[Any, str, Options, Streamed], Any]  # queries with equal keys share a family
    check: Callable[[Any, pa.Schema], None]  # an error if columns are missing or don't fit
    keys: Callable[[Any], set[str]] = lambda query: set()  # columns that identify objects
    updates: str | None = None  # why an update stream can't have it


def _make_rows(query: Any, algorithm: str, options: Options, stream: Streamed) -> Family:
    kind = Group if REGISTRY[algorithm].card.exact else Approximate
    return kind(query, algorithm, options, stream)


def _check_rows(query: Any, schema: pa.Schema) -> None:
    check_score(query.score, schema)
    check_condition("WHERE", query.where, schema)
    for output in query.select or ():
        if isinstance(output.value, Column):  # only shown: any type will do
            if output.value.name not in schema.names:
                raise unknown_column(output.value.name, schema.names, output.value.place)
        else:
            check(output.value, schema)


ROWS = Kind(
    Watch,
    _make_rows,
    family,
    _check_rows,
)
PAIRS = Kind(
    PairWatch,
    lambda query, algorithm, options, stream: PairGroup(query, algorithm, options, stream.monitor.share),
    lambda query, algorithm, options, _: pair_family(query, algorithm, options),
    check_pairs,
    updates="Pairs need rows that leave in the order in which they came (first in, first out), and in an update "
    "stream (key=) any row may be replaced or deleted.",
)
OBJECTS = Kind(
    ObjectWatch,
    lambda query, algorithm, options, _: ObjectGroup(query, algorithm, options),
    lambda query, algorithm, options, _: object_family(query, algorithm, options),
    lambda query, schema: reading_of(query).check([schema]),
    keys=lambda query: set(query.key) if isinstance(query, Grouped) else set(),
)
KINDS: dict[type, Kind] = {TopK: ROWS, Threshold: ROWS, Pairs: PAIRS, Grouped: OBJECTS, Joined: OBJECTS}


def kind_of(query: Any) -> Kind:
    """Return how questions of this query's kind are answered."""
    return KINDS[type(query)]


def check_query(query: Any, schema: pa.Schema | None, updates: bool) -> None:
    """Raise an error if a stream can't answer the query; a type that isn't known yet fits."""
    kind = kind_of(query)
    if updates and kind.updates is not None:
        raise QueryError(kind.updates)
    if schema is not None:
        kind.check(query, schema)
