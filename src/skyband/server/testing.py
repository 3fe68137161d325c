"""A server of one's own, in a process of its own: for tests, benchmarks and pages that show how it is used."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from skyband.core.errors import SkybandError


class Running:
    """A server that was started here."""

    def __init__(
        self,
        arguments: list[str],
        environment: dict[str, str] | None = None,
        files: int | None = None,
        program: Sequence[str] = ("-m", "skyband"),
    ) -> None:
        self.arguments = arguments
        self.errors: list[str] = []
        self.used = 0.0  # seconds of CPU, for benchmarks
        limited = [] if files is None else ["sh", "-c", 'ulimit -n "$0" && exec "$@"', str(files)]
        self.process = subprocess.Popen(
            [*limited, sys.executable, *program, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait(30)
            raise SkybandError(f"The server didn't start: {self.said()}")

    def _hear(self) -> None:
        assert self.process.stderr is not None
        self.errors.extend(self.process.stderr)

    def said(self) -> str:
        """Return what it had to say on standard error: all of it, once it has ended."""
        if self.process.poll() is not None:  # its last words may be on their way still
            self._hearing.join(10)
        return "".join(self.errors).strip()

    def cpu(self) -> float:
        """Seconds of CPU that it has used so far; 0 where the system doesn't say."""
        try:
            words = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            return 0.0
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        """End it at once, as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self, seconds: float = 30.0) -> int:
        """End it in order; its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def running(
    data: str | os.PathLike[str] | None = None,
    pipeline: str | os.PathLike[str] | None = None,
    files: int | None = None,
    **options: Any,
) -> Running:
    """Start a server on a free port, as `skyband serve` does; without `data` in a new folder.

    `files`: how many files it may have open.
    """
    folder = Path(tempfile.mkdtemp(prefix="skyband-")) / "data" if data is None else Path(data)
    given = {"port": 0, "data": str(folder), **options}
    arguments = [] if pipeline is None else [str(pipeline)]
    for name, value in given.items():
        if value is not None and value is not False:
            arguments += [f"--{name.replace('_', '-')}"] + ([] if value is True else [str(value)])
    return Running(arguments, files=files)
