"""Which algorithm is chosen, and what a user is told about the others."""

from __future__ import annotations

import re

import numpy as np
import pytest

import skyband as sb
from skyband.algorithms import REGISTRY, WINDOWED
from skyband.engine.planner import Facts, choose, unfit
from skyband.query.sql.parser import parse

SUM = "SELECT a FROM s ORDER BY {} * a + {} * b DESC LIMIT 20 WINDOW {} ROWS"


def pick(queries: int, batch: float, window: float | None = 1e6, **more: bool) -> str:
    query = parse(SUM.format(2, 3, 1_000_000))
    return choose(query, Facts(queries=queries, k=20, window=window, batch=batch, **more)).algorithm


def test_few_queries_never_pay_for_a_window() -> None:
    assert {pick(queries, batch) for queries in (1, 5) for batch in (1, 100, 10_000)} == {"ra"}


def test_many_queries_over_large_batches_get_an_index() -> None:
    assert pick(1000, 10_000) in WINDOWED


def test_no_index_where_rows_are_pruned_or_the_window_is_too_large() -> None:
    assert pick(1000, 10_000, lists_only=True) == "ra"
    assert pick(1000, 10_000, window=None) == pick(1000, 10_000, window=100_000)  # what is assumed at first
    assert pick(1000, 10_000, window=1e9) == "ra"


def test_the_choice_is_made_when_the_first_rows_come() -> None:
    """Only then it is known how many queries share a shape, and how many rows come at a time."""
    monitor = sb.Monitor()
    random = np.random.default_rng(1)
    for a, b in random.random((200, 2)):
        monitor.watch(SUM.format(a, b, 20_000))
    alone = monitor.watch("SELECT a FROM s ORDER BY a / b LIMIT 3 WINDOW 20000 ROWS", name="alone")
    assert {watch.explain().algorithm for watch in monitor.watches.values()} == {"ra"}
    monitor.push({"a": random.random(10_000), "b": random.random(10_000)})
    monitor.push({"a": random.random(10_000), "b": random.random(10_000)})
    plan = monitor.watches["query1"].explain()
    assert plan.algorithm in WINDOWED and alone.explain().algorithm == "ra"
    assert "200 queries of this shape" in plan.why
    assert "ra" in plan.alternatives and "rows/s predicted" in plan.alternatives["ra"]
    text = str(plan)
    assert text.count("  or         ") == 3 and f"{len(plan.alternatives) - 2} more" in text
    assert "or         ra:" in plan.text(all_of_it=True) and "rows of the window and their index" in text
    # what it did is counted, and is less than looking at everything for everybody
    assert 0 < plan.counters["admitted"] < 200 * 20_000 / 10
    late = monitor.watch(SUM.format(1, 1, 20_000), name="late")  # joins them
    assert late.explain().algorithm == plan.algorithm
    assert plan.keeps_window and not alone.explain().keeps_window


@pytest.mark.parametrize("name", sorted(WINDOWED))
def test_every_index_runs_when_it_is_asked_for_and_counts_its_own_work(name: str) -> None:
    monitor = sb.Monitor(retain=sb.rows(3000))
    random = np.random.default_rng(2)
    monitor.push({"a": random.random(3000), "b": random.random(3000)})
    watch = monitor.watch(
        SUM.format(2, 1, 3000).replace("LIMIT 20", "LIMIT 5") + f" WITH (algorithm = '{name}')"
    )
    for _ in range(40):
        monitor.push({"a": random.random(300), "b": random.random(300)})
    plan = watch.explain()
    assert plan.algorithm == name and plan.why == "asked for with WITH (algorithm = …)"
    assert 0 < plan.counters["admitted"] < 15_000
    kept = [words for words in plan.also_kept if "rows of the window" in words]
    assert 3000 <= int(kept[0].split()[0].replace(",", "")) < 3000 + 5000  # some let go of rows by the block
    if "cells visited" in plan.counters:
        assert 0 < plan.counters["recomputations"] < 40
        assert plan.counters["recomputations"] <= plan.counters["cells visited"] < 3000


