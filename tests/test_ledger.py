"""The ledger of kills."""

from __future__ import annotations

import csv
from pathlib import Path

from tests import ledger


def test_kills_of_tests_that_passed_are_summed(tmp_path: Path) -> None:
    file = tmp_path / "kills.csv"
    assert ledger.total(file) == 0
    before = ledger.take()
    for _ in range(3):
        ledger.count()
    assert (ledger.take(), ledger.take()) == (3, 0)
    for _ in range(before):  # those of this run are not lost
        ledger.count()
    assert ledger.write("tests/a.py::test_a", 7, 16, "passed", file) == 16
    assert ledger.write("tests/a.py::test_b[x, 2]", 7, 2, "failed", file) == 16
    assert ledger.write("tests/a.py::test_b[x, 2]", "", 4, "passed", file) == 20 == ledger.total(file)
    rows = [*csv.DictReader(file.read_text().splitlines())]
    assert tuple(rows[0]) == ledger.COLUMNS
    assert [row["sum"] for row in rows] == ["16", "16", "20"]
    assert rows[1]["test"] == "tests/a.py::test_b[x, 2]"


def test_the_ledger_adds_up() -> None:
    if not ledger.LEDGER.exists():
        return
    rows = [*csv.DictReader(ledger.LEDGER.read_text().splitlines())]
    reached = 0
    for row in rows:
        reached += int(row["kills"]) if row["result"] == "passed" else 0
        assert int(row["sum"]) == reached
