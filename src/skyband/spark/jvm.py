"""Everything of PySpark that skyband uses and that is not public. No other module has any of it; a test looks.

Each function says why nothing public serves, and on which versions of PySpark it was tried.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def is_started() -> bool:
    """Whether this process has a JVM or a Spark context already.

    `SparkSession.getActiveSession` returns only this thread's session. PySpark 4.3.0."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context is not None or SparkContext._gateway is not None


def launch(settings: Mapping[str, str], log: Path) -> None:
    """Start the JVM with a file for what it writes.

    PySpark gives the JVM this process's standard error, where it would write between the lines of a terminal's live
    view; there is no setting for that. PySpark 4.3.0."""
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

    `session.streams` adds and removes listeners, but doesn't list them. PySpark 4.3.0."""
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
