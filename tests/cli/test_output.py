"""Values of every type in every format, and the words for what nobody foresaw."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from skyband.cli import _sentence
from skyband.core.errors import InputError, QueryError
from skyband.terminal.output import Answers, shown
from skyband.terminal.panels import brief

from .conftest import Outcome, environment

Run = Callable[..., Outcome]

TOP = pa.table(
    {
        "rank": pa.array([1, 2], pa.int32()),
        "score": [float("inf"), -1.5],
        "seq": [7, 2**60],
        "truth": [True, None],
        "day": [date(2024, 2, 29), None],
        "at": pa.array([datetime(2024, 2, 29, 12, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        "price": pa.array([Decimal("1.10"), None], pa.decimal128(9, 2)),
        "name": ["Müller, „x“", "a\nb"],
        "real": [float("nan"), 0.1],
    }
)


def written(form: str, every: bool = False, several: bool = False) -> str:
    out = io.StringIO()
    answers = Answers(form, every, several, out)
    answers.write("q1", 10, TOP)
    answers.close()
    return out.getvalue()


def test_json_values() -> None:
    first, second = json.loads(written("json"))
    assert first == {
        "rank": 1, "score": "Infinity", "seq": 7, "truth": True, "day": "2024-02-29",
        "at": "2024-02-29T12:00:00+00:00", "price": "1.10", "name": "Müller, „x“", "real": None,
    }  # fmt: skip
    assert second["seq"] == 2**60 and second["truth"] is None and second["real"] == 0.1
    assert [next(iter(row)) for row in json.loads(written("json", several=True))] == ["query", "query"]
    assert list(json.loads(written("json", True, True))[0]) == ["rows", "query", "top"]


def test_csv_values() -> None:
    lines = written("csv").splitlines()
    assert lines[1] == '1,inf,7,true,2024-02-29,2024-02-29T12:00:00+00:00,1.10,"Müller, „x“",nan'


def test_table_values() -> None:
    lines = written("table").splitlines()
    assert lines[2].split() == [
        "1", "inf", "7", "true", "2024-02-29", "2024-02-29", "12:00:00", "1.10", "Müller,", "„x“", "nan",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value, text", [(1e16, "1e+16"), (3.0, "3"), (1 / 3, "0.33333333"), (None, ""), (False, "false")]
)
def test_what_people_read(value: object, text: str) -> None:
    assert shown(value) == text


def test_data_is_shown_as_it_is() -> None:
    out = io.StringIO()
    answers = Answers("table", out=out, several=True)
    answers.write("[red]q[/]", 1, pa.table({"[b]c": ["[red]x[/] :smile: \x1b[31m!"]}))
    assert (
        "[b]c" in out.getvalue()
        and "[red]x[/] :smile: ␣[31m!" in out.getvalue()
        and "[red]q[/]" in out.getvalue()
    )


def test_times_that_python_has_not() -> None:
    """A time in the wrong unit is soon in a year of five digits, where Python's calendar ends."""
    columns = {"at": pa.array([2**38], pa.timestamp("s")), "far": pa.array([2**60], pa.timestamp("ms"))}
    top = pa.table({"rank": [1], **columns, "day": pa.array([2**22], pa.date32())})
    for form in ("table", "json", "csv"):
        out = io.StringIO()
        answers = Answers(form, out=out)
        answers.write("q", 1, top)
        answers.close()
        for text in ("10680-07-14T06:09:04", "<value out of range: 1152921504606846976>", "13453-08-13"):
            assert text in out.getvalue()


