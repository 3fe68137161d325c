"""`scan` answers until compiled code is there, and hands over: no answer and no change differs, nothing is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import Twin

import skyband as sb
from skyband.compiling import background
from skyband.engine import monitor as monitors
from skyband.engine import replanning, stream_runtime, warming
from skyband.engine.planner import Choice, Facts, choose, kind_of

SOURCE = Path(__file__).resolve().parents[2] / "src"
TOPK = ("ra", "sa", "lazy", "tma", "sma", "heightmap", "snn")


@given(data=st.data())
@pytest.mark.parametrize("kind", ["none", "number", "timestamp"])
def test_no_answer_and_no_change_differs(kind: str, data: st.DataObject) -> None:
    """Code comes at any step, of any algorithm, for queries that come, change and go."""
    timed = kind != "none"
    drawn = {"topk": "ra", "threshold": "threshold"}

    def planned(query: Any, facts: Facts | None = None) -> Choice:
        found = choose(query, facts)
        return found if query.options else Choice(drawn[kind_of(query)], {}, "drawn")

    twin = Twin(kind)
    ready: set[str] = set()
    asked: set[str] = set()
    with pytest.MonkeyPatch.context() as patch:
        for module in (monitors, stream_runtime, replanning):
            patch.setattr(module, "choose", planned)
        patch.setattr(replanning, "halves", lambda *_: False)
        patch.setattr(background, "is_on", lambda: True)
        patch.setattr(background, "is_ready", lambda key: key in ready)
        patch.setattr(background, "request", lambda key, content: asked.add(key))
        questions = data.draw(st.lists(draws.questions(timed, [None]), min_size=1, max_size=4))
        more = data.draw(st.lists(draws.questions(timed, [None, "scan"]), max_size=2))
        for number, question in enumerate([*questions, *more[:1]]):
            twin.watch(f"q{number}", question)
        for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
            drawn = {
                "topk": data.draw(st.sampled_from(TOPK)),
                "threshold": data.draw(st.sampled_from(("threshold", "tma"))),
            }
            twin.push(batch)
            what = data.draw(st.sampled_from(["", "", "ready", "ready", "reload", "change", "watch", "drop"]))
            if what == "ready":
                ready |= asked
            elif what == "reload":
                twin.reload()
            elif what == "watch" and more[1:]:
                twin.watch("more", more.pop())
            elif what == "change" and twin.questions:
                name = data.draw(st.sampled_from(sorted(twin.questions)))
                if twin.questions[name].k is not None:
                    twin.change(name, k=data.draw(st.integers(1, 9)))
            elif what == "drop" and len(twin.questions) > 1:
                twin.drop(data.draw(st.sampled_from(sorted(twin.questions))))


def rows(count: int, first: int) -> pa.Table:
    random = np.random.default_rng((3, first))
    letters = np.array(["a", "b"])[random.integers(0, 2, count)]
    return pa.table({"x": random.random(count), "y": random.random(count), "g": letters})


def waiting(patch: pytest.MonkeyPatch) -> set[str]:
    """Compiled code comes when the test says so: the keys of what is there."""
    ready: set[str] = set()
    patch.setattr(background, "is_on", lambda: True)
    patch.setattr(background, "is_ready", lambda key: "all" in ready or key in ready)
    patch.setattr(background, "request", lambda key, content: None)
    return ready


def test_the_plan_says_what_answers_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = waiting(monkeypatch)
    monitor, plain = sb.Monitor(), sb.Monitor()
    sql = "SELECT g, x FROM s WHERE x > 0.2 ORDER BY x + y DESC LIMIT 5 WINDOW 100 ROWS"
    watch = monitor.watch(sql)
    named = monitor.watch(sql + " WITH (algorithm = 'ra')")
    other = plain.watch(sql + " WITH (algorithm = 'tma')")
    for step in range(9):
        if step == 5:
            ready.add("all")
        batch = rows(40, step)
        changes = monitor.push(batch)
        assert plain.push(batch).num_rows * 2 == changes.num_rows
        assert watch.top().equals(other.top()) and named.top().equals(other.top())
        plan = watch.explain()
        assert plan.algorithm == "ra" and plan.replans == 0
        notes = ["scan answers until the compiled code of ra is there"] * (step < 5)
        assert [note for note in plan.notes if "scan" in note] == notes
        assert plan.keeps_window == (step < 5)
        assert not [note for note in named.explain().notes if "scan" in note]


def test_beyond_a_size_the_plan_says_that_steps_are_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting(monkeypatch)
    monitor = sb.Monitor()
    for number in range(3):
        monitor.watch(f"SELECT x FROM s ORDER BY {number + 1} * x + y DESC LIMIT 5 WINDOW 5000000 ROWS")
    monitor.push(rows(40, 0))
    (note,) = [n for n in monitor.watches["query1"].explain().notes if "scan" in n]
    assert note.endswith("; steps are slower until then (5,000,000 rows times 3 queries)")


def test_a_stream_of_updates_has_a_stand_in_too(monkeypatch: pytest.MonkeyPatch) -> None:
    ready = waiting(monkeypatch)
    sql = "SELECT k, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 50 ROWS"
    monitor, plain = sb.Monitor(key="k", op="op"), sb.Monitor(key="k", op="op")
    watch, other = monitor.watch(sql), plain.watch(sql + " WITH (algorithm = 'tma')")
    random = np.random.default_rng(1)
    for step in range(20):
        if step == 10:
            ready.add("all")
        batch = pa.table(
            {
                "k": random.integers(0, 30, 10),
                "x": random.random(10),
                "op": random.choice(["insert", "update", "delete"], 10),
            }
        )
        assert monitor.push(batch).to_pylist() == plain.push(batch).to_pylist()
        assert watch.top().equals(other.top())
        monitor._check()
        assert any("scan" in note for note in watch.explain().notes) == (step < 10)


def test_made_up_rows_fit_predicates_on_texts() -> None:
    """Else no list and no map of such a query is ever filled where its code is compiled, but where rows are pushed."""
    sql = "SELECT x FROM s WHERE g = 'ä' OR g IN ('b', 'c') ORDER BY x LIMIT 3 WINDOW 50 ROWS"
    schema = pa.schema({"x": pa.float64(), "g": pa.string()})
    monitor = sb.Monitor(schema=schema)
    watch = monitor.watch(sql)
    tables = list(warming._tables(schema, monitor, [watch.query], [40, 1]))
    assert {text for table in tables for text in table["g"].to_pylist()} == {"ä", "b", "c"}
    for table in tables:
        monitor.push(table)
    assert watch.top().num_rows == 3


EMPTY = """
import time
import numpy as np
import skyband as sb
from skyband.compiling import background, dispatcher

