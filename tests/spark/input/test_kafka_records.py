"""Odd records of a real broker, read by tasks: against the oracle, and where offsets have gaps."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from tests.object_oracle import ObjectOracle
from tests.spark.broker import CONNECTOR, Broker, broker, need
from tests.spark.kinds import Folded

from skyband.spark import BatchInfo, run_pipeline, verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)
DECLARED = '{ts = "timestamp", x = "double", y = "double", n = "long", g = "string"}'
ODD: list[bytes | None] = [
    b'{"x": 1,\n "ts": }', None, b"  ", b"\x01\x01", b'{"x": "9"}', b"\xff",
    b'{"ts": "2026-01-01T00:00:00", "x": 99, "y": "much", "n": 1, "g": "a"}',
]  # fmt: skip
Sent = tuple[int, bytes | None, dict[str, Any]]  # partition, value, row


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    need("connector", CONNECTOR, alone=True)
    with broker(tmp_path_factory.mktemp("broker")) as made:
        yield made


def records(count: int, partitions: int, chance: random.Random, base: int, timed: bool) -> list[Sent]:
    """Rows as producers write them, a few of which nobody can read, and what the oracle makes of each."""
    found: list[Sent] = []
    for number in range(count):
        second = 100 + base + number // 4 - (chance.randrange(20) if chance.random() < 0.1 else 0)
        moment = (
            f"2026-01-01T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}.{chance.randrange(10)}"
        )
        row: dict[str, Any] = {
            "ts": None if timed and chance.random() < 0.02 else moment,
            "x": None if chance.random() < 0.02 else chance.choice([chance.random(), 0.5, -1e-7, 3]),
            "y": chance.random(), "n": chance.randrange(-5, 10**12),
            "g": chance.choice(["a", "b", "é", "b, {c}"] * 9 + ['q"']),
        }  # fmt: skip
        text = json.dumps(row, ensure_ascii=chance.random() < 0.05)
        if chance.random() < 0.05:
            text = json.dumps(row, indent=1)
        if chance.random() < 0.02:
            text = json.dumps(dict(reversed(row.items())))
        value: bytes | None = text.encode()
        if chance.random() < 0.03:
            value, row = chance.choice(ODD), {"bad": True}
        found.append((chance.randrange(partitions), value, row))
    return found


def timely(row: dict[str, Any]) -> dict[str, Any]:
    """With its time in the oracle's seconds."""
    if row.get("ts") is None:
        return row
    return {**row, "ts": datetime.fromisoformat(row["ts"]).replace(tzinfo=UTC).timestamp()}


def score(row: dict[str, Any]) -> float | None:
    return None if row["x"] is None else row["x"] + 2 * row["y"]


def asked(timed: bool) -> dict[str, str]:
    window = "40 SECONDS" if timed else "300 ROWS"
    return {
        "best": f"SELECT g, x FROM s ORDER BY x + 2 * y DESC LIMIT 5 WINDOW {window}",
        "some": f"SELECT n FROM s WHERE g = 'a' ORDER BY n DESC LIMIT 3 WINDOW {window}",
        "above": f"SELECT x FROM s WHERE x + 2 * y > 4.5 WINDOW {window}",
    }


def oracle(timed: bool) -> ObjectOracle:
    made = ObjectOracle("ts" if timed else None, fits=lambda row: "bad" not in row)
    window: Any = ("seconds", 40) if timed else ("rows", 300)
    made.watch("best", score, 5, window, stream="s")
    made.watch("some", lambda r: float(r["n"]) if r["g"] == "a" else None, 3, window, stream="s")
    return made


def pipeline(folder: Path, kafka: Broker, topic: str, timed: bool, more: str = "", spark: str = "") -> Path:
    queries = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in asked(timed).items())
    path = folder / "pipeline.toml"
    path.write_text(
        f'[stream.s]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\nschema = {DECLARED}\n'
        + ('time = "ts"\n' if timed else "")
        + f'{more}{queries}[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\n{spark}'
    )
    return path


def told(folder: Path, what: str, batch: int) -> list[dict[str, Any]]:
    return list(pq.read_table(folder / "out" / what / f"batch-{batch}.parquet").to_pylist())


@pytest.mark.spark
@pytest.mark.parametrize(("timed", "prune_rows"), [(False, 100), (True, 10**9)])
def test_records_equal_the_oracle(
    tmp_path: Path, spark: SparkSession, kafka: Broker, timed: bool, prune_rows: int
) -> None:
    """Changes, rejects, seqs."""
    topic, chance = f"odd-{timed}", random.Random(6)
    kafka.topic(topic, 2)
    truth, folded = oracle(timed), Folded()
    path = pipeline(tmp_path, kafka, topic, timed, spark=f"prune_rows = {prune_rows}\n")
    for batch in range(3):
        sent = records(600, 2, chance, 1000 * batch if timed else 0, timed)
        kafka.send(topic, [(partition, value) for partition, value, _ in sent])
        infos: list[BatchInfo] = []
        run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
        assert [info.rows for info in infos] == [600]
        truth.push([timely(row) for one in (0, 1) for partition, _, row in sent if partition == one], "s")
        changes = told(tmp_path, "changes", batch)
        folded.take([change for change in changes if change["query"] != "above"])
        assert folded.equals(
            {name: [(r.score, (r.seq, None, None)) for r in truth.top(name)] for name in ("best", "some")}
        )
        bad = sum("bad" in row for *_, row in sent)
        assert sum(reject["reason"] == "type" for reject in told(tmp_path, "rejects", batch)) == bad > 0
    report = verify_pipeline(path)
    assert report.ok and report.batches == 3, str(report)


@pytest.mark.spark
@pytest.mark.parametrize("how", ["tasks", "gaps", pytest.param("executors", marks=pytest.mark.soak)])
def test_partitions_in_several_tasks_and_offsets_with_gaps(
    tmp_path: Path, spark: SparkSession, kafka: Broker, how: str
) -> None:
    """A partition that several tasks read; transactions, whose ends take an offset each."""
    kafka.topic(f"of-{how}", 1)
    sent: list[tuple[int, bytes | None]] = [
        (0, value) for _, value, _ in records(600, 1, random.Random(8), 0, False)
    ]
    if how == "gaps":
        with kafka.producer(transactional_id="some") as producer:
            producer.init_transactions()
            for first in (0, 300):
                producer.begin_transaction()
                for _, value in sent[first : first + 300]:
                    producer.send("of-gaps", value=value, key=b"", partition=0)
                producer.commit_transaction()
    else:
        kafka.send(f"of-{how}", sent)
    placed = 'placement = "executors"\n' if how == "executors" else ""
    more = "" if how == "gaps" else 'options = {minPartitions = "4"}\n'
    path = pipeline(tmp_path, kafka, f"of-{how}", False, more, placed)
    infos: list[BatchInfo] = []
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    assert [info.rows for info in infos] == [600]
    assert verify_pipeline(path).ok
