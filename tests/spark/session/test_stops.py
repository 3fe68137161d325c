"""How a pipeline begins and ends: waiting for files, signals, other threads, a Spark that does not start."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import MagicMock

import pytest
from tests.spark.streams import QUERIES, make_files, pipeline_text, write_file

import skyband.spark
from skyband.core.errors import InputError
from skyband.spark import (
    BatchInfo,
    Summary,
    run_pipeline,
    verify_pipeline,
)
from skyband.spark.config import SparkSpec, load_pipeline
from skyband.spark.pipeline import find_schemas
from skyband.spark.session import start as session
from skyband.spark.session.home import lean_home
from skyband.spark.session.signals import Signals, signals_ignored
from skyband.spark.session.start import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text({"rows": QUERIES["rows"]}, spark='trigger = "200 milliseconds"\n'))
    return path


def press_ctrl_c() -> None:
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_while_there_is_no_file_yet(
    pipeline: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wait, waits = Signals.wait, 0

    def third(self: Signals, seconds: float) -> bool:
        nonlocal waits
        waits += 1
        if waits == 3:
            press_ctrl_c()
        return wait(self, seconds)

    monkeypatch.setattr(Signals, "wait", third)
    assert run_pipeline(pipeline) == Summary(0, 0, 0, 0, 0.0, stopped=True)
    assert waits == 3
    said = capfd.readouterr().err
    assert said.count("waiting for the first file of stream 's' in") == 1
    assert "stopping after this batch" in said


def test_a_second_ctrl_c_insists() -> None:
    with Signals() as stop:
        press_ctrl_c()
        assert any(stop.wait(0.1) for _ in range(50))
        with pytest.raises(KeyboardInterrupt):
            stop._handle(signal.SIGINT, None)


def test_ctrl_c_while_the_main_thread_begins_to_wait() -> None:
    """Whatever lock the interrupted thread holds: the handler asks for none."""
    event = threading.Event()
    with Signals(event) as stop, event._cond:  # type: ignore[attr-defined]
        stop._handle(signal.SIGINT, None)
        assert stop.asked() and stop.wait(60)


def test_the_first_file_that_can_be_read_tells_the_schema(pipeline: Path) -> None:
    """One that is still empty, or half copied, may stand before it."""
    data = pipeline.parent / "data"
    write_file(data / "c.parquet", make_files(1, seed=1)[0])
    half = (data / "c.parquet").read_bytes()[:500]
    (data / "a.parquet").touch()
    (data / "b.parquet").write_bytes(half)
    found = find_schemas(load_pipeline(pipeline), wait=False, stop=Signals())
    assert found is not None and found["s"].names == ["ts", "x", "y", "n", "g"]
    (data / "c.parquet").unlink()
    with pytest.raises(InputError, match=r"No schema can be read from .*b\.parquet"):
        find_schemas(load_pipeline(pipeline), wait=False, stop=Signals())


@pytest.mark.spark
def test_stopped_between_files_and_started_again(
    pipeline: Path, spark: SparkSession, capfd: pytest.CaptureFixture[str]
) -> None:
    for number, rows in enumerate(make_files(3, seed=2)):
        write_file(pipeline.parent / "data" / f"{number}.parquet", rows)
    half = pipeline.parent / "data" / "half.parquet"
    half.write_bytes((pipeline.parent / "data" / "0.parquet").read_bytes()[:500])
    seen: list[int] = []

    def tell(info: BatchInfo) -> None:
        seen.append(info.batch)
        press_ctrl_c()

    stopped = run_pipeline(pipeline, on_batch=tell, spark=spark)
    assert (stopped.stopped, stopped.batches, seen) == (True, 1, [0])
    assert (pipeline.parent / "checkpoint" / "commits" / "0").exists()  # or it would be told again

    # From another thread, which gets no signals: a notebook's, say.
    done: list[Summary] = []

    def rest() -> None:
        with signals_ignored():
            done.append(run_pipeline(pipeline, True, lambda info: seen.append(info.batch), spark))

    thread = threading.Thread(target=rest)
    thread.start()
    thread.join(200)
    assert seen == [0, 1, 2] and not done[0].stopped
    assert done[0].waiting == (str(half),)
    assert f"left for later, because it cannot be read yet: {half}" in capfd.readouterr().err


@pytest.mark.spark
def test_output_that_cannot_be_written(pipeline: Path, spark: SparkSession) -> None:
    """A sentence, and the next start does what is left, from the step that was written down."""
    for number, rows in enumerate(make_files(2, seed=3)):
        write_file(pipeline.parent / "data" / f"{number}.parquet", rows)
    changes, aside = (pipeline.parent / "out" / name for name in ("changes", "aside"))
    told: list[tuple[int, bool]] = []

    def take_the_folder_away(info: BatchInfo) -> None:
        told.append((info.batch, info.replayed))
        changes.rename(aside)
        changes.touch()

    with pytest.raises(
        InputError, match=r"^Batch 1 cannot be written \(.*\): .* the next start does the batch"
    ):
        run_pipeline(pipeline, True, take_the_folder_away, spark)
    changes.unlink()
    aside.rename(changes)
    run_pipeline(pipeline, True, lambda info: told.append((info.batch, info.replayed)), spark)
    assert told == [(0, False), (1, True)]
    assert verify_pipeline(pipeline).ok


@pytest.mark.spark
def test_a_session_that_is_there_is_taken(tmp_path: Path, spark: SparkSession) -> None:
    again = start_session(SparkSpec(tmp_path, "local[2]", conf=(("spark.sql.shuffle.partitions", "1"),)))
    assert again.sparkContext is spark.sparkContext


def test_settings_that_spark_refuses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark looks at some of them only when a query is planned, and wraps what it says of them."""

    class Refused(Exception):
        _cause = ValueError('The value "many" is no int.\nand more')

    made = MagicMock()
    made.conf.get.side_effect = Refused("Error while instantiating something")
    monkeypatch.setattr("skyband.spark.session.java.find_java", lambda: Path("/"))
    builder = MagicMock()
    builder.config.return_value = builder
    builder.getOrCreate.return_value = made
    monkeypatch.setattr("pyspark.sql.SparkSession.builder", builder)
    said = r"^Spark can't do with its settings \(The value \"many\" is no int\): see to \[spark\] in pipeline.toml.$"
    with pytest.raises(InputError, match=said):
        start_session(SparkSpec(tmp_path))
    made.stop.assert_called_once()


