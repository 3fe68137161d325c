"""Watches that share a score share a slot in the executors' pruning too: the greatest k decides what travels."""

import numpy as np
import pyarrow as pa
import pytest

import skyband as sb
from skyband.sift import Sifted

KS = (1, 7, 3)


@pytest.mark.parametrize("algorithm", ["sa", "ra"])
def test_pruned_parts_serve_the_greatest_k(algorithm: str) -> None:
    whole, pruned = (sb.Monitor(schema=pa.schema([("x", pa.float64())])) for _ in range(2))
    for m in (whole, pruned):
        for number, k in enumerate(KS):
            m.watch(
                f"SELECT x FROM s ORDER BY x DESC LIMIT {k} WINDOW {50 + number} ROWS WITH (algorithm = '{algorithm}')",
                name=f"top{k}",
            )
    random = np.random.default_rng(3)
    for _ in range(20):
        parts = [pa.table({"x": random.random(30).round(1)}) for _ in range(2)]
        sifter = pruned.sifter("s")
        sifted = [Sifted.from_bytes(sifter.sift(part, prune=True).to_bytes()) for part in parts]
        assert sum(part.kept for part in sifted) < 60  # something was pruned
        assert pruned.push_sifted([("s", sifted)]).equals(whole.push(pa.concat_tables(parts)))
        for name in whole.watches:
            assert pruned.watches[name].top().equals(whole.watches[name].top())
        pruned._check()


def test_a_selected_constant() -> None:
    m = sb.Monitor()
    w = m.watch("SELECT 1 + 1 AS two FROM s ORDER BY x DESC LIMIT 2 WINDOW 9 ROWS")
    m.push({"x": [1.0, 2.0, 3.0]})
    assert w.top()["two"].to_pylist() == [2.0, 2.0]
