"""Cells in Spark's SQL: the look-up of heightmap/cell_filter.py in the JVM.

A coordinate's bucket is a difference and a product of float64, the same in the JVM as here to the last bit (if it
weren't: bounds are those of a little more than a cell). A table leads from the bucket to what its slab adds to the
place of a word, another one to the bit in that word. Rows below and above all slabs have buckets of their own, whose
bits are set: so nothing has to be asked about them. To Spark a NaN is greater than all numbers: it is above.

The tables and the words stand beside the code (heights.py), the scale of an axis is in it: it stays while rows are
spread over the cells as they were.
"""

from __future__ import annotations

import numpy as np

from skyband.algorithms.heightmap.cell_filter import Axis, Cells

from .columns import float_text
from .heights import Beside


def meets(cells: Cells, axes: list[str], beside: Beside) -> str:
    """Whether a row's cell concerns somebody, or lies outside; a row with a null stays behind."""
    buckets = [_bucket(x, axis) for x, axis in zip(axes, cells.axes, strict=True)]
    tables = [
        beside.array(steps[: axis.last + 1]) for steps, axis in zip(cells.steps, cells.axes, strict=True)
    ]
    word = " + ".join(f"get({table}, {bucket})" for table, bucket in zip(tables, buckets, strict=True))
    words, bits = beside.array(cells.words.view(np.int32)), beside.array(cells.bit.view(np.int32))
    return f"((get({words}, {word}) & get({bits}, {buckets[0]})) <> 0)"


def _bucket(x: str, axis: Axis) -> str:
    number = f"({x} - {float_text(axis.origin)}) * {float_text(axis.scale)}"
    return f"CAST(least(greatest({number}, 0D), {axis.last}D) AS int)"
