"""pipeline.toml: what to read, what to ask, where the answers go.

The file is read once, into frozen dataclasses, and every mistake in it is one sentence that names the
table, the key and, for a misspelt one, the nearest that exists. Paths in it are relative to the file itself,
so that a pipeline can be started from anywhere.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from skyband.core.errors import InputError, QueryError
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import Place, place_of
from skyband.stream.clock import UNITS

FILES = ("parquet", "csv", "json")
OUR_SOURCE = ""  # the name of the one source of all streams of files, in what the checkpoint remembers
FORMATS = (*FILES, "kafka", "rate")
SINKS = ("parquet", "json", "kafka", "postgres", "sqlite", "console")
VALUES = ("json", "arrow", "avro", "protobuf")  # what the value of a Kafka record may be
_REGISTERED = {
    "avro": "fastavro",
    "protobuf": "google.protobuf",
}  # those with a schema registry, and what reads them
KEYS = ("query", "change", "rank", "seq", "seq_b", "id")  # columns of a change that may be its record's key
DELIVERIES = ("at-least-once", "exactly-once")
TABLES = {name: f"skyband_{name}" for name in ("changes", "top", "rejects", "batches")}
_GONE = {key: "Spark's tasks always read" for key in ("reading", "jvm_rows")}  # of [spark]
_MILLISECONDS = {"millisecond": 1, "second": 1000, "minute": 60_000, "hour": 3_600_000, "day": 86_400_000}
_KAFKA_SINK = (
    *("bootstrap", "topic", "rejects_topic", "top_topic", "progress_topic"),
    *("values", "registry", "key", "delivery", "options"),
)
_LONGEST = 10**15  # milliseconds between two micro-batches: more is beyond what Spark counts with
_TYPES = (
    "double, float, int, long, short, byte, bool, string, date, timestamp, timestamp_utc or decimal(p, s)"
)


@dataclass(frozen=True)
class StreamSpec:
    """One [stream.NAME] table."""

    name: str
    format: str
    path: Place
    text: str  # the path as the file has it: what the checkpoint remembers
    time: str | None = None
    time_unit: str | None = None  # of a time column of numbers
    max_ahead: str | None = None  # how far ahead of the latest time a row may be stamped before it waits
    strict: bool = False  # whether a batch that is not as expected stops the pipeline
    max_files: int | None = None
    schema: tuple[tuple[str, str], ...] | None = None
    key: str | None = None  # of an update stream
    op: str | None = None
    options: tuple[tuple[str, str], ...] = ()  # of a stream that is no files: what Spark's own source takes
    values: str = "json"  # what a Kafka record's value is
    registry: str | None = None  # of Avro and Protobuf: the URL of the schema registry

    @property
    def files(self) -> bool:
        """Whether the stream is files, which we read ourselves; else Spark's own source gives its records."""
        return self.format in FILES


@dataclass(frozen=True)
class QuerySpec:
    """One [[query]]."""

    name: str
    sql: str


@dataclass(frozen=True)
class SinkSpec:
    """The [sink] table."""

    format: str = "console"
    path: Place | None = None
    options: tuple[tuple[str, str], ...] = ()  # tables, topics, where the database or the broker is

    def option(self, name: str) -> str:
        return dict(self.options)[name]


@dataclass(frozen=True)
class SparkSpec:
    """The [spark] table: our own keys, and everything else for Spark's configuration."""

    checkpoint: Place
    master: str = "local[*]"
    trigger: str | None = None
    placement: str = "auto"
    prune_rows: int | None = None
    shards: int | None = None  # in the executors placement
    conf: tuple[tuple[str, str], ...] = field(default=())

    @property
    def local(self) -> bool:
        """Whether Spark runs in the driver's own process."""
        return re.fullmatch(r"local(\[.*\])?", self.master) is not None


@dataclass(frozen=True)
class MetricsSpec:
    """The [metrics] table: where Prometheus may read."""

    port: int
    host: str = "127.0.0.1"


@dataclass(frozen=True)
class Pipeline:
    """A whole pipeline file."""

    file: Path
    streams: tuple[StreamSpec, ...]
    queries: tuple[QuerySpec, ...]
    sink: SinkSpec
    spark: SparkSpec
    metrics: MetricsSpec | None = None

    @property
    def is_stored(self) -> bool:
        """Whether a path is a URI of a store, which takes a JVM to reach."""
        places = [self.spark.checkpoint, self.sink.path, *(s.path for s in self.streams if s.files)]
        return any(isinstance(place, HadoopPath) for place in places)

    def monitor_options(self) -> dict[str, Any]:
        """The options of a monitor of these streams: each by stream."""
        return {
            name: {s.name: getattr(s, name) for s in self.streams if getattr(s, name) is not None} or None
            for name in ("time", "key", "op", "time_unit", "max_ahead")
        }


