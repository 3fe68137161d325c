"""What survives: steps, snapshots, queries; and torn files that are never trusted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from tests.spark.streams import QUERIES, pipeline_text

from skyband.core.blob import FORMAT
from skyband.core.errors import InputError
from skyband.spark.config import QuerySpec, StreamSpec, load_pipeline
from skyband.spark.driver.checkpoint import Checkpoint, Step, open_checkpoint
from skyband.spark.executors.shards import ROWS, Layout, LayoutLog
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.jvm.files import (
    frame,
    read_frame,
    read_json,
    read_lines,
    unframe,
    write_atomic,
)


def step(batch: int) -> Step:
    return Step(batch, (("s", b"abc"), ("s", b""), ("r", bytes(range(256)))), 10, 3, (("host", 7),))


def test_frames(tmp_path: Path) -> None:
    data = frame({"a": 1}, b"xyz", b"")
    assert unframe(data) == ({"a": 1}, [b"xyz", b""])
    for cut in range(len(data)):
        assert unframe(data[:cut]) is None
    for place in range(0, len(data), 7):
        torn = bytearray(data)
        torn[place] ^= 1
        assert unframe(bytes(torn)) is None
    assert read_frame(tmp_path / "none") is None


def test_atomic_files_leave_nothing_behind(tmp_path: Path) -> None:
    write_atomic(tmp_path / "a" / "b", b"1")
    write_atomic(tmp_path / "a" / "b", b"2", tmp_path / "unfinished")
    assert (tmp_path / "a" / "b").read_bytes() == b"2"
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b"]
    assert list((tmp_path / "unfinished").iterdir()) == []


def test_steps(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.first_new() == 0
    checkpoint.write_step(step(0), {"s": 2})
    assert checkpoint.step(0) == step(0)
    assert checkpoint.step(0, {"s": 2}) == step(0)
    assert checkpoint.step(0, {"s": 3}) is None  # other files: another batch of that number
    assert checkpoint.step(1) is None
    assert checkpoint.batches() == {0: {"s": 2}}
    assert checkpoint.first_new() == 1
    path = tmp_path / "skyband" / "steps" / "0.step"
    path.write_bytes(path.read_bytes()[:-1])
    assert checkpoint.step(0) is None


def test_a_batch_that_spark_has_planned_was_attempted(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    (tmp_path / "offsets" / "4").write_text('v1\n{}\n{"s":7}')
    (tmp_path / "offsets" / ".4.crc").touch()
    checkpoint = Checkpoint(tmp_path)
    assert checkpoint.first_new() == 5
    assert checkpoint.offset(4) == {"s": 7}
    with pytest.raises(InputError, match=r"offsets/5 is missing: bring it back from a copy"):
        checkpoint.offset(5)


def test_offsets_that_have_become_others_are_refused(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for batch, end in enumerate((3, 7)):
        write_atomic(tmp_path / "offsets" / str(batch), b'v1\n{}\n{"s":%d}' % end)
        checkpoint.write_batch(batch, {"s": end}, 10)
        write_atomic(tmp_path / "commits" / str(batch), b"v1\n{}")
        checkpoint.check_offsets()
    write_atomic(tmp_path / "offsets" / "2", b'v1\n{}\n{"s":8}')
    checkpoint.write_batch(2, {"s": 9}, 10)
    checkpoint.check_offsets()  # not committed: Spark may have planned it anew
    write_atomic(tmp_path / "offsets" / "1", b'v1\n{}\n{"s":6}')
    with pytest.raises(InputError, match="offsets/1 is damaged: bring it back from a copy"):
        checkpoint.check_offsets()


OWN = ("streams.json", "queries.json", "files.jsonl", "batches.jsonl", "shards.json")


def whole(folder: Path) -> tuple[Checkpoint, tuple[StreamSpec, ...]]:
    """The checkpoint of a pipeline that has done two batches, with what Spark writes."""
    streams = (StreamSpec("s", "parquet", folder / "data", "data"),)
    checkpoint = Checkpoint(folder)
    checkpoint.fix_schemas(streams, {"s": pa.schema([("x", pa.float64())])})
    checkpoint.set_queries(0, (QuerySpec("q", "SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 5 ROWS"),))
    LayoutLog(checkpoint.own).set(0, Layout(2, {ROWS: (2, 0)}))
    files = StreamFiles("s", "json", str(folder / "data"), 1)
    log = FileLog(checkpoint.files, writer=True)
    write_atomic(folder / "metadata", b'{"id":"9eedde0a-bc50-4fb9-89b1-6dffc3692e0d"}')
    (folder / "state").mkdir()
    for batch in range(2):
        write_atomic(folder / "data" / f"{batch}.json", b'{"x": 1}\n')
        log.look([files])
        log.take(files, batch)
        write_atomic(folder / "offsets" / str(batch), b'v1\n{"batchWatermarkMs":0}\n{"s":%d}' % (batch + 1))
        checkpoint.write_batch(batch, {"s": batch + 1}, 1)
        write_atomic(folder / "commits" / str(batch), b'v1\n{"nextBatchWatermarkMs":0}')
    return checkpoint, streams


DAMAGES = [
    *((f"skyband/{name}", how) for name in OWN for how in ("cut", "gone", "another")),
    *((name, "cut") for name in ("metadata", "offsets/0", "offsets/1", "commits/1")),
    # without a commit, the batch is done again
    *((name, "gone") for name in ("metadata", "offsets/0", "offsets/1")),
]


@pytest.mark.parametrize(("name", "how"), DAMAGES)
def test_what_is_not_whole_is_refused_by_its_name(tmp_path: Path, name: str, how: str) -> None:
    """Nothing of it is read in part: rows would be left out, or queries be forgotten."""
    checkpoint, streams = whole(tmp_path)
    checkpoint.check_whole(streams)
    path = tmp_path / name
    data = path.read_bytes()
    if how == "another":  # a letter or a digit in the middle: it may still be JSON
        middle = max(place for place in range(len(data) * 2 // 3) if chr(data[place]).isalnum())
        path.write_bytes(
            data[:middle] + (b"7" if data[middle : middle + 1] != b"7" else b"8") + data[middle + 1 :]
        )
    elif how == "cut":
        path.write_bytes(data[: len(data) // 2])
    else:
        path.unlink()
    with pytest.raises(
        InputError, match=rf"{name} is (damaged|missing): bring it back from a copy, or start"
    ):
        Checkpoint(tmp_path).check_whole(streams)


def test_what_spark_finds_damaged_is_named(tmp_path: Path) -> None:
    checkpoint, schema = Checkpoint(tmp_path), tmp_path / "state" / "0" / "0" / "_metadata" / "schema"
    write_atomic(schema, b"torn")
    told = "[STREAM_FAILED] terminated with exception: Checksum error: file:{} at 0 exp: -67 got: 73 SQLSTATE: XXKST"
    assert "schema is damaged: bring it back" in str(checkpoint.unreadable(Exception(told.format(schema))))
    assert checkpoint.unreadable(Exception(told.format("/data/1.csv"))) is None


def test_checkpoints_without_checksums_are_read(tmp_path: Path) -> None:
    """As versions wrote them that had none."""
    checkpoint, streams = whole(tmp_path)
    queries = checkpoint.queries(1)
    for name in OWN:
        path = checkpoint.own / name
        if name.endswith(".json"):
            path.write_text(json.dumps(read_json(path)))
        else:
            path.write_text("".join(json.dumps(record) + "\n" for record in read_lines(path)))
    assert b"crc" not in b"".join((checkpoint.own / name).read_bytes() for name in OWN)
    again = Checkpoint(tmp_path)
    again.check_whole(streams)
    assert again.queries(1) == queries and again.batches() == {0: {"s": 1}, 1: {"s": 2}}
    assert again.schemas(streams) == {"s": pa.schema([("x", pa.float64())])}


def test_snapshots_keep_what_is_needed(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    queries = (QuerySpec("q", "SELECT"),)
    for batch in range(10):
        checkpoint.write_step(step(batch), {"s": batch})
        if batch in (2, 5, 8):
            checkpoint.write_snapshot(batch, queries, b"state %d" % batch)
    kept = sorted(int(p.stem) for p in (tmp_path / "skyband" / "steps").iterdir())
    assert kept == [6, 7, 8, 9]
    assert [n for n, _, _ in checkpoint.snapshots_before(10)] == [8, 5, -1]
    assert [n for n, _, _ in checkpoint.snapshots_before(8)] == [5, -1]
    assert next(checkpoint.snapshots_before(9)) == (8, queries, b"state 8")
    torn = tmp_path / "skyband" / "snapshots" / "8.snap"
    torn.write_bytes(torn.read_bytes()[:-1])
    assert [n for n, _, _ in checkpoint.snapshots_before(10)] == [5, -1]


def test_other_formats_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.check_format()  # nothing there yet
    checkpoint.write_step(step(3), {"s": 1})
    checkpoint.write_snapshot(3, (QuerySpec("q", "SELECT"),), b"state")
    checkpoint.check_format()
    own = tmp_path / "skyband"
    for path in (own / "steps" / "3.step", own / "snapshots" / "3.snap"):
        found = read_frame(path)
        assert found is not None and found[0].pop("format") == FORMAT
        before = path.read_bytes()
        path.write_bytes(frame(found[0], *found[1]))  # without a number: as the first version wrote it
        with pytest.raises(
            InputError, match=f"is in format 1, of another skyband, and this one reads format {FORMAT}"
        ):
            checkpoint.check_format()
        path.write_bytes(frame({**found[0], "format": FORMAT + 1}, *found[1]))
        sentence = f"{path} is in format {FORMAT + 1}, of a newer skyband, and this one reads format {FORMAT}: use the "
        sentence += "version that wrote it, or start again with an empty checkpoint and output folder."
        with pytest.raises(InputError, match=re.escape(sentence)):
            checkpoint.check_format()
        with pytest.raises(InputError, match=re.escape(sentence)):
            list(checkpoint.snapshots_before(4)) and checkpoint.step(3)
        path.write_bytes(before)
    # A later version, whose format is another one, meets these files.
    monkeypatch.setattr("skyband.core.blob.FORMAT", FORMAT + 1)
    with pytest.raises(InputError, match=rf"3\.snap is in format {FORMAT}, of another skyband"):
        checkpoint.check_format()


def test_queries_hold_from_a_batch_on(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    one, two = (QuerySpec("a", "A"),), (QuerySpec("a", "A"), QuerySpec("b", "B"))
    checkpoint.set_queries(0, one)
    checkpoint.set_queries(3, one)
    checkpoint.set_queries(5, two)
    checkpoint.set_queries(5, one)  # never attempted: a third start takes it back
    assert checkpoint.queries(5) == one
    checkpoint.set_queries(5, two)
    assert [checkpoint.queries(b) for b in (0, 4, 5, 9)] == [one, one, two, two]


def test_streams_may_not_change(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    spec = StreamSpec("s", "csv", tmp_path, "data", time="t", max_files=1)
    assert checkpoint.schemas((spec,)) is None
    schema = pa.schema([("t", pa.timestamp("us", tz="UTC")), ("x", pa.decimal128(5, 2))])
    checkpoint.fix_schemas((spec,), {"s": schema})
    assert checkpoint.schemas((spec,)) == {"s": schema}
    assert checkpoint.schemas((StreamSpec("s", "csv", tmp_path, "data", time="t"),)) == {"s": schema}
    with pytest.raises(InputError, match="'time' of stream 's' is not that which the checkpoint"):
        checkpoint.schemas((StreamSpec("s", "csv", tmp_path, "data", time="u"),))
    with pytest.raises(InputError, match="The streams are not those which the checkpoint"):
        checkpoint.schemas((StreamSpec("r", "csv", tmp_path, "data", time="t"),))


def test_only_one_process(tmp_path: Path) -> None:
    with (
        Checkpoint(tmp_path).locked(),
        pytest.raises(InputError, match="Another process runs a pipeline"),
        Checkpoint(tmp_path).locked(),
    ):
        pass
    with Checkpoint(tmp_path).locked():
        pass


def test_lines(tmp_path: Path) -> None:
    (tmp_path / "log").write_text('{"a":1}\n{"a":2}\n{"a"')
    assert read_lines(tmp_path / "log") == [{"a": 1}, {"a": 2}]
    assert (tmp_path / "log").read_text().endswith('{"a"')
    read_lines(tmp_path / "log", repair=True)
    assert (tmp_path / "log").read_text() == '{"a":1}\n{"a":2}\n'


def test_a_folder_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "pipeline.toml").write_text(pipeline_text({"q": QUERIES["rows"]}))
    pipeline = load_pipeline(tmp_path / "pipeline.toml")
    (tmp_path / "checkpoint").touch()
    with pytest.raises(
        InputError, match=r"The checkpoint folder .*checkpoint cannot be made: (File exists|Not a dir)"
    ):
        open_checkpoint(pipeline)
    (tmp_path / "checkpoint").unlink()
    monkeypatch.setattr("os.access", lambda path, mode: False)  # as root may write everywhere
    with pytest.raises(
        InputError, match=r"The checkpoint folder .*checkpoint is not writable: choose another"
    ):
        open_checkpoint(pipeline)
