"""What only a terminal shows: the live leaderboard, keys, bars and colours."""

from __future__ import annotations

import fcntl
import importlib.util
import io
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pytest
from rich.console import Console, RenderableType

from skyband.core.errors import SkybandError
from skyband.query.sql.parser import parse
from skyband.spark.session.progress import BatchInfo
from skyband.terminal.board import TRACE, Board
from skyband.terminal.flows import SQL, query
from skyband.terminal.hello import Stage
from skyband.terminal.panels import Panels
from skyband.terminal.pipeline import duration, need_spark, telling, window_words
from skyband.terminal.progress import Bar
from skyband.terminal.scene import bar, frame, rounded, sparkline, speed

from .conftest import environment

FASTEST = "SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 2 WINDOW 3 ROWS"


@dataclass
class Screen:
    """A process on a terminal of its own."""

    process: int
    terminal: int
    seen: bytes = field(default=b"")

    @property
    def text(self) -> str:
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", self.seen.decode("utf-8", "replace"))

    def until(self, there: Callable[[str], bool], seconds: float = 60) -> bool:
        """Read until something is to be seen, or the end."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if there(self.text):
                return True
            if select.select([self.terminal], [], [], 0.2)[0]:
                try:
                    data = os.read(self.terminal, 65536)
                except OSError:  # the other end is closed
                    data = b""
                if not data:
                    return there(self.text)
                self.seen += data
        return False

    def code(self) -> int:
        self.until(lambda text: False)
        return os.waitstatus_to_exitcode(os.waitpid(self.process, 0)[1])


def on_a_terminal(
    *arguments: object, size: tuple[int, int] = (30, 100), feed: Path | None = None, **changes: str
) -> Screen:
    process, terminal = pty.fork()
    if process == 0:
        if feed is not None:  # what stands before it in a pipe
            os.dup2(os.open(feed, os.O_RDONLY), 0)
        command = [sys.executable, "-m", "skyband", *map(str, arguments)]
        os.execve(sys.executable, command, environment(**changes))
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", *size, 0, 0))
    return Screen(process, terminal)


def has_board(text: str) -> bool:
    return bool(re.search(r"│ +1 .*B/s", text) and re.search(r"│ +10 .*B/s", text))


def test_hello_shows_a_live_leaderboard_until_q() -> None:
    screen = on_a_terminal("hello")
    assert screen.until(has_board)
    frames = screen.text.count("rows/s")
    assert screen.until(lambda text: text.count("rows/s") > frames + 2)
    os.write(screen.terminal, b"q")
    assert screen.code() == 0
    for word in ("arrivals", "window", "skyband", "WINDOW 30 SECONDS", "leaves in", "skyband demo"):
        assert word in screen.text
    assert (
        screen.seen.count(b"\x1b[?1049h") == screen.seen.count(b"\x1b[?1049l") == 1
    )  # the screen is given back
    assert b"\x1b[?25h" in screen.seen  # and so is the cursor


def test_hello_ends_quietly_at_ctrl_c() -> None:
    screen = on_a_terminal("hello")
    assert screen.until(has_board)
    os.write(screen.terminal, b"\x03")
    assert screen.code() == 0
    assert "Traceback" not in screen.text and "skyband demo" in screen.text


@pytest.mark.parametrize("size", [(24, 80), (12, 50), (60, 200)])
def test_hello_fits_any_terminal(size: tuple[int, int]) -> None:
    screen = on_a_terminal("hello", "--seconds", "1", size=size)
    assert screen.code() == 0
    assert "Traceback" not in screen.text
    # What is left on the screen at the end is the last frame.
    last = Screen(0, 0, screen.seen.rpartition(b"\x1b[?1049l")[2]).text
    frame = [line for line in re.split(r"[\r\n]+", last) if re.search("[╭│╰]", line)]
    assert len(frame) <= size[0] and all(len(line) <= size[1] for line in frame)
    assert has_board(last) == (size[0] >= 22)


def test_hello_without_keys_to_read() -> None:
    screen = on_a_terminal("hello", "--seconds", "1", feed=Path(os.devnull))
    assert screen.code() == 0
    assert has_board(screen.text) and "Traceback" not in screen.text


def test_hello_for_no_time_at_all() -> None:
    screen = on_a_terminal("hello", "--seconds", "0")
    assert screen.code() == 0 and "Traceback" not in screen.text


SLOWLY = """
import importlib.abc, sys, time