def test_bytes_and_lists() -> None:
    columns = {
        "raw": pa.array([b"a\xff", None]),
        "some": [[2, None], []],
        "words": [["é", "b"], None],
        "deep": [{"at": [date(2024, 2, 29)], "far": float("inf"), "raw": b"\x00"}, None],
        "no": [False, None],
    }
    deep = {"at": ["2024-02-29"], "far": "Infinity", "raw": "00"}
    said = {}
    for form in ("table", "json", "csv"):
        out = io.StringIO()
        answers = Answers(form, out=out)
        answers.write("q", 1, pa.table(columns))
        answers.close()
        said[form] = out.getvalue()
    assert json.loads(said["json"]) == [
        {"raw": "61ff", "some": [2, None], "words": ["é", "b"], "deep": deep, "no": False},
        {"raw": None, "some": [], "words": None, "deep": None, "no": None},
    ]
    rows = list(csv.reader(io.StringIO(said["csv"])))
    assert rows[1] == ["61ff", "[2, null]", '["é", "b"]', json.dumps(deep), "false"]
    assert rows[2] == ["", "[]", "", "", ""]
    for text in ("61ff", "[2, null]", '["é", "b"]', json.dumps(deep), "false"):
        assert text in said["table"]


def test_what_people_read_in_passing() -> None:
    assert brief(12345.678) == "12,346" and brief(1 / 3) == "0.3333" and brief("ab" * 30, 10) == "ababababa…"
    assert brief(datetime(2013, 7, 4, 9, 5)) == "04 Jul 09:05"


def test_sentences_and_codes() -> None:
    assert _sentence(QueryError("Wrong.")) == (2, "Wrong.")
    assert _sentence(InputError("Bad.")) == (1, "Bad.")
    code, text = _sentence(ZeroDivisionError("oh.\nno"))
    assert code == 1 and text.startswith(
        "Something unexpected went wrong (ZeroDivisionError: oh): run it again"
    )
    assert "(KeyError)" in _sentence(KeyError())[1]


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_no_terminal_is_too_narrow_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    out = Screen()
    top = {
        "rank": [1],
        "score": [33083.7],
        "seq": [330837],
        "who": ["ExpressJet Airlines Inc."],
        "far": [32104],
    }
    more = {f"n{i}": [12345] for i in range(5)}
    answers = Answers("table", out=out)
    answers.write("q1", 1, pa.table(top | more))
    answers.close()
    text = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    first = text.splitlines()[2].split()
    assert first[:3] == ["1", "33083.7", "330837"] and first[-6:] == ["32104", *["12345"] * 5]
    assert "ExpressJet" in text and "Airlines" in text


FULL = os.strerror(errno.ENOSPC)
ASKED = 'top - --sql "SELECT id FROM s ORDER BY x DESC LIMIT 2 WINDOW 3 ROWS"'


@pytest.mark.parametrize(
    ("where", "code", "said"),
    [
        (">/dev/full", 1, f"What was found can't be written ({FULL}): make room, or send it elsewhere.\n"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("<&-", 1, "Standard input is closed: pipe rows into it, or name a file.\n"),
    ],
)  # fmt: skip
def test_output_that_nobody_takes(where: str, code: int, said: str) -> None:
    if "full" in where and not Path("/dev/full").exists():
        pytest.skip("only Linux has a disk that is always full")
    command = f"printf 'id,x\\na,1\\nb,2\\n' | {sys.executable} -m skyband {ASKED} {where}"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, env=environment())
    assert (done.returncode, done.stderr) == (code, said)


def test_numbers_and_times_that_are_written_otherwise(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "excel.csv").write_text("when;car;speed\r\n31.12.2024;ann;88,5\r\n01.01.2025;ben;121,25\r\n")
    asked = ("top", "excel.csv", "--sql", "SELECT car FROM s ORDER BY speed DESC LIMIT 2 WINDOW 3 ROWS")
    assert skyband(*asked) == Outcome(
        2,
        "",
        "The score (ORDER BY) must be a number, but speed is a text (line 1, column 28); it has '88,5', and numbers "
        "are written like 1234.5.\n",
    )
    assert skyband(*asked, "--time", "when") == Outcome(
        1,
        "",
        "The column 'when' of --time holds texts that are no times: write them like 2024-05-31T12:00:00 or as "
        "numbers of seconds, or name another column.\n",
    )
