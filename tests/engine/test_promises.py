"""Objects with promises about rows yet to come: eaa against sla against the simple version, and what is kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.object_oracle import ObjectOracle, total

import skyband as sb
from skyband.algorithms.objects import pruned_instances as kept
from skyband.algorithms.objects.aggregates import SUM, Aggregate
from skyband.algorithms.objects.pruned_instances import Instances
from skyband.core.types import Recency

SCHEMA = pa.schema([("t", pa.float64()), ("id", pa.int64()), ("x", pa.float64())])
STREAMS = ("r1", "r2", "r3")
PROMISES = ["once", "once per window", "2 per window", None]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instances are let go every few rows, so that small windows show it."""
    monkeypatch.setattr(kept, "PATIENCE", 2)


def query(algorithm: str, k: int, window: str, repeat: str, promise: str | None, ranged: bool) -> str:
    options = [f"algorithm = '{algorithm}'", f"repeat = '{repeat}'"]
    options += [f"appears = '{promise}'"] if promise else []
    options += ["range = '0..1'"] if ranged else []
    return (
        "SELECT id, r2.x FROM r1 FULL JOIN r2 USING (id) FULL JOIN r3 USING (id) ORDER BY r1.x + r2.x + r3.x DESC "
        f"LIMIT {k} WINDOW {window} WITH ({', '.join(options)})"
    )


def allowed(
    told: list[tuple[float, int, str]], now: float, length: float, id_: int, stream: str, promise: str
) -> bool:
    """Whether one more row of an id in a stream keeps the promise, whatever the window's place."""
    same = [t for t, i, s in told if i == id_ and s == stream]
    if promise == "once":
        return not same
    return sum(abs(t - now) <= 2 * length for t in same) < (1 if promise == "once per window" else 2)


@given(st.data())
@settings(max_examples=15)
def test_three_algorithms_and_the_simple_version(data: st.DataObject) -> None:
    """With silent streams, one that runs ahead, ids that come back, rows of one id, stream and time."""
    promise = data.draw(st.sampled_from(PROMISES))
    ranged = data.draw(st.booleans())
    repeat = data.draw(st.sampled_from(["sum", "max"]))
    k = data.draw(st.integers(1, 2))
    monitor = sb.Monitor(time="t", schema=dict.fromkeys(STREAMS, SCHEMA))
    oracle = ObjectOracle("t", None)
    together: Any = total if repeat == "sum" else lambda told: max(told) if told else 0.0

    def score(rows: Any) -> float:
        one, two, three = (float(together([row["x"] for row in rows[s]])) for s in STREAMS)
        return one + two + three

    # a window of rows is one of all streams' rows together; what is promised of any 4 seconds says nothing of it
    window = ("rows", 7) if promise in (None, "once") and data.draw(st.booleans()) else ("seconds", 4)
    for algorithm in ("eaa", "sla"):
        text = query(algorithm, k, f"{window[1]} {window[0]}", repeat, promise, ranged)
        monitor.watch(text, name=algorithm)
    oracle.watch_joined("simple", "id", score, k, window, dict.fromkeys(STREAMS, ("x",)))
    ahead = dict(zip(STREAMS, (0.0, 0.0, data.draw(st.sampled_from([0.0, 3.0]))), strict=True))
    told: list[tuple[float, int, str]] = []
    for step in range(data.draw(st.integers(2, 12))):
        if data.draw(st.integers(0, 5)) == 0:  # all fall silent for a while
            monitor.advance(float(step + 3))
            oracle.advance(float(step + 3))
        stream = data.draw(st.sampled_from(STREAMS))
        rows = []
        for _ in range(data.draw(st.integers(0, 4))):
            time = step + ahead[stream] - data.draw(st.integers(0, 2))
            id_, value = data.draw(st.integers(1, 5)), data.draw(st.integers(0, 4)) / 4
            if promise == "once":
                id_ += 3 * step
            if promise is None or allowed(told, time, 4.0, id_, stream, promise):
                told.append((time, id_, stream))
                rows.append({"t": float(time), "id": id_, "x": value})
        monitor.push(pa.Table.from_pylist(rows, schema=SCHEMA), stream=stream)
        oracle.push(rows, stream)
        monitor._check()
        if data.draw(st.integers(0, 7)) == 0:
            monitor = sb.Monitor.from_bytes(monitor.to_bytes())
        expected = [(r.id, r.score) for r in oracle.top("simple")]
        for name, watch in monitor.watches.items():
            top = watch.top()
            found = zip(map(str, top.column("id").to_pylist()), top.column("score").to_pylist(), strict=True)
            assert [*found] == expected, name
        assert monitor.watches["eaa"].explain().counters["broken promises"] == 0


