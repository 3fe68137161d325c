"""Readings from a user's file, as the third paper reads SensorScope's.

The file is one that `skyband top` reads, or text with columns between blanks, with or without names in its first line
(SensorScope's LUCE files have none: a line is a reading, with the station and the time first). The columns are the
first ones of numbers, in the file's order, or those named after a `#`, by name or by number, counted from one:
`luce.txt#20,21,23,27`. A number after a name is the greatest reading; greater ones count as that:
`luce.parquet#solar_ma:400,global_ma:100`. Faulty readings are many times greater than the others, which would all be
alike if they were scaled with these.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.streams.generators import scaled
from skyband.core.errors import InputError
from skyband.core.types import Floats

NUMBERS = ("double", "float", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)))


def from_file(data: Path, columns: int) -> Floats:
    """Return columns of a file, each scaled to 0 to 1, without rows that lack one of them."""
    file, wanted = data, []
    if "#" in data.name and not data.exists():
        name, _, listed = data.name.rpartition("#")
        file, wanted = data.with_name(name), [each.strip() for each in listed.split(",")]
    there = _between_blanks(file) or _table(file)
    wanted, most = _limits(there, wanted)
    names = _chosen(there, wanted, file)
    if len(names) < columns:
        raise InputError(
            f"{file} has {len(names)} columns of numbers, and this part needs {columns}: name a file with more, "
            "or leave --data out."
        )
    points = np.column_stack([there[name] for name in names[:columns]])
    points = points[np.isfinite(points).all(axis=1)]
    if most:
        points = np.minimum(points, most[:columns])
    if not len(points):
        raise InputError(f"{file} has no row with a number in each of {', '.join(names[:columns])}.")
    return scaled(points)


def _limits(there: dict[str, Floats], wanted: list[str]) -> tuple[list[str], list[float]]:
    """Return the names without what follows the colon, and the greatest reading of each."""
    names, most = [], []
    for each in wanted:
        name, colon, limit = each.rpartition(":")
        limited = bool(colon) and each not in there and _number(limit)
        names.append(name if limited else each)
        most.append(float(limit) if limited else np.inf)
    return names, most


def _chosen(there: dict[str, Floats], wanted: list[str], file: Path) -> list[str]:
    names = list(there)
    found = [
        names[int(w) - 1] if w not in there and w.isdigit() and 0 < int(w) <= len(names) else w
        for w in wanted
    ]
    unknown = [name for name in found if name not in there]
    if unknown:
        raise InputError(
            f"{file} has no column of numbers {unknown[0]!r}; there are {', '.join(names)} (or 1 to {len(names)})."
        )
    return found or [name for name in names if not np.isnan(there[name]).all()]


def _table(file: Path) -> dict[str, Floats]:
    """Return the columns of numbers of a CSV, JSON lines or Parquet file."""
    import pyarrow as pa

    from skyband.files import open_rows

    table = pa.concat_tables([chunk.table for chunk in open_rows(file).chunks()])
    numeric = [field.name for field in table.schema if str(field.type) in NUMBERS]
    return {name: table[name].to_numpy().astype(float) for name in numeric}


def _between_blanks(file: Path) -> dict[str, Floats]:
    """Return the columns of a text with blanks between them, NaN for what is no number; nothing for another file."""
    try:
        with file.open(encoding="utf-8") as lines:
            first = next((line for line in lines if line.strip() and not line.startswith(("#", "%"))), "")
    except (OSError, UnicodeDecodeError):
        return {}  # `_table` says what is wrong
    fields = first.split()
    named = not any(map(_number, fields))
    tabbed = named and "\t" in first  # a table with tabs
    if len(fields) < 2 or tabbed or any(mark in first for mark in ',;|{"'):
        return {}
    read = np.genfromtxt(
        file, comments="#", invalid_raise=False, encoding="utf-8", usecols=range(len(fields))
    )
    values = np.atleast_2d(read)[1 if named else 0 :]
    names = fields if named else [f"column {place}" for place in range(1, len(fields) + 1)]
    return {name: np.ascontiguousarray(values[:, place]) for place, name in enumerate(names)}


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
