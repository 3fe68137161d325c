"""Strict streams: a batch with a missing or an unknown column, or a row that would be rejected, stops the pipeline.

Nothing of such a batch may be written down, neither rows nor state: its files may be mended before the next start. With
the state in the driver the driver looks at what the tasks have sent, before it writes the step. With the state in the
executors the tasks that read look, since the units' states are written as soon as rows reach them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from skyband.core.errors import StrictError
from skyband.stream.rejects import Reject

Odd = tuple[str, str, str, str]
"""A notice about a column: the stream, kind, column and hint."""

_IN_A_TASK = re.compile(r"skyband[\w.]*\.errors\.StrictError: (.+)")


def must_suit(batch: int, strict: Collection[str], odd: Iterable[Odd], rejects: Iterable[Reject]) -> None:
    """Raise StrictError for what a strict stream doesn't take. Late rows don't count."""
    for stream, kind, column, hint in odd:
        if stream in strict:
            raise _refused(batch, stream, f'the {kind} "{column}" ({hint})')
    for reject in rejects:
        if reject.stream in strict and reject.reason != "late":
            what = f"a row that would be rejected ({reject.reason}: {reject.detail}), {reject.raw[:200]}"
            raise _refused(batch, reject.stream, what)


def refused_in_a_task(problem: Exception) -> StrictError | None:
    """The StrictError that a task has raised, if that is what a query has failed by."""
    found = _IN_A_TASK.search(str(problem))
    return None if found is None else StrictError(found[1].strip())


def _refused(batch: int, stream: str, what: str) -> StrictError:
    return StrictError(
        f"Batch {batch} of stream '{stream}' has {what}, and strict takes nothing of the batch: mend the data, or "
        "leave out strict, and start again."
    )
