"""Servers in processes of their own on machines that fail: flushes, a disk that turns read-only, a clock that steps."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from skyband.server.testing import Running

from .conftest import SRC
from .test_http import problem, push

SQL = "SELECT id FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 ROWS"
Start = Callable[[], tuple[Running, httpx.Client]]


@pytest.fixture
def fault(tmp_path: Path) -> Path:
    """The file that says what fails."""
    path = tmp_path / "fault"
    path.write_text("")
    return path


@pytest.fixture
def begin(tmp_path: Path, fault: Path) -> Iterator[Start]:
    servers: list[Running] = []

    def start() -> tuple[Running, httpx.Client]:
        program = [str(Path(__file__).with_name("faulty.py"))]
        environment = {"FAULT": str(fault), "PYTHONPATH": SRC, "NUMBA_DISABLE_JIT": "1"}
        arguments = ["--port", "0", "--data", str(tmp_path / "data"), "--time", "ts"]
        servers.append(Running(arguments, {**os.environ, **environment}, program=program))
        return servers[-1], httpx.Client(base_url=servers[-1].url, timeout=60)

    yield start
    for server in servers:
        server.kill()


@pytest.mark.parametrize("name", ["flush", "read-only"])
def test_a_disk_that_fails(name: str, begin: Start, fault: Path) -> None:
    server, http = begin()
    assert push(http, "s", [{"ts": 1, "id": "a", "x": 1.0}]).status_code == 200
    assert http.post("/api/queries", json={"name": "best", "sql": SQL}).status_code == 201
    assert push(http, "s", [{"ts": 2, "id": "b", "x": 2.0}]).status_code == 200
    before = http.get("/api/queries/best/top").json()
    fault.write_text(name)
    row, once = [{"ts": 3, "id": "c", "x": 3.0}], {"idempotency-key": "c"}
    for _ in range(3):
        problem(push(http, "s", row, **once), 503, "journal")
        said = problem(http.get("/ready"), 503, "not_ready")
        assert "can't be written" in said
        assert http.get("/health").json()["status"] == "ok"
    assert http.get("/api/queries/best/top").json() == before, "reads go on, and nothing was taken"
    fault.write_text("")
    until = time.monotonic() + 30
    while http.get("/ready").status_code != 200 and time.monotonic() < until:
        time.sleep(0.05)
    taken = push(http, "s", row, **once)
    assert taken.status_code == 200 and not taken.json()["repeated"], taken.text
    server.kill()
    server, http = begin()
    assert [each["id"] for each in http.get("/api/queries/best/top").json()["rows"]] == ["c", "b"]
    assert push(http, "s", row, **once).json()["repeated"]
    assert server.stop() == 0 and "Traceback" not in server.said()


def test_a_clock_that_steps_back(begin: Start, fault: Path) -> None:
    server, http = begin()
    http.post("/api/queries", json={"name": "best", "sql": SQL})
    assert push(http, "s", [{"ts": time.time(), "id": "a", "x": 1.0}]).json()["changes"] == 1
    fault.write_text("clock")
    assert push(http, "s", [{"ts": time.time(), "id": "b", "x": 2.0}]).json()["changes"] == 1
    stats = http.get("/api/stats").json()
    assert 0 <= stats["seconds"] < 600 and stats["rows_per_second"] >= 0 and stats["latency_ms"]["p99"] >= 0
    (stream,) = http.get("/api/streams").json()["streams"]
    assert stream["behind"] == pytest.approx(-3600, abs=60) and stream["last_minute"]["accepted"] == 2
    assert http.get("/ready").status_code == 200 and http.get("/metrics").status_code == 200
    assert server.stop() == 0 and "Traceback" not in server.said()
