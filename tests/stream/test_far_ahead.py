"""Times that are far ahead: advances that need force."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import skyband as sb

SQL = "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 1 MINUTE"


def test_an_advance_far_ahead_needs_force() -> None:
    m = sb.Monitor(time="ts", max_ahead="1 hour")
    m.watch(SQL)
    m.advance(100.0)
    for beyond in (100.0 + 3601, 1e308, dt.datetime(2024, 1, 1)):
        with pytest.raises(sb.SkybandError, match=r"more than 1 HOURS? ahead of 100.0.*give force if"):
            m.advance(beyond)
    assert m.now == 100.0
    m.push({"ts": [100.0], "x": [1.0]})
    with pytest.raises(sb.SkybandError, match="give force if it is right"):
        m.advance(100.0 + 3601)
    m.advance(100.0 + 3600)
    assert m.now == 3700.0
    m.advance(1e6, force=True)
    assert m.now == 1e6
    sb.Monitor(time="ts").advance(1e300)


@pytest.mark.parametrize("unit", [None, "ms"])
def test_in_a_journal(tmp_path: Path, unit: Any) -> None:
    with sb.Monitor(time="ts", time_unit=unit, max_ahead="1 second", journal=tmp_path / "j") as m:
        m.push({"ts": [100], "x": [1.0]})
        with pytest.raises(sb.SkybandError, match="give force if it is right"):
            m.advance(10**9)
        m.advance(10**6, force=True)
    with sb.Monitor(journal=tmp_path / "j") as m:
        assert m.now == 10**6
