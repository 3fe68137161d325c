"""Answers on standard output: a table for people, JSON and CSV for programs.

JSON is always one array of objects. A top is an array of its rows; tops taken on the way (`--every`) are an
array of `{"rows": how many rows had come, "top": [...]}`. With several queries every object also says which
`query` it belongs to. JSON has no infinities: they are written as the texts "Infinity" and "-Infinity", and
NaN as null. Times are ISO 8601, bytes are hexadecimal digits (as in the output of pipelines), lists are arrays. In a
table or in CSV a list is the text of its JSON, and truth is true or false.

Output is in the encoding that standard output has, nearly always UTF-8. What another one can't say is escaped: in JSON
as JSON does it, in tables and CSV with a backslash.
"""

from __future__ import annotations

import codecs
import csv
import json
import sys
from datetime import date, datetime
from decimal import Decimal
from typing import IO, TYPE_CHECKING, Any

from skyband.stream.arrow import json_rows, json_value, python_rows

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import Console

FORMATS = ("table", "json", "csv")


_LEAST = 10  # columns of the terminal that a text has


class Answers:
    """Writes tops as they come. `every` says that there will be several, `several` that queries are many."""

    def __init__(
        self, form: str, every: bool = False, several: bool = False, out: IO[str] | None = None
    ) -> None:
        self.out = sys.stdout if out is None else out
        self.every = every
        self.several = several
        self._write = {"table": self._write_table, "json": self._write_json, "csv": self._write_csv}[form]
        self._json = form == "json"
        self._ascii = not _says_everything(self.out)
        self._begun = False

    def write(self, query: str, rows: int, top: pa.Table) -> None:
        """One top of one query, after `rows` rows."""
        self._write(query, rows, top)
        self._begun |= not self._json
        if self.every:
            self.out.flush()

    def close(self, failed: bool = False) -> None:
        """The end of the output. After a failure what was written stays readable, and nothing stays nothing."""
        if self._json and (self._begun or not failed):
            self.out.write("\n]\n" if self._begun else "[]\n")
        self.out.flush()

    def _write_json(self, query: str, rows: int, top: pa.Table) -> None:
        name = {"query": query} if self.several else {}
        objects = [name | row for row in json_rows(top)]
        if self.every:
            objects = [{"rows": rows} | name | {"top": json_rows(top)}]
        for item in objects:
            self.out.write(",\n " if self._begun else "[\n ")
            self.out.write(json.dumps(item, ensure_ascii=self._ascii, allow_nan=False))
            self._begun = True

    def _write_csv(self, query: str, rows: int, top: pa.Table) -> None:
        writer = csv.writer(self.out, lineterminator="\n")
        if not self._begun:
            writer.writerow(["rows"] * self.every + top.column_names)
        for row in python_rows(top):
            writer.writerow([rows] * self.every + [_csv_value(value) for value in row.values()])

    def _write_table(self, query: str, rows: int, top: pa.Table) -> None:
        from rich.cells import cell_len
        from rich.measure import Measurement
        from rich.table import Table

        title = [query] * self.several + [f"after {rows:,} rows"] * self.every
        if self._begun:
            self.out.write("\n")
        table = Table(box=_lines(), title=", ".join(title) or None, title_justify="left", title_style="bold")
        lines = [[shown(value) for value in row.values()] for row in python_rows(top)]
        for place, name in enumerate(top.column_names):
            numeric = name in ("rank", "score", "seq", "seq_b") or _is_number(top.schema.field(name).type)
            style = {"rank": "bold", "score": "cyan", "seq": "dim"}.get(name, "")
            # Texts may be folded, if not into letters; a number in two lines would be two numbers.
            wide = (
                max(cell_len(name), *(cell_len(line[place]) for line in lines)) if lines else cell_len(name)
            )
            table.add_column(
                name,
                justify="right" if numeric else "left",
                style=style,
                overflow="fold",
                min_width=wide if numeric else min(wide, _LEAST),
            )
        for line in lines:
            table.add_row(*line)
        screen = console(self.out)
        least = Measurement.get(screen, screen.options.update(max_width=1 << 20), table).minimum
        # wider than the terminal, if it must be: that breaks lines, not cells
        screen.width = max(screen.width, least)
        with screen.capture() as drawn:
            screen.print(table)
        drawn_lines = [line.rstrip() for line in drawn.get().splitlines()]
        self.out.write("\n".join(line for line in drawn_lines if line) + "\n")


def _says_everything(out: IO[str]) -> bool:
    """Whether every character can be written there; where not, JSON has escapes of its own."""
    encoding = getattr(out, "encoding", None)
    return encoding is None or codecs.lookup(encoding).name.startswith("utf")


def _csv_value(value: Any) -> Any:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes | list | dict):
        return _nested(value)
    return value.isoformat() if isinstance(value, (date, datetime)) else value


def _nested(value: bytes | list[Any] | dict[str, Any]) -> str:
    """Return what has no form of its own in a table, as JSON has it."""
    plain = json_value(value)
    return plain if isinstance(plain, str) else json.dumps(plain, ensure_ascii=False)


def shown(value: Any) -> str:
    """A value as a person wants to read it in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.8g}"
    if isinstance(value, datetime):
        return value.isoformat(sep=" ").removesuffix("+00:00")
    if isinstance(value, Decimal):
        return f"{value:f}"
    text = _nested(value) if isinstance(value, bytes | list | dict) else str(value)
    # Data may hold anything, also what would move a terminal's cursor or colour the rest of the screen.
    return text if text.isprintable() else "".join(c if c.isprintable() else "␣" for c in text)


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


def _lines() -> Any:
    from rich import box

    return box.SIMPLE_HEAD


def console(out: IO[str]) -> Console:
    """Return a console for this stream; in a pipe nothing is coloured, wrapped or cut off."""
    from rich.console import Console

    if out.isatty():
        return Console(file=out, highlight=False, markup=False, emoji=False)
    return Console(
        file=out,
        highlight=False,
        markup=False,
        emoji=False,
        width=100_000,
        no_color=True,
        force_terminal=False,
    )
