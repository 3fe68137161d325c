"""The page of the server's figures, beside the goals."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.harness.claims import Book, Claim
from benchmarks.harness.figures import Figure, number

HEAD = """# The server: how fast it is

Written by `python -m benchmarks serve` from its own figures ([options](../benchmarks.md#options)).

`skyband serve` runs in a process of its own, with a journal. A client in Python uses it over loopback and shares its
two cores. Times are wall-clock times, so all this needs a machine that does nothing else. *The disk alone* is the same
bytes appended to a file and flushed one by one: a server that acknowledges only what is on disk can't be faster,
unless several pushes share one flush.
"""


def least(series: str, goal: float, at: int = 0) -> Callable[[Figure], tuple[bool, str] | None]:
    """That a figure's value at this place is so high."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        value = figure.value("", series, figure.places()[at])
        return None if value is None else (value * figure.times >= goal, _told(figure, value))

    return judge


def below(series: str, goal: float, *places: int) -> Callable[[Figure], tuple[bool, str] | None]:
    """That a figure's values at these places are below this."""

    def judge(figure: Figure) -> tuple[bool, str] | None:
        values = [figure.value("", series, figure.places()[at]) for at in places]
        known = [value for value in values if value is not None]
        return (max(known) * figure.times < goal, _told(figure, max(known))) if known else None

    return judge


def _told(figure: Figure, value: float) -> str:
    return f"{number(value * figure.times)} {figure.unit}"


BOOK = Book(
    name="serve",
    head=HEAD,
    sections=(
        ("arrow", "Rows by Arrow IPC"),
        ("lines", "Rows by JSON lines"),
        ("latency", "From a push to its change"),
        ("readers", "A thousand readers"),
        ("crowd", "Eleven thousand readers"),
        ("start", "Start"),
        ("page", "The page"),
        ("smooth", "A thousand changes a second on the page"),
    ),
    claims={
        "arrow": (Claim("1,000,000 rows a second", least("by the clock", 1e6)),),
        "lines": (Claim("100,000 rows a second", least("by the clock", 1e5)),),
        "latency": (Claim("push to change: p99 under 20 ms", below("p99", 20.0, 0)),),
        "readers": (
            Claim("a push is acknowledged within 100 ms (p99) beside all readers", below("p99", 100.0, 2)),
        ),
        "crowd": (Claim("no push takes longer than a second", below("longest", 1000.0, 0)),),
        "start": (
            Claim("about a second with nothing to load", below("by the clock", 1.5, 0)),
            Claim("under 3 s with a thousand queries", below("by the clock", 3.0, 1, 2)),
        ),
        "page": (Claim("usable within 1 s, always", below("p99", 1000.0, 0, 1)),),
        "smooth": (
            Claim("no frame takes 100 ms, which a person would feel", below("worst", 100.0, 0, 3)),
            Claim("what is shown is never older than a second", below("p99", 1000.0, 1, 4)),
        ),
    },
    said="goal",
)
