"""Connections: WebSockets that send ready-made frames, and one error shape for what isn't even HTTP.

A message for a thousand readers is the same thousand times, and what a server sends isn't masked, so its frame is the
same, too. Here an ASGI message may bring it along (`"frame"`), and it goes out as it is: what remains for each reader
is the write. Any other server that runs the application takes the message's text and makes a frame of its own.
"""

from __future__ import annotations

import asyncio
import functools
from http import HTTPStatus
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from skyband.server.entrance import Connection, Limits
from skyband.server.problems import Problem


def frame_of(text: str) -> bytes:
    """Return a text as one frame from a server, uncompressed."""
    return Frame(Opcode.TEXT, text.encode("utf-8", "replace")).serialize(mask=False)


class Sockets(WebSocketsSansIOProtocol):
    """uvicorn's, with that."""

    def __init__(self, connection: Connection, **given: Any) -> None:
        super().__init__(**given)
        self._connection = connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._connection.made(self.transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.lost()

    def overdue(self, now: float, limits: Limits) -> str | None:
        """Nothing: it is asked for signs of life by pings."""
        return None

    async def send(self, message: Any) -> None:
        frame = message.get("frame")
        if frame is None or not self.handshake_complete:
            await super().send(message)
            return
        await self.writable.wait()
        if self.disconnected or self.close_sent or self.transport.is_closing():
            raise ClientDisconnected()
        self.transport.write(frame)


class Requests(H11Protocol):
    """uvicorn's, with limits of time, and one shape for all errors."""

    def __init__(self, connection: Connection, **given: Any) -> None:
        super().__init__(**given)
        self._connection = connection
        self._spoke = False
        self._head: float | None = self.loop.time()  # since when a request's head is awaited
        self._heard = self._head  # when the client last sent something
        self.ws_protocol_class = functools.partial(Sockets, connection)  # type: ignore[assignment]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._connection.made(transport, self)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._connection.lost()

    def data_received(self, data: bytes) -> None:
        self._heard = self.loop.time()
        if self._head is None and self.conn.their_state is h11.IDLE:
            self._head = self._heard
        super().data_received(data)
        if self.conn.their_state is not h11.IDLE:
            self._head = None
        if not self._spoke and self.scope is not None:
            self._spoke = True
            self._connection.spoke()

    def eof_received(self) -> bool:  # type: ignore[override]
        """A client that will send no more still gets the answer to what it has asked; whether to wait for that."""
        asked = self.cycle is not None and not self.cycle.more_body and not self.cycle.response_started
        if asked and self.scheme == "http":
            self.cycle.keep_alive = False
            return True
        return False

    def overdue(self, now: float, limits: Limits) -> str | None:
        if self._head is not None and now - self._head > limits.head:
            self._refuse(
                Problem("too_slow", "The head of the request took too long to arrive: send it faster.")
            )
            return "the head of its request took too long (--max-head)"
        unanswered = self.cycle is not None and not self.cycle.response_complete
        if not unanswered and self.conn.their_state is h11.SEND_BODY and now - self._heard > limits.stall:
            return "the rest of its request did not come (--max-stall)"
        return None

    def send_400_response(self, msg: str) -> None:
        self._refuse(Problem("bad_input", "The request is not HTTP as it should be: check what sends it."))

    def _refuse(self, problem: Problem) -> None:
        """Answer with a problem, unless another answer has begun, and close."""
        body = problem.body()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("x-content-type-options", "nosniff"),
            ("connection", "close"),
        ]
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            reason = HTTPStatus(problem.status).phrase.encode()
            for event in (
                h11.Response(status_code=problem.status, headers=headers, reason=reason),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        if self.cycle is not None:
            self.cycle.disconnected = True  # what still works on an answer has no reader
            self.cycle.message_event.set()
        self.transport.close()
