"""Types: the stream's schema, and the rows that don't fit it.

A stream's schema is given or taken from its first batch; columns that turn up later are added to it. A column
that a batch lacks counts as null. Values are cast where nothing is lost (int to double, a narrower integer, a
finer timestamp, ISO text to a timestamp); a row with a value that can't be is a misfit and will be rejected.
Dictionary-encoded columns are decoded, for the stream's type is that of the values.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from skyband.core.errors import InputError, QueryError
from skyband.stream.arrow import has_text, numbers_array, python_value, unreadable, values_of
from skyband.stream.rules import RULES, WIDENING

Raw: TypeAlias = pa.Table | dict[str, pa.ChunkedArray | Sequence[Any]]
"""A batch as it came: an Arrow table, or columns, with plain Python values where they are of several types."""


def columns(raw: Any) -> dict[str, Any]:
    """Return a batch's columns by name."""
    if not isinstance(raw, pa.Table):
        return raw  # type: ignore[no-any-return]
    names = raw.column_names
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f'The batch has two columns "{twice}"; rename one.')
    return dict(zip(names, raw.columns, strict=True))


def plain(type_: pa.DataType) -> pa.DataType:
    """Return the type that a stream keeps for a column that comes in this one."""
    if pa.types.is_dictionary(type_):
        return plain(type_.value_type)
    if str(type_) == "string_view":
        return pa.string()
    return type_


def infer(raw: Raw) -> pa.Schema:
    """Return the schema of a first batch."""
    return pa.schema([(name, infer_type(column)) for name, column in columns(raw).items()])


def infer_type(column: pa.ChunkedArray | Sequence[Any]) -> pa.DataType:
    if isinstance(column, pa.ChunkedArray | pa.Array):
        return plain(column.type)
    first = next((value for value in column if value is not None), None)
    if type(first) in (int, float):  # numbers among other things: their common type
        return pa.infer_type([value for value in column if type(value) in (int, float)])
    for value in column:  # several types in one column: the first value decides, others may not fit
        if value is not None:
            try:
                return plain(pa.infer_type([value]))
            except pa.ArrowInvalid:
                continue
    return pa.null()


MOST_COLUMNS = 4_096  # no further ones are added to a stream


def extend(schema: pa.Schema, raw: Raw, rules: int = RULES) -> pa.Schema:
    """Return the schema with columns that it didn't have, and types that it didn't know yet."""
    fields = {field.name: field.type for field in schema}
    for name, column in columns(raw).items():
        has_room = len(fields) < MOST_COLUMNS or rules < WIDENING
        if pa.types.is_null(fields[name]) if name in fields else has_room:
            fields[name] = infer_type(column)
    return pa.schema(list(fields.items()))


def known_type(schema: pa.Schema | None, name: str) -> bool:
    """Whether a column is there and its type is known."""
    return schema is not None and name in schema.names and not pa.types.is_null(schema.field(name).type)


LIKELY = pa.float64(), pa.string(), pa.bool_(), pa.timestamp("us")  # types that expressions can ask for


def agree(
    schema: pa.Schema, unsure: Mapping[str, Iterable[pa.DataType]], settle: Callable[[pa.Schema], None]
) -> None:
    """Settle a schema, or one with other types in columns that it was too soon to be sure of.

    `settle` raises if the queries can't do with a schema. Then each unsure column in turn gets the first type, its own
    or another, that they can do with: rows with something else there are rejected, and nothing stops the stream.
    """
    try:
        return settle(schema)
    except (InputError, QueryError) as problem:
        if not unsure:
            raise
        first = problem
    types = {field.name: pa.null() if field.name in unsure else field.type for field in schema}
    for name, others in unsure.items():
        for type_ in (schema.field(name).type, *others):
            try:
                settle(pa.schema(list({**types, name: type_}.items())))
            except (InputError, QueryError):
                continue
            types[name] = type_
            break
        else:
            raise first


def fit(raw: Raw, rows: int, schema: pa.Schema, rules: int = RULES) -> tuple[pa.Table, dict[int, str]]:
    """Return the batch in the stream's types, and for each row that doesn't fit what is wrong with it."""
    misfits: dict[int, str] = {}
    texts = _with_texts(schema)
    if isinstance(raw, pa.Table) and raw.schema.equals(schema):
        for name in texts:
            column = _read(name, raw.column(name), misfits)
            if misfits:
                raw = raw.set_column(schema.get_field_index(name), schema.field(name), column)
        return raw, misfits
    came = columns(raw)
    fitted: list[Any] = []
    for field in schema:
        column = came.get(field.name)
        if column is None:
            fitted.append(pa.nulls(rows, field.type))
        elif isinstance(column, pa.ChunkedArray) and column.type == field.type:
            fitted.append(column)
        else:
            fitted.append(_fit_column(field.name, column, field.type, misfits, rules))
        if field.name in texts:
            fitted[-1] = _read(field.name, fitted[-1], misfits)
    return pa.Table.from_arrays(fitted, schema=schema), misfits


