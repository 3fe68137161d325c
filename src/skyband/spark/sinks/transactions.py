"""Exactly once into Kafka: each batch is one transaction, which holds a record of its own progress.

The progress record's key is the name of the checkpoint's query, its value the batch. It appears together with the
batch's records or not at all. A start fences and aborts what a killed driver left open, then reads the last progress
record: a batch that it names is committed, and is not sent again.

The topic of progress records has one partition and is compacted, so the last record of each pipeline stays, however
long the pipeline rests (offsets of a consumer group would expire). A transaction of another pipeline may be open in
it: the start waits for that one's end, as a reader of committed records sees nothing behind it.

Spark's connector has no transactions, and the JVM's client is out of public reach; so kafka-python sends, from the
driver, which has the records anyway.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from skyband.core.errors import InputError

_LONGEST = 180.0  # seconds for a commit, or for another pipeline's transaction to end
_OFTEN = 2000  # records between two looks at what became of those that are under way


class Record(NamedTuple):
    """A record as it goes to Kafka; without a value it is a tombstone."""

    topic: str
    key: str | None
    value: bytes | None
    headers: list[tuple[str, bytes]]


class Transactions:
    """The producer of one pipeline; `put` is called for each batch, in order, and may be called again for the last."""

    def __init__(self, options: Mapping[str, str], progress: str) -> None:
        try:
            import kafka
        except ImportError as problem:
            raise InputError(
                f"delivery = 'exactly-once' needs kafka-python ({problem}): install it with 'pip install "
                f"skyband[kafka]'."
            ) from None
        self._settings = settings_of(options, kafka.KafkaProducer.DEFAULT_CONFIG)
        common = {*kafka.KafkaConsumer.DEFAULT_CONFIG} & {*kafka.KafkaAdminClient.DEFAULT_CONFIG}
        self._common = {name: value for name, value in self._settings.items() if name in common}
        self._topic = progress
        self._producer: Any = None
        self._done = -1  # the last batch that is committed

    def put(self, name: str, batch: int, records: list[Record]) -> None:
        """Send a batch's records in one transaction, unless an earlier one has."""
        if self._producer is None:
            self._open(name)
        if batch <= self._done:
            return
        try:
            self._producer.begin_transaction()
            self._send(records)
            note = json.dumps({"batch": batch}).encode()
            self._producer.send(self._topic, key=name.encode(), value=note, partition=0)
            _within(_LONGEST, self._producer.commit_transaction)
        except Exception as problem:
            with contextlib.suppress(Exception):
                _within(10, self._producer.abort_transaction)
            raise _named(problem, name) from problem
        self._done = batch

    def close(self) -> None:
        if self._producer is not None:
            self._producer.close(timeout=5)
            self._producer = None

    def _send(self, records: list[Record]) -> None:
        sent = []
        for record in records:
            key = None if record.key is None else record.key.encode()
            sent.append(self._producer.send(record.topic, record.value, key, record.headers))
            if len(sent) == _OFTEN:
                _arrived(sent)
                sent = []
        _arrived(sent)

    def _open(self, name: str) -> None:
        from kafka import KafkaProducer

        self._make_topic()
        producer = KafkaProducer(**{**self._settings, "transactional_id": name})
        try:
            producer.init_transactions()
            self._done = self._last(name)
        except Exception:
            producer.close(timeout=0)
            raise
        self._producer = producer

    def _make_topic(self) -> None:
        """Make the topic of progress records; an error if one is there from which the last record may go."""
        from kafka import KafkaAdminClient
        from kafka.admin import ConfigResource, NewTopic
        from kafka.errors import TopicAlreadyExistsError

        admin = KafkaAdminClient(**self._common)
        try:
            with contextlib.suppress(TopicAlreadyExistsError):
                compact = {"cleanup.policy": "compact"}
                admin.create_topics([NewTopic(self._topic, 1, -1, topic_configs=compact)])
                return
            described = admin.describe_configs([ConfigResource("topic", self._topic)])
            if "compact" not in _policy(described):
                raise InputError(
                    f"The topic '{self._topic}' is not compacted, so the record of what was sent could go: set its "
                    f"cleanup.policy to compact, or name another 'progress_topic' in [sink]."
                )
        finally:
            admin.close()

    def _last(self, name: str) -> int:
        """Return the last batch whose transaction was committed; -1 if there is none."""
        from kafka import KafkaConsumer, TopicPartition

        here = TopicPartition(self._topic, 0)
        consumer = KafkaConsumer(
            **{**self._common, "isolation_level": "read_uncommitted", "enable_auto_commit": False}
        )
        try:
            end = consumer.end_offsets([here])[here]
        finally:
            consumer.close()
        consumer = KafkaConsumer(
            **{**self._common, "isolation_level": "read_committed", "enable_auto_commit": False}
        )
        try:
            consumer.assign([here])
            consumer.seek_to_beginning(here)
            found, until = -1, time.monotonic() + _LONGEST
            while consumer.position(here) < end:
                for record in consumer.poll(timeout_ms=500).get(here, ()):
                    if record.key == name.encode() and record.value is not None:
                        found = int(json.loads(record.value)["batch"])
                if time.monotonic() > until:
                    raise InputError(
                        f"The topic '{self._topic}' has a transaction of another pipeline that does not end: start "
                        f"that pipeline, or name another 'progress_topic' in [sink]."
                    )
            return found
        finally:
            consumer.close()


