"""The application: routes behind the checks that hold for every request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from skyband.server import following
from skyband.server.endpoints import Endpoint, State, admit, answer, respond
from skyband.server.guard import Caller
from skyband.server.live import live
from skyband.server.problems import Problem, problem_of
from skyband.server.routes import ENDPOINTS

# Swagger UI sets style attributes; nothing needs scripts inside pages.
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'{styles}; img-src 'self' data:; connect-src 'self'; "
    "font-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_SLASH = (
    "\x1f"  # stands for a slash in a name until the route is found; no name has it, for it can't be printed
)
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]


def make_app(state: State) -> ASGIApp:
    """Return the application. It answers /health, /ready and pages at once, the rest once `state` is open."""
    app = Starlette(
        routes=_routes(state),
        exception_handlers={HTTPException: _refused, Exception: _failed},  # type: ignore[dict-item]
    )
    app.router.redirect_slashes = False
    return Door(app, state)


def _routes(state: State) -> list[BaseRoute]:
    paths: dict[str, list[Endpoint]] = {}
    for each in ENDPOINTS:
        paths.setdefault(each.path, []).append(each)
    routes: list[BaseRoute] = [
        Route(path, _choose(state, found), methods=[each.method for each in found])
        for path, found in paths.items()
    ]
    routes.append(WebSocketRoute("/api/changes", _socket(state, following.changes)))
    routes.append(WebSocketRoute("/api/live", _socket(state, _live)))
    return routes


def _choose(state: State, found: list[Endpoint]) -> Callable[[Request], Any]:
    """Return the endpoint of a path by its method."""
    by_method = {each.method: each for each in found}

    async def call(request: Request) -> Response:
        each = by_method.get("GET" if request.method == "HEAD" else request.method)
        for name, value in request.path_params.items():
            request.path_params[name] = value.replace(_SLASH, "/")
        assert each is not None  # the route has no other methods
        return await answer(state, each, request)

    return call


def _socket(state: State, follow: Callable[[State, WebSocket, Caller], Any]) -> Callable[[WebSocket], Any]:
    async def call(socket: WebSocket) -> None:
        try:
            caller = admit(state, socket, "read")
            _ = state.service  # or it is not open yet
        except Exception as error:
            await following.refuse(socket, error)
            return
        await follow(state, socket, caller)

    return call


async def _live(state: State, socket: WebSocket, caller: Caller) -> None:
    if state.live.readers >= state.settings.max_subscribers:
        await following.refuse(socket, Problem("busy", "Too many pages are open already: close some."))
        return
    await following.accept(socket)
    await live(socket, state.live, caller.scope, lambda: state.guard.holds(caller))
    if not state.guard.holds(caller):
        await following.end(socket, following.NO_TOKEN)


async def _refused(request: Request, error: HTTPException) -> Response:
    """Return what the framework refuses, in our shape."""
    if error.status_code == 405:
        allowed = ", ".join(
            sorted((error.headers or {}).get("Allow", "").split(", "))
        )  # it comes in any order
        problem = Problem(
            "method_not_allowed",
            f"{request.method} can't be done here: there is {allowed}.",
            headers={"allow": allowed},
        )
    elif error.status_code == 404:
        problem = Problem("not_found", "There is nothing at this address: see /docs for what there is.")
    else:
        problem = Problem("bad_input", "The request can't be understood: see /docs for what there is.")
    return respond(problem)


async def _failed(request: Request, error: Exception) -> Response:
    return respond(problem_of(error))


def with_slashes(scope: Scope) -> Scope:
    """A slash that is part of a name comes as %2F, and is none between two parts of an address."""
    raw = scope.get("raw_path") or b""
    if b"%2f" not in raw.lower():
        return scope
    kept = raw.decode("latin-1").replace("%2f", "%1f").replace("%2F", "%1F")
    return {**scope, "path": unquote(kept)}


class Door:
    """What holds for every request, whatever it asks for: the names, and the headers of every answer."""

    def __init__(self, app: ASGIApp, state: State) -> None:
        self.app = app
        self.guard = state.guard

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        styles = " 'unsafe-inline'" if scope["path"] == "/docs" else ""
        headers = [*_HEADERS, (b"content-security-policy", _POLICY.format(styles=styles).encode())]

        async def send_with_headers(message: Message) -> None:
            if message["type"] in ("http.response.start", "websocket.http.response.start"):
                given = list(message.get("headers", []))
                names = {name for name, _ in given}
                if b"cache-control" not in names:
                    given.append((b"cache-control", b"no-store"))
                message = {**message, "headers": [*given, *headers]}
            await send(message)

        scope = with_slashes(scope)
        given = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        try:
            self.guard.check_names(given.get("host"), given.get("origin"))
        except Problem as problem:
            await self._refuse(problem, scope, receive, send_with_headers)
            return
        await self.app(scope, receive, send_with_headers)

    async def _refuse(self, problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await following.refuse(WebSocket(scope, receive, send), problem)
        else:
            await respond(problem)(scope, receive, send)
