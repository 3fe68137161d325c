"""The ledger of kills: `make soak` writes into `kills.csv` what it killed, when, and how the test ended.

Each test that killed a process adds one line: the time, the test, the seed of its moments, how many processes it
killed, how it ended, and the sum of all kills so far of tests that passed. The sum goes on from run to run, so that a
thousand kills can be collected over many nights. A failed test's line stays and counts nothing.
"""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path

LEDGER = Path(__file__).with_name("kills.csv")
COLUMNS = ("when", "test", "seed", "kills", "result", "sum")
ENOUGH = 1000

_counted = {"kills": 0}


def count() -> None:
    """Count a process that a test has killed."""
    _counted["kills"] += 1


def take() -> int:
    """Return how many were killed since the last call."""
    kills, _counted["kills"] = _counted["kills"], 0
    return kills


def total(ledger: Path = LEDGER) -> int:
    """Return the sum of the kills of tests that passed."""
    if not ledger.exists():
        return 0
    with open(ledger, newline="") as file:
        return sum(int(row["kills"]) for row in csv.DictReader(file) if row["result"] == "passed")


def write(test: str, seed: int | str, kills: int, result: str, ledger: Path = LEDGER) -> int:
    """Add a test to the ledger; return the sum after it."""
    is_new = not ledger.exists()
    after = total(ledger) + (kills if result == "passed" else 0)
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with open(ledger, "a", newline="") as file:
        lines = csv.writer(file, lineterminator="\n")
        if is_new:
            lines.writerow(COLUMNS)
        lines.writerow([now, test, seed, kills, result, after])
    return after
