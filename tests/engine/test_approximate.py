"""Watches with an error allowed: what they say of themselves is true, and an exact algorithm takes over in time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import initialize
from tests import strategies as draws
from tests.oracle import Ranked
from tests.test_machine import RETAIN, Machine
from tests.twin import Question, Twin

import skyband as sb
from skyband.algorithms import base
from skyband.algorithms.approximate.order_test import BUFFER
from skyband.algorithms.kernels.capacity import limit_for
from skyband.engine.approximate_group import CALM, TEST_EVERY, Approximate, partner

SQL = "SELECT x FROM s ORDER BY x DESC LIMIT {} WINDOW {} ROWS WITH ({})"
USING = [
    "algorithm = 'pa', limit = 1",
    "error = 0.9, limit = 1, additional = 0",
    "error = 0.9, limit = 2",
    "error = 0.01",
    "algorithm = 'pa', additional = 3",
]


class Doubting(Twin):
    """A monitor whose watches may be wrong, beside the oracle: but what they certify is true."""

    sure = doubtful = 0

    def watch(self, name: str, question: Question) -> None:
        using = USING[int(name[1:]) % len(USING)]
        text = replace(question, algorithm=None).sql() + f" WITH ({using})"
        self.monitor.watch(text, name=name)
        functions = question.functions()
        self.oracle.watch(
            name, k=question.k, window=question.window, descending=question.descending, **functions
        )
        self.questions[name], self.told[name] = question, {}

    def _compare(self, changes: pa.Table, expected: dict[str, tuple[set, list[Ranked]]]) -> None:
        for name, (left, entered) in self._changes(changes).items():
            for seq, *_ in left:
                del self.told[name][seq]
            self.told[name].update({r.seq: (r.score, r.time) for r in entered})
        self.check_tops()
        for name in expected:  # what is reported adds up to what is shown, in doubt or not
            assert {r.seq: (r.score, r.time) for r in self.top(name)} == self.told[name], name

    def check_tops(self) -> None:
        self.monitor._check()
        for name, watch in self.monitor.watches.items():
            metadata = watch.top().schema.metadata
            assert metadata[b"skyband.certified"] == str(watch.certified).lower().encode()
            if watch.certified:
                assert self.top(name) == self.oracle.top(name), name
            self.sure += watch.certified
            self.doubtful += not watch.certified
        assert self.monitor.rows_seen == self.oracle.seq

    def reload(self) -> None:
        before = self.monitor.to_bytes()
        super().reload()
        assert self.monitor.to_bytes() == before


class DoubtingMachine(Machine):
    """All that can be done to a monitor, in any order."""

    algorithm = "pa"

    @initialize(kind=st.sampled_from(["none", "number", "whole", "timestamp"]), retain=RETAIN)
    def start(self, kind: str, retain: Any) -> None:
        self.timed = kind != "none"
        if not self.timed and retain and retain[0] == "seconds":
            retain = None
        self.twin = Doubting(kind, retain=retain)
        self.clock = 0


TestDoubtingMachine = DoubtingMachine.TestCase


@given(data=st.data())
def test_certified_answers_are_the_oracles(data: st.DataObject) -> None:
    timed = data.draw(st.booleans())
    twin = Doubting("whole" if timed else "none")
    for name in ("q0", "q1", "q2"):
        twin.watch(name, data.draw(draws.questions(timed, [None], threshold=False)))
    for batch in data.draw(draws.rows(timed, size=60).flatmap(draws.cuts)):
        twin.push(list(batch))


@pytest.mark.parametrize("shape", sorted(draws.SHAPES))
@pytest.mark.parametrize(
    ("batch", "length"), [pytest.param(1, 150, marks=pytest.mark.soak), (2, 150), (7, 300), (300, 900)]
)
def test_shapes_at_length(shape: str, batch: int, length: int) -> None:
    twin = Doubting("whole")
    for number, (k, window, descending) in enumerate(
        [
            (3, ("rows", 40), True),
            (2, ("rows", 40), True),
            (3, ("seconds", 25), False),
            (9, ("seconds", 99), False),
        ]
    ):
        twin.watch(f"q{number}", Question("x", k, window, descending))
    rows = [
        {"x": draws.SHAPES[shape](i), "y": 0.0, "c": "a", "t": i - (i % 5 == 4) * 9} for i in range(length)
    ]
    for start in range(0, length, batch):
        twin.push(rows[start : start + batch])
    assert twin.sure > 0
    if shape == "falling" and batch < 40:
        assert twin.doubtful > 0


# -- asking


def test_an_error_chooses_pa_and_the_plan_says_what_it_means() -> None:
    monitor = sb.Monitor()
    watch = monitor.watch(SQL.format(9, 1000, "error = 0.01"))
    random = np.random.default_rng(3)
    for _ in range(30):
        monitor.push({"x": random.random(100)})
    plan = watch.explain()
    assert (plan.algorithm, plan.exact, plan.certified) == ("pa", False, (30, 30))
    most = 9 + limit_for(9, 0.01) + 1
    assert plan.predicted == most and plan.candidates <= most
    assert (
        plan.bound
        == f"at most 0.01 rows missed per 1,000 rows in random order (the {most} best rows are kept)"
    )
    text = str(plan)
    assert "error      at most 0.01 rows missed per 1,000 rows" in text
    assert "certified  100.000 % of 30 answers; this one is certainly exact" in text
    assert "takes over if rows don't come in random order" in text and "; approximate" in text
    assert watch.top().schema.metadata == {
        b"skyband.error": b"0.01",
        b"skyband.bound": plan.bound.encode(),
        b"skyband.certified": b"true",
        b"skyband.certified_answers": b"30",
        b"skyband.answers": b"30",
    }
    # a snapshot has a certificate of its own
    assert watch.top(k=2, window=sb.rows(3)).schema.metadata[b"skyband.certified"] == b"false"
    assert watch.top(k=2).schema.metadata[b"skyband.certified"] == b"true"


def test_a_window_of_time_needs_a_steady_rate() -> None:
    monitor = sb.Monitor(time="t")
    watch = monitor.watch("SELECT x FROM s ORDER BY x LIMIT 3 WINDOW 5 MINUTES WITH (error = 0.01)")
    assert "rows missed per 5 MINUTES of rows in random order and at a steady rate" in str(watch.explain())
    assert "no answers yet" in str(watch.explain())


def test_a_rate_that_falls_is_noticed() -> None:
    """A thousand rows in one second, then hardly any: what was far behind comes to the front."""
    monitor = sb.Monitor(time="t")
    using = "ORDER BY x DESC LIMIT 3 WINDOW 10 SECONDS"
    watch = monitor.watch(f"SELECT x FROM s {using} WITH (algorithm = 'pa')")
    truth = monitor.watch(f"SELECT x FROM s {using}")
    random = np.random.default_rng(1)
    monitor.push({"t": np.sort(random.random(1000)), "x": random.random(1000)})
    wrong = 0
    for second in np.arange(1, 12, 0.05):
        monitor.push({"t": [second], "x": random.random(1)})
        if watch.top()["seq"] != truth.top()["seq"]:
            wrong += 1
            assert not watch.certified
    assert wrong > 0 and watch.certified


def test_pa_by_name_never_gives_way() -> None:
    monitor = sb.Monitor()
    watch = monitor.watch(SQL.format(2, 300, "algorithm = 'pa'"))
    for start in range(0, 2000, 10):
        monitor.push({"x": -np.arange(start, start + 10.0)})
    plan = watch.explain()
    assert plan.algorithm == "pa" and plan.notes == [] and not plan.certain
    assert plan.certified is not None and plan.certified[0] < plan.certified[1] == 200
    assert "this one is in doubt" in str(plan)
    assert "at most 0.001 rows" in str(plan)  # the error that stands for none given


def test_a_limit_of_ones_own_has_the_error_that_follows_from_it() -> None:
    watch = sb.Monitor().watch(SQL.format(1, 300, "algorithm = 'pa', limit = 3, error = 0.5"))
    assert "at most 0.125 rows missed per 300 rows in random order (the 5 best rows are kept)" in str(
        watch.explain()
    )
    assert watch.top().schema.metadata[b"skyband.error"] == b"0.125"


@pytest.mark.parametrize("error", [0, 0.0])
def test_an_error_of_zero_is_no_error(error: float) -> None:
    with pytest.raises(sb.QueryError, match="leave it out for exact answers"):
        sb.Monitor().watch(SQL.format(2, 300, f"error = {error}"))
    with pytest.raises(sb.QueryError, match="from 0 to less than 1"):
        sb.Monitor().watch(SQL.format(2, 300, "error = 1"))


def test_an_exact_answer_is_within_any_error() -> None:
    """A named exact algorithm, a threshold and an update stream: exact, and `explain` says so."""
    named = sb.Monitor().watch(SQL.format(2, 300, "algorithm = 'ra', error = 0.1")).explain()
    above = sb.Monitor().watch("SELECT x FROM s WHERE x > 3 WINDOW 9 ROWS WITH (error = 0.1)").explain()
    updates = sb.Monitor(key="id").watch(SQL.format(2, 300, "error = 0.1")).explain()
    assert [plan.algorithm for plan in (named, above, updates)] == ["ra", "threshold", "tma"]
    for plan in (named, above, updates):
        assert plan.exact and plan.bound is None and "exact although an error is allowed" in plan.why
    assert sb.topk("x", 2, sb.rows(9), error=0.1) == sb.topk("x", 2, sb.rows(9), error=0.1)
    with pytest.raises(sb.QueryError, match="first in, first out"):
        sb.Monitor(key="id").watch(SQL.format(2, 300, "algorithm = 'pa'"))


def test_an_exact_watch_is_always_certified() -> None:
    monitor = sb.Monitor()
    watch = monitor.watch("SELECT x FROM s ORDER BY x LIMIT 3 WINDOW 9 ROWS")
    monitor.push({"x": np.arange(99.0)})
    assert watch.certified and watch.top().schema.metadata is None


# -- sharing


def test_who_shares_a_list() -> None:
    monitor = sb.Monitor()
    using = "error = 0.001"
    deep = monitor.watch(SQL.format(9, 1000, using))
    flat = monitor.watch(SQL.format(2, 1000, using))
    short = monitor.watch(SQL.format(2, 50, using))
    loose = monitor.watch(SQL.format(2, 50, "error = 0.1"))
    monitor.push({"x": np.random.default_rng(1).random(1000)})
    later = monitor.watch(SQL.format(2, 1000, using))
    assert deep.group is flat.group is short.group is later.group is not loose.group
    assert deep.slot == flat.slot
    assert len({deep.slot, short.slot, later.slot}) == 3
    assert deep.explain().shared_with == [flat.name]
    for watch, k in ((deep, 9), (flat, 9), (short, 2), (later, 2)):
        assert isinstance(watch.group, Approximate)
        assert watch.group.pa.most(watch.slot) == k + limit_for(k, 0.001) + 1
    monitor.drop(deep.name)
    assert flat.group.algorithm.most(flat.slot) == 2 + limit_for(2, 0.001) + 1
    monitor._check()


@pytest.mark.parametrize("shared", [False, True])
def test_a_changed_window_keeps_what_is_known(shared: bool) -> None:
    monitor = sb.Monitor()
    watch = monitor.watch(SQL.format(3, 500, "algorithm = 'pa'"))
    if shared:
        monitor.watch(SQL.format(3, 500, "algorithm = 'pa'"))
    truth = monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 500 ROWS")
    random = np.random.default_rng(8)
    seen = set()
    for step in range(600):
        monitor.push({"x": random.random(10)})
        if step in (100, 200, 300):
            window = sb.rows({100: 800, 200: 20, 300: 300}[step])
            watch.change(window=window)
            truth.change(window=window)
            monitor._check()
        assert not watch.certified or watch.top()["seq"] == truth.top()["seq"]
        seen.add((step >= 200, watch.certified))
    assert (False, True) in seen and (True, False) in seen  # a shorter window isn't known at once
    assert (False, False) not in seen and watch.certified  # a longer one is; and all is well in the end


# -- switching


def streams(random: np.random.Generator) -> dict[str, np.ndarray]:
    place = np.arange(3000.0)
    return {
        "falling": -place,
        "rising": place,
        "up and down": np.sin(place / 100),
        "falling with noise": random.random(3000) - place / 300,
    }


TURNS = ["falling", "rising", "up and down", "falling with noise"]


@pytest.mark.parametrize(
    ("turn", "batch"), [("falling", 3), *[(turn, batch) for turn in TURNS for batch in (30, 400)]]
)
def test_a_stream_that_turns_in_mid_run(turn: str, batch: int) -> None:
    """From random order to another and back: within one buffer an exact algorithm has it, no wrong answer is
    certified, and when what was dropped has left all is certified."""
    random = np.random.default_rng(6)
    monitor = sb.Monitor()
    watch = monitor.watch(SQL.format(5, 1000, "error = 0.001"))
    truth = monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 5 WINDOW 1000 ROWS")
    lengths = (2400, 3000, 2400 + (CALM + 2) * max(batch, TEST_EVERY))
    parts = [random.random(lengths[0]), streams(random)[turn], random.random(lengths[2])]
    took_over: int | None = None
    for part, scores in enumerate(parts):
        for start in range(0, len(scores), batch):
            monitor.push({"x": scores[start : start + batch]})
            right = watch.top()["seq"] == truth.top()["seq"]
            assert right or not watch.certified
            algorithm = watch.explain().algorithm
            if part == 0:
                assert algorithm == "pa" and right
            elif part == 1 and algorithm == partner() and took_over is None:
                took_over = start + batch
            if part == 1 and start > 2000:
                assert right and watch.certified and watch.explain().exact
    assert took_over is not None and took_over <= BUFFER + batch
    assert watch.explain().algorithm == "pa" and watch.group.switches == 2
    monitor._check()


def test_drift_too_slow_for_the_newest_rows_shows_in_doubt() -> None:
    random = np.random.default_rng(9)
    monitor = sb.Monitor()
    watch = monitor.watch(SQL.format(5, 20_000, "error = 0.001"))
    truth = monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 5 WINDOW 20000 ROWS")
    place = 0
    while watch.explain().algorithm == "pa" and place < 100_000:
        monitor.push({"x": random.random(100) - np.arange(place, place + 100) / 20_000})
        assert not watch.certified or watch.top()["seq"] == truth.top()["seq"]
        place += 100
    assert watch.explain().algorithm == partner() and watch.group.patience == 2 * CALM
    assert abs(watch.group.seen[0]) < 6 and abs(watch.group.seen[1]) < 6
    assert not watch.explain().exact  # until what was dropped has left


@pytest.mark.parametrize("falls", [False, True])
def test_save_and_load_byte_for_byte(falls: bool, tmp_path: Any) -> None:
    """On `pa` and on its partner: the file says it all, and both go on alike."""
    random = np.random.default_rng(1)
    monitor = sb.Monitor()
    for k, n in ((3, 500), (9, 500), (2, 80)):
        monitor.watch(SQL.format(k, n, "error = 0.01"))
    monitor.push({"x": random.random(2000)})
    if falls:
        for start in range(0, 700, 50):
            monitor.push({"x": -np.arange(start, start + 50.0)})
    assert monitor.watches["query1"].explain().algorithm == (partner() if falls else "pa")
    monitor.save(tmp_path / "m")
    again = sb.Monitor.load(tmp_path / "m")
    for _ in range(80):
        again._check()
        assert monitor.to_bytes() == again.to_bytes()
        rows = random.random(37)
        assert monitor.push({"x": rows}).equals(again.push({"x": rows}))
    one, other = (m.watches["query1"] for m in (monitor, again))
    plans = [
        replace(watch.explain(), bytes=0).to_dict() for watch in (one, other)
    ]  # but for the room of lists
    assert plans[0] == plans[1]
    assert one.explain().algorithm == "pa" and one.group.switches == 2 * falls


def test_watches_come_and_go_while_the_partner_has_the_lists() -> None:
    monitor = sb.Monitor()
    truth = monitor.watch("SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 100 ROWS", name="truth")
    first = monitor.watch(SQL.format(3, 100, "error = 0.01"), name="first")
    for start in range(0, 600, 20):
        monitor.push({"x": -np.arange(start, start + 20.0)})
        if start == 300:
            assert first.explain().algorithm == partner()
            monitor.watch(SQL.format(5, 100, "error = 0.01"), name="second")
            monitor.watch(SQL.format(4, 100, "error = 0.01"), name="third")
            monitor.drop("second")
            monitor.watches["third"].change(k=2, window=sb.rows(50))
        monitor._check()
    assert first.certified and first.top()["seq"] == truth.top()["seq"]
    assert monitor.watches["third"].top()["x"].to_pylist() == [-550.0, -551.0]
    monitor.drop("first")
    monitor._check()


# -- many queries


def many(queries: int, retain: Any = None) -> sb.Monitor:
    monitor = sb.Monitor(retain=retain)
    for a, b in np.random.default_rng(0).random((queries, 2)):
        monitor.watch(
            f"SELECT a FROM s ORDER BY {a} * a + {b} * b DESC LIMIT 3 WINDOW 700 ROWS WITH (error = 0.1)"
        )
    return monitor


def test_generated_and_plain_kernels_do_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(5)
    batches = [random.random((2, size)) for size in [1, 63, 64, 65, 700, 1500, 3, 200, 200, 130] * 3]
    for x in batches[3::7]:
        x[0, ::5] = np.nan
    ends = []
    for members in (1, 10**9):  # compile at once, and never
        monkeypatch.setattr(base, "FUSE_MEMBERS", members)
        monkeypatch.setattr(base, "FUSE_SCORES", 10**15)
        monkeypatch.setattr(base, "FUSE_SCORES_CACHED", 10**15)
        monitor = many(40)
        for a, b in batches:
            monitor.push({"a": a, "b": b})
            monitor._check()
        ends.append(monitor.to_bytes())
    assert ends[0] == ends[1]


def test_sifted_rows_keep_certificates_true() -> None:
    """Rows that their own part dominates stay behind; what `pa` drops is on its record all the same."""
    random = np.random.default_rng(2)
    whole, sifted = many(5), many(5)
    truth = sb.Monitor()
    for watch in whole.watches.values():
        truth.watch(replace(watch.query, options=()), name=watch.name)
    for number in range(60):
        rows = pa.table({"a": random.random(150) - number / 40, "b": random.random(150)})
        truth.push(rows)
        whole.push(rows)
        if number:
            parts = [sifted.sifter("s").sift(rows.slice(i, 50), prune=True) for i in (0, 50, 100)]
            assert sum(part.kept for part in parts) < 150
            sifted.push_sifted([("s", parts)])
        else:
            sifted.push(rows)
        for monitor in (whole, sifted):
            for name, watch in monitor.watches.items():
                assert not watch.certified or watch.top()["seq"] == truth.watches[name].top()["seq"]
    assert whole.rows_seen == sifted.rows_seen


def test_retained_rows_fill_a_new_list() -> None:
    monitor = many(1, retain=sb.rows(1000))
    random = np.random.default_rng(2)
    for _ in range(20):
        monitor.push({"a": random.random(100), "b": random.random(100)})
    late = monitor.watch("SELECT a FROM s ORDER BY b DESC LIMIT 3 WINDOW 900 ROWS WITH (error = 0.1)")
    true = monitor.watch("SELECT a FROM s ORDER BY b DESC LIMIT 3 WINDOW 900 ROWS")
    assert late.certified and late.top()["seq"] == true.top()["seq"]
    assert late.explain().candidates == 3 + limit_for(3, 0.1) + 1
