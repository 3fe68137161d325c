"""Which requests are let in.

On a loopback address the server is open to the machine it runs on, and to nothing that merely runs in a browser there:
a request must name a host that is this server's (a foreign page that had its name pointed at 127.0.0.1 sends its own
name), and where it names its origin, that must be the same host. On any other address a request needs a token.

A tokens file has a line for each: a role and a token. `read` may look, `push` may also send rows, `admin` may also
change queries and streams and move time. After them a line may name the streams and queries that the token is for
(`stream=cars query=fastest`): then it is for no others. The file is read again when it has changed. A token that is no
longer in it opens nothing, and what it had opened is closed.

A token is compared with all of them, each in constant time, so that neither how far it was right nor which one it was
can be seen from the time that took.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import os
import shlex
import stat
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from skyband.core.errors import InputError
from skyband.server.problems import Problem
from skyband.server.settings import Settings, is_loopback

log = logging.getLogger("skyband")

ROLES = ("read", "push", "admin")
LEAST_LENGTH = 16  # characters of a token
LOOK = 1.0  # seconds between two looks at the tokens file
_PREFIX = "token."


Names = frozenset[str] | None  # None: all of them


@dataclass(frozen=True)
class Scope:
    """The streams and queries that a token is for."""

    streams: Names = None
    queries: Names = None

    def has_stream(self, name: str) -> bool:
        return self.streams is None or name in self.streams

    def has_query(self, name: str) -> bool:
        return self.queries is None or name in self.queries

    def check_stream(self, name: str) -> None:
        if not self.has_stream(name):
            raise Problem(
                "forbidden", f'This token is not for the stream "{name[:200]}": use one that names it.'
            )

    def check_query(self, name: str) -> None:
        if not self.has_query(name):
            raise Problem(
                "forbidden", f'This token is not for the query "{name[:200]}": use one that names it.'
            )

    def check_all_streams(self) -> None:
        """Whether it is for what all streams have in common, as time."""
        if self.streams is not None:
            raise Problem(
                "forbidden", "This concerns all streams, and this token is for some: use one for all."
            )


ALL = Scope()


@dataclass(frozen=True)
class Caller:
    """The caller of a request: its role, its scope and its token."""

    role: str
    name: str  # what its rate is counted under
    scope: Scope = ALL
    token: Token | None = None

    def may(self, role: str) -> bool:
        return ROLES.index(self.role) >= ROLES.index(role)


@dataclass(frozen=True)
class Token:
    """A line of the tokens file."""

    role: str
    secret: bytes
    scope: Scope = ALL


def read_tokens(path: str) -> list[Token]:
    """Return the roles, tokens and scopes of a file."""
    try:
        text = Path(path).read_text(encoding="utf-8")
        open_to_all = bool(os.stat(path).st_mode & (stat.S_IRGRP | stat.S_IROTH))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it isn't UTF-8"
        raise InputError(f"The tokens file {path} can't be read ({reason}): check the path.") from None
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#", 1)[0].split(None, 2)
        if not words:
            continue
        if len(words) < 2 or words[0] not in ROLES:
            raise InputError(f"Line {number} of {path} must be a role (read, push or admin) and a token.")
        scope = ALL if len(words) == 2 else _scope(line.split(None, 2)[2], f"Line {number} of {path}")
        if len(words[1]) < LEAST_LENGTH or not words[1].isascii():
            raise InputError(
                f"The token in line {number} of {path} must have at least {LEAST_LENGTH} characters of ASCII: make one "
                "with python -c 'import secrets; print(secrets.token_urlsafe(32))'."
            )
        found.append(Token(words[0], words[1].encode(), scope))
    if not found:
        raise InputError(f"The tokens file {path} has no token: add lines like “admin TOKEN”.")
    if open_to_all:
        print(f"skyband: others may read {path}: chmod 600 keeps its tokens to you", file=sys.stderr)
    return found


def _scope(text: str, line: str) -> Scope:
    """Return what a line of the tokens file names after its token; a kind that it doesn't name has no member."""
    named: dict[str, set[str]] = {"stream": set(), "query": set()}
    try:
        words = shlex.split(text, comments=True)
    except ValueError:
        raise InputError(f"{line} has a quote that is never closed: close it.") from None
    for word in words:
        kind, equals, name = word.partition("=")
        if kind not in named or not equals or not name:
            raise InputError(
                f"{line} has {word[:100]!r} after its token: name what it is for as stream=NAME and query=NAME, as "
                "often as needed; * is all of them."
            )
        named[kind].add(name)
    if not words:
        return ALL
    streams, queries = (None if "*" in names else frozenset(names) for names in named.values())
    return Scope(streams, queries)


