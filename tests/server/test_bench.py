"""`skyband bench serve` at the smallest scale: it prints what it measures. Nothing is timed here."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from skyband.bench import Settings, serve

PARTS = ("arrow", "latency", "readers")


@pytest.mark.parametrize("parts", [PARTS, pytest.param(tuple(serve.PARTS), marks=pytest.mark.soak)], ids=len)
def test_the_parts(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    parts: tuple[str, ...],
) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["src", os.environ.get("PYTHONPATH", "")]))
    serve.main(Settings("tiny", parts, tmp_path))
    told = json.loads((tmp_path / "serve.json").read_text())
    assert {figure["part"] for figure in told["figures"]} == set(parts)
    assert all(figure["value"] >= 0 for figure in told["figures"])
    printed = capsys.readouterr().out
    assert "tiny" in printed and printed.count("\n") == len(told["figures"]) + 2
