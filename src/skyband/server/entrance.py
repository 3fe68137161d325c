"""The entrance: accepts connections, counts them, and closes those that take too long or take the place of others.

**Problem.** Each connection is an open file, and everyone who reaches the address can open one. Without limits a
thousand connections that send nothing use up all files, and the server answers no one.

**Idea.** The server accepts connections by itself, below the protocol, HTTP and WebSocket, with and without TLS. Until
its first byte a connection is a bare socket. A protocol is made for it then, and until the head of its first request is
complete the connection counts as one that *never spoke*. Connections are limited in all and by address. At a limit the
oldest connection that never spoke is closed. Only where there is none the new one is answered with 503 and closed, so
those that work go on.

**What it costs.** A silent connection costs a socket and a few hundred bytes. Limits of time are checked in rounds of
about a second, a part of the connections at a time, so that a round never holds up requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import ipaddress
import logging
import socket
import ssl
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Protocol

from skyband.server.problems import Problem
from skyband.server.settings import Address, Network, is_in

log = logging.getLogger("skyband")

AT_ONCE = 32  # connections accepted, or refused and not closed yet, at a time
TICK = 0.25  # seconds between two parts of a round
PARTS = 4  # of a round
PAUSE = 0.05  # seconds until it accepts again after the system had no file left
LINGER = 1.0  # seconds that a refused connection may take to read its answer
_NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


@dataclass(frozen=True)
class Limits:
    """How many connections there may be, and how many seconds each thing may take."""

    connections: int
    each: int  # connections of one address
    silent: float  # until the first byte
    head: float  # until the end of a request's head
    stall: float  # without progress, of a body or an answer


class Speaking(Protocol):
    """What the entrance asks of a connection's protocol."""

    def overdue(self, now: float, limits: Limits) -> str | None:
        """Return what has taken too long, if something has: then the connection is closed."""


@dataclass(eq=False, slots=True)
class Origin:
    """The connections of one address."""

    address: str
    count: int = 0
    unspoken: OrderedDict[Connection, None] = field(default_factory=OrderedDict)


class Connection:
    """One connection, from its acceptance to its end."""

    __slots__ = ("_entrance", "bare", "origin", "protocol", "since", "sock", "stalled", "transport", "unread")

    def __init__(self, entrance: Entrance, sock: socket.socket, origin: Origin, now: float) -> None:
        self._entrance = entrance
        self.sock = sock
        self.bare = True  # it has sent nothing, and there is no protocol for it
        self.origin = origin
        self.since = now
        self.transport: asyncio.Transport | None = None
        self.protocol: Speaking | None = None
        self.unread = 0  # bytes of answers that the client had not read when it was last looked at
        self.stalled = now  # since when they are the same

    def made(self, transport: asyncio.Transport, protocol: Speaking) -> None:
        """A protocol serves it from now on."""
        self.transport, self.protocol = transport, protocol

    def spoke(self) -> None:
        """The head of a request is complete: it gives up its place for no other one."""
        self._entrance.spoke(self)

    def lost(self) -> None:
        """It has ended."""
        self._entrance.lost(self)

    def close(self) -> None:
        """End it at once, whatever it is doing."""
        if self.transport is not None:
            self.transport.abort()
        elif self.bare:
            self._entrance.forget(self.sock)
            self.sock.close()
        else:  # a protocol is being made, in the handshake of TLS perhaps: that comes to its end by this
            with contextlib.suppress(OSError):
                self.sock.shutdown(socket.SHUT_RDWR)
        self.lost()


