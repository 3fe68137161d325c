"""PUT /api/streams/NAME: a stream is set up before its first row, and stays so through a kill."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx

from skyband.server.testing import Running

from .test_http import problem, push

SETTINGS: dict[str, Any] = {
    "schema": {"at": "timestamp[us, tz=UTC]", "car": "string", "speed": "double"},
    "time": "at",
    "key": "car",
    "op": None,
}
SQL = "SELECT car, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 1 HOUR"
CSV = (
    "at,car,speed\n2024-05-01T10:00:00Z,ann,88\n2024-05-01T10:00:01Z,ben,121.5\n2024-05-01T10:00:02Z,ann,90\n"
)


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
