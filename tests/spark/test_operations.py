"""What a running pipeline tells of itself, the rate source, and a checkpoint that is in a bad way."""

from __future__ import annotations

import errno
import sys
import threading
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.broker import free_port
from tests.spark.environments import run
from tests.spark.kills import Pipeline
from tests.spark.streams import (
    QUERIES,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    shown_tops,
    write_file,
)

from skyband.core.errors import InputError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.config import load_pipeline
from skyband.spark.driver import checkpoint as checkpoints
from skyband.spark.jvm.files import write_atomic
from skyband.spark.session.connector import connectors, kafka_sentence, unresolved
from skyband.spark.session.metrics import Lag, Metrics
from skyband.spark.session.progress import lag_words, size_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.mark.spark
def test_figures_and_a_full_disk(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prometheus and Spark's listeners are told; then the disk is full just when a snapshot is due."""
    from pyspark.sql.streaming import StreamingQueryListener

    monkeypatch.setattr("skyband.spark.driver.engine._SNAPSHOT_BATCHES", 2)
    files = make_files(5, seed=61)
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    port = free_port()
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES) + f"[metrics]\nport = {port}\n")
    infos: list[BatchInfo] = []
    pages: list[str] = []
    observed: list[Any] = []
    told = threading.Event()

    class Listener(StreamingQueryListener):
        def onQueryStarted(self, event: Any) -> None:
            pass

        def onQueryProgress(self, event: Any) -> None:
            row = event.progress.observedMetrics.get("skyband")
            if row is not None:
                observed.append((event.progress.batchId, row["rows"]))
                told.set()

        def onQueryTerminated(self, event: Any) -> None:
            pass

    def tell(info: BatchInfo) -> None:
        infos.append(info)
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=60) as answer:
            pages.append(answer.read().decode())

    def full(target: Path, data: bytes, temporary: Path | None = None) -> None:
        if target.name == "3.snap":
            raise OSError(errno.ENOSPC, "No space left on device")
        write_atomic(target, data, temporary)

    listener = Listener()
    spark.streams.addListener(listener)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(checkpoints, "write_atomic", full)
            with pytest.raises(
                InputError, match=r"Batch 3 cannot be written \(.*No space left.*\): see to the disk"
            ):
                run_pipeline(path, available_now=True, on_batch=tell, spark=spark)
        assert not (tmp_path / "out" / "changes" / "batch-3.parquet").exists()
        run_pipeline(path, available_now=True, on_batch=tell, spark=spark)
        assert told.wait(120)
    finally:
        spark.streams.removeListener(listener)
    assert [info.batch for info in infos] == [0, 1, 2, 3, 4] and infos[3].replayed
    assert [info.lag_files for info in infos] == [4, 3, 2, 1, 0]
    assert all(info.state_bytes > 0 and info.state_rows > 0 for info in infos)
    rows = sum(map(len, files[:3]))
    lines = [f"skyband_rows_total {float(rows)}", "skyband_batch 2.0", "skyband_batches_total 3.0"]
    lines += ['skyband_lag{kind="files"} 2.0', "skyband_batch_seconds_count 3.0", "skyband_state_bytes "]
    for line in lines:
        assert line in pages[2], pages[2]
    assert 'skyband_rejected_rows{reason="time"}' in pages[2]
    # a batch that is done again has been written down: nothing is read for it
    read = {batch: 0 if batch == 3 else len(file) for batch, file in enumerate(files)}
    assert observed and dict(observed).items() <= read.items(), (observed, read)
    truth = Truth(QUERIES)
    history = folded(tmp_path / "out", 5)
    for batch, file in enumerate(files):
        truth.push(list(file))
        assert shown_tops(infos[batch].tops) == truth.tops()
        assert history[batch] == as_answers(truth.tops())