class Slowly(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "rich.live":
            time.sleep(1.5)

sys.meta_path.insert(0, Slowly())
"""


def test_hello_lasts_as_long_as_it_should_where_loading_takes_long(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOWLY)
    paths = os.pathsep.join([str(tmp_path), environment()["PYTHONPATH"]])
    screen = on_a_terminal("hello", "--seconds", "1", PYTHONPATH=paths)
    assert screen.code() == 0 and has_board(screen.text)


def test_hello_when_the_clock_stands_still() -> None:
    stage = Stage(1000.0, seed=1)
    stage.step(1000.0, 1e6)
    assert stage.rows == 0
    stage.step(1000.5, 6.0)
    few = stage.moment()
    assert (few.window_rows, few.kept_rows) == (3, 3)
    text = drawn(frame(few, 98, 28, SQL), 98)
    assert text.count("·") >= 7 and "is kept" not in text  # places that nobody has, and nothing to boast of


@pytest.mark.timeout(600)
def test_hello_compiled_goes_on_where_interpreted_began() -> None:
    screen = on_a_terminal("hello", NUMBA_DISABLE_JIT="0")
    assert screen.until(lambda text: has_board(text) and "faster soon" in text)
    # Once everything is compiled the note is gone from newer frames.
    assert screen.until(
        lambda text: "arrivals" in text and "faster soon" not in text.rpartition("arrivals")[2], 450
    )
    os.write(screen.terminal, b"q")
    assert screen.code() == 0


def test_no_color_is_respected(cars: Path) -> None:
    coloured = on_a_terminal("top", cars, "--sql", FASTEST)
    assert coloured.code() == 0 and b"\x1b[36m" in coloured.seen
    plain = on_a_terminal("top", cars, "--sql", FASTEST, NO_COLOR="1")
    assert plain.code() == 0 and not re.search(rb"\x1b\[[0-9;]*3[0-7]m", plain.seen)


def test_a_progress_bar_on_a_terminal(cars: Path) -> None:
    screen = on_a_terminal("top", cars, "--sql", FASTEST)
    assert screen.code() == 0
    assert "starting" in screen.text and "65" in screen.text
    # The bar is gone before the answer comes: its line is erased.
    assert b"\x1b[2K" in screen.seen.partition(b"rank")[0]
    assert re.search(r"(^|[\r\n])  rank", screen.text)


class Terminal(io.StringIO):
    """Standard error as a terminal, for what needs no process of its own."""

    def isatty(self) -> bool:
        return True


def test_a_progress_bar_of_what_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    monkeypatch.setenv("TERM", "xterm-256color")
    with Bar("reading") as bar:
        bar.update(1234, None)
    assert "reading" in shown.getvalue() and "1,234 rows" in shown.getvalue() and "%" not in shown.getvalue()


def test_a_wrong_query_is_pointed_at_on_a_terminal(cars: Path) -> None:
    screen = on_a_terminal("top", cars, "--sql", "SELECT id FRM cars", size=(30, 200))
    assert screen.code() == 2
    assert re.search(r"SELECT id FRM cars\r\n +\^", screen.text)


def test_terminated_hello_leaves_the_terminal_in_order() -> None:
    screen = on_a_terminal("hello")
    assert screen.until(has_board)
    os.kill(screen.process, signal.SIGTERM)
    screen.code()
    assert screen.seen.count(b"\x1b[?1049l") == 1


def test_a_board_tells_moves_and_forgets_them() -> None:
    board = Board()
    assert [mark.kind for mark in board.update("abc", 0.0)] == ["", "", ""]
    marks = board.update("dab", 1.0)
    assert [(mark.kind, mark.places) for mark in marks] == [("new", 0), ("down", 1), ("down", 1)]
    assert marks[0].fresh == 1.0
    # Further moves within the trace add up to one.
    marks = board.update("adb", 2.0)
    assert [(mark.kind, mark.places) for mark in marks] == [("", 0), ("new", 0), ("down", 1)]
    assert [mark.kind for mark in board.update("adb", 2.0 + TRACE)] == ["", "", ""]
    marks = board.update("bda", 20.0)
    assert [(mark.kind, mark.places) for mark in marks] == [("up", 2), ("", 0), ("down", 2)]


def test_small_drawings() -> None:
    assert bar(1.0, 4) == "━━━━" and bar(0.6, 4) == "━━╸" and bar(0.0, 4) == "╸"
    assert sparkline([1, 4, 8], 2) == "▄▆"
    assert sparkline([], 5) == ""
    assert [speed(score) for score in (5, 999e3, 12.34e6, 4.5e9, 2e12)] == [
        "5.00 B/s", "999 kB/s", "12.34 MB/s", "4.50 GB/s", "2000 GB/s",
    ]  # fmt: skip
    assert rounded(123_456) == 120_000 and rounded(7) == 7


def drawn(picture: RenderableType, width: int) -> str:
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(picture)
    return console.export_text()


def batch(number: int, scores: list[float]) -> BatchInfo:
    top = pa.table(
        {
            "rank": pa.array(range(1, len(scores) + 1), pa.int32()),
            "score": pa.array(scores, pa.float64()),
            "seq": pa.array([int(score) for score in scores], pa.int64()),
            "airline": pa.array(["AA"] * len(scores)),
        }
    )
    return BatchInfo(
        number, 1000, 40, 5, 3, 0.5, {"late": top, "far": top.slice(0, 0)}, reject_counts={"time": 3}
    )


@pytest.mark.parametrize("width", [40, 80, 140, 250])
def test_panels(width: int) -> None:
    panels = Panels({"late": "last 7 days", "far": "last [9] rows"}, "flights")
    assert "starting Spark" in drawn(panels.frame(width, 30, 0.0), width)
    panels.tell(batch(0, [5, 4]))
    drawn(panels.frame(width, 30, 1.0), width)
    panels.tell(batch(1, [6, 5]))
    text = drawn(panels.frame(width, 30, 2.0), width)
    for word in (
        "batch 1",
        "2,000 rows",
        "80 crossed",
        "6 rejects (3 time)",
        "late",
        "far",
        "AA",
        "new",
        "▼ 1",
    ):
        assert word in text or width < 80
    assert "nothing in the window" in text and "last [9] rows" in text
    assert max(map(len, text.splitlines())) <= width


def test_panels_cut_texts_before_they_leave_columns_out() -> None:
    top = pa.table(
        {
            "rank": pa.array([1], pa.int32()),
            "score": [1.5],
            "airline": ["The longest name that an airline ever had"],
            "route": ["from here to there and back again"],
            "dep_delay": [75],
        }
    )
    info = BatchInfo(0, 10, 10, 1, 0, 0.1, {"late": top}, reject_counts={})
    for width, words in [
        (240, "The longest name that an airline ever h… from here to there and back again        75"),
        (60, "The longest n… from here to …        75"),
        (30, "The longe…   │"),
    ]:
        panels = Panels({"late": "last 7 days", "soon": "last 7 rows"}, "flights")
        panels.tell(info)
        text = drawn(panels.frame(width, 30, 0.0), width)
        assert words in text and max(map(len, text.splitlines())) <= width
        assert "nothing in the window" in text  # of the query that has no answer yet


def test_a_console_sink_gets_lines_and_no_panels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", shown := Terminal())
    with telling({"late": ""}, "flights", live=False) as tell:
        tell(batch(3, [5, 4]))
    assert "batch 3" in shown.getvalue() and "\x1b" not in shown.getvalue()


def test_spark_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SkybandError, match=re.escape("install it with pip install 'skyband[spark]'")):
        need_spark()


def test_hello_asks_what_it_shows() -> None:
    assert parse(SQL) == query()


def test_words_for_windows() -> None:
    assert window_words(FASTEST) == "last 3 rows"
    assert window_words(FASTEST.replace("3 ROWS", "48 HOURS")) == "last 2 days"
    assert [duration(seconds) for seconds in (1, 90, 3600, 0.5)] == [
        "1 second",
        "90 seconds",
        "1 hour",
        "0.5 seconds",
    ]


def test_the_picture_is_the_same_everywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from scripts import make_hello_svg as picture

    monkeypatch.setattr(picture, "_RATE", 2_000)
    for name in ("one", "two"):
        picture.draw(tmp_path / f"{name}.svg")
    one = (tmp_path / "one.svg").read_text()
    assert one == (tmp_path / "two.svg").read_text()
    assert "http" not in one.replace("http://www.w3.org", "").replace("https<", "")
    assert "@font-face" not in one and "skyband hello" in one
