"""What answers until the compiled code of a plan is there: `scan`, which needs none.

When watches are put into families, and the compiled code of the planned algorithm is neither loaded nor in the cache,
they go to a family of `scan` instead, and a process beside compiles (compiling/background.py). Once the code is loaded,
the family hands over its rows and answers (replanning.py). Answers and changes are the same throughout.

Pairs and grouped objects need no other algorithm: their kernels run as plain Python until they are loaded.

A query that names its algorithm gets it at once, and waits for the compiler. So do queries whose rows are pruned before
they come here, since `scan` needs them all.
"""

from __future__ import annotations

import base64
import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from skyband.compiling import background, jit
from skyband.engine.planner import Choice
from skyband.query.expression import columns_of, lift, render
from skyband.query.model import Query, Rows, Threshold, TopK
from skyband.query.serialise import to_dict

MOST = 10_000_000  # rows of the window times queries, up to which its steps are short
MOST_QUERIES = 40  # that the process beside runs: with more of them it meets no other kernels
BUCKETS = (2, 8, 32)  # numbers of queries from which other kernels may be called


_AT_ONCE = contextlib.nullcontext()
PLAIN = ("scase", "sums")  # algorithms whose kernels are quick enough as plain Python


def is_free(query: Query) -> bool:
    """Whether the planner chose a query's algorithm, and may choose another one."""
    return isinstance(query, TopK | Threshold) and not {"algorithm", "error"} & set(dict(query.options))


def is_patient(stream: Any, query: Query, choice: Choice) -> bool:
    """Whether a query's own kernels run as plain Python until they are compiled; they are asked for."""
    if choice.algorithm not in PLAIN or "algorithm" in dict(query.options) or not _is_planned(stream):
        return False
    key = plan_of(stream, query, choice, 1)
    if background.is_ready(key):
        return False
    request(stream, [query], choice, key)
    return True


def meanwhile(family: Any) -> Any:
    """Return the context in which a family's kernels are called."""
    return jit.patiently() if family.patient and background.is_busy() else _AT_ONCE


def plan_of(stream: Any, query: Query, choice: Choice, queries: int) -> str:
    """Return the key of what queries like this one need of compiled code."""
    if not isinstance(query, TopK | Threshold):
        asked = {
            name: value for name, value in to_dict(query).items() if name not in ("k", "window", "stream")
        }
        every = [str(field.type) for field in stream.schema]
        return background.key_of(
            [asked, choice.algorithm, every, stream.time is not None, stream.has_updates()]
        )
    shape, constants = lift(query.score)
    columns = columns_of(shape)
    where = columns_of(query.where) if query.where is not None else ()
    types = {name: str(stream.schema.field(name).type) for name in {*columns, *where} if name in stream.names}
    return background.key_of(
        [
            type(query).__name__,
            choice.algorithm,
            sorted(choice.options.items()),
            render(shape, columns),
            len(constants),
            [types.get(name, "") for name in columns],
            sorted(types.get(name, "") for name in where),
            [stream.time is not None, stream.has_updates(), isinstance(query.window, Rows)],
            sum(queries >= least for least in BUCKETS),
        ]
    )


def can_wait(stream: Any, query: Query) -> bool:
    """Whether another algorithm may stand in for a query's, if its compiled code isn't there."""
    return is_free(query) and _is_planned(stream)


def _is_planned(stream: Any) -> bool:
    """Whether kernels are compiled beside, and the stream has all that a plan is made of."""
    known = stream.batch_rows is not None and stream.schema is not None
    return known and background.is_on() and not stream.monitor.lists_only


def request(stream: Any, queries: Sequence[Any], choice: Choice, key: str) -> None:
    """Have what these queries need compiled."""
    queries = queries[:MOST_QUERIES]
    schema = base64.b64encode(stream.schema.serialize().to_pybytes()).decode()
    content = {
        "schema": schema,
        "time": stream.time,
        "unit": stream.unit,
        "key": None if stream.updates is None else stream.updates.key,
        "op": None if stream.updates is None else stream.updates.op,
        "queries": [to_dict(query) for query in queries],
        "algorithm": choice.algorithm,
        "options": choice.options,
        "batch": stream.batch_rows,
    }
    background.request(key, json.dumps(content))


def schema_of(content: Any) -> pa.Schema:
    """Return the schema that a request contains."""
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(content["schema"])))
