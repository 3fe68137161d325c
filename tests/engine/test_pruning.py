"""Rows sifted in parts elsewhere and pushed as one step give what pushing them whole gives."""

from __future__ import annotations

import pickle
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import strategies as draws
from tests.twin import TIMES, Question, Twin

from skyband.engine import pruning as sift
from skyband.engine.pruning import Sifted, joined


def sifted_push(twin: Twin, rows: list[dict[str, Any]], cuts: list[Any], prune: bool) -> pa.Table:
    """One step through the door of the executors: each part alone, over the wire and back."""
    sifter = pickle.loads(pickle.dumps(twin.monitor.sifter()))
    parts = []
    for part in cuts:
        table = pa.Table.from_pylist([twin._typed(row) for row in part], schema=twin.schema)
        sifted = sifter.sift(table, prune)
        assert sifted.count == len(part) and sifted.kept <= len(part)
        parts.append(Sifted.from_bytes(sifted.to_bytes()))
    changes = twin.monitor.push_sifted([(None, parts)])
    twin._compare(changes, twin.oracle.push(rows))
    return changes


def gated_push(twin: Twin, rows: list[dict[str, Any]], cuts: list[Any]) -> None:
    """One step whose older parts have to pass the gates of its newest one."""
    from skyband.stream.batches import read
    from skyband.stream.validation import accept

    sifter = twin.monitor.sifter()
    tables = [
        pa.Table.from_pylist([twin._typed(row) for row in part], schema=twin.schema) for part in cuts if part
    ]
    if not sifter.can_prune or not tables:
        sifted_push(twin, rows, cuts, True)
        return
    *older, newest = [accept(sifter.door, *read(table)) for table in tables]
    kept, gates = sifter.opened(newest)
    assert kept.table.equals(sifter.pruned(newest).part.table)
    whole = sifter.pruned(joined([*(sifter.thinned(part, gates) for part in older), kept]))
    assert whole.count == len(rows)
    changes = twin.monitor.push_sifted([(None, [Sifted.from_bytes(whole.to_bytes())])])
    twin._compare(changes, twin.oracle.push(rows))


@given(data=st.data(), prune=st.booleans())
@pytest.mark.parametrize("kind", sorted(TIMES))
def test_sifted_parts_equal_the_oracle(kind: str, data: st.DataObject, prune: bool) -> None:
    timed = kind != "none"
    retain = data.draw(st.sampled_from([None, None, ("rows", 5)]))
    twin = Twin(kind, retain=retain)
    for i, question in enumerate(data.draw(st.lists(draws.questions(timed), min_size=1, max_size=4))):
        twin.watch(f"q{i}", question)
    for batch in data.draw(draws.rows(timed).flatmap(draws.cuts)):
        way = data.draw(st.sampled_from(["whole", "parts", "large parts", "gates"]))
        if way == "whole":
            twin.push(batch)
        elif way == "parts":
            sifted_push(twin, batch, data.draw(draws.cuts(batch)), prune)
        elif way == "large parts":  # of which the older rows meet the gates of the newest
            with patch.object(sift, "_HEAD", data.draw(st.integers(1, 3))):
                sifted_push(twin, batch, data.draw(draws.cuts(batch)), True)
        else:
            gated_push(twin, batch, data.draw(draws.cuts(batch)))


@given(data=st.data())
def test_a_watch_that_comes_after_a_pruned_step(data: st.DataObject) -> None:
    """Beginnings, row windows and `now` go by all rows, those that did not travel included."""
    twin = Twin("whole")
    twin.watch("first", data.draw(draws.questions(True)))
    for number, batch in enumerate(data.draw(draws.rows(True).flatmap(draws.cuts))):
        sifted_push(twin, batch, data.draw(draws.cuts(batch)), True)
        if number == 1:
            twin.watch("second", data.draw(draws.questions(True)))
        if number == 2:
            twin.change("first", window=data.draw(draws.windows(True).filter(lambda w: w[0] == "seconds")))


def test_most_rows_do_not_travel() -> None:
    twin = Twin("number")
    twin.monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 5 WINDOW 1 HOUR", name="q")
    random = np.random.default_rng(0)
    table = pa.table({"x": random.random(20_000), "t": np.arange(20_000.0), "c": ["a"] * 20_000})
    sifter = twin.monitor.sifter()
    assert sifter.can_prune
    sifted = sifter.sift(table, True)
    assert sifted.kept < 200
    assert len(sifted.to_bytes()) < 20_000
    assert sifter.sift(table, False).kept == 20_000
    twin.monitor.push_sifted([(None, [sifted])])
    assert twin.monitor.rows_seen == 20_000
    assert twin.monitor.now == 19_999


def test_with_max_ahead_nothing_is_pruned() -> None:
    twin = Twin("number", max_ahead=5)
    twin.monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 5 WINDOW 1 HOUR", name="q")
    sifter = twin.monitor.sifter()
    assert not sifter.can_prune
    table = pa.table({"x": [1.0, 2.0, 3.0], "t": [1.0, 2.0, 3.0]})
    assert sifter.sift(table, True).kept == 3


def test_max_ahead_over_parts() -> None:
    """Which rows are ahead is decided over the whole step, not part by part."""
    twin = Twin("whole", max_ahead=3)
    twin.watch("q", Question("x", 3, ("seconds", 9)))
    rows = [{"x": 1.0, "y": 1.0, "c": "a", "t": t} for t in (0, 2, 4, 5, 20, 8)]
    twin.push(rows[:1])
    sifted_push(twin, rows[1:], [rows[1:2], rows[2:4], rows[4:]], False)


@given(data=st.data())
def test_update_streams_travel_whole(data: st.DataObject) -> None:
    """Deletes and late rows too, for they end other rows."""
    timed = data.draw(st.booleans())
    twin = Twin("whole" if timed else "none", key=pa.int64(), op=True)
    for i, window in enumerate(data.draw(st.lists(draws.windows(timed), min_size=1, max_size=3))):
        twin.watch(f"q{i}", Question("x", None, window))
    assert not twin.monitor.sifter().can_prune
    told = st.tuples(st.sampled_from([1, 2, 3, None]), st.sampled_from(["c", "u", "d", "d", "x"]))
    rows = [
        {**row, **dict(zip(("id", "op"), data.draw(told), strict=True))}
        for row in data.draw(draws.rows(timed))
    ]
    for batch in data.draw(draws.cuts(rows)):
        if data.draw(st.booleans()):
            twin.push(list(batch))
        else:
            sifted_push(twin, list(batch), data.draw(draws.cuts(batch)), True)
