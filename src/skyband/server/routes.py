"""One function for each address. What they share is in `endpoints`."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from starlette.requests import Request
from starlette.responses import Response

from skyband import __version__
from skyband.core.errors import InputError
from skyband.engine.stream_settings import SETTINGS
from skyband.server import files, following
from skyband.server.endpoints import (
    ENDPOINTS,
    Held,
    State,
    arrow,
    body_of,
    endpoint,
    flag,
    not_ready,
    object_of,
    query_of,
    say,
    scope_of,
    stream_of,
    wants_arrow,
    whole,
)
from skyband.server.service import top_of

if TYPE_CHECKING:
    from skyband.durable import Receipt

__all__ = ["ENDPOINTS"]  # complete once this module is imported

MOST_IN_HEADER = 20  # notices of a push that is answered in Arrow: clients read no longer header than 64 KB

# -- pages ---------------------------------------------------------------------------------------------------


@endpoint("GET", "/", role=None)
async def dashboard(state: State, request: Request) -> Response:
    return files.page(request, "index.html")


@endpoint("GET", "/static/{file}", role=None)
async def static(state: State, request: Request) -> Response:
    return files.page(request, request.path_params["file"])


@endpoint("GET", "/docs", role=None)
async def docs(state: State, request: Request) -> Response:
    return files.docs(request, "index.html")


@endpoint("GET", "/docs/{file}", role=None)
async def docs_file(state: State, request: Request) -> Response:
    return files.docs(request, request.path_params["file"])


@endpoint("GET", "/openapi.json", role=None)
async def openapi(state: State, request: Request) -> Response:
    from skyband.server.openapi import document

    return say(document(state.settings, bool(state.guard.tokens), ENDPOINTS))


@endpoint("GET", "/health", role=None)
async def health(state: State, request: Request) -> Response:
    return say({"status": "ok", "version": __version__})


@endpoint("GET", "/ready", role=None)
async def ready(state: State, request: Request) -> Response:
    sentence = await state.call(state.unready)
    if sentence is not None:
        raise not_ready(sentence)
    return say({"status": "ready", "version": __version__})


@endpoint("GET", "/metrics")
async def metrics(state: State, request: Request) -> Response:
    from skyband.server.metrics import TYPE, text

    return Response(await state.call(text, state.service), media_type=TYPE)


# -- streams -------------------------------------------------------------------------------------------------


@endpoint("GET", "/api/streams")
async def streams(state: State, request: Request) -> Response:
    scope = scope_of(request)
    found = await state.call(state.service.streams)
    return say({"streams": [stream for stream in found if scope.has_stream(stream["name"])]})


@endpoint("PUT", "/api/streams/{stream}", role="admin")
async def set_stream(state: State, request: Request) -> Response:
    stream = stream_of(request)
    given = await object_of(
        state, request, dict.fromkeys(SETTINGS, (str,)) | {"schema": (dict,), "strict": (bool,)}
    )
    return await state.say(state.service.set_stream, stream, given)


@endpoint("POST", "/api/streams/{stream}/rows", role="push")
async def rows(state: State, request: Request) -> Response:
    began = time.perf_counter()
    stream, strict = stream_of(request), flag(request, "strict")
    with Held(state) as held:
        data = await body_of(state, request, held)
        kind, key = request.headers.get("content-type"), request.headers.get("idempotency-key")
        future = await state.call(state.service.submit, stream, data, kind, key, strict)
        # A step goes on though its client has gone.
        receipt = await asyncio.shield(asyncio.wrap_future(future))
    state.service.numbers.pushed(time.perf_counter() - began, len(data))
    about = {"rows": receipt.rows, "rejected": receipt.rejected, "first_seq": receipt.first_seq}
    more: dict[str, Any] = {"repeated": receipt.repeated}
    if receipt.notices:
        more["notices"] = [notice._asdict() for notice in receipt.notices]
    return step_done(request, receipt, about, more)


@endpoint("POST", "/api/streams/{stream}/restart", role="admin")
async def restart(state: State, request: Request) -> Response:
    stream = stream_of(request)
    for other in await state.call(state.service.restarted_with, stream):
        scope_of(request).check_stream(other)
    receipt = await state.call(state.service.restart, stream)
    return step_done(request, receipt)


@endpoint("POST", "/api/advance", role="admin")
async def advance(state: State, request: Request) -> Response:
    scope_of(request).check_all_streams()
    given = await object_of(state, request, {"time": (int, float, str), "force": (bool,)})
    if given.get("time") is None:
        raise InputError('The body must have "time": a number of seconds or an ISO 8601 text.')
    receipt = await state.call(state.service.advance, given["time"], bool(given.get("force")))
    return step_done(request, receipt)


@endpoint("GET", "/api/rejects")
async def rejects(state: State, request: Request) -> Response:
    most = whole(request, "limit")
    return await state.say(state.service.rejects, 100 if most is None else most, scope_of(request).streams)


# -- queries -------------------------------------------------------------------------------------------------


@endpoint("GET", "/api/queries")
async def queries(state: State, request: Request) -> Response:
    scope = scope_of(request)
    found = await state.call(state.service.queries)
    return await state.say(lambda: {"queries": [query for query in found if scope.has_query(query["name"])]})


@endpoint("POST", "/api/queries", role="admin")
async def watch(state: State, request: Request) -> Response:
    given = await object_of(state, request, {"name": (str,), "sql": (str,)})
    if not given.get("sql"):
        raise InputError('The body must have "sql": the query.')
    scope_of(request).check_query(given.get("name") or "")
    await check_streams(state, request, given["sql"])
    return say(await state.call(state.service.watch, given["sql"], given.get("name")), 201)


@endpoint("POST", "/api/check")
async def check(state: State, request: Request) -> Response:
    given = await object_of(state, request, {"name": (str,), "sql": (str,)})
    if given.get("sql") is None:
        raise InputError('The body must have "sql": the query.')
    await check_streams(state, request, given["sql"])
    return await state.say(state.service.check, given["sql"])


@endpoint("GET", "/api/queries/{name}")
async def query(state: State, request: Request) -> Response:
    return await state.say(state.service.query, query_of(request))


@endpoint("PATCH", "/api/queries/{name}", role="admin")
async def change(state: State, request: Request) -> Response:
    given = await object_of(state, request, {"k": (int,), "window": (str,)})
    k, window = given.get("k"), given.get("window")
    if k is None and window is None:
        raise InputError('The body must have "k", "window" or both.')
    return await state.say(state.service.change, query_of(request), k, window)


@endpoint("DELETE", "/api/queries/{name}", role="admin")
async def drop(state: State, request: Request) -> Response:
    return await state.say(state.service.drop, query_of(request))


@endpoint("GET", "/api/queries/{name}/top")
async def top(state: State, request: Request) -> Response:
    name, k = query_of(request), whole(request, "k", 1)
    offset, table = await state.call(state.service.top_table, name, k, request.query_params.get("window"))
    if wants_arrow(request):
        return await state.call(arrow, table, {"offset": offset})  # type: ignore[no-any-return]
    return await state.say(top_of, name, offset, table)


@endpoint("GET", "/api/queries/{name}/explain")
async def explain(state: State, request: Request) -> Response:
    return await state.say(state.service.explain, query_of(request))


@endpoint("GET", "/api/queries/{name}/picture")
async def picture(state: State, request: Request) -> Response:
    return await state.say(state.service.picture, query_of(request))


# -- how things stand ----------------------------------------------------------------------------------------


@endpoint("GET", "/api/stats")
async def stats(state: State, request: Request) -> Response:
    return await state.say(state.service.stats)


@endpoint("GET", "/api/settings")
async def settings(state: State, request: Request) -> Response:
    return say(
        {
            "settings": state.settings.limits(),
            "time": state.service.time,
            "role": request.state.caller.role,
            "readonly": state.service.readonly,
        }
    )


@endpoint("GET", "/api/changes")
async def events(state: State, request: Request) -> Response:
    return await following.events(state, request)


# -- scopes --------------------------------------------------------------------------------------------------


def step_done(
    request: Request,
    receipt: Receipt,
    about: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
) -> Response:
    """Answer what a step has done, as far as the caller's token is for it, with what there is to say besides."""
    queries, changes, count = scope_of(request).queries, receipt.changes, receipt.changed
    if queries is not None:
        known = pa.array(sorted(queries), pa.string())
        changes = changes.filter(pc.is_in(pc.cast(changes.column("query"), pa.string()), known))
        count = changes.num_rows
    done = {**(about or {}), "changes": count, "offset": receipt.offset, **(more or {})}
    if not wants_arrow(request):
        return say(done)
    if "notices" in done:  # in a header, which can't be of any length
        done["notices"] = done["notices"][:MOST_IN_HEADER]
    return arrow(changes, done)


async def check_streams(state: State, request: Request, sql: str) -> None:
    """Whether the caller's token is for the streams of a query."""
    scope = scope_of(request)
    if scope.streams is not None:
        for name in await state.call(state.service.streams_of, sql):
            scope.check_stream(name)
