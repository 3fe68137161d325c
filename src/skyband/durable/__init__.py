"""A monitor that loses nothing: a journal of its steps, snapshots now and then, and one engine that writes both.

A *step* is a pushed batch, an advance of time, or a query that comes, changes or goes. Steps are numbered from 1; the
number is the step's *offset*. Each is written to the journal before the monitor takes it, and its caller is
answered only when it is on the disk. A snapshot is what `Monitor.save` writes; the state is always the newest
snapshot and the steps since. So after a stop at any moment the folder holds all that was acknowledged, each step once,
and the same answers, seqs, offsets and changes come out of it again.

    engine = Engine(sb.Monitor(time="ts"), "folder")       # or None instead of a folder: the same, in memory only
    receipt = engine.push(batch, stream="flows", key="a client's own name for this batch")
    future = engine.submit(batch)                           # the same for many callers: one flush for all
    with engine.reading():                                  # between two steps, never in the middle of one
        engine.monitor.watches["talkers"].top()
    engine.changes_since(receipt.offset)                    # what came after, while it is remembered
    engine.close()

In reading order: `engine` takes steps (each a `task`), `keeper` keeps them for it; `folder` has the snapshots,
`journal` the segments, `segment` and `codec` say how a step looks on disk, `replay` makes steps of it again; `keys` and
`history` remember callers' keys and recent changes, `settings` the monitor's options; `turnstile` is the lock; only
`files` touches the disk.
"""

from skyband.durable.engine import Engine
from skyband.durable.files import Files
from skyband.durable.history import Forgotten, Step
from skyband.durable.keys import KeyReused
from skyband.durable.settings import Settings
from skyband.durable.task import Receipt

__all__ = ["Engine", "Files", "Forgotten", "KeyReused", "Receipt", "Settings", "Step"]
