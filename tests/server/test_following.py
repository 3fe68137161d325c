"""Changes over WebSocket and as server-sent events: resumed, slow, vanishing, many."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.asyncio.client import connect as open_sockets
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

from skyband.server.run import room_for
from skyband.server.testing import Running

from .test_http import problem, push

SQL = "SELECT id FROM s ORDER BY v DESC LIMIT 2 WINDOW 5 ROWS"


@contextlib.contextmanager
def following(server: Running, given: str = "", **how: Any) -> Iterator[ClientConnection]:
    url = "ws" + server.url.removeprefix("http")
    with open_socket(f"{url}/api/changes?{given}", max_size=None, **how) as opened:
        yield opened


def hear(opened: ClientConnection) -> dict[str, Any]:
    return json.loads(opened.recv(60))  # type: ignore[no-any-return]


class Fold:
    """The answers that follow from the changes."""

    def __init__(self) -> None:
        self.tops: dict[str, set[tuple[int, float]]] = {}
        self.offset = 0

    def take(self, message: dict[str, Any]) -> None:
        self.offset = message["offset"]
        if "missed" in message:
            self.tops = {
                name: {(row["seq"], row["score"]) for row in rows} for name, rows in message["tops"].items()
            }
        for change in message.get("changes", []):
            top = self.tops.setdefault(change["query"], set())
            one = (change["seq"], change["score"])
            if change["change"] == "enter":
                assert one not in top
                top.add(one)
            else:
                top.remove(one)


def top(http: httpx.Client, name: str) -> set[tuple[int, float]]:
    return {(row["seq"], row["score"]) for row in http.get(f"/api/queries/{name}/top").json()["rows"]}


@pytest.fixture(scope="module", autouse=True)
def queries(http: httpx.Client) -> None:
    assert push(http, "s", [{"id": "first", "v": 0.0}]).status_code == 200
    for name in ("a", "b"):
        sql = SQL if name == "a" else SQL.replace("DESC", "ASC")
        assert http.post("/api/queries", json={"name": name, "sql": sql}).status_code == 201


def test_folding_the_changes_gives_the_answers(server: Running, http: httpx.Client) -> None:
    fold, one = Fold(), Fold()
    with following(server, "from=0") as opened, following(server, "from=0&query=a") as only:
        for number in range(20):
            last = push(http, "s", [{"id": f"{number}", "v": float(number * 7 % 10)}]).json()["offset"]
        while fold.offset < last:
            fold.take(hear(opened))
        assert fold.tops == {"a": top(http, "a"), "b": top(http, "b")}
        while one.tops.get("a") != top(http, "a"):
            one.take(hear(only))
        assert set(one.tops) == {"a"}


def test_a_reader_goes_on_where_it_was(server: Running, http: httpx.Client) -> None:
    fold = Fold()
    with following(server, "from=0") as opened:
        while not fold.tops:
            fold.take(hear(opened))
    for number in range(5):
        last = push(http, "s", [{"id": "later", "v": 100.0 + number}]).json()["offset"]
    with following(server, f"from={fold.offset}") as opened:
        while fold.offset < last:
            fold.take(hear(opened))
    assert fold.tops["a"] == top(http, "a")


def test_without_a_place_it_begins_now(server: Running, http: httpx.Client) -> None:
    with following(server) as opened:
        begun = hear(opened)
        assert begun["changes"] == []
        push(http, "s", [{"id": "new", "v": 200.0}])
        assert 200.0 in [change["score"] for change in hear(opened)["changes"]]


def test_a_query_that_comes_and_goes_is_told(server: Running, http: httpx.Client) -> None:
    with following(server) as opened:
        hear(opened)
        http.post("/api/queries", json={"name": "short", "sql": SQL})
        http.delete("/api/queries/short")
        told = []
        while len(told) < 2:
            told += hear(opened)["queries"]
        assert [(event["name"], event["event"]) for event in told] == [
            ("short", "added"),
            ("short", "dropped"),
        ]


def test_what_cant_be_followed(server: Running, http: httpx.Client) -> None:
    for given, status in (("from=x", 400), ("from=-1", 400), ("query=none", 404)):
        with pytest.raises(InvalidStatus) as refused, following(server, given):
            pass
        assert refused.value.response.status_code == status
        problem(http.get(f"/api/changes?{given}"), status, "not_found" if status == 404 else "bad_input")


def events(http: httpx.Client, given: str, count: int, **headers: str) -> list[dict[str, str]]:
    """The first so many server-sent events."""
    found: list[dict[str, str]] = []
    with http.stream("GET", f"/api/changes?{given}", headers=headers) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        event: dict[str, str] = {}
        for line in response.iter_lines():
            if not line and event:
                found.append(event)
                event = {}
                if len(found) == count:
                    return found
            elif not line.startswith(":") and line:
                name, _, value = line.partition(": ")
                event[name] = value
    raise AssertionError("the stream has ended")


def test_server_sent_events_are_the_same_messages(server: Running, http: httpx.Client) -> None:
    head = http.head("/api/changes")
    assert head.status_code == 200 and head.headers["content-type"].startswith("text/event-stream")
    with following(server, "from=0") as opened:
        text = hear(opened)
    (event,) = events(http, "from=0", 1)
    assert (
        json.loads(event["data"]) == text
        and event["id"] == str(text["offset"])
        and event["event"] == "changes"
    )
    last = push(http, "s", [{"id": "x", "v": 300.0}]).json()["offset"]
    (event,) = events(http, "from=0", 1, **{"last-event-id": str(last - 1)})
    assert json.loads(event["data"])["offset"] == last
    assert all(
        change["score"] != 0.0 or change["change"] == "leave"
        for change in json.loads(event["data"])["changes"]
    )


def test_a_slow_reader_misses_some_and_slows_nobody(starting: Callable[..., Running]) -> None:
    """A reader that reads nothing, and a ring of few changes: the stream goes on, and it is told."""
    server = starting(in_memory=True, max_changes=400)
    names = [f"{number:02}" + "n" * 190 for number in range(40)]
    with httpx.Client(base_url=server.url, timeout=60) as http:
        push(http, "s", [{"id": "0", "v": 0.0}])
        for name in names:
            http.post("/api/queries", json={"name": name, "sql": SQL})
        parts = urlsplit(server.url)
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        narrow.connect((parts.hostname, parts.port))
        # on a slow machine it reads nothing for longer than a ping may take
        with following(server, "from=0", sock=narrow, max_queue=1, ping_interval=None) as opened:
            for number in range(300):  # seven megabytes: more than the ring and the system's buffers hold
                last = push(http, "s", [{"id": "x", "v": float(number)}]).json()["offset"]
            assert http.get("/api/stats").json()["subscribers"] == 1
            fold, missed = Fold(), 0
            while fold.offset < last:
                message = hear(opened)
                missed += "missed" in message
                fold.take(message)
            assert missed
            assert fold.tops == {name: top(http, name) for name in names}
        assert http.get("/api/stats").json()["missed"] >= 1


def test_readers_that_vanish_are_forgotten(server: Running, http: httpx.Client) -> None:
    parts = urlsplit(server.url)
    for _ in range(200):  # those of other tests have gone, and the server may be about to notice
        before = http.get("/api/stats").json()["subscribers"]
        if before == 0:
            break
    assert before == 0
    opened = []
    for number in range(20):
        raw = socket.create_connection((parts.hostname, parts.port))
        upgrade = (
            "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        )
        kind = upgrade if number % 2 else ""
        raw.sendall(f"GET /api/changes HTTP/1.1\r\nHost: {parts.netloc}\r\n{kind}\r\n".encode())
        assert raw.recv(100).startswith(b"HTTP/1.1 101" if number % 2 else b"HTTP/1.1 200")
        opened.append(raw)
    assert http.get("/api/stats").json()["subscribers"] == before + 20
    for raw in opened:  # no closing handshake: the connection is reset
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        raw.close()
    for number in range(200):
        push(http, "s", [{"id": "y", "v": 400.0 + number}])
        if http.get("/api/stats").json()["subscribers"] == before:
            return
    raise AssertionError("the server still counts readers that are gone")


@pytest.mark.parametrize("many", [60, pytest.param(1000, marks=pytest.mark.soak)])
def test_many_readers(server: Running, http: httpx.Client, many: int) -> None:
    """All of them hear of it."""
    room_for(many)
    url = "ws" + server.url.removeprefix("http") + "/api/changes"
    value = 9999.0 + many

    async def read(ready: asyncio.Semaphore) -> float:
        async with open_sockets(url, open_timeout=120) as opened:
            await opened.recv()
            ready.release()
            while not (found := [change["score"] for change in json.loads(await opened.recv())["changes"]]):
                pass
            return float(max(found))

    async def all_of_them() -> list[float]:
        ready = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(read(ready)) for _ in range(many)]
        for _ in tasks:
            await ready.acquire()
        await asyncio.to_thread(push, http, "s", [{"id": "z", "v": value}])
        return list(await asyncio.gather(*tasks))

    assert asyncio.run(all_of_them()) == [value] * many


def test_too_many_readers_are_refused(starting: Callable[..., Running]) -> None:
    server = starting(in_memory=True, max_subscribers=1)
    with following(server), pytest.raises(InvalidStatus) as refused, following(server):
        pass
    assert refused.value.response.status_code == 503
    assert b"--max-subscribers" in refused.value.response.body


def test_the_servers_end_is_the_readers_end(starting: Callable[..., Running]) -> None:
    server = starting(in_memory=True)
    with following(server) as opened:
        hear(opened)
        assert server.stop() == 0
        with pytest.raises(Exception, match=r"going away|service restart|1001|1012"):
            hear(opened)
    assert "Traceback" not in server.said()
