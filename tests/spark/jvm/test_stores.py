"""Streams, output and checkpoint in a file system of Hadoop's.

The one here is ViewFs, which needs no server: `viewfs://box/files` is a folder of the disk, reached by the JVM alone.
HDFS and an S3 store as processes of their own, with kills, are in `test_stores_at_length`.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.dataframe.test_watch import in_watch_order
from tests.spark.dataframe.test_watch_rejects import ASKED, rows_of
from tests.spark.dataframe.test_watch_rejects import run as run_all
from tests.spark.streams import (
    OTHER,
    QUERIES,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    shown_tops,
    write_file,
)

from skyband.core.errors import InputError
from skyband.server.pipeline import PipelineService
from skyband.server.settings import Settings
from skyband.spark import (
    BatchInfo,
    run_pipeline,
    verify_pipeline,
    watch,
)
from skyband.spark.driver.asking import (
    Asked,
    add_query,
    drop_query,
    list_queries,
)
from skyband.spark.driver.checkpoint import Checkpoint
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.jvm.files import (
    append_line,
    read_from,
    read_lines,
    write_once,
)
from skyband.spark.jvm.hadoop import (
    WAY,
    HadoopPath,
    Status,
    StoreError,
    _statuses,
    way_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def box(spark: SparkSession, tmp_path: Path) -> Iterator[HadoopPath]:
    """A folder of a store; on the disk it is `tmp_path`."""
    conf = dict(spark.sparkContext.getConf().getAll())
    home = Path(conf["spark.hadoop.fs.viewfs.mounttable.box.link./files"].removeprefix("file://"))
    link = home / f"{tmp_path.parent.parent.name}-{tmp_path.name}"
    link.symlink_to(tmp_path)
    yield HadoopPath.of(f"viewfs://box/files/{link.name}")
    link.unlink()


def names(folder: Path) -> list[str]:
    """The files below a folder; a disk's file system of Hadoop's has checksums beside them."""
    return sorted(
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and not (path.name.startswith(".") and path.suffix == ".crc")
    )


# -- paths


def test_files_are_written_whole_and_read(box: HadoopPath, tmp_path: Path) -> None:
    for name in ("a.bin", "b c é %41#?.bin", "x{path=y; isDirectory=false"):
        file = box / "folder" / name
        assert not file.exists() and not file.is_dir()
        with pytest.raises(FileNotFoundError, match="is not there"):
            file.stat()
        file.put_new(b"one")
        with pytest.raises(FileExistsError, match="is there already"):
            file.put_new(b"two")
        assert (tmp_path / "folder" / name).read_bytes() == b"one" == file.read_bytes()
        file.put(b"three", box / "unfinished")
        assert file.read_text() == "three" and file.stat().st_size == 5
        assert box.is_dir() and (box / "folder").name in [one.name for one in box.list()]
    assert names(tmp_path / "folder") == sorted(
        file.name for file in (box / "folder").iterdir() if file.suffix != ".crc"
    )
    assert [*map(str, (box / "folder").glob("a*"))] == [f"{box}/folder/a.bin"]
    write_once(box / "once", b"1")
    write_once(box / "once", b"1")
    write_once(box / "once", b"2")
    assert (box / "once").read_bytes() == b"2"
    (box / "folder").remove()
    (box / "folder").remove()
    assert not (tmp_path / "folder").exists() and (box / "folder").list() == []


def test_a_file_is_read_in_pieces(box: HadoopPath) -> None:
    table = pa.table({"x": range(400_000)})
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=50_000)
    data = sink.getvalue().to_pybytes()
    (box / "t.parquet").put(data)
    with (box / "t.parquet").open() as file:
        assert file.seek(-4, os.SEEK_END) == len(data) - 4 and file.read() == b"PAR1" and file.read(1) == b""
        assert pq.ParquetFile(file).read_row_group(3)["x"][0].as_py() == 150_000
    assert (box / "t.parquet").read_bytes() == data


def test_what_listings_print() -> None:
    hdfs = (
        "{HdfsNamedFileStatus{path=hdfs://h:8020/a/b, c.csv; isDirectory=false; length=3; replication=3; "
        "blocksize=134217728; modification_time=1795068488179; access_time=1; owner=o; group=g; "
        "permission=rw-r--r--; isSymlink=false; hasAcl=false},HdfsNamedFileStatus{path=hdfs://h:8020/a/d; "
        "isDirectory=true; modification_time=7; access_time=0; owner=o}}"
    )
    assert _statuses(hdfs) == [
        Status("b, c.csv", False, 3, 1795068488179_000_000),
        Status("d", True, 0, 7_000_000),
    ]
    s3 = (
        "{S3AFileStatus{path=s3a://b/x; isDirectory=false; length=1; replication=1; blocksize=33554432; "
        'modification_time=1000; access_time=0; owner=o} isEmptyDirectory=FALSE eTag="{}" versionId=null}}'
    )
    one, other = (_statuses(s3.replace("{}", tag))[0] for tag in ("aa", "bb"))
    assert one.st_mtime_ns != other.st_mtime_ns  # written again in the same second


def test_what_cannot_be_reached_is_one_sentence(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"^nix://h/a can't be reached \(.*No FileSystem for scheme \"nix\"\): name"
    ):
        HadoopPath.of("nix://h/a").exists()
    with pytest.raises(StoreError, match=r"hdfs://127.0.0.1:1/a can't be used \(.*refused.*\): see to"):
        HadoopPath.of("hdfs://127.0.0.1:1/a").exists()
    (tmp_path / "pipeline.toml").write_text(pipeline_text(QUERIES).replace('"data"', '"s3a://bucket/in"'))
    with pytest.raises(InputError, match=r"s3a://bucket/in can't be reached .*hadoop-aws"):
        run_pipeline(tmp_path / "pipeline.toml", available_now=True, spark=spark)


def test_a_process_of_sparks_connects_to_the_drivers_jvm(
    spark: SparkSession, box: HadoopPath, tmp_path: Path
) -> None:
    (box / "seen").put(b"by all")
    way = way_of(spark, tmp_path / "door")
    assert (tmp_path / "door").stat().st_mode & 0o777 == 0o600
    code = f"from skyband.spark.jvm.hadoop import HadoopPath; print(HadoopPath.of('{box}/seen').read_text())"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, WAY: way},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.stdout.strip() == "by all", done.stderr


# -- logs


def test_a_log_is_objects_that_are_put_together(box: HadoopPath) -> None:
    log, at, found = box / "log.jsonl", 0, []
    assert read_lines(log) == [] and read_from(log, 0) == ([], 0)
    for number in range(150):
        append_line(log, {"n": number}, {"also": number})
        if number in (0, 10, 63, 64, 65, 149):  # this reader is behind, and ahead of what was put together
            new, at = read_from(log, at)
            found += new
    assert found == read_lines(log) and [record["n"] for record in found[::2]] == [*range(150)]
    assert len(log.list()) < 70
    late = box / "late.jsonl"
    append_line(late, {"a": 1})
    (late / f"{log_end(late):020}").put(b"")  # another driver has added at the same moment
    with pytest.raises(InputError, match=r"Another process has written to .*late.jsonl"):
        append_line(late, {"a": 2})


def log_end(log: HadoopPath) -> int:
    return max(int(one.name) + one.st_size for one in log.list() if one.name.isdigit())


def test_files_are_noticed_and_taken(box: HadoopPath, tmp_path: Path) -> None:
    stream = StreamFiles("s", "json", str(box / "in"), None)
    log = FileLog(box / "files.jsonl", writer=True)
    log.look([stream])
    assert log.take(stream, 0) == 0
    for name in ("b.json", "day=1/a.json", "_hidden.json", "c.json.tmp"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text('{"x": 1}\n')
    log.look([stream])
    assert log.take(stream, 0) == 2
    (box / "in" / "a.json").put(b"{}\n")  # a late one has its place all the same
    log.look([stream])
    assert log.take(stream, 2) == 3
    assert [one.name for one in FileLog(box / "files.jsonl").taken("s")] == [
        "b.json",
        "day=1/a.json",
        "a.json",
    ]
    (box / "in" / "b.json").put(b'{"x": 12}\n')
    with pytest.raises(InputError, match=r"b\.json of stream 's' changed after it was read"):
        log.look([stream])


# -- pipelines


class PowerCut(Exception):
    """Ends a run in the middle of a batch, after its output and before Spark's commit."""


