"""The dashboard's WebSocket: the newest state, whatever a reader does."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.websockets import WebSocketDisconnect

from skyband.server import live as module
from skyband.server.guard import Scope
from skyband.server.live import Live, live
from skyband.server.problems import no_query


class Source:
    """Answers that say how often they were asked for."""

    def __init__(self, *names: str) -> None:
        self.offset = 0
        self.names = list(names)
        self.asked: list[str] = []

    def stats(self) -> dict[str, Any]:
        return {"rows": self.offset}

    def streams(self) -> list[dict[str, Any]]:
        return [{"name": "s"}, {"name": "other"}]

    def queries(self) -> list[dict[str, Any]]:
        return [{"name": name} for name in self.names]

    def top(self, name: str, most: int) -> dict[str, Any]:
        if name not in self.names:
            raise no_query(name)
        self.asked.append(name)
        return {"columns": ["rank"], "rows": [{"rank": 1, "offset": self.offset}]}


def state_of(state: Live, show: list[str] | None = None) -> dict[str, Any]:
    return dict(json.loads(state.text(show)[1]))


def test_an_answer_is_written_anew_only_if_it_has_changed() -> None:
    source = Source("a", "b")
    state = Live(source)
    assert set(state_of(state)["tops"]) == {"a", "b"}
    state_of(state)
    assert source.asked == ["a", "b"]
    state.step(["b"])
    state_of(state)
    assert source.asked == ["a", "b", "b"]
    state.step(None)
    state_of(state)
    assert source.asked == ["a", "b", "b", "a", "b"]


def test_what_is_shown_is_what_was_asked_for() -> None:
    source = Source(*(f"q{i}" for i in range(40)))
    state = Live(source)
    assert len(state_of(state)["tops"]) == module.SHOWN
    assert list(state_of(state, ["q39", "q1", "gone"])["tops"]) == ["q39", "q1"]
    assert len(state_of(state, source.names)["tops"]) == module.MOST_SHOWN
    assert len(state_of(state)["queries"]) == 40


def test_a_token_for_some_streams_sees_those() -> None:
    state = Live(Source("a"))
    assert [each["name"] for each in state_of(state)["streams"]] == ["s", "other"]
    _, text = state.text(None, Scope(streams=frozenset(["s"])))
    assert [each["name"] for each in json.loads(text)["streams"]] == ["s"]


def test_a_query_dropped_meanwhile_is_left_out() -> None:
    source = Source("a", "b")
    state = Live(source, clock=lambda: 0.0)  # what is said of all together is kept for a moment
    state_of(state)
    source.names.remove("a")
    state._tops = {}
    assert list(state_of(state)["tops"]) == ["b"]


def test_a_step_while_an_answer_is_written_is_not_missed() -> None:
    source = Source("a")
    state = Live(source)
    write = source.top

    def slow(name: str, most: int) -> dict[str, Any]:
        answer = write(name, most)
        source.offset += 1
        state.step(["a"])  # the answer that is being written has not seen it
        return answer

    source.top = slow  # type: ignore[method-assign]
    assert state_of(state)["tops"]["a"]["rows"][0]["offset"] == 0
    source.top = write  # type: ignore[method-assign]
    assert state_of(state)["tops"]["a"]["rows"][0]["offset"] == 1


class Reader:
    """A page at the other end: what it was sent, and what it says."""

    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []
        self.words: asyncio.Queue[str | None] = asyncio.Queue()

    async def send_text(self, text: str) -> None:
        self.sent.append(json.loads(text))

    async def receive_text(self) -> str:
        word = await self.words.get()
        if word is None:
            raise WebSocketDisconnect(1000)
        return word

    def say(self, word: Any) -> None:
        self.words.put_nowait(word if word is None or isinstance(word, str) else json.dumps(word))

    async def has(self, count: int) -> None:
        while len(self.sent) < count:
            await asyncio.sleep(0.01)


async def settle(steps: int = 30) -> None:
    for _ in range(steps):
        await asyncio.sleep(0.01)


def test_a_reader_that_has_not_seen_the_last_state_is_sent_nothing_and_then_the_newest() -> None:
    async def story() -> None:
        source = Source("a")
        state, reader = Live(source), Reader()
        reading = asyncio.create_task(live(reader, state))  # type: ignore[arg-type]
        await reader.has(1)
        assert state.readers == 1
        reader.say({"seen": 0})
        source.offset = 1
        state.step(["a"])
        await reader.has(2)
        for offset in range(2, 50):  # it is busy drawing
            source.offset = offset
            state.step(["a"])
        await settle()
        assert len(reader.sent) == 2
        reader.say({"seen": 1})
        await reader.has(3)
        assert reader.sent[2]["tops"]["a"]["rows"][0]["offset"] == 49
        for nonsense in ("no json", "[]", '{"show": 3}', '{"show": [3]}'):
            reader.say(nonsense)
        reader.say({"show": [], "seen": 49})
        await reader.has(4)
        assert reader.sent[3]["tops"] == {}
        reader.say(None)
        await reading
        assert state.readers == 0

    asyncio.run(asyncio.wait_for(story(), 60))


def test_a_reader_that_cannot_be_written_to_is_let_go() -> None:
    async def story() -> None:
        state, reader = Live(Source("a")), Reader()

        async def broken(text: str) -> None:
            raise RuntimeError("gone")

        reader.send_text = broken  # type: ignore[method-assign]
        await live(reader, state)  # type: ignore[arg-type]
        assert state.readers == 0

    asyncio.run(asyncio.wait_for(story(), 60))
