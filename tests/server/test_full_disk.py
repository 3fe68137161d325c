"""A disk that is full, to a real server: the system's own limit on the size of a file stands for it."""

from __future__ import annotations

import resource
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from skyband.server.testing import Running

from .test_http import problem, push

SQL = "SELECT id FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 ROWS"


@pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="the system can't limit another process")
def test_pushes_are_refused_reads_go_on_and_it_recovers(
    starting: Callable[..., Running], tmp_path: Path
) -> None:
    server = starting(data=tmp_path / "data")
    limit = resource.RLIMIT_FSIZE
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert push(http, "s", [{"id": "a", "x": 1.0}, {"id": "b", "x": 2.0}]).status_code == 200
        assert http.post("/api/queries", json={"name": "best", "sql": SQL}).status_code == 201
        assert push(http, "s", [{"id": "c", "x": 3.0}]).json()["first_seq"] == 2
        before = http.get("/api/queries/best/top").json()
        soft, hard = resource.prlimit(server.process.pid, limit)
        resource.prlimit(server.process.pid, limit, (0, hard))
        for _ in range(3):
            words = problem(
                push(http, "s", [{"id": "d", "x": 9.0}], **{"idempotency-key": "d"}), 507, "disk_full"
            )
            assert "no room left" in words and "nothing of this step was taken" in words
        assert http.get("/api/queries/best/top").json() == before
        assert http.get("/health").status_code == 200
        resource.prlimit(server.process.pid, limit, (soft, hard))
        taken = push(http, "s", [{"id": "d", "x": 9.0}], **{"idempotency-key": "d"}).json()
        assert (taken["first_seq"], taken["repeated"]) == (3, False), (
            "what was refused has left nothing behind"
        )
        assert [row["id"] for row in http.get("/api/queries/best/top").json()["rows"]] == ["d", "c"]
    server.kill()
    again = starting(data=tmp_path / "data")
    rows = httpx.get(f"{again.url}/api/queries/best/top", timeout=60).json()["rows"]
    assert [row["id"] for row in rows] == ["d", "c"]
