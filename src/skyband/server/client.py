"""The other end: a server asked with the methods of a monitor.

    m = sb.connect("http://127.0.0.1:8321")
    w = m.watch("SELECT car FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 1000 ROWS", name="fastest")
    m.push({"car": ["ann"], "speed": [88.0]}, stream="cars")
    w.top()

Rows and answers travel as Arrow, so that types are what they were. A push has a key of its own and is sent again if the
connection breaks: it is taken once. What the server refuses is raised as the error that the monitor would have raised.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import pyarrow as pa

from skyband.core.errors import InputError, QueryError, SkybandError, StrictError
from skyband.engine.explain import Plan
from skyband.engine.report import COLUMNS
from skyband.query.model import Query, Window
from skyband.query.text import to_sql
from skyband.stream.arrow import python_rows, with_plain_times
from skyband.stream.batches import NO_INDEX, IndexColumns, read
from skyband.stream.notices import MOST as MOST_NOTICES
from skyband.stream.notices import SCHEMA as NOTICES
from skyband.stream.notices import Notice, log
from skyband.stream.rejects import SCHEMA as REJECTS

ARROW, JSON = "application/vnd.apache.arrow.stream", "application/json"
PATIENCE = 30.0  # seconds to go on trying while the server can't be reached
UNNAMED = "rows"  # the stream of rows that were pushed without a name
_BROKEN = (OSError, http.client.HTTPException)


@dataclass(frozen=True)
class Step:
    """What a reader receives: the changes up to and with this offset.

    `missed`: the server no longer had the changes after the first offset; `tops` are the answers as of the second.
    `queries`: those that came, changed or went.
    """

    offset: int
    changes: pa.Table
    missed: tuple[int, int] | None = None
    tops: dict[str, list[dict[str, Any]]] | None = None
    queries: list[dict[str, Any]] = field(default_factory=list)


def connect(url: str, token: str | None = None, patience: float = PATIENCE) -> Client:
    """Return a client of a server that runs elsewhere; an error if there is none."""
    client = Client(url, token, patience)
    found = client._json("GET", "/api/settings")
    client.readonly = bool(found["readonly"])
    return client


class Client:
    """A server's monitor. Made by `connect`."""

    def __init__(self, url: str, token: str | None = None, patience: float = PATIENCE) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise InputError(f"{url!r} is no address of a server: give one such as http://127.0.0.1:8321.")
        self.url = url.rstrip("/")
        self.readonly = False
        self._parts = parts
        self._headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._patience = patience
        self._connection: http.client.HTTPConnection | None = None
        self._lock = threading.Lock()
        self._logged: set[tuple[str, str, str | None]] = set()

    # -- what a monitor does -------------------------------------------------------------------------------

    def push(
        self, batch: Any, stream: str | None = None, key: str | None = None, strict: bool | None = None
    ) -> pa.Table:
        """Rows come; returns the changes of this step, when the rows are on the server's disk.

        `key`: a name of one's own for this batch; sent again under the same one, it is not taken twice. `strict`: an
        error, and nothing is taken, unless all columns and rows are as expected; None: as the stream is set.
        """
        name = self._stream() if stream is None else stream
        kind, body = _packed(batch, self._index_columns(batch, name))
        headers = {"content-type": kind, "accept": ARROW, "idempotency-key": key or uuid.uuid4().hex}
        path = f"/api/streams/{quote(name, safe='')}/rows" + (
            "" if strict is None else f"?strict={int(strict)}"
        )
        given, data = self._request("POST", path, body, headers)
        self._log(given)
        return _table(data)

    def _index_columns(self, batch: Any, stream: str) -> IndexColumns:
        """Return the time and the key column of a stream, which an index of pandas may be."""
        if not hasattr(batch, "index") or not hasattr(batch, "iloc"):
            return NO_INDEX
        for one in self.streams():
            if one["name"] == stream:
                return IndexColumns(one["time"], one["key"])
        return IndexColumns(self._json("GET", "/api/settings")["time"], None)

    def _log(self, headers: Mapping[str, str]) -> None:
        """Log what the answer to a push says was hardly meant, each once."""
        said = next((value for name, value in headers.items() if name.lower() == "skyband-answer"), "{}")
        for given in json.loads(said).get("notices", ()):
            notice = Notice(**given)
            if notice[:3] not in self._logged and len(self._logged) < MOST_NOTICES:
                self._logged.add(notice[:3])
                log.warning("%s", notice.sentence())

    def _stream(self) -> str:
        """Return the stream that is meant where none is named."""
        names = [stream["name"] for stream in self.streams()]
        if len(names) > 1:
            raise InputError(f"There are several streams ({', '.join(names)}): say which with stream=.")
        return names[0] if names and names[0] else UNNAMED

    def advance(self, time: Any, force: bool = False) -> pa.Table:
        """Time passes without rows; `force`: however far."""
        said = time if isinstance(time, int | float | str) else _time_text(time)
        headers = {"content-type": JSON, "accept": ARROW}
        body = json.dumps({"time": said, "force": True} if force else {"time": said}).encode()
        return _table(self._request("POST", "/api/advance", body, headers)[1])

    def restart(self, stream: str | None = None) -> pa.Table:
        """Let a stream begin again: its rows go, its watches and schema stay."""
        name = self._stream() if stream is None else stream
        path = f"/api/streams/{quote(name, safe='')}/restart"
        return _table(self._request("POST", path, b"", {"accept": ARROW})[1])

    def watch(self, query: str | Query, name: str | None = None) -> RemoteWatch:
        """Ask once; from then on the answer is kept."""
        sql = query if isinstance(query, str) else to_sql(query)
        given = {"sql": sql} if name is None else {"sql": sql, "name": name}
        return RemoteWatch(self, self._json("POST", "/api/queries", given))

    def drop(self, name: str) -> None:
        """Watch no longer."""
        self._json("DELETE", f"/api/queries/{quote(name, safe='')}")

    @property
    def watches(self) -> dict[str, RemoteWatch]:
        found = self._json("GET", "/api/queries")["queries"]
        return {about["name"]: RemoteWatch(self, about) for about in found}

    def streams(self) -> list[dict[str, Any]]:
        """Return the streams: name, columns, time, rows, now."""
        return self._json("GET", "/api/streams")["streams"]  # type: ignore[no-any-return]

    def rejects(self) -> pa.Table:
        """Return the last 10,000 rejected rows: seq, stream, reason, detail, raw."""
        return pa.Table.from_pylist(self._json("GET", "/api/rejects?limit=10000")["rejects"], REJECTS)

    def notices(self) -> pa.Table:
        """Return what is no reject and yet hardly meant: the last notices of each stream."""
        found = [notice for stream in self.streams() for notice in stream["notices"]]
        return pa.Table.from_pylist(found, NOTICES)

    @property
    def reject_counts(self) -> dict[str, int]:
        return self._json("GET", "/api/rejects?limit=0")["counts"]  # type: ignore[no-any-return]

    @property
    def rows_seen(self) -> int:
        return int(self.stats()["rows"])

    @property
    def now(self) -> Any:
        return self.stats()["now"]

    def stats(self) -> dict[str, Any]:
        """Return how things stand: rows a second, latencies, state, readers."""
        return self._json("GET", "/api/stats")

    def changes(self, from_: int | None = None, query: str | None = None) -> Iterator[Step]:
        """Follow the changes from an offset on, or from now. Goes on by itself where the connection breaks."""
        from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
        from websockets.sync.client import connect as open_socket

        place, until = from_, time.monotonic() + self._patience
        while True:
            try:
                with open_socket(
                    self._socket_url(place, query),
                    additional_headers=self._headers,
                    max_size=None,
                    compression=None,
                ) as socket:
                    for message in socket:
                        step = _step(json.loads(message))
                        place, until = step.offset, time.monotonic() + self._patience
                        if step.changes.num_rows or step.missed or step.queries:
                            yield step
            except InvalidStatus as refused:
                error = _error(refused.response.status_code, bytes(refused.response.body or b""))
                if refused.response.status_code != 503 or time.monotonic() >= until:
                    raise error from None
            except (*_BROKEN, ConnectionClosed, InvalidHandshake, EOFError) as broken:
                self._give_up_after(until, broken)
            time.sleep(0.1)

    def _socket_url(self, place: int | None, query: str | None) -> str:
        given = {name: value for name, value in (("from", place), ("query", query)) if value is not None}
        base = "ws" + self.url.removeprefix("http")
        return f"{base}/api/changes?{urlencode(given)}"

    def close(self) -> None:
        with self._lock:
            self._hang_up()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<skyband at {self.url}>"

    # -- requests ------------------------------------------------------------------------------------------

    def _json(self, method: str, path: str, given: Any = None) -> dict[str, Any]:
        body = None if given is None else json.dumps(given).encode()
        headers = {"accept": JSON} | ({} if body is None else {"content-type": JSON})
        return json.loads(self._request(method, path, body, headers)[1])  # type: ignore[no-any-return]

    def _request(
        self, method: str, path: str, body: Any, headers: Mapping[str, str]
    ) -> tuple[Mapping[str, str], bytes]:
        """Ask; again, if the connection breaks and asking twice does no harm."""
        again = method == "GET" or "idempotency-key" in headers
        until = time.monotonic() + self._patience
        pause = 0.05
        while True:
            try:
                with self._lock:
                    status, given, data = self._once(method, path, body, {**self._headers, **headers}, again)
            except _BROKEN as broken:
                if not again:
                    raise SkybandError(
                        f"{self.url} can't be reached ({_reason(broken)}): is the server there?"
                    ) from None
                self._give_up_after(until, broken)
            else:
                if status < 400:
                    return given, data
                if not (again and status == 503 and time.monotonic() < until):
                    raise _error(status, data)
            time.sleep(pause)
            pause = min(1.0, pause * 2)

    def _once(
        self, method: str, path: str, body: Any, headers: Mapping[str, str], again: bool
    ) -> tuple[int, Mapping[str, str], bytes]:
        if not again:
            self._hang_up()  # the server may be about to close an idle connection
        try:
            if self._connection is None:
                self._connection = self._dial()
            self._connection.request(method, self._parts.path.rstrip("/") + path, body, dict(headers))
            response = self._connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        except BaseException:
            self._hang_up()
            raise

    def _dial(self) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if self._parts.scheme == "https" else http.client.HTTPConnection
        assert self._parts.hostname is not None
        return kind(self._parts.hostname, self._parts.port, timeout=max(60.0, self._patience))

    def _hang_up(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.close()
            self._connection = None

    def _give_up_after(self, until: float, broken: BaseException) -> None:
        if time.monotonic() >= until:
            raise SkybandError(
                f"{self.url} can't be reached ({_reason(broken)}): is the server there?"
            ) from None


class RemoteWatch:
    """A standing query of a server. Made by `Client.watch`."""

    def __init__(self, client: Client, about: dict[str, Any]) -> None:
        self._client = client
        self._set(about)

    def _set(self, about: dict[str, Any]) -> None:
        self.name: str = about["name"]
        self.sql: str = about["sql"]
        self.k: int | None = about["k"]
        self.window: str = about["window"]
        self.algorithm: str = about["algorithm"]

    @property
    def _path(self) -> str:
        return f"/api/queries/{quote(self.name, safe='')}"

    def top(self, k: int | None = None, window: str | Window | None = None) -> pa.Table:
        """Return the answer now: rank, score, seq, then the selected columns."""
        wide = None if window is None else str(window)
        given = {name: value for name, value in (("k", k), ("window", wide)) if value is not None}
        path = f"{self._path}/top" + (f"?{urlencode(given)}" if given else "")
        return _table(self._client._request("GET", path, None, {"accept": ARROW})[1])

    def rows(self, k: int | None = None, window: str | Window | None = None) -> list[dict[str, Any]]:
        """Return what `top` returns as a list of dicts of plain Python values."""
        return python_rows(with_plain_times(self.top(k, window)))

    def tops(self, asked: Iterable[tuple[int | None, str | Window | None]]) -> list[pa.Table]:
        """Return a snapshot for each k and window, each as `top(k, window)` gives it; steps may come in between."""
        return [self.top(k, window) for k, window in asked]

    def change(self, k: int | None = None, window: str | Window | None = None) -> None:
        """Another k or window."""
        given = {"k": k, "window": None if window is None else str(window)}
        self._set(self._client._json("PATCH", self._path, given))

    def explain(self) -> Plan:
        """Return the plan: algorithm, why, state predicted and actual, what was pruned."""
        return Plan(**self._client._json("GET", f"{self._path}/explain")["plan"])

    def __repr__(self) -> str:
        return f"<watch {self.name}: {self.sql}>"


def _packed(batch: Any, special: IndexColumns = NO_INDEX) -> tuple[str, bytes]:
    """Return a batch as bytes: Arrow, or JSON lines where a column has values of several types."""
    raw, rows = read(batch, special)
    if not isinstance(raw, pa.Table):
        if not all(isinstance(column, pa.ChunkedArray) for column in raw.values()):
            plain = {n: c.to_pylist() if isinstance(c, pa.ChunkedArray) else list(c) for n, c in raw.items()}
            lines = (
                json.dumps({name: plain[name][row] for name in plain}, default=str) for row in range(rows)
            )
            return "application/x-ndjson", "\n".join(lines).encode()
        raw = pa.table(raw)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, raw.schema) as writer:
        writer.write_table(raw)
    return ARROW, sink.getvalue().to_pybytes()


