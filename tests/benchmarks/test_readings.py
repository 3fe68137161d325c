"""Readings from files of the user's: tables, and text between blanks with and without names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.harness.readings import from_file
from benchmarks.papers.pripuzic.settings import CORRELATED, SHUFFLED, Table9, points_of
from skyband.core.errors import InputError

# two stations of a LUCE file, cut short: station, year … second, seconds since 1970, then readings; one is missing
LUCE = """\
3 2006 11 8 0 30 12 1162945812 7.25 71.5 NaN
4 2006 11 8 0 30 42 1162945842 7.75 70.5 2.5
3 2006 11 8 0 31 12 1162945872 8.25 69.5 1.5
4 2006 11 8 0 31 42 1162945902 9.25 67.5 0.5
"""


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def close(found: Any, wanted: list[list[float]]) -> bool:
    """To a thousandth: as much is clipped at either end."""
    return found.shape == np.shape(wanted) and bool(np.all(np.abs(found - wanted) < 1e-3))


def test_a_sensorscope_file_by_the_numbers_of_its_columns(tmp_path: Path) -> None:
    file = write(tmp_path, "luce.txt", LUCE)
    assert close(from_file(Path(f"{file}#9,10"), 2), [[0, 1], [0.25, 0.75], [0.5, 0.5], [1, 0]])
    assert close(from_file(Path(f"{file}#9,11"), 2), [[0, 1], [1 / 3, 0.5], [1, 0]])  # without the first
    assert from_file(file, 8).shape == (4, 8)


@pytest.mark.parametrize(
    "text", ["t h\n1 2\n3 4\n2 2\n", "t,name,h\n1,x,2\n3,y,4\n2,x,2\n", "t\th\n1\t2\n3\t4\n2\t2\n"]
)
def test_columns_by_name(tmp_path: Path, text: str) -> None:
    file = write(tmp_path, "readings.csv", text)
    assert close(from_file(file, 2), [[0, 0], [1, 1], [0.5, 0]])
    assert close(from_file(Path(f"{file}#h,t"), 2), [[0, 0], [1, 1], [0, 0.5]])
    size = Table9(data=Path(f"{file}#h,t"))
    assert points_of(CORRELATED, size, 7, 1).shape == points_of(SHUFFLED, size, 7, 1).shape == (7, 2)


def test_a_reading_may_be_no_more_than_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, "spikes.csv", "t,h,a:1\n1,2,0\n90,4,1\n2,2,2\n3,3,2\n")
    assert close(from_file(Path(f"{file}#t:3,h"), 2), [[0, 0], [1, 1], [0.5, 0], [1, 0.5]])
    assert close(from_file(Path(f"{file}#h,1:3"), 2), [[0, 0], [1, 1], [0, 0.5], [0.5, 1]])
    assert close(from_file(Path(f"{file}#a:1,h"), 2), [[0, 0], [0.5, 1], [1, 0], [1, 0.5]])  # a column's name
    with pytest.raises(InputError, match="no column of numbers 'h:x'"):
        from_file(Path(f"{file}#t,h:x"), 2)


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    file = write(tmp_path, "readings.txt", "t h\n1 2\n3 4\n")
    with pytest.raises(InputError, match=r"2 columns of numbers, and this part needs 4"):
        from_file(file, 4)
    with pytest.raises(InputError, match=r"no column of numbers 'x'; there are t, h \(or 1 to 2\)"):
        from_file(Path(f"{file}#x,t"), 2)
    with pytest.raises(InputError, match="nowhere"):
        from_file(tmp_path / "nowhere.txt", 2)
    with pytest.raises(InputError, match="no row with a number in each of t, h"):
        from_file(write(tmp_path, "holes.txt", "t h x\n1 NaN 2\nNaN 4 2\n"), 2)
