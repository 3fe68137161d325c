"""Windows: the recent rows that a query reads.

There are two kinds, and both are suffixes of the recency order: the n most recent rows (Rows), and the rows of the
last n nanoseconds (Last). Nanoseconds are integers, so that a window is the same on every machine and `1.5 HOURS`
equals `90 MINUTES`.
"""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from typing import Any

from skyband.core.errors import QueryError
from skyband.query.suggestions import located, nearest

UNITS = {
    "nanosecond": 1,
    "microsecond": 1_000,
    "millisecond": 1_000_000,
    "second": 1_000_000_000,
    "minute": 60_000_000_000,
    "hour": 3_600_000_000_000,
    "day": 86_400_000_000_000,
    "week": 604_800_000_000_000,
}
SHORT = {
    "ns": "nanosecond", "us": "microsecond", "ms": "millisecond", "s": "second", "sec": "second", "m": "minute",
    "min": "minute", "h": "hour", "hr": "hour", "d": "day", "w": "week",
}  # fmt: skip
MOST = 2**63 - 1
EXAMPLES = "such as 100000 ROWS or 5 MINUTES"


@dataclass(frozen=True, slots=True)
class Rows:
    """The n most recent rows of the stream."""

    n: int

    def __post_init__(self) -> None:
        if isinstance(self.n, bool) or not isinstance(self.n, int):
            raise QueryError(f"A window of rows needs a whole number, not {self.n!r}.")
        if not 0 < self.n <= MOST:
            raise QueryError(f"A window needs at least one row and less than 2^63, not {self.n}.")

    def __str__(self) -> str:
        return f"{self.n} ROWS"


@dataclass(frozen=True, slots=True)
class Last:
    """The rows whose event time is at least now minus this duration."""

    nanoseconds: int

    def __post_init__(self) -> None:
        if isinstance(self.nanoseconds, bool) or not isinstance(self.nanoseconds, int):
            raise QueryError(f"A time window needs a whole number of nanoseconds, not {self.nanoseconds!r}.")
        if not 0 < self.nanoseconds <= MOST:
            raise QueryError("A time window must be longer than nothing and shorter than 292 years.")

    @property
    def seconds(self) -> float:
        return self.nanoseconds / 1e9

    def __str__(self) -> str:
        for unit in ("day", "hour", "minute", "second", "millisecond", "microsecond", "nanosecond"):
            count, rest = divmod(self.nanoseconds, UNITS[unit])
            if not rest:
                return f"{count} {unit.upper()}{'' if count == 1 else 'S'}"
        raise AssertionError("every whole number of nanoseconds is one")


Window = Rows | Last


def unit_of(word: str) -> str | None:
    """Return `row` or the singular name of a unit of time for a word (any case, singular, plural or short), or None."""
    word = word.lower()
    if word in ("row", "rows"):
        return "row"
    if word in SHORT:
        return SHORT[word]
    single = word.removesuffix("s")
    if single in UNITS:
        return single
    return SHORT.get(single)


def measure(count: str, word: str) -> Window | str:
    """Return the window of a count and a unit as written, or a sentence about what is wrong with them."""
    unit = unit_of(word)
    if unit is None:
        near = nearest(word, [*(name + "s" for name in UNITS), "rows"])
        hint = f"did you mean {near.upper()}" if near else "use ROWS, SECONDS, MINUTES, HOURS or DAYS"
        return f"{word} is not a unit of a window; {hint}"
    try:
        amount = Decimal(count)
    except InvalidOperation:
        return f"{count} is not a number; write a window {EXAMPLES}"
    if not amount.is_finite() or abs(amount.adjusted()) > 30:
        return f"A window of {count} {word.upper()} is out of range; write one {EXAMPLES}"
    exact = Fraction(amount) * (1 if unit == "row" else UNITS[unit])
    if exact.denominator != 1:
        smallest = "rows" if unit == "row" else "nanoseconds"
        return f"A window is a whole number of {smallest}, but {count} {word.upper()} is not; write one {EXAMPLES}"
    whole = exact.numerator
    if not 0 < whole <= MOST:
        return f"A window of {count} {word.upper()} is out of range; write one {EXAMPLES}"
    return Rows(whole) if unit == "row" else Last(whole)


def rows(n: int) -> Rows:
    """Return a window of the n most recent rows.

    >>> rows(100_000)
    Rows(n=100000)
    """
    try:
        return Rows(n.__index__())
    except AttributeError:
        raise QueryError(f"A window of rows needs a whole number, not {n!r}.") from None


def last(duration: str | float | datetime.timedelta) -> Last:
    """Return a window of time from "5 minutes", a timedelta, or a number of seconds.

    >>> str(last("90 seconds")), str(last(0.25))
    ('90 SECONDS', '250 MILLISECONDS')
    """
    if isinstance(duration, str):
        result = _read(duration)
        if isinstance(result, Rows):
            raise QueryError(
                f'last() takes a duration such as "5 minutes", not {duration!r}; use rows({result.n}).'
            )
        return result
    if isinstance(duration, datetime.timedelta):
        return Last((duration // datetime.timedelta(microseconds=1)) * 1000)
    try:
        seconds = float(duration)
    except (TypeError, ValueError):
        raise QueryError(
            f'last() takes a duration such as "5 minutes" or seconds, not {duration!r}.'
        ) from None
    if not math.isfinite(seconds):
        raise QueryError(f"A time window needs a finite number of seconds, not {duration!r}.")
    # The decimal that the user sees, not the binary number behind it: 0.1 is 100,000,000 nanoseconds.
    return Last(round(Fraction(repr(seconds)) * UNITS["second"]))


def duration(option: str, given: Any) -> Last:
    """Return the duration of an option, which is given in one of the forms that `last` takes."""
    try:
        return given if isinstance(given, Last) else last(given)
    except QueryError:
        raise QueryError(
            f'{option}= takes a duration such as "5 minutes" or a number of seconds above 0, not {given!r}.'
        ) from None


def window(w: str | Rows | Last | datetime.timedelta) -> Window:
    """Return a window from its text ("5 minutes", "100000 rows", "[7 DAYS]"), a timedelta, or a window itself."""
    if isinstance(w, Rows | Last):
        return w
    if isinstance(w, datetime.timedelta):
        return last(w)
    if isinstance(w, str):
        return _read(w)
    raise QueryError(f'A window is rows(100_000), last("5 minutes") or their text, not {w!r}.')


def _read(text: str) -> Window:
    inner = text.strip()
    if inner.startswith("[") and inner.endswith("]"):
        inner = inner[1:-1].strip()
    cut = len(inner) - len(inner.lstrip("0123456789.,_+-"))
    if (
        inner[cut : cut + 2].lower() in ("e-", "e+")
        or inner[cut : cut + 2].lower().removeprefix("e").isdigit()
    ):
        more = inner[cut + 2 :]
        cut += 2 + len(more) - len(more.lstrip("0123456789"))
    count, word = inner[:cut].strip(), inner[cut:].strip()
    if not count or not word:
        raise QueryError(f"The window {text!r} has no number or no unit; write one {EXAMPLES}.")
    result = measure(count.replace("_", ""), word)
    if isinstance(result, str):
        raise QueryError(located(result, None))
    return result
