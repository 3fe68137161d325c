"""Real servers: each module has a process of its own, on a free port, and speaks to it as a client would."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from skyband.server.testing import Running, running

SRC = str(Path(__file__).resolve().parents[2] / "src")

# A server that has to compile its own modules first takes twice as long to start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def start(**options: Any) -> Running:
    """A server whose kernels run as plain Python: there at once, and quick enough for a few rows."""
    os.environ.setdefault("PYTHONPATH", SRC)
    before = os.environ.get("NUMBA_DISABLE_JIT")
    os.environ["NUMBA_DISABLE_JIT"] = "1"
    try:
        return running(**options)
    finally:
        if before is None:
            del os.environ["NUMBA_DISABLE_JIT"]
        else:
            os.environ["NUMBA_DISABLE_JIT"] = before


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    found = start(data=tmp_path_factory.mktemp("server") / "data")
    yield found
    assert found.stop() == 0
    assert "Traceback" not in found.said()


@pytest.fixture(scope="module")
def http(server: Running) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, timeout=60) as client:
        yield client


@pytest.fixture
def starting() -> Iterator[Callable[..., Running]]:
    """Start further servers; they are stopped at the test's end."""
    found: list[Running] = []

    def begin(**options: Any) -> Running:
        found.append(start(**options))
        return found[-1]

    yield begin
    for each in found:
        if each.process.poll() is None:
            each.stop()
