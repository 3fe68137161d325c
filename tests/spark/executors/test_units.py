"""The work dealt out to units, without Spark: what tasks, units and driver make together equals one monitor."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.spark.streams import QUERIES, SCHEMA, make_files, moment, pipeline_text

from skyband.core.errors import SkybandError
from skyband.files.rows import Chunk
from skyband.query.sql.parser import parse
from skyband.spark.config import load_pipeline
from skyband.spark.driver.checkpoint import Checkpoint, open_checkpoint
from skyband.spark.executors import merging, routing
from skyband.spark.executors.frames import late_before, late_of, write_frame
from skyband.spark.executors.gather import Gather, Reports
from skyband.spark.executors.handover import _cut, hand_over
from skyband.spark.executors.merging import Part, take, unpacked
from skyband.spark.executors.routing import Era, Job
from skyband.spark.executors.run import ExecutorsRun
from skyband.spark.executors.shards import (
    COUPLES,
    PAIRS,
    ROWS,
    Layout,
    LayoutLog,
    Streams,
    key_of,
    kind_of,
    murmur,
    plan_layout,
)

KINDS = {
    **QUERIES,
    "untied": "SELECT x FROM s ORDER BY dist(x, y, 0.3, 0.4) LIMIT 3 WINDOW 45 SECONDS",
    "sums": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW 60 ROWS",
    "counted": "SELECT n, COUNT(*) FROM s GROUP BY n ORDER BY COUNT(*) DESC LIMIT 4 WINDOW 30 SECONDS",
    "loud": "SELECT n, SUM(y) FROM s GROUP BY n HAVING SUM(y) > 3 WINDOW 80 ROWS",
    "nearest": "SELECT a.n, b.n FROM s a, s b WHERE a.g = b.g ORDER BY abs(a.y - b.y) LIMIT 3 WINDOW 9 SECONDS",
    "couples": "SELECT a.n, b.n FROM s a, s b WHERE a.n <> b.n ORDER BY abs(a.x - b.x) LIMIT 4 WINDOW 40 ROWS",
}


def bound(queries: Mapping[str, str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, parse(sql)) for name, sql in queries.items())


class Local:
    """Tasks, units and driver in one process; state is bytes between two batches, as Spark would keep it."""

    def __init__(self, folder: Path, streams: Streams, seed: int = 1, twice: bool = False) -> None:
        self.folder, self.streams = folder, streams
        self.twice = twice  # every unit takes every batch a second time, from the state before it
        self.gather = Gather(streams)
        self.chance = random.Random(seed)
        self.states: dict[int, bytes] = {}
        self.batch = 0
        self.asked: tuple[tuple[str, Any], ...] = ()
        self.frame: dict[str, Any] | None = None

    def start(self, queries: Mapping[str, str], layout: Layout) -> None:
        """A start with these queries: units that are new take over from the others."""
        before, self.before = self.asked, self.asked
        self.asked = bound(queries)
        units = layout.units(self.asked)
        retired, moved = [], []
        old = self.layout.units(before) if self.batch else ()
        keys = {unit.key for unit in units}
        for unit in old:
            if unit.key not in keys:
                (moved if unit.kind in layout.kinds else retired).append(unit)
        for unit in units if self.batch else ():
            if unit.key not in self.states:
                own = [self.states[u.key] for u in old if u.kind == ROWS]
                self.states[unit.key] = _cut(own, unit)
        gone = tuple(Unit for Unit in (routing.replace(u, queries=(), digest="none") for u in retired))
        era = Era(self.batch, units, gone, tuple(unit.key for unit in moved))
        self.layout = layout
        self.job = Job(
            self.streams, (era,), str(self.folder), self.batch, prune_rows=self.chance.choice([0, 60])
        )
        if self.frame is not None:
            kept = {name for name, query in self.asked if dict(before).get(name) == query}
            self._write(self.batch - 1, kept)

    def _write(self, batch: int, kept: set[str]) -> None:
        assert self.frame is not None
        late = late_of(self.frame, self.asked, self.streams.time, kept)
        write_frame(self.folder, batch, self.frame, late)

    def push(self, rows: Sequence[tuple[str, pa.Table]]) -> tuple[pa.Table, pa.Table, pa.Table]:
        """One micro-batch: its changes, its rejects and the answers."""
        era = self.job.era(self.batch)
        parts: dict[int, list[Part]] = {unit.key: [] for unit in era.units}
        for unit in era.retired if self.batch == era.first else ():
            parts[unit.key] = []
        for key in era.moved if self.batch == era.first else ():
            parts[key] = []
        number = 0
        for stream, table in rows:
            for piece in self._cut(table):
                chunk = Chunk(piece)
                for line in routing._lines(
                    self.job, era, self.batch, (0, number, 0), stream, chunk
                ).to_pylist():
                    part = Part((0, line["number"], 0), line["stream"], line["blob"])
                    parts[line["unit"]].append(part)
                number += 1
        lines = []
        for key, own in parts.items():
            if self.chance.random() < 0.5:
                merging._HELD.clear()  # another worker
            self.chance.shuffle(own)
            state = self.states.pop(key, None)
            after, told = take(self.job, self.batch, key, own, state)
            if self.twice:  # a task that failed after that, or a batch that was not committed
                self.chance.shuffle(own)
                first = (after, told)
                after, told = take(self.job, self.batch, key, own, state)
                assert told == first[1] and (after is None) == (first[0] is None)
            if after is not None:
                self.states[key] = after
            lines += [
                {"kind": x.kind, "unit": key, "query": x.query, "number": x.number, "blob": x.blob}
                for x in told
            ]
        heard = Reports(pa.Table.from_pylist(lines))
        before = self.before if self.batch == era.first else self.asked
        changes = self.gather.changes(heard, before, self.asked)
        tops = self.gather.answers(heard, self.asked)
        self.frame = heard.frame()
        self._write(self.batch, {name for name, _ in self.asked})
        self.batch += 1
        return changes, heard.rejects(), tops

    def _cut(self, table: pa.Table) -> list[pa.Table]:
        edges = sorted({0, table.num_rows, *(self.chance.randrange(table.num_rows + 1) for _ in range(2))})
        return [table.slice(a, b - a) for a, b in pairwise(edges)]


class One:
    """One monitor that does it all: what the driver placement has."""

    def __init__(self, streams: Streams) -> None:
        self.monitor = streams.monitor()

    def start(self, queries: Mapping[str, str]) -> list[pa.Table]:
        from skyband.spark.driver.engine import drop

        left = []
        for name in list(self.monitor.watches):
            if name not in queries or self.monitor.watches[name].query != parse(queries[name]):
                left.append(plain(drop(self.monitor, name)))
        for name, sql in queries.items():
            if name not in self.monitor.watches:
                self.monitor.watch(sql, name=name)
        return left

    def push(self, rows: Sequence[tuple[str, pa.Table]]) -> tuple[pa.Table, list[tuple[int, str]]]:
        parts = [(stream, [self.monitor.sifter(stream).sift(table)]) for stream, table in rows]
        changes = plain(self.monitor.push_sifted(parts))
        return changes, [(reject.seq, reject.reason) for reject in self.monitor.step_rejects]


def plain(table: pa.Table) -> pa.Table:
    return pa.table(
        {name: table.column(name).cast(_plain(table.schema.field(name).type)) for name in table.column_names}
    )


def _plain(type_: pa.DataType) -> pa.DataType:
    return type_.value_type if pa.types.is_dictionary(type_) else type_


def by_query(table: pa.Table) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for row in table.to_pylist():
        found.setdefault(row["query"], []).append(row)
    return found


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist([{**row, "ts": moment(row["ts"])} for row in rows], schema=SCHEMA)


def compare(
    local: Local, one: One, batches: Sequence[Sequence[tuple[str, pa.Table]]], left: Sequence[pa.Table] = ()
) -> None:
    for rows in batches:
        changes, rejects, tops = local.push(rows)
        truth, rejected = one.push(rows)
        truth = pa.concat_tables([*left, truth])
        left = []
        assert by_query(changes) == by_query(truth)
        assert list(zip(*(rejects.column(c).to_pylist() for c in ("seq", "reason")), strict=True)) == rejected
        shown = by_query(tops)
        for name, watch in one.monitor.watches.items():
            top = watch.top()
            found = [(row["rank"], row["score"]) for row in shown.get(name, [])]
            assert found == list(zip(*(top.column(c).to_pylist() for c in ("rank", "score")), strict=True))


STREAMS = Streams({"s": "ts"}, {}, {}, {"s": SCHEMA})
WAITING = Streams({"s": "ts"}, {}, {}, {"s": SCHEMA}, max_ahead={"s": "4 seconds"})


def far_ahead(files: list[list[dict[str, Any]]], seed: int) -> list[list[tuple[str, pa.Table]]]:
    """Files some of whose rows are stamped ahead, and the last of which go on at another time."""
    chance = random.Random(seed)
    for number, rows in enumerate(files):
        for row in rows:
            if row["ts"] is not None:
                jumped = 5_000 if number >= len(files) * 2 // 3 else 0
                row["ts"] += jumped + chance.choice([0, 0, 0, 0, 0, 1, 6, 9, 40, 700])
    return [[("s", arrow(rows))] for rows in files]


def layout(queries: Mapping[str, str], rows: int, parts: int, epoch: int = 0) -> Layout:
    kinds = {kind_of(query): (parts, epoch) for _, query in bound(queries)}
    return Layout(2, {**kinds, ROWS: (rows, epoch)})


@pytest.mark.parametrize("twice", [False, True])
def test_units_equal_one_monitor(tmp_path: Path, twice: bool) -> None:
    local, one = Local(tmp_path, STREAMS, twice=twice), One(STREAMS)
    local.start(KINDS, layout(KINDS, 3, 2))
    one.start(KINDS)
    compare(local, one, [[("s", arrow(rows))] for rows in make_files(6, seed=83)])


def test_rows_that_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which rows wait is decided once for a batch, whichever units they go to; units that are new take them over."""
    monkeypatch.setattr("skyband.stream.waiting.MOST", 12)
    local, one = Local(tmp_path, WAITING, twice=True), One(WAITING)
    files = far_ahead(make_files(12, seed=85, rows=(10, 60)), seed=1)
    asked = {name: sql for name, sql in KINDS.items() if name not in ("sums", "couples", "untied")}
    known = layout(asked, 2, 2)
    local.start(asked, known)
    compare(local, one, files[:3], one.start(asked))
    assert len(one.monitor.streams["s"].waiting) == 12 and one.monitor.reject_counts["ahead"]
    asked |= {name: KINDS[name] for name in ("sums", "couples", "untied")}
    more = layout(asked, 3, 2, epoch=1)
    local.start(asked, Layout(2, {**more.kinds, **{k: v for k, v in known.kinds.items() if k != ROWS}}))
    compare(local, one, files[3:], one.start(asked))
    assert any(notice.notice == "jumped" for notice in one.monitor.all_notices())


