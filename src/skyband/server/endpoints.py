"""What all addresses share: the state of the server, the roles of callers, and how requests are read and answered.

An endpoint is a function that takes a request whose caller has been let in, and returns the response. `answer` checks
the caller before and turns every error into the one shape.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from skyband.core.errors import InputError, JournalError
from skyband.server.allowed import check_name
from skyband.server.bodies import ARROW, check_text
from skyband.server.encodings import unpacking
from skyband.server.guard import Caller, Guard, Scope
from skyband.server.live import Live
from skyband.server.picture import Sampler
from skyband.server.problems import Problem, problem_of
from skyband.server.service import Service
from skyband.server.settings import Settings

if TYPE_CHECKING:
    from skyband.server.pipeline import PipelineService

log = logging.getLogger("skyband")

THREADS = 8  # for bodies and reads; the engine has its own


@dataclass
class State:
    """What all endpoints share."""

    settings: Settings
    guard: Guard
    opened: tuple[Service | PipelineService, Live] | None = None  # None while the journal is read
    closing: bool = False
    threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(THREADS, thread_name_prefix="skyband-http")
    )
    pending: int = 0  # bytes of bodies that wait

    def open(self, service: Service | PipelineService) -> None:
        """Requests are answered by this service from now on. Called in the event loop."""
        if not service.readonly:
            service.sampler = Sampler()
        live = Live(service)
        service.on_step = live.step
        service.hub.attach(asyncio.get_running_loop())
        self.opened = service, live

    @property
    def service(self) -> Service | PipelineService:
        if self.opened is None:
            raise not_ready("The server is reading its journal: try again a little later.")
        return self.opened[0]

    @property
    def live(self) -> Live:
        assert self.opened is not None  # the service was asked for before
        return self.opened[1]

    def unready(self) -> str | None:
        """Why no rows can be pushed now, in a sentence; None where they can. Called in a thread."""
        try:
            return CLOSING if self.closing else self.service.unready()
        except Problem as problem:
            return str(problem)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Run something in a thread, never in the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self.threads, function, *arguments)

    async def say(self, function: Callable[..., Any], *arguments: Any) -> Response:
        """Return what a function returns, as JSON; written in the thread, too, since it may be long."""
        return await self.call(lambda: say(function(*arguments)))  # type: ignore[no-any-return]


CLOSING = "The server is shutting down: send it again after the next start."


def not_ready(sentence: str) -> Problem:
    return Problem("not_ready", sentence, headers={"retry-after": "1"})


Handler = Callable[[State, Request], Awaitable[Response]]


@dataclass(frozen=True)
class Endpoint:
    """An address, what it does and the role that it needs; None: no token at all."""

    method: str
    path: str
    handler: Handler
    role: str | None


ENDPOINTS: list[Endpoint] = []


def endpoint(method: str, path: str, role: str | None = "read") -> Callable[[Handler], Handler]:
    def add(handler: Handler) -> Handler:
        ENDPOINTS.append(Endpoint(method, path, handler, role))
        return handler

    return add


async def answer(state: State, each: Endpoint, request: Request) -> Response:
    """Check the caller, call the endpoint, and answer with a problem where something goes wrong."""
    try:
        if each.role is not None:
            request.state.caller = admit(state, request, each.role)
        response = await each.handler(state, request)
    except ClientDisconnect:
        response = Response(status_code=400)  # the client has gone
    except Exception as error:
        if state.closing and isinstance(error, JournalError):
            error = not_ready(CLOSING)
        response = respond(problem_of(error), error)
    if state.opened is not None:
        state.service.numbers.answered(request.method, response.status_code)
    return response


def admit(state: State, request: Any, role: str) -> Caller:
    """Return the caller of a request or a WebSocket, if it may come in."""
    address = request.client.host if request.client is not None else ""
    offered = request.scope.get("subprotocols") or ()
    try:
        caller = state.guard.caller(request.headers.get("authorization"), offered, address)
    except Problem:
        state.guard.refused(address)
        raise
    state.guard.admit(caller, role)
    return caller


def respond(problem: Problem, error: BaseException | None = None) -> Response:
    """Return a problem as a response; an error that is not one of ours goes to the log."""
    if problem.code == "internal" and error is not None:
        log.error("a request failed", exc_info=error)
    return Response(problem.body(), problem.status, problem.headers, media_type="application/json")


def say(value: Any, status: int = 200) -> Response:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str)
    return Response(text.encode("utf-8", "replace"), status, media_type="application/json")


def scope_of(request: Request) -> Scope:
    """Return what the caller's token is for."""
    caller: Caller = request.state.caller
    return caller.scope


def stream_of(request: Request) -> str:
    """Return the stream of the address, if it may have that name and the caller's token is for it."""
    name: str = request.path_params["stream"]
    check_name(name, "stream")
    scope_of(request).check_stream(name)
    return name


