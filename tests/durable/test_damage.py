"""Files of a journal that were torn, damaged, lost or written by another version: cut, refused or passed over."""

from __future__ import annotations

import resource
import shutil
import zlib
from pathlib import Path

import pyarrow as pa
import pytest
from tests.durable.disks import Quick
from tests.durable.story import BIG, TOP, leave, segments, some

import skyband as sb
from skyband.core.blob import FORMAT
from skyband.core.errors import DiskFull, JournalError
from skyband.durable import Engine, Settings, segment
from skyband.durable.task import written


@pytest.mark.parametrize("cut", [1, 5, 60, 300])
def test_a_torn_tail_is_cut_and_reported(cut: int, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    engine = some(tmp_path / "j", BIG)
    leave(engine)
    (path,) = segments(tmp_path / "j")
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-cut])
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.offset == engine.offset - 1 and again.monitor.rows_seen == 8
    (line,) = again.report
    assert f"{path} had a torn end: " in line and line in caplog.text
    assert path.stat().st_size < whole - cut  # the rest of the record went too
    again.push({"x": [9.0]})
    leave(again)
    last = Engine(sb.Monitor(), tmp_path / "j")
    assert last.report == [] and last.monitor.rows_seen == 9
    last.close()


def test_any_flipped_byte_is_found(tmp_path: Path) -> None:
    """In the last step it makes a torn tail, before it a refusal that names file and byte; never another answer."""
    engine = some(tmp_path / "j", BIG, steps=3)
    leave(engine)
    (path,) = segments(tmp_path / "j")
    data = path.read_bytes()
    first, salt = segment.read_head(data, "") or (0, 0)
    records, end = segment.read_records(data, first, salt, "")
    assert end == len(data) and [record.offset for record in records] == [1, 2, 3, 4]
    for at in range(0, len(data), 13):
        path.write_bytes(data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :])
        if at >= records[-1].start:
            again = Engine(sb.Monitor(), tmp_path / "j")
            assert again.offset == 3 and len(again.report) == 1
            leave(again)
            continue
        start = max([0, *(record.start for record in records if record.start <= at)])
        with pytest.raises((JournalError, sb.InputError)) as error:
            Engine(sb.Monitor(), tmp_path / "j")
        assert f"{path} is " in str(error.value) and "\n" not in str(error.value)
        assert f"damaged at byte {start}," in str(error.value) or "in format" in str(error.value)


def test_a_missing_segment_is_found(tmp_path: Path) -> None:
    engine = some(tmp_path / "j", Settings(segment_bytes=600, background=False), steps=8)
    leave(engine)
    found = segments(tmp_path / "j")
    assert len(found) > 3
    for number in range(len(found) - 1):
        copy = tmp_path / f"copy {number}"
        shutil.copytree(tmp_path / "j", copy)
        segments(copy)[number].unlink()
        with pytest.raises(JournalError, match=r"nowhere to be found|is damaged at byte"):
            Engine(sb.Monitor(), copy)


def test_a_segment_cut_short_in_the_middle_is_found(tmp_path: Path) -> None:
    engine = some(tmp_path / "j", Settings(segment_bytes=600, background=False), steps=8)
    leave(engine)
    path = segments(tmp_path / "j")[1]
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(JournalError, match=f"{path} is damaged at byte"):
        Engine(sb.Monitor(), tmp_path / "j")


@pytest.mark.parametrize("age", [-1, 1])
def test_another_format_is_refused_by_name(age: int, tmp_path: Path) -> None:
    leave(some(tmp_path / "j", BIG))
    (path,) = segments(tmp_path / "j")
    data = bytearray(path.read_bytes())
    data[8:12] = (FORMAT + age).to_bytes(4, "little")
    data[24:28] = zlib.crc32(data[:24]).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(sb.InputError, match=f"{path} is in format {FORMAT + age}, of a"):
        Engine(sb.Monitor(), tmp_path / "j")


