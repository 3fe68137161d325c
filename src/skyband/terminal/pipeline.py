"""`skyband run`, `demo` and `verify`: what the commands show while Spark works."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.core.errors import SkybandError
from skyband.terminal.output import Answers

if TYPE_CHECKING:
    from skyband.spark.session.progress import BatchInfo, OnBatch, Summary
    from skyband.terminal.panels import Panels

_FRAMES = 4  # a second


def run_pipeline_live(path: Path, available_now: bool) -> None:
    """Run a pipeline file, with panels on a terminal and without a word of progress elsewhere."""
    from skyband.spark.config import load_pipeline

    pipeline = load_pipeline(path)
    _say_start(path.stem)
    queries = {query.name: window_words(query.sql) for query in pipeline.queries}
    need_spark()
    from skyband.spark import run_pipeline

    # A console sink writes to the terminal itself; panels would be torn apart by it.
    with telling(queries, path.stem, live=pipeline.sink.format != "console") as on_batch:
        summary = run_pipeline(path, available_now=available_now, on_batch=on_batch)
    say_summary(summary)


def run_demo_live(folder: Path) -> None:
    """The flights through Spark; afterwards the answers and a line on how to look at what was written."""
    title = "a year of flights from New York"
    _say_start(title)
    need_spark()
    from skyband.spark import run_demo
    from skyband.spark.demo import QUERIES

    latest: list[BatchInfo] = []
    with telling(dict.fromkeys(QUERIES, ""), title) as on_batch:

        def tell(info: BatchInfo) -> None:
            latest[:] = [info]
            on_batch(info)

        result = run_demo(folder, on_batch=tell)
    say_summary(result.summary)
    if latest and not sys.stderr.isatty():
        # No panels were to be seen: the answers themselves, as they are at the end.
        answers = Answers("table", several=True)
        for name, top in latest[0].tops.items():
            answers.write(name, 0, top)
        answers.close()
    print(result.hint)


def change_queries(action: str, path: Path, name: str, sql: str, form: str) -> None:
    """Add, drop or list the queries of a pipeline."""
    need_spark()
    from skyband.spark.driver.asking import add_query, drop_query, list_queries

    if action == "add":
        add_query(path, name, sql)
    elif action == "drop":
        drop_query(path, name)
    else:
        import pyarrow as pa

        found = list_queries(path)
        columns = {"name": pa.string(), "sql": pa.string(), "since": pa.int64()}
        table = pa.table(
            [
                pa.array(values, kind)
                for values, kind in zip(zip(*found, strict=True), columns.values(), strict=True)
            ],
            names=[*columns],
        )
        answers = Answers(form)
        answers.write("queries", 0, table)
        answers.close()
        return
    done = {"add": "added", "drop": "dropped"}[action]
    print(f"query '{name}': {done}, from the next batch on", file=sys.stderr)


def _say_start(title: str) -> None:
    """A first line at once: Spark takes some seconds to start. On a terminal the panels say it."""
    if not sys.stderr.isatty():
        print(f"{title}: starting Spark", file=sys.stderr, flush=True)


def need_spark() -> None:
    """A sentence instead of an import error where Spark isn't installed."""
    import importlib.util

    if importlib.util.find_spec("pyspark") is None:
        raise SkybandError("Spark isn't installed: install it with pip install 'skyband[spark]'.")


@contextmanager
def telling(queries: dict[str, str], title: str, live: bool = True) -> Iterator[OnBatch]:
    """While this lasts, what is given to the function is shown."""
    if not sys.stderr.isatty():
        yield lambda info: None  # progress is for people: nothing in a pipe
        return
    if not live:
        from skyband.spark.session.progress import print_batch

        yield print_batch
        return
    from skyband.terminal.panels import Panels

    with _drawing(Panels(queries, title)) as tell:
        yield tell


@contextmanager
def _drawing(panels: Panels) -> Iterator[Callable[[BatchInfo], None]]:
    """Draw a few times a second, from a thread: batches come when they come, and traces fade meanwhile."""
    from rich.console import Console
    from rich.live import Live

    console = Console(file=sys.stderr, highlight=False)
    lock = threading.Lock()
    done = threading.Event()

    def tell(info: BatchInfo) -> None:
        with lock:
            panels.tell(info)

    def draw(live: Live) -> None:
        with lock:
            picture = panels.frame(console.width, console.height, time.monotonic())
        live.update(picture, refresh=True)

    def work(live: Live) -> None:
        while not done.wait(1 / _FRAMES):
            draw(live)

    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as live:
        thread = threading.Thread(target=work, args=(live,), name="skyband-view", daemon=True)
        draw(live)
        thread.start()
        try:
            yield tell
        finally:
            done.set()
            thread.join(2.0)
            draw(live)


def window_words(sql: str) -> str:
    """Return what a query asks, in a few words for the foot of its panel."""
    from skyband.query.model import Last
    from skyband.query.sql.parser import parse

    query = parse(sql)
    if isinstance(query.window, Last):
        return f"last {duration(query.window.nanoseconds / 1e9)}"
    return f"last {query.window.n:,} rows"


def duration(seconds: float) -> str:
    """Return a length of time in its largest whole unit."""
    for unit, length in (("day", 86400), ("hour", 3600), ("minute", 60), ("second", 1)):
        if seconds >= length and seconds % length == 0:
            count = int(seconds // length)
            return f"{count} {unit}{'s' if count != 1 else ''}"
    return f"{seconds:g} seconds"


def say_summary(summary: Summary) -> None:
    """What the run did, on standard error."""
    rejects = f", {summary.rejects:,} rejected" if summary.rejects else ""
    print(
        f"{'Stopped' if summary.stopped else 'Done'}: {summary.batches:,} batches, {summary.rows:,} rows, "
        f"{summary.changes:,} changes{rejects}, {summary.seconds:.1f} s.",
        file=sys.stderr,
    )


def verify_and_say(path: Path) -> None:
    """Compare a pipeline's output with the brute force; a difference is a failure."""
    from skyband.spark import verify_pipeline

    report = verify_pipeline(path)
    print(report)
    if not report.ok:
        raise SkybandError(
            "The output is not what the brute force finds: please report it with the line above."
        )
