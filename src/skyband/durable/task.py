"""A step on its way: what was asked, how it is written down, and the future of its caller.

Everything that can be wrong with what a caller gave, or that takes time for long batches, happens here, in the
caller's own thread and before the step comes into the queue: no other caller is delayed by it.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from skyband.core.errors import InputError
from skyband.durable import codec
from skyband.durable.keys import checked
from skyband.query.coerce import asked
from skyband.query.model import Query, Window
from skyband.query.model import window as window_of
from skyband.query.serialise import to_dict
from skyband.stream.batches import NO_INDEX, IndexColumns
from skyband.stream.notices import Notice
from skyband.stream.rules import RULES

Unread = Mapping[int, tuple[str, str]]


@dataclass(frozen=True)
class Receipt:
    """What became of a step: it is on disk, and this is what it did.

    `repeated`: the batch came before under the same key; these are its first answer's numbers, and nothing was done.
    `changed` counts the changes; `changes` of a repeated batch is empty once its step is forgotten.
    """

    rows: int
    rejected: int
    first_seq: int
    offset: int
    changed: int
    changes: pa.Table
    repeated: bool = False
    notices: tuple[Notice, ...] = ()  # of this step


@dataclass
class Written:
    """A step as the journal takes it: what it says, its bytes, and the checksum of both."""

    said: bytes
    body: Any = b""
    check: int = 0

    def __post_init__(self) -> None:
        self.check = zlib.crc32(self.body, zlib.crc32(self.said))


def written(meta: dict[str, Any], body: Any = b"") -> Written:
    return Written(json.dumps(meta, separators=(",", ":")).encode(), body)


@dataclass
class Task:
    """One step that waits to be written and taken."""

    kind: str
    given: tuple[Any, ...]  # what the monitor's method takes
    form: Written | None = None  # the same for the journal; None if it comes from there
    rows: int = 0
    key: str | None = None
    name: str | None = None  # the watch that it is about
    offset: int = 0  # known once it is written
    taken: bool = False  # a thread is writing it, or it needs no writing
    future: Future[Any] = field(default_factory=Future)

    def __post_init__(self) -> None:
        self.future.set_running_or_notify_cancel()  # from here on it can't be cancelled: it may be on its way

    @property
    def size(self) -> int:
        return 0 if self.form is None else len(self.form.body)


def push(
    batch: Any,
    stream: str | None,
    key: str | None,
    unread: Unread | None,
    strict: bool = False,
    special: IndexColumns = NO_INDEX,
) -> Task:
    """Rows come. `unread`: what is wrong with rows that couldn't be read at all, and their text, by position."""
    key = checked(key)
    if stream is not None and not isinstance(stream, str):
        raise InputError(f"A stream's name must be a text, not {stream!r}.")
    raw, rows, meta, body = codec.pack(batch, special)
    texts = (
        None if not unread else {int(row): (str(reason), str(raw)) for row, (reason, raw) in unread.items()}
    )
    more = {"stream": stream, "key": key, "unread": [[row, *words] for row, words in (texts or {}).items()]}
    meta = {
        "kind": "push",
        "rules": RULES,
        **meta,
        **({"strict": True} if strict else {}),
        **{name: value for name, value in more.items() if value},
    }
    if stream == "":
        meta["stream"] = stream
    return Task("push", (raw, rows, stream, texts, RULES, bool(strict)), written(meta, body), rows, key)


def advance(time: Any, force: bool = False) -> Task:
    said, force = codec.say_time(time), bool(force)
    form = written({"kind": "advance", "rules": RULES, "time": said, "force": force})
    return Task("advance", (codec.hear(said), force), form)


def restart(stream: str | None) -> Task:
    if stream is not None and not isinstance(stream, str):
        raise InputError(f"A stream's name must be a text, not {stream!r}.")
    return Task("restart", (stream,), written({"kind": "restart", "stream": stream}))


def watch(query: str | Query, name: str | None) -> Task:
    query = asked(query)
    if name is not None and not isinstance(name, str):
        raise InputError(f"A watch's name must be a text of at least one character, not {name!r}.")
    form = written({"kind": "watch", "query": to_dict(query), "name": name})
    return Task("watch", (query, name), form, name=name)


def drop(name: str) -> Task:
    return Task("drop", (name,), written({"kind": "drop", "name": name}), name=name)


def change(name: str, k: Any, window: str | Window | None) -> Task:
    wide = None if window is None else str(window_of(window))
    said = codec.say(k)
    form = written({"kind": "change", "name": name, "k": said, "window": wide})
    return Task("change", (name, codec.hear(said), wide), form, name=name)


def set_stream(name: str, settings: Mapping[str, Any]) -> Task:
    given = dict(settings)
    return Task("set_stream", (name, given), written({"kind": "set_stream", "name": name, "settings": given}))
