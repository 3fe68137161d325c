"""`skyband hello`: a live leaderboard within seconds, on the very first run too.

Compiling takes longer than a first impression may. So the stream begins slowly, with the kernels run as
plain Python, while a thread compiles them on a small stream of its own; once they are ready the stream
quickens to as much as a fraction of one processor bears. The answers are the same before and after.
"""

from __future__ import annotations

import contextlib
import math
import signal
import sys
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from skyband.terminal.board import Board
from skyband.terminal.flows import SCHEMA, SQL, WINDOW, Flows, query
from skyband.terminal.scene import TITLE, Moment, frame, plain

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.engine.watch import Watch

_TICK = 0.05  # seconds between batches
_FRAMES = 4  # a second: as many as a person can read
_SLOW = 2_000.0  # rows per second before anything is compiled
_FAST = 1_000_000.0
_SHARE = 0.35  # of a processor, at most
_PLAIN_FRAMES = 3


class Stage:
    """The stream, the monitor and what is shown of them. Times are given, never asked for."""

    def __init__(self, start: float, seed: int | None = None) -> None:
        self.monitor, self.watch = watched()
        self.flows = Flows(seed)
        self.board = Board()
        self.start = self.now = start
        self.rows = 0
        self._batches: deque[tuple[float, int]] = deque()
        self._window_rows = 0
        self.rates: deque[float] = deque(maxlen=30)
        self._second = (start, 0)

    def step(self, now: float, rate: float) -> None:
        """Let the flows of the time since the last step arrive."""
        count = int((now - self.now) * rate)
        if count <= 0:
            return
        self.monitor.push(self.flows.between(self.now, now, count))
        self.rows += count
        self._window_rows += count
        self._batches.append((now, count))
        while self._batches[0][0] < now - WINDOW:
            self._window_rows -= self._batches.popleft()[1]
        self.now = now
        since, rows = self._second
        if now - since >= 1.0:
            self.rates.append((self.rows - rows) / (now - since))
            self._second = (now, self.rows)

    def moment(self, note: str = "") -> Moment:
        """What there is to see now."""
        top = self.watch.top().to_pylist()
        marks = self.board.update([row["seq"] for row in top], self.now)
        recent = [(at, count) for at, count in self._batches if at > self.now - 1.0]
        span = max(self.now - max(self.start, self.now - 1.0), _TICK)
        return Moment(
            top=top,
            left=[row["ts"].timestamp() + WINDOW - self.now for row in top],
            marks=marks,
            rate=sum(count for _, count in recent) / span,
            rates=list(self.rates),
            window_rows=self._window_rows,
            kept_rows=kept_rows(self.watch),
            rows=self.rows,
            note=note,
        )


def watched() -> tuple[Monitor, Watch]:
    from skyband.engine.monitor import Monitor

    monitor = Monitor(time="ts", schema=SCHEMA)
    return monitor, monitor.watch(query(), name="fastest")


def kept_rows(watch: Watch) -> int:
    """How many rows the watch's state holds now."""
    return int(watch.explain().candidates)


class Warming:
    """Compiles the kernels in a thread, on a small stream of its own."""

    def __init__(self) -> None:
        from skyband.compiling import cache, jit

        self.ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="skyband-warming", daemon=True)
        cache.cache_folder()  # if it can't be written, that is said now, before the screen is ours
        jit.start_interpreted()

    def begin(self) -> None:
        """Start compiling, if that hasn't begun: best called when there is something to look at meanwhile."""
        if self._thread.ident is None:
            self._thread.start()

    @property
    def note(self) -> str:
        """What to say meanwhile."""
        return "compiling, faster soon" if self._thread.is_alive() and not self.ready.is_set() else ""

    def _run(self) -> None:
        from skyband.compiling import jit

        with contextlib.suppress(Exception):
            # Whatever fails here would fail in the open too; the show goes on in plain Python.
            jit.warming()
            monitor, watch = watched()
            flows = Flows(0)
            for second, count in enumerate((40_000, 50, 40_000, 5_000)):
                # The last batches come after a pause, so that rows expire and that is compiled as well.
                start = 1e9 + second * 20
                monitor.push(flows.between(start, start + 1, count))
                watch.top()
            jit.compiled_ready()
            self.ready.set()


class Throttle:
    """How fast the stream runs: slowly at first, then as fast as its share of a processor allows."""

    def __init__(self) -> None:
        self.rate = _SLOW

    def after(self, busy: float, ready: bool) -> None:
        """A tick took `busy` seconds. Before all is compiled the pace stays as it is."""
        if not ready:
            return
        lasted = max(busy, _TICK)
        if busy > _SHARE * _TICK:
            self.rate = max(_SLOW, self.rate * 0.5**lasted)
        else:
            self.rate = min(_FAST, self.rate * 2.0**lasted)


def tide(now: float) -> float:
    """Traffic is never quite even: a slow swell around 0.75."""
    return 0.75 + 0.18 * math.sin(now / 2.7) + 0.07 * math.sin(now / 0.9)


def run_hello(seconds: float | None) -> None:
    """The show, until q, Ctrl-C or so many seconds; in a pipe a few plain snapshots."""
    warming = Warming()
    stage = Stage(time.time())
    throttle = Throttle()
    # Being ended from outside is an end like others: the terminal must be given back in order.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if sys.stdout.isatty():
        _live(stage, throttle, warming, seconds)
    else:
        _snapshots(stage, throttle, warming, seconds)


def _tick(stage: Stage, throttle: Throttle, warming: Warming) -> None:
    began = time.monotonic()
    now = time.time()
    stage.step(now, throttle.rate * tide(now))
    busy = time.monotonic() - began
    throttle.after(busy, warming.ready.is_set())
    time.sleep(max(0.0, _TICK - busy))


def _live(stage: Stage, throttle: Throttle, warming: Warming, seconds: float | None) -> None:
    from rich.console import Console
    from rich.live import Live

    from skyband.terminal.keys import pressed

    console = Console(highlight=False)
    # Counted from here: on a busy machine all of them may have passed before everything was loaded.
    end = None if seconds is None else time.monotonic() + seconds
    moment: Moment | None = None
    with (
        contextlib.suppress(KeyboardInterrupt),
        pressed() as keys,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        due = 0.0
        while (end is None or time.monotonic() < end) and "q" not in keys().lower():
            _tick(stage, throttle, warming)
            if time.monotonic() >= due:
                due = time.monotonic() + 1 / _FRAMES
                moment = stage.moment(warming.note)
                live.update(frame(moment, console.width, console.height, SQL), refresh=True)
                warming.begin()
    if moment is not None:
        console.print(frame(moment, console.width, console.height, SQL))
        console.print(
            "That was a made-up stream. On your own file:\n"
            '  skyband top FILE --sql "SELECT * FROM s ORDER BY x DESC LIMIT 5 WINDOW 99 ROWS"\n'
            "On Spark, over real flights:\n"
            "  skyband demo",
            style="dim",
        )


def _snapshots(stage: Stage, throttle: Throttle, warming: Warming, seconds: float | None) -> None:
    warming.begin()
    print(TITLE)
    print(SQL)
    last = time.monotonic() + (_PLAIN_FRAMES if seconds is None else seconds)
    due = time.monotonic() + 1.0
    while time.monotonic() < last:
        _tick(stage, throttle, warming)
        if time.monotonic() >= min(due, last):
            due += 1.0
            print(f"\n{plain(stage.moment())}", flush=True)