# By the schema's id: to ask it for its types costs microseconds.
_texts: dict[int, tuple[pa.Schema, tuple[str, ...]]] = {}


def _with_texts(schema: pa.Schema) -> tuple[str, ...]:
    """Return the columns that have text, by themselves or in lists and structs."""
    known = _texts.get(id(schema))
    if known is None:
        if len(_texts) > 100:
            _texts.clear()
        known = schema, tuple(field.name for field in schema if has_text(field.type))
        _texts[id(schema)] = known
    return known[1]


def readable(table: pa.Table, schema: pa.Schema) -> bool:
    """Whether all texts of a table of this schema are text."""
    return not any(unreadable(chunk) for name in _with_texts(schema) for chunk in table.column(name).chunks)


def _read(name: str, column: pa.ChunkedArray | pa.Array, misfits: dict[int, str]) -> Any:
    """Return a column of the right type, with nulls for values that are no text; their rows are misfits."""
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    wrong = [unreadable(chunk) for chunk in chunks]
    if not any(wrong):
        return column
    mark = np.zeros(len(column), dtype=bool)
    offset = 0
    for chunk, places in zip(chunks, wrong, strict=True):
        mark[[offset + place for place in places]] = True
        offset += len(chunk)
    for row in np.flatnonzero(mark).tolist():
        misfits.setdefault(row, f'column "{name}": not UTF-8')
    return pc.if_else(numbers_array(mark), pa.scalar(None, column.type), column)


def _fit_column(name: str, column: Any, wanted: pa.DataType, misfits: dict[int, str], rules: int) -> pa.Array:
    if isinstance(column, pa.ChunkedArray | pa.Array):
        array = column
        if isinstance(column, pa.ChunkedArray):
            array = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
        return _fit_array(name, array, wanted, 0, misfits, rules)
    parts = []
    for row, value in enumerate(column):
        try:
            parts.append(_fit_array(name, pa.array([value]), wanted, row, misfits, rules))
        except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, UnicodeEncodeError):
            misfits.setdefault(row, _misfit(name, value, wanted))
            parts.append(pa.nulls(1, wanted))
    return pa.concat_arrays(parts) if parts else pa.array([], wanted)


