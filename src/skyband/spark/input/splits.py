"""Splits: the pieces of files that tasks read.

A split is a run of row groups of a Parquet file, a range of bytes of a file of JSON lines, or a whole CSV file
(where only reading from the start shows which line ends are quoted). Its number is its place in
the micro-batch's arrival order, so whatever task reads it, and however often, its rows get the same sequence
numbers. A task gets consecutive splits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise

from skyband.files.source import packing
from skyband.spark.jvm.paths import place_of

from .filelog import (
    FileLog,
    StreamFiles,
    Taken,
    file_path,
)

_SMALL = 2 << 20  # below this many bytes another task costs more than it saves
_LARGE = 64 << 20  # a split's rows must fit into one Arrow message with room to spare


@dataclass(frozen=True)
class Split:
    """One piece of one file. `first` and `count` are row groups (Parquet) or bytes (text)."""

    number: int
    stream: str
    format: str
    path: str
    size: int
    changed: int
    first: int
    count: int
    rows: int  # -1 where only reading it shows how many


Offset = dict[str, int]


def plan_splits(
    log: FileLog, streams: list[StreamFiles], start: Offset, end: Offset, tasks: int
) -> list[list[Split]]:
    """The splits between two offsets, in arrival order, as one list for each task."""
    files = [
        (stream, taken)
        for stream in streams
        for taken in log.taken(stream.name)[start.get(stream.name, 0) : end.get(stream.name, 0)]
    ]
    total = sum(_weight(taken) for _, taken in files)
    target = max(_SMALL, -(-total // max(1, tasks)))
    splits: list[Split] = []
    weights: list[int] = []
    for stream, taken in files:
        path = str(file_path(stream.root, taken.name))
        for first, count, rows, weight in _pieces(taken, stream.format, min(target, _LARGE), path):
            splits.append(
                Split(
                    len(splits),
                    stream.name,
                    stream.format,
                    path,
                    taken.size,
                    taken.changed,
                    first,
                    count,
                    rows,
                )
            )
            weights.append(weight)
    return _share(splits, weights, target)


def in_pieces(split: Split, rows: int) -> list[Split]:
    """A split of a Parquet file cut at its row groups into pieces of about so many rows."""
    groups = max(1, rows * split.count // max(1, split.rows))
    ends = range(split.first, split.first + split.count, groups)
    last = split.first + split.count
    return [replace(split, first=first, count=min(groups, last - first), rows=-1) for first in ends]


def _share(splits: list[Split], weights: list[int], target: int) -> list[list[Split]]:
    """Cut the splits into runs of about `target` bytes."""
    runs: list[list[Split]] = []
    filled = 0
    for split, weight in zip(splits, weights, strict=True):
        # Half a split over is better than a task of its own.
        if not runs or filled + weight / 2 > target:
            runs.append([])
            filled = 0
        runs[-1].append(split)
        filled += weight
    return runs


def _weight(taken: Taken) -> int:
    return taken.size if taken.groups is None else sum(size for _, size in taken.groups)


def _pieces(taken: Taken, form: str, target: int, path: str) -> list[tuple[int, int, int, int]]:
    """(first, count, rows, bytes) of a file's pieces, each of about `target` bytes."""
    if form == "csv":
        return [(0, taken.size, -1, taken.size)]
    if taken.groups is None:
        number = max(1, -(-taken.size // max(target, 1)))
        if number > 1 and _packed(path):
            number = 1
        edges = [taken.size * i // number for i in range(number + 1)]
        return [(a, b - a, -1, b - a) for a, b in pairwise(edges)]
    pieces: list[tuple[int, int, int, int]] = []
    for index, (rows, size) in enumerate(taken.groups):
        if pieces and pieces[-1][3] + size / 2 <= target:
            first, count, before, weight = pieces[-1]
            pieces[-1] = (first, count + 1, before + rows, weight + size)
        else:
            pieces.append((index, 1, rows, size))
    return pieces


def _packed(path: str) -> bool:
    """Whether a file can only be unpacked from its beginning; one that is gone is an error where it is read."""
    try:
        return packing(place_of(path)) is not None
    except OSError:
        return False
