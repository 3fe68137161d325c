"""Running a pipeline as a process of its own, and killing it.

The whole process group gets SIGKILL: the Python driver and the JVM; the Python workers notice that the JVM is
gone. Moments are chosen from outside, by the files that appear, so nothing in the program knows of the test.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests import ledger

SOURCE = Path(__file__).resolve().parents[2] / "src"
TIMEOUT = 300.0


class Pipeline:
    """A pipeline's folder, and the process that runs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None
        self.said = ""

    def start(self, available_now: bool = True) -> None:
        command = [sys.executable, "-m", "skyband", "run", "pipeline.toml"]
        if available_now:
            command.append("--available-now")
        paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.process = subprocess.Popen(
            command,
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        print(f"pipeline: process {self.process.pid}, from batch {self.next_batch()}")

    def finish(self) -> tuple[int, str]:
        """Wait for the end; the exit code and what was said."""
        assert self.process is not None
        try:
            _, said = self.process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.kill()
            raise
        return self.process.returncode, said

    def kill(self) -> str:
        """Kill it; what it had said."""
        assert self.process is not None
        print(f"kill -9 of process {self.process.pid} and its group, {self.next_batch()} batches put out")
        with contextlib.suppress(ProcessLookupError):  # it has come to its end
            os.killpg(self.process.pid, signal.SIGKILL)
        ledger.count()
        self.said = self.process.communicate()[1]
        return self.said

    def interrupt(self) -> None:
        assert self.process is not None
        os.killpg(self.process.pid, signal.SIGINT)

    # -- where it is

    def has_output(self, batch: int) -> bool:
        return (self.folder / "out" / "changes" / f"batch-{batch}.parquet").exists()

    def has_plan(self, batch: int) -> bool:
        return (self.folder / "checkpoint" / "offsets" / str(batch)).exists()

    def has_step(self, batch: int) -> bool:
        return (self.folder / "checkpoint" / "skyband" / "steps" / f"{batch}.step").exists()

    def has_commit(self, batch: int) -> bool:
        return (self.folder / "checkpoint" / "commits" / str(batch)).exists()

    def next_batch(self) -> int:
        """The first batch without output."""
        batch = 0
        while self.has_output(batch):
            batch += 1
        return batch

    def kills_left_work(self, batches: int) -> bool:
        """Whether there is something left to do for the next start."""
        return self.next_batch() < batches

    def wait(self, ready: Callable[[], bool], pause: float = 0.001) -> bool:
        """Wait until something holds, or the process has ended."""
        assert self.process is not None
        end = time.monotonic() + TIMEOUT
        while not ready():
            if self.process.poll() is not None or time.monotonic() > end:
                return False
            time.sleep(pause)
        return True

    # -- moments to die at

    def kill_after_plan(self) -> bool:
        """Die when Spark has planned a batch and nothing of it has been done."""
        batch = self.next_batch() + 1
        seen = self.wait(lambda: self.has_plan(batch))
        self.kill()
        return seen and not self.has_step(batch)

    def kill_after_output(self) -> bool:
        """Die when a batch's output is there and Spark has not committed it; whether that came about."""
        batch = self.next_batch() + 1
        seen = self.wait(lambda: self.has_output(batch))
        self.kill()
        return seen and not self.has_commit(batch)

    def kill_after_step(self) -> bool:
        """Die when a batch is in our log and its output isn't there."""
        batch = self.next_batch() + 1
        seen = self.wait(lambda: self.has_step(batch))
        self.kill()
        return seen and not self.has_output(batch)

    def kill_some_time(self, chance: random.Random, span: float = 1.5) -> None:
        """Die at a random moment after the next batch."""
        batch = self.next_batch()
        self.wait(lambda: self.has_output(batch))
        time.sleep(chance.random() * span)
        self.kill()