def _fit_array(
    name: str, array: pa.Array, wanted: pa.DataType, offset: int, misfits: dict[int, str], rules: int
) -> pa.Array:
    """Cast a stretch; where that fails, its halves, down to the single values that don't fit."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if array.type == wanted:
        return array
    if pa.types.is_null(array.type) or pa.types.is_null(wanted) or array.null_count == len(array):
        return pa.nulls(len(array), wanted)
    if castable(array.type, wanted):
        try:
            return cast(array, wanted, rules)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            pass
    if len(array) == 1:
        misfits.setdefault(offset, _misfit(name, python_value(array[0]), wanted))
        return pa.nulls(1, wanted)
    half = len(array) // 2
    left = _fit_array(name, array.slice(0, half), wanted, offset, misfits, rules)
    right = _fit_array(name, array.slice(half), wanted, offset + half, misfits, rules)
    return pa.concat_arrays([left, right])


def cast(array: pa.Array, wanted: pa.DataType, rules: int = RULES) -> pa.Array:
    """Return a cast that loses nothing, or an error.

    Arrow's own safe cast rounds decimals and cuts the time of day off dates; it can't make integers into narrow
    decimals at all, nor any integer beyond 2^53 into a double, not even those that are doubles. A double in a float32
    column is rounded: such a column says that this precision is enough.
    """
    if rules and pa.types.is_integer(array.type) and pa.types.is_float64(wanted):
        fitted = pc.cast(array, wanted, safe=False)
        if has_inexact(values_of(array.drop_null() if array.null_count else array)):
            raise pa.ArrowInvalid("an integer is no double")
        return fitted
    if pa.types.is_decimal(wanted) and pa.types.is_integer(array.type):
        array = pc.cast(array, pa.decimal128(38, 0))
    if pa.types.is_decimal(array.type) and not pa.types.is_floating(wanted):
        scale = wanted.scale if pa.types.is_decimal(wanted) else 0
        widest = max(array.type.bit_width, wanted.bit_width)
        if abs(array.type.scale - scale) > (76 if widest > 128 else 38):
            raise pa.ArrowInvalid("no power of ten is as large")  # Arrow would take one from beyond its table
    if pa.types.is_nested(wanted) and _drops(array, wanted):
        raise pa.ArrowInvalid("the cast would drop a field")
    fitted = pc.cast(array, wanted, safe=True)
    rounds = pa.types.is_decimal(wanted) or (pa.types.is_date(wanted) and pa.types.is_timestamp(array.type))
    if rounds and not pc.all(pc.equal(pc.cast(fitted, array.type, safe=False), array)).as_py():
        raise pa.ArrowInvalid("the cast would lose something")
    return fitted


LARGEST = 2**53  # every integer up to it is a double


def has_inexact(values: Any) -> bool:
    """Whether one of some integers is no double."""
    if not len(values) or values.dtype.itemsize < 8 or 0 <= int(np.bitwise_or.reduce(values)) < LARGEST:
        return False  # the common case, by one pass
    if int(values.min()) >= -LARGEST and int(values.max()) <= LARGEST:
        return False
    return bool(inexact(values).any())


def inexact(values: Any) -> npt.NDArray[np.bool_]:
    """Return which integers are no doubles: those with more than 53 bits from the first to the last set."""
    negative = values < 0
    size = np.where(negative, ~values.view(np.uint64) + np.uint64(1), values.view(np.uint64))
    last = np.maximum(size & (~size + np.uint64(1)), np.uint64(1))
    return np.asarray(size // last > LARGEST)


def _drops(array: pa.Array, wanted: pa.DataType) -> bool:
    """Whether a struct, alone or in a list, has a value in a field that the stream's type hasn't."""
    given = array.type
    if pa.types.is_struct(given) and pa.types.is_struct(wanted):
        names = [field.name for field in wanted]
        return any(
            _drops(child, wanted.field(field.name).type)
            if field.name in names
            else child.null_count < len(child)
            for field, child in zip(given, array.flatten(), strict=True)
        )
    lists = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    if any(test(given) for test in lists) and any(test(wanted) for test in lists):
        return _drops(array.flatten(), wanted.value_type)
    return False


def castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether values of one type may be values of the other at all."""
    if _numeric(given) and _numeric(wanted):
        return True
    if _temporal(given) and _temporal(wanted):
        return True
    text = pa.types.is_string(given) or pa.types.is_large_string(given) or str(given) == "string_view"
    if text and (_temporal(wanted) or pa.types.is_string(wanted) or pa.types.is_large_string(wanted)):
        return True
    nested = (
        pa.types.is_nested,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_time,
        pa.types.is_duration,
    )
    return any(test(given) and test(wanted) for test in nested)


def _numeric(type_: pa.DataType) -> bool:
    return bool(pa.types.is_integer(type_) or pa.types.is_floating(type_) or pa.types.is_decimal(type_))


def _temporal(type_: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(type_) or pa.types.is_date(type_))


def _misfit(name: str, value: Any, wanted: pa.DataType) -> str:
    shown = repr(value)
    return f'column "{name}" is {wanted} in this stream, and {shown[:80]} is not'


def type_of(text: str) -> pa.DataType:
    """Return a type by Arrow's name for it, as `str` of the type gives it."""
    if zoned := re.fullmatch(r"timestamp\[(s|ms|us|ns), tz=(.+)\]", text):
        type_ = pa.timestamp(*zoned.groups())
        pa.scalar(0).cast(pa.int64()).cast(type_).cast(pa.string())  # an error if there is no such time zone
        return type_
    if decimal := re.fullmatch(r"decimal128\((\d+), (-?\d+)\)", text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    return pa.type_for_alias(text)


def declared(schema: pa.Schema | Mapping[str, Any] | None) -> pa.Schema | None:
    """Return a schema as the user gave it: Arrow's, or column names with types."""
    if schema is None or isinstance(schema, pa.Schema):
        return pa.schema([(f.name, plain(f.type)) for f in schema]) if schema is not None else None
    try:
        fields = [(n, type_of(t) if isinstance(t, str) else t) for n, t in schema.items()]
        return pa.schema([(name, plain(type_)) for name, type_ in fields])
    except (ValueError, TypeError, AttributeError) as error:
        raise InputError(
            f"schema= can't be read ({error}); give a pyarrow schema, or column names with types like 'double'."
        ) from None
