"""/ready says whether rows can be pushed, /health that the process lives."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect as open_socket

import skyband as sb
from skyband.durable import Engine, Files
from skyband.server.testing import Running

from .test_http import problem, push

SQL = "SELECT id FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 ROWS"


def test_ready(http: httpx.Client) -> None:
    assert http.get("/ready").json()["status"] == "ready"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system can't limit another process")
def test_a_full_disk(starting: Callable[..., Running], tmp_path: Path) -> None:
    server = starting(data=tmp_path / "data")
    limit = resource.RLIMIT_FSIZE
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert push(http, "s", [{"id": "a", "x": 1.0}]).status_code == 200
        soft, hard = resource.prlimit(server.process.pid, limit)
        assert http.get("/ready").status_code == 200
        resource.prlimit(server.process.pid, limit, (0, hard))
        problem(push(http, "s", [{"id": "d", "x": 9.0}]), 507, "disk_full")
        for _ in range(3):
            said = http.get("/ready")
            assert "no room left" in problem(said, 503, "not_ready") and said.headers["retry-after"]
            assert http.get("/health").json()["status"] == "ok"
        resource.prlimit(server.process.pid, limit, (soft, hard))
        until = time.monotonic() + 30
        while http.get("/ready").status_code != 200 and time.monotonic() < until:
            time.sleep(0.1)
        assert http.get("/ready").status_code == 200, "it sees by itself that there is room again"
        assert push(http, "s", [{"id": "d", "x": 9.0}]).status_code == 200
    assert {path.suffix for path in (tmp_path / "data").iterdir()} == {"", ".journal", ".snapshot"}


class Failing(Files):
    """A disk whose flushes fail, or that has become read-only."""

    wrong: int | None = None

    def sync(self, file: object) -> None:
        self._fail(errno.EIO)
        super().sync(file)  # type: ignore[arg-type]

    def create(self, path: Path) -> object:  # type: ignore[override]
        self._fail(errno.EROFS)
        return super().create(path)

    def _fail(self, number: int) -> None:
        if self.wrong == number:
            raise OSError(number, errno.errorcode[number])


def test_a_flush_that_fails_and_a_disk_that_can_only_be_read(tmp_path: Path) -> None:
    files = Failing()
    engine = Engine(sb.Monitor(), tmp_path / "journal", files=files)
    assert engine.unready() is None
    for files.wrong in (errno.EIO, errno.EROFS):
        with pytest.raises(sb.JournalError):
            engine.push({"x": [1.0]})
        assert "can't be written" in str(engine.unready())
    files.wrong = None
    assert engine.unready() is None and engine.push({"x": [1.0]}).first_seq == 0
    engine.close()
    assert "closed" in str(engine.unready())


def test_while_the_journal_is_read_and_while_the_server_ends(
    starting: Callable[..., Running], tmp_path: Path
) -> None:
    """The snapshot is a pipe at first, so that the reading takes as long as the test wants."""
    folder = tmp_path / "data"
    server = starting(data=folder)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/api/queries", json={"name": "best", "sql": SQL}).status_code == 201
        assert push(http, "s", [{"id": "a", "x": 1.0}]).status_code == 200
    assert server.stop() == 0
    snapshot = max(folder.glob("*.snapshot"))
    content = snapshot.read_bytes()
    snapshot.unlink()
    os.mkfifo(snapshot, 0o600)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    begun: list[Running] = []
    beginning = threading.Thread(target=lambda: begun.append(starting(data=folder, port=port)))
    beginning.start()
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as http:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            try:
                told = http.get("/ready")
                break
            except httpx.TransportError:
                time.sleep(0.05)
        assert "reading its journal" in problem(told, 503, "not_ready")
        assert http.get("/health").json()["status"] == "ok" and http.get("/docs").status_code == 200
        problem(push(http, "s", [{"id": "z", "x": 0.0}]), 503, "not_ready")
        problem(http.get("/api/queries"), 503, "not_ready")
        with pytest.raises(InvalidStatus) as refused:
            open_socket(f"ws://127.0.0.1:{port}/api/changes")
        assert refused.value.response.status_code == 503
        snapshot.write_bytes(content)
        beginning.join(60)
        assert http.get("/ready").json()["status"] == "ready"
        assert [row["id"] for row in http.get("/api/queries/best/top").json()["rows"]] == ["a"]
        begun[0].process.send_signal(signal.SIGTERM)
        with contextlib.suppress(httpx.TransportError):
            while True:
                assert http.get("/health").status_code == 200
                told = http.get("/ready")
                assert told.status_code == 200 or "shutting down" in problem(told, 503, "not_ready")
    assert begun[0].process.wait(60) == 0 and "Traceback" not in begun[0].said()


def test_a_signal_while_the_journal_is_read(starting: Callable[..., Running], tmp_path: Path) -> None:
    server = starting(data=tmp_path / "data")
    assert server.stop() == 0
    snapshot = max((tmp_path / "data").glob("*.snapshot"))
    snapshot.unlink()
    os.mkfifo(snapshot, 0o600)
    arguments = ["serve", "--port", "0", "--data", str(tmp_path / "data")]
    process = subprocess.Popen(
        [sys.executable, "-m", "skyband", *arguments], stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    assert "the journal is read" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert "Traceback" not in process.stderr.read()
    process.stderr.close()