def test_a_name_that_goes_to_a_query_of_another_kind(tmp_path: Path) -> None:
    """Who told the old answer is not asked the new one: what leaves has the sign, the k and the ids that it had."""
    local, one = Local(tmp_path, STREAMS), One(STREAMS)
    names = ["rows", "sums", "counted", "couples", "nearest", "loud"]
    asked = {name: KINDS[name] for name in names}
    local.start(asked, layout(asked, 2, 2))
    one.start(asked)
    files = [[("s", arrow(rows))] for rows in make_files(7, seed=84)]
    compare(local, one, files[:2])
    for first in (2, 4):
        names = [*names[1:], names[0]]
        asked = dict(zip(asked, (KINDS[name] for name in names), strict=True))
        local.start(asked, layout(asked, 2, 2))
        compare(local, one, files[first : first + 2], one.start(asked))
    asked = {"sums": KINDS["rows"]}  # and all units but those of single rows go
    local.start(asked, layout(asked, 2, 2))
    compare(local, one, files[6:], one.start(asked))


def test_another_job_at_the_same_place_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job that is gone leaves its place, and its number, to the next one: whose routes are its own."""
    monkeypatch.setattr(routing, "id", lambda _: 1, raising=False)
    for rows in (2, 5, 1, 4, 3, 6):
        units = layout(KINDS, rows, 2).units(bound(KINDS))
        era = Era(0, units, (), ())
        (found,) = routing.routes(Job(STREAMS, (era,), str(tmp_path), 0), era).values()
        assert [route.unit.key for route in found] == [unit.key for unit in units]


def test_units_are_dealt_out_anew(tmp_path: Path) -> None:
    """Other numbers of units, other queries, kinds that come and go: nothing is lost, and what leaves is said."""
    files = [[("s", arrow(rows))] for rows in make_files(12, seed=90)]
    local, one = Local(tmp_path, STREAMS), One(STREAMS)
    asked = dict(KINDS)
    known = layout(asked, 2, 2)
    for start, (rows, change) in enumerate(
        (
            (2, {}),
            (5, {}),
            (1, {"above": None, "couples": None, "nearest": None}),
            (3, {"many": QUERIES["ties"], "sums": None, "loud": None}),
            (3, {"sums": KINDS["sums"], "couples": KINDS["couples"]}),
            (2, {"untied": None, "counted": KINDS["loud"]}),
        )
    ):
        asked = {name: sql for name, sql in {**asked, **change}.items() if sql is not None}
        kinds = {kind: known.kinds.get(kind, (2, start)) for kind in layout(asked, rows, 2).kinds}
        kinds[ROWS] = known.kinds[ROWS] if known.kinds[ROWS][0] == rows else (rows, start)
        known = Layout(2, kinds)
        local.start(asked, known)
        compare(local, one, files[2 * start : 2 * start + 2], one.start(asked))


def test_pairs_that_were_dealt_out_by_query_stay_so(tmp_path: Path) -> None:
    """A checkpoint from when each query about pairs had one unit: it goes on, and others like it come to its units."""
    asked = {name: KINDS[name] for name in ("couples", "ties")}
    known = Layout(2, {ROWS: (1, 0), PAIRS: (2, 0)})
    local, one = Local(tmp_path, STREAMS), One(STREAMS)
    files = [[("s", arrow(rows))] for rows in make_files(4, seed=91)]
    local.start(asked, known)
    one.start(asked)
    assert {unit.kind for unit in local.job.eras[0].units} == {ROWS, PAIRS}
    compare(local, one, files[:2])
    (tmp_path / "pipeline.toml").write_text(pipeline_text(KINDS, spark="shards = 3\n"))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    more = {**asked, "nearest": KINDS["nearest"]}
    planned = plan_layout(pipeline, bound(more), 4, known)
    assert dict(planned.kinds) == {ROWS: (3, 1), PAIRS: (2, 0)}
    assert dict(plan_layout(pipeline, bound(more), 4, None).kinds) == {ROWS: (3, 0), COUPLES: (3, 0)}
    local.start(more, planned)
    compare(local, one, files[2:], one.start(more))


class Start(ExecutorsRun):
    """A start of a pipeline, as far as it goes without Spark: units take one batch, or it dies before there is any."""

    def __init__(self, folder: Path, local: Local, shards: int) -> None:
        more = f'placement = "executors"\nshards = {shards}\n'
        (folder / "pipeline.toml").write_text(pipeline_text({"ties": KINDS["ties"]}, spark=more))
        pipeline = load_pipeline(folder / "pipeline.toml")
        checkpoint = open_checkpoint(pipeline)
        checkpoint.set_queries(checkpoint.first_new(), pipeline.queries)
        anything: Any = None
        super().__init__(pipeline, checkpoint, {"s": SCHEMA}, anything, anything, anything)
        self.local, self.folder = local, folder

    def go(self, rows: pa.Table | None) -> pa.Table:
        self.rows = rows
        return self._start(SimpleNamespace(sparkContext=SimpleNamespace(defaultParallelism=2)), True)  # type: ignore[arg-type]

    def _query(self, session: Any, eras: list[Era], begins: int, *_: Any, **__: Any) -> Any:
        if self.rows is None:
            raise KeyboardInterrupt
        local = self.local
        local.folder, local.batch, local.asked, local.before = (
            self._checkpoint.own, begins, self._asked(begins), self._asked(begins - 1),
        )  # fmt: skip
        local.job = Job(self._streams, tuple(eras), str(local.folder), begins)
        changes, _, _ = local.push([("s", self.rows)])
        for log in ("offsets", "commits"):
            (self._checkpoint.folder / log).mkdir(exist_ok=True)
            (self._checkpoint.folder / log / str(begins)).write_text("")
        return changes


def test_a_start_dies_when_its_units_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch has begun with them, so none of them has state: the next start goes by those of the last batch."""
    local, one = Local(tmp_path, STREAMS), One(STREAMS)
    one.start({"ties": KINDS["ties"]})
    monkeypatch.setattr("skyband.spark.executors.handover.read_states", lambda *_: dict(local.states))
    # the same number again, which has nothing to hand over any more; then another one, from units that never were
    for rows, (noted, shards) in zip(make_files(3, seed=24), ((1, 1), (2, 2), (3, 1)), strict=True):
        with pytest.raises(KeyboardInterrupt):
            Start(tmp_path, local, noted).go(None)
        changes = Start(tmp_path, local, shards).go(arrow(rows))
        truth, _ = one.push([("s", arrow(rows))])
        assert by_query(changes) == by_query(truth)


