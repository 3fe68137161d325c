"""A made-up stream for `skyband hello`: what the machines of a company send each other.

Speeds have a heavy tail, as in real networks: most flows are slow, a few are very fast, and one never knows
when the next of those comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skyband.query.expression.nodes import Arithmetic, Column
from skyband.query.model import Output, TopK, last

if TYPE_CHECKING:
    from numpy.typing import NDArray

SQL = (
    "SELECT ts, source, target, service, bytes, seconds FROM flows "
    "ORDER BY bytes / seconds DESC LIMIT 10 WINDOW 30 SECONDS"
)
WINDOW = 30.0  # seconds, as in the query

# Source, destination and protocol. One entry is one kind of flow.
_KINDS = (
    ("web", "api", "https"),
    ("api", "db", "postgres"),
    ("api", "cache", "redis"),
    ("api", "queue", "kafka"),
    ("queue", "etl", "kafka"),
    ("etl", "lake", "s3"),
    ("lake", "train", "s3"),
    ("train", "train", "nccl"),
    ("db", "backup", "rsync"),
    ("lake", "backup", "rsync"),
    ("build", "registry", "https"),
    ("cdn", "web", "https"),
    ("mail", "lake", "imap"),
    ("render", "lake", "nfs"),
)
_MACHINES = 12  # of each role
_SLOWEST = 8e6  # bytes per second
_TAIL = 2.6  # the smaller, the wilder

SCHEMA = pa.schema(
    [
        ("ts", pa.timestamp("us", "UTC")),
        ("source", pa.dictionary(pa.int16(), pa.string())),
        ("target", pa.dictionary(pa.int16(), pa.string())),
        ("service", pa.dictionary(pa.int16(), pa.string())),
        ("bytes", pa.int64()),
        ("seconds", pa.float64()),
    ]
)


def query() -> TopK:
    """SQL as the query that it is, without loading a parser: the first frame shouldn't wait for one."""
    names = ("ts", "source", "target", "service", "bytes", "seconds")
    return TopK(
        stream="flows",
        select=tuple(Output(name, Column(name)) for name in names),
        score=Arithmetic("/", Column("bytes"), Column("seconds")),
        descending=True,
        k=10,
        window=last(WINDOW),
    )


class Flows:
    """The stream, the same for the same seed."""

    def __init__(self, seed: int | None = None) -> None:
        self._random = np.random.default_rng(seed)
        roles = sorted({role for kind in _KINDS for role in kind[:2]})
        services = sorted({service for _, _, service in _KINDS})
        self._machines = pa.array(
            [f"{role}-{number:02}" for role in roles for number in range(1, _MACHINES + 1)]
        )
        self._services = pa.array(services)
        self._source = np.array([roles.index(source) * _MACHINES for source, _, _ in _KINDS], np.int16)
        self._target = np.array([roles.index(target) * _MACHINES for _, target, _ in _KINDS], np.int16)
        self._service = np.array([services.index(service) for _, _, service in _KINDS], np.int16)

    def between(self, start: float, stop: float, count: int) -> pa.Table:
        """Return so many flows that end between two moments (seconds since 1970), in order."""
        kind = self._random.integers(0, len(_KINDS), count)
        source = self._random.integers(0, _MACHINES, count, np.int16)
        step = self._random.integers(1, _MACHINES, count, np.int16)  # never the machine itself
        speed = _SLOWEST * (1.0 + self._random.pareto(_TAIL, count))
        seconds = np.round(np.exp(self._random.normal(-0.5, 1.0, count)) + 0.01, 3)
        times = np.linspace(start * 1e6, stop * 1e6, count, endpoint=False).astype(np.int64)
        return pa.table(
            [
                pa.array(times).cast(SCHEMA.field("ts").type),
                _named(self._source[kind] + source, self._machines),
                _named(self._target[kind] + (source + step) % _MACHINES, self._machines),
                _named(self._service[kind], self._services),
                pa.array((speed * seconds).astype(np.int64)),
                pa.array(seconds),
            ],
            schema=SCHEMA,
        )


def _named(indices: NDArray[np.int16], names: pa.Array) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(indices), names)
