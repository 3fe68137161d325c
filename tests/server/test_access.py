"""Tokens wrong, missing and of the wrong role; foreign hosts and origins."""

from __future__ import annotations

import base64
import os
import time
from collections.abc import Iterator
from json import loads
from pathlib import Path

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect as open_socket

import skyband as sb
from skyband.core.errors import InputError
from skyband.server.guard import ALL, Caller, Guard, Rates, Scope, Token, read_tokens
from skyband.server.settings import Settings
from skyband.server.testing import Running

from .conftest import start
from .test_http import CARS, problem, push

TOKENS = {role: f"{role}-token-of-a-fair-length" for role in ("read", "push", "admin")}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture(scope="module")
def tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tokens") / "tokens"
    path.write_text(
        "# who may come in\n\n" + "".join(f"{role}  {token}  # {role}\n" for role, token in TOKENS.items())
    )
    path.chmod(0o600)
    return path


@pytest.fixture(scope="module")
def server(tokens: Path) -> Iterator[Running]:
    found = start(in_memory=True, host="0.0.0.0", tokens=tokens)
    found.url = found.url.replace("0.0.0.0", "127.0.0.1")
    yield found
    assert found.stop() == 0
    assert [line.split(":")[1] for line in found.said().splitlines()] == [
        " nothing is kept on disk",
        " tokens and rows travel unencrypted",
    ]


# what needs which role
CALLS = [
    ("read", "GET", "/api/streams", None),
    ("read", "GET", "/api/queries", None),
    ("read", "GET", "/api/stats", None),
    ("read", "GET", "/api/rejects", None),
    ("read", "GET", "/api/settings", None),
    ("read", "GET", "/metrics", None),
    ("read", "POST", "/api/check", {"sql": CARS}),
    ("push", "POST", "/api/streams/cars/rows", [{"id": "a", "speed": 1.0}]),
    ("admin", "PUT", "/api/streams/trucks", {}),
    ("admin", "POST", "/api/streams/none/restart", {}),
    ("admin", "POST", "/api/advance", {"time": 1}),
    ("admin", "POST", "/api/queries", {"sql": CARS}),
    ("admin", "PATCH", "/api/queries/none", {"k": 1}),
    ("admin", "DELETE", "/api/queries/none", None),
]


@pytest.mark.parametrize("role, method, path, body", CALLS)
def test_each_call_needs_its_role(
    http: httpx.Client, role: str, method: str, path: str, body: object
) -> None:
    def call(headers: dict[str, str]) -> httpx.Response:
        return (
            http.request(method, path, headers=headers, json=body)
            if body
            else http.request(method, path, headers=headers)
        )

    missing = call({})
    assert (
        "Bearer" in problem(missing, 401, "unauthorized") and missing.headers["www-authenticate"] == "Bearer"
    )
    for wrong in ("x", TOKENS["admin"][:-1], TOKENS["admin"] + "x", TOKENS["admin"].upper(), "ä" * 30):
        problem(call({"authorization": f"Bearer {wrong}".encode()}), 401, "unauthorized")  # type: ignore[dict-item]
    problem(call({"authorization": f"Basic {TOKENS['admin']}"}), 401, "unauthorized")
    roles = list(TOKENS)
    for given in roles:
        response = call(bearer(TOKENS[given]))
        if roles.index(given) < roles.index(role):
            assert role in problem(response, 403, "forbidden")
        else:
            assert response.status_code not in (401, 403)


def test_pages_health_and_the_document_need_no_token(http: httpx.Client) -> None:
    for path in ("/", "/docs", "/openapi.json", "/health"):
        assert http.get(path).status_code == 200
    assert http.get("/openapi.json").json()["paths"]["/api/streams"]["get"]["security"] == [{"token": []}]
    assert http.get("/api/settings", headers=bearer(TOKENS["push"])).json()["role"] == "push"


def test_a_token_in_a_websocket(server: Running) -> None:
    def encoded(token: str) -> str:
        return "token." + base64.urlsafe_b64encode(token.encode()).decode().rstrip("=")

    url = "ws" + server.url.removeprefix("http")
    for path in ("/api/changes", "/api/live"):
        for good in (
            {"additional_headers": bearer(TOKENS["read"])},
            {"subprotocols": ["skyband", encoded(TOKENS["read"])]},
        ):
            with open_socket(url + path, **good) as socket:
                assert "offset" in socket.recv(30)
                assert socket.subprotocol == ("skyband" if "subprotocols" in good else None)
        for bad in (
            {},
            {"subprotocols": ["skyband", encoded("x" * 30)]},
            {"subprotocols": ["skyband", "token.%%"]},
        ):
            with pytest.raises(InvalidStatus) as refused:
                open_socket(url + path, **bad)
            assert refused.value.response.status_code == 401
            assert b'"unauthorized"' in refused.value.response.body


