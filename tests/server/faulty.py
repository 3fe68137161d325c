"""The command line on a machine whose disk fails and whose clock steps back, when a file (FAULT) says so.

flush       flushes fail
read-only   nothing can be written any more
clock       the clock is an hour slow
"""

from __future__ import annotations

import errno
import os
import runpy
import time
from pathlib import Path
from typing import Any

from skyband.durable.files import Files

FAULT = Path(os.environ["FAULT"])


def breaks(name: str, fault: str, number: int) -> None:
    """Let a method of the disk fail while the file names this fault."""
    works = getattr(Files, name)

    def method(self: Files, *given: Any) -> Any:
        if FAULT.read_text() == fault:
            raise OSError(number, os.strerror(number))
        return works(self, *given)

    setattr(Files, name, method)


def main() -> None:
    breaks("sync", "flush", errno.EIO)
    for name in ("create", "write", "cut", "rename", "remove"):
        breaks(name, "read-only", errno.EROFS)
    right = time.time
    time.time = lambda: right() - 3600 * (FAULT.read_text() == "clock")
    runpy.run_module("skyband", run_name="__main__")


if __name__ == "__main__":
    main()