def test_joined_streams(tmp_path: Path) -> None:
    schemas = {
        name: pa.schema([("t", pa.float64()), ("id", pa.int64()), (c, pa.float64())])
        for name, c in (("r", "x"), ("q", "y"))
    }
    streams = Streams({"r": "t", "q": "t"}, {}, {}, schemas)
    queries = {
        "both": "SELECT id FROM r FULL JOIN q USING (id) ORDER BY x - 2 * y DESC LIMIT 4 WINDOW 40 ROWS",
        "late": "SELECT id FROM r FULL JOIN q USING (id) ORDER BY x + y LIMIT 3 WINDOW 9 SECONDS",
        "single": "SELECT id FROM q ORDER BY y DESC LIMIT 3 WINDOW 30 ROWS",
    }
    chance = np.random.default_rng(5)
    batches = []
    for number in range(8):
        parts = []
        for name, column in (("r", "x"), ("q", "y")):
            n = int(chance.integers(1, 40))
            time = number * 4 + chance.integers(-60, 16, n) / 4
            values = chance.integers(0, 9, n).astype(float)
            parts.append(
                (
                    name,
                    pa.table(
                        {"t": time, "id": chance.integers(0, 12, n), column: values}, schema=schemas[name]
                    ),
                )
            )
        batches.append(parts[: 1 + number % 2])
    local, one = Local(tmp_path, streams), One(streams)
    local.start(queries, layout(queries, 2, 3))
    one.start(queries)
    compare(local, one, batches)


