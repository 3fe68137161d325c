"""A program that pushes batches to a journal until it is killed, and says on its standard output what was acknowledged.

python -m tests.durable.victim FOLDER ROUND
"""

from __future__ import annotations

import itertools
import os
import random
import sys
import threading
from pathlib import Path

import skyband as sb
from skyband.durable import Engine, Receipt, Settings

SETTINGS = Settings(segment_bytes=6000, snapshot_bytes=1, snapshot_steps=25, keys=100_000)
ALL = "SELECT id FROM s WHERE id >= 0 WINDOW 100000000 ROWS"
TOP = "SELECT id FROM s ORDER BY x DESC LIMIT 5 WINDOW 50 ROWS WITH (algorithm = 'sa')"


def open_engine(folder: Path) -> Engine:
    engine = Engine(sb.Monitor(), folder, SETTINGS)
    for name, sql in (("all", ALL), ("top", TOP)):
        if name not in engine.monitor.watches:  # a kill may have come between the two
            engine.watch(sql, name=name)
    return engine


def rows_of(key: str) -> dict[str, list[float]]:
    """The rows of a key: one to four, with ids of their own."""
    chance = random.Random(key)
    round_, thread, number = map(int, key.split("-"))
    first = ((round_ * 10 + thread) * 1_000_000 + number) * 10
    count = chance.randint(1, 4)
    return {
        "id": [float(first + place) for place in range(count)],
        "x": [chance.random() for _ in range(count)],
    }


def say(key: str, receipt: Receipt) -> None:
    os.write(1, f"{key} {receipt.offset} {receipt.first_seq}\n".encode())  # one line is one call: never torn


def main() -> None:
    engine = open_engine(Path(sys.argv[1]))
    round_ = int(sys.argv[2])
    os.write(1, b"open\n")

    def push() -> None:
        for number in itertools.count():
            key = f"{round_}-0-{number}"
            say(key, engine.push(rows_of(key), key=key))

    def submit() -> None:
        room = threading.Semaphore(8)
        for number in itertools.count():
            key = f"{round_}-1-{number}"
            room.acquire()
            future = engine.submit(rows_of(key), key=key)
            future.add_done_callback(lambda done, key=key: (say(key, done.result()), room.release()))

    def ask() -> None:
        for number in itertools.count():
            engine.watch(TOP, name=f"more {number % 3}")
            engine.change(f"more {number % 3}", k=2)
            engine.drop(f"more {number % 3}")

    def drop_all() -> None:
        for name in [name for name in engine.monitor.watches if name.startswith("more")]:
            engine.drop(name)

    drop_all()
    for work in (push, submit, ask):
        threading.Thread(target=work).start()


if __name__ == "__main__":
    main()
