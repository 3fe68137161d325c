"""What the server writes to standard error: each sentence once, and then once a minute how often it was repeated.

What happens to one connection may happen to thousands a second, and everyone who reaches the address can cause it. So
the log must not grow with what comes from outside. Two records are of one kind if they have the same logger and the
same text but for its numbers, and the same place of the exception, if they have one.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TextIO

EVERY = 60.0  # seconds
MOST = 500  # kinds at a time; all further ones are one
_NUMBER = re.compile(r"\d+")


@dataclass
class _Kind:
    since: float
    last: logging.LogRecord
    repeated: int = 0


class OnceAMinute(logging.StreamHandler[TextIO]):
    """A handler that writes the first record of each kind, and counts the others."""

    def __init__(self, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._kinds: dict[tuple[object, ...], _Kind] = {}

    def emit(self, record: logging.LogRecord) -> None:
        key = _kind_of(record)
        if key not in self._kinds and len(self._kinds) >= MOST:
            key = ()
        known = self._kinds.get(key)
        times: int = getattr(record, "times", 1)  # a record may stand for several
        if known is not None:
            known.last, known.repeated = record, known.repeated + times
            return
        self._kinds[key] = _Kind(self._clock(), record, times - 1)
        super().emit(record)

    def report(self, everything: bool = False) -> None:
        """Write how often records were repeated whose minute is over (or of all kinds), and begin their next minute."""
        self.acquire()
        try:
            now = self._clock()
            for key, kind in list(self._kinds.items()):
                if now - kind.since < EVERY and not everything:
                    continue
                if kind.repeated:
                    super().emit(_counted(kind, now))
                    self._kinds[key] = _Kind(now, kind.last)
                else:
                    del self._kinds[key]
        finally:
            self.release()


def _kind_of(record: logging.LogRecord) -> tuple[object, ...]:
    text = _NUMBER.sub("0", record.getMessage())[:200]
    error = record.exc_info[1] if record.exc_info else None
    place = None
    if error is not None and error.__traceback__ is not None:
        last = error.__traceback__
        while last.tb_next is not None:
            last = last.tb_next
        place = last.tb_frame.f_code.co_filename, last.tb_lineno
    return record.name, text, type(error), place


def _counted(kind: _Kind, now: float) -> logging.LogRecord:
    last = kind.last
    text = f"{last.getMessage()} (and {kind.repeated:,} more in the last {now - kind.since:.0f} s)"
    return logging.LogRecord(last.name, last.levelno, last.pathname, last.lineno, text, None, None)
