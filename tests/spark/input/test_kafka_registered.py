"""Avro and Protobuf values with a schema registry: read, refused, written, and through a real broker."""

from __future__ import annotations

import base64
import datetime
import io
import json
import random
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool
from google.protobuf.message_factory import GetMessageClass
from tests.spark.broker import CONNECTOR, broker, need
from tests.spark.schemas import SchemaServer, schema_server

from skyband.core.errors import InputError
from skyband.spark import run_pipeline, verify_pipeline
from skyband.spark.config import SinkSpec
from skyband.spark.input.avro import avro_text, avro_values
from skyband.spark.input.protobuf import protobuf_text, protobuf_values
from skyband.spark.input.registry import Registry, writable
from skyband.spark.input.values import Form, value_chunks
from skyband.spark.sinks.kafka import KafkaSink

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

UTC = datetime.UTC
NOON = datetime.datetime(2026, 1, 1, 12, 0, 0, 250_000, tzinfo=UTC)


@pytest.fixture
def server() -> Iterator[SchemaServer]:
    with schema_server() as made:
        yield made


def avro(number: int, schema: Any, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), row)
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


def read(form: str, server: SchemaServer, values: list[bytes | None], schema: pa.Schema) -> list[Any]:
    return [*value_chunks(Form(form, server.url), pa.array(values, pa.binary()), schema)]


