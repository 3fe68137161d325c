"""The experiments of Haghani, Michel and Aberer (CIKM 2009, section 6), measured again.

What is kept is counted right after a pass over the instances, as the mean over many moments after the window is full.
The exact totals of `sums` show which of the approximation's answers are right. Speed is our own addition (speed.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.harness.figures import Figure
from benchmarks.harness.settings import Settings, parts_of
from benchmarks.papers.haghani import speed
from benchmarks.papers.haghani.page import BOOK
from benchmarks.papers.haghani.speed import kept_by, score_of
from benchmarks.streams.incomplete import incomplete
from skyband.core.types import Recency

SEEDS = (4, 5, 6)
RECENT = 167  # objects of each stream that others draw from


@dataclass(frozen=True)
class Size:
    """The sizes of a run."""

    name: str
    moments: int  # at which the state is looked at
    runs: int  # of Figure 4
    window: int = 500
    rows: int = 100_000  # in the window where speed is measured
    ids: int = 1_000_000  # of the grouped rows, and rows in their window
    slides: int = 20


SCALES = {
    "tiny": Size("tiny", 4, 2, 60, 2_000, 2_000, 2),
    "quick": Size("quick", 20, 10, slides=10),
    "full": Size("full", 50, 100),
}


def measure(
    size: Size, d: int, k: int, window: int, recent: float, seed: int = 4
) -> dict[str, dict[str, float]]:
    """Return what sla, eaa and correlated keep, and the precision of the last."""
    step = max(1, window // 25)
    rows = incomplete(2 * window + size.moments * step, d, RECENT, recent, np.random.default_rng(seed))
    ids, streams = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], dtype=np.uint8)
    values = np.array([row[2] for row in rows])
    state = {name: kept_by(name, d, k) for name in ("sums", "eaa", "correlated")}
    score, sums = score_of(d), {name: [0.0, 0.0, 0.0] for name in ("sla", "eaa", "correlated")}
    for begin in range(0, len(rows), step):
        end = min(begin + step, len(rows))
        for name, objects in state.items():
            objects.expire(Recency(0, max(0, end - window)))
            time_, seq = np.zeros(end - begin, dtype=np.int64), np.arange(begin, end)
            objects.add(pa.array(ids[begin:end]), (values[begin:end],), time_, seq, streams[begin:end])
            objects.settle(score)
            if name != "sums":
                objects.collect(score)
                objects.settle(score)
        if begin < 2 * window:
            continue
        right = state["sums"].best(k)
        wanted = state["sums"].keys.values(right[0]).to_pylist()
        sums["sla"][0] += min(window, end)
        for name in ("eaa", "correlated"):
            found = state[name].best(k)
            held = set(state[name].keys.values(found[0]).to_pylist())
            sums[name][0] += len(state[name].linked())
            sums[name][1] += sum(key in held for key in wanted) / len(wanted)
            sums[name][2] += float(np.abs(found[1] - right[1][: len(found[1])]).mean())
    moments = len(range(2 * window + (-2 * window) % step, len(rows), step))
    sums["sla"][1] = moments
    return {
        name: {"kept": kept / moments, "precision": right_ / moments, "error": error / moments}
        for name, (kept, right_, error) in sums.items()
    }


def skyline(size: Size) -> Figure:
    """Figure 4: instances that no other dominates, by the number of rows and by the width of the interval."""
    figure = Figure(
        "skyline", "Rows that none dominates", "n, or width", "kept", "rows", f"{size.name}: {size.runs} runs"
    )
    rng = np.random.default_rng(1)

    def kept(n: int, width: float) -> float:
        now = rng.random(n)
        best = np.minimum(now + width, 1.0)
        later = np.append(np.maximum.accumulate(now[::-1])[::-1][1:], -1.0)
        return float(np.count_nonzero(later <= best))

    places = (100, 1000, 4000) if size.name != "tiny" else (50, 100)
    for n in places:
        for name, width in (("intervals", 0.1), ("plain scores", 0.0)):
            figure.add("n", name, n, kept=float(np.mean([kept(n, width) for _ in range(size.runs)])))
    for width in (0.05, 0.1, 0.2, 0.4):
        figure.add(
            "width", "intervals", width, kept=float(np.mean([kept(1000, width) for _ in range(size.runs)]))
        )
    return figure


def sweep(
    size: Size, name: str, title: str, x: str, places: Any, at: Callable[[Any], tuple[Any, ...]]
) -> Figure:
    words = f"{size.name}: {size.moments} moments after the window is full, {len(SEEDS)} seeds, C = {RECENT}"
    figure = Figure(name, title, x, "kept", "rows or instances", words)
    for place in places[:2] if size.name == "tiny" else places:
        panel, d, k, window, recent = at(place)
        runs = [measure(size, d, k, window, recent, seed) for seed in SEEDS]
        for series in runs[0]:
            values = {name: float(np.mean([run[series][name] for run in runs])) for name in runs[0][series]}
            figure.add(panel, series, place, **values)
    return figure


def over_window(size: Size) -> Figure:
    w, title = size.window, "What is kept against the window"
    return sweep(
        size, "window", title, "W", (w // 2, w, 2 * w, 4 * w), lambda n: ("3 streams", 3, 10, int(n), 0.5)
    )


def over_recent(size: Size) -> Figure:
    title = "What is kept against the share of recent objects, two streams"
    at = lambda share: ("2 streams", 2, 10, size.window, float(share))  # noqa: E731
    return sweep(size, "recent", title, "share", (0.1, 0.3, 0.5, 0.7, 0.9), at)


def over_streams(size: Size) -> Figure:
    title = "What is kept against the number of streams"
    return sweep(
        size, "streams", title, "streams", (3, 4, 6), lambda d: ("k = 10", int(d), 10, size.window, 0.5)
    )


def over_ranks(size: Size) -> Figure:
    at = lambda k: ("3 streams", 3, int(k), size.window, 0.5)  # noqa: E731
    return sweep(size, "ranks", "What is kept against k", "k", (10, 20, 50, 100), at)


PARTS: dict[str, Callable[[Size], Figure]] = {
    "skyline": skyline,
    "window": over_window,
    "recent": over_recent,
    "streams": over_streams,
    "ranks": over_ranks,
    "joined": lambda size: speed.joined(size.name, size.rows),
    "idsets": lambda size: speed.id_sets(size.name, size.rows // 10),
    "grouped": lambda size: speed.grouped(size.name, size.ids, size.slides),
}


def main(settings: Settings) -> None:
    size = SCALES[settings.scale]
    BOOK.publish((PARTS[part](size) for part in parts_of(settings, tuple(PARTS))), settings)
