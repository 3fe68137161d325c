"""watch(df, shards=n) without Spark: chunks in any cut and order, numbered by one task, equal one monitor."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.executors.test_units import KINDS, One, arrow, by_query, plain
from tests.spark.streams import OTHER, QUERIES, SCHEMA, make_files

from skyband.core.blob import FORMAT
from skyband.core.errors import SkybandError
from skyband.query.sql.parser import parse
from skyband.spark.dataframe import tasks
from skyband.spark.dataframe.merge import leaves_first, merged_changes
from skyband.spark.dataframe.rejected import RejectFolder
from skyband.spark.dataframe.tasks import Deal, lines_of, numbered
from skyband.spark.dataframe.units import step_unit
from skyband.spark.dataframe.watching import _deal
from skyband.spark.executors.hashing import in_order
from skyband.spark.executors.shards import Streams
from skyband.spark.jvm.files import frame

STARTS = [  # the same queries, others, and new ones: a key that was gone, one that is new, and a name for another kind
    KINDS,
    KINDS,
    {"ties": QUERIES["ties"], "rows": OTHER, "sums": KINDS["sums"], "couples": KINDS["nearest"]},
    {
        "ties": KINDS["loud"],
        "sums": KINDS["sums"],
        "both": "SELECT g, n, SUM(x) FROM s GROUP BY g, n ORDER BY SUM(x) LIMIT 3 WINDOW 25 SECONDS",
        "couples": KINDS["sums"],
    },
]
STREAMS = Streams({"s": "ts"}, {}, {}, {"s": SCHEMA})


def deal_of(queries: dict[str, str], shards: int, folder: RejectFolder | None) -> Deal:
    """The deal that `watch` would make."""
    models = {name: parse(sql) for name, sql in queries.items()}
    return replace(_deal(models, STREAMS, True, shards), folder=folder)


@pytest.mark.parametrize("texts", [True, pytest.param(False, marks=pytest.mark.soak)])
def test_units_equal_one_monitor(texts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(3)
    monkeypatch.setattr(tasks, "_many", lambda unit: 10)
    shards, one = 3, One(STREAMS)
    states: dict[int, bytes] = {}
    folder = RejectFolder(str(tmp_path)) if texts else None
    asked: dict[str, str] = {}
    for batch, rows in enumerate(make_files(8, seed=60, rows=(40, 120))):
        if batch % 2 == 0:  # a start
            asked = STARTS[batch // 2]
            deal = deal_of(asked, shards, folder)
        left = one.start(asked) if batch % 2 == 0 else []
        table = arrow(rows)
        order = list(range(len(rows)))
        chance.shuffle(order)
        cut = len(order) // 3
        lines = []
        for number in (2, 0, 1):
            chunk = table.take(pa.array(order[number * cut : (number + 1) * cut if number < 2 else None]))
            lines += lines_of(deal, "s", chunk, str(number)).to_pylist()
        parts = numbered(lines)
        tables, rejected, found = [], [], []
        for key in range(shards):
            own = [part for part in parts if part.number % shards == key]
            step = step_unit(deal, key, own, states.get(key), batch)
            states[key] = step.state
            found += step.parts
            tables += [plain(change) for change in step.changes]
            if key == 0:
                rejected = step.rejects
        tables = leaves_first([*merged_changes(deal, found), *tables])
        truth, right = one.push([("s", in_order(table, "ts"))])
        assert by_query(pa.concat_tables(tables)) == by_query(pa.concat_tables([*left, truth]))
        assert [(r.seq, r.reason) for r in rejected] == right
        assert all(reject.raw for reject in rejected) or not texts
        groups = [
            t.asked.name for t in found if t.kind == "after" and t.answer.num_rows and not t.asked.pairs
        ]
        assert len(groups) > len(set(groups))  # several units have ids of one query
    with pytest.raises(SkybandError, match="was begun with shards=3"):
        step_unit(deal_of(asked, 2, folder), 0, [], states[0], 9)
    with pytest.raises(SkybandError, match="knows no shard 2"):
        step_unit(deal, 2, [], None, 9)
    with pytest.raises(SkybandError, match=r"checkpoint is damaged: start again with an empty checkpoint"):
        step_unit(deal, 0, [], states[0][:-1], 9)


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("couples", "has pairs dealt out by query: start again with an empty checkpoint"),
        ("sums", "has all groups in one shard: start again with an empty checkpoint"),
        ("ties", None),
    ],
)
def test_the_state_of_an_older_layout(name: str, sentence: str | None) -> None:
    """Each query had one unit once. What is dealt out by query still goes on from there; the rest is refused."""
    monitor = STREAMS.monitor()
    monitor.watch(parse(KINDS[name]), name=name)
    assert monitor.share is None
    header = {"format": FORMAT, "of": 2, "windows": {}, "queries": ""}
    state = frame(header, monitor.to_bytes(), STREAMS.monitor().to_bytes())
    deal = deal_of({name: KINDS[name]}, 2, None)
    if sentence is None:
        after = step_unit(deal, 1, [], state, 3).state
        assert step_unit(deal, 1, [], after, 4).state == after
        return
    with pytest.raises(SkybandError, match=f"^The state of this query in Spark's checkpoint {sentence}"):
        step_unit(deal, 1, [], state, 3)
