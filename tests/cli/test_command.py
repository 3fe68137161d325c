"""The command as a process: exit codes, what goes where, formats, and every sentence of an error."""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from .conftest import Outcome, environment

Run = Callable[..., Outcome]
FASTEST = "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 2 WINDOW 3 ROWS"
LATELY = "SELECT id FROM cars WHERE speed >= 60 WINDOW 20 SECONDS"


def test_help_and_version(skyband: Run) -> None:
    shown = skyband("--help")
    assert (shown.code, shown.err) == (0, "")
    for name in ("hello", "top", "explain", "run", "demo", "verify", "serve"):
        assert f"\n  {name} " in shown.out
        assert skyband(name, "--help").code == 0
    assert "..." not in shown.out.partition("Commands:")[2]
    assert skyband("--version") == Outcome(0, "skyband 0.1.0\n", "")


def test_help_imports_next_to_nothing() -> None:
    heavy = ("numpy", "pyarrow", "numba", "sqlglot", "rich", "pandas", "pyspark")
    code = f"import sys, skyband.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment())
    assert done.stdout == "[]\n"


WRONG_CALLS = {
    (): "Usage: skyband",
    ("tpo",): "No such command 'tpo'. Did you mean 'top'? See skyband --help.\n",
    ("top",): "Missing argument 'FILE': see skyband top --help.\n",
    ("top", "cars.csv"): "Missing option '--sql': see skyband top --help.\n",
    ("top", "cars.csv", "--sql", FASTEST, "--format", "xml"): (
        "Invalid value for '--format': 'xml' is not one of 'table', 'json', 'csv': see skyband top --help.\n"
    ),
    ("top", "cars.csv", "--sql", FASTEST, "--every", "0"): "Invalid value for '--every': ",
    ("top", "cars.csv", "--sql", FASTEST, "--sql", LATELY, "--format", "csv"): (
        "Invalid value: csv holds the answer of one query; take json or table for several: "
        "see skyband top --help.\n"
    ),
    ("top", "cars.csv", "--sql", FASTEST, "--time", "when"): (
        "There is no column 'when' for --time; there are ts, id, speed.\n"
    ),
    ("top", "cars.csv", "--sql", LATELY): (
        "A window of a duration needs times: name their column, as in --time ts.\n"
    ),
    ("top", "cars.csv", "--sql", FASTEST.replace("speed DESC", "sped DESC")): (
        "There is no column sped (line 1, column 37); did you mean speed?\n"
    ),
    (
        "top",
        "cars.csv",
        "--sql",
        FASTEST.replace("speed DESC", "id DESC"),
    ): "The score (ORDER BY) must be a number",
    ("top", "cars.csv", "--sql", "SELECT"): "Expected a column or * after SELECT, but the query ends",
    (
        "bench",
    ): "Benchmarks are not part of the installed package: run them with `python -m benchmarks` in a clone",
    (
        "bench",
        "pripuzic",
        "--only",
        "held",
        "--help",
    ): "Benchmarks are not part of the installed package: run them",
    ("explain", "--sql", "SELECT id FROM s"): "Expected WINDOW and a window at the end of the query",
}


@pytest.mark.parametrize("call", WRONG_CALLS, ids=lambda call: " ".join(call[-2:]) or "nothing")
def test_a_wrong_call(skyband: Run, cars: Path, call: tuple[str, ...]) -> None:
    done = skyband(*call)
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(WRONG_CALLS[call])
    assert "Traceback" not in done.err
    assert not call or done.err.count("\n") == 1


FAILURES = {
    ("top", "nowhere.csv", "--sql", FASTEST): "There is no file nowhere.csv: check the path.\n",
    ("top", ".", "--sql", FASTEST): (
        ". is a folder: name one file in it (skyband run reads whole folders).\n"
    ),
    ("top", "-", "--sql", FASTEST): "Standard input is empty: there are no rows to read.\n",
    ("serve", "--host", "0.0.0.0"): (
        "0.0.0.0 can be reached from elsewhere: give a file with --tokens (lines like “admin TOKEN”), or listen on "
        "127.0.0.1.\n"
    ),
    ("verify", "nowhere.toml"): "There is no pipeline file nowhere.toml; give the path of one.\n",
    ("run", "nowhere.toml"): "There is no pipeline file nowhere.toml; give the path of one.\n",
}


@pytest.mark.parametrize("call", FAILURES, ids=lambda call: " ".join(call[:2]))
def test_a_failure(skyband: Run, call: tuple[str, ...]) -> None:
    assert skyband(*call) == Outcome(1, "", FAILURES[call])


