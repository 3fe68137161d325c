"""pipeline.toml: what it gives, and the sentence for every mistake."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from skyband.core.errors import SkybandError
from skyband.spark.config import arrow_type, load_pipeline
from skyband.spark.jvm.hadoop import HadoopPath
from skyband.spark.jvm.paths import place_of

WHOLE = """
[stream.flows]
format = "parquet"
path = "data/flows"
time = "ts"
max_files = 1
[stream.events]
format = "csv"
path = "/somewhere/events"
schema = {ts = "timestamp", x = "double"}
[[query]]
name = "talkers"
sql = "SELECT x FROM flows ORDER BY x DESC LIMIT 3 WINDOW 5 MINUTES"
[sink]
format = "json"
path = "out"
[spark]
master = "local[2]"
checkpoint = "state"
trigger = "2 seconds"
prune_rows = 0
sql.shuffle.partitions = 4
"spark.driver.memory" = "3g"
ui.enabled = true
"""


def write(folder: Path, text: str) -> Path:
    path = folder / "pipeline.toml"
    path.write_text(text)
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, WHOLE))
    flows, events = pipeline.streams
    assert (flows.name, flows.format, flows.time, flows.max_files) == ("flows", "parquet", "ts", 1)
    assert flows.path == tmp_path / "data/flows"
    assert events.path == Path("/somewhere/events")
    assert events.schema == (("ts", "timestamp"), ("x", "double"))
    assert [q.name for q in pipeline.queries] == ["talkers"]
    assert (pipeline.sink.format, pipeline.sink.path) == ("json", tmp_path / "out")
    spark = pipeline.spark
    assert (spark.master, spark.checkpoint, spark.trigger) == ("local[2]", tmp_path / "state", "2 seconds")
    assert spark.prune_rows == 0
    assert dict(spark.conf) == {
        "spark.sql.shuffle.partitions": "4",
        "spark.driver.memory": "3g",
        "spark.ui.enabled": "true",
    }


@pytest.mark.parametrize("text", ["ui = false", "ui.enabled = false", '"spark.ui.enabled" = false'])
def test_spark_without_its_ui(tmp_path: Path, text: str) -> None:
    whole = WHOLE.replace("ui.enabled = true", text)
    assert dict(load_pipeline(write(tmp_path, whole)).spark.conf)["spark.ui.enabled"] == "false"


def test_a_mark_before_the_first_letter(tmp_path: Path) -> None:
    """As some editors write it."""
    assert load_pipeline(write(tmp_path, "\ufeff" + WHOLE.strip())) == load_pipeline(write(tmp_path, WHOLE))


def test_a_pipeline_that_stops_by_itself(tmp_path: Path) -> None:
    text = WHOLE.replace("2 seconds", "Available-Now")
    assert load_pipeline(write(tmp_path, text)).spark.trigger == "available-now"


@pytest.mark.parametrize(
    ("told", "trigger"),
    [
        ("2 Minutes", "2 minutes"),
        ("2seconds", "2 seconds"),
        ("1.5 minutes", "90000 milliseconds"),  # Spark itself takes parts of seconds only
        ("0.25 days", "21600000 milliseconds"),
        ("1.2345678901 seconds", "1234 milliseconds"),
    ],
)
def test_triggers(tmp_path: Path, told: str, trigger: str) -> None:
    assert load_pipeline(write(tmp_path, WHOLE.replace("2 seconds", told))).spark.trigger == trigger


STREAM = '[stream.s]\npath = "data"\n'
QUERY = '[[query]]\nname = "q"\nsql = "SELECT * FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"\n'
KAFKA = STREAM + QUERY + '[sink]\nformat = "kafka"\nbootstrap = "b:1"\ntopic = "t"\n'


def test_the_smallest_file(tmp_path: Path) -> None:
    pipeline = load_pipeline(write(tmp_path, STREAM + QUERY))
    assert pipeline.streams[0].format == "parquet"
    assert pipeline.sink.format == "console"
    assert pipeline.spark.checkpoint == tmp_path / "checkpoint"
    assert pipeline.spark.master == "local[*]"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[stream.s", "not valid TOML"),
        (QUERY, "there is no stream; add a table [stream.NAME]"),
        (STREAM, "there is no query; add a table [[query]]"),
        ('[stream.s]\npth = "data"\npath = "x"\n' + QUERY, "unknown key 'pth'; did you mean 'path'?"),
        ("[stream.s]\n" + QUERY, "[stream.s] needs a key 'path'"),
        (
            STREAM + 'format = "parqet"\n' + QUERY,
            "'parqet' of [stream.s] is unknown; did you mean 'parquet'?",
        ),
        (
            STREAM + 'format = "kafka"\n' + QUERY,
            "[stream.s] has an unknown key 'path'; it may have format, bootstrap, topic",
        ),
        ('[stream.s]\nformat = "kafka"\n' + QUERY, "[stream.s] needs a key 'schema', such as"),
        (
            '[stream.s]\nformat = "kafka"\ntopic = "t"\nschema = {x = "double"}\n' + QUERY,
            "[stream.s] needs a key 'bootstrap'",
        ),
        (
            STREAM + 'time = "t"\nmax_ahead = "9 rows"\n' + QUERY,
            "'max_ahead' of [stream.s] must be a duration such as \"5 minutes\", not '9 rows'",
        ),
        (
            STREAM + 'max_ahead = "9 hours"\n' + QUERY,
            "[stream.s] has 'max_ahead' and needs 'time' too",
        ),
        (
            STREAM + "max_files = 0\n" + QUERY,
            "'max_files' of [stream.s] must be a whole number of at least 1",
        ),
        (STREAM + 'schema = {x = "real"}\n' + QUERY, "unknown type 'real'; there is double"),
        (STREAM + "schema = 3\n" + QUERY, "'schema' of [stream.s] must be a table"),
        (STREAM + "time = 3\n" + QUERY, "'time' of [stream.s] must be a text"),
        (STREAM + QUERY + QUERY, "two queries are named 'q'"),
        (STREAM + QUERY + "[spark]\nui = 3\n", "'ui' (true, false or settings of spark.ui) must be a table."),
        (
            STREAM + QUERY + '[sink]\nformat = "sqlite"\npath = "gs://b/out.db"\n',
            "'path' of [sink]: SQLite's file must be on a disk of the driver's machine, not gs://b/out.db.",
        ),
        (
            STREAM.replace("data", "file://elsewhere/in") + QUERY,
            "'path' of [stream.s]: file://elsewhere/in is no file of this machine",
        ),
        (STREAM.replace("data", "file:in") + QUERY, "file:in is no file of this machine: write file:// and"),
        (
            STREAM + QUERY + '[spark]\nreading = "driver"\n',
            "'reading' of [spark] is gone: Spark's tasks always read; remove the line.",
        ),
        (STREAM + '[query]\nname = "q"\n', "write [[query]] in double brackets"),
        (STREAM + '[[query]]\nname = "q"\n', "[[query]] number 1 needs a key 'sql'"),
        (STREAM + '[[query]]\nname = "q"\nsql = "SELECT"\n', "query 'q': "),
        (
            STREAM + '[stream.r]\npath = "r"\n' + QUERY.replace("FROM s", "FROM sr"),
            "query 'q' reads the stream 'sr', which does not exist; did you mean",
        ),
        (STREAM + QUERY + '[sink]\nformat = "postgres"\n', "[sink] needs a key 'url'"),
        (
            STREAM + QUERY + '[sink]\nformat = "sqlite"\npath = "x.db"\nchanges = "a b"\n',
            "'changes' of [sink] must be the name of a table",
        ),
        (STREAM + QUERY + '[sink]\nformat = "kafka"\nbootstrap = "b:1"\n', "[sink] needs a key 'topic'"),
        (
            KAFKA + 'delivery = "exactly-onc"\n',
            "'exactly-onc' of [sink] is unknown; did you mean 'exactly-once'?",
        ),
        (KAFKA + 'key = "ids"\n', "key 'ids' of [sink] is unknown; did you mean 'id'?"),
        (KAFKA + 'key = ["query", "score"]\n', "key 'score' of [sink] is unknown; there is query"),
        (KAFKA + 'values = "avro"\n', "[sink] needs a key 'registry'"),
        (
            KAFKA + 'values = "avro"\nregistry = "registry:8081"\n',
            "must be the URL of a schema registry, such as",
        ),
        (KAFKA + 'registry = "http://r"\n', "has 'registry' and needs values = 'avro' or 'protobuf' too"),
        (KAFKA + "key = []\n", "'key' of [sink] must be a column or a list of columns, such as"),
        (KAFKA + "key = 3\n", "'key' of [sink] must be a text"),
        (KAFKA + 'key = "id"\nvalues = "arrow"\n', "with values = 'arrow' a record is many changes"),
        (KAFKA + 'top_topic = "t"\n', "'top_topic' of [sink] is another topic's name too"),
        (KAFKA + 'progress_topic = "p"\n', "has 'progress_topic' and needs delivery = 'exactly-once' too"),
        (STREAM + QUERY + '[sink]\nformat = "parquet"\n', "[sink] needs a key 'path'"),
        (STREAM + QUERY + '[sink]\nformat = "console"\npath = "x"\n', "[sink] has an unknown key 'path'"),
        (STREAM + QUERY + '[spark]\nmastr = "local"\n', "unknown key 'mastr'; did you mean 'master'?"),
        (
            STREAM + QUERY + '[spark]\nplacement = "executor"\n',
            "of [spark] is unknown; did you mean 'executors'?",
        ),
        (
            STREAM + QUERY + '[spark]\ntrigger = "soon"\n',
            "must be a time such as '2 seconds' or 'available-now'",
        ),
        (
            STREAM + QUERY + '[spark]\ntrigger = "99999999999 days"\n',
            "must be a time such as '2 seconds' or 'available-now'",
        ),
        (STREAM + QUERY + "[metrics]\n", "[metrics] needs a key 'port'"),
        (STREAM + QUERY + "[metrics]\nport = 70000\n", "a number of at most 65535"),
        (STREAM + QUERY + "[sparc]\n", "unknown key 'sparc'; did you mean 'spark'?"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SkybandError) as problem:
        load_pipeline(write(tmp_path, text))
    assert sentence in str(problem.value)
    assert "pipeline.toml" in str(problem.value)


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("data", "data"),
        ("a:b/c", "a:b/c"),
        ("file:/a/b", "/a/b"),
        ("file:///a%20b/%25#c", "/a b/%#c"),
        ("FILE://localhost/a", "/a"),
        ("file:///", "/"),
    ],
)
def test_paths_and_uris(text: str, path: str) -> None:
    assert place_of(text) == Path(path)


@pytest.mark.parametrize(
    ("text", "uri"),
    [
        ("s3a://bucket/in", "s3a://bucket/in"),
        ("S3A://bucket/a//b/", "s3a://bucket/a/b"),
        ("hdfs:///out/x.csv", "hdfs:/out/x.csv"),
        ("hdfs://host:8020/", "hdfs://host:8020/"),
        ("gs://b/a%20b#c?d", "gs://b/a%20b#c?d"),
    ],
)
def test_uris_of_stores(text: str, uri: str) -> None:
    place = place_of(text)
    assert isinstance(place, HadoopPath) and str(place) == uri
    assert place_of(str(place)) == place
    assert str(place / "y.z") == uri.rstrip("/") + "/y.z" and (place / "y.z").parent == place


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(SkybandError, match="There is no pipeline file"):
        load_pipeline(tmp_path / "none.toml")
    with pytest.raises(SkybandError, match="is a folder"):
        load_pipeline(tmp_path)


def test_types() -> None:
    assert arrow_type("Decimal(10, 2)") == pa.decimal128(10, 2)
    assert arrow_type("timestamp") == pa.timestamp("us")
    assert arrow_type("decimal(99, 2)") is None
    assert arrow_type("blob") is None
