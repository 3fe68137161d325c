"""DataFrames in, DataFrames of changes or answers out.

    rows -> check, hash, prune (tasks) -> number (one task) -> one stateful operator, a key for each unit -> merge

- columns: columns of a DataFrame by their names.
- rejected: files of rejected rows, written by tasks.
- tasks: what happens to rows where they are, and how they get their places in the order of the micro-batch.
- units: the step of one unit and its state.
- merge: the units' parts of answers become one.
- watching: `watch`, for streaming and batch DataFrames.
- current: `answers`, the current answers in `foreachBatch`.
"""

from __future__ import annotations

from .current import answers
from .watching import watch

__all__ = ["answers", "watch"]
