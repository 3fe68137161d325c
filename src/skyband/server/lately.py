"""The last minute of each stream, and a sentence where most of its rows don't get in.

**Problem.** A rejected row is no error, so a client that sends a wrong type, or one row stamped years ahead that makes
all later ones late, goes on in silence, and totals since the beginning look as they always do.

**Idea.** What each step accepted and rejected is added up by stream, reason and second, and the last sixty seconds are
kept. Of each reason the latest rejected row is kept as an example.

**What it costs.** A look at the counters of all streams after each step.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from skyband.stream.rejects import Reject

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.stream.notices import Notice

SPAN = 60  # seconds
MOST_EXAMPLES = 100  # rejected rows of one step that are looked through for examples
MOST_NOTICES = 20  # of one stream
LONGEST_RAW = 300  # characters of an example's text
DATES = (631_152_000.0, 4_102_444_800.0)  # the years 1990 to 2100, in seconds since 1970
WHY = {
    "type": "a value is not of its column's type",
    "time": "its time is missing or can't be read",
    "late": "it is older than every window",
    "ahead": "it is stamped far ahead of the stream's time",
    "op": "its operation isn't known",
    "key": "it has no key",
    "overtaken": "a newer row of its key had come",
}
WAITING = "waiting"  # counted as the reasons are, but no reject
Count = Counter[tuple[str, str | None]]  # rows by stream and reason; None: accepted


class Lately:
    """Counts of the last minute. The caller holds the engine's lock."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds: deque[tuple[float, Count]] = deque()  # each with the moment of its first step
        self._accepted: dict[str, int] = {}  # by stream, at the last step
        self._rejected: dict[str, int] = {}  # by reason
        self._examples: dict[tuple[str, str], Reject] = {}
        self._noticed: dict[tuple[str, str, str | None], float] = {}  # when each notice came last

    def begin(self, monitor: Monitor) -> None:
        """Count what comes from now on."""
        self._accepted = {name: stream.accepted for name, stream in monitor.streams.items()}
        self._rejected = monitor.reject_counts

    def step(self, monitor: Monitor) -> None:
        """A step was taken."""
        count = self._count()
        for name, stream in monitor.streams.items():
            before = self._accepted.get(name, 0)
            if stream.accepted != before:
                self._accepted[name] = stream.accepted
                count[name, None] += stream.accepted - min(before, stream.accepted)
        self._note_notices(monitor.step_notices, count)
        rejected = monitor.reject_counts
        if rejected != self._rejected:
            self._note(monitor, rejected, count)

    def batch(
        self, accepted: Mapping[str, int], rejects: Iterable[Reject], notices: Iterable[Notice]
    ) -> None:
        """A pipeline's batch was taken: so many rows of each stream, these rejected."""
        count = self._count()
        for name, rows in accepted.items():
            count[name, None] += rows
        for reject in rejects:
            self._examples[reject.stream, reject.reason] = reject
            count[reject.stream, reject.reason] += 1
        self._note_notices(notices, count)

    def _count(self) -> Count:
        """The counts of this second."""
        now = self._clock()
        if not self._seconds or now - self._seconds[-1][0] >= 1.0:
            self._seconds.append((now, Counter()))
            self._forget(now)
        return self._seconds[-1][1]

    def _note_notices(self, notices: Iterable[Notice], count: Count) -> None:
        now = self._clock()
        for notice in notices:
            self._noticed[notice[:3]] = now
            if notice.notice == WAITING:
                count[notice.stream, WAITING] += notice.rows

    def _note(self, monitor: Monitor, rejected: dict[str, int], count: Count) -> None:
        """Count a step's rejected rows, which are all of one stream."""
        new = {reason: total - self._rejected.get(reason, 0) for reason, total in rejected.items()}
        self._rejected = rejected
        last = monitor.last_rejects(min(sum(new.values()), MOST_EXAMPLES))
        for reject in last:
            self._examples[reject.stream, reject.reason] = reject
        for reason, rows in new.items():
            if rows and last:
                count[last[-1].stream, reason] += rows

    def _forget(self, now: float) -> None:
        while self._seconds and self._seconds[0][0] <= now - SPAN:
            self._seconds.popleft()

    def of(self, stream: str) -> dict[str, Any]:
        """Return a stream's last minute: the rows that were accepted, those that were rejected, by reason with an
        example."""
        self._forget(self._clock())
        found: Counter[str | None] = Counter()
        for _, count in self._seconds:
            for (name, reason), rows in count.items():
                if name == stream:
                    found[reason] += rows
        accepted, waiting = found.pop(None, 0), found.pop(WAITING, 0)
        rejects = [
            {"reason": reason, "rows": rows, **self._example(stream, str(reason))}
            for reason, rows in found.most_common()
        ]
        return {
            "accepted": accepted, "rejected": sum(found.values()), "waiting": waiting, "rejects": rejects,
        }  # fmt: skip

    def notices(self, stream: str, all_of_them: Iterable[Notice]) -> list[dict[str, Any]]:
        """Return a stream's notices, the latest first, each with the seconds since it came last; None: before the
        start."""
        now = self._clock()
        found = []
        for notice in all_of_them:
            if notice.stream == stream:
                at = self._noticed.get(notice[:3])
                seconds = None if at is None else round(now - at, 1)
                found.append({**notice._asdict(), "seconds": seconds})
        found.sort(key=lambda each: (each["seconds"] is None, each["seconds"], -(each["last_seq"] or 0)))
        return found[:MOST_NOTICES]

    def _example(self, stream: str, reason: str) -> dict[str, Any]:
        reject = self._examples.get((stream, reason))
        if reject is None:
            return {"seq": None, "detail": "", "raw": ""}
        return {"seq": reject.seq, "detail": reject.detail, "raw": reject.raw[:LONGEST_RAW]}


def warning_of(lately: dict[str, Any]) -> str | None:
    """Return a sentence if most rows of a stream's last minute don't get in."""
    rejected, waiting = lately["rejected"], lately["waiting"]
    total = lately["accepted"] + rejected + waiting
    if rejected + waiting <= lately["accepted"]:
        return None
    few = waiting if waiting > rejected else rejected
    rows = "The only row" if total == 1 else f"{few:,} of {total:,} rows"
    if waiting > rejected:
        return (
            f"{rows} of the last minute {'waits' if few == 1 else 'wait'}, stamped far ahead of the stream's time: if "
            "the times are right, push on; after three steps of such rows time starts again there."
        )
    most = lately["rejects"][0]
    why = WHY.get(most["reason"], most["detail"])
    verb = "was" if rejected == 1 else "were"
    of_those = "" if len(lately["rejects"]) == 1 else f" for {most['rows']:,}"
    return f"{rows} of the last minute {verb} rejected, the reason{of_those} is {most['reason']}: {why}."


def seconds_behind(latest: float | None) -> float | None:
    """Return how far a time is behind the clock; None if it is no date of the years 1990 to 2100."""
    if latest is None or not DATES[0] <= latest <= DATES[1]:
        return None
    return round(time.time() - latest, 3)
