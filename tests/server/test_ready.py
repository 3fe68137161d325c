"""/ready says whether rows can be pushed, /health that the process lives."""

from __future__ import annotations

import errno
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

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


class Watching(threading.Thread):
    """Asks /health and /ready again and again, from before there is a server."""

    def __init__(self, port: int) -> None:
        super().__init__(daemon=True)
        self.port = port
        self.seen: list[tuple[int, int, str]] = []
        self.enough = threading.Event()

    def run(self) -> None:
        while not self.enough.is_set():
            try:
                with httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60) as http:
                    health, ready = http.get("/health"), http.get("/ready")
                    rows = push(http, "s", [{"id": "z", "x": 0.0}]) if ready.status_code == 503 else None
                    if rows is not None and rows.status_code == 503:
                        problem(rows, 503, "not_ready")
                    self.seen.append((health.status_code, ready.status_code, ready.text))
            except httpx.TransportError:
                pass
            time.sleep(0.02)


def test_a_journal_that_is_read_and_a_server_that_ends(
    starting: Callable[..., Running], tmp_path: Path
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    server = starting(data=tmp_path / "data", port=port)
    lines = "".join(f"{number},{number * 7919 % 10007}\n" for number in range(60_000))
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/api/queries", json={"name": "best", "sql": SQL}).status_code == 201
        assert push(http, "s", "id,x\n" + lines, "text/csv").status_code == 200
    server.kill()
    watching = Watching(port)
    watching.start()
    again = starting(data=tmp_path / "data", port=port)
    with httpx.Client(base_url=again.url, timeout=60) as http:
        assert http.get("/ready").status_code == 200
        rows = http.get("/api/queries/best/top").json()["rows"]
    begun, now = list(watching.seen), len(watching.seen)
    assert {health for health, _, _ in begun} == {200}
    assert any(ready == 503 and "reading its journal" in text for _, ready, text in begun)
    assert len(rows) == 2
    again.process.send_signal(signal.SIGTERM)
    assert again.process.wait(60) == 0
    watching.enough.set()
    watching.join(60)
    for health, ready, text in watching.seen[now:]:
        assert health == 200 and (ready == 200 or "shutting down" in text)
    assert "Traceback" not in again.said()