def test_tokens_cant_be_tried_out_at_any_speed(tokens: Path) -> None:
    guard = Guard(Settings(tokens=str(tokens), max_rate=5))
    for _ in range(5):
        guard.refused("10.0.0.1")
    with pytest.raises(sb.SkybandError, match="--max-rate"):
        guard.refused("10.0.0.1")
    guard.refused("10.0.0.2")


def test_the_client_has_a_token(server: Running) -> None:
    with sb.connect(server.url, TOKENS["read"]) as reader, pytest.raises(InputError, match="role push"):
        reader.push({"id": ["a"], "speed": [1.0]}, stream="cars")
    with pytest.raises(InputError, match="needs a token"):
        sb.connect(server.url)


# -- tokens for some streams and queries ---------------------------------------------------------------------

SOME = """
admin everything-may-be-done-by-this
push  rows-of-cars-may-be-sent-by-this     stream=cars                  # a sensor
read  fastest-may-be-looked-at-by-this     query=fastest
admin cars-are-kept-in-order-by-this       stream=cars query=fastest query='the slow ones'
read  all-of-cars-may-be-looked-at         stream=cars query=*
"""
EVERYTHING, SENSOR, PAGE, KEEPER, LOOKER = (line.split()[1] for line in SOME.strip().splitlines())
BIKES = "SELECT id, speed FROM bikes ORDER BY speed DESC LIMIT 3 WINDOW 100 ROWS"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Running, Path]]:
    path = tmp_path_factory.mktemp("shared") / "tokens"
    path.write_text(SOME)
    path.chmod(0o600)
    found = start(in_memory=True, tokens=path, time="ts")
    with httpx.Client(base_url=found.url, timeout=60, headers=bearer(EVERYTHING)) as http:
        for stream, sql in (("cars", CARS), ("bikes", BIKES)):
            assert push(http, stream, [{"ts": 1, "id": stream, "speed": 1.0}]).status_code == 200
            name = "fastest" if stream == "cars" else "bikes"
            assert http.post("/api/queries", json={"name": name, "sql": sql}).status_code == 201
            assert push(http, stream, [{"ts": 1, "id": "x", "speed": "no number"}]).json()["rejected"] == 1
    yield found, path
    assert found.stop() == 0 and "Traceback" not in found.said()


def test_a_token_for_some_streams_and_queries(shared: tuple[Running, Path]) -> None:
    server, _ = shared
    with httpx.Client(base_url=server.url, timeout=60) as http:

        def get(token: str, path: str) -> httpx.Response:
            return http.get(path, headers=bearer(token))

        rows = [{"ts": 2, "id": "new", "speed": 9.0}]
        taken = push(http, "cars", rows, accept="application/vnd.apache.arrow.stream", **bearer(SENSOR))
        assert taken.status_code == 200 and b"fastest" not in taken.content, "it learns of no query"
        assert push(http, "cars", rows, **bearer(SENSOR)).json()["changes"] == 0
        assert push(http, "cars", rows, **bearer(KEEPER)).json()["changes"] > 0
        for token in (SENSOR, KEEPER):
            told = problem(push(http, "bikes", rows, **bearer(token)), 403, "forbidden")
            assert 'not for the stream "bikes"' in told
        streams = {
            token: get(token, "/api/streams").json()["streams"] for token in (SENSOR, PAGE, EVERYTHING)
        }
        assert [[s["name"] for s in found] for found in streams.values()] == [["cars"], [], ["cars", "bikes"]]
        queries = {token: get(token, "/api/queries").json()["queries"] for token in (SENSOR, PAGE, LOOKER)}
        assert [[q["name"] for q in found] for found in queries.values()] == [
            [],
            ["fastest"],
            ["fastest", "bikes"],
        ]
        for rest in ("", "/top", "/explain", "/picture"):
            assert get(PAGE, f"/api/queries/fastest{rest}").status_code == 200
            for name in ("bikes", "none"):
                told = problem(get(PAGE, f"/api/queries/{name}{rest}"), 403, "forbidden")
                assert f'not for the query "{name}"' in told
        for token, known in ((PAGE, set()), (LOOKER, {"cars"}), (EVERYTHING, {"cars", "bikes"})):
            assert {row["stream"] for row in get(token, "/api/rejects").json()["rejects"]} == known
        slow = {"name": "the slow ones", "sql": CARS.replace("DESC", "ASC")}
        for json, status in ((slow, 201), ({**slow, "name": "other"}, 403), ({**slow, "sql": BIKES}, 403)):
            assert http.post("/api/queries", json=json, headers=bearer(KEEPER)).status_code == status
        assert http.post("/api/check", json={"sql": BIKES}, headers=bearer(KEEPER)).status_code == 403
        assert http.post("/api/check", json={"sql": CARS}, headers=bearer(KEEPER)).status_code == 200
        assert http.delete("/api/queries/bikes", headers=bearer(KEEPER)).status_code == 403
        assert http.delete("/api/queries/the%20slow%20ones", headers=bearer(KEEPER)).status_code == 200
        told = problem(http.post("/api/advance", json={"time": 3}, headers=bearer(KEEPER)), 403, "forbidden")
        assert "all streams" in told
        problem(http.post("/api/advance", json={"time": 3}, headers=bearer(SENSOR)), 403, "forbidden")
        assert http.post("/api/advance", json={"time": 3}, headers=bearer(EVERYTHING)).status_code == 200


