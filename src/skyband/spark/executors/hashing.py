"""An order for rows that have none: a hash of each row that is the same in every process, on every day."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def in_order(rows: pa.Table, time: str | None) -> pa.Table:
    """Rows by time, then by a hash of their values; the same rows in any order give the same order."""
    keys = {"hash": pa.array(stable_hash(rows))}
    if time is not None:
        keys["time"] = time_numbers(rows.column(time))
    by = [(name, "ascending") for name in ("time", "hash") if name in keys]
    order = pc.sort_indices(pa.table(keys), by)  # rows without a time come last
    return rows.take(order)


def time_numbers(times: pa.ChunkedArray) -> pa.ChunkedArray:
    """Times as numbers of the same order, which NumPy sorts, too; nulls stay."""
    if pa.types.is_date32(times.type):
        times = pc.cast(times, pa.int32())
    if pa.types.is_timestamp(times.type):
        return pc.cast(times, pa.int64())
    return pc.cast(times, pa.float64()) if pa.types.is_decimal(times.type) else times  # as windows have them


def stable_hash(rows: pa.Table) -> npt.NDArray[np.uint64]:
    """64 bits for each row that depend on its values alone, not on the process or the order of columns."""
    total = np.zeros(rows.num_rows, np.uint64)
    for name in sorted(rows.column_names):
        # A column's name goes in too, so that swapping the values of two columns gives another hash.
        total = _mix(total ^ _column_hash(rows.column(name)) ^ np.uint64(_text_hash(name)))
    return total


def _column_hash(column: pa.ChunkedArray) -> npt.NDArray[np.uint64]:
    """Text is hashed once for each different value; everything has a text that is its own."""
    array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    if pa.types.is_floating(array.type) or pa.types.is_integer(array.type):
        wide = pc.cast(array, pa.float64() if pa.types.is_floating(array.type) else pa.int64(), safe=False)
        bits = np.asarray(pc.fill_null(wide, 0)).view(np.uint64)
        return np.where(np.asarray(array.is_null()), np.uint64(0x9E3779B97F4A7C15), _mix(bits))
    if pa.types.is_timestamp(array.type):
        return _column_hash(pa.chunked_array([pc.cast(array, pa.int64())]))
    coded = array.dictionary_encode()
    words = [_text_hash(str(value)) for value in coded.dictionary.to_pylist()]
    table = np.array([*words, 0x9E3779B97F4A7C15], np.uint64)
    found: npt.NDArray[np.uint64] = table[np.asarray(pc.fill_null(coded.indices, len(words)))]
    return found


def _text_hash(text: str) -> int:
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def _mix(bits: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """The finaliser of splitmix64: spreads every bit of the input over the output."""
    with np.errstate(over="ignore"):
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return bits ^ (bits >> np.uint64(31))