def test_an_update_stream_is_one_unit(tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64()), ("op", pa.string()), ("v", pa.float64())])
    streams = Streams({}, {"s": "k"}, {"s": "op"}, {"s": schema})
    queries = {
        "best": "SELECT k FROM s ORDER BY v DESC LIMIT 3 WINDOW 50 ROWS",
        "sums": "SELECT k, SUM(v) FROM s GROUP BY k ORDER BY SUM(v) DESC LIMIT 2 WINDOW 50 ROWS",
    }
    chance = np.random.default_rng(6)
    batches = []
    for _ in range(5):
        n = 30
        ops = chance.choice(["c", "u", "d", "?"], n, p=[0.4, 0.3, 0.25, 0.05])
        batches.append(
            [
                (
                    "s",
                    pa.table(
                        {"k": chance.integers(0, 10, n), "op": ops, "v": chance.random(n)}, schema=schema
                    ),
                )
            ]
        )
    local, one = Local(tmp_path, streams), One(streams)
    local.start(queries, Layout(1, {"updates": (1, 0)}))
    one.start(queries)
    compare(local, one, batches)


def test_what_is_not_whole_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local = Local(tmp_path, STREAMS)
    queries = {"ties": QUERIES["ties"]}
    local.start(queries, layout(queries, 1, 1))
    (rows,) = make_files(1, seed=70)
    local.push([("s", arrow(rows))])
    ((key, state),) = local.states.items()
    with pytest.raises(SkybandError, match="is damaged"):
        unpacked(state[:-1])
    with pytest.raises(SkybandError, match="no state of unit"):
        take(Job(STREAMS, (Era(1, local.job.eras[0].units),), str(tmp_path), 1), 1, key, [], None)
    (tmp_path / "handover").mkdir()
    (tmp_path / "handover" / f"{key}.state").write_bytes(state[:-1])
    with pytest.raises(SkybandError, match=r"handover/\d+\.state is damaged: remove the folder it is in"):
        take(Job(STREAMS, (Era(1, local.job.eras[0].units),), str(tmp_path), 1), 1, key, [], None)
    with pytest.raises(
        SkybandError, match=r"frames/6\.json cannot be read: every executor must see the chec"
    ):
        late_before(tmp_path, 7)
    monkeypatch.setattr("skyband.spark.executors.merging.FORMAT", 99)
    monkeypatch.setattr("skyband.core.blob.FORMAT", 99)
    with pytest.raises(SkybandError, match=r"in format \d+, of another skyband"):
        unpacked(state)