def test_a_reader_with_such_a_token(shared: tuple[Running, Path]) -> None:
    server, _ = shared
    url = "ws" + server.url.removeprefix("http")
    with httpx.Client(base_url=server.url, timeout=60, headers=bearer(EVERYTHING)) as http:
        with (
            open_socket(url + "/api/changes?from=0", additional_headers=bearer(PAGE)) as page,
            open_socket(url + "/api/live", additional_headers=bearer(PAGE)) as live,
            http.stream("GET", "/api/changes", headers=bearer(SENSOR)) as sensor,
        ):
            for speed in (100.0, 101.0):
                for stream in ("cars", "bikes"):
                    assert push(http, stream, [{"ts": 4, "id": "z", "speed": speed}]).json()["changes"] > 0
            last = http.get("/api/stats").json()["offset"]
            text, offset = "", 0
            while offset < last - 1:
                text += str(message := page.recv(30))
                offset = loads(message)["offset"]
            assert '"fastest"' in text and "bikes" not in text
            state = loads(live.recv(30))
            assert [query["name"] for query in state["queries"]] == ["fastest"] == list(state["tops"])
            lines = sensor.iter_lines()
            assert '"changes":[]' in next(line for line in lines if line.startswith("data: "))
        with pytest.raises(InvalidStatus) as refused:
            open_socket(url + "/api/changes?query=bikes", additional_headers=bearer(PAGE))
        assert refused.value.response.status_code == 403


def test_tokens_are_replaced_while_it_runs(shared: tuple[Running, Path]) -> None:
    server, path = shared
    url = "ws" + server.url.removeprefix("http")
    with httpx.Client(base_url=server.url, timeout=60) as http:

        def status(token: str) -> int:
            return http.get("/api/queries", headers=bearer(token)).status_code

        def until(token: str, wanted: int) -> None:
            end = time.monotonic() + 30
            while status(token) != wanted:
                assert time.monotonic() < end
                time.sleep(0.1)

        new = "this-one-is-new-and-the-page-is-gone"
        with (
            open_socket(url + "/api/changes", additional_headers=bearer(PAGE)) as changes,
            open_socket(url + "/api/live", additional_headers=bearer(PAGE)) as live,
        ):
            path.write_text(SOME.replace(PAGE, new))
            until(new, 200)
            assert status(PAGE) == 401 and status(SENSOR) == 200
            push(http, "cars", [{"ts": 5, "id": "z", "speed": 1e6}], **bearer(EVERYTHING))
            for reader in (changes, live):
                with pytest.raises(ConnectionClosed) as closed:
                    while True:
                        reader.recv(30)
                assert closed.value.rcvd is not None and closed.value.rcvd.code == 4401
        for broken in ("admin short", ""):
            path.write_text(broken)
            time.sleep(1.2)
            assert status(new) == 200, "a file with a fault changes nothing"
        path.unlink()
        time.sleep(1.2)
        assert status(new) == 200
        path.write_text(SOME)
        until(PAGE, 200)
        assert status(new) == 401
    assert "at least 16" in "".join(server.errors)


# -- without a server ----------------------------------------------------------------------------------------


