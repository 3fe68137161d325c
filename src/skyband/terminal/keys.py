"""Single keys from the terminal, without waiting for Return."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def pressed() -> Iterator[Callable[[], str]]:
    """While this lasts, the function given says which keys were pressed since it was last called."""
    try:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, termios.error):
        yield lambda: ""  # no terminal to read from: Ctrl-C still works
        return

    def keys() -> str:
        if not select.select([descriptor], [], [], 0)[0]:
            return ""
        return os.read(descriptor, 64).decode("utf-8", "replace")

    try:
        # Keys come one by one and aren't shown; Ctrl-C keeps its meaning.
        tty.setcbreak(descriptor)
        yield keys
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
