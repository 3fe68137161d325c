"""kill -9 of a real process under load, at random moments: all that was acknowledged is there, nothing is twice."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests import ledger
from tests.durable.victim import open_engine, rows_of

HOUSE = Path(__file__).resolve().parents[2]


def killed(folder: Path, round_: int, chance: random.Random) -> dict[str, tuple[int, int]]:
    """Let a process push until it is killed; what it acknowledged: offset and first seq by key."""
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.durable.victim", str(folder), str(round_)],
        cwd=HOUSE,
        stdout=subprocess.PIPE,
    )
    assert victim.stdout is not None
    stop = chance.randint(0, 400)  # lines
    late = threading.Timer(300, victim.kill)  # it may have to compile first
    late.start()
    lines: list[str] = []
    for line in victim.stdout:
        lines.append(line.decode())
        if len(lines) == stop + 1:
            time.sleep(chance.random() * 0.02)
            victim.send_signal(signal.SIGKILL)
            ledger.count()
    late.cancel()
    assert victim.wait(60) == -signal.SIGKILL
    assert lines and lines[0] == "open\n"
    return {key: (int(offset), int(first)) for key, offset, first in map(str.split, lines[1:])}


def check(folder: Path, said: dict[str, tuple[int, int]], rounds: int) -> None:
    """Every acknowledged batch is there under its seqs, and no row is there twice, though all are sent again."""
    engine = open_engine(folder)
    answer = engine.monitor.watches["all"].top()
    seqs = dict(zip(answer["id"].to_pylist(), answer["seq"].to_pylist(), strict=True))
    assert len(seqs) == answer.num_rows == engine.monitor.rows_seen  # each once, and nothing else
    for key, (offset, first) in said.items():
        given = rows_of(key)
        assert [seqs[value] for value in given["id"]] == list(range(first, first + len(given["id"])))
        if key.startswith(f"{rounds}-"):
            again = engine.push(given, key=key)
            assert (again.repeated, again.offset, again.first_seq) == (True, offset, first)
    # the client's last batches, of which it never heard, are sent again too
    for thread in (0, 1):
        last = max((int(k.split("-")[2]) for k in said if k.startswith(f"{rounds}-{thread}-")), default=-1)
        for number in range(last + 1, last + 12):
            given = rows_of(f"{rounds}-{thread}-{number}")
            receipt = engine.push(given, key=f"{rounds}-{thread}-{number}")
            assert receipt.repeated == (given["id"][0] in seqs)
    answer = engine.monitor.watches["all"].top()
    assert len(set(answer["id"].to_pylist())) == answer.num_rows == engine.monitor.rows_seen
    assert engine._keeper is not None
    if rounds % 2:
        engine.close()
    else:
        engine._keeper.close()  # without a snapshot


@pytest.mark.timeout(0)
@pytest.mark.parametrize("kills", [3, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_under_load_nothing_is_lost_and_nothing_twice(kills: int, tmp_path: Path) -> None:
    chance = random.Random(kills)
    said: dict[str, tuple[int, int]] = {}
    for round_ in range(kills):
        said |= killed(tmp_path / "j", round_, chance)
        check(tmp_path / "j", said, round_)
    assert len(said) > 10 * kills