def test_what_does_not_fit_is_refused_with_the_reason() -> None:
    updates = sb.Monitor(key="a")
    for name in REGISTRY:
        card = REGISTRY[name].card
        if card.fifo and "topk" in card.answers:
            with pytest.raises(sb.QueryError, match="first in, first out"):
                updates.watch(SUM.format(1, 1, 10) + f" WITH (algorithm = '{name}')")
    assert updates.watch(SUM.format(1, 1, 10)).explain().algorithm == "tma"
    monotone = [name for name in REGISTRY if REGISTRY[name].card.scores == "monotone"]
    assert "tsl" in monotone
    for name in monotone:
        with pytest.raises(sb.QueryError, match="only rises or only falls with each column"):
            sb.Monitor().watch(
                f"SELECT a FROM s ORDER BY abs(a - 1) LIMIT 3 WINDOW 9 ROWS WITH (algorithm = '{name}')"
            )
        fine = parse("SELECT a FROM s ORDER BY (1 + a) * (2 + b) DESC LIMIT 3 WINDOW 9 ROWS")
        assert unfit(name, fine, Facts()) is None  # type: ignore[arg-type]
    with pytest.raises(sb.QueryError, match="The algorithm tma has no option gamma; it has cells"):
        sb.Monitor().watch(SUM.format(1, 1, 10) + " WITH (algorithm = 'tma', gamma = 3)")


def _predicted(words: str) -> float:
    """Rows a second."""
    found = re.search(r"([0-9.,]+) ([KM]) rows/s predicted", words)
    assert found is not None
    return float(found[1].replace(",", "")) * {"K": 1e3, "M": 1e6}[found[2]]


def test_a_box_each_is_one_family_for_some_and_many_for_others() -> None:
    """A thousand queries, each in a box of its own: what can't take boxes would need a family for each."""
    query = parse(
        "SELECT a FROM s WHERE a > 0.2 AND b < 0.9 ORDER BY 2 * a + b DESC LIMIT 9 WINDOW 100000 ROWS"
    )
    alike = choose(query, Facts(queries=100, predicates=1, k=9, window=1e5, batch=1000))
    apart = choose(query, Facts(queries=100, predicates=100, k=9, window=1e5, batch=1000))
    assert apart.algorithm == "heightmap" and alike.algorithm == "heightmap"
    # its rows pass more often than where all ask alike; without boxes there would be a hundred lists' families
    assert _predicted(apart.why) < _predicted(alike.why)
    assert _predicted(apart.alternatives["ra"]) < 0.1 * _predicted(apart.why)
    monitor = sb.Monitor()
    random = np.random.default_rng(5)
    for number, (low, high) in enumerate(random.random((60, 2)).tolist()):
        monitor.watch(
            f"SELECT a FROM s WHERE a > {low} AND b < {high} ORDER BY 2 * a + b DESC LIMIT 9 WINDOW 100000 ROWS",
            name=f"q{number}",
        )
    monitor.push({"a": random.random(1000), "b": random.random(1000)})
    assert monitor.watches["q0"].explain().algorithm == "heightmap"
    assert len(monitor.streams["s"].groups) == 1


@pytest.mark.parametrize(("rows", "chosen"), [(1_000, "scase"), (1_000_000, "ta")])
def test_pairs_that_one_difference_alone_can_decide(rows: int, chosen: str) -> None:
    """As good as can be is a pair that is alike in one column: nearly all of a tree would be near."""
    query = parse(
        f"SELECT * FROM s a, s b ORDER BY abs(a.x - b.x) * abs(a.y - b.y) LIMIT 5 WINDOW {rows} ROWS"
    )
    choice = choose(query, Facts())
    assert choice.algorithm == chosen
    assert "one difference alone" in choice.alternatives["kd"]


def test_one_query_keeps_no_window_and_is_told_what_that_costs() -> None:
    """A state of k ln n rows is worth more than twice the speed; rows pruned on their way can't be kept at all."""
    query = parse("SELECT a FROM s ORDER BY 2 * a + b DESC LIMIT 9 WINDOW 100000 ROWS")
    alone = choose(query, Facts(queries=1, k=9, window=1e5, batch=1000))
    assert alone.algorithm == "ra"
    assert (
        "it would keep 3.2 MB of rows, which pays where it is 4 times as fast"
        in alone.alternatives["heightmap"]
    )
    assert 1.5 < _predicted(alone.alternatives["heightmap"]) / _predicted(alone.why) < 4
    several = choose(query, Facts(queries=8, k=9, window=1e5, batch=1000))
    assert several.algorithm == "heightmap" and "keep" not in several.alternatives["ra"]
    pruned = choose(query, Facts(queries=1000, k=9, window=1e5, batch=10, lists_only=True))
    assert pruned.algorithm == "ra" and "pruned on their way" in pruned.alternatives["rapf"]
