"""A real Kafka broker for tests: its own process, in KRaft mode, on loopback, from jars that Maven fetches.

Maven keeps what it has fetched, so only the first test run on a machine needs a repository. The connector for Spark is
fetched jar by jar: not every repository has all its parts in one version.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests import parts

Coordinates = tuple[str, str, str]
BROKER: list[Coordinates] = [("org.apache.kafka", "kafka_2.13", "4.1.0")]
CONNECTOR: list[Coordinates] = [
    ("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    ("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.0.0"),
    ("org.apache.kafka", "kafka-clients", "3.9.2"),
    ("org.apache.commons", "commons-pool2", "2.13.1"),
]
_ALONE = "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"


class Missing(Exception):
    """Why something is not to be had."""


def need(name: str, wanted: Sequence[Coordinates], alone: bool) -> list[Path]:
    """The same as `fetch`, for a test that can't do without."""
    try:
        return fetch(name, wanted, alone)
    except Missing as why:
        parts.found("Kafka", str(why))
        raise


def fetch(name: str, wanted: Sequence[Coordinates], alone: bool) -> list[Path]:
    """Jars by their coordinates, `alone` or with all that they need."""
    folder = Path(tempfile.gettempdir()) / f"skyband-test-{name}-{os.getuid()}-{wanted[0][2]}"
    if not (folder / "done").exists():
        if shutil.which("mvn") is None:
            parts.install("maven")
        maven = shutil.which("mvn")
        if maven is None:
            raise Missing("there is no mvn to fetch it with: apt-get install maven")
        work = Path(tempfile.mkdtemp(prefix="skyband-mvn-"))
        pieces = "".join(
            f"<dependency><groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>"
            f"{_ALONE if alone else ''}</dependency>"
            for group, artifact, version in wanted
        )
        (work / "pom.xml").write_text(
            "<project><modelVersion>4.0.0</modelVersion>"
            f"<groupId>skyband</groupId><artifactId>{name}</artifactId><version>1</version>"
            f"<dependencies>{pieces}</dependencies></project>"
        )
        command = [
            str(maven),
            "-q",
            "-B",
            "dependency:copy-dependencies",
            f"-DoutputDirectory={work / 'jars'}",
        ]
        try:
            done = subprocess.run(command, cwd=work, capture_output=True, text=True, timeout=250)
        except subprocess.TimeoutExpired:
            raise Missing(f"mvn could not fetch {name} in four minutes") from None
        last = (done.stdout.strip().splitlines() or ["nothing"])[0][:300]
        if done.returncode:
            raise Missing(f"mvn could not fetch {name}: {last}")
        (work / "jars" / "done").touch()
        with contextlib.suppress(OSError):  # another test process may have been quicker
            (work / "jars").rename(folder)
        shutil.rmtree(work, ignore_errors=True)
    return sorted(folder.glob("*.jar"))


def free_port() -> int:
    """A port that nobody is given who asks for any: it has to be free still when a process has started."""
    for port in random.SystemRandom().sample(range(15_000, 30_000), 1000):
        with contextlib.suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


class Broker:
    """One broker and its folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, controller = free_port(), free_port()
        self.bootstrap = f"127.0.0.1:{self.port}"
        self._jars = os.pathsep.join(map(str, need("broker", BROKER, alone=False)))
        self._process: subprocess.Popen[bytes] | None = None
        folder.mkdir(parents=True, exist_ok=True)
        self._settings = folder / "server.properties"
        self._settings.write_text(
            f"process.roles=broker,controller\nnode.id=1\n"
            f"controller.quorum.voters=1@127.0.0.1:{controller}\n"
            f"listeners=PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{controller}\n"
            f"advertised.listeners=PLAINTEXT://127.0.0.1:{self.port}\ncontroller.listener.names=CONTROLLER\n"
            f"log.dirs={folder / 'logs'}\nnum.partitions=2\noffsets.topic.replication.factor=1\n"
            f"offsets.topic.num.partitions=1\ntransaction.state.log.replication.factor=1\n"
            f"transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n"
        )
        self._java(
            "kafka.tools.StorageTool", "format", "-t", "c2t5YmFuZC10ZXN0cw", "-c", str(self._settings)
        ).wait()

    def _java(self, *command: str) -> subprocess.Popen[bytes]:
        from skyband.spark.session.java import find_java

        java = [str(find_java() / "bin" / "java"), "-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
        with open(self.folder / "broker.log", "ab") as log:
            return subprocess.Popen(
                [*java, "-cp", self._jars, *command], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip

    def start(self) -> None:
        self._process = self._java("kafka.Kafka", str(self._settings))
        print(
            f"Kafka broker: process {self._process.pid} on {self.bootstrap}, log {self.folder / 'broker.log'}"
        )
        end = time.monotonic() + 120
        while time.monotonic() < end:
            assert self._process.poll() is None, (self.folder / "broker.log").read_text()[-2000:]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
                return
            time.sleep(0.2)
        raise AssertionError("the broker doesn't listen")

    def kill(self) -> None:
        """kill -9."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def topic(self, name: str, partitions: int, **configs: str) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        admin.close()

    def more_partitions(self, name: str, partitions: int) -> None:
        from kafka.admin import KafkaAdminClient

        admin = KafkaAdminClient(bootstrap_servers=self.bootstrap)
        admin.create_partitions({name: partitions})
        admin.close()

    def send(self, topic: str, records: Sequence[tuple[int, bytes | None]]) -> None:
        """Records as (partition, value), in this order."""
        with self.producer() as producer:
            for partition, value in records:
                producer.send(topic, key=b"" if value is None else None, value=value, partition=partition)
            producer.flush(timeout=60)

    @contextlib.contextmanager
    def producer(self, **options: str) -> Iterator[Any]:
        from kafka import KafkaProducer

        made = KafkaProducer(bootstrap_servers=self.bootstrap, acks="all", linger_ms=5, **options)
        try:
            yield made
        finally:
            made.close(timeout=5)

    def read(self, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
        """All records of a topic: partition, key, value."""
        return [(r.partition, r.key, r.value) for r in self.records(topic)]

    def records(self, topic: str, committed: bool = False) -> list[Any]:
        """All records of a topic, as kafka-python has them; `committed`: those of transactions that are done."""
        from kafka import KafkaConsumer, TopicPartition

        level = "read_committed" if committed else "read_uncommitted"
        consumer = KafkaConsumer(bootstrap_servers=self.bootstrap, isolation_level=level)
        there = [TopicPartition(topic, p) for p in sorted(consumer.partitions_for_topic(topic) or ())]
        ends = consumer.end_offsets(there)
        consumer.assign(there)
        consumer.seek_to_beginning(*there)
        found = []
        while any(consumer.position(one) < ends[one] for one in there):
            for records in consumer.poll(timeout_ms=1000).values():
                found += records
        consumer.close()
        return found


@contextlib.contextmanager
def broker(folder: Path) -> Iterator[Broker]:
    made = Broker(folder)
    made.start()
    try:
        yield made
    finally:
        made.kill()
