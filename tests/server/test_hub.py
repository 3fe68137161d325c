"""The ring of changes, without a server: places, messages, and what is missed."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.engine.report import COLUMNS
from skyband.server import hub as hubs
from skyband.server.client import _changes
from skyband.server.hub import Entry, Hub, change_texts
from skyband.stream.arrow import json_value


def table(*rows: tuple[str, str, int | None, float]) -> pa.Table:
    types = [
        pa.string(),
        pa.string(),
        pa.int32(),
        pa.float64(),
        pa.int64(),
        pa.int64(),
        pa.string(),
        pa.float64(),
    ]
    full = [(*row, 7, None, None, None) for row in rows]
    return pa.table([pa.array([row[n] for row in full], types[n]) for n in range(8)], names=COLUMNS)


def step(offset: int, *queries: str) -> Entry:
    return Entry(offset, table(*((query, "enter", 1, float(offset)) for query in queries)))


def run(hub: Hub, place: int, query: str | None = None) -> tuple[int, Any]:
    async def ask() -> tuple[int, str | None]:
        hub.attach(asyncio.get_running_loop())
        return await hub.next(place, None if query is None else frozenset([query]))

    reached, text = asyncio.run(ask())
    return reached, None if text is None else json.loads(text)


def make(most: int = 100) -> Hub:
    return Hub(most, lambda query: (hub_offset[0], {"q": [{"rank": 1}]}))


hub_offset = [0]


def test_a_reader_gets_what_came_after_its_place() -> None:
    hub = make()
    for offset in range(1, 6):
        hub.add(offset, step(offset, "q" if offset % 2 else "other") if offset != 4 else None)
    reached, message = run(hub, 0)
    assert reached == message["offset"] == 5
    assert [change["score"] for change in message["changes"]] == [1.0, 2.0, 3.0, 5.0]
    assert run(hub, 3)[1]["changes"][0]["score"] == 5.0
    assert [change["score"] for change in run(hub, 1, "q")[1]["changes"]] == [3.0, 5.0]
    assert run(hub, 5) == (5, None)
    assert run(hub, 0, "none") == (5, None)


def test_who_fell_behind_is_told_and_gets_the_answers() -> None:
    hub = make(most=4)
    for offset in range(1, 11):
        hub.add(offset, step(offset, "q"))
    hub_offset[0] = 10
    assert hub.first > 2
    for place in (0, hub.first - 1, 99):  # too old, or of another journal
        reached, message = run(hub, place)
        assert reached == 10
        assert message == {"missed": {"from": place, "to": 10}, "offset": 10, "tops": {"q": [{"rank": 1}]}}
    assert hub.missed == 3
    assert [change["score"] for change in run(hub, hub.first)[1]["changes"]] == [9.0, 10.0]


def test_a_long_way_back_comes_in_parts(monkeypatch: Any) -> None:
    monkeypatch.setattr(hubs, "AT_ONCE", 3)
    hub = make()
    for offset in range(1, 11):
        hub.add(offset, step(offset, "q", "q"))
    place, seen = 0, []
    while place < 10:
        place, message = run(hub, place)
        assert len(message["changes"]) <= 4
        seen += [change["score"] for change in message["changes"]]
    assert seen == [float(offset) for offset in range(1, 11) for _ in range(2)]


def test_queries_that_come_and_go_are_told() -> None:
    hub = make()
    event = {"name": "q", "event": "added", "offset": 1}
    hub.add(1, Entry(1, table(), event))
    assert run(hub, 0)[1] == {"offset": 1, "changes": [], "queries": [event]}
    assert run(hub, 0, "q")[1]["queries"] == [event]
    assert run(hub, 0, "other") == (1, None)


def test_readers_are_woken() -> None:
    hub = make()

    async def follow() -> list[int]:
        hub.attach(asyncio.get_running_loop())
        hub.readers = 1
        seen = []
        for offset in range(1, 4):
            asyncio.get_running_loop().call_later(0.01, hub.add, offset, step(offset, "q"))
            await hub.wait(offset - 1, None)
            seen.append(hub.offset)
        asyncio.get_running_loop().call_later(0.01, hub._beat)
        await hub.wait(3, None)
        hub.close()
        await hub.wait(3, None)
        return seen

    assert asyncio.run(follow()) == [1, 2, 3]


def test_a_reader_is_woken_only_for_its_queries_and_misses_nothing_meanwhile() -> None:
    hub = make(most=4)

    async def follow() -> None:
        hub.attach(asyncio.get_running_loop())
        hub.readers = 2
        own = frozenset(["own"])
        all_of_it = asyncio.create_task(hub.wait(0, None))
        quiet = asyncio.create_task(hub.wait(0, own))
        await asyncio.sleep(0)
        for offset in range(1, 21):  # the ring holds few of them
            hub.add(offset, step(offset, "other"))
            await asyncio.sleep(0.002)
        assert await all_of_it < 3 and not quiet.done()
        assert hub.first > 10
        hub.add(21, step(21, "own"))
        place = await quiet
        assert place == 20
        reached, text = await hub.next(place, own)
        assert reached == 21 and text is not None and "missed" not in text and '"own"' in text

    asyncio.run(asyncio.wait_for(follow(), 60))


@given(
    st.lists(
        st.tuples(
            st.text(st.characters(codec="utf-8"), max_size=5),
            st.sampled_from(["leave", "enter"]),
            st.none() | st.integers(1, 2**31 - 1),
            st.floats(allow_nan=False),
        ),
        max_size=5,
    )
)
def test_changes_as_text_are_the_changes(rows: list[tuple[str, str, int | None, float]]) -> None:
    changes = table(*rows)
    texts = change_texts(changes)
    assert [name for name, _ in texts] == changes.column("query").to_pylist()
    told = [json.loads(text) for _, text in texts]
    assert [change["score"] for change in told] == [json_value(row[3]) for row in rows]
    back = _changes(told)
    for name in COLUMNS[:-1]:
        assert back.column(name).to_pylist() == changes.column(name).to_pylist()


@pytest.mark.parametrize(
    "time",
    [
        pa.array([1.5, None]),
        pa.array([datetime(2024, 5, 1, 10, tzinfo=UTC), None], pa.timestamp("us", "UTC")),
        pa.array([datetime(2024, 5, 1, 10, 0, 0, 7), None], pa.timestamp("us")),
        pa.nulls(2, pa.timestamp("us", "UTC")),
    ],
    ids=str,
)
def test_times_pairs_and_objects_come_back(time: pa.Array) -> None:
    changes = table(("q", "enter", 1, 2.0), ("q", "leave", None, float("inf")))
    changes = changes.set_column(4, "seq", pa.array([7, None], pa.int64()))
    changes = changes.set_column(5, "seq_b", pa.array([8, None], pa.int64()))
    changes = changes.set_column(6, "id", pa.array([None, '["ä"]'], pa.string())).set_column(7, "time", time)
    back = _changes([json.loads(text) for _, text in change_texts(changes)])
    assert back.to_pylist() == changes.to_pylist()
