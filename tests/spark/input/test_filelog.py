"""The order in which files arrive, and what their splits are."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from skyband.core.errors import InputError
from skyband.spark.input.filelog import FileLog, StreamFiles
from skyband.spark.input.splits import plan_splits


def put(path: Path, rows: int = 10, group: int = 4) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"x": list(range(rows))}), path, row_group_size=group)


def stream(root: Path, form: str = "parquet", max_files: int | None = None, name: str = "s") -> StreamFiles:
    return StreamFiles(name, form, str(root), max_files)


def names(log: FileLog, name: str = "s") -> list[str]:
    return [taken.name for taken in log.taken(name)]


def test_first_seen_then_name(tmp_path: Path) -> None:
    files, root = tmp_path / "log", tmp_path / "data"
    log, source = FileLog(files, writer=True), stream(root, max_files=1)
    put(root / "b.parquet")
    put(root / "c.parquet")
    log.look([source])
    assert log.take(source, 0) == 1
    put(root / "a.parquet")  # late, and its name sorts first: it is read, after those seen before
    put(root / "deep" / "d.parquet")
    log.look([source])
    for start in (1, 2, 3):
        assert log.take(source, start) == start + 1
    assert names(log) == ["b.parquet", "c.parquet", "a.parquet", "deep/d.parquet"]
    assert log.take(source, 4) == 4
    assert names(FileLog(files)) == names(log)  # another process reads the same order


def test_first_seen_survives_a_restart(tmp_path: Path) -> None:
    files, root = tmp_path / "log", tmp_path / "data"
    source = stream(root, max_files=1)
    put(root / "b.parquet")
    FileLog(files, writer=True).look([source])
    put(root / "a.parquet")
    log = FileLog(files, writer=True)
    log.look([source])
    assert [log.take(source, 0), log.take(source, 1)] == [1, 2]
    assert names(log) == ["b.parquet", "a.parquet"]


def test_a_taken_file_keeps_its_place_whatever_was_killed(tmp_path: Path) -> None:
    files, root = tmp_path / "log", tmp_path / "data"
    put(root / "b.parquet")
    log = FileLog(files, writer=True)
    log.look([stream(root)])
    assert log.take(stream(root), 0) == 1  # and now the process dies: Spark never heard of it
    put(root / "a.parquet")
    again = FileLog(files, writer=True)
    again.look([stream(root)])
    assert again.take(stream(root, max_files=1), 0) == 1
    assert names(again) == ["b.parquet"]
    assert again.take(stream(root), 0) == 2


def test_a_torn_line_is_cut_off(tmp_path: Path) -> None:
    files, root = tmp_path / "log", tmp_path / "data"
    put(root / "a.parquet")
    log = FileLog(files, writer=True)
    log.look([stream(root)])
    log.take(stream(root), 0)
    with open(files, "ab") as out:
        out.write(b'{"take":"s","na')
    assert names(FileLog(files)) == ["a.parquet"]
    put(root / "b.parquet")
    log = FileLog(files, writer=True)
    log.look([stream(root)])
    log.take(stream(root), 1)
    assert names(FileLog(files)) == ["a.parquet", "b.parquet"]


def test_what_is_not_looked_at(tmp_path: Path) -> None:
    root = tmp_path / "data"
    for name in ("_SUCCESS", ".hidden", "a.parquet.tmp", "x.crdownload", "_temporary/0.parquet"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_bytes(b"x")
    (root / "link.parquet").symlink_to(tmp_path / "gone.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([stream(root)])
    assert log.waiting("s") == []


def test_half_a_parquet_file_waits(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(tmp_path / "whole")
    data = (tmp_path / "whole").read_bytes()
    root.mkdir()
    (root / "a.parquet").write_bytes(data[:-20])
    (root / "empty.parquet").touch()
    put(root / "b.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([stream(root)])
    assert log.take(stream(root), 0) == 1
    assert log.waiting("s") == ["a.parquet", "empty.parquet"]
    (root / "a.parquet").write_bytes(data)
    log.look([stream(root)])
    assert log.take(stream(root), 1) == 2
    assert names(log) == ["b.parquet", "a.parquet"]


def test_a_changed_file_is_an_error(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(root / "a.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([stream(root)])
    log.take(stream(root), 0)
    log.look([stream(root)])
    put(root / "a.parquet", rows=11)
    with pytest.raises(InputError, match=r"a\.parquet of stream 's' changed after it was read"):
        log.look([stream(root)])


def test_the_same_bytes_written_again_are_an_error_too(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(root / "a.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([stream(root)])
    os.utime(root / "a.parquet", (1_000_000_000,) * 2)  # before it is taken, a file may change as it likes
    log.look([stream(root)])
    log.take(stream(root), 0)
    log.look([stream(root)])
    os.utime(root / "a.parquet", (1_000_000_001,) * 2)
    with pytest.raises(InputError, match=r"changed after it was read \(it was written again\): put new rows"):
        FileLog(tmp_path / "log", writer=True).look([stream(root)])


def test_a_removed_file_is_none(tmp_path: Path) -> None:
    root = tmp_path / "data"
    put(root / "a.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([stream(root)])
    log.take(stream(root), 0)
    os.remove(root / "a.parquet")
    log.look([stream(root)])


def test_a_path_may_be_a_file(tmp_path: Path) -> None:
    put(tmp_path / "only.parquet")
    source = stream(tmp_path / "only.parquet")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([source])
    assert log.take(source, 0) == 1
    ((split,),) = plan_splits(log, [source], {}, {"s": 1}, 1)
    assert split.path == str(tmp_path / "only.parquet")


def test_splits_are_numbered_in_arrival_order(tmp_path: Path) -> None:
    one, two = stream(tmp_path / "one", name="one"), stream(tmp_path / "two", name="two")
    for name in ("a", "b"):
        put(tmp_path / "one" / name)
        put(tmp_path / "two" / name)
    log = FileLog(tmp_path / "log", writer=True)
    log.look([one, two])
    assert (log.take(one, 0), log.take(two, 0)) == (2, 2)
    runs = plan_splits(log, [one, two], {"one": 1}, {"one": 2, "two": 2}, 2)
    splits = [split for run in runs for split in run]
    assert [split.number for split in splits] == list(range(len(splits)))
    assert [(s.stream, Path(s.path).name) for s in splits] == [("one", "b"), ("two", "a"), ("two", "b")]
    assert [s.rows for s in splits] == [10, 10, 10]


def test_large_files_are_split_and_small_ones_are_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skyband.spark.input.splits._SMALL", 64)
    put(tmp_path / "data" / "a.parquet", rows=4000, group=100)
    source = stream(tmp_path / "data")
    log = FileLog(tmp_path / "log", writer=True)
    log.look([source])
    log.take(source, 0)
    runs = plan_splits(log, [source], {}, {"s": 1}, 4)
    assert 3 <= len(runs) <= 5
    splits = [split for run in runs for split in run]
    covered = [group for s in splits for group in range(s.first, s.first + s.count)]
    assert covered == list(range(40))
    assert sum(s.rows for s in splits) == 4000


def test_a_process_that_looks_for_files_loads_nothing_else(tmp_path: Path) -> None:
    """Every start of a pipeline waits for it: pandas alone, which Arrow loads at its first array, takes a second."""
    put(tmp_path / "data" / "a.parquet")
    code = f"""
import json, sys
from skyband.spark.input.filelog import StreamFiles
from pathlib import Path
from skyband.spark.input.jobs import Packed
from skyband.spark.input.source import SplitSource, source_options
streams = [StreamFiles("s", "parquet", {str(tmp_path / "data")!r}, None)]
source = SplitSource(source_options(streams, Path({str(tmp_path / "log")!r}), 2, Packed(b"")))
reader = source.streamReader(source.schema())
reader.prepareForTriggerAvailableNow()
end = reader.latestOffset(reader.initialOffset(), None)
assert len(reader.partitions(reader.initialOffset(), end)) > 0
heavy = ("pandas", "numba", "sqlglot", "skyband.algorithms", "skyband.engine.pruning")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("[]\n", "")