# -- what is kept -------------------------------------------------------------------------------------------


def brute(rows: list[Any], begin: int, d: int, k: int, ever: bool, most: int) -> set[int]:
    """The instances that fewer than k other ids dominate, by definition: seqs. A row is (id, stream, value)."""
    own: dict[int, list[int]] = {}
    for seq in range(begin, len(rows)):
        own.setdefault(rows[seq][0], []).append(seq)
    found = []
    for id_, seqs in own.items():
        seen = {rows[seq][1] for seq in range(len(rows)) if rows[seq][0] == id_}
        for at, seq in enumerate(seqs):
            now = sum(rows[s][2] for s in seqs[at:])
            there = [sum(rows[s][1] == stream for s in seqs[at:]) for stream in range(d)]
            yet = d - len(seen) if ever else sum(most - n for n in there)
            found.append((seq, id_, now, now + yet))
    return {
        seq
        for seq, id_, _, best in found
        if len({other for later, other, now, _ in found if later > seq and now > best and other != id_}) < k
    }


def added(objects: Any, codes: Any, values: Any, counts: Any) -> Any:
    return values[0] + values[1] + values[2]


def rows_that_keep(promise: str, n: int, window: int, d: int, rng: np.random.Generator) -> list[Any]:
    rows: list[Any] = []
    while len(rows) < n:
        seq = len(rows)
        lowest = seq // 2 if promise == "once" else 0
        id_, stream = int(rng.integers(lowest, lowest + window // 4)), int(rng.integers(d))
        near = rows if promise == "once" else rows[-2 * window :]
        times = sum(row[:2] == (id_, stream) for row in near)
        if times < (2 if promise == "2 per window" else 1):
            rows.append((id_, stream, int(rng.integers(0, 9)) / 8))
        elif promise != "once" and rng.random() < 0.3:  # the pool is exhausted: somebody new
            rows.append((1000 + seq, stream, int(rng.integers(0, 9)) / 8))
    return rows


@pytest.mark.parametrize("promise", ["once", "once per window", "2 per window"])
@pytest.mark.parametrize("final", [True, False])
def test_what_is_kept_is_the_dominance_set(promise: str, final: bool) -> None:
    window, d, k, n = 40, 3, 3, 200
    ever, most = promise == "once", 2 if promise == "2 per window" else 1
    rows = rows_that_keep(promise, n, window, d, np.random.default_rng(4))
    plan = tuple(Aggregate(SUM, 0, stream) for stream in range(d))
    objects = Instances(plan, 1, d, True, [1.0] * d, most, ever, final, (0, 1, 2))
    objects.resize(k)
    surplus = 0
    for seq, (id_, stream, value) in enumerate(rows):
        begin = max(0, seq + 1 - window)
        objects.expire(Recency(0, begin))
        objects.add(
            pa.array([id_]), (np.array([value]),), np.zeros(1, dtype=np.int64), np.array([seq]), stream
        )
        objects.settle(added)
        if seq % 5 == 0:
            objects.collect(added)
            objects.settle(added)
            expected = brute(rows[: seq + 1], begin, d, k, ever, most)
            found = set(objects.rows.seq[objects.linked()].tolist())
            assert found >= expected
            surplus += len(found - expected)
            objects._check()
            # the rows of each object from its oldest instance on, or all of them
            first = {rows[own][0]: own for own in sorted(found, reverse=True)}
            stored = {s for s in range(begin, seq + 1) if not final or s >= first.get(rows[s][0], n)}
            assert set(objects.rows.seq[objects.rows.living()].tolist()) == stored
    # an id whose rows have all been let go, or have left, counts as one never seen: more is kept then, never less
    assert surplus == 0 or ever
    assert objects.dropped > 0 or most > 1  # with several rows to come nobody is out of reach


# -- what is refused, what is learnt, what is counted --------------------------------------------------------

JOINED = "SELECT id FROM a FULL JOIN b USING (id) ORDER BY {} LIMIT 1 WINDOW 9 ROWS WITH (algorithm = '{}'{})"


@pytest.mark.parametrize(
    ("score", "more", "words"),
    [
        ("a.x - b.x DESC", "", "monotone increasing in b.x"),
        ("a.x + b.x", "", "the lowest scores come first"),
        ("exp(a.x) DESC", "", "monotone increasing in a.x"),
        ("a.x + id DESC", "", "depends on the id itself"),
        ("a.x + b.x DESC", ", repeat = 'last'", "a new row may lower"),
        ("a.x + b.x DESC", ", range = '-1..1'", "begins below 0"),
    ],
)
def test_refused_with_the_reason(score: str, more: str, words: str) -> None:
    with pytest.raises(sb.QueryError, match=words):
        sb.Monitor().watch(JOINED.format(score, "eaa", more))
    assert sb.Monitor().watch(JOINED.format(score, "sums", more)).explain().algorithm == "sums"


def test_refused_for_conditions_and_update_streams() -> None:
    chosen = JOINED.format("a.x DESC", "eaa", "").replace("ORDER BY", "WHERE a.x > 1 ORDER BY")
    with pytest.raises(sb.QueryError, match="WHERE chooses among objects"):
        sb.Monitor().watch(chosen)
    with pytest.raises(sb.QueryError, match="update stream"):
        sb.Monitor(key="id").watch(JOINED.format("a.x DESC", "eaa", ""))
    with pytest.raises(sb.QueryError, match='The range of "y" is of no column'):
        sb.Monitor().watch(JOINED.format("a.x DESC", "eaa", ", range = 'y 0..1'"))
    with pytest.raises(sb.QueryError, match="range takes least and greatest"):
        sb.Monitor().watch(JOINED.format("a.x DESC", "eaa", ", range = '1 to 2'"))
    with pytest.raises(sb.QueryError, match="appears takes 'once'"):
        sb.Monitor().watch(JOINED.format("a.x DESC", "eaa", ", appears = 'seldom'"))


def test_products_and_minima_over_positive_values_are_taken() -> None:
    for score in ("a.x * b.x DESC", "least(a.x, b.x) DESC", "sqrt(a.x) + 2 * b.x DESC", "0 - a.x - b.x"):
        assert sb.Monitor().watch(JOINED.format(score, "eaa", "")).explain().algorithm == "eaa"


GROUPED = "SELECT id, SUM(x) FROM s GROUP BY id ORDER BY SUM(x) DESC LIMIT 2 WINDOW 20 ROWS"


def test_promises_decide_the_algorithm() -> None:
    promised = " WITH (range = '0..1', appears = '20 per window')"
    assert sb.Monitor().watch(GROUPED + promised).explain().algorithm == "eaa"
    assert sb.Monitor().watch(GROUPED + " WITH (range = '0..1')").explain().algorithm == "sums"
    below = sb.Monitor().watch(GROUPED + promised.replace("0..1", "-1..1")).explain()
    assert below.algorithm == "sums" and "no row can be let go, since the range begins below 0" in below.why


@pytest.mark.parametrize("value", [1.0, 5.0, 400.0, np.inf, -3.0])
def test_what_was_learnt_is_broken(value: float) -> None:
    """Values and counts beyond what was seen so far: all instances are made anew, and no answer is wrong."""
    rng = np.random.default_rng(1)
    monitor = sb.Monitor()
    ours = monitor.watch(GROUPED + " WITH (algorithm = 'eaa')")
    plain = monitor.watch(GROUPED)
    for step in range(60):
        x = rng.integers(0, 5, 3) / 4
        if step % 20 == 19:
            x[0] = value
        monitor.push({"id": rng.integers(0, 12, 3), "x": x})
        monitor._check()
        assert ours.top().equals(plain.top())
    did = ours.explain().counters
    assert did["instances removed"] > 0 and did["resets"] > 0
    told = any("a negative value is in the window" in note for note in ours.explain().notes)
    assert told == (value < 0)


def test_a_value_outside_its_range_stays_out() -> None:
    monitor = sb.Monitor()
    watch = monitor.watch(GROUPED + " WITH (range = 'x 0..10', appears = '5 per window')")
    monitor.push({"id": [1, 2, 3], "x": [4.0, 11.0, -1.0]})
    assert watch.top().column("id").to_pylist() == [1]
    assert any("2 rows with a value outside its range" in note for note in watch.explain().notes)


def test_a_broken_appearance_is_told() -> None:
    monitor = sb.Monitor()
    watch = monitor.watch(GROUPED + " WITH (range = '0..10', appears = 'once')")
    monitor.push({"id": [1, 1], "x": [4.0, 5.0]})
    assert watch.explain().counters["broken promises"] == 1
    assert any("more often than was promised" in note for note in watch.explain().notes)


def test_sums_that_need_all_their_bits() -> None:
    """Values of every size: sums that two doubles don't hold, late rows among them, equal math.fsum all the same."""
    rng = np.random.default_rng(9)
    monitor = sb.Monitor(time="t")
    ours = monitor.watch(GROUPED.replace("20 ROWS", "9 SECONDS") + " WITH (algorithm = 'eaa')")
    plain = monitor.watch(GROUPED.replace("20 ROWS", "9 SECONDS") + " WITH (algorithm = 'sums')")
    lists = monitor.watch(GROUPED.replace("20 ROWS", "9 SECONDS") + " WITH (algorithm = 'sla')")
    simple = ObjectOracle("t", None)
    simple.watch_objects(
        "w", ("id",), lambda rows: total([r["x"] for r in rows]), 2, ("seconds", 9), ("id", "x"), stream="s"
    )
    for step in range(40):
        rows = [
            {
                "t": float(step - rng.integers(0, 4)),
                "id": int(rng.integers(0, 4)),
                "x": float(10.0 ** rng.integers(-40, 40)),
            }
            for _ in range(3)
        ]
        monitor.push(rows)
        simple.push(rows)
        monitor._check()
        expected = [(str(r.id), r.score) for r in simple.top("w")]
        for watch in (ours, plain, lists):
            top = watch.top()
            assert [
                (str(i), s)
                for i, s in zip(top.column("id").to_pylist(), top.column("score").to_pylist(), strict=True)
            ] == expected


def test_sorted_lists_are_walked_only_as_far_as_needed() -> None:
    """A thousand objects: `sla` finds the same as adding all of them up, and has not walked through its lists."""
    chance = np.random.default_rng(3)
    asked = "SELECT id FROM s GROUP BY id ORDER BY SUM(x) + 0.5 * SUM(y) DESC LIMIT 3 WINDOW 2000 ROWS"
    monitor = sb.Monitor()
    lists, sums = (
        monitor.watch(f"{asked} WITH (algorithm = '{name}')", name=name) for name in ("sla", "sums")
    )
    for _ in range(30):
        rows = {"id": chance.integers(0, 1000, 200), "x": chance.random(200), "y": chance.random(200)}
        monitor.push(rows)
        assert lists.top().to_pylist() == sums.top().to_pylist()
    counters = lists.explain().counters
    assert 0 < counters["entries walked"] < counters["objects"]
