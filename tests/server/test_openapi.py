"""What /openapi.json says, held against what the server does, with requests that schemathesis makes up."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import checks

from skyband.server.openapi import document
from skyband.server.routes import ENDPOINTS
from skyband.server.settings import Settings
from skyband.server.testing import Running

from .test_http import CARS, push

HELD = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OPERATIONS = {
    found.ok().label: found.ok()
    for found in schemathesis.openapi.from_dict(document(Settings(), False, ENDPOINTS)).get_all_operations()
}
del OPERATIONS["GET /api/changes"]  # a stream of events has no end that could be waited for


@pytest.fixture(scope="module", autouse=True)
def fastest(http: httpx.Client) -> None:
    assert push(http, "cars", [{"id": "a", "speed": 88.0}]).status_code == 200
    assert http.post("/api/queries", json={"name": "fastest", "sql": CARS}).status_code == 201


def test_the_page_is_this_document(http: httpx.Client) -> None:
    assert http.get("/openapi.json").json() == document(Settings(), False, ENDPOINTS)


def hold(label: str, server: Running, examples: int) -> None:
    @settings(max_examples=examples, suppress_health_check=list(HealthCheck), deadline=None, database=None)
    @given(OPERATIONS[label].as_strategy(), st.booleans())
    def ask(case: Any, known: bool) -> None:
        if known and "name" in case.path_parameters and case.method != "DELETE":
            case.path_parameters["name"] = "fastest"  # else nearly every name is of no query
        case.call_and_validate(base_url=server.url, checks=HELD)

    ask()


@pytest.mark.parametrize("label", OPERATIONS)
def test_the_server_does_what_its_document_says(label: str, server: Running) -> None:
    hold(label, server, 4)


@pytest.mark.soak
@pytest.mark.parametrize("label", OPERATIONS)
def test_the_same_at_depth(label: str, server: Running) -> None:
    hold(label, server, 200)


def test_the_server_is_still_well(http: httpx.Client) -> None:
    assert push(http, "cars", [{"id": "b", "speed": 99.0}]).json()["rejected"] == 0
    assert http.get("/api/stats").status_code == 200