def _table(data: bytes) -> pa.Table:
    with pa.ipc.open_stream(pa.py_buffer(data)) as reader:
        return reader.read_all()


def _step(message: dict[str, Any]) -> Step:
    missed = message.get("missed")
    return Step(
        offset=message["offset"],
        changes=_changes(message.get("changes", [])),
        missed=None if missed is None else (missed["from"], missed["to"]),
        tops=message.get("tops"),
        queries=message.get("queries", []),
    )


def _changes(rows: list[dict[str, Any]]) -> pa.Table:
    """Changes in the columns of a monitor's change table."""
    types = [pa.string(), pa.string(), pa.int32(), pa.float64(), pa.int64(), pa.int64(), pa.string()]
    columns = []
    for name, type_ in zip(COLUMNS, types, strict=False):
        values = [row.get(name) for row in rows]
        columns.append(
            pa.array([None if v is None else float(v) for v in values] if name == "score" else values, type_)
        )
    return pa.Table.from_arrays([*columns, _times([row.get("time") for row in rows])], names=COLUMNS)


def _times(values: list[Any]) -> pa.Array:
    if not any(isinstance(value, str) for value in values):
        numbers = any(value is not None for value in values)
        return pa.array(values, pa.float64() if numbers else pa.timestamp("us", "UTC"))
    for type_ in (
        pa.timestamp("us"),
        pa.timestamp("us", "UTC"),
        pa.timestamp("ns"),
        pa.timestamp("ns", "UTC"),
    ):
        with contextlib.suppress(pa.ArrowInvalid):
            return pa.array(values, pa.string()).cast(type_)
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _time_text(time: Any) -> Any:
    if hasattr(time, "isoformat"):
        return time.isoformat()
    return time.item() if hasattr(time, "item") and isinstance(time.item(), int | float) else str(time)


def _error(status: int, data: bytes) -> SkybandError:
    """Return what the server said, as the error that it is about."""
    try:
        found = json.loads(data)["error"]
        code, message, where = found["code"], found["message"], found["where"]
    except (ValueError, KeyError, TypeError):
        return SkybandError(f"The server answered with status {status} and no sentence: is it skyband's?")
    if code == "bad_query":
        placed = where is not None and where["line"] is not None
        return QueryError(message, (where["line"], where["column"]) if placed else None)
    if code == "strict":
        return StrictError(message)
    error: SkybandError = InputError(message) if status < 500 else SkybandError(message)
    error.code = code  # type: ignore[attr-defined]
    return error


def _reason(broken: BaseException) -> str:
    return getattr(broken, "strerror", None) or str(broken) or type(broken).__name__
