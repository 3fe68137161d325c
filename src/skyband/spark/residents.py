"""Things that stay in a worker from task to task, and the collector of garbage.

PySpark's workers collect garbage after every task. Hundreds of queries are millions of objects that are still there
afterwards, and to go through them takes longer than the task itself. So they are frozen: the collector passes them
over. That is done when a task begins, because nothing is garbage then: the collector has just been through. What is
to be forgotten is thawed first, or it would stay for ever.
"""

from __future__ import annotations

import gc

_FRESH = [True]  # whether something has been built, or forgotten, since the last freeze


def begin_task() -> None:
    """Freeze what the tasks before this one have left."""
    if _FRESH[0]:
        gc.freeze()
        _FRESH[0] = False


def built() -> None:
    """Something large has been made that will stay."""
    _FRESH[0] = True


def forgotten() -> None:
    """Something large is to go: the next collection takes it."""
    gc.unfreeze()
    _FRESH[0] = True
