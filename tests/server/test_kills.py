"""Kill -9 under load, again and again: every acknowledged row is there, once, and the changes go on without a gap."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from tests import ledger

import skyband as sb
from skyband.server.testing import Running

from .conftest import start
from .test_following import Fold

SUMS = "SELECT w, SUM(x), COUNT(*) FROM s GROUP BY w ORDER BY SUM(x) DESC LIMIT 10 WINDOW 10000000 ROWS"
BEST = "SELECT w, x FROM s ORDER BY x DESC LIMIT 5 WINDOW 50 ROWS"


class Writer(threading.Thread):
    """Pushes batches until told to stop; a batch that wasn't acknowledged is sent again under the same key."""

    def __init__(self, name: str, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.name = name
        self.url = url
        self.random = random.Random(seed)
        self.answers: dict[str, dict[str, object]] = {}
        self.values: list[float] = []
        self.stopping = threading.Event()
        self.problem: BaseException | None = None
        self.repeats = 0

    def run(self) -> None:
        try:
            with httpx.Client(base_url=self.url, timeout=60) as http:
                number = 0
                while not self.stopping.is_set():
                    number += 1
                    values = [float(self.random.randrange(1000)) for _ in range(self.random.randrange(1, 6))]
                    answer = self.push(http, f"{self.name}-{number}", values)
                    self.answers[f"{self.name}-{number}"] = answer
                    self.values += values
                    if self.random.random() < 0.05:  # a client that forgot that it had been answered
                        again = self.push(http, f"{self.name}-{number}", values)
                        assert again == answer | {"repeated": True}
        except BaseException as problem:
            self.problem = problem

    def push(self, http: httpx.Client, key: str, values: list[float]) -> dict[str, object]:
        rows = [{"w": self.name, "x": value} for value in values]
        while True:
            try:
                response = http.post("/api/streams/s/rows", json=rows, headers={"idempotency-key": key})
            except httpx.TransportError:
                time.sleep(0.02)  # it is dead; somebody will start it again
                continue
            if response.status_code == 503 and response.json()["error"]["code"] == "not_ready":
                time.sleep(0.02)  # it reads its journal
                continue
            assert response.status_code == 200, response.text
            answer: dict[str, object] = response.json()
            self.repeats += bool(answer["repeated"])
            return answer


SEED = int(os.environ.get("SKYBAND_SEED") or random.SystemRandom().randrange(10**6))


def ordeal(folder: Path, kills: int, seed: int, begin: Callable[..., Running] = start) -> None:
    """Kill at random moments, and account for every row. SKYBAND_SEED repeats the choice of moments."""
    print(f"\nSKYBAND_SEED={SEED}: {kills} kills, seed {seed}, in {folder}")
    moments = random.Random(seed)
    server = begin(data=folder)
    port = server.url.rsplit(":", 1)[1]
    with sb.connect(server.url) as m:
        m.push({"w": ["none"], "x": [0.0]}, stream="s")
        m.watch(SUMS, name="sums")
        m.watch(BEST, name="best")
        begun = m.rows_seen
    writers = [Writer(f"w{number}", server.url, seed + number) for number in range(3)]
    for writer in writers:
        writer.start()
    for _ in range(kills):
        time.sleep(moments.uniform(0.0, 0.7))
        server.kill()
        ledger.count()
        server = begin(data=folder, port=port)
    time.sleep(0.2)
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(60)
        assert writer.problem is None and not writer.is_alive(), writer.problem
    account(server, writers, begun)
    batches, repeats = (sum(map(count, writers)) for count in (lambda w: len(w.answers), lambda w: w.repeats))
    print(f"{batches} batches acknowledged, {repeats} of them sent again: all there, none twice")
    assert server.stop() == 0 and "Traceback" not in server.said()


def account(server: Running, writers: list[Writer], begun: int) -> None:
    """Every batch has its own seqs, together all there are; sums and answers are those of the rows."""
    answers = [answer for writer in writers for answer in writer.answers.values()]
    spans = sorted((int(str(a["first_seq"])), int(str(a["rows"]))) for a in answers)
    expected = begun
    for first, rows in spans:
        assert first == expected
        expected += rows
    with sb.connect(server.url) as m:
        assert m.rows_seen == expected and not sum(m.reject_counts.values())
        sums = {row["w"]: (row["SUM(x)"], row["COUNT(*)"]) for row in m.watches["sums"].top().to_pylist()}
        assert sums == {writer.name: (sum(writer.values), len(writer.values)) for writer in writers}
        best = {(row["seq"], row["score"]) for row in m.watches["best"].top().to_pylist()}
        fold = Fold()
        with httpx.Client(base_url=server.url, timeout=60) as http:
            last = http.get("/api/queries/best/top").json()["offset"]
        for step in m.changes(from_=0, query="best"):
            told = step.changes.to_pylist()
            fold.take(
                {
                    "offset": step.offset,
                    "changes": told,
                    **({"missed": 1, "tops": step.tops} if step.missed else {}),
                }
            )
            if fold.offset >= last:
                break
        assert fold.tops["best"] == best


def test_three_kills_under_load(tmp_path: Path) -> None:
    ordeal(tmp_path / "data", 3, seed=SEED)


@pytest.mark.soak
@pytest.mark.parametrize("round", range(10))
def test_two_hundred_kills(tmp_path: Path, round: int) -> None:
    ordeal(tmp_path / "data", 20, seed=SEED + 100 * round)