def test_spark_that_does_not_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.session.java.find_java", lambda: Path("/"))
    monkeypatch.setattr(session, "_settings", lambda *_: {"spark.driver.memory": "no"})

    def fail(*_: object) -> None:
        raise RuntimeError("\nJava gateway process exited\nbefore sending its port")

    monkeypatch.setattr(session, "is_started", lambda: False)
    monkeypatch.setattr(session, "launch", fail)
    said = r"^Spark did not start \(its log is .*spark\.log\): Java gateway process exited$"
    with pytest.raises(InputError, match=said):
        start_session(SparkSpec(tmp_path), tmp_path / "spark.log")
    # What the JVM itself said is in its log, after what an earlier start has left there.
    (tmp_path / "spark.log").write_text('Exception in thread "main" java.lang.Old: yesterday\n')

    def end(_: object, log: Path) -> None:
        log.write_text(log.read_text() + 'Exception in thread "main" a.b.C: Master must be one\n\tat x.y\n')
        fail()

    monkeypatch.setattr(session, "launch", end)
    with pytest.raises(InputError, match=r"spark\.log\): Master must be one$"):
        start_session(SparkSpec(tmp_path), tmp_path / "spark.log")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(InputError, match=r"^PySpark cannot be imported \(.*\): install it with 'pip install"):
        start_session(SparkSpec(tmp_path))


