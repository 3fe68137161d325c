"""A Spark session that works where it is started, and keeps quiet.

Left alone, PySpark runs tasks with whatever `python3` comes first on the path, warns about the host's name,
prints its log over the terminal and has to be given the place of Java. Here the tasks get this very interpreter and
this very package, and what the JVM and its Python workers have to say goes to a log file.
"""

from __future__ import annotations

import atexit
import contextlib
import importlib.util
import os
import re
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from zlib import crc32

from skyband.core.errors import InputError
from skyband.spark.config import Pipeline, SparkSpec
from skyband.spark.jvm.hadoop import WAY, way_of
from skyband.spark.jvm.private import is_started, launch, root_of

from .connector import needs_kafka

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG4J = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.stderr.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
"""

_DEFAULTS = {
    "spark.ui.enabled": "true",
    # A pipeline runs for days: its UI keeps the last few minutes of small batches, not thousands of jobs.
    "spark.ui.retainedJobs": "200",
    "spark.ui.retainedStages": "200",
    "spark.ui.retainedTasks": "5000",
    "spark.sql.ui.retainedExecutions": "100",
    "spark.port.maxRetries": "100",  # from 4040 on, one for each pipeline that has its UI on
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    # What a task sends to the driver comes at once; by default more than a megabyte has to be asked for.
    "spark.task.maxDirectResultSize": "32m",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    # The plan of every micro-batch is the same few operators; planning them adaptively only costs time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.pollingDelay": "250ms",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FIFO",
    "spark.locality.wait": "0s",
    # Spark would take the time of each listener for each event, which is more work than most listeners have.
    "spark.scheduler.listenerbus.metrics.maxListenerClassesTimed": "0",
    # Saves several programs that are started for each checkpoint file. The rename that keeps a second driver out is not
    # needed, because the checkpoint is locked; and a file that is there already says the same.
    # (Hadoop's RawLocalFileSystem as fs.file.impl would save the checksum files and half of what programs are left; but
    # the state store then fails at its first snapshot, some fifty batches later: it casts to LocalFileSystem. Without
    # checksums a batch of 4 million rows takes 8 % less, and nothing notices if the offsets of one that was not
    # committed have become others: they stay.)
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}
# Characters that Spark adds to the folder of a socket, at most; a path of more than 107 can't be one.
_SOCKET = 64
# For one driver on one machine.
_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}

# The JVM only plans and schedules: compiling less halves what a start and a micro-batch cost (measured: 12 s of
# processor time for a start became 6, 0.65 for a batch 0.35).
_LIGHT_JVM = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
# Planning a stateful batch is much code that is run a few times each. By default it is interpreted until it has been
# called two hundred times, which takes dozens of batches, and compiled bit by bit; here what is called in every batch
# is compiled by the fourth, and there is room for all of it: in that of a light JVM, code that rested for a while makes
# place and is compiled again. (On a cluster, after two dozen batches, compiling was a tenth of what the driver did and
# is next to nothing; it is paid for by a second of processor time more for the start, which two dozen batches make up.
# On one machine, where tasks run in the same JVM, it is two to four seconds for the start, and of 200 to 230 ms of
# processor time for a batch 50 to 80 less, also after thirty batches.)
# Its classes come to 140 MB. Each time that they outgrow what a JVM begins with, it collects all garbage there is: four
# times before the first batch is done, 0.25 s together.
_SOONER_JVM = [
    "-XX:CompileThresholdScaling=0.02",
    "-XX:ReservedCodeCacheSize=240m",
    "-XX:MetaspaceSize=192m",
]
OLDEST = (4, 2)  # the oldest PySpark with all that a pipeline uses
_LOOPBACK = re.compile(r"spark://(127\.|localhost[:/])")
# The state of a stateful operator passes through the JVM as arrays of megabytes, several times a batch. With the young
# generation that a JVM begins with, they are copied by one collection after the other.
_STATES_JVM = ["-Xms768m", "-Xmn512m"]


def start_session(
    spec: SparkSpec,
    log: Path | None = None,
    app: str = "skyband",
    kafka: bool = False,
    states: bool = False,
) -> SparkSession:
    """The session of a pipeline; `states`: state will pass through the JVM. Raises a sentence if there is no Java or
    Spark does not start."""
    with _starting(log):
        settings = _ahead.pop(spec, None) or _start_jvm(spec, log, app, kafka, states)
        from pyspark import sql

        builder = sql.SparkSession.builder
        for key, value in settings.items():
            builder = builder.config(key, value)
        session = builder.getOrCreate()
    try:
        session.conf.get(
            "spark.sql.session.timeZone"
        )  # Spark looks at its SQL settings when one is first asked for
    except Exception as problem:
        said = _deepest(problem)
        session.stop()
        raise InputError(
            f"Spark can't do with its settings ({said}): see to [spark] in pipeline.toml."
        ) from None
    return session


def check_version() -> None:
    """Refuse a PySpark that has no pipelines: before 4.2 a source in Python can't limit or end what it reads."""
    with contextlib.suppress(ImportError):  # the session's start says that there is none
        import pyspark

        found = pyspark.__version__
        if tuple(map(int, found.split(".")[:2])) < OLDEST:
            raise InputError(
                f"Pipelines need PySpark {OLDEST[0]}.{OLDEST[1]} or newer, and here is {found}: pip install "
                f"'pyspark>={OLDEST[0]}.{OLDEST[1]}' (watch on a DataFrame works with this one)."
            )


