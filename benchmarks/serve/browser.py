"""The dashboard in Chromium: how soon it can be used, and whether it stays smooth when answers change fast.

*Usable* is the moment when leaderboards with rows are on the screen, the connection is live and the buttons can be
pressed, counted by the page's own clock from the beginning of its navigation, in a browser that has never seen it.

*Smooth* is judged by the frames: at sixty a second one takes 17 ms, and a long task delays the next frame. While the
engine reports a thousand and more changes a second, three things are noted: the length of each frame, each task of more
than 50 ms (the browser's own measure of what a person notices), and the age of the state that the page shows.
"""

from __future__ import annotations

import contextlib
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.harness.figures import Figure
from benchmarks.serve.load import NoBrowser, Pusher, Scale, add_durations, figure, prepared
from skyband.server.testing import running

NAMES = ("chromium", "chromium-browser", "google-chrome")
SIZE = {"width": 1280, "height": 900}
USABLE = """() => document.querySelector("#status")?.dataset.state === "live"
    && document.querySelector(".card tbody tr, #detail-board tbody tr")
    && !document.querySelector("#open-editor").disabled && performance.now()"""
WATCH = """() => {
    const seen = window.seen = {frames: [], tasks: []};
    let last = performance.now();
    const frame = (now) => { seen.frames.push(now - last); last = now; requestAnimationFrame(frame); };
    requestAnimationFrame(frame);
    new PerformanceObserver((list) => { for (const task of list.getEntries()) seen.tasks.push(task.duration); })
        .observe({type: "longtask"});
}"""
SHOWN = "() => Number(document.querySelector('#rows-total').textContent.replace(/[^0-9]/g, ''))"


@contextlib.contextmanager
def browser() -> Iterator[Any]:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise NoBrowser("The parts page and smooth need a browser: pip install playwright.") from None
    path = next((found for name in NAMES if (found := shutil.which(name))), None)
    if path is None:
        raise NoBrowser("The parts page and smooth need Chromium: apt-get install chromium.")
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        opened = playwright.chromium.launch(executable_path=path, args=arguments)
        yield opened
        opened.close()


def page(scale: Scale) -> Figure:
    """Open the page of a server with a hundred queries again and again; note when it is usable."""
    fresh: list[float] = []
    again: list[float] = []
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        server = prepared(scale, Path(folder), scale.queries)
        for _ in range(scale.loads):
            context = opened.new_context(viewport=SIZE)  # without cookies and caches
            for found in (fresh, again):
                shown = context.new_page()
                shown.goto(server.url, wait_until="commit")
                found.append(shown.wait_for_function(USABLE, polling="raf").json_value() / 1e3)
                shown.close()
            context.close()
        server.stop()
    made = figure(scale, "page", f"The dashboard of {scale.queries} queries, {scale.loads} times", "ms", 1e3)
    add_durations(made, "usable after, first visit", fresh)
    add_durations(made, "usable after, second visit", again)
    return made


class Changes(threading.Thread):
    """Pushes twenty times a second; each push changes most ranks of a dozen answers."""

    EVERY = 0.05

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.pusher = Pusher(url, "application/json")
        self.random = np.random.default_rng(7)
        self.stopping = threading.Event()
        self.changes = 0
        self.took = 0.0
        self.taken: list[tuple[float, int]] = []  # when so many rows had been acknowledged

    def ask(self, queries: int) -> None:
        self.pusher.call("POST", "/api/streams/s/rows", [{"name": "first", "x": 0.0, "y": 0.0}])
        for number in range(queries):
            score = f"x + {number / 10} * y"
            sql = f"SELECT name, x FROM s ORDER BY {score} DESC LIMIT 10 WINDOW 60 ROWS"
            self.pusher.call("POST", "/api/queries", {"name": f"q{number}", "sql": sql})

    def run(self) -> None:
        began = time.perf_counter()
        number, rows = 0, 1
        while not self.stopping.wait(max(0.0, began + number * self.EVERY - time.perf_counter())):
            values = self.random.random((10, 2)).round(4).tolist()
            given = [{"name": f"r{rows + i}", "x": x, "y": y} for i, (x, y) in enumerate(values)]
            answer = self.pusher.call("POST", "/api/streams/s/rows", given)
            number, rows = number + 1, rows + 10
            self.changes += answer["changes"]
            self.taken.append((time.perf_counter(), rows))
        self.took = time.perf_counter() - began

    def age(self, shown: int, now: float) -> float:
        """Return how long ago a newer state than the one with `shown` rows was acknowledged."""
        newer = [at for at, rows in self.taken.copy() if rows > shown]
        return max(0.0, now - newer[0]) if newer else 0.0


def smooth(scale: Scale) -> Figure:
    """Show all leaderboards, then one query, while every answer changes."""
    made = figure(scale, "smooth", "", "ms", 1.0)
    titles = []
    with tempfile.TemporaryDirectory() as folder, browser() as opened:
        server = running(data=Path(folder) / "data")
        changes = Changes(server.url)
        changes.ask(12)
        changes.start()
        for what, place in (("twelve leaderboards", ""), ("one query", "#/query/q3")):
            before, began = changes.changes, time.perf_counter()
            frames, tasks, ages = _watched(opened, f"{server.url}/{place}", changes, scale.seconds)
            rate = (changes.changes - before) / (time.perf_counter() - began)
            titles.append(
                f"{what} at {rate:,.0f} changes a second, {1e3 / frames.mean():.0f} frames a second"
            )
            for series, value in (
                ("p50", np.percentile(frames, 50)), ("p99", np.percentile(frames, 99)), ("worst", frames.max()),
            ):  # fmt: skip
                made.add("", series, f"a frame, {what}", value=float(value))
            made.add("", "p50", f"age of what is shown, {what}", value=1e3 * float(np.percentile(ages, 50)))
            made.add("", "p99", f"age of what is shown, {what}", value=1e3 * float(np.percentile(ages, 99)))
            made.add("", "worst", f"a task of more than 50 ms, {what}", value=max(tasks, default=0.0))
            made.add(
                "", "in a second", f"a task of more than 50 ms, {what}", value=len(tasks) / scale.seconds
            )
        changes.stopping.set()
        changes.join()
        server.stop()
    made.title = "; ".join(titles)
    return made


def _watched(opened: Any, url: str, changes: Changes, seconds: float) -> tuple[Any, list[float], list[float]]:
    """Open a page for some seconds; return frames and long tasks in milliseconds, and ages in seconds."""
    context = opened.new_context(viewport=SIZE)
    shown = context.new_page()
    shown.goto(url)
    shown.wait_for_function(USABLE, polling="raf")
    shown.wait_for_timeout(1000)
    shown.evaluate(WATCH)
    ages = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        shown.wait_for_timeout(97)
        rows = shown.evaluate(SHOWN)
        ages.append(changes.age(rows, time.perf_counter()))
    seen = shown.evaluate("() => window.seen")
    context.close()
    return np.array(seen["frames"][1:] or [0.0]), seen["tasks"], ages