class Entrance:
    """A listening socket and the connections that came in through it."""

    def __init__(
        self,
        listening: socket.socket,
        limits: Limits,
        protocol: Callable[[Connection], asyncio.Protocol],
        proxies: list[Network] | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.limits = limits
        self._each = f"its address has {limits.each} (--max-per-address)"
        self._all = f"there are {limits.connections} (--max-connections)"
        self._listening = listening
        self._protocol = protocol
        self._proxies = proxies or []
        self._tls = tls
        self._loop = asyncio.get_running_loop()
        self._connections: dict[Connection, None] = {}
        self._unspoken: OrderedDict[Connection, None] = OrderedDict()  # the oldest first
        self._origins: dict[str, Origin] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._refused = 0  # that are not closed yet
        self._events: Counter[str] = Counter()  # what is yet to be logged
        self._round: list[Connection] = []
        self._timer: asyncio.TimerHandle | None = None

    def open(self) -> None:
        """Accept from now on."""
        self._listening.setblocking(False)
        self._loop.add_reader(self._listening, self._accept)
        self._timer = self._loop.call_later(TICK, self._tick)

    def close(self) -> None:
        """Accept no more, and close the connections that never spoke; the others end by themselves."""
        self._loop.remove_reader(self._listening)
        self._listening.close()
        if self._timer is not None:
            self._timer.cancel()
        for connection in list(self._unspoken):
            connection.close()

    def __len__(self) -> int:
        return len(self._connections)

    # -- coming --------------------------------------------------------------------------------------------

    def _accept(self) -> None:
        for _ in range(AT_ONCE):
            try:
                sock, address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._no_files(error)
                return
            sock.setblocking(False)
            self._admit(sock, address[0])

    def _no_files(self, error: OSError) -> None:
        """The system gives no more files: close connections that never spoke, or else accept a little later."""
        if error.errno not in _NO_FILES:
            raise error
        reason = error.strerror or str(error)
        self._events[
            f"no connection can be accepted ({reason}): raise ulimit -n or lower --max-connections"
        ] += 1
        oldest = list(islice(self._unspoken, AT_ONCE))
        for connection in oldest:
            connection.close()
        if oldest:
            return
        self._loop.remove_reader(self._listening)
        self._loop.call_later(PAUSE, self._again)

    def _again(self) -> None:
        if self._listening.fileno() >= 0:  # it isn't closed
            self._loop.add_reader(self._listening, self._accept)

    def _admit(self, sock: socket.socket, address: str) -> None:
        """A place for a new connection, or 503."""
        counted = counted_as(address)
        origin = self._origins.get(counted) or Origin(counted)
        limits = self.limits
        if origin.count >= limits.each and not is_in(plain(address), self._proxies):
            found = self._make_room(origin.unspoken, self._each)
        elif len(self._connections) >= limits.connections:
            found = self._make_room(self._unspoken, self._all)
        else:
            found = True
        if not found:
            self._refuse(sock)
            return
        connection = Connection(self, sock, origin, self._loop.time())
        self._origins[counted] = origin
        origin.count += 1
        self._connections[connection] = self._unspoken[connection] = origin.unspoken[connection] = None
        self._loop.add_reader(sock.fileno(), self._first_byte, connection)

    def _make_room(self, unspoken: OrderedDict[Connection, None], why: str) -> bool:
        """Close the oldest connection that never spoke; whether there was one."""
        oldest = next(iter(unspoken), None)
        if oldest is None:
            self._events[f"a connection was refused: {why}, and all of them are in use"] += 1
            return False
        self._events[f"a connection that had sent no request was closed for a new one: {why}"] += 1
        oldest.close()
        return True

    def _first_byte(self, connection: Connection) -> None:
        """A connection has something to read: make a protocol for it."""
        try:
            ended = not connection.sock.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            ended = True
        if ended:
            connection.close()
            return
        self.forget(connection.sock)
        connection.bare = False
        self._begin(self._serve(connection))

    def forget(self, sock: socket.socket) -> None:
        """Wait no longer for the first byte of a connection."""
        self._loop.remove_reader(
            sock.fileno()
        )  # asyncio is slow to look for a socket, and quick for a number

    def _begin(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, connection: Connection) -> None:
        await self._connect(connection.sock, lambda: self._protocol(connection), self.limits.head)
        if connection.transport is None:  # closed meanwhile, or the handshake of TLS failed
            connection.lost()

    async def _connect(
        self, sock: socket.socket, protocol: Callable[[], asyncio.Protocol], seconds: float
    ) -> None:
        timeout = None if self._tls is None else seconds
        try:
            await self._loop.connect_accepted_socket(
                protocol, sock, ssl=self._tls, ssl_handshake_timeout=timeout
            )
        except (OSError, EOFError) as error:
            log.debug("a connection broke before its first request: %s", error)
            sock.close()

    # -- leaving -------------------------------------------------------------------------------------------

    def _refuse(self, sock: socket.socket) -> None:
        """Answer with 503 and close; where too many do so already, close without an answer."""
        if self._refused >= AT_ONCE:
            sock.close()
            return
        self._refused += 1
        self._begin(self._answer(sock))

    async def _answer(self, sock: socket.socket) -> None:
        refusal = Refusal()
        try:
            await self._connect(sock, lambda: refusal, LINGER)
            await refusal.wait(LINGER)
        finally:
            self._refused -= 1

    def spoke(self, connection: Connection) -> None:
        self._unspoken.pop(connection, None)
        connection.origin.unspoken.pop(connection, None)

    def lost(self, connection: Connection) -> None:
        if connection not in self._connections:
            return
        del self._connections[connection]
        self.spoke(connection)
        connection.origin.count -= 1
        if not connection.origin.count:
            self._origins.pop(connection.origin.address, None)

    # -- taking too long -----------------------------------------------------------------------------------

    def _tick(self) -> None:
        """Look at some connections: a whole round takes about a second."""
        self._timer = self._loop.call_later(TICK, self._tick)
        if not self._round:
            self._round = list(self._connections)
        size = -(-len(self._connections) // PARTS)
        now = self._loop.time()
        some, self._round = self._round[:size], self._round[size:]
        for connection in some:
            if connection in self._connections:
                self._look_at(connection, now)
        for event, times in self._events.items():
            log.warning("%s", event, extra={"times": times})
        self._events.clear()

    def _look_at(self, connection: Connection, now: float) -> None:
        transport, protocol = connection.transport, connection.protocol
        if transport is None or protocol is None:
            if connection.bare and now - connection.since > self.limits.silent:
                connection.close()
            return
        late = protocol.overdue(now, self.limits)
        size = transport.get_write_buffer_size()
        if size != connection.unread or not size:
            connection.unread, connection.stalled = size, now
        elif now - connection.stalled > self.limits.stall:
            late = "its answer was not read (--max-stall)"
        if late is not None:
            self._events[f"a connection was closed: {late}"] += 1
            connection.close()


class Refusal(asyncio.Protocol):
    """Says that there is no room, whatever is asked, and waits a moment for the client to read it."""

    def __init__(self) -> None:
        self._gone = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.write(FULL)
        if transport.can_write_eof():
            transport.write_eof()  # what the client still sends is read: closing now could lose the answer
        else:
            transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if not self._gone.done():
            self._gone.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Until the client has closed, so many seconds at most."""
        if self._transport is not None:
            await asyncio.wait({self._gone}, timeout=seconds)
            self._transport.abort()


def _full() -> bytes:
    body = Problem("busy", "There are too many connections: try again a little later.").body()
    head = (
        "HTTP/1.1 503 Service Unavailable\r\ncontent-type: application/json\r\nretry-after: 1\r\n"
        f"connection: close\r\nx-content-type-options: nosniff\r\ncontent-length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


FULL = _full()


def plain(address: str) -> Address:
    """Return the address of a peer; one of IPv4 that came over a socket of IPv6 as what it is."""
    found = ipaddress.ip_address(address.split("%")[0])
    return getattr(found, "ipv4_mapped", None) or found


def counted_as(address: str) -> str:
    """Return what connections are counted by: an address of IPv4, or a customer's network (/64) of IPv6."""
    if ":" not in address:
        return address
    found = plain(address)
    return str(found) if found.version == 4 else str(ipaddress.IPv6Network((found, 64), strict=False))