_ahead: dict[SparkSpec, dict[str, str]] = {}  # settings of a JVM that has no session yet


def reach(pipeline: Pipeline) -> None:
    """Start the JVM if there is none and a path is in a store: looking at it takes one, before a session starts."""
    if not pipeline.is_stored or is_started():
        return
    spec, log = pipeline.spark, log_of(pipeline, "spark.log")
    states = spec.placement == "executors" or (spec.placement == "auto" and not spec.local)
    with _starting(log):
        _ahead[spec] = _start_jvm(spec, log, "skyband", needs_kafka(pipeline), states)


@contextlib.contextmanager
def reachable(session: SparkSession, pipeline: Pipeline) -> Iterator[None]:
    """Let Python workers reach stores, if a path is in one."""
    if not pipeline.is_stored:
        yield
        return
    environment = session.sparkContext.environment
    environment[WAY] = way_of(session, scratch_folder() / "door")
    try:
        yield
    finally:
        environment.pop(WAY, None)


def log_of(pipeline: Pipeline, name: str) -> Path:
    """Where Spark's log goes: to the checkpoint, or on this machine's disk where that is in a store."""
    folder = pipeline.spark.checkpoint
    if isinstance(folder, Path):
        return folder.resolve() / "skyband" / name
    user = os.getuid() if hasattr(os, "getuid") else 0
    return Path(tempfile.gettempdir()) / f"skyband-{user}-{crc32(str(folder).encode()):08x}" / name


def _start_jvm(spec: SparkSpec, log: Path | None, app: str, kafka: bool, states: bool) -> dict[str, str]:
    """Start the JVM, if it writes a log and there is none yet; returns the settings of its session."""
    _environment(spec)
    import pyspark  # noqa: F401

    settings = _settings(spec, scratch_folder(), app, states)
    if log is not None and not is_started():
        if kafka:
            _launch_with_kafka(settings, log)
        else:
            launch(settings, log)
    return settings


@contextlib.contextmanager
def _starting(log: Path | None) -> Iterator[None]:
    """Turn what fails at a start into a sentence."""
    begun = log.stat().st_size if log is not None and log.exists() else 0
    try:
        yield
    except InputError:
        raise
    except ImportError as problem:
        raise InputError(
            f"PySpark cannot be imported ({problem}): install it with 'pip install skyband[spark]'."
        ) from None
    except Exception as problem:
        where = "" if log is None else f" (its log is {log})"
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise InputError(f"Spark did not start{where}: {_last_words(log, begun) or first}") from problem


def _deepest(problem: BaseException) -> str:
    """The first line of what lies at the bottom of an exception of Spark's."""
    root = root_of(problem)
    lines = str(root).strip().splitlines()
    return lines[0].rstrip(".: ") if lines else type(root).__name__


def _last_words(log: Path | None, begun: int) -> str | None:
    """What a JVM that ended at once had to say of that."""
    if log is None or not log.exists():
        return None
    with open(log, "rb") as said:
        said.seek(begun)
        text = said.read().decode(errors="replace")
    found = re.search(r'^Exception in thread "main" [\w.$]+: (.+)$', text, re.M) or re.search(
        r"^(.*\n)Error: Could not create the Java Virtual Machine", text, re.M
    )
    return found[1].strip() if found is not None else None


def scratch_folder() -> Path:
    """A folder for what Spark leaves behind; it goes with the process, and those of killed ones go now."""
    home = Path(tempfile.gettempdir())
    for old in home.glob("skyband-spark-*"):
        owner = old.name.split("-")[2]
        if owner.isdigit() and not _alive(int(owner)):
            shutil.rmtree(old, ignore_errors=True)
    scratch = Path(tempfile.mkdtemp(prefix=f"skyband-spark-{os.getpid()}-"))
    atexit.register(shutil.rmtree, scratch, True)
    return scratch


