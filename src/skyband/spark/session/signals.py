"""Ctrl-C and a request to end: the batch under way is finished first."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Iterator
from types import FrameType
from typing import Any


class Signals:
    """SIGINT and SIGTERM ask for a stop; a second one insists.

    The handler runs in the main thread wherever that is, so it takes no lock: setting an event that the same thread is
    just beginning to wait for would never end.
    """

    def __init__(self, event: threading.Event | None = None) -> None:
        self._event = event or threading.Event()  # how another thread asks
        self._signalled = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Signals:
        self.install()
        return self

    def asked(self) -> bool:
        return self._signalled or self._event.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether a stop was asked for, now or after so many seconds."""
        if not self.asked():
            time.sleep(seconds)
        return self.asked()

    def install(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGINT, signal.SIGTERM):
            before = signal.signal(number, self._handle)
            self._before.setdefault(number, before)

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.asked():
            raise KeyboardInterrupt
        self._signalled = True
        # Straight to the file: a signal may come while the same thread is inside print.
        with contextlib.suppress(OSError):
            os.write(2, b"skyband: stopping after this batch; the next start continues from there\n")


@contextlib.contextmanager
def signals_ignored() -> Iterator[None]:
    """Let the session end in peace: a second Ctrl-C must not leave a JVM behind."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
