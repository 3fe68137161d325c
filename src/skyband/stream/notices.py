"""Notices: what is no reject and yet was hardly meant.

    missing column   a batch lacks a column that a query names
    unknown column   a column is new to the stream after its first batch
    widened          a column has a wider type now
    time unit        numbers in the time column look like another unit than seconds
    all rejected     every row of a step was rejected
    jumped           time starts again, since several steps lay far ahead
    waiting          rows are stamped far ahead and wait

A notice is counted by its kind, stream and column. The first of each is logged; further ones add to its rows.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa

from skyband.core.errors import StrictError
from skyband.query.suggestions import nearest
from skyband.stream.rejects import Reject
from skyband.stream.schema import MOST_COLUMNS
from skyband.stream.validation import Accepted

log = logging.getLogger("skyband")

MOST = 1_000  # different notices
_LOOKED_UP = (
    10  # for so many columns of a batch a similar name is looked up, which takes a while for thousands
)
SCHEMA = pa.schema(
    [
        ("notice", pa.string()),
        ("stream", pa.string()),
        ("column", pa.string()),
        ("rows", pa.int64()),
        ("first_seq", pa.int64()),
        ("last_seq", pa.int64()),
        ("hint", pa.string()),
    ]
)


class Notice(NamedTuple):
    """One line of the table. `hint` says what to do; that of the latest step is kept."""

    notice: str
    stream: str
    column: str | None
    rows: int
    first_seq: int | None
    last_seq: int | None
    hint: str

    def sentence(self) -> str:
        where = "" if not self.stream else f' in stream "{self.stream}"'
        what = self.notice if self.column is None else f'{self.notice} "{self.column}"'
        return f"{what}{where}: {self.hint}"


class Notices:
    """The notices of a monitor so far."""

    def __init__(self) -> None:
        self.by_what: dict[tuple[str, str, str | None], Notice] = {}
        self.of_step: list[Notice] = []  # those of the latest step, with that step's rows alone
        self.silent = False  # steps are repeated: their notices were logged before
        self._is_full = False

    def add(self, notice: Notice) -> None:
        """Count a notice of the present step, and log it if it is the first of its kind."""
        self.of_step.append(notice)
        what = notice[:3]
        known = self.by_what.get(what)
        if known is not None:
            first = notice.first_seq if known.first_seq is None else known.first_seq
            last = known.last_seq if notice.last_seq is None else notice.last_seq
            self.by_what[what] = Notice(*what, known.rows + notice.rows, first, last, notice.hint)
        elif len(self.by_what) < MOST:
            self.by_what[what] = notice
            self._log(notice.sentence())
        elif not self._is_full:
            self._is_full = True
            self._log(f"there are {MOST:,} different notices: further ones are not kept")

    def _log(self, sentence: str) -> None:
        if not self.silent:
            log.warning("%s", sentence)

    def table(self) -> pa.Table:
        return to_table(self.by_what.values())

    def dump(self) -> list[list[Any]]:
        return [list(notice) for notice in self.by_what.values()]

    def load(self, blob: Iterable[list[Any]]) -> None:
        self.by_what = {notice[:3]: notice for notice in (Notice(*values) for values in blob)}


def to_table(notices: Iterable[Notice]) -> pa.Table:
    return pa.Table.from_pylist([notice._asdict() for notice in notices], schema=SCHEMA)


def surprises(
    came: Collection[str], known: Collection[str], named: Collection[str], room: int | None = None
) -> Iterator[tuple[str, str, str]]:
    """Yield kind, column and hint of each column that a batch lacks or that is new to its stream.

    `known` are the columns of the stream, `named` those that it can't do without. `room`: so many columns are added.
    """
    lacking = [name for name in known if name not in came]
    strange = [name for name in came if name not in known]
    for place, name in enumerate(sorted(set(lacking) & set(named))):
        others = [other for other in came if other not in named] if place < _LOOKED_UP else ()
        like = nearest(name, others)
        hint = "the batch doesn't have it, so it is null in these rows"
        yield "missing column", name, hint if like is None else f'the batch has "{like}": rename it'
    full = (
        f"the stream has {MOST_COLUMNS:,} columns" if room is None else "its first file decides the columns"
    )
    room = MOST_COLUMNS - len(known) if room is None else room
    for place, name in enumerate(strange):
        like = nearest(name, lacking) if place < _LOOKED_UP else None
        hint = (
            "it is new, and null in the rows before"
            if like is None
            else f'the batch lacks "{like}": rename it'
        )
        if place >= room and (like is None or room):
            hint = f"it is left out, for {full}"
        yield "unknown column", name, hint


def must_be_as_expected(odd: Iterable[tuple[str, str, str]], rejects: Iterable[Reject], stream: str) -> None:
    """Raise StrictError for a missing or an unknown column, and for a row that is rejected for more than lateness."""
    of = f' of stream "{stream}"' if stream else ""
    for kind, column, hint in odd:
        if kind in ("missing column", "unknown column"):
            raise StrictError(
                f'The batch{of} has the {kind} "{column}" ({hint}), and strict takes nothing of it: mend it, or push '
                "it without strict."
            )
    reject = next((reject for reject in rejects if reject.reason != "late"), None)
    if reject is not None:
        raise StrictError(
            f"Row {reject.seq} of the batch{of} would be rejected ({reject.reason}: {reject.detail}), and strict takes "
            "nothing of it: mend it, or push it without strict."
        )


def widenings(before: pa.Schema, after: pa.Schema) -> Iterator[tuple[str, str, str]]:
    """Yield kind, column and hint of each column whose type has become a wider one."""
    for field in before:
        type_ = after.field(field.name).type
        if type_ != field.type and not pa.types.is_null(field.type):
            yield "widened", field.name, f"{field.type} is {type_} from now on, because a value needs it"


def all_rejected(parts: Iterable[Accepted]) -> str | None:
    """Return the reasons if every row of a step's parts was rejected; None if a row was accepted, or there is none."""
    if any(part.count > len(part.rejects) for part in parts):
        return None
    rejects = [reject for part in parts for reject in part.rejects]
    if not rejects:
        return None
    reasons = Counter(reject.reason for reject in rejects)
    (reason, _), *_ = reasons.most_common(1)
    example = next(reject.detail for reject in rejects if reject.reason == reason)
    counted = ", ".join(f"{count:,} {name}" for name, count in reasons.most_common())
    return f"{counted}, such as: {example}"
