"""A Spark session that works where it is started, and keeps quiet.

Left alone, PySpark runs tasks with whatever `python3` comes first on the path, warns about the host's name,
prints its log over the terminal and needs to be told where Java is. Here the tasks get this very interpreter and
this very package, and what the JVM and its Python workers have to say goes to a log file.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import InputError, SkybandError
from .config import SparkSpec

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
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "2g",
    "spark.driver.maxResultSize": "0",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.pyspark.udf.faulthandler.enabled": "true",
    # The plan of every micro-batch is the same few operators; planning them adaptively only costs time.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.streaming.metricsEnabled": "false",
    "spark.sql.streaming.pollingDelay": "250ms",
    "spark.sql.session.timeZone": "UTC",
    "spark.python.worker.reuse": "true",
    "spark.scheduler.mode": "FIFO",
    "spark.locality.wait": "0s",
}
# For one driver on one machine: saves a fork of two programs per checkpoint file. The rename that keeps a second
# driver out is not needed there, because the checkpoint is locked.
_LOCAL = {
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}


def start_session(spec: SparkSpec, log: Path | None = None, app: str = "skyband") -> SparkSession:
    """The session of a pipeline. Raises a sentence if there is no Java or Spark does not start."""
    _environment()
    try:
        from pyspark.sql import SparkSession
    except ImportError as problem:
        raise InputError(
            f"PySpark cannot be imported ({problem}): install it with 'pip install skyband[spark]'."
        ) from None

    local = spec.master.startswith("local")
    settings = {**_DEFAULTS, **(_LOCAL if local else {}), **dict(spec.conf)}
    scratch = Path(tempfile.mkdtemp(prefix="skyband-spark-"))
    (scratch / "log4j2.properties").write_text(_LOG4J)
    java = f"-Dlog4j2.configurationFile=file:{scratch / 'log4j2.properties'}"
    settings["spark.driver.extraJavaOptions"] = " ".join(
        filter(None, [settings.get("spark.driver.extraJavaOptions"), java])
    )
    settings.setdefault("spark.sql.warehouse.dir", str(scratch / "warehouse"))
    builder = SparkSession.builder.appName(app).master(spec.master)
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        with _output_to(log):
            return builder.getOrCreate()
    except SkybandError:
        raise
    except Exception as problem:
        where = "" if log is None else f" (its log is {log})"
        first = str(problem).strip().splitlines()[0] if str(problem).strip() else type(problem).__name__
        raise InputError(f"Spark did not start{where}: {first}") from problem


def _environment() -> None:
    """What the JVM and the Python workers inherit."""
    from ..java import find_java

    os.environ["JAVA_HOME"] = str(find_java())
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    # An empty SPARK_HOME finds the Spark that belongs to this PySpark, not another that is installed.
    os.environ.pop("SPARK_HOME", None)
    home = Path(__file__).resolve().parents[2]
    if home.name not in ("site-packages", "dist-packages"):
        paths = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        if str(home) not in paths:
            os.environ["PYTHONPATH"] = os.pathsep.join([str(home), *paths])


@contextlib.contextmanager
def _output_to(log: Path | None) -> Iterator[None]:
    """While the JVM starts, let standard output and error be `log`: the JVM keeps what it is born with."""
    if log is None:
        yield
        return
    log.parent.mkdir(parents=True, exist_ok=True)
    sys.stdout.flush()
    sys.stderr.flush()
    saved = [os.dup(1), os.dup(2)]
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, copy in zip((1, 2), saved, strict=True):
            os.dup2(copy, number)
            os.close(copy)
        os.close(handle)