CAR = {
    "type": "record",
    "name": "Car",
    "fields": [
        {"name": "ts", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "x", "type": ["null", "double"], "default": None},
        {"name": "n", "type": "long"},
        {"name": "g", "type": {"type": "enum", "name": "G", "symbols": ["a", "b"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 10, "scale": 2}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "many", "type": ["null", "long", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
COLUMNS = pa.schema(
    [
        ("ts", pa.timestamp("us")),
        ("x", pa.float64()),
        ("n", pa.int64()),
        ("g", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("many", pa.int64()),
        ("other", pa.float64()),
    ]
)
ROW = {
    "ts": NOON, "x": 0.5, "n": 1 << 60, "g": "b", "price": Decimal("1.25"), "day": datetime.date(2026, 1, 2),
    "many": 3, "tags": ["t"],
}  # fmt: skip


def test_avro_values(server: SchemaServer) -> None:
    """Rows with their types; what can't be read is one bad row in its place; other schemas are other chunks."""
    number = server.add("cars-value", json.dumps(CAR))
    narrow = {"type": "record", "name": "N", "fields": [{"name": "x", "type": "float"}]}
    other, plain = server.add("n-value", json.dumps(narrow)), server.add("p-value", '"string"')
    whole = avro(number, CAR, ROW)
    bad = [b"", None, b"{}", b"\1" + whole[1:], whole[:-1], whole + b"\0", b"\0\0\0\0\x63abc"]
    odd = avro(number, CAR, {**ROW, "many": "three"})
    string = b"\0" + plain.to_bytes(4, "big") + b"\2a"
    values = [
        b"?",
        whole,
        *bad,
        odd,
        avro(number, CAR, {**ROW, "x": None}),
        avro(other, narrow, {"x": 2.5}),
        string,
    ]
    (at, cars), (then, rest) = read("avro", server, values, COLUMNS)
    assert (at, then) == (0, 11)
    assert cars.table.to_pylist() == [
        {**{k: v for k, v in ROW.items() if k != "tags"}, "x": x} for x in (0.5, None)
    ]
    assert cars.table.schema.field("ts").type == pa.timestamp("ms", "UTC")
    assert [row.position for row in cars.bad] == [0, *range(2, 10)]
    details = [row.detail for row in cars.bad]
    assert details[1] == details[2] == "the record has no value"
    assert details[0] == details[3] == "the value doesn't begin with the number of a schema"
    assert all(text.startswith("not a value of its schema: ") for text in details[5:7]), details
    assert details[7:] == ["schema 99: the registry does not have it", "the value of 'many' is no int64"]
    assert rest.table.to_pylist() == [{"x": 2.5}]
    assert [(row.position, row.detail) for row in rest.bad] == [(1, "schema 3: its schema is no record")]
    (again,) = read("avro", server, [whole], COLUMNS)
    assert again[1].table.num_rows == 1
    assert sum(path == f"/schemas/ids/{number}" for path in server.asked) == 1  # it is kept


def test_avro_with_references(server: SchemaServer) -> None:
    point = {"type": "record", "name": "P", "namespace": "geo", "fields": [{"name": "lat", "type": "double"}]}
    server.add("geo.P", json.dumps(point))
    car = {
        "type": "record", "name": "C", "fields": [{"name": "at", "type": "geo.P"}, {"name": "x", "type": "int"}]
    }  # fmt: skip
    needed = [{"name": "geo.P", "subject": "geo.P", "version": 1}]
    number = server.add("c-value", json.dumps(car), references=needed)
    whole = {**car, "fields": [{"name": "at", "type": point}, car["fields"][1]]}  # type: ignore[index]
    value = avro(number, whole, {"at": {"lat": 1.0}, "x": 7})
    ((_, chunk),) = read("avro", server, [value], pa.schema([("x", pa.int32()), ("z", pa.int32())]))
    assert chunk.table.to_pylist() == [{"x": 7}]
    # nothing of what the stream wants
    ((_, chunk),) = read("avro", server, [value, b""], pa.schema([("z", pa.int32())]))
    assert chunk.count == 2 and chunk.table.to_pylist() == [{"z": None}]


def message_file() -> descriptor_pb2.FileDescriptorProto:
    """The file of a message `Car` with a message inside, behind another one."""
    kinds = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="car.proto", package="t", syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto", "kind.proto"],
    )  # fmt: skip
    file.message_type.add(name="First")
    car = file.message_type.add(name="Car")
    many, one = kinds.LABEL_REPEATED, kinds.LABEL_OPTIONAL
    for number, (name, kind, label, of) in enumerate(
        [
            ("ts", kinds.TYPE_MESSAGE, one, ".google.protobuf.Timestamp"),
            ("x", kinds.TYPE_DOUBLE, one, None),
            ("n", kinds.TYPE_UINT64, one, None),
            ("g", kinds.TYPE_ENUM, one, ".t.Kind"),
            ("w", kinds.TYPE_MESSAGE, one, ".google.protobuf.Int64Value"),
            ("tags", kinds.TYPE_STRING, many, None),
        ],
        1,
    ):
        car.field.add(name=name, number=number, type=kind, label=label, type_name=of)
    inner = car.nested_type.add(name="Inner")
    inner.field.add(name="x", number=1, type=kinds.TYPE_DOUBLE, label=one)
    return file


def protobuf(server: SchemaServer) -> tuple[int, Any, Any]:
    """The number of the schema, and the classes of the message and of the one inside."""
    from google.protobuf import timestamp_pb2, wrappers_pb2

    kind = descriptor_pb2.FileDescriptorProto(name="kind.proto", package="t", syntax="proto3")
    names = kind.enum_type.add(name="Kind")
    names.value.add(name="NONE", number=0)
    names.value.add(name="FAST", number=1)
    pool = descriptor_pool.DescriptorPool()
    for module in (timestamp_pb2, wrappers_pb2):
        known = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(known)
        pool.Add(known)
    texts = []
    for file in (kind, message_file()):
        pool.Add(file)
        texts.append(base64.b64encode(file.SerializeToString()).decode())
    server.add("kind.proto", texts[0], "PROTOBUF")
    needed = [{"name": "kind.proto", "subject": "kind.proto", "version": 1}]
    number = server.add("cars-value", texts[1], "PROTOBUF", needed)
    found = [GetMessageClass(pool.FindMessageTypeByName(name)) for name in ("t.Car", "t.Car.Inner")]
    return number, *found


def test_protobuf_values(server: SchemaServer) -> None:
    """Fields, presence, enums, times, wrapped values, messages by their place in the file; bad rows in their places."""
    number, car, inner = protobuf(server)
    head = b"\0" + number.to_bytes(4, "big")
    second, inside = b"\2\2", b"\4\2\0"  # paths [1] and [1, 0], zigzag
    full = car(x=0.5, n=7, g=1, w={"value": 3}, tags=["t"])
    full.ts.FromDatetime(NOON)
    values = [
        head + second + full.SerializeToString(),
        head + second,
        head + b"\2\x63",
        head + second + b"\xff",
        head + b"\2",
        head + second + car(g=9, x=2).SerializeToString(),
        head + inside + inner(x=4).SerializeToString(),
    ]
    plain = [("x", pa.float64()), ("n", pa.int64()), ("g", pa.string()), ("w", pa.int64())]
    schema = pa.schema([("ts", pa.timestamp("us")), *plain])
    (at, cars), (then, nested) = read("protobuf", server, values, schema)
    assert (at, then) == (0, 6)
    assert cars.table.cast(pa.schema([("ts", pa.timestamp("us", "UTC")), *plain])).to_pylist() == [
        {"ts": NOON, "x": 0.5, "n": 7, "g": "FAST", "w": 3},
        {"ts": None, "x": 0.0, "n": 0, "g": "NONE", "w": None},
        {"ts": None, "x": 2.0, "n": 0, "g": "9", "w": None},
    ]
    assert [row.position for row in cars.bad] == [2, 3, 4]
    assert cars.bad[0].detail == "its schema has no message at [-50]"
    assert nested.table.to_pylist() == [{"x": 4.0}]


def test_what_a_registry_does(server: SchemaServer) -> None:
    """It fails for a moment, wants a password, has a schema of another type, is gone."""
    text = json.dumps({"type": "record", "name": "R", "fields": [{"name": "x", "type": "double"}]})
    number = server.add("s-value", text)
    server.broken = 2
    assert Registry(server.url + "/").schema(number, "avro").text == text
    ((_, chunk),) = read("protobuf", server, [b"\0" + number.to_bytes(4, "big") + b"\0"], COLUMNS)
    assert chunk.bad[0].detail == f"schema {number}: it is AVRO, not PROTOBUF"
    server.user = "me:se:cret"
    address = server.url.removeprefix("http://")
    assert Registry(f"http://me:se%3Acret@{address}").schema(number, "avro").text == text
    with pytest.raises(InputError, match=r"refuses /schemas/ids/1 \(who are you\): see to its rights"):
        Registry(f"http://me:wrong@{address}").schema(number, "avro")
    server.user, server.broken = None, 9
    with pytest.raises(
        InputError, match=r"registry at http://127\S+ does not answer \(HTTP Error 503"
    ) as failed:
        Registry(f"http://me:se%3Acret@{address}").register("t", "avro", text)
    assert "cret" not in str(failed.value)


@pytest.mark.parametrize("form", ["avro", "protobuf"])
def test_what_is_written_can_be_read(server: SchemaServer, form: str) -> None:
    times = pa.array([NOON, None], pa.timestamp("ms", "UTC"))
    table = pa.table(
        {
            "batch": pa.array([1, 2], pa.int32()), "query": pa.array(["a", "é"]).dictionary_encode(),
            "score": [0.5, None],
            "time": times, "naive": times.cast(pa.timestamp("ns")), "late": [True, False],
            "price": pa.array([Decimal("1.5"), None]),
        }
    )  # fmt: skip
    known = writable(table)
    text, values = {"avro": (avro_text, avro_values), "protobuf": (protobuf_text, protobuf_values)}[form]
    number = Registry(server.url).register("a/b", form, text("Change", known.schema))
    assert [*server.subjects] == ["a/b-value"]
    records = [b"\0" + number.to_bytes(4, "big") + value for value in values("Change", known)]
    ((_, chunk),) = read(form, server, records, known.schema)
    assert not chunk.bad
    zoned = chunk.table.set_column(4, "naive", chunk.table["naive"].cast(pa.timestamp("ns")))
    assert zoned.cast(known.schema).equals(known)


@pytest.mark.spark
@pytest.mark.timeout(900)
@pytest.mark.parametrize("placement", ["driver", pytest.param("executors", marks=pytest.mark.soak)])
def test_through_a_broker(tmp_path: Path, spark: SparkSession, server: SchemaServer, placement: str) -> None:
    """Avro and Protobuf in; the answers are those of the rows, and verify reads them again; Avro and Protobuf out."""
    need("connector", CONNECTOR, alone=True)
    number = server.add("cars-value", json.dumps(CAR))
    proto, car, _ = protobuf(server)
    chance = random.Random(3)
    rows = [
        {**ROW, "ts": NOON + datetime.timedelta(seconds=n), "x": chance.random(), "n": n} for n in range(60)
    ]
    declared = '{ts = "timestamp", x = "double", n = "long", g = "string"}'
    with broker(tmp_path / "broker") as kafka:
        for topic in ("cars", "vans"):
            kafka.topic(topic, 1)
        kafka.send("cars", [(0, avro(number, CAR, row)) for row in rows] + [(0, b"bad")])
        messages = [car(x=row["x"], n=row["n"], g=1) for row in rows]
        for message, row in zip(messages, rows, strict=True):
            message.ts.FromDatetime(row["ts"])
        head = b"\0" + proto.to_bytes(4, "big") + b"\2\2"
        kafka.send("vans", [(0, head + message.SerializeToString()) for message in messages])
        streams = "".join(
            f'[stream.{name}]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{name}"\nvalues = "{form}"\n'
            f'registry = "{server.url}"\ntime = "ts"\nschema = {declared}\n'
            for name, form in (("cars", "avro"), ("vans", "protobuf"))
        )
        queries = "".join(
            f'[[query]]\nname = "{name}"\nsql = "SELECT n, g FROM {name} ORDER BY x DESC LIMIT 5 WINDOW 20 SECONDS"\n'
            for name in ("cars", "vans")
        )
        path = tmp_path / "pipeline.toml"
        spark_table = f'[spark]\nmaster = "local[2]"\nplacement = "{placement}"\n'
        path.write_text(f'{streams}{queries}[sink]\nformat = "parquet"\npath = "out"\n{spark_table}')
        run_pipeline(path, available_now=True, on_batch=lambda _: None, spark=spark)
        top = pq.read_table(tmp_path / "out" / "top" / "top.parquet").to_pylist()
        best = sorted(rows[-21:], key=lambda row: -row["x"])[:5]
        for name, g in (("cars", "b"), ("vans", "FAST")):
            shown = [json.loads(row["row"]) for row in top if row["query"] == name]
            assert shown == [{"n": row["n"], "g": g} for row in best]
        (reject,) = pq.read_table(tmp_path / "out" / "rejects" / "batch-0.parquet").to_pylist()
        assert (reject["seq"], reject["reason"], reject["raw"]) == (60, "type", "bad")
        assert verify_pipeline(path).ok
        for form in ("avro", "protobuf"):
            topic, folder = f"out-{form}-{placement}", tmp_path / form
            folder.mkdir()
            kafka.topic(topic, 1)
            (folder / "pipeline.toml").write_text(
                f'{streams}{queries}[sink]\nformat = "kafka"\nbootstrap = "{kafka.bootstrap}"\ntopic = "{topic}"\n'
                f'values = "{form}"\nregistry = "{server.url}"\ntop_topic = "{topic}-top"\n{spark_table}'
            )
            run_pipeline(folder / "pipeline.toml", available_now=True, on_batch=lambda _: None, spark=spark)
            values = [record.value for record in kafka.records(topic)]
            told = pq.read_table(tmp_path / "out" / "changes" / "batch-0.parquet")
            ((_, chunk),) = read(form, server, values, writable(told).schema)
            for column in ("query", "change", "rank", "score", "seq"):
                assert chunk.table[column].to_pylist() == told[column].to_pylist()
            tops = [record.value for record in kafka.records(f"{topic}-top")]
            ((_, chunk),) = read(
                form, server, tops, pa.schema([("query", pa.string()), ("rank", pa.int64())])
            )
            assert sorted(chunk.table.to_pylist(), key=str) == sorted(
                [{"query": row["query"], "rank": row["rank"]} for row in top], key=str
            )


def test_a_registry_that_is_gone_stops_the_sink(server: SchemaServer) -> None:
    server.close()
    options = {"kafka.bootstrap.servers": "b:1", "topic": "t", "rejects_topic": "r", "values": "avro"}
    sink = KafkaSink(SinkSpec("kafka", None, (*options.items(), ("registry", server.url))))
    some = pa.table({"batch": [0], "query": ["q"]})
    with pytest.raises(InputError, match="The schema registry at http://127"):
        list(sink.records(0, some, some.slice(0, 0), some.slice(0, 0)))
