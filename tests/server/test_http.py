"""The addresses, one after the other, on a real server."""

from __future__ import annotations

import gzip
import json
import shutil
import signal
import socket
import ssl
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import pyarrow as pa
import pytest
from tests.parts import found

from skyband.core.errors import DiskFull, JournalError, SkybandError
from skyband.server.problems import problem_of
from skyband.server.testing import Running

CARS = "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 100 ROWS"


def ipc(table: pa.Table, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()


def push(
    http: httpx.Client, stream: str, content: Any, kind: str = "application/json", **headers: str
) -> httpx.Response:
    body = content if isinstance(content, str | bytes) else json.dumps(content)
    return http.post(f"/api/streams/{stream}/rows", content=body, headers={"content-type": kind, **headers})


def problem(response: httpx.Response, status: int, code: str) -> str:
    """The sentence of an error, which has the one shape."""
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert set(error) == {"code", "message", "where"} and error["code"] == code
    assert error["message"].endswith((".", "?")) and "\n" not in error["message"]
    return str(error["message"])


@pytest.fixture(scope="module", autouse=True)
def fastest(http: httpx.Client) -> None:
    made = http.post("/api/queries", json={"name": "fastest", "sql": CARS})
    assert made.status_code == 201
    assert made.json() == {
        "name": "fastest", "sql": CARS, "k": 3, "window": "100 ROWS", "algorithm": "ra", "kind": "topk",
        "stream": "cars",
    }  # fmt: skip
    pushed = push(http, "cars", [{"id": "a", "speed": 88.0}, {"id": "b", "speed": 93.5}])
    assert pushed.json() == {
        "rows": 2, "rejected": 0, "first_seq": 0, "changes": 2, "offset": 2, "repeated": False,
    }  # fmt: skip


def test_every_form_of_a_body_gives_the_same_rows(http: httpx.Client) -> None:
    table = pa.table({"id": ["x", "y"], "v": [1.5, 2.0]})
    bodies = {
        "application/json": '[{"id": "x", "v": 1.5}, {"id": "y", "v": 2}]',
        "application/json; charset=utf-8": '{"id": ["x", "y"], "v": [1.5, 2]}',
        "application/x-ndjson": '{"id": "x", "v": 1.5}\n{"id": "y", "v": 2}',
        "text/csv": "id,v\nx,1.5\ny,2\n",
        "application/vnd.apache.arrow.stream": ipc(table),
    }
    for number, (kind, body) in enumerate(bodies.items()):
        name = f"form{number}"
        # while there is one stream, any name in a query means that one: so rows first
        assert push(http, name, body, kind).json()["rejected"] == 0
        sql = f"SELECT id FROM {name} ORDER BY v DESC LIMIT 9 WINDOW 9 ROWS"
        assert http.post("/api/queries", json={"name": name, "sql": sql}).status_code == 201
        for rank in (2, 4):  # now the stream's types are known, and quicker readers are at work
            assert push(http, name, body, kind).json()["rejected"] == 0
            top = http.get(f"/api/queries/{name}/top").json()
            assert top["columns"] == ["rank", "score", "seq", "id"] and len(top["rows"]) == rank
            assert [row["score"] for row in top["rows"]] == sorted([1.5, 2.0] * (rank // 2), reverse=True)
    for stream in http.get("/api/streams").json()["streams"]:
        if stream["name"].startswith("form"):
            assert stream["columns"] == [{"name": "id", "type": "string"}, {"name": "v", "type": "double"}]


def test_rows_that_dont_fit_are_rejects_with_their_text(http: httpx.Client) -> None:
    before = http.get("/api/rejects").json()["counts"]["type"]
    assert (
        push(http, "cars", '[{"id": "c", "speed": "fast"}, 5, {"id": "d", "speed": 1}]').json()["rejected"]
        == 2
    )
    lines = '{"id": "e", "speed": 2}\nno json\n\n{"id": "f", "speed": "\\ud800"}\n[1]\n'
    assert push(http, "cars", lines, "application/x-ndjson").json()["rejected"] == 3
    assert push(http, "cars", "id,speed\ng,3,3\nh,x\ni,4\n", "text/csv").json()["rejected"] == 2
    told = http.get("/api/rejects?limit=7").json()
    assert told["counts"]["type"] == before + 7
    assert [row["raw"] for row in told["rejects"]] == [
        '{"id": "c", "speed": "fast"}', "5", "no json", '{"id": "f", "speed": "\\ud800"}', "[1]", "g,3,3", "h,x",
    ]  # fmt: skip
    assert http.get("/api/rejects?limit=0").json()["rejects"] == []


@pytest.mark.parametrize(
    "kind, body",
    [
        ("application/json", b"{"),
        ("application/json", b""),
        ("application/json", b"7"),
        ("application/json", b'{"a": 1}'),
        ("application/json", b'{"a": [1], "b": [1, 2]}'),
        ("application/json", b"[" * 100_000),
        ("application/json", b'{"a": ["\\ud800"]}'),
        ("application/json", b'[{"a": 1}, \xff]'),
        ("application/x-ndjson", b"\x00\xff\n\xfe"),
        ("text/csv", b""),
        ("text/csv", b"1,2\n3,4\n"),
        ("text/csv", b"a,a\n3,4\n"),
        ("text/csv", b"\xff\xfe\n1\n"),
        ("application/vnd.apache.arrow.stream", b""),
        ("application/vnd.apache.arrow.stream", b"ARROW1"),
        ("application/vnd.apache.arrow.stream", ipc(pa.table({"a": [1.0] * 99}))[:-60]),
    ],
)
def test_a_body_that_is_nothing_is_a_sentence(http: httpx.Client, kind: str, body: bytes) -> None:
    problem(push(http, "nothing", body, kind), 400, "bad_input")
    assert "nothing" not in [stream["name"] for stream in http.get("/api/streams").json()["streams"]]


def test_compressed_arrow_is_refused(http: httpx.Client) -> None:
    for codec in ("zstd", "lz4"):
        table = pa.table({"a": pa.array(["x"] * 5000).dictionary_encode()})
        body = ipc(table, compression=codec)
        assert "compressed" in problem(
            push(http, "nothing", body, "application/vnd.apache.arrow.stream"), 400, "bad_input"
        )


def test_a_batch_is_taken_once_under_its_key(http: httpx.Client) -> None:
    first = push(http, "cars", [{"id": "k", "speed": 5.0}], **{"idempotency-key": "one"})
    again = push(http, "cars", [{"id": "k", "speed": 5.0}], **{"idempotency-key": "one"})
    assert again.json() == first.json() | {"repeated": True}
    other = push(http, "cars", [{"id": "k", "speed": 5.0}] * 2, **{"idempotency-key": "one"})
    assert "one" in problem(other, 409, "key_reused")
    problem(push(http, "cars", [{"id": "k"}], **{"idempotency-key": "x" * 201}), 400, "bad_input")


def test_answers(http: httpx.Client) -> None:
    top = http.get("/api/queries/fastest/top").json()
    assert [row["id"] for row in top["rows"]][:2] == ["b", "a"] and top["query"] == "fastest"
    assert len(http.get("/api/queries/fastest/top?k=1").json()["rows"]) == 1
    assert len(http.get("/api/queries/fastest/top?window=1 row").json()["rows"]) <= 1
    table = pa.ipc.open_stream(
        http.get(
            "/api/queries/fastest/top", headers={"accept": "application/vnd.apache.arrow.stream"}
        ).content
    ).read_all()
    assert table.column_names == top["columns"] and table.num_rows == 3
    assert http.get("/api/queries/fastest/explain").json()["text"].startswith("fastest: top 3")
    assert http.get("/api/queries/fastest/picture").json()["k"] == 3
    problem(http.get("/api/queries/fastest/top?k=0"), 400, "bad_input")
    problem(http.get("/api/queries/fastest/top?k=many"), 400, "bad_input")
    problem(http.get("/api/queries/fastest/top?k=50"), 400, "bad_query")
    problem(http.get("/api/queries/fastest/top?window=soon"), 400, "bad_query")


def test_queries_come_change_and_go(http: httpx.Client) -> None:
    unnamed = http.post("/api/queries", json={"sql": CARS}).json()["name"]
    assert http.patch(f"/api/queries/{unnamed}", json={"k": 2, "window": "50 ROWS"}).json()["sql"] == (
        "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 2 WINDOW 50 ROWS"
    )
    problem(http.patch(f"/api/queries/{unnamed}", json={}), 400, "bad_input")
    problem(http.patch(f"/api/queries/{unnamed}", json={"k": -1}), 400, "bad_query")
    problem(http.patch(f"/api/queries/{unnamed}", json={"k": True}), 400, "bad_input")
    problem(http.post("/api/queries", json={"name": unnamed, "sql": CARS}), 409, "exists")
    assert http.delete(f"/api/queries/{unnamed}").json()["dropped"] == unnamed
    for response in (http.delete(f"/api/queries/{unnamed}"), http.get(f"/api/queries/{unnamed}")):
        assert unnamed in problem(response, 404, "not_found")
    problem(http.post("/api/queries", json={"name": "", "sql": CARS}), 400, "bad_input")
    problem(http.post("/api/queries", json={"name": "x\n", "sql": CARS}), 400, "bad_input")
    problem(http.post("/api/queries", json={"sql": CARS, "more": 1}), 400, "bad_input")
    problem(
        http.post("/api/queries", content=b"{", headers={"content-type": "application/json"}),
        400,
        "bad_input",
    )
    problem(
        http.post("/api/queries", content=b"{}", headers={"content-type": "text/plain"}),
        415,
        "unsupported_type",
    )


def test_names_with_anything_in_them(http: httpx.Client) -> None:
    for name in ("a/b", "/", "a//b/", "100% & more?#", "ä ö", "%2F", "..a", "x/top", "<b>"):
        path = f"/api/queries/{quote(name, safe='')}"
        assert http.post("/api/queries", json={"name": name, "sql": CARS}).json()["name"] == name
        assert http.get(path).json()["name"] == name
        assert http.get(f"{path}/top").json()["query"] == name
        assert http.delete(path).json()["dropped"] == name
        assert push(http, quote(name, safe=""), [{"z": 1}]).status_code == 200
        assert name in [stream["name"] for stream in http.get("/api/streams").json()["streams"]]
    for name in (".", "..", "a\x1fb", "n" * 201):
        problem(http.post("/api/queries", json={"name": name, "sql": CARS}), 400, "bad_input")
    problem(http.get("/static/..%2Fsettings.py"), 404, "not_found")


def test_a_query_is_checked_before_it_is_asked(http: httpx.Client) -> None:
    before = http.get("/api/queries").json()
    fine = http.post("/api/check", json={"sql": CARS}).json()
    assert fine["ok"] and fine["query"]["columns"] == ["id", "speed"] and "top 3" in fine["explain"]
    wrong = http.post("/api/check", json={"sql": CARS.replace("speed DESC", "sped DESC")})
    assert "did you mean speed" in problem(wrong, 400, "bad_query")
    assert wrong.json()["error"]["where"] == {"line": 1, "column": 37, "hint": "speed"}
    problem(http.post("/api/check", json={"sql": "SELECT"}), 400, "bad_query")
    problem(http.post("/api/check", json={"sql": CARS.replace("100 ROWS", "1 MINUTE")}), 400, "bad_query")
    problem(http.post("/api/check", json={"sql": CARS.replace("cars", "planes")}), 400, "bad_query")
    pairs = "SELECT a.id FROM cars a, cars b WHERE a.id < b.id ORDER BY a.speed + b.speed DESC LIMIT 2 WINDOW 9 ROWS"
    assert http.post("/api/check", json={"sql": pairs}).json()["query"]["kind"] == "pairs"
    assert http.get("/api/queries").json() == before


def test_limits_are_told_by_the_option_that_raises_them(http: httpx.Client) -> None:
    for change, option in {
        "LIMIT 10001": "--max-k",
        "LIMIT 3 WINDOW 10000001 ROWS": "--max-window-rows",
        f"LIMIT {'0' * 10_000}3": "--max-sql",
    }.items():
        sql = (
            CARS.replace("LIMIT 3", change, 1) if "WINDOW" not in change else CARS.split("LIMIT")[0] + change
        )
        assert option in problem(http.post("/api/queries", json={"sql": sql}), 422, "limit")
    many = CARS.replace("id, speed", ", ".join(f"speed + {n} AS c{n}" for n in range(350)))
    assert "--max-terms" in problem(http.post("/api/check", json={"sql": many}), 422, "limit")
    columns = [{f"c{n}": 1 for n in range(1001)}]
    assert "--max-columns" in problem(push(http, "wide", columns), 422, "limit")
    told = problem(
        http.post("/api/check", content=b" " * (1 << 21), headers={"content-type": "application/json"}),
        413,
        "too_large",
    )
    assert (
        told == "The request has more than 1,048,576 bytes: make it shorter, only pushed rows may have more."
    )
    sent = {"/api/check": {"sql": 5}, "/api/advance": {"time": True}, "/api/queries": {"name": 1, "sql": ""}}
    for path, word in zip(sent, ("text", "whole number or a number or a text", "text"), strict=True):
        assert f"must be a {word}." in problem(http.post(path, json=sent[path]), 400, "bad_input")


def test_small_limits(starting: Any) -> None:
    limits = {
        "max_pending": 5000,
        "max_body": 2000,
        "max_rows": 3,
        "max_queries": 1,
        "max_streams": 1,
    }
    server = starting(in_memory=True, **limits)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert "--max-rows" in problem(push(http, "s", [{"a": 1}] * 4), 422, "limit")
        assert "--max-body" in problem(push(http, "s", " " * 3000), 413, "too_large")
        parts = iter([b"[" + b" " * 1500, b" " * 1500])
        refused = http.post(
            "/api/streams/s/rows", content=parts, headers={"content-type": "application/json"}
        )
        assert "--max-body" in problem(refused, 413, "too_large")
        assert push(http, "s", [{"a": 1}]).status_code == 200
        assert "--max-streams" in problem(push(http, "t", [{"a": 1}]), 422, "limit")
        sql = "SELECT a FROM s ORDER BY a LIMIT 1 WINDOW 9 ROWS"
        assert http.post("/api/queries", json={"sql": sql}).status_code == 201
        assert "--max-queries" in problem(http.post("/api/queries", json={"sql": sql}), 422, "limit")
        assert http.get("/api/settings").json()["settings"]["max_rows"] == 3


def test_too_many_requests(starting: Any) -> None:
    """One a second: no machine is as slow as that."""
    server = starting(in_memory=True, max_rate=1)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        answers = [http.get("/api/streams") for _ in range(20)]
        slow = [answer for answer in answers if answer.status_code == 429]
        assert answers[0].status_code == 200 and slow and int(slow[0].headers["retry-after"]) >= 1
        assert "--max-rate" in problem(slow[0], 429, "too_many_requests")
        assert http.get("/health").status_code == 200


def test_one_error_shape_for_what_isnt_there(http: httpx.Client) -> None:
    problem(http.get("/nowhere"), 404, "not_found")
    problem(http.get("/api/queries/"), 404, "not_found")
    problem(http.get("/static/../settings.py"), 404, "not_found")
    problem(http.get("/static/%2e%2e%2fsettings.py"), 404, "not_found")
    problem(http.get("/static/none.js"), 404, "not_found")
    refused = http.delete("/api/streams")
    problem(refused, 405, "method_not_allowed")
    assert refused.headers["allow"] == "GET, HEAD"
    problem(http.options("/api/streams"), 405, "method_not_allowed")
    problem(http.post("/api/advance", json={"time": 5}), 400, "bad_input")
    problem(http.post("/api/advance", json={}), 400, "bad_input")


@pytest.mark.parametrize(
    "sent", [b"nonsense\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET /\x00 HTTP/1.1\r\n\r\n"]
)
def test_what_isnt_http_is_told_in_the_same_shape(server: Running, sent: bytes) -> None:
    parts = urlsplit(server.url)
    with socket.create_connection((parts.hostname, parts.port), timeout=60) as opened:
        opened.sendall(sent)
        answer = b"".join(iter(lambda: opened.recv(4096), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ") and json.loads(body)["error"]["code"] == "bad_input"


def test_every_answer_has_the_headers_that_keep_browsers_in_bounds(http: httpx.Client) -> None:
    for path in ("/", "/docs", "/api/streams", "/nowhere", "/metrics"):
        headers = http.get(path).headers
        policy = headers["content-security-policy"]
        assert (
            "default-src 'none'" in policy
            and "script-src 'self';" in policy
            and "frame-ancestors 'none'" in policy
        )
        assert headers["x-content-type-options"] == "nosniff"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers
    assert http.get("/api/streams").headers["cache-control"] == "no-store"


def test_pages_come_from_this_server_alone(http: httpx.Client) -> None:
    page = http.get("/docs")
    assert page.headers["content-type"].startswith("text/html") and "://" not in page.text
    for part in ("/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/begin.js"):
        found = http.get(part)
        assert found.status_code == 200
        again = http.get(part, headers={"if-none-match": found.headers["etag"]})
        assert again.status_code == 304 and not again.content
    assert http.get("/").headers["content-type"].startswith("text/html")
    assert http.get("/docs/swagger-ui.js").status_code == 404


def test_health_metrics_and_stats(http: httpx.Client, server: Running) -> None:
    from prometheus_client.parser import text_string_to_metric_families

    assert http.get("/health").json()["status"] == "ok"
    stats = http.get("/api/stats").json()
    told = {family.name: family for family in text_string_to_metric_families(http.get("/metrics").text)}
    assert told["skyband_rows"].samples[0].value == stats["rows"] > 0
    assert told["skyband_push_seconds"].type == "histogram"
    assert stats["latency_ms"]["p99"] >= stats["latency_ms"]["p50"] > 0
    assert http.get("/api/settings").json()["role"] == "admin"


def test_packed_bodies_within_the_limit(starting: Any) -> None:
    server = starting(in_memory=True, max_body=100_000)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        rows = json.dumps([{"x": number} for number in range(1000)]).encode()
        taken = push(http, "s", gzip.compress(rows), **{"content-encoding": "gzip"})
        assert taken.status_code == 200 and taken.json()["rows"] == 1000
        query = json.dumps({"sql": "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 9 ROWS"}).encode()
        headers = {"content-type": "application/json", "content-encoding": "gzip"}
        assert http.post("/api/check", content=gzip.compress(query), headers=headers).status_code == 200
        for size in (200_000, 50_000_000):
            bomb = gzip.compress(b"[" + b" " * size + b"]")
            told = problem(push(http, "s", bomb, **{"content-encoding": "gzip"}), 413, "too_large")
            assert "100,000 bytes when it is unpacked" in told
        assert "415" not in problem(
            push(http, "s", rows, **{"content-encoding": "br"}), 415, "unsupported_type"
        )
        told = problem(push(http, "s", rows, **{"content-encoding": "gzip"}), 400, "bad_input")
        assert "can't be unpacked as gzip" in told
        assert "line 3" in problem(push(http, "s", 'x,y\n1,2\n"3,4\n', "text/csv"), 400, "bad_input")


def test_bodies_that_wait_hold_only_so_many_bytes(starting: Any) -> None:
    server = starting(in_memory=True, max_pending=5000, max_body=4000, max_wait=30)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        parts = urlsplit(server.url)
        slow = []
        for _ in range(2):  # each has sent half of what it said, and the rest doesn't come
            raw = socket.create_connection((parts.hostname, parts.port))
            raw.sendall(
                f"POST /api/streams/s/rows HTTP/1.1\r\nHost: {parts.netloc}\r\nContent-Type: application/json\r\n"
                f"Content-Length: 4000\r\n\r\n{'[' + ' ' * 2100}".encode()
            )
            slow.append(raw)
        for _ in range(100):
            refused = push(http, "s", "[" + " " * 1500 + "]")
            if refused.status_code == 503:
                break
        assert "waiting" in problem(refused, 503, "busy") and refused.headers["retry-after"] == "1"
        for raw in slow:
            raw.close()
        for _ in range(100):
            if push(http, "s", [{"a": 1}]).status_code == 200:
                return
        raise AssertionError("what the lost ones held is still held")


def test_what_nobody_foresaw_says_nothing_of_the_inside() -> None:
    for error, code, status in [
        (RuntimeError("secret"), "internal", 500),
        (DiskFull("There is no room: make some."), "disk_full", 507),
        (JournalError("The journal is closed: open it again."), "journal", 503),
        (SkybandError("Something is wrong: do this."), "bad_input", 400),
    ]:
        told = problem_of(error)
        assert (told.code, told.status) == (code, status) and b"secret" not in told.body()


def test_https(tmp_path: Path, starting: Any) -> None:
    found("openssl", None if shutil.which("openssl") else "it is not on the path")
    files = {"certfile": tmp_path / "cert.pem", "keyfile": tmp_path / "key.pem"}
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-addext",
         "subjectAltName=IP:127.0.0.1", "-keyout", files["keyfile"], "-out", files["certfile"]],
        check=True, capture_output=True,
    )  # fmt: skip
    server = starting(in_memory=True, **files)
    assert server.url.startswith("https://")
    trusted = ssl.create_default_context(cafile=str(files["certfile"]))
    with httpx.Client(base_url=server.url, verify=trusted, timeout=60) as http:
        assert http.get("/health").json()["status"] == "ok"


def test_starts_that_cant_be_and_ctrl_c(tmp_path: Path, starting: Any) -> None:
    first = starting(data=tmp_path / "data")
    port = first.url.rsplit(":", 1)[1]
    with pytest.raises(SkybandError, match=f"{port} can't be listened on"):
        starting(in_memory=True, port=port)
    with pytest.raises(SkybandError, match="data"):
        starting(data=tmp_path / "data")
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(120) == 0 and "Traceback" not in first.said()
