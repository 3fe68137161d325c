"""What `skyband hello` looks like, one frame at a time.

The frame is a pure function of a Moment, so the terminal, the picture of the README and the tests all draw
the same thing. Columns have fixed widths and numbers are rounded to what a person can read while they change:
nothing jumps but the ranks.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table
    from rich.text import Text

    from skyband.terminal.board import Mark

_SPARKS = "▁▂▃▄▅▆"  # no higher, so that the line above stays apart
_WIDEST = 96
_RANKS = 10
TITLE = "The ten fastest flows of the last 30 seconds, exact at every moment"


@dataclass(frozen=True)
class Moment:
    """Everything that a frame shows."""

    top: Sequence[dict[str, Any]]  # the rows of the answer
    left: Sequence[float]  # seconds that each of them still has in the window
    marks: Sequence[Mark]
    rate: float  # rows per second, lately
    rates: Sequence[float]  # the same, over the last seconds
    window_rows: int
    kept_rows: int
    rows: int
    note: str = ""


def frame(moment: Moment, width: int, height: int, sql: str) -> RenderableType:
    """Return the whole picture, made for a terminal of this size."""
    from rich import box
    from rich.align import Align
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    inner = min(width, _WIDEST) - 6
    roomy = height >= 27
    # What there is to read comes first; on a small terminal the query goes, then the lower ranks.
    head = [Text(TITLE, "bold", no_wrap=True)]
    if height >= 22:
        head += [Text(line, "dim", no_wrap=True) for line in _folded(sql)]
    gap = [Text("")] if height >= 23 else []
    used = len(head) + 2 * len(gap) + 1 + 3 + 2 + 2 * roomy
    shown = max(1, min(_RANKS, height - used))
    parts: list[RenderableType] = [*head, *gap, _leaders(moment, inner, shown), *gap, _figures(moment, inner)]
    panel = Panel(
        Group(*parts),
        title="[bold]skyband hello[/]",
        subtitle="[dim]q stops[/]",
        title_align="left",
        subtitle_align="right",
        box=box.ROUNDED,
        border_style="bright_black",
        padding=(1 if roomy else 0, 2),
        width=min(width, _WIDEST),
    )
    return Align.center(panel) if width > _WIDEST else panel


def _folded(sql: str) -> list[str]:
    head, _, tail = sql.partition(" ORDER BY ")
    return [head, f"ORDER BY {tail}"]


def _leaders(moment: Moment, width: int, shown: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 1, 0, 0), header_style="dim", pad_edge=False, width=width)
    # On a narrow terminal the bar goes first, then how long a line still has, then the service.
    length = width - 67 if width >= 73 else 0
    leaves, service = width >= 60, width >= 50
    table.add_column("#", justify="right", width=2)
    table.add_column("", width=4)
    table.add_column("from", width=11, no_wrap=True)
    table.add_column("to", width=11, no_wrap=True)
    if service:
        table.add_column("by", width=8, no_wrap=True)
    table.add_column("speed", justify="right", width=9, no_wrap=True)
    if length:
        table.add_column("", width=length, no_wrap=True)
    if leaves:
        table.add_column("leaves in", justify="right", width=9, no_wrap=True)
    best = max((row["score"] for row in moment.top), default=1.0)
    lines = list(zip(moment.top, moment.left, moment.marks, strict=True))
    for row, left, mark in lines[:shown]:
        # A new line lights up as a whole. When it enters at the head all others fall: that is shown by
        # their signs alone, or the whole board would flash.
        style = mark_style(mark) if mark.kind == "new" else ""
        cells = [Text(str(row["rank"]), "bold"), mark_sign(mark)]
        cells += [Text(row["source"], style), Text(row["target"], style)]
        cells += [Text(row["service"], "dim")] * service
        cells += [Text(speed(row["score"]), style or "bold")]
        if length:
            cells.append(Text(bar(row["score"] / best, length), style or "cyan"))
        if leaves:
            cells.append(Text(f"{max(0.0, left):.0f} s", "dim" if left > 5 else "yellow"))
        table.add_row(*cells)
    for _ in range(shown - len(lines)):
        table.add_row(Text("·", "dim"))
    return table


def mark_sign(mark: Mark) -> Text:
    from rich.text import Text

    text = {"new": "new", "up": f"▲ {mark.places}", "down": f"▼ {mark.places}"}.get(mark.kind, "")
    return Text(text, mark_style(mark))


def mark_style(mark: Mark) -> str:
    """Return the colour of a trace. Three steps of fading are named colours, so that they suit any background."""
    colour = {"new": "green", "up": "cyan", "down": "yellow"}.get(mark.kind)
    if colour is None:
        return ""
    if mark.fresh > 0.67:
        return f"bold bright_{colour}"
    return colour if mark.fresh > 0.34 else f"dim {colour}"


def _figures(moment: Moment, width: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), show_header=False, pad_edge=False, width=width)
    length = max(6, width - 31)
    table.add_column(style="dim", width=8)
    table.add_column(justify="right", width=17)
    table.add_column(width=length, no_wrap=True, overflow="crop")
    lately = Text(sparkline(moment.rates, 30), "cyan")
    if moment.note:
        lately.append(f"  {moment.note}", "dim")
    table.add_row("arrivals", Text(f"{rounded(moment.rate):,} rows/s", "bold"), lately)
    filled = Text(bar(1.0, length) if moment.window_rows else "", "bright_black")
    table.add_row("window", Text(f"{moment.window_rows:,} rows", "bold"), filled)
    share = moment.window_rows // moment.kept_rows if moment.kept_rows else 0
    kept = Text.styled(bar(moment.kept_rows / max(1, moment.window_rows), length), "green")
    if share > 1:
        kept.append(
            f" one row in {rounded(share):,} is kept" + ", and no other is needed" * (length > 50), "dim"
        )
    table.add_row("skyband", Text(f"{moment.kept_rows:,} rows", "bold green"), kept)
    return table


def speed(score: float) -> str:
    """Bytes per second with three digits."""
    for unit in ("B/s", "kB/s", "MB/s", "GB/s"):
        if score < 1000 or unit == "GB/s":
            return f"{score:.2f} {unit}" if score < 100 else f"{score:.0f} {unit}"
        score /= 1000
    raise AssertionError


def rounded(number: float) -> int:
    """Two digits and noughts: what can be read while it changes."""
    return int(float(f"{number:.2g}"))


def bar(share: float, width: int) -> str:
    """Return a bar, exact to half a character, and never quite nothing."""
    halves = max(1, round(min(1.0, share) * width * 2))
    return "━" * (halves // 2) + "╸" * (halves % 2)


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the last values as a row of small bars."""
    shown = list(values)[-width:]
    most = max(shown, default=0.0) or 1.0
    return "".join(_SPARKS[min(5, int(6 * value / most))] for value in shown)


def plain(moment: Moment) -> str:
    """Return the same without a terminal."""
    lines = [
        f"after {moment.rows:,} rows ({rounded(moment.rate):,} rows/s): window {moment.window_rows:,} rows, "
        f"skyband {moment.kept_rows:,} rows"
    ]
    lines += [
        f"{row['rank']:>4}  {row['source']:<12} {row['target']:<12} {row['service']:<9} {speed(row['score']):>10}"
        for row in moment.top
    ]
    return "\n".join(lines)
