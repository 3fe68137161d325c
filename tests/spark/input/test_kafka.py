"""A real broker, with its own process: records in, records out, killed and started again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.object_oracle import ObjectOracle, total
from tests.spark.broker import CONNECTOR, Broker, broker, need
from tests.spark.kinds import Folded, arrow
from tests.spark.streams import SCHEMA, Row, make_files, text_line, write_file

from skyband.core.errors import InputError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

SHORT = (  # how long to wait for a broker that is gone; one that is there may take longer on a busy machine
    'options = {"kafka.default.api.timeout.ms" = 6000, "kafka.request.timeout.ms" = 3000, '
    '"kafkaConsumer.pollTimeoutMs" = 6000, "fetchOffset.numRetries" = 1}\n'
)
DECLARED = '{ts = "timestamp", x = "double", y = "double", n = "long", g = "string"}'
BAD = b'{"x": 1,\n "ts": }'


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    need("connector", CONNECTOR, alone=True)
    with broker(tmp_path_factory.mktemp("broker")) as made:
        yield made


def stream(
    kafka: Broker, topic: str, values: str = "json", most: int | None = None, options: str = ""
) -> str:
    limit = "" if most is None else f"max_records = {most}\n"
    return (
        f'format = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\nvalues = "{values}"\ntime = "ts"\n'
        f"schema = {DECLARED}\n{limit}{options}"
    )


def packed(rows: list[Row]) -> bytes:
    table = arrow(rows)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, SCHEMA) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


class Sent:
    """What was sent to the two topics, by partition, and what of it was read."""

    def __init__(self, kafka: Broker, suffix: str) -> None:
        self.kafka, self.suffix = kafka, suffix
        self.rows: dict[str, dict[int, list[Row | None]]] = {"lines": {0: [], 1: []}, "packs": {0: []}}
        self.read = {"lines": [0, 0], "packs": [0]}

    def lines(self, rows: list[Row]) -> None:
        records: list[tuple[int, bytes | None]] = []
        for place, row in enumerate(rows):
            partition = place * 7 % 3 % 2
            odd = {5: BAD, 11: None, 13: b"  "}.get(place, b"")
            # as people write it: over several lines
            records.append(
                (partition, text_line(row, ".json").replace(", ", ",\n ").encode() if odd == b"" else odd)
            )
            self.rows["lines"][partition].append(row if odd == b"" else None)
        self.kafka.send(f"lines-{self.suffix}", records)

    def packs(self, rows: list[Row]) -> None:
        half = len(rows) // 2
        values = [packed(rows[:half]), b"no arrow", packed(rows[half:])]
        self.kafka.send(f"packs-{self.suffix}", [(0, value) for value in values])
        self.rows["packs"][0] += [*rows[:half], None, *rows[half:]]

    def take(self, topic: str) -> list[Row | None]:
        """All that has not been read yet, in order of arrival."""
        found: list[Row | None] = []
        for partition, rows in self.rows[topic].items():
            found += rows[self.read[topic][partition] :]
            self.read[topic][partition] = len(rows)
        return found


QUERIES = {
    "best": "SELECT g, x FROM lines ORDER BY x + 2 * y DESC LIMIT 5 WINDOW 50 ROWS",
    "together": "SELECT n FROM lines FULL JOIN packs USING (n) ORDER BY lines.x - packs.x LIMIT 4 WINDOW 60 SECONDS",
    "files": "SELECT x FROM files ORDER BY x DESC LIMIT 3 WINDOW 20 SECONDS",
}


def truth() -> ObjectOracle:
    oracle = ObjectOracle("ts", fits=lambda row: "bad" not in row)
    score = lambda r: None if r["x"] is None or r["y"] is None else r["x"] + 2 * r["y"]  # noqa: E731
    oracle.watch("best", score, 5, ("rows", 50), stream="lines")
    less = lambda rows: total([r["x"] for r in rows["lines"]]) - total([r["x"] for r in rows["packs"]])  # noqa: E731
    told = {"lines": ("x",), "packs": ("x",)}
    oracle.watch_joined("together", "n", less, 4, ("seconds", 60), told, False)  # type: ignore[arg-type]
    oracle.watch("files", lambda r: r["x"], 3, ("seconds", 20), stream="files")
    return oracle


def tops(oracle: ObjectOracle) -> dict[str, Any]:
    found = {}
    for name in oracle.watches:
        top = oracle.top(name)
        found[name] = [
            (r.score, (None, None, r.id) if hasattr(r, "id") else (r.seq, None, None)) for r in top
        ]
    return found


@pytest.mark.parametrize("placement", ["driver", pytest.param("executors", marks=pytest.mark.soak)])
def test_records_and_files_in_one_pipeline(
    tmp_path: Path, spark: SparkSession, kafka: Broker, placement: str
) -> None:
    """JSON and Arrow values, malformed ones, files besides; the broker is killed and comes back."""
    lines, packs = f"lines-{placement}", f"packs-{placement}"
    kafka.topic(lines, 2)
    kafka.topic(packs, 1)
    files = {name: make_files(2, seed, (20, 50)) for seed, name in enumerate(("lines", "files", "packs"), 50)}
    asked = "".join(f'[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in QUERIES.items())
    path = tmp_path / "pipeline.toml"

    def write(options: str = "") -> None:
        path.write_text(
            f"[stream.lines]\n{stream(kafka, lines, options=options)}"
            f'[stream.files]\npath = "data"\ntime = "ts"\n'
            f"[stream.packs]\n{stream(kafka, packs, 'arrow', options=options)}{asked}"
            f'[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\nplacement = "{placement}"\n'
        )

    write()
    sent, oracle, folded = Sent(kafka, placement), truth(), Folded()
    for batch in range(2):
        sent.lines(files["lines"][batch])
        sent.packs(files["packs"][batch])
        write_file(tmp_path / "data" / f"{batch}.parquet", files["files"][batch])
        infos: list[BatchInfo] = []
        if batch == 1:
            kafka.kill()
            write(SHORT)
            with pytest.raises(
                InputError, match=r"Kafka at 127\.0\.0\.1:\d+ does not answer \(.*\): see to the broker"
            ):
                run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
            assert not infos
            kafka.start()
            write()
        run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
        step = {"lines": sent.take("lines"), "files": files["files"][batch], "packs": sent.take("packs")}
        assert [info.rows for info in infos] == [sum(map(len, step.values()))]
        base = oracle.seq
        for name, rows in step.items():
            oracle.push([{"bad": True} if row is None else row for row in rows], name)
        folded.take(pq.read_table(tmp_path / "out" / "changes" / f"batch-{batch}.parquet").to_pylist())
        assert folded.equals(tops(oracle))
        rejects = pq.read_table(tmp_path / "out" / "rejects" / f"batch-{batch}.parquet").to_pylist()
        broken = [(r["stream"], r["seq"] - base, r["raw"]) for r in rejects if r["reason"] == "type"]
        places = [
            at for at, row in enumerate([*step["lines"], *step["files"], *step["packs"]]) if row is None
        ]
        assert [place for _, place, _ in broken] == places
        assert ("lines", BAD.decode()) in {(name, raw) for name, _, raw in broken}
        assert ("packs", "no arrow") in {(name, raw) for name, _, raw in broken}
    kafka.more_partitions(lines, 3)
    report = verify_pipeline(path)
    assert report.ok, str(report)
    assert report.batches == 2


def test_a_replay_repeats_its_records(tmp_path: Path, spark: SparkSession, kafka: Broker) -> None:
    files = make_files(2, 90, (40, 41))
    kafka.topic("in", 1)
    kafka.send("in", [(0, text_line(row, ".json").encode()) for row in files[0] + files[1]])
    path = tmp_path / "pipeline.toml"
    path.write_text(
        f"[stream.s]\n{stream(kafka, 'in', most=len(files[0]))}"
        f'[[query]]\nname = "q"\nsql = "SELECT x FROM s ORDER BY x DESC LIMIT 4 WINDOW 30 ROWS"\n'
        f'[sink]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "out"\n[spark]\nmaster = "local[2]"\n'
    )
    seen: list[BatchInfo] = []

    def fail(info: BatchInfo) -> None:
        seen.append(info)
        if info.batch == 1:
            raise RuntimeError("the power went")

    with pytest.raises(Exception, match="the power went"):
        run_pipeline(path, available_now=True, on_batch=fail, spark=spark)
    once = {(key, value) for _, key, value in kafka.read("out")}
    run_pipeline(path, available_now=True, on_batch=seen.append, spark=spark)
    assert [(info.batch, info.replayed) for info in seen] == [(0, False), (1, False), (1, True)]
    twice = [(key, value) for _, key, value in kafka.read("out")]
    assert len(twice) == len(once) + seen[1].changes and {*twice} == once
    answer: dict[int, float] = {}
    records = [(json.loads(key or b""), json.loads(value or b"")) for key, value in once]
    for (batch, _), change in sorted(records, key=lambda record: record[0]):
        assert change["batch"] == batch
        if change["change"] == "leave":
            del answer[change["seq"]]
        else:
            answer[change["seq"]] = change["score"]
    shown = seen[-1].tops["q"]
    assert answer == dict(zip(shown["seq"].to_pylist(), shown["score"].to_pylist(), strict=True))
    rejects = [json.loads(value or b"") for _, _, value in kafka.read("out-rejects")]
    assert {row["reason"] for row in rejects} <= {"time", "late"} and rejects
    with pytest.raises(InputError, match="a Kafka sink leaves nothing to verify"):
        verify_pipeline(path)
    # the same changes and rejects as Arrow streams, one for each batch
    other = tmp_path / "other"
    other.mkdir()
    text = path.read_text().replace('topic = "out"\n', 'topic = "packed"\nvalues = "arrow"\n')
    (other / "pipeline.toml").write_text(text)
    run_pipeline(other / "pipeline.toml", available_now=True, on_batch=seen.append, spark=spark)
    found = []
    for topic in ("packed", "packed-rejects"):
        tables = {json.loads(key or b"")[0]: value for _, key, value in kafka.read(topic)}
        streams = [pa.ipc.open_stream(tables[batch]).read_all() for batch in sorted(tables)]
        found.append([row for table in streams for row in table.to_pylist()])
    told = [change for _, change in sorted(records, key=lambda record: record[0])]
    for name in ("batch", "query", "change", "rank", "score", "seq"):
        assert [row[name] for row in found[0]] == [change[name] for change in told]
    assert len(found[1]) == sum(info.rejects for info in seen[-2:]) > 0


@pytest.mark.parametrize("placement", ["driver", pytest.param("executors", marks=pytest.mark.soak)])
def test_several_topics_come_in_the_order_of_their_names(
    tmp_path: Path, spark: SparkSession, kafka: Broker, placement: str
) -> None:
    """All times and scores are equal, so that the answer tells the order of arrival."""
    topics = [f"second-{placement}", f"first-{placement}"]
    for topic in topics:
        kafka.topic(topic, 2)
        row: Row = {"ts": 1_700_000_000.0, "x": 1.0, "y": 0.0, "n": topics.index(topic), "g": None}
        kafka.send(topic, [(place % 2, text_line(row, ".json").encode()) for place in range(4)])
    path = tmp_path / "pipeline.toml"
    path.write_text(
        f"[stream.s]\n{stream(kafka, ', '.join(topics))}"
        f'[[query]]\nname = "q"\nsql = "SELECT n FROM s ORDER BY x LIMIT 8 WINDOW 8 ROWS"\n'
        f'[sink]\nformat = "parquet"\npath = "out"\n[spark]\nmaster = "local[2]"\nplacement = "{placement}"\n'
    )
    run_pipeline(path, available_now=True, on_batch=lambda _: None, spark=spark)
    top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").sort_by("rank")
    assert [json.loads(row)["n"] for row in top["row"].to_pylist()] == [1] * 4 + [0] * 4
    report = verify_pipeline(path)
    assert report.ok, str(report)