class Guard:
    """Checks requests by these settings."""

    def __init__(self, settings: Settings) -> None:
        self._path = settings.tokens
        self._seen = self._signature()
        self._looked = time.monotonic()
        self.tokens = [] if settings.tokens is None else read_tokens(settings.tokens)
        if not settings.loopback and not self.tokens:
            raise InputError(
                f"{settings.host} can be reached from elsewhere: give a file with --tokens (lines like “admin TOKEN”), "
                "or listen on 127.0.0.1."
            )
        self.given = {name.strip().lower() for name in (settings.names or "").split(",") if name.strip()}
        known = {*self.given, settings.host.lower()}
        self.names: set[str] | None = known if settings.loopback or self.given else None
        self.rates = Rates(settings.max_rate)

    # -- names ---------------------------------------------------------------------------------------------

    def check_names(self, host: str | None, origin: str | None) -> None:
        """Whether a request is meant for this server, and comes from a page of its own if from any."""
        name = _name(f"//{host or ''}")
        if self.names is not None and name not in self.names and not is_loopback(name):
            raise Problem(
                "forbidden",
                "This server doesn't answer to the host name of the request: use its address, or give it --names.",
            )
        if origin is None or urlsplit_or_none(origin) == (host or "").lower():
            return
        # a proxy in front may have put its own name into Host: then the origin is one of the names that were given
        if urlsplit_or_none(origin) is None or _name(origin) not in self.given:
            raise Problem(
                "forbidden", "Pages of other origins may not use this server: call it from its own."
            )

    # -- tokens --------------------------------------------------------------------------------------------

    def caller(self, authorization: str | None, subprotocols: Iterable[str], address: str) -> Caller:
        """Return the caller by its token; without a tokens file every caller is admin."""
        self._look()
        if not self.tokens:
            return Caller("admin", address)
        token = _bearer(authorization) or _offered(subprotocols)
        if token is None:
            raise Problem(
                "unauthorized",
                "This server needs a token: send it as Authorization: Bearer TOKEN.",
                headers={"www-authenticate": "Bearer"},
            )
        found: Token | None = None
        for known in self.tokens:
            if hmac.compare_digest(known.secret, token):
                found = known
        if found is None:
            raise Problem(
                "unauthorized",
                "The token is not one of this server's: ask for one.",
                headers={"www-authenticate": 'Bearer error="invalid_token"'},
            )
        name = hashlib.blake2b(found.secret, digest_size=8).hexdigest()
        return Caller(found.role, f"token {name}", found.scope, found)

    def holds(self, caller: Caller) -> bool:
        """Whether a caller that was let in may stay: its token is as it was."""
        self._look()
        return caller.token is None or caller.token in self.tokens

    def _look(self) -> None:
        """Read the tokens file again if it has changed; one that can't be read leaves the tokens as they are."""
        now = time.monotonic()
        if self._path is None or now - self._looked < LOOK:
            return
        self._looked = now
        seen = self._signature()
        if seen == self._seen:
            return
        self._seen = seen
        try:
            self.tokens = read_tokens(self._path)
        except InputError as error:
            log.error("%s The tokens from before go on.", error)
        else:
            log.warning("the tokens were read again: there are %d", len(self.tokens))

    def _signature(self) -> tuple[int, ...] | None:
        """Return what changes when the tokens file does."""
        try:
            found = os.stat(self._path or "")
        except OSError:
            return None
        return found.st_mtime_ns, found.st_size, found.st_ino

    def admit(self, caller: Caller, role: str) -> None:
        """Whether the caller may do what needs this role, and not too often."""
        if not caller.may(role):
            raise Problem(
                "forbidden", f"This needs a token of the role {role}, and yours is of {caller.role}."
            )
        self._take(caller.name)

    def refused(self, address: str) -> None:
        """Count a caller without a good token, so that tokens can't be tried by the million."""
        self._take(f"refused {address}")

    def _take(self, name: str) -> None:
        wait = self.rates.take(name)
        if wait > 0:
            raise Problem(
                "too_many_requests",
                f"More than {self.rates.rate:,} requests a second: send fewer and larger ones, or start the server "
                "with a larger --max-rate.",
                headers={"retry-after": str(int(wait) + 1)},
            )


class Rates:
    """A bucket of requests for each caller, which fills at the rate and holds a second's worth."""

    MOST = 10_000  # callers that are remembered

    def __init__(self, rate: int) -> None:
        self.rate = rate
        self._buckets: dict[str, tuple[float, float]] = {}

    def take(self, name: str, now: float | None = None) -> float:
        """Take one; how many seconds to wait, if there is none."""
        now = time.monotonic() if now is None else now
        left, at = self._buckets.get(name, (float(self.rate), now))
        left = min(float(self.rate), left + (now - at) * self.rate)
        if left < 1.0:
            self._buckets[name] = left, now
            return (1.0 - left) / self.rate
        if len(self._buckets) >= self.MOST and name not in self._buckets:
            self._buckets.clear()
        self._buckets[name] = left - 1.0, now
        return 0.0


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").lower()
    except ValueError:
        return ""


def urlsplit_or_none(origin: str) -> str | None:
    """Return the host and port of an origin, as a Host header has them."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return None
    return parts.netloc.lower() if parts.scheme in ("http", "https") else None


def _bearer(header: str | None) -> bytes | None:
    scheme, _, token = (header or "").partition(" ")
    return token.strip().encode("utf-8", "replace") if scheme.lower() == "bearer" else None


def _offered(subprotocols: Iterable[str]) -> bytes | None:
    """Return the token among a WebSocket's subprotocols: browsers can't send it in a header."""
    for word in subprotocols:
        if word.startswith(_PREFIX):
            text = word[len(_PREFIX) :]
            try:
                return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            except (binascii.Error, ValueError):
                return b""
    return None
