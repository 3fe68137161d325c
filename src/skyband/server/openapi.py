"""What the addresses say of themselves: the OpenAPI document, in version 3.0, which Swagger UI reads.

One entry for each endpoint, in the order of the page. A test holds that every endpoint has one and no other, and
another that the answers are what is written here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skyband import __version__
from skyband.server.bodies import ARROW, CSV, JSON, LINES
from skyband.server.encodings import ENCODINGS
from skyband.server.endpoints import Endpoint
from skyband.server.problems import STATUS
from skyband.server.settings import Settings

Data = dict[str, Any]


def _of(kind: str, **more: Any) -> Data:
    return {"type": kind, **more}


def _or_null(kind: str, **more: Any) -> Data:
    return {"type": kind, "nullable": True, **more}


def _object(required: Data, **optional: Any) -> Data:
    made: Data = {"type": "object", "properties": {**required, **optional}}
    return {**made, "required": list(required)} if required else made


def _ref(name: str) -> Data:
    return {"$ref": f"#/components/schemas/{name}"}


def _list(of: Data) -> Data:
    return {"type": "array", "items": of}


WHOLE = _of("integer", minimum=0)
TEXT = _of("string")
NUMBER_OR_TEXT = {"anyOf": [_of("number"), _of("string")]}
SCORE = {
    "description": "a number; infinities are the texts Infinity and -Infinity",
    **NUMBER_OR_TEXT,
    "nullable": True,
}
TIME = {"description": "seconds, or ISO 8601", **NUMBER_OR_TEXT, "nullable": True}
ANY_ROW = _of("object", additionalProperties=True)
KIND = _of("string", enum=["topk", "threshold", "pairs", "joined", "grouped"])

_QUERY = {
    "sql": TEXT,
    "k": _or_null("integer"),
    "window": TEXT,
    "algorithm": TEXT,
    "kind": KIND,
    "stream": TEXT,
}
_STATS = {
    **dict.fromkeys(("rows", "offset", "rejected", "queries", "subscribers", "missed", "waiting"), WHOLE),
    **dict.fromkeys(("state_rows", "state_bytes", "window_rows"), WHOLE),
    **dict.fromkeys(("rows_per_second", "changes_per_second", "seconds"), _of("number", minimum=0)),
    "rejects": _of("object", additionalProperties=WHOLE),
    "latency_ms": {**_object({"p50": _of("number"), "p99": _of("number")}), "nullable": True},
    "pruned": _or_null("number"),
    "now": TIME,
    "version": TEXT,
}
_NOTICE = {
    **dict.fromkeys(("notice", "stream", "hint"), TEXT),
    "column": _or_null("string"),
    "rows": WHOLE,
    **dict.fromkeys(("first_seq", "last_seq"), _or_null("integer")),
}
SCHEMAS: Data = {
    "Error": _object(
        {
            "error": _object(
                {
                    "code": _of("string", enum=sorted(STATUS)),
                    "message": TEXT,
                    "where": {
                        **_object(
                            {
                                "line": _or_null("integer"),
                                "column": _or_null("integer"),
                                "hint": _or_null("string"),
                            }
                        ),
                        "nullable": True,
                    },
                }
            )
        }
    ),
    "Query": _object({"name": TEXT, **_QUERY}),
    "Stream": _object(
        {
            "name": TEXT,
            "columns": _list(_object({"name": TEXT, "type": TEXT})),
            "schema": {**_of("object", additionalProperties=TEXT), "nullable": True},
            **dict.fromkeys(("time", "time_unit", "key", "op", "max_ahead"), _or_null("string")),
            "strict": _of("boolean"),
            "rows": WHOLE,
            "waiting": {"description": "rows that wait, stamped far ahead", **WHOLE},
            **dict.fromkeys(("now", "latest"), TIME),
            "behind": {"description": "seconds behind the clock", **_or_null("number")},
            "last_minute": _object(
                {
                    **dict.fromkeys(("accepted", "rejected", "waiting"), WHOLE),
                    "rejects": _list(
                        _object(
                            {
                                "reason": TEXT,
                                "rows": WHOLE,
                                "seq": _or_null("integer"),
                                "detail": TEXT,
                                "raw": TEXT,
                            }
                        )
                    ),
                }
            ),
            "notices": _list(_object({**_NOTICE, "seconds": _or_null("number")})),
            "warning": {"description": "why most rows don't get in", **_or_null("string")},
        }
    ),
    "Pushed": _object(
        {
            **dict.fromkeys(("rows", "rejected", "first_seq", "changes", "offset"), WHOLE),
            "repeated": _of("boolean"),
        },
        notices=_list(_object(_NOTICE)),
    ),
    "Change": _object(
        {
            "query": TEXT,
            "change": _of("string", enum=["leave", "enter"]),
            "rank": _or_null("integer"),
            "score": SCORE,
            "seq": _or_null("integer"),
            "time": TIME,
        },
        seq_b=WHOLE,
        id=TEXT,
    ),
    "Top": _object({"query": TEXT, "offset": WHOLE, "columns": _list(TEXT), "rows": _list(ANY_ROW)}),
    "Stats": _object(_STATS),
}


def _parameter(name: str, where: str, schema: Data, about: str) -> Data:
    return {"name": name, "in": where, "required": where == "path", "schema": schema, "description": about}


_STREAM = _parameter("stream", "path", _of("string", minLength=1, maxLength=200), "Made if it isn't there.")
NAME = _parameter("name", "path", _of("string", minLength=1), "The query's name.")
FROM = _parameter(
    "from", "query", _of("integer", minimum=0, maximum=10**18 - 1), "The offset that the reader knows."
)
QUERY = _parameter("query", "query", TEXT, "Only this query's changes.")


def _json(schema: Data) -> Data:
    return {"content": {JSON: {"schema": schema}}}


def _body(schema: Data, example: Data) -> Data:
    return {
        "required": True,
        "content": {JSON: {"schema": {**schema, "additionalProperties": False}, "example": example}},
    }


def _either(schema: Data) -> Data:
    return {"content": {JSON: {"schema": schema}, ARROW: {"schema": _of("string", format="binary")}}}


SQL = "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 1000 ROWS"
_ROWS_BODY: Data = {
    "required": True,
    "content": {
        JSON: {
            "schema": {"anyOf": [_list(ANY_ROW), _of("object", additionalProperties=_list({}))]},
            "example": [{"id": "a", "speed": 88.0}, {"id": "b", "speed": 93.5}],
        },
        LINES: {"schema": TEXT, "example": '{"id": "a", "speed": 88.0}\n'},
        CSV: {"schema": TEXT, "example": "id,speed\na,88.0\n"},
        ARROW: {"schema": _of("string", format="binary")},
    },
}

# by method and path: what it does, parameters, body, the answer
PATHS: dict[tuple[str, str], tuple[str, list[Data], Data | None, int, Data]] = {
    ("GET", "/health"): (
        "Whether the process lives.", [], None, 200, _json(_object({"status": TEXT, "version": TEXT})),
    ),
    ("GET", "/ready"): (
        "Whether rows can be pushed. If not, 503 says why: the journal is being read, the disk is full or fails, the "
        "server is shutting down.",
        [], None, 200, _json(_object({"status": TEXT, "version": TEXT})),
    ),
    ("GET", "/api/streams"): (
        "The streams and their columns.", [], None, 200, _json(_object({"streams": _list(_ref("Stream"))})),
    ),
    ("PUT", "/api/streams/{stream}"): (
        "Set a stream up before its first row: the types of its columns, its time column, key and operation, how far "
        "ahead a row may be stamped. What isn't named stays as it is, null takes it back. A stream with rows takes "
        "strict, max_ahead and further columns only.",
        [_STREAM],
        _body(
            _object(
                {}, schema={**_of("object", additionalProperties=TEXT), "nullable": True},
                **dict.fromkeys(("time", "time_unit", "key", "op", "max_ahead"), _or_null("string", minLength=1)),
                strict=_or_null("boolean"),
            ),
            {"schema": {"ts": "timestamp[us]", "car": "string", "speed": "double"}, "time": "ts"},
        ),
        200, _json(_ref("Stream")),
    ),
    ("POST", "/api/streams/{stream}/rows"): (
        "Push rows. Answered when they are on disk. Rows that don't fit are rejected, and are no error. What is odd "
        "about the batch is in notices.",
        [
            _STREAM,
            _parameter(
                "strict", "query", _of("integer", minimum=0, maximum=1),
                "1: 422, and nothing is taken, if a column is missing or unknown or a row would be rejected for any "
                "reason but lateness.",
            ),
            _parameter(
                "Idempotency-Key", "header", _of("string", minLength=1, maxLength=200),
                "The client's own name for this batch: sent again under the same one, it is not taken twice.",
            ),
            _parameter(
                "Content-Encoding", "header", _of("string", enum=["identity", *ENCODINGS]),
                "How the body is packed. Unpacked it must keep to the limit, too.",
            ),
        ],
        _ROWS_BODY, 200, _either(_ref("Pushed")),
    ),
    ("POST", "/api/streams/{stream}/restart"): (
        "Let a stream begin again: its rows go, its queries and columns stay. If time would move back by it, all "
        "streams with times begin again together.",
        [_STREAM], None, 200, _either(_object({"changes": WHOLE, "offset": WHOLE})),
    ),
    ("POST", "/api/advance"): (
        "Time passes without rows; further than max_ahead after now only by force.", [],
        _body(_object({"time": NUMBER_OR_TEXT}, force=_of("boolean")), {"time": "2024-05-01T10:00:00Z"}),
        200, _either(_object({"changes": WHOLE, "offset": WHOLE})),
    ),
    ("GET", "/api/rejects"): (
        "The last rejected rows, and how many there were by reason.",
        [_parameter("limit", "query", _of("integer", minimum=0, maximum=10_000), "How many: 100.")],
        None, 200, _json(_object({"rejects": _list(ANY_ROW), "counts": _of("object", additionalProperties=WHOLE)})),
    ),
    ("GET", "/api/queries"): (
        "What is watched.", [], None, 200, _json(_object({"queries": _list(_ref("Query"))})),
    ),
    ("POST", "/api/queries"): (
        "Watch a query from now on.", [],
        _body(_object({"sql": _of("string", minLength=1)}, name=_or_null("string")), {"name": "fastest", "sql": SQL}),
        201, _json(_ref("Query")),
    ),
    ("POST", "/api/check"): (
        "Whether a query could be asked, and how it would be answered.", [],
        _body(_object({"sql": TEXT}, name=_or_null("string")), {"sql": SQL}), 200,
        _json(_object({"ok": _of("boolean"), "query": _object({**_QUERY, "columns": _list(TEXT)}), "explain": TEXT})),
    ),
    ("GET", "/api/queries/{name}"): ("One query.", [NAME], None, 200, _json(_ref("Query"))),
    ("PATCH", "/api/queries/{name}"): (
        "Another k or window.", [NAME],
        _body(_object({}, k=_or_null("integer"), window=_or_null("string")), {"k": 5, "window": "2000 ROWS"}),
        200, _json(_ref("Query")),
    ),
    ("DELETE", "/api/queries/{name}"): (
        "Watch it no longer.", [NAME], None, 200, _json(_object({"dropped": TEXT, "offset": WHOLE})),
    ),
    ("GET", "/api/queries/{name}/top"): (
        "The answer now; with k or window any other that the watched ones cover.",
        [
            NAME,
            _parameter("k", "query", _of("integer", minimum=1, maximum=2**31 - 1), "How many ranks."),
            _parameter("window", "query", TEXT, "Another window, such as 1 minute."),
        ],
        None, 200, _either(_ref("Top")),
    ),
    ("GET", "/api/queries/{name}/explain"): (
        "The plan.", [NAME], None, 200, _json(_object({"text": TEXT, "plan": ANY_ROW})),
    ),
    ("GET", "/api/queries/{name}/picture"): (
        "The score-time picture: window, candidates, top, and what enters next.", [NAME], None, 200, _json(ANY_ROW),
    ),
    ("GET", "/api/changes"): (
        "The changes as server-sent events; as a WebSocket at the same address. A message is {offset, changes}; a "
        "reader that fell too far behind gets {missed: {from, to}, offset, tops} and goes on from there.",
        [FROM, QUERY, _parameter("Last-Event-ID", "header", WHOLE, "As from, from a browser that comes back.")],
        None, 200, {"content": {"text/event-stream": {"schema": TEXT}}},
    ),
    ("GET", "/api/stats"): ("How things stand.", [], None, 200, _json(_ref("Stats"))),
    ("GET", "/api/settings"): (
        "The limits in force, and what the caller may do.", [], None, 200,
        _json(
            _object(
                {
                    "settings": _of("object", additionalProperties=_of("integer")),
                    "time": _or_null("string"),
                    "role": _of("string", enum=["read", "push", "admin"]),
                    "readonly": _of("boolean"),
                }
            )
        ),
    ),
    ("GET", "/metrics"): ("For Prometheus.", [], None, 200, {"content": {"text/plain": {"schema": TEXT}}}),
}  # fmt: skip
# Pages for people: no part of the interface.
PAGES = {"/", "/static/{file}", "/docs", "/docs/{file}", "/openapi.json"}


def document(settings: Settings, tokens: bool, endpoints: Iterable[Endpoint]) -> Data:
    """Return the OpenAPI document of a server with these endpoints."""
    roles = {(each.method, each.path): each.role for each in endpoints}
    paths: Data = {}
    for (method, path), (about, parameters, body, status, answer) in PATHS.items():
        role = roles[method, path]
        made: Data = {
            "summary": about,
            "operationId": f"{method.lower()}{path.title().replace('/', '').replace('{', '').replace('}', '')}",
            "tags": [path.split("/")[2] if path.startswith("/api/") else "server"],
            "responses": {
                str(status): {"description": "As asked.", **answer},
                "default": {"description": "What is wrong, in one sentence.", **_json(_ref("Error"))},
            },
        }
        if parameters:
            made["parameters"] = parameters
        if body is not None:
            made["requestBody"] = body
        if tokens and role is not None:
            made["security"] = [{"token": []}]
            made["description"] = f"Needs a token of the role {role}."
        paths.setdefault(path, {})[method.lower()] = made
    components: Data = {"schemas": SCHEMAS}
    if tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    return {
        "openapi": "3.0.3",
        "info": {
            "title": "skyband",
            "version": __version__,
            "description": "Continuous top-k over sliding windows: push rows, ask once, follow the changes.",
        },
        "paths": paths,
        "components": components,
    }
