"""A small schema registry for tests, with Confluent's interface: a server on loopback that keeps schemas in memory."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote, urlsplit


class SchemaServer:
    """Schemas by number and by subject; `asked` are the paths that were asked for."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.subjects: dict[str, list[int]] = {}
        self.asked: list[str] = []
        self.user: str | None = None  # NAME:PASSWORD that is wanted
        self.broken = 0  # answers to come that are failures
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def add(self, subject: str, schema: str, kind: str = "AVRO", references: Any = ()) -> int:
        """Keep a schema; its number, which is from 1 on."""
        one = {"schema": schema, "schemaType": kind, "references": [*references]}
        with self._lock:
            if one not in self.schemas:
                self.schemas.append(one)
            number = self.schemas.index(one) + 1
            self.subjects.setdefault(subject, []).append(number)
        return number

    def answer(self, path: str) -> dict[str, Any] | None:
        parts = urlsplit(path)
        match unquote(parts.path).strip("/").split("/"):
            case ["schemas", "ids", number] if 0 < int(number) <= len(self.schemas):
                found = self.schemas[int(number) - 1]
            case ["subjects", subject, "versions", version] if subject in self.subjects:
                found = self.schemas[self.subjects[subject][int(version) - 1] - 1]
            case _:
                return None
        if found["schemaType"] == "PROTOBUF":
            assert parts.query == "format=serialized"
        kept = {key: value for key, value in found.items() if value}
        if kept["schemaType"] == "AVRO":  # as the real one does it
            del kept["schemaType"]
        return kept

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply(lambda: server.answer(self.path))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                subject = unquote(self.path.split("/")[2])
                self._reply(lambda: {"id": server.add(subject, body["schema"], body["schemaType"])})

            def _reply(self, made: Any) -> None:
                server.asked.append(self.path)
                given = self.headers.get("Authorization", "").removeprefix("Basic ")
                status, found = 200, None
                if server.user is not None and base64.b64decode(given).decode() != server.user:
                    status, found = 401, {"error_code": 401, "message": "who are you"}
                elif server.broken:
                    server.broken -= 1
                    status = 503
                else:
                    found = made()
                    status = 404 if found is None else 200
                data = json.dumps(found or {"error_code": status, "message": "no"}).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: Any) -> None:
                pass

        return Handler


@contextlib.contextmanager
def schema_server() -> Iterator[SchemaServer]:
    made = SchemaServer()
    try:
        yield made
    finally:
        made.close()