def test_a_damaged_snapshot_is_passed_over_and_reported(tmp_path: Path) -> None:
    settings = Settings(segment_bytes=1, snapshot_steps=3, background=False)  # a segment for every step
    engine = some(tmp_path / "j", settings, steps=6)
    for number in range(8):  # wherever the snapshots are
        engine.push({"x": [float(number)]})
        copy = tmp_path / f"copy {number}"
        shutil.copytree(tmp_path / "j", copy)
        older, newest = sorted(copy.glob("*.snapshot"))
        data = bytearray(newest.read_bytes())
        middle = len(data) // 3
        data[middle : middle + 100] = bytes(255 - byte for byte in data[middle : middle + 100])
        newest.write_bytes(data)
        again = Engine(sb.Monitor(), copy, settings, Quick())
        assert len(again.report) == 1 and str(newest) in again.report[0]
        assert again.offset == engine.offset and again.monitor.to_bytes() == engine.monitor.to_bytes()
        assert not newest.exists()
        leave(again)
        older.write_bytes(b"nothing")
        with pytest.raises(JournalError, match=r"No snapshot in the journal .* is whole"):
            Engine(sb.Monitor(), copy)
    leave(engine)


def test_a_write_that_the_system_ends_in_the_middle(tmp_path: Path) -> None:
    """The real thing: a file that may not grow beyond a limit takes half of a step."""
    engine = Engine(sb.Monitor(), tmp_path / "j", BIG)
    engine.watch(TOP, name="top")
    engine.push({"x": [1.0]})
    size = segments(tmp_path / "j")[0].stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, hard))
    try:
        for _ in range(2):
            with pytest.raises(
                DiskFull, match=r"no room left for the journal .* nothing of this step was taken"
            ):
                engine.push({"x": [2.0] * 10_000}, key="big")
            assert engine.monitor.watches["top"].top()["x"].to_pylist() == [1.0]
            assert segments(tmp_path / "j")[0].stat().st_size == size  # the half is cut off
        assert engine.push({"x": [3.0]}).first_seq == 1
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not engine.push({"x": [2.0] * 10_000}, key="big").repeated
    engine.leave()
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.report == [] and again.monitor.rows_seen == 10_002
    assert again.monitor.watches["top"].top()["seq"].to_pylist() == [10_001, 10_000, 9_999]
    again.close()


def test_a_batch_can_not_look_like_steps(tmp_path: Path) -> None:
    """Bytes of whole records as a value, in the last step, whose end is torn: no reason to see damage there."""
    leave(some(tmp_path / "other", BIG))
    (path,) = segments(tmp_path / "other")
    engine = some(tmp_path / "j", BIG)
    engine.push({"x": [1.0], "raw": pa.array([path.read_bytes()])})
    leave(engine)
    (own,) = segments(tmp_path / "j")
    own.write_bytes(own.read_bytes()[:-4])
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.offset == engine.offset - 1 and len(again.report) == 1
    again.close()


def test_within_the_last_group_anything_may_be_missing() -> None:
    """Steps that were flushed together: the disk may have written the last of them and not the first."""
    salt = segment.new_salt()
    data = segment.head(1, salt)
    starts = []
    for offset, group in ((1, 1), (2, 1), (3, 3), (4, 3), (5, 3)):
        starts.append(len(data))
        data += b"".join(
            segment.record(offset, group, written({"kind": "drop", "name": "a"}, b"12345"), salt)
        )
    for number, start in enumerate(starts):
        torn = data[: start + 4] + bytes(50) + data[start + 54 :]
        if number < 2:
            with pytest.raises(JournalError, match=f"name is damaged at byte {start},"):
                segment.read_records(torn, 1, salt, "name")
        else:
            found, end = segment.read_records(torn, 1, salt, "name")
            assert ([record.offset for record in found], end) == (list(range(1, number + 1)), start)