@pytest.mark.parametrize(("placement", "form"), [("driver", ".json"), ("executors", ".parquet")])
def test_every_batch_equals_the_oracle(
    spark: SparkSession, box: HadoopPath, tmp_path: Path, placement: str, form: str
) -> None:
    files = make_files(5, seed=93, rows=(40, 160))
    for number, rows in enumerate(files):
        write_file(tmp_path / "in" / f"{number}{form}", rows)
    if form == ".json":
        (tmp_path / "in" / "2.json.gz").write_bytes(gzip.compress((tmp_path / "in" / "2.json").read_bytes()))
        (tmp_path / "in" / "2.json").unlink()
    path = tmp_path / "pipeline.toml"
    asked = {name: QUERIES[name] for name in ("rows", "above", "many")}
    text = pipeline_text(asked, form=form[1:], spark=f'prune_rows = 60\nplacement = "{placement}"\n')
    for name, folder in (("data", "in"), ("out", "out"), ("checkpoint", "checkpoint")):
        text = text.replace(f'"{name}"', f'"{box}/{folder}"')
    path.write_text(text)
    truth, infos = Truth({}), list[BatchInfo]()

    def run(cut: int | None = None) -> None:
        def each(info: BatchInfo) -> None:
            del infos[info.batch :]
            infos.append(info)
            if info.batch == 1 and cut is None:
                drop_query(path, "above")
                add_query(path, "other", OTHER)
            if info.batch == cut:
                raise PowerCut

        run_pipeline(path, available_now=True, on_batch=each, spark=spark)

    with pytest.raises(PowerCut):
        run(cut=1)
    run()
    assert len(infos) == len(files)
    for info, rows in zip(infos, files, strict=True):
        truth.change_queries(info.queries)
        truth.push(rows)
        assert shown_tops(info.tops) == truth.tops()
        assert rejected(tmp_path / "out", info.batch) == truth.take_rejects()
    for path_ in (tmp_path / "out").rglob(".*.crc"):
        path_.unlink()
    assert as_answers(truth.tops()) == folded(tmp_path / "out", len(files))[-1]
    kinds = {name.partition("/")[0] for name in names(tmp_path / "out")}
    assert kinds == {"changes", "rejects", "top"} and not (tmp_path / "out" / ".tmp").exists()
    assert [query.name for query in list_queries(path)] == ["rows", "many", "other"]
    report = verify_pipeline(path)
    assert report.ok, str(report)
    served = PipelineService(Settings(), str(path), start=False)
    assert served.hub.offset == len(files) and len(served.rejects(3)["rejects"]) == 3
    assert not (tmp_path / "viewfs:").exists()


