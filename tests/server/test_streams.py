"""PUT /api/streams/NAME: a stream is set up before its first row, and stays so through a kill."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

import skyband as sb
from skyband.server.testing import Running

from .test_http import problem, push

SETTINGS: dict[str, Any] = {
    "schema": {"at": "timestamp[us, tz=UTC]", "car": "string", "speed": "double"},
    "time": "at",
    "key": "car",
    "op": None,
}
CARS = "SELECT car, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 100 ROWS"
SQL = "SELECT car, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 1 HOUR"
CSV = (
    "at,car,speed\n2024-05-01T10:00:00Z,ann,88\n2024-05-01T10:00:01Z,ben,121.5\n2024-05-01T10:00:02Z,ann,90\n"
)


def pushed(
    http: httpx.Client, query: str, content: Any, kind: str = "application/json", **headers: str
) -> httpx.Response:
    """Push to cars with these query parameters."""
    body = content if isinstance(content, str) else json.dumps(content)
    where = f"/api/streams/cars/rows?{query}"
    return http.post(where, content=body, headers={"content-type": kind, **headers})


def about(http: httpx.Client, name: str) -> dict[str, Any]:
    (found,) = (each for each in http.get("/api/streams").json()["streams"] if each["name"] == name)
    return dict(found)


def test_a_stream_is_set_up_and_stays_so(starting: Callable[..., Running], tmp_path: Path) -> None:
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        made = http.put("/api/streams/cars", json=SETTINGS)
        assert made.status_code == 200
        assert made.json() == about(http, "cars")
        assert SETTINGS.items() <= made.json().items() and made.json()["rows"] == 0
        assert http.put("/api/streams/plain", json={}).status_code == 200
        assert http.post("/api/queries", json={"name": "fastest", "sql": SQL}).status_code == 201
        assert http.post("/api/check", json={"sql": SQL}).json()["ok"]
        problem(http.post("/api/check", json={"sql": SQL.replace("cars", "plain")}), 400, "bad_query")
    server.kill()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert about(http, "cars") == made.json()
        pushed = push(http, "cars", CSV, "text/csv").json()
        assert pushed["rejected"] == 0
        top = http.get("/api/queries/fastest/top").json()["rows"]
        assert [(row["car"], row["score"]) for row in top] == [("ben", 121.5), ("ann", 90.0)]
        words = problem(http.put("/api/streams/cars", json={"time": None}), 409, "has_rows")
        assert "before the first row" in words
        words = problem(http.put("/api/streams/cars", json={"schema": {"speed": "int64"}}), 409, "has_rows")
        assert "can't become int64" in words
        assert http.put("/api/streams/cars", json=SETTINGS).status_code == 200, "the same again"
        wider = {"schema": {**SETTINGS["schema"], "colour": "string"}}
        assert http.put("/api/streams/cars", json=wider).json()["schema"] == wider["schema"]
    server.kill()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert about(http, "cars")["schema"] == wider["schema"]
        assert http.get("/api/queries/fastest/top").json()["rows"] == top


def test_what_cant_be_set_is_a_sentence(http: httpx.Client) -> None:
    wrong: list[dict[str, Any]] = [
        {"schema": {"x": "doubel"}}, {"schema": []}, {"time": 3}, {"op": "op"}, {"colour": "red"},
        {"schema": {"x": "double"}, "time": "ts"}, {"schema": {"\ud800": "double"}},
    ]  # fmt: skip
    for given in wrong:
        body = {"content": json.dumps(given), "headers": {"content-type": "application/json"}}
        problem(http.put("/api/streams/wrong", **body), 400, "bad_input")
    many = {"schema": {f"x{number}": "double" for number in range(1001)}}
    assert "--max-columns" in problem(http.put("/api/streams/wrong", json=many), 422, "limit")
    assert not any(each["name"] == "wrong" for each in http.get("/api/streams").json()["streams"])


def test_a_stream_begins_again(starting: Callable[..., Running], tmp_path: Path) -> None:
    server = starting(data=tmp_path / "data", time="ts", max_ahead="off")
    sql = "SELECT car, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 1 MINUTE"

    def rows(*times: float) -> list[dict[str, Any]]:
        return [{"ts": at, "car": "ann", "speed": 1.0} for at in times]

    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.post("/api/queries", json={"name": "fastest", "sql": sql}).status_code == 201
        push(http, "cars", rows(100.0, 101.0, 1e12))
        assert push(http, "cars", rows(102.0)).json()["rejected"] == 1
        (cars,) = http.get("/api/streams").json()["streams"]
        assert cars["latest"] == 1e12 and cars["behind"] is None
        begun = http.post("/api/streams/cars/restart")
        assert begun.status_code == 200 and begun.json()["changes"] == 1
        assert push(http, "cars", rows(103.0)).json()["rejected"] == 0
        until = time.monotonic() + 30  # the picture's sample is made beside the steps
        while (found := http.get("/api/queries/fastest/picture").json()["rows"]) != [[103.0, 1.0]]:
            assert time.monotonic() < until, found
        problem(http.post("/api/streams/none/restart"), 404, "not_found")
        with sb.connect(server.url) as remote:
            assert remote.restart().column("change").to_pylist() == ["leave"]
            remote.push({"ts": [7.0], "car": ["ben"], "speed": [2.0]})
    server.kill()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        (cars,) = http.get("/api/streams").json()["streams"]
        assert cars["latest"] == 7.0
        assert [row["car"] for row in http.get("/api/queries/fastest/top").json()["rows"]] == ["ben"]


def test_rows_more_than_a_day_ahead_wait(starting: Callable[..., Running], tmp_path: Path) -> None:
    """By default in folders that begin now; a stream may have another setting, with rows too."""
    server = starting(data=tmp_path / "data")
    day = 86_400.0

    def stream(http: httpx.Client, name: str = "cars") -> dict[str, Any]:
        return next(s for s in http.get("/api/streams").json()["streams"] if s["name"] == name)

    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert http.put("/api/streams/cars", json={"time": "ts"}).json()["max_ahead"] == "1 DAY"
        assert http.put("/api/streams/plain", json={}).json()["max_ahead"] is None  # it has no times
        problem(http.put("/api/streams/plain", json={"max_ahead": "1 hour"}), 400, "bad_input")
        problem(http.put("/api/streams/cars", json={"max_ahead": "soon"}), 400, "bad_input")
        push(http, "cars", [{"ts": 0.0, "x": 1.0}, {"ts": day + 1, "x": 2.0}])
        pushed = push(http, "cars", [{"ts": 2 * day, "x": 3.0}]).json()
        assert pushed["rejected"] == 0 and [n["notice"] for n in pushed["notices"]] == ["waiting"]
        assert stream(http)["waiting"] == 2 and stream(http)["latest"] == 0.0
        problem(http.post("/api/advance", json={"time": 1e308}), 400, "bad_input")
        assert http.put("/api/streams/cars", json={"max_ahead": "1 hour"}).json()["max_ahead"] == "1 HOUR"
        push(http, "cars", [{"ts": 3599.0, "x": 1.0}])
        assert stream(http)["waiting"] == 2
        http.put("/api/streams/cars", json={"max_ahead": None})
        push(http, "cars", [{"ts": 3600.0, "x": 1.0}])
        assert stream(http)["waiting"] == 0 and stream(http)["latest"] == 2 * day
        push(http, "bikes", [{"ts": 0.0, "x": 1.0}])
        http.put("/api/streams/cars", json={"max_ahead": "1 day"})
        push(http, "cars", [{"ts": 9 * day, "x": 1.0}])
    server.kill()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert stream(http)["waiting"] == 1 and stream(http)["rows"] == 5
        assert stream(http)["max_ahead"] == "1 DAY"


def test_folders_from_before_keep_no_row_waiting(starting: Callable[..., Running], tmp_path: Path) -> None:
    sb.Monitor(time="ts", journal=tmp_path / "data").close()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert push(http, "cars", [{"ts": 0.0, "x": 1.0}, {"ts": 1e9, "x": 2.0}]).status_code == 200
        (cars,) = http.get("/api/streams").json()["streams"]
        assert cars["latest"] == 1e9 and cars["max_ahead"] is None and cars["waiting"] == 0


def test_what_is_odd_about_a_batch_is_in_the_answer(starting: Callable[..., Running]) -> None:
    server = starting(in_memory=True)
    with httpx.Client(base_url=server.url, timeout=60) as http:
        assert "notices" not in push(http, "cars", [{"car": "a", "speed": 1.0}]).json()
        http.post("/api/queries", json={"sql": CARS})
        assert "notices" not in push(http, "cars", [{"car": "a", "speed": 1.0}]).json()
        headers = {"idempotency-key": "once"}
        said = push(http, "cars", [{"car": "a", "Speed": 2.0}] * 3, **headers).json()
        assert said["rejected"] == 0
        notices = {each["notice"]: each for each in said["notices"]}
        missing = notices["missing column"]
        assert (missing["column"], missing["rows"], missing["first_seq"]) == ("speed", 3, 2)
        assert "Speed" in missing["hint"] and notices["unknown column"]["column"] == "Speed"
        assert "notices" not in push(http, "cars", [{"car": "a", "Speed": 2.0}] * 3, **headers).json()
        assert "notices" not in push(http, "trucks", [{"speed": 1.0}]).json()
        known = {each["name"]: each["notices"] for each in http.get("/api/streams").json()["streams"]}
        assert {each["notice"] for each in known["cars"]} == set(notices) and known["trucks"] == []
        assert all(0 <= each["seconds"] < 60 for each in known["cars"])


def test_a_token_for_one_stream_restarts_no_other(starting: Callable[..., Running], tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"admin {'a' * 20}\nadmin {'b' * 20} stream=cars\n")
    tokens.chmod(0o600)
    server = starting(in_memory=True, tokens=tokens)
    of = [httpx.Client(base_url=server.url, headers={"authorization": f"Bearer {t * 20}"}) for t in "ab"]
    for name, column in (("cars", "ts"), ("plain", None)):
        assert of[0].put(f"/api/streams/{name}", json={"time": column}).status_code == 200
    assert of[1].post("/api/streams/cars/restart").status_code == 200
    assert of[0].put("/api/streams/trucks", json={"time": "ts"}).status_code == 200
    assert "trucks" in problem(of[1].post("/api/streams/cars/restart"), 403, "forbidden")
    problem(of[1].post("/api/streams/plain/restart"), 403, "forbidden")
    assert of[0].post("/api/streams/cars/restart").status_code == 200
    for client in of:
        client.close()


def test_strict_takes_all_or_nothing(starting: Callable[..., Running], tmp_path: Path) -> None:
    server = starting(data=tmp_path / "data")
    good, bad = [{"car": "a", "speed": 1.0}], [{"car": "b", "speed": 2.0}, {"car": "c", "speed": "fast"}]
    with httpx.Client(base_url=server.url, timeout=60) as http:
        http.post("/api/queries", json={"name": "fastest", "sql": CARS})
        assert pushed(http, "strict=1", good).json()["first_seq"] == 0
        once = {"idempotency-key": "once"}
        for rows in (bad, [{"car": "d"}], [{"car": "d", "speed": 1, "Speed": 1}]):
            words = problem(pushed(http, "strict=1", rows, **once), 422, "strict")
            assert "strict" in words
        lines = '{"car": "d", "speed": 3}\n{"car":\n'
        problem(pushed(http, "strict=1", lines, "application/x-ndjson"), 422, "strict")
        problem(pushed(http, "strict=yes", good), 400, "bad_input")
        assert http.get("/api/stats").json()["rows"] == 1, "nothing takes a seq"
        assert http.put("/api/streams/cars", json={"strict": True}).json()["strict"] is True
        problem(push(http, "cars", bad), 422, "strict")
        taken = pushed(http, "strict=0", bad, **once).json()
        assert (taken["first_seq"], taken["rejected"], taken["repeated"]) == (1, 1, False)
        with sb.connect(server.url) as remote, pytest.raises(sb.StrictError):
            remote.push({"car": ["e"], "speed": ["fast"]}, strict=True)
    server.kill()
    server = starting(data=tmp_path / "data")
    with httpx.Client(base_url=server.url, timeout=60) as http:
        problem(push(http, "cars", bad), 422, "strict")
        assert http.get("/api/stats").json()["rows"] == 3
        assert http.put("/api/streams/cars", json={"strict": None}).json()["strict"] is False
        assert push(http, "cars", bad).json()["rejected"] == 1
