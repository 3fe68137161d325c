"""The real parts that some tests need: a browser, a broker, a database.

A laptop need not have them all, so there a test that lacks one is skipped, by the part's name and with the reason.
In CI (`CI=true`) they are all there, and a part that is missing fails the test at once: a skip would hide it behind a
green run.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest


def install(package: str) -> None:
    """Fetch a part where that can be done without asking anybody: as root, on Debian and its like."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    command = ["apt-get", "-o", "DPkg::Lock::Timeout=120", "install", "-y", "-q", package]
    if subprocess.run(command, check=False, capture_output=True).returncode:
        subprocess.run(["apt-get", "update", "-q"], check=False, capture_output=True)
        subprocess.run(command, check=False, capture_output=True)


def found(part: str, why: str | None) -> None:
    """Go on if the part is there (`why` is None); else skip, or fail in CI, with the reason why it isn't."""
    __tracebackhide__ = True
    if why is None:
        return
    words = f"{part}: {why}"
    if os.environ.get("CI", "").lower() in ("1", "true", "yes"):
        pytest.fail(f"{words} (CI: a missing part is a failure)", pytrace=False)
    pytest.skip(words)