def query_of(request: Request) -> str:
    """Return the query of the address, if the caller's token is for it."""
    name: str = request.path_params["name"]
    scope_of(request).check_query(name)
    return name


# -- what a request brings -----------------------------------------------------------------------------------


class Held:
    """Bytes that one request holds until it is answered; all requests together may hold only so many."""

    def __init__(self, state: State) -> None:
        self.state = state
        self.size = 0

    def add(self, size: int) -> None:
        self.size += size
        self.state.pending += size
        if self.state.pending > self.state.settings.max_pending:
            raise Problem(
                "busy",
                "Too many rows are waiting already: try again a little later.",
                headers={"retry-after": "1", "connection": "close"},
            )

    def __enter__(self) -> Held:
        return self

    def __exit__(self, *_: object) -> None:
        self.state.pending -= self.size


async def body_of(state: State, request: Request, held: Held, most: int | None = None) -> bytes:
    """Return the whole body, unpacked, if it isn't too large (`most`, if less than --max-body) and doesn't take too
    long."""
    declared = request.headers.get("content-length")
    limit = state.settings.max_body
    word = "send it in parts, or start the server with a larger --max-body"
    if most is not None and most < limit:
        limit, word = most, "make it shorter, only pushed rows may have more"
    if declared is not None and declared.isdigit() and int(declared) > limit:
        raise _too_large(limit, word)
    packed = unpacking(request.headers.get("content-encoding"))
    parts: list[bytes] = []
    received = size = 0
    clock = asyncio.get_running_loop().time
    now, stall = clock(), state.settings.max_stall
    end = now + state.settings.max_wait
    try:
        async with asyncio.timeout_at(min(end, now + stall)) as waiting:
            async for sent in request.stream():
                part = sent if packed is None else await state.call(packed.more, sent, limit - size)
                received, size = received + len(sent), size + len(part)
                if max(received, size) > limit:
                    raise _too_large(limit, word, packed is not None)
                held.add(max(len(sent), len(part)))
                parts.append(part)
                waiting.reschedule(min(end, clock() + stall))
    except TimeoutError:
        raise Problem(
            "too_slow",
            "The request's body took too long to arrive: send it faster.",
            headers={"connection": "close"},
        ) from None
    if packed is not None:
        parts.append(await state.call(packed.end, limit - size))
        held.add(len(parts[-1]))
        if size + len(parts[-1]) > limit:
            raise _too_large(limit, word, True)
    return b"".join(parts)


def _too_large(most: int, word: str, unpacked: bool = False) -> Problem:
    what = "bytes when it is unpacked" if unpacked else "bytes"
    return Problem(
        "too_large", f"The request has more than {most:,} {what}: {word}.", headers={"connection": "close"}
    )


_WORDS: dict[type, str] = {
    int: "whole number", float: "number", str: "text", dict: "JSON object", bool: "truth value",
}  # fmt: skip


async def object_of(state: State, request: Request, known: dict[str, tuple[type, ...]]) -> dict[str, Any]:
    """Return a body that is one JSON object with these keys and types."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != "application/json":
        raise Problem("unsupported_type", "The body must be a JSON object: send it as application/json.")
    with Held(state) as held:
        data = await body_of(state, request, held, 1 << 20)
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        raise InputError("The body is not JSON: send an object.") from None
    if not isinstance(value, dict):
        raise InputError(f"The body must be a JSON object with {_names(known)}.")
    for name, part in value.items():
        if name not in known:
            raise InputError(f"The body has an unknown key {name[:100]!r}: the keys are {_names(known)}.")
        fits = part is None or (
            isinstance(part, known[name]) and (not isinstance(part, bool) or bool in known[name])
        )
        if not fits:
            raise InputError(f'"{name}" must be a {" or a ".join(_WORDS[t] for t in known[name])}.')
        if isinstance(part, str | dict):
            check_text(part)
    return value


def _names(known: dict[str, Any]) -> str:
    return ", ".join(f'"{name}"' for name in known)


def whole(request: Request, name: str, least: int = 0) -> int | None:
    """Return a whole number among the query parameters."""
    text = request.query_params.get(name)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 19 or not least <= int(text) < 2**63:
        raise InputError(f"{name}= must be a whole number of at least {least}, not {text[:40]!r}.")
    return int(text)


def flag(request: Request, name: str) -> bool | None:
    """Return a truth value among the query parameters; None where it isn't given."""
    text = request.query_params.get(name)
    if text is not None and text not in ("0", "1", "false", "true"):
        raise InputError(f"{name}= must be 1 or 0, not {text[:40]!r}.")
    return None if text is None else text in ("1", "true")


def wants_arrow(request: Request) -> bool:
    return ARROW in request.headers.get("accept", "")


def arrow(table: pa.Table, about: dict[str, Any]) -> Response:
    """Return a table as an Arrow IPC stream; what else there is to say is in a header."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"skyband-answer": json.dumps(about)}
    return Response(sink.getvalue().to_pybytes(), headers=headers, media_type=ARROW)