@pytest.mark.parametrize(
    "call", [("--debug", "top", "nowhere"), ("top", "--debug", "nowhere"), ("top", "nowhere", "--debug")]
)
def test_debug_shows_the_traceback(skyband: Run, call: tuple[str, ...]) -> None:
    done = skyband(*call, "--sql", FASTEST)
    assert done.code == 1 and "Traceback" in done.err and "InputError" in done.err


def test_a_table(skyband: Run, cars: Path) -> None:
    done = skyband("top", cars, "--sql", FASTEST)
    assert (done.code, done.err) == (0, "")
    lines = [line.split() for line in done.out.splitlines()]
    assert lines[0] == ["rank", "score", "seq", "id", "speed"]
    assert lines[2:] == [["1", "65", "4", "e", "65"], ["2", "60", "2", "c", "60"]]
    assert "\x1b" not in done.out


def test_a_wide_table_is_not_cut_in_a_pipe(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "wide.csv").write_text(f"id,x\n{'long' * 100},1\n")
    done = skyband("top", "wide.csv", "--sql", "SELECT * FROM s ORDER BY x LIMIT 1 WINDOW 1 ROWS")
    assert "long" * 100 in done.out


def test_json_is_one_array_of_objects(skyband: Run, cars: Path) -> None:
    done = skyband("top", cars, "--sql", FASTEST, "--format", "json")
    assert json.loads(done.out) == [
        {"rank": 1, "score": 65.0, "seq": 4, "id": "e", "speed": 65},
        {"rank": 2, "score": 60.0, "seq": 2, "id": "c", "speed": 60},
    ]


def test_csv_output(skyband: Run, cars: Path) -> None:
    done = skyband("top", cars, "--sql", FASTEST.replace("id,", "ts,"), "--format", "csv")
    assert list(csv.reader(io.StringIO(done.out))) == [
        ["rank", "score", "seq", "ts", "speed"],
        ["1", "65.0", "4", "2024-05-01T10:00:40+00:00", "65"],
        ["2", "60.0", "2", "2024-05-01T10:00:20+00:00", "60"],
    ]


def test_several_queries(skyband: Run, cars: Path) -> None:
    done = skyband("top", cars, "--sql", FASTEST, "--sql", LATELY, "--time", "ts", "--format", "json")
    rows = [(row["query"], row["rank"], row["id"]) for row in json.loads(done.out)]
    assert rows == [("q1", 1, "e"), ("q1", 2, "c"), ("q2", 1, "e"), ("q2", 2, "c")]
    assert "q2" in skyband("top", cars, "--sql", FASTEST, "--sql", FASTEST).out


