"""Update streams against the oracle after every step: whatever is inserted, updated and deleted, however it is cut."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import run_state_machine_as_test
from tests import strategies as draws
from tests.algorithms.plain import Plain
from tests.test_machine import Machine
from tests.twin import TIMES, Question, Twin

import skyband as sb
from skyband.algorithms import CARDS, REGISTRY, WINDOWED

NAMES = ["plain", *(name for name, kind in WINDOWED.items() if not kind.card.fifo)]
SCORES = ["x", "x + y", "2 * x - y"]
KEYS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int": (pa.int64(), [1, 2, 3, -4, 5]),
    "text": (pa.string(), ["a", "b", "c", ""]),
}
WORDS = ["insert", "insert", "UPDATE", "u", "c", "r", "delete", "Delete", "d", "d"]


@pytest.fixture(autouse=True, scope="module")
def _plain() -> Iterator[None]:
    REGISTRY["plain"], CARDS["plain"] = Plain, Plain.card
    yield
    del REGISTRY["plain"], CARDS["plain"]


def changed(
    rows: list[dict[str, Any]], keys: Sequence[Any], words: Sequence[str | None]
) -> list[dict[str, Any]]:
    """Rows with keys and operations; a delete has nothing but its key, and sometimes a time."""
    made = []
    for number, (row, key, word) in enumerate(zip(rows, keys, words, strict=True)):
        new = {**row, "id": key, "op": word}
        if word is not None and word.lower() in ("d", "delete"):
            new |= {"x": None, "y": None, "c": None}
            if "t" in row and number % 3 == 0:
                new["t"] = None
        made.append(new)
    return made


@st.composite
def updates(
    draw: st.DrawFn, timed: bool, values: Sequence[Any], op: bool = True, size: int = 24, back: int = 4
) -> list[dict[str, Any]]:
    rows = draw(draws.rows(timed, size=size, back=back))
    wrong = draw(st.booleans())
    some = st.sampled_from([*values, *([None] if wrong else [])])
    words = st.sampled_from([*WORDS, *([None, "drop", ""] if wrong else [])])
    n = len(rows)
    made = changed(
        rows, draw(st.lists(some, min_size=n, max_size=n)), draw(st.lists(words, min_size=n, max_size=n))
    )
    return (
        made
        if op
        else [
            {k: v for k, v in {**row, **old}.items() if k != "op"}
            for row, old in zip(made, rows, strict=True)
        ]
    )


def questions(name: str, timed: bool) -> st.SearchStrategy[Question]:
    made = draws.questions(timed, [name])
    return draws.on_an_index(made, name, SCORES).map(
        lambda q: q if q.k is not None else replace(q, algorithm=None)
    )


@given(data=st.data())
@pytest.mark.parametrize(
    ("name", "kind"),
    # what a time column's type changes is the same for all: `plain` sees every one
    [*product(["plain"], sorted(TIMES)), *product(NAMES[1:], ["none", "whole"])],
)
def test_questions_that_come_and_go(name: str, kind: str, data: st.DataObject) -> None:
    timed = kind != "none"
    type_, values = KEYS[data.draw(st.sampled_from(sorted(KEYS)))]
    op = data.draw(st.sampled_from([True, True, False]))
    retain = data.draw(st.sampled_from([None, None, ("rows", 5), ("rows", 99), *[("seconds", 9)] * timed]))
    twin = Twin(kind, retain=retain, key=type_, op=op)
    twin.watch("first", data.draw(questions(name, timed)))
    for number, batch in enumerate(data.draw(updates(timed, values, op).flatmap(draws.cuts))):
        if data.draw(st.booleans()) and len(twin.questions) < 5:
            twin.watch(f"q{number}", data.draw(questions(name, timed)))
        elif data.draw(st.booleans()) and len(twin.questions) > 1:
            twin.drop(sorted(twin.questions)[0])
        twin.push(list(batch))
        if data.draw(st.booleans()):
            twin.reload()
        if timed and data.draw(st.booleans()):
            twin.advance((twin.oracle.now or 0) + data.draw(st.integers(-1, 4)))


@given(data=st.data())
@pytest.mark.parametrize("name", NAMES)
def test_how_it_is_cut_does_not_matter(name: str, data: st.DataObject) -> None:
    """Late rows too: rejected or not, they end the row before them."""
    timed = data.draw(st.booleans())
    rows = data.draw(updates(timed, KEYS["int"][1], size=16, back=9))
    asked = [data.draw(questions(name, timed)), data.draw(questions(name, timed))]
    answers = []
    for batches in (data.draw(draws.cuts(rows)), data.draw(draws.cuts(rows)), [rows]):
        twin = Twin("whole" if timed else "none", key=pa.int64(), op=True)
        for number, question in enumerate(asked):
            twin.watch(f"q{number}", question)
        for batch in batches:
            twin.push(list(batch))
        answers.append([twin.top("q0"), twin.top("q1")])
    assert answers[0] == answers[1] == answers[2]


@given(data=st.data())
def test_rows_stamped_too_far_ahead_change_nothing(data: st.DataObject) -> None:
    twin = Twin("whole", max_ahead=3, key=pa.int64(), op=True)
    twin.watch("q", data.draw(questions("plain", True)))
    twin.watch("beyond", Question("x", None, ("rows", 6)))
    for batch in data.draw(updates(True, KEYS["int"][1]).flatmap(draws.cuts)):
        rows = [
            {**row, "t": None if row["t"] is None else row["t"] * data.draw(st.sampled_from([1, 1, 1, 3]))}
            for row in batch
        ]
        twin.push(rows)


@given(data=st.data())
def test_each_stream_has_its_own_keys(data: st.DataObject) -> None:
    twin = Twin("whole", streams=("r1", "r2"), key=pa.int64(), op=True)
    for name in ("r1", "r2"):
        twin.watch(f"{name} top", replace(data.draw(questions("plain", True)), stream=name))
        twin.watch(f"{name} beyond", Question("x", None, ("rows", 5), stream=name))
    for batch in data.draw(updates(True, [1, 2, 3]).flatmap(draws.cuts)):
        twin.push(list(batch), stream=data.draw(st.sampled_from(["r1", "r2"])))


@pytest.mark.parametrize("name", NAMES)
def test_machine(name: str) -> None:
    """Watch, drop, change, push, advance, save and load in any order, on an update stream."""

    class Updating(Machine):
        algorithm = name
        key, op = pa.int64(), True

        def told(self, row: dict[str, Any], data: st.DataObject) -> dict[str, Any]:
            (made,) = changed([row], [data.draw(st.integers(1, 4))], [data.draw(st.sampled_from(WORDS))])
            return made

    run_state_machine_as_test(Updating, settings=settings())  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("batch", "length", "shape"),
    draws.lengths([(1, 100), (7, 400), (300, 900)], single=("falling", "zigzag")),
)
def test_at_length(name: str, shape: str, batch: int, length: int) -> None:
    """Longer than Hypothesis draws: lists fill and run short many times, keys come back after they left the window."""
    twin = Twin("whole", key=pa.int64(), op=True)
    for label, k, window, descending in [
        ("rows", 3, ("rows", 40), True),
        ("deep", 60, ("rows", 40), True),
        ("time", 3, ("seconds", 25), False),
        ("much", 9, ("seconds", 99), False),
        ("beyond", None, ("seconds", 30), True),
    ]:
        twin.watch(label, Question("x", k, window, descending, algorithm=name if k else None))
    rows = [
        {"x": float(draws.SHAPES[shape](i)), "y": 0.0, "c": "a", "t": i - (i % 5 == 4) * 9}
        for i in range(length)
    ]
    keys = [(i * i) % 37 if i % 3 else i for i in range(length)]
    words = ["d" if (i * 7) % 5 == 2 else "u" for i in range(length)]
    rows = changed(rows, keys, words)
    for start in range(0, length, batch):
        twin.push(rows[start : start + batch])
    counts = twin.monitor.update_counts
    assert all(counts.values()) and sum(counts.values()) == length


# -- in words


def monitor(**more: Any) -> tuple[sb.Monitor, sb.Watch]:
    made = sb.Monitor(key="id", op="op", **more)
    return made, made.watch("SELECT id, x FROM s WHERE x > 0 WINDOW 3 ROWS")


def push(to: sb.Monitor, *rows: tuple[Any, ...]) -> list[tuple[str, int]]:
    names = ("op", "id", "x", "t")
    changes = to.push([dict(zip(names, row, strict=False)) for row in rows])
    return list(zip(changes["change"].to_pylist(), changes["seq"].to_pylist(), strict=True))


def test_a_replacement_is_a_new_arrival() -> None:
    m, w = monitor()
    assert push(m, ("insert", 1, 5.0)) == [("enter", 0)]
    assert push(m, ("update", 1, 7.0)) == [("leave", 0), ("enter", 1)]
    assert w.top().to_pylist() == [{"rank": 1, "score": 7.0, "seq": 1, "id": 1, "x": 7.0}]
    assert push(m, ("insert", 1, 7.0)) == [("leave", 1), ("enter", 2)]  # a known key's insert replaces too


def test_a_deleted_row_keeps_its_place_and_a_delete_has_none() -> None:
    m, w = monitor()
    push(m, ("c", 1, 1.0), ("c", 2, 2.0), ("c", 3, 3.0))
    assert push(m, ("d", 2, None)) == [("leave", 1)]
    assert w.top()["id"].to_pylist() == [3, 1]  # the window holds the rows 0, 1 (deleted) and 2
    assert push(m, ("c", 4, 4.0)) == [("leave", 0), ("enter", 4)]
    assert w.top()["id"].to_pylist() == [4, 3]
    assert m.rows_seen == 5  # a delete has a seq


def test_what_comes_and_goes_in_one_step_is_not_reported() -> None:
    m, w = monitor()
    assert push(m, ("c", 1, 1.0), ("u", 1, 2.0), ("d", 1, None)) == []
    assert push(m, ("c", 1, 1.0), ("d", 1, None), ("c", 1, 3.0), ("u", 1, 4.0)) == [("enter", 6)]
    assert w.top()["x"].to_pylist() == [4.0]


def test_unknown_keys_are_no_error() -> None:
    m, w = monitor()
    push(m, ("c", 1, 1.0))
    assert push(m, ("d", 9, None), ("delete", 1, None), ("D", 1, None)) == [("leave", 0)]
    assert push(m, ("c", 1, 1.0), ("c", 2, 2.0), ("c", 3, 3.0), ("c", 4, 4.0)) == [
        ("enter", i) for i in (7, 6, 5)
    ]
    assert push(m, ("d", 1, None)) == []  # its row has left the window
    assert push(m, ("d", 2, None)) == [("leave", 5)]
    assert m.update_counts == {"new": 5, "replaced": 0, "deleted": 2, "unknown": 3}
    assert w.top()["id"].to_pylist() == [4, 3]


def test_without_op_every_row_is_the_latest_of_its_key() -> None:
    m = sb.Monitor(key="host")
    w = m.watch("SELECT host, load FROM s WHERE load > 0.5 WINDOW 100 ROWS")
    m.push({"host": ["a", "b"], "load": [0.7, 0.9]})
    m.push({"host": ["b"], "load": [0.1]})
    assert w.top()["host"].to_pylist() == ["a"]
    assert m.update_counts == {"new": 2, "replaced": 1, "deleted": 0, "unknown": 0}


def test_arrival_decides_and_not_event_time() -> None:
    m = sb.Monitor(key="id", op="op", time="t")
    w = m.watch("SELECT id, x FROM s WHERE x > 0 WINDOW 10 SECONDS")
    push(m, ("c", 1, 1.0, 100.0), ("c", 2, 2.0, 100.0), ("c", 3, 3.0, 100.0))
    assert push(m, ("u", 1, 1.5, 95.0)) == [("leave", 0), ("enter", 3)]  # stamped earlier, but told later
    assert push(m, ("u", 2, 2.5, 50.0)) == [("leave", 1)]  # too late to be an answer, and rejected; but told
    assert m.reject_counts["late"] == 1
    assert push(m, ("d", 3, None, 50.0)) == [("leave", 2)]  # a delete is never late
    assert w.top()["id"].to_pylist() == [1]


def test_a_delete_tells_the_time_if_it_has_one() -> None:
    m = sb.Monitor(key="id", op="op", time="t")
    m.watch("SELECT id, x FROM s WHERE x > 0 WINDOW 10 SECONDS")
    push(m, ("c", 1, 1.0, 100.0), ("c", 2, 2.0, 105.0))
    assert push(m, ("d", 7, None, 112.0)) == [("leave", 0)]
    assert m.now == 112.0
    assert push(m, ("d", 2, None, None)) == [("leave", 1)]
    assert m.now == 112.0
    assert m.reject_counts == {"type": 0, "time": 0, "late": 0, "ahead": 0, "op": 0, "key": 0, "overtaken": 0}


def test_what_cannot_be_read_is_rejected_and_changes_nothing() -> None:
    m, w = monitor()
    push(m, ("c", 1, 1.0))
    assert (
        push(m, ("drop", 1, 2.0), (None, 1, 2.0), ("u", None, 2.0), ("d", None, None), ("u", 1, "much")) == []
    )
    found = m.rejects().to_pylist()
    assert [(r["seq"], r["reason"], r["detail"]) for r in found] == [
        (1, "op", "column \"op\" says 'drop'; known are insert, update, delete, and c, u, d, r"),
        (2, "op", 'no operation in column "op"'),
        (3, "key", 'no key in column "id"'),
        (4, "key", 'no key in column "id"'),
        (5, "type", "column \"x\" is double in this stream, and 'much' is not"),
    ]
    assert found[0]["raw"] == '{"op": "drop", "id": 1, "x": 2.0}'
    assert m.reject_counts == {"type": 1, "time": 0, "late": 0, "ahead": 0, "op": 2, "key": 2, "overtaken": 0}
    assert w.top()["x"].to_pylist() == [1.0]
    assert push(m, ("d", 1, None)) == [("leave", 0)]


def test_a_deleted_row_does_not_come_back_from_what_is_retained() -> None:
    m = sb.Monitor(key="id", op="op", retain=sb.rows(10))
    push(m, ("c", 1, 1.0), ("c", 2, 2.0), ("d", 1, None), ("c", 3, 3.0), ("u", 3, 0.5))
    m = sb.Monitor.from_bytes(m.to_bytes())
    push(m, ("d", 2, None), ("c", 4, 4.0))
    w = m.watch("SELECT id FROM s WHERE x > 0 WINDOW 4 ROWS")
    assert w.top()["id"].to_pylist() == [4, 3]
    w.change(window="10 rows")
    assert w.top()["id"].to_pylist() == [4, 3]


def test_a_deleted_row_keeps_its_place_among_the_retained_ones_too() -> None:
    m = sb.Monitor(key="id", op="op", time="t", retain=sb.last("100 seconds"))
    push(
        m, ("c", 1, 1.0, 1.0), ("c", 2, 2.0, 2.0), ("c", 3, 3.0, 3.0), ("d", 2, None, 3.0), ("c", 4, 4.0, 4.0)
    )
    w = m.watch("SELECT id FROM s WHERE x > 0 WINDOW 3 ROWS")  # the rows 2, 3 and 4, of which 2 is deleted
    assert w.top()["id"].to_pylist() == [4, 3]
    assert push(m, ("c", 5, 5.0, 5.0)) == [("enter", 4 + 1), ("enter", 4), ("enter", 2)]
    assert push(m, ("c", 6, 6.0, 6.0)) == [("leave", 2), ("enter", 6)]


def test_streams_by_name() -> None:
    m = sb.Monitor(key={"orders": "id"}, op={"orders": "op"}, schema={
        "orders": pa.schema([("id", pa.int64()), ("op", pa.string()), ("x", pa.float64())]),
        "clicks": pa.schema([("id", pa.int64()), ("x", pa.float64())]),
    })  # fmt: skip
    orders = m.watch("SELECT id FROM orders WHERE x > 0 WINDOW 9 ROWS")
    clicks = m.watch("SELECT id FROM clicks ORDER BY x LIMIT 9 WINDOW 9 ROWS")
    m.push({"id": [1, 1], "op": ["c", "u"], "x": [1.0, 2.0]}, stream="orders")
    m.push({"id": [1, 1], "x": [1.0, 2.0]}, stream="clicks")
    assert orders.top()["seq"].to_pylist() == [1]
    assert clicks.top()["seq"].to_pylist() == [2, 3]
    assert clicks.explain().algorithm == "ra"


def test_explain_tells_of_the_keys() -> None:
    m, w = monitor()
    push(m, ("c", 1, 1.0), ("c", 2, 1.0), ("d", 1, None))
    assert "also kept  the live row of each of 1 keys: " in str(w.explain())


def test_what_is_chosen() -> None:
    m = sb.Monitor(key="id", op="op")
    best = m.watch("SELECT id FROM s ORDER BY x DESC LIMIT 2 WINDOW 4 ROWS")
    beyond = m.watch("SELECT id FROM s WHERE x > 0 WINDOW 4 ROWS")
    push(m, ("c", 1, 1.0), ("c", 2, 2.0), ("c", 3, 3.0), ("d", 3, None))
    assert (best.explain().algorithm, beyond.explain().algorithm) == ("tma", "threshold")
    assert "no row makes another superfluous" in best.explain().why
    assert best.top()["id"].to_pylist() == [
        2,
        1,
    ]  # the best of what is left, though both came before what is gone


@pytest.mark.parametrize("algorithm", sorted(name for name, kind in REGISTRY.items() if kind.card.fifo))
def test_algorithms_that_need_first_in_first_out_are_refused(algorithm: str) -> None:
    m = sb.Monitor(key="id")
    sql = f"SELECT id FROM s ORDER BY x LIMIT 2 WINDOW 9 ROWS WITH (algorithm = '{algorithm}')"
    with pytest.raises(
        sb.QueryError, match=r"first in, first out.*any row may be replaced or deleted\. Take "
    ):
        m.watch(sql)
    m.push({"id": [1], "x": [1.0]})
    with pytest.raises(
        sb.QueryError, match=r"first in, first out.*any row may be replaced or deleted\. Take "
    ):
        m.watch(sql)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ({"op": "op"}, "op= needs key= too: the column that tells which row is updated or deleted."),
        (
            {"op": {"a": "op"}, "key": {"b": "id"}},
            'op= of stream "a" needs key= too: the column that tells which row is updated or deleted.',
        ),
        ({"key": 3}, "key= must be the name of a column, or one for each stream by name, not 3."),
        (
            {"key": ["a", "b"]},
            "key= must be the name of a column, or one for each stream by name, not ['a', 'b'].",
        ),
        ({"key": ""}, "key= must be the name of a column, or one for each stream by name, not ''."),
    ],
)
def test_wrong_arguments(made: dict[str, Any], words: str) -> None:
    with pytest.raises(sb.InputError) as error:
        sb.Monitor(**made)
    assert str(error.value) == words


def test_columns_that_are_not_there() -> None:
    m = sb.Monitor(key="id", op="op")
    with pytest.raises(sb.InputError, match="There is no column id"):
        m.push({"ids": [1], "op": ["c"]})
    with pytest.raises(sb.InputError, match="There is no column op"):
        m.push({"id": [1], "x": [1.0]})
    with pytest.raises(sb.InputError, match='The op column "op" is int64; it must be a text'):
        m.push({"id": [1], "op": [1]})
    assert m.push({"id": [1], "op": [None]}).num_rows == 0  # nothing known of the type: texts
    m.push({"id": [1, 2, 3], "op": ["c", None, 7]})
    assert m.reject_counts == {"type": 1, "time": 0, "late": 0, "ahead": 0, "op": 2, "key": 0, "overtaken": 0}
