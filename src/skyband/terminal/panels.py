"""The live view of a pipeline: one panel for each query, side by side, and a line on the stream above them.

A frame is a pure function of what the last micro-batch reported. Each panel has a board of its own, so moves
can be followed in all of them at once.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from skyband.stream.arrow import python_rows
from skyband.terminal.board import Board, Mark
from skyband.terminal.output import shown
from skyband.terminal.scene import mark_sign, mark_style, rounded, sparkline

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.console import RenderableType
    from rich.panel import Panel
    from rich.text import Text

    from skyband.spark.session.progress import BatchInfo

_NARROWEST = 38  # a panel that is less wide shows too little
_TRACE = 1.5  # seconds that a move can be seen: a batch may bring many
_HEADER = 3  # lines above the panels
_HIDDEN = ("rank", "seq", "seq_b")  # rank is shown by the place, seq means nothing to a person


class Panels:
    """What a pipeline's live view shows; `tell` takes what each batch reports."""

    def __init__(self, queries: Mapping[str, str], title: str) -> None:
        self.title = title
        self._notes = dict(queries)  # by query, a few words under its panel
        self._boards = {name: Board(_TRACE) for name in queries}
        self._tops: dict[str, pa.Table] = {}
        self._rates: deque[float] = deque(maxlen=30)
        self._last: BatchInfo | None = None
        self.rows = self.crossed = self.rejects = self.changes = 0

    def tell(self, info: BatchInfo) -> None:
        """One more batch is done."""
        self._last = info
        if info.queries and info.queries.keys() != self._boards.keys():
            self._boards = {name: self._boards.get(name) or Board(_TRACE) for name in info.queries}
            self._notes = {name: self._notes.get(name, "") for name in info.queries}
        self._tops = dict(info.tops)
        self._rates.append(info.rows_per_second)
        self.rows += info.rows
        self.crossed += info.crossed
        self.changes += info.changes
        self.rejects += info.rejects

    def frame(self, width: int, height: int, now: float) -> RenderableType:
        """Return the picture at a moment (seconds of any clock), made for a terminal of this size."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        if self._last is None:
            waiting = "." * (1 + int(now * 2) % 3)
            return Text.assemble((self.title, "bold"), (f"  starting Spark {waiting}", "dim"))
        names = list(self._boards)
        across = max(1, min(len(names), width // _NARROWEST, 3))
        down = math.ceil(len(names) / across)
        longest = max([top.num_rows for top in self._tops.values()], default=1)
        lines = max(3, min(longest, (height - _HEADER - 1) // down - 3))
        grid = Table.grid(expand=True)
        for _ in range(across):
            grid.add_column(ratio=1)
        panels = [self._panel(name, width // across, lines, now) for name in names]
        for start in range(0, len(panels), across):
            grid.add_row(*panels[start : start + across])
        return Group(*self._header(self._last), grid)

    def _header(self, info: BatchInfo) -> list[Text]:
        from rich.text import Text

        from skyband.spark.session.progress import lag_words, size_words

        pruned = f"{self.crossed:,} crossed to the driver" if self.rows else ""
        first = Text.assemble(
            (self.title, "bold"),
            (f"   batch {info.batch:,}", ""),
            (f"   {rounded(info.rows_per_second):,} rows/s ", "bold"),
            (sparkline(list(self._rates), 30), "cyan"),
            (f"  {info.seconds:.2f} s a batch", "dim"),
        )
        second = Text.assemble(
            (f"{self.rows:,} rows", "bold"),
            (f"   {pruned}", "dim"),
            (f"   {self.changes:,} changes", "dim"),
            (f"   {self.rejects:,} rejects" + _reasons(info), "yellow" if self.rejects else "dim"),
            (f"   state {size_words(info.state_bytes)}" if info.state_bytes else "", "dim"),
            (f"   {lag_words(info)} waiting" if lag_words(info) else "", "yellow"),
        )
        return [first, second, Text("")]

    def _panel(self, name: str, width: int, lines: int, now: float) -> Panel:
        from rich import box
        from rich.panel import Panel
        from rich.text import Text

        top = self._tops.get(name)
        body: RenderableType = Text("nothing in the window", "dim")
        if top is not None:
            keys = [(row.get("seq"), row.get("seq_b"), row.get("id")) for row in python_rows(top)]
            marks = self._boards[name].update(keys, now)
            if top.num_rows:
                body = _lines(top, marks, width - 4, lines)
        note = self._notes[name]
        return Panel(
            body,
            title=Text(name, "bold"),
            title_align="left",
            subtitle=Text(note, "dim") if note else None,
            subtitle_align="right",
            box=box.ROUNDED,
            border_style="bright_black",
            padding=(0, 1),
            height=lines + 3,
        )


def _reasons(info: BatchInfo) -> str:
    counts = ", ".join(f"{count:,} {reason}" for reason, count in sorted(info.reject_counts.items()) if count)
    return f" ({counts})" if counts else ""


def _lines(top: pa.Table, marks: Sequence[Mark], width: int, lines: int) -> RenderableType:
    """Return the first ranks of a top, with as many of its columns as there is room for."""
    from rich.table import Table
    from rich.text import Text

    rows = python_rows(top.slice(0, lines))
    names = [name for name in top.column_names if name not in _HIDDEN]
    # A selected column that only repeats the score is shown once.
    names = [name for name in names if name == "score" or not _repeats(rows, name)]
    fitting, longest = _fitting(rows, names, width - 8)
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim", expand=False)
    table.add_column("#", justify="right", width=2)
    table.add_column("", width=4)
    for name in fitting:
        number = isinstance(rows[0][name], (int, float))
        table.add_column(Text(name), justify="right" if number else "left", no_wrap=True)
    for place, row in enumerate(rows):
        mark = marks[place]
        style = mark_style(mark) if mark.kind == "new" else ""
        cells = [
            Text(brief(row[name], longest), style or ("bold" if name == "score" else "")) for name in fitting
        ]
        table.add_row(Text(str(place + 1), "bold"), mark_sign(mark), *cells)
    return table


def _repeats(rows: Sequence[dict[str, Any]], name: str) -> bool:
    return all(row[name] == row["score"] and isinstance(row[name], (int, float)) for row in rows)


def _fitting(rows: Sequence[dict[str, Any]], names: Sequence[str], width: int) -> tuple[list[str], int]:
    """Return the columns that fit into this many characters, from the left, and how long their texts may be.

    Rather than leave a column out, long texts are cut: the airline's full name matters less than the route.
    """
    fitting: list[str] = []
    longest = 0
    for longest in (40, 20, 14, 10):
        fitting, room = [], width
        for name in names:
            need = 1 + max(len(name), *(len(brief(row[name], longest)) for row in rows))
            if need <= room:
                fitting.append(name)
                room -= need
        if len(fitting) == len(names):
            break
    return fitting, longest


def brief(value: Any, longest: int = 40) -> str:
    """Return a value in a panel: no more digits or letters than can be read in passing."""
    if isinstance(value, float) and not value.is_integer():
        return f"{value:.4g}" if abs(value) < 1e4 else f"{value:,.0f}"
    if isinstance(value, datetime):
        return value.strftime("%d %b %H:%M")
    text = shown(value)
    return text if len(text) <= longest or not isinstance(value, str) else text[: longest - 1] + "…"
