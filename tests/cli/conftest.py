"""Real processes: each test runs `python -m skyband` as a user would."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

SRC = str(Path(__file__).resolve().parents[2] / "src")


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str


def environment(**changes: str) -> dict[str, str]:
    """The test's own environment. Kernels run as plain Python unless a test is about compiling: quicker.

    Test workers have LINES and COLUMNS set, which would overrule the size of a terminal.
    """
    foreign = ("NO_COLOR", "FORCE_COLOR", "LINES", "COLUMNS")
    inherited = {name: value for name, value in os.environ.items() if name not in foreign}
    paths = os.pathsep.join([SRC, *filter(None, [os.environ.get("PYTHONPATH")])])
    return inherited | {"PYTHONPATH": paths, "NUMBA_DISABLE_JIT": "1", "TERM": "xterm-256color"} | changes


@pytest.fixture
def skyband(tmp_path: Path) -> Callable[..., Outcome]:
    """Run the command in an empty folder; `feed` goes to its standard input."""

    def run(*arguments: object, feed: bytes = b"", seconds: float = 280, **changes: str) -> Outcome:
        done = subprocess.run(
            [sys.executable, "-m", "skyband", *map(str, arguments)],
            input=feed,
            capture_output=True,
            cwd=tmp_path,
            env=environment(**changes),
            timeout=seconds,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def cars(tmp_path: Path) -> Path:
    path = tmp_path / "cars.csv"
    path.write_text(
        "ts,id,speed\n"
        "2024-05-01T10:00:00Z,a,50\n"
        "2024-05-01T10:00:10Z,b,70\n"
        "2024-05-01T10:00:20Z,c,60\n"
        "2024-05-01T10:00:30Z,d,40\n"
        "2024-05-01T10:00:40Z,e,65\n"
    )
    return path