@pytest.mark.spark
@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_rate_is_the_same_again(tmp_path: Path, spark: SparkSession, zone: str) -> None:
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        rate_again(tmp_path, spark)
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def rate_again(tmp_path: Path, spark: SparkSession) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        '[stream.clock]\nformat = "rate"\nrows_per_second = 7\ntime = "timestamp"\n'
        '[[query]]\nname = "q"\nsql = "SELECT value, timestamp FROM clock ORDER BY value * (value - 9) LIMIT 4 '
        'WINDOW 2 SECONDS"\n[sink]\nformat = "json"\npath = "out"\n[spark]\ntrigger = "1 second"\n'
    )
    rows = 0
    for _ in range(2):
        stop = threading.Event()
        infos: list[BatchInfo] = []

        def tell(info: BatchInfo, infos: list[BatchInfo] = infos, stop: threading.Event = stop) -> None:
            infos.append(info)
            if sum(one.rows for one in infos) >= 7:
                stop.set()

        run_pipeline(path, on_batch=tell, spark=spark, stopping=stop)
        rows += sum(info.rows for info in infos)
    assert rows % 7 == 0 and rows >= 14
    report = verify_pipeline(path)
    assert report.ok, str(report)
    assert report.rows == rows


def test_a_damaged_checkpoint_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(QUERIES))
    own = tmp_path / "checkpoint" / "skyband"
    (own / "steps").mkdir(parents=True)
    (own / "steps" / "0.step").touch()
    for name in ("streams.json", "batches.jsonl", "files.jsonl"):
        (own / name).write_text('{"a": 1}\n{"a"\n{"a": 3}\n')
        with pytest.raises(
            InputError, match=rf"{name} is damaged: bring it back from a copy, or start again with"
        ):
            if name == "files.jsonl":
                from skyband.spark.input.filelog import FileLog

                FileLog(own / name)
            else:
                run_pipeline(path, available_now=True)
        (own / name).unlink()


def test_words() -> None:
    info = BatchInfo(0, 1, 1, 0, 0, 0.1, {}, lag_files=1, lag_records=2000)
    assert lag_words(info) == "1 file and 2,000 records"
    assert [size_words(size) for size in (12, 1200, 3.4e6, 5.67e9)] == ["12 bytes", "1 kB", "3 MB", "5.7 GB"]


def test_lag_by_what_spark_tells() -> None:
    lag = Lag()
    lag.take([('{"s": 3}', None), ('{"t":{"0":5,"1":7}}', '{"t":{"0":9,"1":7}}'), ("12", "14"), ("-", None)])
    assert lag.records() == 4
    lag.take([('{"s": 3}', None), ('{"t":{"0":9,"1":7}}', '{"t":{"0":9,"1":7}}'), ("14", "14"), ("-", None)])
    assert lag.records() == 0


def test_a_port_that_is_taken() -> None:
    metrics = Metrics("127.0.0.1", 0)
    try:
        with pytest.raises(
            InputError, match=rf"\[metrics\]: port {metrics.port} of 127\.0\.0\.1 cannot be opened"
        ):
            Metrics("127.0.0.1", metrics.port)
    finally:
        metrics.close()


def test_units_report_no_rows() -> None:
    """Where the state is with executors only its bytes are known: then there is no figure of rows, not even zero."""
    metrics, pages = Metrics("127.0.0.1", 0), []
    try:
        for rows in (0, 7):
            metrics.report(BatchInfo(0, 1, 1, 0, 0, 0.1, {}, state_rows=rows, state_bytes=55))
            with urllib.request.urlopen(f"http://127.0.0.1:{metrics.port}/metrics", timeout=60) as answer:
                pages.append(answer.read().decode())
        assert "skyband_state_bytes 55.0" in pages[0] and "skyband_state_rows" not in pages[0]
        assert "skyband_state_rows 7.0" in pages[1]
    finally:
        metrics.close()


def test_which_connector() -> None:
    kafka = "org.apache.spark:spark-sql-kafka-0-10_2.13"
    assert [*connectors("4.3.1", {})] == [f"{kafka}:{v}" for v in ("4.3.1", "4.3.0", "4.2.0")]
    assert next(connectors("4.3.0", {"spark.jars.packages": "a:b:1"})) == f"a:b:1,{kafka}:4.3.0"
    assert [*connectors("4.3.0", {"spark.jars.packages": f"{kafka}:4.2.0"})] == [None]
    assert [*connectors("4.3.0", {"spark.jars": "/x/spark-sql-kafka.jar"})] == [None]
    assert unresolved(
        ":: org.apache.spark#spark-sql-kafka-0-10_2.13;4.3.0: not found\n unresolved dependency: x"
    )


