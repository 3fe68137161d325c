"""The picture of the README: a frame of `skyband hello` as SVG, the same on every machine.

    .venv/bin/python scripts/make_hello_svg.py docs/hello.svg

The stream runs on a clock of its own with a fixed seed, so nothing of the machine that draws it is in it.
The drawing asks for whatever fixed-width font there is, and fetches none from the web.
"""

from __future__ import annotations

import re
import sys
from html import escape, unescape
from io import StringIO
from pathlib import Path

from skyband.terminal.flows import SQL
from skyband.terminal.hello import Stage, tide
from skyband.terminal.scene import Moment, frame

_START = 1_767_225_600.0  # the first second of 2026
_SECONDS = 40
_RATE = 1_000_000
_SIZE = (98, 28)
_CELL = 12.2  # the width of a character in the drawing
_FONTS = "ui-monospace, 'Cascadia Mono', 'DejaVu Sans Mono', Menlo, Consolas, monospace"


def draw(path: Path) -> None:
    """Run the stream for a while and keep the frame in which most is moving."""
    stage = Stage(_START, seed=7)
    best: Moment | None = None
    for tick in range(1, _SECONDS * 4 + 1):
        stage.step(_START + tick / 4, _RATE * tide(_START + tick / 4))
        moment = stage.moment()
        if tick > (_SECONDS - 8) * 4 and (best is None or _liveliness(moment) > _liveliness(best)):
            best = moment
    assert best is not None
    path.write_text(svg(best), encoding="utf-8")


def _liveliness(moment: Moment) -> tuple[int, int]:
    kinds = [mark.kind for mark in moment.marks if mark.kind]
    return len(set(kinds)), len(kinds)


def svg(moment: Moment) -> str:
    """Return the drawing of one frame."""
    from rich.console import Console
    from rich.terminal_theme import MONOKAI

    width, height = _SIZE
    console = Console(
        record=True,
        width=width,
        height=height,
        file=StringIO(),
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(frame(moment, width, height, SQL))
    text = console.export_svg(title="skyband hello", theme=MONOKAI, unique_id="skyband-hello")
    text = re.sub(r"\s*@font-face \{.*?\}\n", "\n", text, flags=re.DOTALL)
    text = re.sub(r"\s*<!-- Generated with Rich .*?-->", "", text)
    text = re.sub(r'x="([\d.]+)" y="([\d.]+)" textLength="[\d.]+"([^>]*)>([^<]*)<', _placed, text)
    return text.replace("Fira Code, monospace", _FONTS).replace("arial", "sans-serif")


def _placed(found: re.Match[str]) -> str:
    """Return a piece of text without the spaces around it, at the place where it begins: not all viewers keep them."""
    x, y, rest, text = found.groups()
    words = unescape(text).replace("\xa0", " ")
    begin = len(words) - len(words.lstrip())
    words = words.strip()
    left = float(x) + begin * _CELL
    return f'x="{left:g}" y="{y}" textLength="{len(words) * _CELL:g}"{rest}>{escape(words, quote=False)}<'


if __name__ == "__main__":
    draw(Path(sys.argv[1]))