def test_no_address_but_loopback_without_tokens() -> None:
    for host in ("127.0.0.1", "127.8.9.1", "::1", "localhost"):
        assert Guard(Settings(host=host)).caller(None, (), "x").role == "admin"
    for host in ("0.0.0.0", "::", "192.168.0.7", "example.org", "localhost.example.org"):
        with pytest.raises(InputError, match="--tokens"):
            Guard(Settings(host=host))


def test_hosts_and_origins(http: httpx.Client, tokens: Path) -> None:
    local = Guard(Settings())
    for host in ("127.0.0.1:8321", "localhost:8321", "localhost", "[::1]:8321", "127.0.0.1"):
        local.check_names(host, None)
        local.check_names(host, f"http://{host}")
    for host, origin in [
        ("evil.example:8321", None), (None, None), ("", None), ("127.0.0.1.evil.example", None), ("[", None),
        ("localhost:8321", "http://evil.example"), ("localhost:8321", "null"), ("localhost:8321", "http://localhost:9"),
        ("localhost:8321", "file://"), ("localhost:8321", "http://["),
    ]:  # fmt: skip
        with pytest.raises(sb.SkybandError):
            local.check_names(host, origin)
    named = Guard(Settings(host="0.0.0.0", tokens=str(tokens), names="a.example, B.example"))
    named.check_names("b.example:443", "https://b.example:443")
    named.check_names("127.0.0.1:8321", "https://a.example")  # as a proxy asks
    with pytest.raises(sb.SkybandError, match="origins"):
        named.check_names("127.0.0.1:8321", "https://c.example")
    with pytest.raises(sb.SkybandError, match="--names"):
        named.check_names("c.example", None)


def test_a_page_elsewhere_cant_use_a_local_server(starting: object) -> None:
    server = start(in_memory=True)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as http:
            problem(http.get("/api/streams", headers={"host": "evil.example"}), 403, "forbidden")
            problem(push(http, "s", [{"a": 1}], origin="http://evil.example"), 403, "forbidden")
            assert push(http, "s", [{"a": 1}], origin=server.url).status_code == 200
        url = "ws" + server.url.removeprefix("http") + "/api/changes"
        with pytest.raises(InvalidStatus) as refused:
            open_socket(url, origin="http://evil.example")
        assert refused.value.response.status_code == 403
        with open_socket(url, origin=server.url) as socket:  # type: ignore[arg-type]
            assert "offset" in socket.recv(30)
    finally:
        server.stop()


def test_token_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "tokens"
    for text, word in {
        "": "no token", "# nothing\n": "no token", "root abcdefghijklmnopqrstuvwxyz": "Line 1", "read": "Line 1",
        "read short": "at least 16", "\nread abcdefghijklmnopqrstuvwxyz b c": "Line 2 .* has 'b' after its token",
        "read abcdefghijklmnopqrstuvwxyz stream=": "stream=NAME", "read abcdefghijklmnopqrstuvwxyz stream='a": "quote",
    }.items():  # fmt: skip
        path.write_text(text)
        with pytest.raises(InputError, match=word):
            read_tokens(str(path))
    with pytest.raises(InputError, match="can't be read"):
        read_tokens(str(tmp_path / "none"))
    path.write_text("read abcdefghijklmnopqrstuvwxyz\n")
    os.chmod(path, 0o644)
    capsys.readouterr()
    assert read_tokens(str(path)) == [Token("read", b"abcdefghijklmnopqrstuvwxyz")]
    assert "chmod 600" in capsys.readouterr().err


def test_scopes_of_a_tokens_file(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(SOME)
    path.chmod(0o600)
    assert [token.scope for token in read_tokens(str(path))] == [
        ALL,
        Scope(frozenset(["cars"]), frozenset()),
        Scope(frozenset(), frozenset(["fastest"])),
        Scope(frozenset(["cars"]), frozenset(["fastest", "the slow ones"])),
        Scope(frozenset(["cars"]), None),
    ]


def test_rates() -> None:
    rates = Rates(10)
    assert [rates.take("a", 0.0) for _ in range(10)] == [0.0] * 10
    assert rates.take("a", 0.0) == pytest.approx(0.1)
    assert rates.take("b", 0.0) == 0.0
    assert rates.take("a", 0.5) == 0.0
    for number in range(3 * Rates.MOST):
        rates.take(f"c{number}", 1.0)
    assert len(rates._buckets) <= Rates.MOST
    assert Caller("push", "x").may("read") and not Caller("push", "x").may("admin")
