"""Pairs that several processes share: what they find together equals what one finds alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from skyband.algorithms.pairs import pair_base as limits
from skyband.algorithms.pairs.sharded_scase import Halves
from skyband.engine.monitor import Monitor

SCHEMA = pa.schema([("t", pa.int64()), ("x", pa.float64()), ("c", pa.string())])
WHERE = {
    "": "",
    "of one colour": "WHERE a.c = b.c",
    "of two": "WHERE a.c <> b.c",
    "turned": "WHERE a.x < b.x",
    "of one, turned": "WHERE a.c = b.c AND a.x + 1 < b.x",
}


def rows(chance: np.random.Generator, n: int, now: int, lateness: int) -> pa.Table:
    time = now + np.arange(n) // 3 - chance.integers(0, lateness + 1, n) * (chance.random(n) < 0.2)
    colours = chance.choice(["red", "green", "blue"], n)
    return pa.table({"t": time, "x": np.round(chance.normal(size=n) * 8) / 8, "c": colours}, schema=SCHEMA)


def merged(parts: list[Monitor], name: str, k: int) -> list[tuple[float, int, int]]:
    found = []
    for part in parts:
        watch = part.watches[name]
        algorithm = watch.group.algorithm
        assert isinstance(algorithm, Halves)
        columns = algorithm.best(watch.ranks(watch.horizon()) or 0, watch.horizon())[:5]
        found += [*zip(*(column.tolist() for column in columns), strict=True)]
    assert len({(seq, seq_b) for _, _, seq, _, seq_b in found}) == len(found)  # a pair belongs to one of them
    best = sorted(found, reverse=True)[:k]
    return [(good, seq, seq_b) for good, _, seq, _, seq_b in best]


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("window", ["60 ROWS", "25 SECONDS"])
@pytest.mark.parametrize("of", [1, 2, 3])
def test_parts_together_find_what_one_finds(
    where: str, window: str, of: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.algorithms.pairs.sharded_scase._FEW", 3)
    if where in ("", "of one colour"):
        monkeypatch.setattr(limits, "COMPILE_KNOWN", 2000)
        monkeypatch.setattr(limits, "COMPILE_AFTER", 2000)
    chance = np.random.default_rng(of + len(window))
    sql = f"SELECT a.x, b.x FROM s a, s b {WHERE[where]} ORDER BY abs(a.x - b.x) LIMIT 5 WINDOW {window}"
    one = Monitor(time="t", schema={"s": SCHEMA})
    parts = [Monitor(time="t", schema={"s": SCHEMA}) for _ in range(of)]
    for part, monitor in enumerate(parts):
        monitor.share = part, of
    for monitor in (one, *parts):
        monitor.watch(sql, name="q")
    more = 0
    for step in range(24):
        table = rows(chance, int(chance.integers(0, 30)), 8 * step, 20 if step % 3 else 4)
        if step == 12:  # more ranks, for somebody who begins now
            for monitor in (one, *parts):
                monitor.watch(sql.replace("LIMIT 5", "LIMIT 11"), name="more")
            more = 11
        for monitor in (one, *parts):
            monitor.push(table, stream="s")
        if step % 5 == 4:  # as if another process went on
            parts = [Monitor.from_bytes(monitor.to_bytes()) for monitor in parts]
        for name, k in [("q", 5), *([("more", more)] if more else [])]:
            top = one.watches[name].top()
            truth = zip(*(top.column(c).to_pylist() for c in ("score", "seq", "seq_b")), strict=True)
            assert merged(parts, name, k) == [(-score + 0.0, seq, seq_b) for score, seq, seq_b in truth], step
        for part, monitor in enumerate(parts):
            group = monitor.watches["q"].group
            group._check()
            own = group.algorithm.rows.column("seq") % of == part
            assert len(own) <= 2 * np.count_nonzero(own) + 3 + 2 * len(group.algorithm.pairs[0])
            # the columns that are shown of a pair are there
            assert monitor.watches["q"].top().column("a.x").null_count == 0
