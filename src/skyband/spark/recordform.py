"""The form that a topic's records have, as one regular expression: it reads a record's values, or says that it can't.

**Problem.** A gate in the JVM needs the columns of records, whose values are JSON. Spark's `from_json` is slow, and
generous: it takes numbers for texts, passes over what follows an object, and turns what it can't read into nulls. Our
own reader rejects such a record, and a record that may be rejected must reach it.

**Idea.** Producers write records of one form: the same keys in the same order. The form is learned from the newest
records, and with the types of the columns it becomes one expression that takes nothing but what our reader is sure to
accept, and that captures the few columns that a gate asks for. A record of another form (a key more, an escape in a
text, a number in quotes, an exponent of three digits) is not read here at all: it passes the gate, and our reader sees
it. So the expression may be as narrow as it likes; it has to be right only about what it takes.

**Exact** for what it takes: a number's digits are rounded to float64 in the JVM as everywhere else, integers have so
few digits that they fit, times are in ISO 8601 of the years 1900 to 2099 and without a zone or with Z.

**When wrong.** For records of many forms in one topic, texts with escapes in nearly all of them, or nested values: they
all pass, and the gate doesn't pay. Of records with many keys there is no form: Java's expressions go one call deeper
for each part, a few hundred keys are more than a thread's stack holds, and the end of a stack is the JVM's end.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from .columns import AT, Types, Unfit, quoted, spark_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# the columns that a form reads from, the record's text and what was captured; and the one that says whether it matched
TEXT, PARTS, READ = f"{AT}_text", f"{AT}_parts", f"{AT}_read"
MARK = "\x01"  # between captured values: no text of valid JSON has it
_BLANK = r"[ \t\r\n]*+"
_FLOAT = r"-?+(?:0|[1-9][0-9]{0,17}+)(?:\.[0-9]{1,30}+)?+(?:[eE][-+]?+[0-9]{1,2}+)?+"
# no quote, no escape, no control character, and not what stands for bytes that are no UTF-8
_PLAIN = r'[^"\\\x00-\x1f\ufffd]*+'
_TIME = r"(?:19|20)[0-9]{2}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}:[0-9]{2}"
_ANYTHING = rf'(?:"{_PLAIN}"|{_FLOAT}|true|false|null)'  # of a key that is no column
_MOST_KEYS = 100  # with all of them captured, a stack of 1 MB is full at more than three times as many
_DIGITS = {pa.int64(): 17, pa.int32(): 8, pa.int16(): 3, pa.int8(): 1}
_CONTROL = re.compile(r'["\\\x00-\x1f\ufffd]')


@dataclass(frozen=True)
class Form:
    """Keys in their order, and the types of those that are columns."""

    keys: tuple[str, ...]
    types: Types

    @classmethod
    def of(cls, texts: Iterable[bytes | None], types: Types) -> Form:
        """The form that most of some records have."""
        found = Counter(keys for text in texts if (keys := _keys(text)) is not None)
        if not found:
            raise Unfit("no record is a JSON object")
        keys = found.most_common(1)[0][0]
        if len(keys) > _MOST_KEYS:
            raise Unfit("records of many keys")
        return cls(keys, types)

    def pattern(self, captured: Sequence[str]) -> str:
        """What a whole record has to match; a group for each captured column, in the order of the keys."""
        members = [
            f'"{_literal(key)}"{_BLANK}:{_BLANK}{self._value(key, key in captured)}' for key in self.keys
        ]
        inner = f"{_BLANK},{_BLANK}".join(members)
        return rf"{_BLANK}\{{{_BLANK}{inner}{_BLANK}\}}{_BLANK}"

    def groups(self, wanted: Iterable[str]) -> list[str]:
        """The columns that must be captured, in the order of the keys: the wanted ones and all times, since a day may
        be none though its digits look like one."""
        asked = set(wanted)
        return [key for key in self.keys if key in self.types and (key in asked or _is_time(self.types[key]))]

    def replacement(self, captured: Sequence[str]) -> str:
        """What a matching record is turned into."""
        return MARK + "".join(f"{MARK}${number}" for number in range(1, len(captured) + 1))

    def columns(self, wanted: Iterable[str], captured: Sequence[str]) -> list[str]:
        """The wanted columns, of the parts of a record that matches."""
        found = []
        for name in wanted:
            kind = spark_type(self.types[name])
            value = f"get({PARTS}, {captured.index(name) + 2})" if name in captured else "NULL"
            found.append(f"try_cast({value} AS {kind}) AS {quoted(name)}")
        return found

    def read(self, captured: Sequence[str]) -> str:
        """Whether a record was read: it matches, and its times are times."""
        marked = f"contains({TEXT}, decode(X'{MARK.encode().hex()}', 'UTF-8'))"
        told = [f"NOT {marked}", f"size({PARTS}) = {len(captured) + 2}"]
        for number, name in enumerate(captured, 2):
            if _is_time(self.types[name]):
                cast = f"try_cast(get({PARTS}, {number}) AS {spark_type(self.types[name])})"
                told.append(f"{cast} IS NOT NULL")
        return f"coalesce({' AND '.join(told)}, false)"

    def _value(self, key: str, captured: bool) -> str:
        """What a key's value has to match."""
        kind = self.types.get(key)
        if kind is None:
            return _ANYTHING
        opened = "(" if captured else "(?:"
        if kind == pa.float64():
            return f"(?:{opened}{_FLOAT})|null)"
        if kind in _DIGITS:
            return f"(?:{opened}0|-?+[1-9][0-9]{{0,{_DIGITS[kind]}}}+)|null)"
        if kind == pa.string():
            return f'(?:"{opened}{_PLAIN})"|null)'
        if kind == pa.bool_():
            return f"(?:{opened}true|false)|null)"
        if _is_time(kind) and spark_type(kind) is not None:
            time = rf"{_TIME}(?:\.[0-9]{{1,{3 if kind.unit == 'ms' else 6}}}+)?+"
            return f'"{opened}{time}Z)"' if kind.tz else f'"{opened}{time})Z?+"'
        raise Unfit(f"a column of type {kind}")