def test_groups_and_pairs(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text("host,bytes,other\na,10,x\nb,25,x\nz,oops,x\na,20,x\nc,26,x\n")
    groups = (
        "SELECT host, SUM(bytes) AS total FROM s GROUP BY host ORDER BY SUM(bytes) DESC LIMIT 1 WINDOW 9 ROWS"
    )
    done = skyband("top", "f.csv", "--sql", groups, "--format", "json")
    assert json.loads(done.out) == [{"rank": 1, "score": 30.0, "seq": None, "host": "a", "total": 30.0}]
    pairs = "SELECT a.host, b.host FROM s a, s b ORDER BY abs(a.bytes - b.bytes) LIMIT 1 WINDOW 9 ROWS"
    done = skyband("top", "f.csv", "--sql", pairs, "--format", "json")
    assert json.loads(done.out) == [
        {"rank": 1, "score": 1.0, "seq": 1, "seq_b": 4, "a.host": "b", "b.host": "c"}
    ]


def test_every(skyband: Run, cars: Path) -> None:
    done = skyband("top", cars, "--sql", FASTEST, "--every", "2", "--format", "json")
    assert [(step["rows"], [row["id"] for row in step["top"]]) for step in json.loads(done.out)] == [
        (2, ["b", "a"]),
        (4, ["b", "c"]),
        (5, ["e", "c"]),
    ]
    plain = skyband("top", cars, "--sql", FASTEST, "--every", "5", "--format", "csv").out.splitlines()
    assert plain[0] == "rows,rank,score,seq,id,speed" and len(plain) == 3
    assert skyband("top", cars, "--sql", FASTEST, "--every", "3").out.count("after") == 2


def test_every_is_exact_whatever_the_batch(skyband: Run, tmp_path: Path) -> None:
    rows = 200_000
    table = pa.table({"x": [(n * 7919) % rows for n in range(rows)]})
    pq.write_table(table, tmp_path / "x.parquet")
    sql = "SELECT x FROM s ORDER BY x DESC LIMIT 1 WINDOW 1000 ROWS"
    done = skyband("top", "x.parquet", "--sql", sql, "--every", "70000", "--format", "json")
    steps = {step["rows"]: step["top"][0]["x"] for step in json.loads(done.out)}
    values = table["x"].to_pylist()
    assert steps == {end: max(values[end - 1000 : end]) for end in (70_000, 140_000, 200_000)}


def test_standard_input(skyband: Run, cars: Path, tmp_path: Path) -> None:
    expected = skyband("top", cars, "--sql", FASTEST, "--format", "json").out
    rows = [
        dict(zip(("ts", "id", "speed"), line.split(","), strict=True))
        for line in cars.read_text().split()[1:]
    ]
    lines = "\n".join(json.dumps(row | {"speed": int(row["speed"])}) for row in rows)
    parquet = tmp_path / "cars.parquet"
    pq.write_table(pa.table({"id": list("abcde"), "speed": [50, 70, 60, 40, 65]}), parquet)
    for feed in (cars.read_bytes(), gzip.compress(cars.read_bytes()), lines.encode(), parquet.read_bytes()):
        assert skyband("top", "-", "--sql", FASTEST, "--format", "json", feed=feed) == Outcome(
            0, expected, ""
        )


def test_a_slow_pipe_is_answered_as_it_comes(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "skyband",
        "top",
        "-",
        "--sql",
        FASTEST,
        "--every",
        "1",
        "--format",
        "csv",
    ]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, env=environment(), cwd=tmp_path) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(b"id,speed\na,1\n")
        process.stdin.flush()
        lines = [process.stdout.readline() for _ in range(2)]
        process.stdin.write(b"b,2\n")
        process.stdin.flush()
        lines += [process.stdout.readline() for _ in range(2)]
        process.stdin.close()
        assert lines[1:] == [b"1,1,1.0,0,a,1\n", b"2,1,2.0,1,b,2\n", b"2,2,1.0,0,a,1\n"]
    assert process.returncode == 0


def test_rejects_are_counted_and_keep_their_seq(skyband: Run, cars: Path) -> None:
    with cars.open("a") as file:
        file.write("ragged\n,f,99\n2024-05-01T10:00:50Z,g,fast\n2024-05-01T10:00:55Z,h,61\n")
    done = skyband("top", cars, "--sql", FASTEST, "--time", "ts", "--format", "json")
    assert [(row["seq"], row["id"]) for row in json.loads(done.out)] == [(4, "e"), (8, "h")]
    assert done.err == "3 rows rejected: 1 time, 2 type\n  such as row 5: fields: 1, expected: 3\n"
    assert done.code == 0


def test_a_broken_time_is_one_reject(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "j.csv").write_text("ts,id,x\n1,a,1\nzz,b,2\n3,c,3\n")
    query = "SELECT id FROM s ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS"
    done = skyband("top", "j.csv", "--time", "ts", "--format", "csv", "--sql", query)
    assert done.code == 0 and done.out.splitlines()[1:] == ["1,3.0,2,c", "2,1.0,0,a"]
    assert done.err == "1 row rejected: 1 type\n  such as row 1: column ts: 'zz' is not int64\n"


@pytest.mark.parametrize("data", ["id,x\na,\nb,\n", '{"id": "a", "x": null}\n'])
@pytest.mark.parametrize("asked", ["ORDER BY x DESC LIMIT 3", "WHERE id = 'a' AND x + 1 > 3"])
def test_a_column_without_a_value(skyband: Run, tmp_path: Path, data: str, asked: str) -> None:
    (tmp_path / "file").write_text(data)
    done = skyband("top", "file", "--format", "json", "--sql", f"SELECT id FROM s {asked} WINDOW 10 ROWS")
    assert (done.code, done.out, done.err) == (0, "[]\n", "")


@pytest.mark.parametrize("form, text", [("json", "Jos\\u00e9"), ("csv", "Jos\\xe9"), ("table", "Jos\\xe9")])
def test_an_output_that_cannot_say_everything(skyband: Run, tmp_path: Path, form: str, text: str) -> None:
    (tmp_path / "names.csv").write_text("id,x\nJosé,1\n", encoding="utf-8")
    query = "SELECT id FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"
    done = skyband("top", "names.csv", "--format", form, "--sql", query, PYTHONIOENCODING="ascii")
    assert (done.code, done.err) == (0, "") and text in done.out
    if form == "json":
        assert json.loads(done.out)[0]["id"] == "José"
    said = skyband("top", "names.csv", "--format", form, "--sql", query, PYTHONIOENCODING="utf-8").out
    assert "José" in said