def _alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except OSError as problem:
        return isinstance(problem, PermissionError)  # another user's
    return True


def _settings(spec: SparkSpec, scratch: Path, app: str, states: bool = False) -> dict[str, str]:
    local = spec.master.startswith("local")
    settings = {**_DEFAULTS, **(_LOCAL if local else {}), **dict(spec.conf)}
    (scratch / "log4j2.properties").write_text(_LOG4J)
    java = [f"-Dlog4j2.configurationFile=file:{scratch / 'log4j2.properties'}", f"-Djava.io.tmpdir={scratch}"]
    if local:
        java += [*_LIGHT_JVM, *(_SOONER_JVM if states else [])]
        # a driver's memory that is set stays
        java += _STATES_JVM if states and "spark.driver.memory" not in dict(spec.conf) else []
    else:
        # With the state elsewhere, the driver's JVM only plans and gathers answers: nothing for a collector with
        # threads of its own.
        java += [*_LIGHT_JVM, *_SOONER_JVM] if states else _LIGHT_JVM[:1]
    # The user's own options come last, so that they win.
    settings["spark.driver.extraJavaOptions"] = " ".join(
        filter(None, [*java, settings.get("spark.driver.extraJavaOptions")])
    )
    if hasattr(socket, "AF_UNIX") and len(os.fsencode(scratch)) + _SOCKET <= 107:
        # Between the JVM and Python. With TCP every task that is sent little waits 40 ms: what is sent in two pieces
        # waits for the first one to be acknowledged, and that is put off.
        settings.setdefault("spark.python.unix.domain.socket.enabled", "true")
    settings.setdefault("spark.local.dir", str(scratch))
    settings.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    settings["spark.master"] = spec.master
    settings.setdefault("spark.app.name", app)
    return settings


def _launch_with_kafka(settings: dict[str, str], log: Path) -> None:
    """Start the JVM with Spark's Kafka connector: the one that was named, or the first that is to be had."""
    import pyspark

    from .connector import EXCLUDED, connectors, unresolved

    tried: list[str] = []
    for packages in connectors(pyspark.__version__, settings):
        if packages is not None:
            settings["spark.jars.packages"] = packages
            settings.setdefault("spark.jars.excludes", EXCLUDED)
            tried.append(packages.rpartition(":")[2])
        begun = log.stat().st_size if log.exists() else 0
        try:
            launch(settings, log)
        except Exception:
            with open(log, "rb") as said:
                said.seek(begun)
                if packages is None or not unresolved(said.read().decode(errors="replace")):
                    raise
            continue
        if len(tried) > 1:
            print(
                f"skyband: Spark's Kafka connector {tried[0]} is not to be had; taking {tried[-1]}",
                file=sys.stderr,
                flush=True,
            )
        return
    raise InputError(
        f"Spark's Kafka connector could not be fetched (versions {', '.join(tried)} tried; the log is {log}): name one "
        f'in [spark], such as jars.packages = "org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}", or '
        f'its files in jars = "a.jar,b.jar".'
    )


def _environment(spec: SparkSpec) -> None:
    """What the JVM and the Python workers inherit."""
    from .home import lean_home
    from .java import find_java

    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    if spec.local or _LOOPBACK.match(spec.master):  # machines of a cluster have to reach the driver
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # The Spark that belongs to this PySpark, not another that is installed; without SPARK_HOME it finds itself.
    os.environ.pop("SPARK_HOME", None)
    found = importlib.util.find_spec("pyspark")
    lean = lean_home(Path(found.origin).parent) if spec.local and found is not None and found.origin else None
    if lean is not None:
        os.environ["SPARK_HOME"] = str(lean)
    home = Path(__file__).resolve().parents[3]
    if home.name not in ("site-packages", "dist-packages"):
        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        if str(home) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(home), *paths])


# Of a query through which few lines pass, each of which stands for many rows: code that is made for these takes
# longer to plan than it saves.
FEW_LINES = {"spark.sql.codegen.wholeStage": "false"}


@contextlib.contextmanager
def settings(session: SparkSession, wanted: Mapping[str, str]) -> Iterator[None]:
    """Settings of the session for the time in which a query is started: it keeps those that it began with."""
    before = {name: session.conf.get(name, None) for name in wanted}
    for name, value in wanted.items():
        session.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                session.conf.unset(name)
            else:
                session.conf.set(name, old)
