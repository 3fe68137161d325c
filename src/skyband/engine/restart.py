"""A stream begins again: its rows go, its watches and its schema stay.

A joined watch over it begins again in all of its streams. Time goes on where other streams or an advance hold it; where
they don't, all streams with a time column begin again together, for a clock that went back would call rows late that
are not.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from skyband.core.exchange import Changes
from skyband.engine.protocol import Family, Host
from skyband.engine.stream_runtime import Stream


def restart(monitor: Host, target: Stream) -> list[tuple[Family, Changes]]:
    """Let a stream begin again, and those that have to with it; all their answers leave."""
    again = [target]
    if target.time is not None and _held_until(monitor, target) is None:
        again = [stream for stream in monitor.streams.values() if stream is target or stream.time is not None]
        monitor._now = monitor._advanced = monitor._pending = None
    names = {stream.name for stream in again}
    again += [joint for joint in monitor.joints.values() if names & {*joint.members}]
    left = [piece for stream in again for piece in _leaves(stream.groups)]
    for stream in again:
        stream.restart()
    return left


def _held_until(monitor: Host, target: Stream) -> int | None:
    """Return the present time, if other streams' rows or an advance hold it once a stream's rows have gone.

    An advance alone holds nothing: where no other stream has times, time begins again.
    """
    others = [stream.latest for stream in monitor.streams.values() if stream is not target]
    known = [latest for latest in others if latest is not None]
    if not known or monitor._now is None:
        return None
    held = max(known if monitor._advanced is None else [*known, monitor._advanced])
    return monitor._now if held >= monitor._now else None


def _leaves(groups: Iterable[Family]) -> Iterable[tuple[Family, Changes]]:
    for group in groups:
        found = [group.reported(watch) for watch in group.watches]
        sizes = [len(answer.good) for answer in found]
        if not sum(sizes):
            continue
        paired, named = found[0].seq_b is not None, found[0].id is not None
        yield (
            group,
            Changes(
                watch=np.repeat(np.arange(len(found)), sizes),
                rank=np.zeros(sum(sizes), dtype=np.int64),
                good=np.concatenate([answer.good for answer in found]),
                time=np.concatenate([answer.time for answer in found]),
                seq=np.concatenate([answer.seq for answer in found]),
                seq_b=np.concatenate([answer.seq_b for answer in found if answer.seq_b is not None])
                if paired
                else None,
                id=[name for answer in found for name in answer.id or ()] if named else None,
            ),
        )
