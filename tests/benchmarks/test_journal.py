"""`python -m benchmarks journal`, small."""

from __future__ import annotations

import re

import pytest

from benchmarks.serve import journal


def test_journal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for name, value in {"QUERIES": 2, "WINDOW": 50, "BATCH": 20, "BATCHES": 12, "WARM": 2}.items():
        monkeypatch.setattr(journal, name, value)
    journal.main()
    said = capsys.readouterr().out
    assert len(re.findall(r"M rows/s", said)) == 4
    assert re.search(r"opened again as after a kill +[\d.]+ s\n  a snapshot of [\d.]+ MB holds up", said)