def load_pipeline(path: str | Path) -> Pipeline:
    """Read a pipeline file, or say in one sentence what is wrong with it."""
    file = Path(path)
    try:
        document = tomllib.loads(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise InputError(f"There is no pipeline file {file}; give the path of one.") from None
    except IsADirectoryError:
        raise InputError(f"{file} is a folder; give the path of a pipeline file in it.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as problem:
        raise InputError(f"{file} is not valid TOML: {problem}.") from None
    return parse_pipeline(document, file)


def sources_of(pipeline: Pipeline) -> tuple[str, ...]:
    """The sources in the order of Spark's offset log, by their streams' names."""
    files = (OUR_SOURCE,) if any(spec.files for spec in pipeline.streams) else ()
    return (*files, *(spec.name for spec in pipeline.streams if not spec.files))


def check_query(pipeline: Pipeline, query: QuerySpec) -> None:
    """Refuse a query that is none, or one about another stream."""
    _Reader(pipeline.file).check_sql(query, [stream.name for stream in pipeline.streams])


def parse_pipeline(document: Mapping[str, Any], file: Path) -> Pipeline:
    """A parsed TOML document as a pipeline; `file` says what its paths are relative to."""
    reader = _Reader(file)
    reader.known("the file", document, ("stream", "query", "sink", "spark", "metrics"))
    streams = reader.streams(document.get("stream"))
    return Pipeline(
        file=file,
        streams=streams,
        queries=reader.queries(document.get("query"), [s.name for s in streams]),
        sink=reader.sink(document.get("sink", {})),
        spark=reader.spark(document.get("spark", {})),
        metrics=reader.metrics(document.get("metrics")),
    )


class _Reader:
    """Turns tables into dataclasses; holds the file's name for the sentences."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.base = file.parent

    def fail(self, text: str) -> InputError:
        return InputError(f"{self.file.name}: {text}")

    def known(self, where: str, table: Mapping[str, Any], keys: Iterable[str]) -> None:
        """Refuse a key that means nothing here."""
        keys = list(keys)
        for key in table:
            if key not in keys:
                near = difflib.get_close_matches(key, keys, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"it may have {_list(keys)}."
                raise self.fail(f"{where} has an unknown key '{key}'; {hint}")

    def table(self, where: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.fail(f"{where} must be a table.")
        return value

    def text(self, where: str, table: Mapping[str, Any], key: str, default: str | None = None) -> str:
        value = table.get(key, default)
        if value is None:
            raise self.fail(f"{where} needs a key '{key}'.")
        if not isinstance(value, str) or not value.strip():
            raise self.fail(f"'{key}' of {where} must be a text, not {value!r}.")
        return value

    def path(
        self, where: str, table: Mapping[str, Any], key: str = "path", default: str | None = None
    ) -> Place:
        try:
            found = place_of(self.text(where, table, key, default))
            return self.base / found if isinstance(found, Path) else found
        except InputError as problem:
            raise self.fail(f"'{key}' of {where}: {problem}") from None

    def duration(self, where: str, table: Mapping[str, Any], key: str) -> str | None:
        from skyband.query.window import duration

        if key not in table:
            return None
        try:
            return str(duration(key, table[key]))
        except QueryError:
            raise self.fail(
                f"'{key}' of {where} must be a duration such as \"5 minutes\", not {table[key]!r}."
            ) from None

    def count(self, where: str, table: Mapping[str, Any], key: str, least: int) -> int | None:
        value = table.get(key)
        if value is None:
            return None
        if not isinstance(value, int) or isinstance(value, bool) or value < least:
            raise self.fail(f"'{key}' of {where} must be a whole number of at least {least}, not {value!r}.")
        return value

    def choice(self, where: str, key: str, value: str, there: Iterable[str]) -> str:
        there = list(there)
        if value not in there:
            near = difflib.get_close_matches(value, there, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there is {_list(there)}."
            raise self.fail(f"{key} '{value}' of {where} is unknown; {hint}")
        return value

    def streams(self, value: Any) -> tuple[StreamSpec, ...]:
        if not value:
            raise self.fail("there is no stream; add a table [stream.NAME] with format and path.")
        return tuple(self.stream(name, table) for name, table in self.table("[stream]", value).items())

    def stream(self, name: str, value: Any) -> StreamSpec:
        where = f"[stream.{name}]"
        table = self.table(where, value)
        form = self.text(where, table, "format", "parquet")
        self.choice(where, "format", form, FORMATS)
        own = {
            "kafka": ("bootstrap", "topic", "values", "registry", "starting", "max_records", "options"),
            "rate": ("rows_per_second",),
        }.get(form, ("path", "max_files"))
        every = ("time", "time_unit", "max_ahead", "strict", "schema", "key", "op")
        self.known(where, table, ("format", *own, *every))
        if not isinstance(table.get("strict", False), bool):
            raise self.fail(f"'strict' of {where} must be true or false, not {table['strict']!r}.")
        if "op" in table and "key" not in table:
            raise self.fail(f"{where} has 'op' and needs 'key' too: the column that names the row.")
        if "time_unit" in table and "time" not in table:
            raise self.fail(
                f"{where} has 'time_unit' and needs 'time' too: the column of numbers that it is of."
            )
        if "max_ahead" in table and "time" not in table:
            raise self.fail(
                f"{where} has 'max_ahead' and needs 'time' too: the column that says how far ahead a row is."
            )
        if form == "kafka":
            text, options = self.kafka(where, table)
        elif form == "rate":
            text, options = (
                "rate",
                (("rowsPerSecond", str(self.count(where, table, "rows_per_second", 1) or 1)),),
            )
        else:
            text, options = self.text(where, table, "path"), ()
        values, registry = self.values(where, table)
        return StreamSpec(
            name=name,
            format=form,
            path=Path(text) if options else self.path(where, table),
            text=text,
            options=options,
            values=values,
            registry=registry,
            time=self.text(where, table, "time") if "time" in table else None,
            time_unit=self.choice(where, "time_unit", self.text(where, table, "time_unit"), UNITS)
            if "time_unit" in table
            else None,
            max_ahead=self.duration(where, table, "max_ahead"),
            strict=table.get("strict", False),
            max_files=self.count(where, table, "max_files", 1),
            schema=self.schema(where, table.get("schema")),
            key=self.text(where, table, "key") if "key" in table else None,
            op=self.text(where, table, "op") if "op" in table else None,
        )

    def values(self, where: str, table: Mapping[str, Any]) -> tuple[str, str | None]:
        """What the values of records are, and the registry that has their schemas."""
        values = self.choice(where, "values", self.text(where, table, "values", "json"), VALUES)
        if values not in _REGISTERED:
            if "registry" in table:
                raise self.fail(f"{where} has 'registry' and needs values = 'avro' or 'protobuf' too.")
            return values, None
        url = self.text(where, table, "registry")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self.fail(
                f"'registry' of {where} must be the URL of a schema registry, such as http://registry:8081."
            )
        try:
            import_module(_REGISTERED[values])
        except ImportError as problem:
            raise self.fail(
                f"values = '{values}' of {where} needs {_REGISTERED[values]} ({problem}): install it with 'pip install "
                f"skyband[kafka]'."
            ) from None
        return values, url

    def kafka(self, where: str, table: Mapping[str, Any]) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The topic, and the options of Spark's own source."""
        if "schema" not in table:
            raise self.fail(
                f'{where} needs a key \'schema\', such as schema = {{ts = "timestamp", x = "double"}}.'
            )
        topic = self.text(where, table, "topic")
        starting = self.text(where, table, "starting", "earliest")
        options = {
            "kafka.bootstrap.servers": self.text(where, table, "bootstrap"),
            "subscribe": topic,
            "startingOffsets": self.choice(where, "starting", starting, ("earliest", "latest")),
        }
        most = self.count(where, table, "max_records", 1)
        if most is not None:
            options["maxOffsetsPerTrigger"] = str(most)
        return topic, tuple({**options, **self.further(where, table)}.items())

    def further(self, where: str, table: Mapping[str, Any]) -> dict[str, str]:
        """Options for Spark's own source or sink as they are."""
        more = self.table(f"'options' of {where}", table.get("options", {}))
        return {key: str(value) for key, value in _flat(more)}

    def schema(self, where: str, value: Any) -> tuple[tuple[str, str], ...] | None:
        if value is None:
            return None
        found = []
        for column, kind in self.table(f"'schema' of {where}", value).items():
            if not isinstance(kind, str) or arrow_type(kind) is None:
                raise self.fail(
                    f"column '{column}' in 'schema' of {where} has the unknown type {kind!r}; there is {_TYPES}."
                )
            found.append((column, kind))
        return tuple(found)

    def queries(self, value: Any, streams: list[str]) -> tuple[QuerySpec, ...]:
        if not value:
            raise self.fail("there is no query; add a table [[query]] with name and sql.")
        if not isinstance(value, list):
            raise self.fail("queries are a list: write [[query]] in double brackets.")
        found: dict[str, QuerySpec] = {}
        for number, table in enumerate(value, 1):
            query = self.query(f"[[query]] number {number}", self.table(f"[[query]] number {number}", table))
            if query.name in found:
                raise self.fail(f"two queries are named '{query.name}'; give each its own name.")
            self.check_sql(query, streams)
            found[query.name] = query
        return tuple(found.values())

    def query(self, where: str, table: Mapping[str, Any]) -> QuerySpec:
        self.known(where, table, ("name", "sql"))
        return QuerySpec(self.text(where, table, "name"), self.text(where, table, "sql"))

    def check_sql(self, query: QuerySpec, streams: list[str]) -> None:
        from skyband.query.model import Joined
        from skyband.query.sql.parser import parse

        try:
            model = parse(query.sql)
        except QueryError as problem:
            raise QueryError(f"{self.file.name}: query '{query.name}': {problem}") from None
        named: Iterable[str | None] = model.streams if isinstance(model, Joined) else [model.stream]
        if len(streams) == 1 and not isinstance(model, Joined):
            named = []  # the one stream's name is free
        for stream in named:
            if stream is None or stream in streams:
                continue
            near = difflib.get_close_matches(stream, streams, 1)
            hint = f"did you mean '{near[0]}'?" if near else f"there is {_list(streams)}."
            raise QueryError(
                f"{self.file.name}: query '{query.name}' reads the stream '{stream}', which does not exist; {hint}"
            )

    def sink(self, value: Any) -> SinkSpec:
        where = "[sink]"
        table = self.table(where, value)
        form = self.text(where, table, "format", "parquet" if "path" in table else "console")
        self.choice(where, "format", form, SINKS)
        own = {
            "console": (),
            "kafka": _KAFKA_SINK,
            "postgres": ("url", "dsn", *TABLES),
            "sqlite": ("path", *TABLES),
        }.get(form, ("path",))
        self.known(where, table, ("format", *own))
        path = self.path(where, table) if "path" in own else None
        if form == "sqlite" and isinstance(path, HadoopPath):
            raise self.fail(
                f"'path' of {where}: SQLite's file must be on a disk of the driver's machine, not {path}."
            )
        options: dict[str, str] = {}
        if form in ("postgres", "sqlite"):
            options = {name: self.name(where, table, name) for name in TABLES}
        if form == "postgres":
            options["url"] = self.text(where, table, "dsn" if "dsn" in table else "url")
        if form == "kafka":
            options = self.kafka_sink(where, table)
        return SinkSpec(form, path, tuple(options.items()))

    def kafka_sink(self, where: str, table: Mapping[str, Any]) -> dict[str, str]:
        """Our own options of the sink, and those of Spark's connector or of the client with transactions."""
        topic = self.text(where, table, "topic")
        options = {
            "kafka.bootstrap.servers": self.text(where, table, "bootstrap"),
            "topic": topic,
            "rejects_topic": self.text(where, table, "rejects_topic", f"{topic}-rejects"),
        }
        options["values"], registry = self.values(where, table)
        if registry is not None:
            options["registry"] = registry
        if "top_topic" in table:
            options["top_topic"] = self.text(where, table, "top_topic")
        if "key" in table:
            if options["values"] == "arrow":
                raise self.fail(
                    f"{where} has 'key', and with values = 'arrow' a record is many changes; leave one out."
                )
            columns = table["key"] if isinstance(table["key"], list) else [self.text(where, table, "key")]
            if not columns:
                raise self.fail(
                    f"'key' of {where} must be a column or a list of columns, such as key = 'id'."
                )
            options["key"] = ",".join(self.choice(where, "key", str(column), KEYS) for column in columns)
        delivery = self.choice(
            where, "delivery", self.text(where, table, "delivery", DELIVERIES[0]), DELIVERIES
        )
        if delivery == "exactly-once":
            options["progress_topic"] = self.text(where, table, "progress_topic", f"{topic}-progress")
        elif "progress_topic" in table:
            raise self.fail(f"{where} has 'progress_topic' and needs delivery = 'exactly-once' too.")
        topics = [name for key, name in options.items() if key == "topic" or key.endswith("_topic")]
        for key in ("top_topic", "progress_topic"):
            if topics.count(options.get(key, "")) > 1:
                raise self.fail(f"'{key}' of {where} is another topic's name too; give it its own.")
        return {**options, **self.further(where, table)}

    def name(self, where: str, table: Mapping[str, Any], key: str) -> str:
        """The name of a table in a database."""
        name = self.text(where, table, key, TABLES[key])
        if re.fullmatch(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?", name) is None:
            raise self.fail(
                f"'{key}' of {where} must be the name of a table, of letters, digits and _, not '{name}'."
            )
        return name

    def metrics(self, value: Any) -> MetricsSpec | None:
        if value is None:
            return None
        table = self.table("[metrics]", value)
        self.known("[metrics]", table, ("port", "host"))
        port = self.count("[metrics]", table, "port", 0)
        if port is None or port > 65535:
            raise self.fail("[metrics] needs a key 'port', a number of at most 65535.")
        return MetricsSpec(port, self.text("[metrics]", table, "host", MetricsSpec.host))

    def spark(self, value: Any) -> SparkSpec:
        where = "[spark]"
        table = self.table(where, value)
        own = ("master", "checkpoint", "trigger", "placement", "prune_rows", "shards")
        for key, why in _GONE.items():
            if key in table:
                raise self.fail(f"'{key}' of {where} is gone: {why}; remove the line.")
        if isinstance(table.get("ui"), bool):
            table = {**table, "ui": {"enabled": table["ui"]}}
        elif "ui" in table:
            self.table("'ui' (true, false or settings of spark.ui)", table["ui"])
        conf: dict[str, str] = {}
        for key, setting in _flat({k: v for k, v in table.items() if k not in own}):
            if "." not in key and key != "jars":
                self.known(where, {key: setting}, own)
            name = key if key.startswith("spark.") else f"spark.{key}"
            conf[name] = str(setting).lower() if isinstance(setting, bool) else str(setting)
        placement = self.text(where, table, "placement", "auto")
        self.choice(where, "placement", placement, ("auto", "driver", "executors"))
        return SparkSpec(
            checkpoint=self.path(where, table, "checkpoint", "checkpoint"),
            master=self.text(where, table, "master", "local[*]"),
            trigger=self.trigger(where, table),
            placement=placement,
            prune_rows=self.count(where, table, "prune_rows", 0),
            shards=self.count(where, table, "shards", 1),
            conf=tuple(conf.items()),
        )

    def trigger(self, where: str, table: Mapping[str, Any]) -> str | None:
        if "trigger" not in table:
            return None
        value = self.text(where, table, "trigger").strip().lower()
        if value == "available-now":
            return value
        found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)\s*((millisecond|second|minute|hour|day)s?)", value)
        length = 0 if found is None else int(Decimal(found[1]) * _MILLISECONDS[found[3]])
        if found is None or length > _LONGEST:
            raise self.fail(
                f"'trigger' of {where} must be a time such as '2 seconds' or 'available-now', not '{value}'."
            )
        # Spark knows parts of seconds, and of nothing else
        return f"{length} milliseconds" if "." in found[1] else f"{found[1]} {found[2]}"


def arrow_type(text: str) -> Any | None:
    """The Arrow type of a type's name in pipeline.toml; None if there is no such name."""
    import pyarrow as pa

    name = text.strip().lower()
    number = re.fullmatch(r"decimal\s*\(\s*(\d+)\s*,\s*(\d+)\s*\)", name)
    if number is not None:
        digits, scale = int(number[1]), int(number[2])
        return pa.decimal128(digits, scale) if 1 <= digits <= 38 and scale <= digits else None
    return {
        "double": pa.float64(),
        "float64": pa.float64(),
        "float": pa.float32(),
        "long": pa.int64(),
        "bigint": pa.int64(),
        "int64": pa.int64(),
        "int": pa.int32(),
        "integer": pa.int32(),
        "int32": pa.int32(),
        "short": pa.int16(),
        "byte": pa.int8(),
        "bool": pa.bool_(),
        "boolean": pa.bool_(),
        "string": pa.string(),
        "text": pa.string(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
        "timestamp_utc": pa.timestamp("us", tz="UTC"),
    }.get(name)


def _flat(table: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """TOML reads `sql.shuffle.partitions = 4` as nested tables; Spark wants the dotted name back."""
    for key, value in table.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _list(words: Iterable[str]) -> str:
    words = list(words)
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]
