"""Wrong calls: one sentence each that says what is wrong and what to do, and a monitor that is none the worse."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

import skyband as sb
from skyband.algorithms import OBJECTS, REGISTRY

OK = "SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS"
GROUPED = "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 2 WINDOW 5 ROWS"
JOINED = "SELECT id FROM a FULL JOIN b USING (id) ORDER BY a.x + b.x DESC LIMIT 2 WINDOW 5 ROWS"
PAIRS = "SELECT * FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 5 ROWS"


def pushed(**options: Any) -> sb.Monitor:
    m = sb.Monitor(**options)
    m.push({"t": [1.0], "x": [1.0], "speed": [2.0], "name": ["a"]})
    return m


def two_streams() -> sb.Monitor:
    m = sb.Monitor()
    m.push({"x": [1.0]}, stream="a")
    m.push({"x": [1.0]}, stream="b")
    return m


def both_have_it() -> None:
    m = sb.Monitor()
    m.watch(JOINED.replace("a.x + b.x", "x"))
    m.push({"id": [1], "x": [1.0]}, stream="a")
    m.push({"id": [1], "x": [1.0]}, stream="b")


def named_twice() -> None:
    m = sb.Monitor()
    m.watch(OK, name="a")
    m.watch(OK, name="a")


def checked_at_the_first_batch() -> None:
    m = sb.Monitor()
    m.watch("SELECT x FROM s ORDER BY sped LIMIT 2 WINDOW 5 ROWS")
    m.push({"x": [1.0], "speed": [2.0]})


def two_kinds_of_time() -> None:
    m = sb.Monitor(time="t")
    m.push({"t": [1.0], "x": [1.0]}, stream="a")
    m.push({"t": [dt.datetime(2024, 1, 1)], "x": [1.0]}, stream="b")


def moments() -> sb.Monitor:
    m = sb.Monitor(time="t")
    m.push({"t": [dt.datetime(2024, 1, 1)], "x": [1.0]})
    return m


def rows_not_counted() -> None:
    m = sb.Monitor(time="t")
    w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 SECONDS")
    m.push({"t": [1.0, 2.0, 3.0], "x": [1.0, 2.0, 3.0]})
    w.change(window="2 rows")


def lists_joined() -> None:
    m = sb.Monitor()
    m.watch(JOINED)
    m.push({"id": [[1]], "x": [1.0]}, stream="a")


CASES: dict[str, tuple[Callable[[], Any], str]] = {
    "a batch of nothing known": (
        lambda: sb.Monitor().push(5),
        "A batch can't be of type int: give an Arrow table or record batch, a pandas or polars frame, a dict of "
        "columns or of the values of one row, or a list of dicts.",
    ),
    "columns of two lengths": (
        lambda: sb.Monitor().push({"x": [1.0, 2.0], "y": [1.0]}),
        'Columns differ in length: "y" has 1 values, the ones before it 2.',
    ),
    "single values and columns": (
        lambda: sb.Monitor().push({"x": [1.0], "y": 2.0}),
        'The dict has a single value for "y" and a whole column for "x": give a value for each column (one row), or a '
        "list for each.",
    ),
    "a list of lists": (
        lambda: sb.Monitor().push([[1, 2]]),
        "Row 0 of the list is of type list; each must be a dict of columns.",
    ),
    "a name twice in a batch": (
        lambda: sb.Monitor().push(pa.table([[1.0], [2.0]], names=["x", "x"])),
        'The batch has two columns "x"; rename one.',
    ),
    "no such time column": (
        lambda: sb.Monitor(time="ts").push({"x": [1.0]}),
        "There is no column ts; there is x.",
    ),
    "a time that is no time": (
        lambda: sb.Monitor(time="t").push({"t": ["soon"], "x": [1.0]}),
        'The time column "t" is string; it must be a timestamp, a date, or a number of seconds: cast it, or give '
        "the type with schema=.",
    ),
    "two kinds of time": (
        two_kinds_of_time,
        'The time column "t" is a timestamp and another stream\'s is a number: cast one of them.',
    ),
    "a time column without a name": (
        lambda: sb.Monitor(time=5),  # type: ignore[arg-type]
        "time= must be the name of a column, or one for each stream by name, not 5.",
    ),
    "how far ahead, without a time column": (
        lambda: sb.Monitor(max_ahead="5 minutes"),
        "max_ahead= needs a time column: give time= too.",
    ),
    "how far ahead, in rows": (
        lambda: sb.Monitor(time="t", max_ahead="5 rows"),
        "max_ahead= takes a duration such as \"5 minutes\" or a number of seconds above 0, not '5 rows'.",
    ),
    "advance without a time column": (
        lambda: sb.Monitor().advance(5),
        "advance needs event time: make the monitor with time=.",
    ),
    "advance to no time": (
        lambda: pushed(time="t").advance(None),
        "None is not a time; give a datetime, ISO text or a number of seconds.",
    ),
    "advance to no number": (
        lambda: pushed(time="t").advance(float("inf")),
        "inf is not a time; give a finite number of seconds.",
    ),
    "advance beyond the calendar": (
        lambda: moments().advance(dt.datetime(3000, 1, 1)),
        "datetime.datetime(3000, 1, 1, 0, 0) lies outside the years 1677 to 2262 that event times can have.",
    ),
    "a schema of no types": (
        lambda: sb.Monitor(schema={"x": "dooble"}).watch(OK),
        "schema= can't be read (No type alias for dooble); give a pyarrow schema, or column names with types like "
        "'double'.",
    ),
    "a schema that is none": (
        lambda: sb.Monitor(schema=5).watch(OK),  # type: ignore[arg-type]
        "schema= can't be read ('int' object has no attribute 'items'); give a pyarrow schema, or column names with "
        "types like 'double'.",
    ),
    "a selected column that isn't there": (
        lambda: pushed().watch("SELECT nmae FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS"),
        "There is no column nmae (line 1, column 8); did you mean name?",
    ),
    "a sifter without a schema": (
        lambda: sb.Monitor().sifter(),
        'The schema of stream "" is not known yet: give it with schema=.',
    ),
    "an error of nothing": (
        lambda: sb.Monitor().watch(OK + " WITH (error = 0)"),
        "error = 0 can't be: it is how many rows may be missed per window's worth of rows, more than 0 and less than "
        "1, such as error = 0.001; leave it out for exact answers.",
    ),
    "a row window where rows were not counted": (
        rows_not_counted,
        "Which rows are the last 2 is known only where a watch of this stream has had a row window at least as long: "
        "ask for a time window, or make a new watch over 2 ROWS.",
    ),
    "a column that isn't there": (
        lambda: pushed().watch("SELECT x FROM s ORDER BY sped DESC LIMIT 2 WINDOW 5 ROWS"),
        "There is no column sped (line 1, column 26); did you mean speed?",
    ),
    "a column that isn't there, seen at the first batch": (
        checked_at_the_first_batch,
        "There is no column sped (line 1, column 26); did you mean speed?",
    ),
    "a text as score": (
        lambda: pushed().watch("SELECT x FROM s ORDER BY name DESC LIMIT 2 WINDOW 5 ROWS"),
        "The score (ORDER BY) must be a number, but name is a text (line 1, column 26).",
    ),
    "a number as condition": (
        lambda: pushed().watch("SELECT x FROM s WHERE x ORDER BY x DESC LIMIT 2 WINDOW 5 ROWS"),
        "WHERE must be a condition that is true or false, but x is a number (line 1, column 23).",
    ),
    "a time window without times": (
        lambda: sb.Monitor().watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 5 SECONDS"),
        "A window of 5 SECONDS needs event times: name its column of times (time=), or watch a number of rows.",
    ),
    "retain a duration without times": (
        lambda: sb.Monitor(retain=sb.last("5 seconds")),
        "retain=sb.last(…) needs a time column: give time=, or retain a number of rows.",
    ),
    "a name twice": (
        named_twice,
        'There is a watch "a" already: drop it first, or choose another name.',
    ),
    "an empty name": (
        lambda: sb.Monitor().watch(OK, name=""),
        "A watch's name must be a text of at least one character, not ''.",
    ),
    "drop what isn't there": (
        lambda: sb.Monitor().drop("a"),
        'There is no watch "a"; there are none.',
    ),
    "k of nothing": (
        lambda: sb.Monitor().watch(OK).change(k=0),
        "k must be a whole number of at least 1, not 0.",
    ),
    "k of a threshold query": (
        lambda: sb.Monitor().watch("SELECT x FROM s WHERE x > 1 WINDOW 5 ROWS").change(k=3),
        '"query1" reports every row beyond its bound and has no k to change.',
    ),
    "a snapshot too deep": (
        lambda: sb.Monitor().watch(OK).top(k=3),
        'No watch of this score covers k = 3 over 5 ROWS now ("query1" keeps 2 over 5 ROWS): watch it with a '
        "larger k or window.",
    ),
    "no such algorithm": (
        lambda: sb.Monitor().watch(OK + " WITH (algorithm = 'rae')"),
        "There is no algorithm 'rae'; did you mean ra?",
    ),
    "an unfit algorithm": (
        lambda: sb.Monitor().watch("SELECT x FROM s WHERE x > 1 WINDOW 5 ROWS WITH (algorithm = 'ra')"),
        "The algorithm ra (relaxed k-skyband) answers top-k queries, and this is a threshold query: take threshold, "
        "tma, or leave the algorithm out.",
    ),
    "an option of another algorithm": (
        lambda: sb.Monitor().watch(OK + " WITH (algorithm = 'sa', gamma = 1)"),
        "The algorithm sa has no option gamma; it has none.",
    ),
    "pairs of an update stream": (
        lambda: sb.Monitor(key="id").watch(PAIRS),
        "Pairs need rows that leave in the order in which they came (first in, first out), and in an update stream "
        "(key=) any row may be replaced or deleted.",
    ),
    "an algorithm for pairs": (
        lambda: sb.Monitor().watch(PAIRS + " WITH (algorithm = 'sums')"),
        "The algorithm sums (exact running totals of all objects) answers grouped and joined queries, and this is a "
        "pairs query: take basic, kd, naive, scase, ta, or leave the algorithm out.",
    ),
    "a score that isn't made of differences": (
        lambda: sb.Monitor().watch(PAIRS.replace("abs(a.x - b.x)", "a.x * b.x") + " WITH (algorithm = 'ta')"),
        "The algorithm ta (K-skyband of pairs with sorted lists and a threshold) can't answer this query: it needs a "
        "score that is made of differences such as abs(a.x - b.x) and only rises or only falls with each of them. Take "
        "scase, or leave the algorithm out.",
    ),
    "a column that no pair has": (
        lambda: sb.Monitor(schema={"id": "int64", "y": "double"}).watch(PAIRS),
        "There is no column x (line 1, column 55); there are id, y.",
    ),
    "an algorithm for rows": (
        lambda: sb.Monitor().watch(GROUPED + " WITH (algorithm = 'ra')"),
        "The algorithm ra (relaxed k-skyband) answers top-k queries, and this is a grouped query: take "
        f"{', '.join(sorted(OBJECTS))}, or leave the algorithm out.",
    ),
    "an algorithm for rows where only one for objects fits": (
        lambda: sb.Monitor().watch(GROUPED.replace("DESC", "ASC") + " WITH (algorithm = 'ra')"),
        "The algorithm ra (relaxed k-skyband) answers top-k queries, and this is a grouped query: take sums, or leave "
        "the algorithm out.",
    ),
    "an algorithm for pairs of another score": (
        lambda: sb.Monitor().watch(PAIRS.replace("abs(a.x - b.x)", "a.x / b.x") + " WITH (algorithm = 'sa')"),
        "The algorithm sa (strict k-skyband) answers top-k queries, and this is a pairs query: take basic, naive, "
        "scase, or leave the algorithm out.",
    ),
    "an algorithm for objects": (
        lambda: sb.Monitor().watch(OK + " WITH (algorithm = 'sums')"),
        "The algorithm sums (exact running totals of all objects) answers grouped and joined queries, and this is a "
        "top-k query: take "
        f"{', '.join(sorted(name for name in REGISTRY if name != 'threshold'))}, or leave the algorithm out.",
    ),
    "an option for objects": (
        lambda: sb.Monitor().watch(GROUPED + " WITH (gamma = 1)"),
        "A grouped query has no option gamma; leave it out.",
    ),
    "an unknown column to group by": (
        lambda: sb.Monitor(schema={"ip": "string", "x": "double"}).watch(GROUPED),
        "There is no column id (line 1, column 35); there are ip, x.",
    ),
    "a sum of texts": (
        lambda: sb.Monitor(schema={"id": "string", "x": "string"}).watch(GROUPED),
        "SUM and MAX need a number, not a condition or a text (line 1, column 51).",
    ),
    "an unknown column to join by": (
        lambda: sb.Monitor(schema={"a": {"ip": "string", "x": "double"}, "b": {"ip": "string"}}).watch(
            JOINED
        ),
        "There is no column id (line 1, column 37); there are ip, x.",
    ),
    "an unknown column of a join": (
        lambda: sb.Monitor(schema={"a": {"id": "string", "xx": "double"}, "b": {"id": "string"}}).watch(
            JOINED
        ),
        "There is no column x (line 1, column 50); did you mean xx?",
    ),
    "a join's score of texts": (
        lambda: sb.Monitor(schema={"a": {"id": "string", "x": "string"}, "b": {"id": "string"}}).watch(
            JOINED
        ),
        "a.x must be a number, not a condition or a text (line 1, column 50).",
    ),
    "a column of both streams": (
        lambda: both_have_it(),
        "Both a and b have a column x (line 1, column 50); write a.x or b.x.",
    ),
    "streams with and without times": (
        lambda: sb.Monitor(time={"a": "t"}).watch(JOINED),
        "Stream b has no time column and others of the join have one: name all of them in time=.",
    ),
    "keys of two types": (
        lambda: sb.Monitor(
            schema={"a": {"id": "string", "x": "double"}, "b": {"id": "int64", "x": "double"}}
        ).watch(JOINED.replace("a.x + b.x", "a.x")),
        '"id" is string in stream a and int64 in b: cast one of them.',
    ),
    "a group of lists": (
        lambda: sb.Monitor(schema=pa.schema([("id", pa.list_(pa.int64())), ("x", pa.float64())])).watch(
            GROUPED
        ),
        'GROUP BY can\'t take "id", which is list<item: int64> (line 1, column 35); take a column of numbers, '
        "texts or times.",
    ),
    "a group of lists, with another type not known yet": (
        lambda: sb.Monitor(schema=pa.schema([("id", pa.list_(pa.int64())), ("x", pa.null())])).watch(GROUPED),
        'GROUP BY can\'t take "id", which is list<item: int64> (line 1, column 35); take a column of numbers, '
        "texts or times.",
    ),
    "a group of intervals": (
        lambda: sb.Monitor(
            schema=pa.schema([("id", pa.month_day_nano_interval()), ("x", pa.float64())])
        ).watch(GROUPED),
        'GROUP BY can\'t take "id", which is month_day_nano_interval (line 1, column 35); take a column of numbers, '
        "texts or times.",
    ),
    "streams joined by lists": (
        lists_joined,
        'USING can\'t take "id", which is list<item: int64> (line 1, column 37); take a column of numbers, '
        "texts or times.",
    ),
    "an option of a joined query": (
        lambda: sb.Monitor().watch(JOINED + " WITH (gamma = 1)"),
        "A joined query has no option gamma; leave it out.",
    ),
    "an operation without a key": (
        lambda: sb.Monitor(op="op"),
        "op= needs key= too: the column that tells which row is updated or deleted.",
    ),
    "a batch for which stream": (
        lambda: two_streams().push({"x": [1.0]}),
        "There are several streams (a, b): say which with stream=.",
    ),
    "a query of which stream": (
        lambda: two_streams().watch(OK),
        'There is no stream "s"; there are a, b.',
    ),
}


SCORE = "The score (ORDER BY) must be a number, but"
CONDITION = "must be a condition that is true or false, but"
TYPED = {  # what only the columns' types tell
    PAIRS.replace("abs(a.x - b.x)", "a.x > b.x"): f"{SCORE} a.x > b.x is true or false (line 1, column 55).",
    PAIRS.replace(
        "a.id < b.id", "a.x + b.x"
    ): f"WHERE {CONDITION} a.x + b.x is a number (line 1, column 30).",
    PAIRS.replace(" ROWS", " ROWS WITH (buffer = 3)"): "A pairs query has no option buffer; leave it out.",
    GROUPED.replace("GROUP", "WHERE x GROUP"): f"WHERE {CONDITION} x is a number (line 1, column 32).",
    GROUPED.replace(
        "GROUP BY id", "GROUP BY id HAVING SUM(x)"
    ): f"HAVING {CONDITION} SUM(x) is a number (line 1, column 45).",
    GROUPED.replace(
        "BY SUM(x)", "BY SUM(x) > 1"
    ): f"{SCORE} SUM(x) > 1 is true or false (line 1, column 54).",
}


@pytest.mark.parametrize("query", TYPED)
def test_the_sentence_of_a_type(query: str) -> None:
    m = sb.Monitor()
    m.push({"id": [1], "x": [1.0]}, stream="s")
    with pytest.raises(sb.SkybandError) as error:
        m.watch(query)
    assert str(error.value) == TYPED[query]
    assert not m.watches


@pytest.mark.parametrize("case", list(CASES))
def test_the_sentence(case: str) -> None:
    call, sentence = CASES[case]
    with pytest.raises(sb.SkybandError) as error:
        call()
    assert str(error.value) == sentence
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize("query", [5, None, b"SELECT", ["SELECT"]])
def test_what_is_no_query(query: Any) -> None:
    with pytest.raises(sb.SkybandError):
        sb.Monitor().watch(query)


def test_a_monitor_is_none_the_worse_for_a_wrong_call() -> None:
    m = pushed(time="t")
    w = m.watch(OK, name="w")
    before = m.to_bytes()
    wrong: list[Callable[[], Any]] = [
        lambda: m.push(5),
        lambda: m.push({"x": [1.0], "y": [1.0, 2.0]}),
        lambda: m.watch(OK, name="w"),
        lambda: m.watch("SELECT x FROM s ORDER BY sped LIMIT 2 WINDOW 5 ROWS"),
        lambda: m.watch(OK + " WITH (algorithm = 'none')"),
        lambda: m.drop("v"),
        lambda: w.change(k=-1),
        lambda: w.change(k=9, window="wide"),
        lambda: w.top(k=99),
        lambda: m.advance("later"),
    ]
    for call in wrong:
        with pytest.raises(sb.SkybandError):
            call()
        assert m.to_bytes() == before


def test_a_first_batch_that_does_not_fit_the_watches_can_be_mended() -> None:
    m = sb.Monitor()
    w = m.watch(OK)
    with pytest.raises(sb.QueryError):
        m.push({"y": [1.0]})
    assert m.rows_seen == 0
    m.push({"x": [1.0]})
    assert w.top()["seq"].to_pylist() == [0]


def test_a_dropped_watch_says_so() -> None:
    m = sb.Monitor()
    w = m.watch(OK, name="a")
    m.drop("a")
    with pytest.raises(sb.SkybandError, match="dropped"):
        w.top()


@pytest.mark.parametrize("value", [[1], {"a": 1}])
def test_a_key_that_can_be_none_stops_no_other_watch(value: Any) -> None:
    m = sb.Monitor()
    w = m.watch(OK)
    m.watch(GROUPED, name="grouped")
    with pytest.raises(sb.QueryError, match=r"GROUP BY can't take \"id\", which is (list|struct)"):
        m.push([{"x": 1.0, "id": value}])
    assert m.rows_seen == 0 and w.top().num_rows == 0
    m.push([{"x": 1.0, "id": 1}])
    assert w.top()["seq"].to_pylist() == [0] and m.watches["grouped"].top()["id"].to_pylist() == [1]