def test_a_file_without_rows(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("ts,id,speed\n")
    assert skyband("top", "none.csv", "--sql", FASTEST, "--format", "json") == Outcome(0, "[]\n", "")
    assert skyband("top", "none.csv", "--sql", LATELY, "--time", "ts").code == 0


def test_a_failure_on_the_way_leaves_no_empty_answer(skyband: Run, tmp_path: Path) -> None:
    whole = gzip.compress(b"id,speed\n" + b"\n".join(b"%d,%d" % (n, n * n) for n in range(900_000)))
    (tmp_path / "torn.gz").write_bytes(whole[: len(whole) // 2])
    done = skyband("top", "torn.gz", "--sql", FASTEST, "--format", "json")
    assert (done.code, done.out) == (1, "") and "can't be read to its end" in done.err
    done = skyband("top", "torn.gz", "--sql", FASTEST, "--format", "json", "--every", "100000")
    assert done.code == 1 and json.loads(done.out)[0]["rows"] == 100_000


def test_what_is_nested_is_left_out_and_that_is_said(skyband: Run) -> None:
    feed = b'{"id": 1, "speed": 2, "tags": ["a"]}\n'
    done = skyband("top", "-", "--sql", FASTEST, "--format", "csv", feed=feed)
    assert done == Outcome(0, "rank,score,seq,id,speed\n1,2.0,0,1,2\n", "left out, because nested: tags\n")


def test_infinities_are_valid_json(skyband: Run, tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n0\n-1\n")
    done = skyband(
        "top", "x.csv", "--sql", "SELECT x FROM s ORDER BY 1 / x LIMIT 3 WINDOW 9 ROWS", "--format", "json"
    )

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    rows = json.loads(done.out, parse_constant=refuse)
    assert [row["score"] for row in rows] == [-1.0, 1.0, "Infinity"]


def test_explain(skyband: Run, cars: Path) -> None:
    for call in ([], [cars]):
        done = skyband("explain", *call, "--sql", FASTEST)
        assert (done.code, done.err) == (0, "")
        assert "q1: top 2, window 3 ROWS" in done.out and "algorithm" in done.out
    assert skyband("explain", "--sql", LATELY).code == 0
    assert "of 3 rows in the window" in done.out


def test_a_reader_that_has_had_enough(cars: Path) -> None:
    cars.write_text("x\n" + "\n".join(map(str, range(20_000))))
    sql = "SELECT x FROM s ORDER BY x DESC LIMIT 1 WINDOW 9 ROWS"
    command = [
        sys.executable,
        "-m",
        "skyband",
        "top",
        str(cars),
        "--sql",
        sql,
        "--every",
        "5",
        "--format",
        "csv",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    assert process.stdout is not None and process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0


def test_ctrl_c_is_quiet(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-m",
        "skyband",
        "top",
        "-",
        "--sql",
        FASTEST,
        "--every",
        "1",
        "--format",
        "csv",
    ]
    pipe = subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(), cwd=tmp_path)
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    process.stdin.write(b"id,speed\na,1\n")
    process.stdin.flush()
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read() == b""


def test_ctrl_c_that_interrupts_no_call_is_heard_all_the_same(tmp_path: Path) -> None:
    """The signal reaches Python, but the wait for standard input goes on, as when it comes just before that call."""
    script = f"""
import signal, sys, threading, time
def later():
    while signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        time.sleep(0.01)
    time.sleep(0.5)
    signal.pthread_kill(threading.get_ident(), signal.SIGINT)
threading.Thread(target=later, daemon=True).start()
sys.argv = ["skyband", "top", "-", "--sql", {FASTEST!r}]
from skyband.cli import main
main()
"""
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdin=pipe, stdout=pipe, stderr=pipe, env=environment(), cwd=tmp_path
    ) as process:
        try:
            assert process.wait(60) == 130
        finally:
            process.kill()
        assert process.stderr is not None and process.stderr.read() == b""


def test_an_unwritable_cache_folder_falls_back_and_says_so(skyband: Run, cars: Path, tmp_path: Path) -> None:
    blocked = tmp_path / "blocked"
    blocked.write_text("a file where the folder should be")  # unwritable for root too
    done = skyband("top", cars, "--sql", FASTEST, SKYBAND_CACHE=str(blocked), NUMBA_DISABLE_JIT="0")
    assert done.code == 0 and "65" in done.out
    assert done.err.count("\n") == 1
    assert f"the cache folder {blocked} can't be written" in done.err


@pytest.mark.parametrize("form", ["table", "json", "csv"])
def test_nanoseconds(skyband: Run, tmp_path: Path, form: str) -> None:
    """The command does without pandas, and Python's own times end at microseconds."""
    at = pa.array([1_700_000_000_000_000_001, 1_600_000_000_000_000_007], pa.timestamp("ns", "UTC"))
    pq.write_table(pa.table({"at": at, "speed": [1, 2]}), tmp_path / "fine.parquet", row_group_size=1)
    sql = "SELECT at FROM s ORDER BY speed DESC LIMIT 3 WINDOW 5 SECONDS"
    done = skyband("top", "fine.parquet", "--sql", sql, "--time", "at", "--format", form, "--every", "1")
    assert done.code == 0 and "2023-11-14T22:13:20.000000001Z" in done.out
    assert done.err.startswith("1 row rejected: 1 late")


def test_no_java_is_needed(skyband: Run, cars: Path, tmp_path: Path) -> None:
    empty = tmp_path / "bin"
    empty.mkdir()
    without = {"PATH": str(empty), "JAVA_HOME": ""}
    assert skyband("top", cars, "--sql", FASTEST, **without).code == 0
    assert skyband("explain", "--sql", FASTEST, **without).code == 0
    assert skyband("hello", "--seconds", "0.2", **without).code == 0


def test_hello_in_a_pipe(skyband: Run) -> None:
    for seconds in (2.5, 10, 40):  # a snapshot comes every second, on a busy machine a little less often
        done = skyband("hello", "--seconds", seconds)
        assert (done.code, done.err) == (0, "")
        assert "\x1b" not in done.out
        if done.out.count("after ") >= 2:
            break
    assert done.out.count("after ") >= 2
    assert "  10  " in done.out and "B/s" in done.out


def test_a_file_that_may_not_be_read(skyband: Run, cars: Path) -> None:
    cars.chmod(0)
    if os.access(cars, os.R_OK):
        cars.chmod(stat.S_IRUSR)
        return  # this user may read everything
    done = skyband("top", cars, "--sql", FASTEST)
    assert done == Outcome(1, "", f"{cars} may not be read: change its permissions.\n")


def test_the_unit_of_a_time_column(skyband: Run, tmp_path: Path) -> None:
    """Milliseconds taken for seconds make an hour 3.6 seconds."""
    path = tmp_path / "t_ms.csv"
    rows = [f"{1_700_000_000_000 + minute * 60_000},{100 - minute}" for minute in range(120)]
    path.write_text("\n".join(["ts,x", *rows]) + "\n")
    sql = "SELECT ts, x FROM s ORDER BY x DESC LIMIT 1 WINDOW 1 HOUR"
    call = ("top", path, "--time", "ts", "--sql", sql, "--format", "json")
    told = skyband(*call, "--time-unit", "ms")
    assert told.code == 0, told.err
    assert json.loads(told.out)[0]["ts"] == 1_700_000_000_000 + 59 * 60_000
    assert "1 hour" in skyband("explain", path, "--time", "ts", "--time-unit", "ms", "--sql", sql).out.lower()
    assert skyband(*call, "--time-unit", "min").code == 2
    told = skyband(*call)
    assert told.code == 0 and "in ms is 2023-11-14" in told.err and "(120 rows)" in told.err
    told = skyband(
        "top", path, "--time-unit", "ms", "--sql", "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"
    )
    assert told.code == 2 and told.err == "--time-unit is the unit of a column: name it with --time.\n"


def test_rows_that_wait(skyband: Run, tmp_path: Path) -> None:
    """One time in milliseconds among seconds makes no right row late."""
    path = tmp_path / "t.csv"
    path.write_text("ts,x\n" + "".join(f"{1000 if row == 5 else 1},{row}\n" for row in range(9)))
    call = ("top", path, "--sql", "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 5 SECONDS", "--format", "json")
    told = skyband(*call, "--time", "ts", "--max-ahead", "1 minute")
    assert told.code == 0, told.err
    assert [row["x"] for row in json.loads(told.out)] == [0]
    assert 'waiting "ts"' in told.err and "such as 1000" in told.err and "(1 row)" in told.err
    assert skyband(*call, "--max-ahead", "1 minute").err.startswith("--max-ahead is about a column of times")
    told = skyband(*call, "--time", "ts", "--max-ahead", "soon")
    assert told.code == 2 and told.err == "--max-ahead takes a duration such as \"5 minutes\", not 'soon'.\n"
