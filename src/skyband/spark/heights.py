"""A height map in Spark's SQL, the look-up of heightmap/map_filter.py in the JVM; and the numbers beside a test.

Spark generates code for a test and compiles it, and the JVM needs a while to make it fast. Code with a batch's own
numbers in it would be new for every batch. So what changes from batch to batch (bars, heights) stands in arrays beside
the code, as literals of Spark's own making that generated code reads by position; an array of Python's making would be
one of objects, and a table to be joined a job of its own. Spark's planner would put a number of a constant place back
into the code: so the place has a zero added that only the row can tell. A map's frame stays for many batches, and
stands in the code: it is looked at sixteen times for a row of four columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from skyband.algorithms.heightmap.map_set import HIGH, LOW
from skyband.algorithms.heightmap.maps import COARSE, UNIT
from skyband.engine.batch_filter import Gate

from .columns import float_text

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

_KINDS = {"double": (">f8", "double", "asDoubleBuffer"), "int": (">i4", "int", "asIntBuffer")}
_LONG = (">i8", "long", "asLongBuffer")  # what Spark keeps its times in


class Beside:
    """The numbers that stand beside a test, and the names by which it knows them."""

    def __init__(self, prefix: str, zero: str) -> None:
        self._prefix, self._zero = prefix, zero
        self._numbers: dict[str, list[float]] = {}
        self._arrays: dict[str, tuple[Any, str]] = {}

    def number(self, value: float, kind: str = "double") -> str:
        """A number (or a time in microseconds) as the test may write it."""
        numbers = self._numbers.setdefault(kind, [])
        numbers.append(value)
        return f"get({self._prefix}_{kind}, {len(numbers) - 1} + {self._zero})"

    def array(self, values: Any, kind: str = "int") -> str:
        """The name of an array."""
        name = f"{self._prefix}_array{len(self._arrays)}"
        self._arrays[name] = values, kind
        return name

    def columns(self, session: SparkSession) -> list[Column]:
        """All of them, by their names."""
        found = [_array(session, values, kind).alias(name) for name, (values, kind) in self._arrays.items()]
        for kind, values in self._numbers.items():
            found.append(_array(session, np.array(values), kind).alias(f"{self._prefix}_{kind}"))
        return found


def lets_pass(gate: Gate, axes: list[str], beside: Beside) -> str:
    """Whether a gate's map lets a row pass; rows outside the map's frame do."""
    relief = gate.relief
    assert relief is not None and relief.frame is not None
    frame = relief.frame
    cell = "0"
    for axis, size in zip(frame.order[:-1].tolist(), frame.size.tolist(), strict=True):
        cell = f"({cell} * {size} + {_step(axes, frame, axis, size - 1)})"
    level = _step(axes, frame, int(frame.order[-1]), int(UNIT))
    faces = {relief.face(slot) for slot in gate.slots.tolist()}
    maps = {
        HIGH: relief.inner[0],
        LOW: relief.inner[-1],
    }  # one for each face, or one that serves whichever it is
    tests = [
        f"{'-' if face == LOW else ''}{level} >= get({beside.array(_heights(maps[face]))}, {cell})"
        for face in (HIGH, LOW)
        if face in faces
    ]
    ends = zip(axes, frame.low.tolist(), frame.high.tolist(), strict=True)
    inside = " AND ".join(f"{x} >= {float_text(a)} AND {x} <= {float_text(b)}" for x, a, b in ends)
    return f"(NOT ({inside}) OR {' OR '.join(tests)})"  # a null stays behind, a NaN is outside


def _heights(values: Any) -> Any:
    return np.asarray(values).astype(np.int32) << COARSE


def _step(axes: list[str], frame: Any, axis: int, end: int) -> str:
    """How many steps a row is up an axis, from 0 to `end`; to Spark a NaN is beyond it."""
    base, inverse = (float_text(float(part[axis])) for part in (frame.base, frame.inverse))
    return f"CAST(least(greatest(({axes[axis]} - {base}) * {inverse}, 0D), {end}D) AS int)"


def _array(session: SparkSession, values: Any, kind: str) -> Column:
    """Numbers as one literal."""
    from pyspark.sql.classic.column import Column as Classic

    code, primitive, view = _KINDS.get(kind, _LONG)
    context: Any = session.sparkContext
    jvm, gateway = context._jvm, context._gateway
    numbers = gateway.new_array(getattr(jvm, primitive), len(values))
    data = bytearray(np.asarray(values).astype(code).tobytes())
    getattr(jvm.java.nio.ByteBuffer.wrap(data), view)().get(numbers)
    catalyst, types = jvm.org.apache.spark.sql.catalyst.expressions, jvm.org.apache.spark.sql.types
    array = catalyst.UnsafeArrayData.fromPrimitiveArray(numbers)
    literal = catalyst.Literal(array, types.ArrayType(types.DataType.fromDDL(kind), False))
    return Classic(jvm.org.apache.spark.sql.classic.ExpressionUtils.column(literal))
