"""`skyband serve`: bind, say where, serve until a signal comes, and leave everything in order."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import replace
from types import FrameType
from typing import TYPE_CHECKING, TypeVar

import uvicorn

from skyband.core.errors import InputError
from skyband.server.app import make_app
from skyband.server.endpoints import State
from skyband.server.entrance import Connection, Entrance, Limits
from skyband.server.guard import Guard
from skyband.server.logs import OnceAMinute
from skyband.server.service import Service
from skyband.server.settings import Settings
from skyband.server.sockets import Requests, Sockets

if TYPE_CHECKING:
    from skyband.server.pipeline import PipelineService

T = TypeVar("T")

_BACKLOG = 4096
CONNECTIONS = 10_000  # by default, where that many files may be open
LONG = 2.0  # seconds until it says that it is reading the journal
_GRACE = 5  # seconds for requests under way when the server ends


def serve(settings: Settings, pipeline: str | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM."""
    logs = OnceAMinute(sys.stderr)
    logging.basicConfig(format="skyband: %(message)s", level=logging.WARNING, handlers=[logs])
    logging.getLogger("uvicorn.error").addFilter(_is_news)
    sys.setswitchinterval(0.001)  # a thread that parses or steps must not keep readers waiting for long
    settings = with_limits(settings)
    guard = Guard(settings)  # tokens are read before the first connection is accepted
    listening = bind(settings.host, settings.port)
    try:
        state = State(settings, guard)
        try:
            _Server(
                _config(settings, state), state, listening, logs, lambda: _service(settings, pipeline)
            ).run()
            failure = None if state.opened is None else state.service.failure()
            if failure is not None:
                raise failure
        finally:
            state.threads.shutdown(wait=False, cancel_futures=True)
    finally:
        listening.close()
        logs.report(everything=True)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether a record of uvicorn's is worth a line: not that a WebSocket was refused with a status of its own, and not
    that a request was still under way when the server had waited long enough for its end."""
    ended = record.exc_info is not None and isinstance(record.exc_info[1], asyncio.CancelledError)
    return not ended and "without completing handshake" not in record.getMessage()


def _service(settings: Settings, pipeline: str | None) -> Service | PipelineService:
    if pipeline is None:
        return Service(settings)
    from skyband.server.pipeline import PipelineService

    return PipelineService(settings, pipeline)


def bind(host: str, port: int) -> socket.socket:
    """Return a socket that listens there."""
    try:
        family, kind, number, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, number)
    except OSError as error:
        raise InputError(
            f"{host} is no address of this machine ({error.strerror}): give another --host."
        ) from None
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind(address)
    except OSError as error:
        found.close()
        reason = error.strerror or str(error)
        raise InputError(
            f"{host}:{port} can't be listened on ({reason}): give another --port, or 0 for any."
        ) from None
    found.listen(_BACKLOG)
    found.set_inheritable(False)
    return found


def _config(settings: Settings, state: State) -> uvicorn.Config:
    return uvicorn.Config(
        make_app(state),
        http=Requests,
        ws=Sockets,
        loop="asyncio",
        lifespan="off",
        log_config=None,
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=None,  # the entrance has the limits
        ws_max_size=1 << 16,  # readers have little to say
        ws_per_message_deflate=False,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        timeout_keep_alive=settings.max_idle,
        timeout_graceful_shutdown=_GRACE,
        ssl_certfile=settings.certfile,
        ssl_keyfile=settings.keyfile,
    )


class _Server(uvicorn.Server):
    """uvicorn's, with an entrance of its own, which is open while the journal is read and while it is closed."""

    def __init__(
        self,
        config: uvicorn.Config,
        state: State,
        listening: socket.socket,
        logs: OnceAMinute,
        service: Callable[[], Service | PipelineService],
    ) -> None:
        super().__init__(config)
        self._state = state
        self._listening = listening
        self._logs = logs
        self._service = service
        self._entrance: Entrance | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=[])
        settings = self._state.settings
        self._entrance = Entrance(
            self._listening, limits_of(settings), self._requests, settings.proxies, self.config.ssl
        )
        self._entrance.open()
        reading = asyncio.get_running_loop().call_later(
            LONG, _say, "the journal is read, which takes a while"
        )
        service = await self._beside(self._service, lambda: self.should_exit)
        reading.cancel()
        if service is None:
            return
        self._state.open(service)
        for note in service.notes():
            _say(note)
        if not settings.loopback and settings.certfile is None:
            _say("tokens and rows travel unencrypted: give --certfile and --keyfile, or put a proxy in front")
        print(address(settings, self._listening.getsockname()[1]), flush=True)
        if not service.readonly:
            warm()

    def _requests(self, connection: Connection) -> Requests:
        return Requests(
            connection, config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def on_tick(self, counter: int) -> bool:
        if counter % 10 == 0:
            self._logs.report()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._state.closing = True
        opened = self._state.opened
        try:
            if opened is not None:
                opened[0].hub.close()
                await self._beside(opened[0].close, lambda: self.force_exit)
        finally:
            if self._entrance is not None:
                self._entrance.close()
            await super().shutdown(sockets)

    async def _beside(self, work: Callable[[], T], leave: Callable[[], bool]) -> T | None:
        """Do something long in a thread while requests are answered; None if it is left before its end."""
        done: Future[T] = Future()
        done.set_running_or_notify_cancel()

        def run() -> None:
            try:
                done.set_result(work())
            except BaseException as error:
                done.set_exception(error)

        threading.Thread(target=run, name="skyband-beside", daemon=True).start()
        waiting = asyncio.wrap_future(done)
        while not waiting.done() and not leave():
            await self.on_tick(0)
            await asyncio.wait({waiting}, timeout=0.1)
        if waiting.done():
            return waiting.result()
        waiting.cancel()
        return None

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """A first signal ends it in order, and that is no failure; a second one insists."""

        def leave(number: int, frame: FrameType | None) -> None:
            if self.should_exit:
                self.force_exit = True
            self.should_exit = True

        before = {number: signal.signal(number, leave) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _say(note: str) -> None:
    print(f"skyband: {note}", file=sys.stderr, flush=True)


def room_for(connections: int) -> int:
    """Let this process open so many files and some more, as far as it may; how many connections there is room for."""
    with contextlib.suppress(ImportError, OSError, ValueError):  # where there are no such limits
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = connections + max(500, connections // 3)
        if soft != resource.RLIM_INFINITY and soft < wanted:
            soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        if soft != resource.RLIM_INFINITY and soft < wanted:
            return soft * 3 // 4  # the others are for the journal, and for connections that are being closed
    return connections


def with_limits(settings: Settings) -> Settings:
    """Return the settings with the limits of connections that follow from how many files this process may open."""
    wanted = settings.max_connections or max(CONNECTIONS, 2 * settings.max_subscribers)
    found = room_for(wanted)
    if settings.max_connections is not None and found < wanted:
        raise InputError(
            f"--max-connections {wanted:,} needs more open files than this process may have, which are enough for "
            f"{found:,}: raise ulimit -n, or give fewer."
        )
    each = settings.max_per_address or max(1, found // 2)
    return replace(settings, max_connections=found, max_per_address=each)


def limits_of(settings: Settings) -> Limits:
    assert settings.max_connections is not None and settings.max_per_address is not None  # see with_limits
    return Limits(
        settings.max_connections,
        settings.max_per_address,
        settings.max_silent,
        settings.max_head,
        settings.max_stall,
    )


def warm() -> None:
    """Compile what nearly every stream needs, in a thread: else the very first push would wait for it."""
    if os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0"):
        return

    def work() -> None:
        from skyband.engine.monitor import Monitor

        with contextlib.suppress(Exception):  # whatever fails here would fail in the open, too
            for time, window in ((None, "50 ROWS"), ("t", "10 SECONDS")):
                monitor = Monitor(time=time)
                watch = monitor.watch(f"SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW {window}")
                for begin in (0, 100, 200):
                    rows = [float(begin + number) for number in range(100)]
                    monitor.push({"t": rows, "x": rows[::-1]})
                watch.top()

    threading.Thread(target=work, name="skyband-warming", daemon=True).start()


def address(settings: Settings, port: int) -> str:
    """Return where it can be found, as a browser wants it."""
    scheme = "https" if settings.certfile else "http"
    host = f"[{settings.host}]" if ":" in settings.host else settings.host
    return f"{scheme}://{host}:{port}"