def settings_of(options: Mapping[str, str], known: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sink's options as kafka-python's settings: `kafka.security.protocol` is `security_protocol`."""
    found: dict[str, Any] = {}
    for option, text in options.items():
        name = option.removeprefix("kafka.").replace(".", "_")
        if not option.startswith("kafka.") or name not in known or name == "transactional_id":
            raise InputError(
                f"With delivery = 'exactly-once' [sink] can't have the option '{option}': 'options' are kafka-python's "
                f"settings of a producer, with dots and 'kafka.' before them, such as 'kafka.security.protocol'."
            )
        try:
            found[name] = _as(text, known[name])
        except ValueError:
            raise InputError(
                f"The option '{option}' of [sink] must be a {type(known[name]).__name__}, not '{text}'."
            ) from None
    return found


def _as(text: str, like: Any) -> Any:
    """Return an option's text as a value of the same type as another."""
    if isinstance(like, bool):
        if text.lower() not in ("true", "false"):
            raise ValueError
        return text.lower() == "true"
    if isinstance(like, int | float):
        return type(like)(text)
    return text


def _policy(described: Any) -> str:
    """Return the cleanup.policy in what the broker says of a topic's settings, in whatever shape."""
    if isinstance(described, Mapping):
        if "cleanup.policy" in described:
            return str(described["cleanup.policy"])
        described = described.values()
    if isinstance(described, str) or not hasattr(described, "__iter__"):
        return ""
    return "".join(map(_policy, described))


def _arrived(sent: list[Any]) -> None:
    """Wait until the broker has these records; an error if it does not take one."""
    for future in sent:
        future.get(timeout=_LONGEST)


def _within(seconds: float, do: Callable[[], None]) -> None:
    """Do something that waits for a broker, but not for ever."""
    problems: list[BaseException] = []

    def run() -> None:
        try:
            do()
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=run, name="skyband-kafka", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        raise TimeoutError(f"the broker has not answered for {seconds:.0f} seconds")
    if problems:
        raise problems[0]


def _named(problem: Exception, name: str) -> Exception:
    """Return a sentence if another process has taken over; else the problem itself."""
    from kafka.errors import InvalidProducerEpochError, ProducerFencedError

    if isinstance(problem, InvalidProducerEpochError | ProducerFencedError):
        return InputError(
            f"Another process sends to Kafka as {name}: two pipelines may not run on copies of one checkpoint; stop "
            f"one of them."
        )
    return problem
