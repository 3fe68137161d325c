"""Everything of PySpark that skyband uses and that is not public. No other module has any of it; a test looks.

Each function says why nothing public serves, and on which versions of PySpark it was tried.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_started() -> bool:
    """Whether this process has a JVM or a Spark context already.

    `SparkSession.getActiveSession` returns only this thread's session. PySpark 4.2.1 and 4.3.0."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None or SparkContext._gateway is not None


def launch(settings: Mapping[str, str], log: Path) -> None:
    """Start the JVM with a file for what it writes.

    PySpark gives the JVM this process's standard error, where it would write between the lines of a terminal's live
    view; there is no setting for that. PySpark 4.2.1 and 4.3.0."""
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    log.parent.mkdir(parents=True, exist_ok=True)
    conf = SparkConf(loadDefaults=False)
    conf.setAll(list(settings.items()))
    with open(log, "ab") as out:
        gateway = launch_gateway(conf, {"stdout": out, "stderr": out})  # type: ignore[no-untyped-call]
    SparkContext._ensure_initialized(gateway=gateway)


def has_listeners(session: SparkSession) -> bool:
    """Whether the session has a listener of streaming queries.

    `session.streams` adds and removes listeners, but doesn't list them. PySpark 4.2.1 and 4.3.0."""
    return len(session._jsparkSession.streams().listListeners()) > 0


def checkpoint_of(session: SparkSession, query: str) -> str:
    """Return the checkpoint of a streaming query that runs, by its id.

    A `StreamingQuery` does not name its checkpoint, and `session.streams` has only the queries that were started by
    this very session, which that of a `foreachBatch` is not. PySpark 4.3.0."""
    running = session._jsparkSession.sharedState().activeStreamingQueries()
    found = [entry.getValue() for entry in running.entrySet() if entry.getKey().toString() == query]
    return str(found[0].resolvedCheckpointRoot())


def root_of(problem: BaseException) -> BaseException:
    """What lies at the bottom of an exception of Spark's.

    PySpark keeps the JVM's causes beside Python's own `__cause__`. PySpark 4.3.0."""
    while (cause := getattr(problem, "_cause", None)) is not None:
        problem = cause
    return problem


def view() -> Any | None:
    """Return what sees the classes of the driver's JVM; None in another process.

    Hadoop's file systems have no public Python face. PySpark 4.3.0."""
    import sys

    if "pyspark" not in sys.modules:
        return None
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    return None if gateway is None else gateway.jvm


def hadoop_settings(view: Any) -> Any:
    """Return Hadoop's settings in a JVM: those of its session, or where there is none yet those it was started with.

    A session shows Spark's settings, Hadoop's only through private ways. PySpark 4.3.0."""
    spark = view.org.apache.spark
    session = spark.sql.classic.SparkSession.getDefaultSession()
    if session.isDefined():
        context = spark.api.java.JavaSparkContext.fromSparkContext(session.get().sparkContext())
        return context.hadoopConfiguration()
    return spark.deploy.SparkHadoopUtil.get().newConfiguration(spark.SparkConf())


def address() -> tuple[int, str]:
    """Return the port and the secret of the driver's JVM, for processes of Spark's on the same machine.

    The planner of a Python source lists files, and has no connection to the JVM that started it. PySpark 4.3.0."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    assert gateway is not None
    parameters = gateway.gateway_parameters
    return int(parameters.port), str(parameters.auth_token)


def attach(port: int, secret: str) -> Any:
    """Connect to a JVM of this machine, and return what sees its classes.

    The same as PySpark does where a JVM has started it. PySpark 4.3.0."""
    from py4j.clientserver import ClientServer, JavaParameters, PythonParameters

    return ClientServer(
        java_parameters=JavaParameters(port=port, auth_token=secret, auto_convert=True),
        python_parameters=PythonParameters(port=0, eager_load=False),
    ).jvm


def helper() -> Any:
    """Start a small JVM for a Python worker, with the jars of its executor, and return what sees its classes.

    A worker can't call its executor's JVM. The new one ends with the worker. PySpark 4.3.0."""
    from pyspark import SparkConf, SparkFiles
    from pyspark.java_gateway import launch_gateway

    jars = sorted(Path(SparkFiles.getRootDirectory()).glob("*.jar"))
    conf = SparkConf(loadDefaults=False)
    conf.set("spark.jars", ",".join(map(str, jars))).set("spark.jars.packages", "")
    conf.set("spark.driver.memory", "256m")
    conf.set("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    os.environ["PYSPARK_SUBMIT_ARGS"] = "pyspark-shell"
    return launch_gateway(conf).jvm  # type: ignore[no-untyped-call]


def java_error(problem: BaseException) -> tuple[set[str], str] | None:
    """Return the class names of a Java exception and of its causes, and what it says; None for another exception.

    PySpark turns only its own exceptions into Python's. PySpark 4.3.0."""
    from py4j.protocol import Py4JError, Py4JJavaError

    if not isinstance(problem, Py4JJavaError):
        if isinstance(problem, Py4JError | ConnectionError):
            return set(), f"the JVM does not answer ({problem})"
        return None
    kinds: set[str] = set()
    cause = problem.java_exception
    first = last = str(cause.toString())
    while cause is not None and len(kinds) < 20:
        kinds.add(str(cause.getClass().getSimpleName()))
        last, cause = str(cause.toString()), cause.getCause()
    text = first if len(first) > 20 else last
    return kinds, text.strip().splitlines()[0].rstrip(". ")[:300]
