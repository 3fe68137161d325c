"""Every option and limit of the server, in one table.

A field of `Settings` is an option of `skyband serve`, a line of its help, a row of the table in docs/server.md and a
value of `GET /api/settings`. An error about a limit names its option, so that the
administrator finds the option that raises it.
"""

from __future__ import annotations

import inspect
import ipaddress
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from skyband.core.errors import InputError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
ENGINE, ACCESS, LIMITS = "engine", "access", "limits"


def _option(default: Any, help: str, part: str, metavar: str = "", least: int | None = None) -> Any:
    return field(default=default, metadata={"help": help, "part": part, "metavar": metavar, "least": least})


@dataclass(frozen=True)
class Settings:
    """How a server is run."""

    host: str = _option("127.0.0.1", "The address to listen on.", ACCESS, "ADDRESS")
    port: int = _option(8321, "The port; 0 takes a free one.", ACCESS, "PORT", 0)
    data: str = _option("skyband-data", "The folder for journal and snapshots.", ENGINE, "FOLDER")
    in_memory: bool = _option(
        False, "Keep nothing on disk: the end of the server is the end of its rows.", ENGINE
    )
    time: str | None = _option(None, "The column that holds the time of a row.", ENGINE, "COLUMN")
    time_unit: str | None = _option(
        None, "The unit of a time column of numbers: s, ms, us or ns; s by default.", ENGINE, "UNIT"
    )
    key: str | None = _option(None, "The key column, where rows update earlier rows.", ENGINE, "COLUMN")
    op: str | None = _option(
        None, "The column that says insert, update or delete, of such rows.", ENGINE, "COLUMN"
    )
    retain: str | None = _option(
        None, 'Rows kept for queries yet to come, as in "100000 rows" or "1 hour".', ENGINE, "WINDOW"
    )
    max_ahead: str | None = _option(
        None,
        "How far ahead of the latest time a row may be stamped before it waits, as in 5 minutes, or off: 1 day, "
        "off in folders of older versions.",
        ENGINE,
        "DURATION",
    )
    tokens: str | None = _option(
        None,
        "A file of lines like “read TOKEN query=NAME”; the roles are read, push and admin.",
        ACCESS,
        "FILE",
    )
    names: str | None = _option(None, "The host names that it answers to, parted by commas.", ACCESS, "NAMES")
    proxy: str | None = _option(
        None,
        "The addresses or networks of proxies in front, parted by commas: from there --max-per-address doesn't count.",
        ACCESS,
        "ADDRESSES",
    )
    certfile: str | None = _option(None, "The certificate for HTTPS.", ACCESS, "FILE")
    keyfile: str | None = _option(None, "The certificate's key.", ACCESS, "FILE")
    max_body: int = _option(64 << 20, "Bytes of one request.", LIMITS, "BYTES", 1024)
    max_pending: int = _option(
        256 << 20, "Bytes of all requests that wait for the engine.", LIMITS, "BYTES", 1024
    )
    max_rows: int = _option(1_000_000, "Rows of one push.", LIMITS, "ROWS", 1)
    max_columns: int = _option(1_000, "Columns of one stream.", LIMITS, "COLUMNS", 1)
    max_streams: int = _option(100, "Streams.", LIMITS, "STREAMS", 1)
    max_queries: int = _option(10_000, "Queries.", LIMITS, "QUERIES", 1)
    max_k: int = _option(10_000, "The k of one query.", LIMITS, "K", 1)
    max_window_rows: int = _option(10_000_000, "Rows of a window of rows.", LIMITS, "ROWS", 1)
    max_window_seconds: int = _option(366 * 86_400, "Seconds of a window of time.", LIMITS, "SECONDS", 1)
    max_sql: int = _option(10_000, "Characters of a query.", LIMITS, "CHARACTERS", 10)
    max_terms: int = _option(1_000, "Columns, constants and operators in a query.", LIMITS, "TERMS", 1)
    max_rate: int = _option(2_000, "Requests a second of one client.", LIMITS, "REQUESTS", 1)
    max_subscribers: int = _option(2_000, "Readers of changes at a time.", LIMITS, "READERS", 1)
    max_changes: int = _option(200_000, "Changes kept for readers that fall behind.", LIMITS, "CHANGES", 1)
    max_connections: int | None = _option(
        None, "Connections at a time: 10,000, or three quarters of ulimit -n.", LIMITS, "CONNECTIONS", 1
    )
    max_per_address: int | None = _option(
        None, "Connections of one address at a time: half of all.", LIMITS, "CONNECTIONS", 1
    )
    max_silent: int = _option(10, "Seconds until a connection's first byte.", LIMITS, "SECONDS", 1)
    max_head: int = _option(10, "Seconds that a request's head may take to arrive.", LIMITS, "SECONDS", 1)
    max_wait: int = _option(60, "Seconds that a request's body may take to arrive.", LIMITS, "SECONDS", 1)
    max_stall: int = _option(
        30, "Seconds without a byte of a request's body, or of an answer that a client doesn't read.", LIMITS,
        "SECONDS", 1,
    )  # fmt: skip
    max_idle: int = _option(
        75, "Seconds that a connection stays open between requests.", LIMITS, "SECONDS", 1
    )

    def __post_init__(self) -> None:
        for option in fields(self):
            least, value = option.metadata["least"], getattr(self, option.name)
            if value is None and option.default is None:
                continue
            if least is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise InputError(f"{flag(option)} must be a whole number of at least {least}, not {value!r}.")
        if (self.certfile is None) != (self.keyfile is None):
            raise InputError("HTTPS needs both --certfile and --keyfile: give the other one, too.")
        _ = self.proxies
        if self.port > 65_535:
            raise InputError(f"--port must be less than 65536, not {self.port}.")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach the address."""
        return is_loopback(self.host)

    @property
    def proxies(self) -> list[Network]:
        """The addresses and networks of proxies in front."""
        try:
            return [
                ipaddress.ip_network(word.strip(), strict=False)
                for word in (self.proxy or "").split(",")
                if word.strip()
            ]
        except ValueError as error:
            raise InputError(f"--proxy must be addresses or networks, parted by commas ({error}).") from None

    def limits(self) -> dict[str, Any]:
        """Return the limits, which GET /api/settings shows: no paths and no secrets."""
        return {
            option.name: getattr(self, option.name)
            for option in fields(self)
            if option.metadata["part"] == LIMITS
        }


def is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_in(address: Address, networks: list[Network]) -> bool:
    return any(address in network for network in networks)


def flag(option: Field[Any]) -> str:
    """Return the option's name on the command line."""
    return "--" + option.name.replace("_", "-")


def describe_serve(function: Callable[..., None]) -> None:
    """Give a function the parameters that the command line needs: the pipeline, and an option for each setting."""
    import typer

    file = typer.Argument(
        metavar="PIPELINE.TOML", help="Run this pipeline and show its answers.", show_default=False
    )
    hints: dict[str, Any] = {"pipeline": Annotated[Path | None, file]}
    defaults: dict[str, Any] = {"pipeline": None}
    types = {"int": int, "str": str, "bool": bool, "str | None": str | None, "int | None": int | None}
    for option in fields(Settings):
        about = option.metadata
        shown = typer.Option(
            flag(option),
            metavar=about["metavar"] or None,
            help=about["help"],
            min=about["least"],
            show_default=option.default is not None,
            rich_help_panel=about["part"],
        )
        hints[option.name] = Annotated[types[str(option.type)], shown]
        defaults[option.name] = option.default
    kind = inspect.Parameter.KEYWORD_ONLY
    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, kind, default=defaults[name], annotation=hint)
            for name, hint in hints.items()
        ]
    )
    function.__annotations__ = hints | {"return": None}
