"""Connections: WebSockets that send ready-made frames, and one error shape for what isn't even HTTP.

A message for a thousand readers is the same thousand times, and what a server sends isn't masked, so its frame is the
same, too. Here an ASGI message may bring it along (`"frame"`), and it goes out as it is: what remains for each reader
is the write. Any other server that runs the application takes the message's text and makes a frame of its own.
"""

from __future__ import annotations

from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.utils import ClientDisconnected
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import Frame, Opcode

from skyband.server.problems import Problem


def frame_of(text: str) -> bytes:
    """A text as one frame from a server, uncompressed."""
    return Frame(Opcode.TEXT, text.encode("utf-8", "replace")).serialize(mask=False)


class Sockets(WebSocketsSansIOProtocol):
    """uvicorn's, with that."""

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
    """uvicorn's, which tells what can't be understood in the shape of all errors."""

    def send_400_response(self, msg: str) -> None:
        problem = Problem("bad_input", "The request is not HTTP as it should be: check what sends it.")
        body = problem.body()
        headers = [
            ("content-type", "application/json"),
            ("content-length", str(len(body))),
            ("x-content-type-options", "nosniff"),
            ("connection", "close"),
        ]
        for event in (
            h11.Response(status_code=problem.status, headers=headers, reason=b"Bad Request"),
            h11.Data(data=body),
            h11.EndOfMessage(),
        ):
            self.transport.write(self.conn.send(event) or b"")
        self.transport.close()