def test_settings_of_a_cluster_are_not_those_of_one_machine(tmp_path: Path) -> None:
    local = session._settings(SparkSpec(tmp_path), tmp_path, "skyband")
    cluster = session._settings(SparkSpec(tmp_path, "spark://host:7077"), tmp_path, "skyband")
    assert "spark.driver.host" in local and "spark.driver.host" not in cluster
    assert "-XX:+UseSerialGC" in local["spark.driver.extraJavaOptions"]
    assert "-XX:+UseSerialGC" not in cluster["spark.driver.extraJavaOptions"]
    planning = session._settings(SparkSpec(tmp_path, "spark://host:7077"), tmp_path, "skyband", True)
    assert "-XX:+UseSerialGC" in planning["spark.driver.extraJavaOptions"]
    assert "CompileThresholdScaling" in planning["spark.driver.extraJavaOptions"]
    assert "-Xmn" not in planning["spark.driver.extraJavaOptions"]
    stateful = session._settings(SparkSpec(tmp_path), tmp_path, "skyband", True)
    assert "-Xmn" in stateful["spark.driver.extraJavaOptions"] and "-Xmn" not in str(local)
    assert "CompileThresholdScaling" in str(stateful) and "CompileThresholdScaling" not in str(local)
    small = SparkSpec(tmp_path, conf=(("spark.driver.memory", "500m"),))
    assert "-Xmn" not in str(session._settings(small, tmp_path, "skyband", True))


def test_sockets_have_paths_that_are_short_enough(tmp_path: Path) -> None:
    name = "spark.python.unix.domain.socket.enabled"
    short, long = Path(tempfile.mkdtemp(prefix="s-", dir="/tmp")), tmp_path / ("x" * 60)
    long.mkdir()
    assert session._settings(SparkSpec(tmp_path), short, "skyband")[name] == "true"
    assert name not in session._settings(SparkSpec(tmp_path), long, "skyband")
    tcp = SparkSpec(tmp_path, conf=((name, "false"),))
    assert session._settings(tcp, short, "skyband")[name] == "false"
    shutil.rmtree(short)


def test_an_installed_package_needs_no_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("JAVA_HOME", "PYSPARK_PYTHON", "PYSPARK_DRIVER_PYTHON", "SPARK_LOCAL_IP", "SPARK_HOME"):
        monkeypatch.setenv(name, "before")
    monkeypatch.setattr("skyband.spark.session.java.find_java", lambda: Path("/java"))
    for home, path in [("/venv/site-packages", ""), ("/project/src", "/project/src")]:
        monkeypatch.setenv("PYTHONPATH", "")
        monkeypatch.setattr(session, "__file__", f"{home}/skyband/spark/session/start.py")
        session._environment(SparkSpec(Path("/"), "spark://host:7077"))
        assert (os.environ["PYTHONPATH"], os.environ["JAVA_HOME"]) == (path, "/java")


def test_folders_of_processes_that_are_gone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    alive: Callable[[int], Path] = lambda process: tmp_path / f"skyband-spark-{process}-x"  # noqa: E731
    for process in (os.getpid(), 2**22 + 1):  # the second is more than a process can be
        alive(process).mkdir()
    scratch = session.scratch_folder()
    assert scratch.is_dir() and alive(os.getpid()).exists() and not alive(2**22 + 1).exists()


def test_names_that_are_not_there() -> None:
    assert not hasattr(skyband.spark, "nothing")


def test_a_home_without_the_archive_of_pyspark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("skyband.spark.session.home.cache_folder", lambda: tmp_path / "cache" / "digest")
    installed = tmp_path / "packages" / "pyspark"
    for name in ("bin", "jars", "python/lib"):
        (installed / name).mkdir(parents=True)
    assert lean_home(installed) is None  # not where this interpreter's packages are
    monkeypatch.setattr("site.getsitepackages", lambda: [str(installed.parent)])
    (installed.parent / "py4j").mkdir()
    assert lean_home(installed) is None  # no archive
    (installed / "python" / "lib" / "pyspark.zip").touch()
    assert lean_home(installed) is None  # no folder to make it in
    (tmp_path / "cache").mkdir()
    for _ in range(2):
        home = lean_home(installed)
        assert home is not None and sorted(path.name for path in home.iterdir()) == ["bin", "jars"]
    assert home is not None and (home / "jars").resolve() == (installed / "jars").resolve()


@pytest.mark.spark
def test_spark_processes_import_the_installed_pyspark(spark: SparkSession) -> None:
    import pyspark

    def where(_: object) -> str:
        return sys.modules["pyspark"].__file__ or ""

    assert spark.sparkContext.parallelize([0], 1).map(where).collect() == [pyspark.__file__]
