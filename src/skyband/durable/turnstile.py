"""A lock that is fair to waiting threads.

Python's own lock goes to the thread that asks first after it is free, which is mostly the thread that just gave it
back: an engine with a hundred steps to take would keep readers waiting for all of them. Here all queue at a gate
first, so that a reader that waits gets in after the step under way. The same thread may come in again.
"""

from __future__ import annotations

import threading


class Turnstile:
    """One thread at a time; a waiting thread comes before the one that has just left."""

    def __init__(self) -> None:
        self._gate = threading.Lock()
        self._inside = threading.Lock()
        self._owner: int | None = None
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner != me:
            with self._gate:
                self._inside.acquire()
            self._owner = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = None
            self._inside.release()
