"""A standalone cluster from the PySpark wheel: a master and some workers, each a process of its own.

For tests and measurements on one machine. The wheel has no scripts to start them with, but it has their classes. Their
numbers are printed, so that a test's output shows which process was killed. Only processes that were started here are
ever ended. The system reports what processor time they have used.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

import skyband
from skyband.core.errors import InputError
from skyband.spark.session.java import find_java

SOURCE = Path(skyband.__file__).resolve().parents[1]
TIMEOUT = 120.0


class Cluster:
    """Use it as a context: the processes are gone at its end."""

    def __init__(self, folder: Path, workers: int = 2, cores: int = 1, python: Path | None = None) -> None:
        """With a Python that is named, the workers' machines have that one, and no skyband."""
        self._folder = folder
        self._python = python
        self._count, self._cores = workers, cores
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    @property
    def workers(self) -> list[int]:
        return [process.pid for process in self._processes[1:]]

    def __enter__(self) -> Cluster:
        port = _free_port()
        self.url = f"spark://127.0.0.1:{port}"
        try:
            options = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
            self._start("master", "org.apache.spark.deploy.master.Master", *options)
            self._wait("master", "I have been elected leader")
            for number in range(self._count):
                sizes = ["--cores", str(self._cores), "--memory", "1g"]
                name = f"worker-{number}"
                options = ["--host", "127.0.0.1", "--webui-port", "0", *sizes, self.url]
                self._start(name, "org.apache.spark.deploy.worker.Worker", *options)
            for number in range(self._count):
                self._wait(f"worker-{number}", "Successfully registered with master")
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._processes):
            for pid in [*_children(process.pid), process.pid]:
                _end(pid)
            process.wait()

    def _start(self, name: str, *command: str) -> None:
        import pyspark

        home = Path(pyspark.__file__).parent
        paths = [str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {
            **os.environ,
            "JAVA_HOME": str(find_java()),
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(self._folder / "work"),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "SPARK_DAEMON_MEMORY": "256m",
            "PYTHONPATH": os.pathsep.join(paths) if self._python is None else "",
            "PYSPARK_PYTHON": str(self._python or sys.executable),
        }
        self._folder.mkdir(parents=True, exist_ok=True)
        with open(self._folder / f"{name}.log", "wb") as log:
            process = subprocess.Popen(
                [str(home / "bin" / "spark-class"), *command],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._processes.append(process)
        print(f"{name}: process {process.pid}", file=sys.stderr, flush=True)

    def _wait(self, name: str, text: str) -> None:
        log = self._folder / f"{name}.log"
        end = time.monotonic() + TIMEOUT
        while text not in log.read_text(errors="replace"):
            if time.monotonic() > end:
                raise InputError(f"{name} does not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.1)

    def executors(self) -> list[int]:
        """The executors' processes."""
        found = []
        for worker in self.workers:
            for pid in _children(worker):
                if b"CoarseGrainedExecutorBackend" in _command(pid) and b"java" in _command(pid):
                    found.append(pid)
        return found

    def kill_executor(self) -> int:
        """Kill one executor, with SIGKILL."""
        pid = self.executors()[0]
        print(f"kill -9 of executor {pid}", file=sys.stderr, flush=True)
        os.kill(pid, signal.SIGKILL)
        return pid


@dataclass(frozen=True)
class Used:
    """What a process has used of the processors so far, in seconds; `ended`: what children had that it waited for."""

    own: float
    ended: float
    parent: int


def processor_times(pid: int) -> dict[int, Used]:
    """What a process and all that are below it have used, each by itself."""
    found = {}
    for one in [pid, *_children(pid)]:
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        user, system, of_user, of_system = (int(ticks) / os.sysconf("SC_CLK_TCK") for ticks in fields[11:15])
        found[one] = Used(user + system, of_user + of_system, int(fields[1]))
    return found


def seconds_between(before: Mapping[int, Used], after: Mapping[int, Used]) -> float:
    """Return the processor time used between two moments. A process that ended in between is missing in `after`: Spark
    ends Python workers that were idle for a minute and doesn't wait for them. If its parent waited for it, the parent's
    `ended` has all that it ever used."""
    total = 0.0
    for pid, now in after.items():
        then = before.get(pid, Used(0.0, 0.0, 0))
        gone = sum(
            old.own + old.ended for one, old in before.items() if old.parent == pid and one not in after
        )
        total += now.own - then.own + max(0.0, now.ended - then.ended - gone)
    return total


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _children(pid: int) -> list[int]:
    """All processes below one, deepest last."""
    found = []
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    for child in text.split():
        found += [int(child), *_children(int(child))]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        if task.parent.name != str(pid):
            try:
                for child in task.read_text().split():
                    found += [int(child), *_children(int(child))]
            except OSError:
                continue
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def _end(pid: int) -> None:
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        return
