"""Two runs that must agree: other cuts, other orders of arrival, save and load at every step."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import TIMES, Question, Twin

import skyband as sb

QUESTIONS = {"rows": ("rows", 5), "time": ("seconds", 4), "deep": ("rows", 9)}


def watched(kind: str, algorithm: str | None) -> Twin:
    twin = Twin(kind)
    for name, window in QUESTIONS.items():
        if kind != "none" or window[0] == "rows":
            k = 8 if name == "deep" else 2
            twin.watch(name, Question("x", k, window, algorithm=algorithm))
            twin.watch(name + " of a", Question("x + y", k, window, False, "c = 'a'", algorithm=algorithm))
    return twin


def answers(twin: Twin, without_seq: bool = False) -> dict[str, Any]:
    dropped = ["seq"] if without_seq else []
    return {n: w.top().drop_columns(dropped).to_pydict() for n, w in twin.monitor.watches.items()}


@given(data=st.data(), algorithm=st.sampled_from([None, "sa", "ra"]))
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=[pytest.mark.soak] * (kind in ("number", "whole"))) for kind in sorted(TIMES)],
)
def test_other_cuts_give_the_same_tops(kind: str, data: st.DataObject, algorithm: str | None) -> None:
    rows = data.draw(draws.rows(kind != "none"))
    ends = []
    for _ in range(2):
        twin = watched(kind, algorithm)
        for batch in data.draw(draws.cuts(rows)):
            twin.push(batch)
        ends.append(answers(twin))
    assert repr(ends[0]) == repr(ends[1])  # repr, as NaN is not equal to itself


@given(data=st.data(), algorithm=st.sampled_from([None, "sa", "ra"]))
def test_other_orders_of_arrival_give_the_same_tops(data: st.DataObject, algorithm: str | None) -> None:
    """With distinct times nothing depends on seq, so rows are compared, not seqs."""
    rows = data.draw(draws.rows(True, missing=False))
    rows = [{**row, "t": 3 * i + i % 2} for i, row in enumerate(rows)]
    ends = []
    for order in (rows, data.draw(st.permutations(rows))):
        twin = watched("number", algorithm)
        for batch in data.draw(draws.cuts(order)):
            twin.push(batch)
        ends.append(answers(twin, without_seq=True))
    assert repr(ends[0]) == repr(ends[1])


def bytes_of(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


@given(data=st.data(), algorithm=st.sampled_from([None, "sa", "ra"]))
@pytest.mark.parametrize("kind", ["none", "timestamp"])
def test_save_and_load_at_every_step_changes_nothing(
    kind: str, data: st.DataObject, algorithm: str | None
) -> None:
    """What follows a load is byte for byte what follows without it, the next snapshot included."""
    rows = data.draw(draws.rows(kind != "none"))
    through, saved = watched(kind, algorithm), watched(kind, algorithm)
    for batch in data.draw(draws.cuts(rows)):
        assert bytes_of(through.push(batch)) == bytes_of(saved.push(batch))
        saved.reload()
        assert saved.monitor.to_bytes() == through.monitor.to_bytes()
        assert repr(answers(through)) == repr(answers(saved))
        assert saved.monitor.rejects().equals(through.monitor.rejects())


def test_save_and_load_through_a_file(tmp_path: Any) -> None:
    twin = watched("timestamp", None)
    rows = [{"x": float(i * 7 % 5), "y": 1.0, "c": "a", "t": i} for i in range(40)]
    twin.push(rows[:20])
    twin.monitor.save(tmp_path / "m")
    twin.monitor = sb.Monitor.load(str(tmp_path / "m"))
    assert list(twin.monitor.watches) == list(twin.questions)
    twin.push(rows[20:])