random = np.random.default_rng(1)
m = sb.Monitor()
watch = m.watch("SELECT x FROM s ORDER BY x + y DESC LIMIT 3 WINDOW 50 ROWS")
sums = m.watch("SELECT id, SUM(z) FROM s GROUP BY id ORDER BY SUM(z) DESC LIMIT 2 WINDOW 50 ROWS")
pairs = m.watch("SELECT a.x FROM s a, s b WHERE a.id < b.id ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 50 ROWS")
rows, end, after = [], time.monotonic() + 500, 0
while time.monotonic() < end and after < 20:
    x, y = random.random((2, 10))
    id, z = random.integers(0, 9, (2, 10))
    batch = {"x": x, "y": y, "id": id, "z": z}
    rows = [*rows, *zip(*(column.tolist() for column in batch.values()))][-50:]
    m.push(batch)
    assert watch.top()["score"].to_pylist() == sorted((x + y for x, y, *_ in rows), reverse=True)[:3]
    totals = {}
    for *_, id, z in rows:
        totals[id] = totals.get(id, 0) + z
    assert sums.top()["score"].to_pylist() == sorted(totals.values(), reverse=True)[:2]
    gaps = [abs(a[0] - b[0]) for i, a in enumerate(rows) for b in rows[:i] if a[2] != b[2]]
    assert pairs.top()["score"].to_pylist() == sorted(gaps)[:2]
    after += not background.is_busy()
    time.sleep(0.01)
notes = [note for w in m.watches.values() for note in w.explain().notes if "compiled" in note]
print(sum(dispatcher.compilations.values()), notes, watch.group.algorithm_name)
"""


@pytest.mark.timeout(900)
def test_nothing_is_compiled_where_rows_are_pushed(tmp_path: Path) -> None:
    """On an empty cache: another process compiles, and the family is handed over. The second time all is there."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(SOURCE), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "SKYBAND_CACHE": str(tmp_path),
        "SKYBAND_COMPILE": "",
        "NUMBA_DISABLE_JIT": "0",
        "NUMBA_OPT": "1",
    }
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", EMPTY], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert (done.stdout, done.stderr) == ("0 [] ra\n", "")