def values_read(records: DataFrame, value: str, form: Form, wanted: Sequence[str]) -> DataFrame:
    """Records with the wanted columns of their values, and whether a value could be READ."""
    from pyspark.sql import functions as f

    groups = form.groups(wanted)
    pattern, kept = rf"\A{form.pattern(groups)}\z", records.columns
    told = f.regexp_replace(f.col(TEXT), f.lit(pattern), f.lit(form.replacement(groups)))
    # a plan may have the expression once for each column, but the code that Spark makes of it computes it once a record
    parted = records.select("*", f.col(value).cast("string").alias(TEXT)).select(
        "*", f.split(told, MARK).alias(PARTS)
    )
    return parted.select(
        *kept, f.expr(f"{form.read(groups)} AS {READ}"), *map(f.expr, form.columns(wanted, groups))
    )


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind))


def _keys(text: bytes | None) -> tuple[str, ...] | None:
    """The keys of a record in their order; None if it is no flat object, or one that no form can have."""
    try:
        pairs = json.loads(text or b"", object_pairs_hook=tuple)
    except (ValueError, RecursionError):
        return None
    if (
        not isinstance(pairs, tuple)
        or not pairs
        or any(isinstance(value, list | tuple) for _, value in pairs)
    ):
        return None
    keys = tuple(key for key, _ in pairs)
    return keys if len({*keys}) == len(keys) and not any(map(_CONTROL.search, keys)) else None


def _literal(text: str) -> str:
    """A key as it stands, in the way that Java and Python both write it."""
    return "".join(f"\\{c}" if c.isascii() and not c.isalnum() and c not in "_ " else c for c in text)