def test_what_is_said_of_kafka(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(
        '[stream.s]\nformat = "kafka"\nbootstrap = "b:1"\ntopic = "t"\nschema = {x = "double"}\n'
        '[[query]]\nname = "q"\nsql = "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"\n'
    )
    pipeline = load_pipeline(path)
    for text, sentence in (
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make",
            "has no Kafka connector: start it",
        ),
        ("[KAFKA_DATA_LOSS.X] gone", "Kafka at b:1 no longer has records that the pipeline has not read yet"),
        (
            "org.apache.kafka.common.errors.UnknownTopicOrPartitionException: x",
            "Kafka at b:1 has no such topic",
        ),
        (
            "org.apache.kafka.common.errors.TimeoutException: Timed",
            "does not answer (errors.TimeoutException: Timed)",
        ),
        (
            "An error occurred while calling o1.load.\n: java.lang.IllegalArgumentException: Only one of 'a', 'b'.\n"
            "\tat org.apache.spark.sql.kafka010.KafkaSourceProvider.x(K.scala:1)\n\tat java.lang.Thread.run(T.java:8)",
            "does not take the settings of Kafka at b:1 (Only one of 'a', 'b'): see to",
        ),
    ):
        assert sentence in str(kafka_sentence(text, pipeline))
    assert kafka_sentence("something else", pipeline) is None


@pytest.mark.spark
def test_a_connector_that_is_not_to_be_had(tmp_path: Path) -> None:
    """No repository has it: every version is tried, and the sentence says what to do."""
    (tmp_path / "ivy.xml").write_text(
        '<ivysettings><settings defaultResolver="none"/><resolvers><filesystem name="none">'
        f'<ivy pattern="{tmp_path}/none/[module].xml"/><artifact pattern="{tmp_path}/none/[artifact].[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    (tmp_path / "pipeline.toml").write_text(
        '[stream.s]\nformat = "kafka"\nbootstrap = "127.0.0.1:1"\ntopic = "t"\nschema = {x = "double"}\n'
        '[[query]]\nname = "q"\nsql = "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"\n'
        f'[spark]\nmaster = "local[1]"\njars.ivySettings = "{tmp_path}/ivy.xml"\njars.ivy = "{tmp_path}/ivy"\n'
    )
    pipeline = Pipeline(tmp_path)
    pipeline.start()
    code, said = pipeline.finish()
    assert code == 1, said
    assert "Spark's Kafka connector could not be fetched (versions 4." in said and "Traceback" not in said


@pytest.mark.spark
@pytest.mark.soak  # a process with a session of its own
def test_a_python_worker_that_is_slow_to_start(tmp_path: Path) -> None:
    """Spark gives a worker up after ten seconds; the batch is begun again, and nothing is lost."""
    files = make_files(2, seed=15)
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES))
    slow = tmp_path / "python"
    slow.write_text(
        f'#!/bin/sh\ncase "$*" in *streaming_source_runner*) if mkdir "{tmp_path}/slow" 2>/dev/null; then sleep 20; '
        f'fi;; esac\nexec "{sys.executable}" "$@"\n'
    )
    slow.chmod(0o755)
    script = (
        "from pyspark.sql import SparkSession\nfrom skyband.spark import run_pipeline, verify_pipeline\n"
        "spark = SparkSession.builder.master('local[2]').getOrCreate()\n"
        "run_pipeline('pipeline.toml', available_now=True, spark=spark)\nspark.stop()\n"
        "print(verify_pipeline('pipeline.toml').ok)\n"
    )
    done = run(slow, "-c", script, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "a Python worker of Spark's was too slow to start" in done.stderr
    assert (tmp_path / "slow").exists() and done.stdout.split()[-1] == "True"