def test_a_second_driver_stops_the_first(spark: SparkSession, box: HadoopPath, tmp_path: Path) -> None:
    files = make_files(3, seed=94)
    for number, rows in enumerate(files[:2]):
        write_file(tmp_path / "in" / f"{number}.parquet", rows)
    text = pipeline_text({"rows": QUERIES["rows"]})
    for name, folder in (("data", "in"), ("out", "out"), ("checkpoint", "checkpoint")):
        text = text.replace(f'"{name}"', f'"{box}/{folder}"')
    (tmp_path / "pipeline.toml").write_text(text)
    done, problems = threading.Semaphore(0), list[BaseException]()

    def first() -> None:
        try:
            run_pipeline(tmp_path / "pipeline.toml", on_batch=lambda info: done.release(), spark=spark)
        except BaseException as problem:
            problems.append(problem)

    thread = threading.Thread(target=first)
    thread.start()
    assert done.acquire(timeout=120) and done.acquire(timeout=120)
    own = tmp_path / "checkpoint" / "skyband" / "drivers"
    assert names(own) == ["1"] and json.loads((own / "1").read_text())["process"] == os.getpid()
    second = Checkpoint(box / "checkpoint")
    with second.locked():
        second.check_owner()
        write_file(tmp_path / "in" / "2.parquet", files[2])
        thread.join(timeout=120)
        assert not thread.is_alive() and names(own) == ["2"]
        assert isinstance(problems[0], InputError) and "it was started later, so this one stops" in str(
            problems[0]
        )
        second.check_owner()
    assert names(tmp_path / "out" / "changes") == ["batch-0.parquet", "batch-1.parquet"]
    run_pipeline(tmp_path / "pipeline.toml", available_now=True, spark=spark)
    assert verify_pipeline(tmp_path / "pipeline.toml").ok


def test_commands_take_turns(box: HadoopPath) -> None:
    asked = Asked(Checkpoint(box))
    with asked.locked(), contextlib.suppress(FileExistsError):
        (box / "skyband" / "asked.lock").put_new(b"")
        raise AssertionError("it is held")
    assert not (box / "skyband" / "asked.lock").exists()


def test_rejects_of_a_dataframe(spark: SparkSession, box: HadoopPath, tmp_path: Path) -> None:
    truth, expected = Truth(ASKED), []
    for number, rows in enumerate(make_files(3, seed=70)):
        truth.push(in_watch_order(rows))
        expected.append(truth.take_rejects())
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
        os.utime(tmp_path / "data" / f"{number}.parquet", (1_700_000_000 + number,) * 2)
    changes = watch(rows_of(spark, tmp_path), ASKED, time="ts", rejects=str(box / "rejects"))
    assert run_all(changes, tmp_path / "checkpoint") is None
    assert [rejected(tmp_path, batch) for batch in range(3)] == expected
