"""Records of a real broker behind the gate in the JVM: what stays there, that nothing is lost by it, and who reads when
it can't be used."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.object_oracle import ObjectOracle
from tests.spark.broker import CONNECTOR, Broker, broker, need
from tests.spark.kinds import Folded

from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.columns import Unfit
from skyband.spark.recordscan import RecordScan

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


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of hundreds of records are large enough."""
    monkeypatch.setattr("skyband.spark.admission._HEAD_ROWS", (48, 64))
    monkeypatch.setattr("skyband.spark.admission._OFTEN", 0.9)
    monkeypatch.setattr("skyband.spark.admission._PAUSE", 1)
    monkeypatch.setattr("skyband.spark.recordscan._OTHERS", 0.3)


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


def pipeline(
    folder: Path, kafka: Broker, topic: str, timed: bool, more: str = "", spark: str = "", many: bool = False
) -> Path:
    wanted = asked(timed)
    if many:  # more than are scored one by one: a map serves them, and cells
        for n in range(1, 21):
            for name, score in (
                ("sum", f"{n} * x + {21 - n} * y DESC"),
                ("near", f"dist(x, y, 0.{n:02}, 0.5)"),
            ):
                wanted[f"{name}{n}"] = f"SELECT n FROM s ORDER BY {score} LIMIT 2 WINDOW 300 ROWS"
    queries = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in wanted.items())
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
@pytest.mark.parametrize("timed", [False, True])
def test_the_gate_is_as_if_it_were_not_there(
    tmp_path: Path, spark: SparkSession, kafka: Broker, small: None, timed: bool
) -> None:
    """Against the oracle, and against tasks to the letter: changes, rejects with their texts, seqs."""
    topic, chance = f"gated-{timed}", random.Random(6)
    kafka.topic(topic, 2)
    truth, folded = oracle(timed), Folded()
    homes = [tmp_path / name for name in ("gated", "tasks")]
    for home, how in zip(homes, ("jvm_rows = 0\n", ""), strict=True):
        home.mkdir()
        pipeline(home, kafka, topic, timed, spark=how)
    stayed = 0
    for batch in range(3):
        sent = records(600, 2, chance, 1000 * batch if timed else 0, timed)
        kafka.send(topic, [(partition, value) for partition, value, _ in sent])
        infos: list[BatchInfo] = []
        for home in homes:
            run_pipeline(home / "pipeline.toml", available_now=True, on_batch=infos.append, spark=spark)
        assert [(info.rows, info.in_jvm) for info in infos] == [(600, 600), (600, 0)]
        stayed += infos[0].rows - infos[0].crossed
        for what in ("changes", "rejects"):
            assert told(homes[0], what, batch) == told(homes[1], what, batch)
        truth.push([timely(row) for one in (0, 1) for partition, _, row in sent if partition == one], "s")
        changes = told(homes[0], "changes", batch)
        folded.take([change for change in changes if change["query"] != "above"])
        assert folded.equals(
            {name: [(r.score, (r.seq, None, None)) for r in truth.top(name)] for name in ("best", "some")}
        )
        bad = sum("bad" in row for *_, row in sent)
        assert sum(reject["reason"] == "type" for reject in told(homes[0], "rejects", batch)) == bad > 0
    assert stayed > 600, "the gate kept rows from Python"
    report = verify_pipeline(homes[0] / "pipeline.toml")
    assert report.ok and report.batches == 3, str(report)


@pytest.mark.spark
def test_a_replay_through_the_gate_repeats_itself(
    tmp_path: Path, spark: SparkSession, kafka: Broker, small: None
) -> None:
    kafka.topic("again", 3)
    sent = records(1200, 3, random.Random(7), 0, False)
    kafka.send("again", [(partition, value) for partition, value, _ in sent])
    path = pipeline(tmp_path, kafka, "again", False, "max_records = 600\n", "jvm_rows = 0\n", many=True)
    seen: list[BatchInfo] = []

    def fail(info: BatchInfo) -> None:
        seen.append(info)
        if info.batch == 1 and not info.replayed:
            raise RuntimeError("the power went")

    with pytest.raises(Exception, match="the power went"):
        run_pipeline(path, available_now=True, on_batch=fail, spark=spark)
    first = told(tmp_path, "changes", 1)
    run_pipeline(path, available_now=True, on_batch=fail, spark=spark)
    batches = [(info.batch, info.replayed, info.in_jvm) for info in seen]
    assert batches[:3] == [(0, False, seen[0].rows), (1, False, seen[1].rows), (1, True, seen[1].rows)]
    assert told(tmp_path, "changes", 1) == first
    assert verify_pipeline(path).ok


@pytest.mark.spark
@pytest.mark.parametrize("why", ["forms", "tasks", "arrow", "gaps", "executors"])
def test_where_it_does_not_serve_tasks_read(
    tmp_path: Path, spark: SparkSession, kafka: Broker, small: None, why: str
) -> None:
    """Records of many forms; a partition that several tasks read; values that are no JSON; transactions, whose ends
    take an offset each; executors, who prune the records themselves."""
    kafka.topic(f"not-{why}", 1)
    sent: list[tuple[int, bytes | None]] = [
        (0, value) for _, value, _ in records(600, 1, random.Random(8), 0, False)
    ]
    more = ""
    if why == "forms":
        sent = [(0, (b'{"x": 1, "y": 2, "k%d": 0}' % (i % 9))) for i in range(600)]
    elif why == "tasks":
        more = 'options = {minPartitions = "4"}\n'
    elif why == "arrow":
        more = 'values = "arrow"\n'
        table = pa.table({"x": np.arange(200.0), "y": np.zeros(200)})
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
        sent = [(0, bytes(out.getvalue()))] * 3
    if why == "gaps":
        with kafka.producer(transactional_id="some") as producer:
            producer.init_transactions()
            for first in (0, 300):
                producer.begin_transaction()
                for _, value in sent[first : first + 300]:
                    producer.send("not-gaps", value=value, key=b"", partition=0)
                producer.commit_transaction()
    else:
        kafka.send(f"not-{why}", sent)
    placed = 'placement = "executors"\n' if why == "executors" else ""
    path = pipeline(tmp_path, kafka, f"not-{why}", False, more, f"jvm_rows = 0\n{placed}")
    infos: list[BatchInfo] = []
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    assert [(info.rows, info.in_jvm) for info in infos] == [(600, 0)]
    assert verify_pipeline(path).ok


def test_gaps_between_offsets_are_noticed() -> None:
    schema = pa.schema([("x", pa.float64())])
    scan = RecordScan(None, {"t": {"0": 5, "1": 7}}, {"t": {"0": 9, "1": 7}}, schema, None)  # type: ignore[arg-type]
    assert (scan.rows, scan.runs) == (4, 1)
    scan._check_gaps(np.array([0, 0]), np.array([6, 8]), np.array([1, 3]))
    for partition, offset, rank in (([0, 0], [6, 8], [0, 2]), ([0, 0], [6, 8], [1, 2]), ([0], [7], [2])):
        with pytest.raises(Unfit):
            scan._check_gaps(np.array(partition), np.array(offset), np.array(rank))
    for start, end in (
        ({"t": {}}, {"t": {"0": 5}}),  # a partition that was added, and begins nobody knows where
        ({"t": {"0": 7}}, {"t": {"0": 5}}),  # a topic that was made anew
        ({"t": {"0": 1}}, {"t": {"0": 5}, "u": {"0": 3}}),
    ):
        with pytest.raises(Unfit):
            RecordScan(None, start, end, schema, None)  # type: ignore[arg-type]
