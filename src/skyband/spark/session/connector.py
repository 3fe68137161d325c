"""Spark's Kafka connector, by Maven coordinates.

The connector doesn't come with PySpark. Spark fetches it itself (`spark.jars.packages`), from the local Maven
repository or from Maven Central, and it has to be made for the Spark that runs. Where the matching one isn't to be
had, the connector of the minor version before runs as well: the tests use 4.2's on 4.3, where 4.0's fails for want of
a class. So the matching one is tried first, then that of the minor before, with a line that says so. A pipeline that
names a connector in [spark], by `jars.packages` or `jars`, gets that one and no other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from skyband.spark.config import Pipeline

# before what it says
_REFUSED = re.compile(r"(Caused by: |: )?java\.lang\.IllegalArgumentException: ")
_ARTIFACT = "org.apache.spark:spark-sql-kafka-0-10_2.13"
# Spark has these itself. A local Maven repository often has their descriptions alone, and the resolver stops at that.
EXCLUDED = "com.google.code.findbugs:jsr305,org.scala-lang.modules:scala-parallel-collections_2.13"


def needs_kafka(pipeline: Pipeline) -> bool:
    """Whether a stream or the sink of a pipeline is Kafka's, and Spark's connector reads or writes it."""
    sink = pipeline.sink.format == "kafka" and "progress_topic" not in dict(pipeline.sink.options)
    return sink or any(s.format == "kafka" for s in pipeline.streams)


def connectors(version: str, settings: Mapping[str, str]) -> Iterator[str | None]:
    """Values of spark.jars.packages to try, best first; None: leave it as it is."""
    named = settings.get("spark.jars.packages", "")
    if "spark-sql-kafka" in named or "kafka" in settings.get("spark.jars", ""):
        yield None
        return
    major, minor = version.split(".")[:2]
    versions = [version, f"{major}.{minor}.0", f"{major}.{max(0, int(minor) - 1)}.0"]
    for one in dict.fromkeys(versions):
        yield ",".join(filter(None, [named, f"{_ARTIFACT}:{one}"]))


def kafka_sentence(text: str, pipeline: Pipeline) -> str | None:
    """What is to be said of a failure that is Kafka's; None if it isn't."""
    options = [*(dict(s.options) for s in pipeline.streams), dict(pipeline.sink.options)]
    brokers = {o["kafka.bootstrap.servers"] for o in options if "kafka.bootstrap.servers" in o}
    where = " and ".join(sorted(brokers))
    if "Failed to find the data source: kafka" in text or "Failed to find data source: kafka" in text:
        return (
            "This Spark session has no Kafka connector: start it with spark.jars.packages = "
            f"{_ARTIFACT}: and the version of Spark."
        )
    if "KAFKA_DATA_LOSS" in text or "failOnDataLoss" in text:
        return (
            f"Kafka at {where} no longer has records that the pipeline has not read yet: they were deleted, or the "
            f"topic was made again; start again with an empty checkpoint and output folder, or go on without them with "
            f"options = {{failOnDataLoss = false}} in the stream."
        )
    if "UnknownTopicOrPartition" in text:
        return f"Kafka at {where} has no such topic: make it, or see to 'topic' in the pipeline file."
    if "org.apache.kafka" in text or "kafka010" in text:
        lines = [line.strip() for line in text.splitlines()]
        causes = [line for line in lines if "org.apache.kafka" in line and "Exception" in line]
        refused = [line for line in lines if _REFUSED.match(line)]
        if refused and not causes:
            said = _REFUSED.sub("", refused[-1])[:300].rstrip(".")
            return (
                f"Spark's connector does not take the settings of Kafka at {where} ({said}): see to 'topic' and "
                f"'options' in the pipeline file."
            )
        reason = (causes or lines)[-1].rpartition("org.apache.kafka.common.")[2].strip()
        return (
            f"Kafka at {where} does not answer ({reason[:200]}): see to the broker; the next start goes on where this "
            f"one stopped."
        )
    return None


def unresolved(log: str) -> bool:
    """Whether Spark's log says that a package could not be found, or not be fetched."""
    return "unresolved dependency" in log or "download failed" in log
