"""Records that go out to a real broker: their keys, the current answers, and transactions that are killed."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.spark.broker import CONNECTOR, Broker, broker, need
from tests.spark.kills import Pipeline
from tests.spark.test_kills import KILLS, SEED

from skyband.core.errors import InputError
from skyband.spark import BatchInfo, run_pipeline
from skyband.spark.sinks.transactions import Record, Transactions, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    need("connector", CONNECTOR, alone=True)
    with broker(tmp_path_factory.mktemp("broker")) as made:
        yield made


QUERIES = {
    "best": "SELECT g FROM s ORDER BY x DESC LIMIT 3 WINDOW 8 ROWS",
    "busy": "SELECT g, COUNT(*) FROM s GROUP BY g ORDER BY COUNT(*) DESC LIMIT 2 WINDOW 8 ROWS",
    "close": "SELECT a.g FROM s a, s b WHERE a.g < b.g ORDER BY abs(a.x - b.x) LIMIT 2 WINDOW 8 ROWS",
    "beyond": "SELECT g FROM s WHERE x > 0.8 WINDOW 8 ROWS",
}
ROWS = [(n * 7 % 10 / (10 if n < 20 else 20), "abé"[n * 5 % 3]) for n in range(30)]


def pipeline(folder: Path, kafka: Broker, topic: str, more: str, queries: dict[str, str] = QUERIES) -> Path:
    """A pipeline of three files of ten rows each, into Kafka."""
    (folder / "data").mkdir(parents=True)
    for number in range(3):
        lines = [f"{x},{g}" for x, g in ROWS[10 * number : 10 * number + 10]]
        (folder / "data" / f"{number}.csv").write_text("\n".join(["x,g", *lines, "torn", ""]))
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in queries.items())
    path = folder / "pipeline.toml"
    path.write_text(
        f'[stream.s]\nformat = "csv"\npath = "data"\nmax_files = 1\n{asked}'
        f'[sink]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\n{more}'
        f'[spark]\nmaster = "local[2]"\n'
    )
    return path


def place(record: Any) -> tuple[int, int]:
    headers = dict(record.headers)
    return int(headers["batch"]), int(headers["number"])


@pytest.mark.parametrize("delivery", ["at-least-once", "exactly-once"])
def test_keys_headers_and_answers(tmp_path: Path, spark: SparkSession, kafka: Broker, delivery: str) -> None:
    """A change's key is its id, its place is in the headers, and folding the answers' topic gives each top."""
    out, top = f"out-{delivery}", f"top-{delivery}"
    kafka.topic(out, 1)
    kafka.topic(top, 1, cleanup_policy="compact")
    more = f'key = "id"\ntop_topic = "{top}"\ndelivery = "{delivery}"\n'
    infos: list[BatchInfo] = []
    path = pipeline(tmp_path, kafka, out, more)
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    records = kafka.records(out, committed=True)
    assert len(records) == sum(info.changes for info in infos) > 20
    assert [place(r) for r in records] == [(i.batch, n) for i in infos for n in range(i.changes)]
    for record in records:
        change = json.loads(record.value)
        assert change["batch"] == place(record)[0]
        seqs = ",".join(str(change[name]) for name in ("seq", "seq_b") if change[name] is not None)
        assert record.key.decode() == (seqs if change["id"] is None else change["id"])
    assert {"a", "b", "é"} >= {r.key.decode() for r in records if json.loads(r.value)["query"] == "busy"}
    rejects = kafka.records(f"{out}-rejects", committed=True)
    assert sorted(json.loads(r.key) for r in rejects) == [[batch, 0] for batch in range(3)]
    # the last record of each key, as compaction leaves it
    kept = {record.key: record.value for record in kafka.records(top, committed=True)}
    answers: dict[str, list[Any]] = {name: [] for name in QUERIES}
    for key, value in kept.items():
        query, rank = json.loads(key)
        if value is not None:
            row = json.loads(value)
            assert (row["query"], row["rank"]) == (query, rank)
            answers[query].append((rank, row["score"]))
    for name, found in infos[-1].tops.items():
        ranked = zip(found["rank"].to_pylist(), found["score"].to_pylist(), strict=True)
        assert sorted(answers[name]) == [*ranked]
    assert None in kept.values()  # an answer was larger once
    # a query that is dropped takes its answer with it
    pipeline(tmp_path / "other", kafka, out, more, {"best": QUERIES["best"]}).rename(path)
    (tmp_path / "data" / "3.csv").write_text("x,g\n0.1,a\n")
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    kept = {record.key: record.value for record in kafka.records(top, committed=True)}
    assert {json.loads(key)[0] for key, value in kept.items() if value is not None} == {"best"}


def test_several_columns_as_a_key(tmp_path: Path, spark: SparkSession, kafka: Broker) -> None:
    kafka.topic("several", 1)
    path = pipeline(tmp_path, kafka, "several", 'key = ["query", "id"]\n')
    run_pipeline(path, available_now=True, on_batch=lambda _: None, spark=spark)
    records = kafka.records("several")
    keys = [json.loads(record.key) for record in records]
    assert [key[0] for key in keys] == [json.loads(record.value)["query"] for record in records]
    assert {key[1] for key in keys if key[0] == "busy"} <= {"a", "b", "é"}


def test_a_replay_sends_nothing_again(tmp_path: Path, spark: SparkSession, kafka: Broker) -> None:
    """The batch was committed in Kafka, and then the power went before Spark knew."""
    path = pipeline(tmp_path, kafka, "once", 'delivery = "exactly-once"\n')
    seen: list[BatchInfo] = []

    def fail(info: BatchInfo) -> None:
        seen.append(info)
        if info.batch == 1:
            raise RuntimeError("the power went")

    with pytest.raises(Exception, match="the power went"):
        run_pipeline(path, available_now=True, on_batch=fail, spark=spark)
    run_pipeline(path, available_now=True, on_batch=seen.append, spark=spark)
    assert [(info.batch, info.replayed) for info in seen] == [(0, False), (1, False), (1, True), (2, False)]
    found = sorted(tuple(json.loads(record.key)) for record in kafka.records("once", committed=True))
    changes = {info.batch: info.changes for info in seen}
    assert found == [(batch, n) for batch in range(3) for n in range(changes[batch])]
    progress = [json.loads(record.value)["batch"] for record in kafka.records("once-progress")]
    assert progress == [0, 1, 2]


def record(number: int) -> Record:
    return Record("plain", str(number), b"x", [])


def test_a_second_driver_is_fenced(kafka: Broker) -> None:
    options = {"kafka.bootstrap.servers": kafka.bootstrap}
    one, two = Transactions(options, "fence"), Transactions(options, "fence")
    one.put("skyband-1", 0, [record(0)])
    two.put("skyband-1", 0, [record(0)])
    two.put("skyband-1", 1, [record(1)])
    with pytest.raises(InputError, match=r"Another process sends to Kafka as skyband-1: .* stop one of them"):
        one.put("skyband-1", 1, [record(1)])
    one.close()
    two.close()
    assert [r.key for r in kafka.records("plain", committed=True)] == [b"0", b"1"]


def test_a_transaction_of_another_pipeline_is_waited_for(kafka: Broker) -> None:
    """Its records come before ours in the topic of progress, and readers of committed ones stop there."""
    options = {"kafka.bootstrap.servers": kafka.bootstrap}
    ours, theirs, again = (Transactions(options, "shared") for _ in range(3))
    ours.put("skyband-a", 6, [record(6)])
    theirs.put("skyband-b", 0, [record(0)])
    theirs._producer.begin_transaction()
    theirs._producer.send("shared", key=b"skyband-b", value=b'{"batch": 1}', partition=0).get()
    ours.put("skyband-a", 7, [record(7)])
    ours.close()
    begun = time.monotonic()
    threading.Timer(2, theirs._producer.commit_transaction).start()
    again.put("skyband-a", 7, [record(7)])
    assert time.monotonic() - begun >= 1.9
    again.close()
    theirs.close()
    assert [r.key for r in kafka.records("plain", committed=True)].count(b"7") == 1


def test_a_topic_of_progress_that_forgets(kafka: Broker) -> None:
    kafka.topic("forgets", 1)
    made = Transactions({"kafka.bootstrap.servers": kafka.bootstrap}, "forgets")
    with pytest.raises(InputError, match="The topic 'forgets' is not compacted"):
        made.put("skyband-1", 0, [record(0)])


def test_options_of_the_client() -> None:
    import kafka

    known = kafka.KafkaProducer.DEFAULT_CONFIG
    given = {"kafka.security.protocol": "SSL", "kafka.linger.ms": "5", "kafka.ssl.check.hostname": "false"}
    wanted = {"security_protocol": "SSL", "linger_ms": 5, "ssl_check_hostname": False}
    assert settings_of(given, known) == wanted
    for option in ("includeHeaders", "kafka.ssl.truststore.location", "kafka.transactional.id"):
        with pytest.raises(InputError, match=rf"can't have the option '{option}'"):
            settings_of({option: "x"}, known)
    with pytest.raises(InputError, match=r"'kafka\.linger\.ms' of \[sink\] must be a int, not 'soon'"):
        settings_of({"kafka.linger.ms": "soon"}, known)


class Killed:
    """A pipeline whose every batch gives thousands of changes, and what of it is to be seen."""

    def __init__(self, folder: Path, kafka: Broker, batches: int, topic: str) -> None:
        self.kafka, self.topic, self.batches = kafka, topic, batches
        kafka.topic(topic, 1)
        (folder / "data").mkdir(parents=True)
        chance = np.random.default_rng(SEED)
        for number in range(batches):
            lines = "\n".join(map(str, chance.random(5000).tolist()))
            (folder / "data" / f"{number:03}.csv").write_text(f"x\n{lines}\n")
        (folder / "pipeline.toml").write_text(
            f'[stream.s]\nformat = "csv"\npath = "data"\nmax_files = 1\n[[query]]\nname = "q"\n'
            f'sql = "SELECT x FROM s ORDER BY x DESC LIMIT 4000 WINDOW 5000 ROWS"\n'
            f'[sink]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\n'
            f'delivery = "exactly-once"\n[spark]\nmaster = "local[1]"\n'
        )
        self.pipeline = Pipeline(folder)

    def kill_in_a_transaction(self, records: int) -> bool:
        """Start, wait until so many records more have arrived, and kill; whether something was under way."""
        from kafka import KafkaConsumer, TopicPartition

        here = TopicPartition(self.topic, 0)
        consumer = KafkaConsumer(bootstrap_servers=self.kafka.bootstrap)
        wanted = consumer.end_offsets([here])[here] + records
        self.pipeline.start()
        assert self.pipeline.wait(lambda: consumer.end_offsets([here])[here] >= wanted)
        self.pipeline.kill()
        committed = KafkaConsumer(bootstrap_servers=self.kafka.bootstrap, isolation_level="read_committed")
        stable, last = (one.end_offsets([here])[here] for one in (committed, consumer))
        consumer.close()
        committed.close()
        return bool(stable < last)

    def check(self) -> None:
        """Run to the end: every change of every batch is there once."""
        self.pipeline.start()
        code, said = self.pipeline.finish()
        assert code == 0, said
        found = [tuple(json.loads(r.key)) for r in self.kafka.records(self.topic, committed=True)]
        assert len(found) == len({*found}) and {batch for batch, _ in found} == {*range(self.batches)}
        for batch in range(self.batches):
            own = [number for one, number in found if one == batch]
            assert own == [*range(len(own))], f"batch {batch}"
        answer: dict[int, float] = {}
        for one in self.kafka.records(self.topic, committed=True):
            change = json.loads(one.value)
            if change["change"] == "leave":
                del answer[change["seq"]]
            else:
                answer[change["seq"]] = change["score"]
        last = self.pipeline.folder / "data" / f"{self.batches - 1:03}.csv"
        newest = [float(x) for x in last.read_text().split()[1:]]
        assert sorted(answer.values()) == sorted(newest)[-4000:]


def test_kills_in_a_transaction(tmp_path: Path, kafka: Broker) -> None:
    """What was under way is in no reader's view, and is there once in the end."""
    killed = Killed(tmp_path, kafka, 6, "killed")
    assert any([killed.kill_in_a_transaction(1500), killed.kill_in_a_transaction(5500)])
    everything = kafka.records("killed")
    assert len(everything) > len(kafka.records("killed", committed=True))
    killed.check()


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_kills_in_transactions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kills = max(2, KILLS // 4)
    with capsys.disabled():
        print(f"\ntransactions: SKYBAND_SEED={SEED} SKYBAND_KILLS={KILLS}, {kills} kills in {tmp_path}")
    with broker(tmp_path / "broker") as kafka:
        killed, chance = (
            Killed(tmp_path / "pipeline", kafka, 2 * kills + 4, "killed"),
            np.random.default_rng(SEED),
        )
        under_way = [killed.kill_in_a_transaction(int(chance.integers(1, 8000))) for _ in range(kills)]
        assert sum(under_way) >= kills // 4
        killed.check()
