"""watch(df, shards=n) without Spark: chunks in any cut and order, numbered by one task, equal one monitor."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.spark.streams import OTHER, QUERIES, SCHEMA, make_files
from tests.spark.test_units import KINDS, One, arrow, by_query, plain

from skyband.errors import SkybandError
from skyband.query.sql import parse
from skyband.spark import dealt
from skyband.spark.dealt import Deal, lines_of, merged_changes, numbered, step_unit
from skyband.spark.hashing import in_order
from skyband.spark.rejected import RejectFolder
from skyband.spark.shards import Streams

STREAMS = Streams({"s": "ts"}, {}, {}, {"s": SCHEMA})


def deal_of(
    queries: dict[str, str], shards: int, folder: RejectFolder | None, monkeypatch: pytest.MonkeyPatch
) -> Deal:
    """The deal that `watch` would make, caught on its way to Spark."""
    caught: list[Deal] = []
    monkeypatch.setattr(dealt, "_deal_out", caught.append)

    class Frame:
        def __getattr__(self, name: str) -> Any:
            return lambda *arguments: self

    models = {name: parse(sql) for name, sql in queries.items()}
    dealt.dealt_changes(Frame(), models, SCHEMA, "ts", folder, shards, "")  # type: ignore[arg-type]
    return caught[0]


@pytest.mark.parametrize("texts", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_units_equal_one_monitor(texts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    monkeypatch.setattr(dealt, "_many", lambda unit: 10)
    shards, one = 3, One(STREAMS)
    states: dict[int, bytes] = {}
    folder = RejectFolder(str(tmp_path)) if texts else None
    asked: dict[str, str] = {}
    for batch, rows in enumerate(make_files(6, seed=60, rows=(40, 120))):
        if batch % 2 == 0:  # a start: the same queries, then others
            asked = [KINDS, KINDS, {"ties": QUERIES["ties"], "rows": OTHER, "sums": KINDS["sums"]}][
                batch // 3
            ]
            deal = deal_of(asked, shards, folder, monkeypatch)
        left = one.start(asked) if batch % 2 == 0 else []
        table = arrow(rows)
        order = list(range(len(rows)))
        chance.shuffle(order)
        cut = len(order) // 3
        lines = []
        for number in (2, 0, 1):
            chunk = table.take(pa.array(order[number * cut : (number + 1) * cut if number < 2 else None]))
            lines += lines_of(deal, chunk, str(number)).to_pylist()
        parts = numbered(lines, shards).to_pylist()
        tables, rejected, told = [], [], []
        for line in parts:
            key = line["unit"]
            states[key], changes, rejects, parts_of_pairs = step_unit(
                deal, key, line["blob"], states.get(key), batch
            )
            told += parts_of_pairs
            tables += [plain(change) for change in changes]
            if key == 0:
                rejected = rejects
        tables += merged_changes(deal, told)
        truth, right = one.push([("s", in_order(table, "ts"))])
        assert by_query(pa.concat_tables(tables)) == by_query(pa.concat_tables([*left, truth]))
        assert [(r.seq, r.reason) for r in rejected] == right
        assert all(reject.raw for reject in rejected) or not texts
    with pytest.raises(SkybandError, match="was begun with shards=3"):
        step_unit(deal_of(asked, 2, folder, monkeypatch), 0, None, states[0], 9)
    with pytest.raises(SkybandError, match="knows no shard 2"):
        step_unit(deal, 2, None, None, 9)
