"""Following the changes: the same messages over a WebSocket and as server-sent events.

A reader names the offset that it knows (`from=`) and gets what came after; without one it begins now. A first message
says where it stands. While nothing changes it receives the offset now and then, which also shows whether it is still
there.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.websockets import WebSocket, WebSocketDisconnect

from skyband.core.errors import InputError
from skyband.server.endpoints import State
from skyband.server.guard import Caller, Names
from skyband.server.hub import QUIET
from skyband.server.problems import Problem, problem_of

NO_TOKEN = 4401  # a WebSocket is closed with it when its token is taken back
_GONE = (WebSocketDisconnect, RuntimeError, OSError)


async def begin(state: State, caller: Caller, given: str | None, query: str | None) -> tuple[int, Names]:
    """Return where a reader begins, and the queries that it follows, if it may."""
    if state.service.hub.readers >= state.settings.max_subscribers:
        raise Problem(
            "busy",
            f"{state.settings.max_subscribers:,} readers follow the changes already: try later, or start the server "
            "with a larger --max-subscribers.",
            headers={"retry-after": "5"},
        )
    wanted = caller.scope.queries
    if query is not None:
        caller.scope.check_query(query)
        await state.call(state.service.query, query)
        wanted = frozenset([query])
    if given is None:
        return state.service.hub.offset, wanted
    if not given.isascii() or not given.isdigit() or len(given) > 18:
        raise InputError(f"from= must be an offset, a whole number, not {given[:40]!r}.")
    return int(given), wanted


async def messages(state: State, caller: Caller, place: int, wanted: Names) -> AsyncIterator[tuple[int, str]]:
    """The messages for a reader at this place, each with the offset after it, until its token is taken back."""
    hub = state.service.hub
    clock = asyncio.get_running_loop().time
    sent = -QUIET
    while not hub.closed and state.guard.holds(caller):
        place, text = await hub.next(place, wanted)
        if text is None and clock() - sent >= QUIET:
            text = f'{{"offset":{place},"changes":[]}}'
        if text is not None:
            sent = clock()
            hub.sent += 1
            yield place, text
        if hub.done(place):
            place = await hub.wait(place, wanted)


async def changes(state: State, socket: WebSocket, caller: Caller) -> None:
    """A WebSocket that follows. It has been let in."""
    hub = state.service.hub
    try:
        place, wanted = await begin(
            state, caller, socket.query_params.get("from"), socket.query_params.get("query")
        )
    except Exception as error:
        await refuse(socket, error)
        return
    await accept(socket)
    hub.readers += 1
    sending = asyncio.create_task(_send(state, socket, caller, place, wanted))
    receiving = asyncio.create_task(_until_gone(socket))
    try:
        await asyncio.wait({sending, receiving}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        hub.readers -= 1
        for task in (sending, receiving):
            task.cancel()
        await asyncio.gather(sending, receiving, return_exceptions=True)
        await end(socket, 1001 if state.guard.holds(caller) else NO_TOKEN)


async def _send(state: State, socket: WebSocket, caller: Caller, place: int, wanted: Names) -> None:
    hub = state.service.hub
    with contextlib.suppress(*_GONE):
        async for _, text in messages(state, caller, place, wanted):
            # one that doesn't read is not waited for for ever: it doesn't answer pings either
            await socket.send({"type": "websocket.send", "text": text, "frame": hub.frame(text)})


async def _until_gone(socket: WebSocket) -> None:
    """Readers have nothing to say but that they leave."""
    with contextlib.suppress(*_GONE, KeyError):
        while (await socket.receive())["type"] != "websocket.disconnect":
            pass


async def accept(socket: WebSocket) -> None:
    offered = socket.scope.get("subprotocols") or ()
    await socket.accept(subprotocol="skyband" if "skyband" in offered else None)


async def end(socket: WebSocket, code: int) -> None:
    """Close, if the other end is still there."""
    with contextlib.suppress(*_GONE):
        await socket.close(code)


async def refuse(socket: WebSocket, error: Exception) -> None:
    """Answer the request for a WebSocket with a problem."""
    problem = problem_of(error)
    headers = {**problem.headers}
    response = Response(problem.body(), problem.status, headers, media_type="application/json")
    with contextlib.suppress(*_GONE):
        await socket.send_denial_response(response)


async def events(state: State, request: Request) -> Response:
    """Return the same as server-sent events."""
    given = request.headers.get("last-event-id") or request.query_params.get("from")
    caller: Caller = request.state.caller
    place, wanted = await begin(state, caller, given, request.query_params.get("query"))
    hub = state.service.hub
    if request.method == "HEAD":
        return Response(media_type="text/event-stream", headers={"cache-control": "no-store"})

    async def stream() -> AsyncIterator[str]:
        hub.readers += 1
        try:
            yield f": following from {place}\n\n"
            async for offset, text in messages(state, caller, place, wanted):
                kind = "missed" if text.startswith('{"missed"') else "changes"
                yield f"id: {offset}\nevent: {kind}\ndata: {text}\n\n"
        finally:
            hub.readers -= 1

    return StreamingResponse(stream(), media_type="text/event-stream", headers={"cache-control": "no-store"})