def test_layouts_are_remembered(tmp_path: Path) -> None:
    log = LayoutLog(tmp_path)
    first, second = layout(KINDS, 2, 2), layout(KINDS, 3, 2, epoch=1)
    assert log.at(0) is None
    log.set(0, first)
    log.set(4, second)
    assert (log.at(0), log.at(3), log.at(4), log.at(9)) == (first, first, second, second)
    log.set(4, first)  # batch 4 was never attempted: another start, another mind
    assert log.at(9) == first
    (tmp_path / "shards.json").write_text("[{")
    with pytest.raises(SkybandError, match=r"shards\.json is damaged: bring it back from a copy"):
        log.at(9)


def test_a_state_that_lacks_units_is_not_handed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Spark can read may still be of another checkpoint."""
    asked = bound({"ties": QUERIES["ties"]})
    before, after = (Layout(2, {ROWS: (of, epoch)}).units(asked) for of, epoch in ((2, 0), (3, 1)))
    monkeypatch.setattr("skyband.spark.executors.handover.read_states", lambda *_: {before[0].key: b""})
    with pytest.raises(SkybandError, match="has no state of 1 of 2 units before batch 5: it is damaged"):
        hand_over(None, Checkpoint(tmp_path), 5, before, after)  # type: ignore[arg-type]


def test_keys_go_round_the_partitions() -> None:
    # From Spark itself: SELECT hash(id) for these bigints.
    assert [murmur(value) for value in HASHED] == list(HASHED.values())
    for partitions in (1, 2, 3, 7):
        places = [murmur(key_of(ROWS, 0, part, partitions)) % partitions for part in range(2 * partitions)]
        assert places == [part % partitions for part in range(2 * partitions)]
    keys = {key_of(kind, epoch, part, 4) for kind in KINDS for epoch in range(3) for part in range(5)}
    assert len(keys) == 15 * len(KINDS)


HASHED = {0: -1670924195, 1: -1712319331, -5: 424949597, 123456789012345: 1130168193, 65536: 366000550}
