"""Things that stay in a worker from task to task, and the collector of garbage.

PySpark's workers collect garbage after every task. Hundreds of queries are millions of objects that are still there
afterwards, and to go through them takes longer than the task itself. So they are frozen: the collector passes them
over. That is done when a task begins, because nothing is garbage then: the collector has just been through.

What is frozen and forgotten would stay for ever. A monitor whose state is another by now is therefore taken apart: when
nothing in it knows of anything else, it needs no collector. The rest is thawed, and the collector goes through all
there is, which is dear: it happens when a worker gets another job.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor

_FRESH = [True]  # whether something has been built, or forgotten, since the last freeze


def begin_task() -> None:
    """Freeze what the tasks before this one have left."""
    if _FRESH[0]:
        gc.freeze()
        _FRESH[0] = False


def built() -> None:
    """Something large has been made that will stay."""
    _FRESH[0] = True


def let_go(monitor: Monitor) -> None:
    """A monitor is to go, now: its watches, families and streams know each other, and are made to know nothing."""
    for watch in monitor.watches.values():
        watch.__dict__.clear()
    for stream in (*monitor.streams.values(), *monitor.joints.values()):
        for group in stream.groups:
            group.__dict__.clear()
        stream.__dict__.clear()
    monitor.__dict__.clear()


def forgotten() -> None:
    """Something large is to go: the next collection takes it."""
    gc.unfreeze()
    _FRESH[0] = True
