"""The durable engine from outside: what is kept, what is refused, and what is said."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import decimal
import errno
import os
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.durable.disks import Counting, Failing, Quick
from tests.durable.story import BIG, SMALL, TOP, Twin, leave, open_engine, rows, segments, some, story

import skyband as sb
from skyband.core.errors import JournalError
from skyband.durable import Engine, Forgotten, KeyReused, Settings, Step, codec
from skyband.stream import clock

# -- the library's face --------------------------------------------------------------------------------------


def test_a_monitor_with_a_journal_goes_on(tmp_path: Path) -> None:
    with sb.Monitor(time="t", retain="1 minute", journal=tmp_path / "j") as m:
        w = m.watch("SELECT x FROM s ORDER BY x DESC LIMIT 2 WINDOW 10 SECONDS", name="w")
        m.push(rows(0))
        w.change(k=3)
        m.push(rows(1), key="one")
        top, offset = w.top(), m.journal.offset if m.journal else 0
    with pytest.raises(JournalError, match="is closed: open it again"):
        m.push(rows(2))
    again = sb.Monitor(journal=str(tmp_path / "j"))
    assert again.journal is not None and again.journal.offset == offset == 4
    assert again.time == "t" and str(again.retain) == str(m.retain)
    assert again.watches["w"].top().equals(top)
    assert again.push(rows(1), key="one").num_rows == m.journal.history.at(4).changes.num_rows  # type: ignore[union-attr]
    assert again.rows_seen == 8
    again.close()


def test_a_snapshot_is_what_save_writes(tmp_path: Path) -> None:
    engine = some(tmp_path / "j")
    engine.close()
    newest = max((tmp_path / "j").glob("*.snapshot"))
    loaded = sb.Monitor.load(newest)
    assert loaded.to_bytes() == engine.monitor.to_bytes() and loaded.journal is None


def test_options_are_those_of_the_beginning(tmp_path: Path) -> None:
    schema = pa.schema([("t", pa.float64()), ("x", pa.float64())])
    sb.Monitor(time="t", schema=schema, max_ahead="1 hour", journal=tmp_path / "j").close()
    sb.Monitor(journal=tmp_path / "j").close()
    sb.Monitor(time="t", schema={"t": "double", "x": "double"}, journal=tmp_path / "j").close()
    for options in (
        {"time": "x"},
        {"schema": {"t": "double"}},
        {"retain": sb.rows(3)},
        {"max_ahead": "2 hours"},
    ):
        (name,) = options
        with pytest.raises(sb.InputError, match=f"{name}= is not that which the journal .* began with"):
            sb.Monitor(**options, journal=tmp_path / "j")  # type: ignore[arg-type]
    sb.Monitor(journal=tmp_path / "j").close()  # and nobody holds the lock


def test_a_key_without_a_journal_is_an_error() -> None:
    with pytest.raises(sb.InputError, match="needs a journal"):
        sb.Monitor().push({"x": [1.0]}, key="a")


def test_sifted_rows_are_refused(tmp_path: Path) -> None:
    with (
        sb.Monitor(journal=tmp_path / "j") as m,
        pytest.raises(sb.InputError, match="push the rows themselves"),
    ):
        m.push_sifted([])


# -- one process at a time -----------------------------------------------------------------------------------


def test_only_the_owner_can_read_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "above" / "j"
    before = os.umask(0)
    try:
        with sb.Monitor(journal=folder) as m:
            m.push(rows(0))
    finally:
        os.umask(before)

    def modes() -> set[int]:
        return {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}

    assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and modes() == {0o600}
    for path in (folder, *folder.iterdir()):  # as an earlier version left it
        path.chmod(0o755 if path.is_dir() else 0o644)
    with sb.Monitor(journal=folder) as m:
        m.push(rows(1))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and modes() == {0o600}
    assert "could be read by others: now its owner alone can" in caplog.text


def test_two_can_not_open_one_folder(tmp_path: Path) -> None:
    engine = some(tmp_path / "j")
    with pytest.raises(JournalError, match="is open already, here or in another process"):
        open_engine(tmp_path / "j")
    code = f"import skyband as sb; sb.Monitor(journal={str(tmp_path / 'j')!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert ended.returncode == 1 and "is open already, here or in another process" in ended.stderr
    engine.close()
    Engine(sb.Monitor(), tmp_path / "j").close()


@pytest.mark.parametrize("place", ["file", "strange", "segments only"])
def test_a_folder_that_is_no_journal_is_refused(place: str, tmp_path: Path) -> None:
    folder = tmp_path / "j"
    if place == "file":
        folder.write_text("x")
    elif place == "strange":
        folder.mkdir()
        (folder / "letters.txt").write_text("dear")
    else:
        leave(some(folder))
        for snapshot in folder.glob("*.snapshot"):
            snapshot.unlink()
    with pytest.raises(JournalError) as error:
        Engine(sb.Monitor(), folder)
    assert str(folder) in str(error.value) and "\n" not in str(error.value)


# -- keys ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_repeated_batch_gets_its_first_answer(kind: str, tmp_path: Path) -> None:
    engine = some(tmp_path / "j" if kind == "disk" else None)
    first = engine.push({"x": [7.0, 8.0, float("nan")]}, key="mine")
    for _ in range(2):
        again = engine.push({"x": [7.0, 8.0, float("nan")]}, key="mine")
        assert again.repeated and not first.repeated
        assert again[:5] == first[:5] if isinstance(again, tuple) else True
        assert (again.rows, again.rejected, again.first_seq, again.offset, again.changed) == (3, 0, 10, 7, 4)
        assert again.changes.to_pylist() == first.changes.to_pylist()
        assert engine.monitor.rows_seen == 13
        if kind == "disk":
            leave(engine)
            engine = Engine(sb.Monitor(), tmp_path / "j", SMALL, Quick())
    with pytest.raises(KeyReused, match='"mine" was used for another batch, of 3 rows'):
        engine.push({"x": [1.0]}, key="mine")
    for key in ("", "a" * 201, "a\nb", 7):
        with pytest.raises(sb.InputError, match="An idempotency key must be"):
            engine.push({"x": [1.0]}, key=key)  # type: ignore[arg-type]
    engine.close()


def test_only_so_many_keys_are_kept(tmp_path: Path) -> None:
    engine = some(tmp_path / "j", Settings(keys=3), steps=6)
    engine.close()
    engine = Engine(sb.Monitor(), tmp_path / "j", Settings(keys=3))
    assert len(engine.keys) == 3
    assert engine.push({"x": [5.0, 0.5]}, key="k5").repeated
    assert not engine.push({"x": [0.0, 0.5]}, key="k0").repeated
    engine.close()


def test_a_refused_batch_may_use_its_key_again() -> None:
    engine = Engine(sb.Monitor(time="t"))
    with pytest.raises(sb.InputError):
        engine.push({"x": [1.0]}, key="a")
    assert not engine.push({"t": [1.0], "x": [1.0]}, key="a").repeated
    assert engine.offset == 2


# -- many callers --------------------------------------------------------------------------------------------


class Slow(Counting):
    """A disk whose flushes wait until they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = threading.Event()
        self.gate.set()

    def sync(self, file: Any) -> None:
        self.gate.wait(60)
        super().sync(file)


def test_those_who_wait_share_one_flush(tmp_path: Path) -> None:
    disk = Slow()
    engine = Engine(sb.Monitor(), tmp_path / "j", BIG, disk)
    engine.push({"x": [0.0]})
    disk.gate.clear()
    before = disk.log.count("sync")
    futures = [engine.submit({"x": [float(number)]}, key=f"k{number}") for number in range(50)]
    twice = engine.submit({"x": [3.0]}, key="k3")
    assert not any(future.done() for future in futures)
    assert not futures[0].cancel()
    disk.gate.set()
    receipts = [future.result(60) for future in futures]
    assert [receipt.offset for receipt in receipts] == list(range(2, 52))
    assert [receipt.first_seq for receipt in receipts] == list(range(1, 51))
    assert twice.result(60).repeated and twice.result().offset == receipts[3].offset
    assert disk.log.count("sync") - before <= 3
    engine.close()


def test_many_threads_and_readers_see_whole_steps(tmp_path: Path) -> None:
    engine = Engine(sb.Monitor(), tmp_path / "j", Settings(snapshot_steps=20, segment_bytes=4000), Quick())
    engine.watch("SELECT a, b FROM s ORDER BY a DESC LIMIT 2 WINDOW 4 ROWS WITH (algorithm = 'sa')", name="w")
    wrong: list[Any] = []
    steps: list[Step] = []
    end = engine.subscribe(steps.append)
    done = threading.Event()

    def write(name: int) -> None:
        for number in range(40):
            value = float(100 * number + name)
            receipt = engine.push({"a": [value, value], "b": [value, value]}, key=f"{name}/{number}")
            if receipt.rows != 2 or receipt.repeated:
                wrong.append(receipt)

    def look() -> None:
        while not done.is_set():
            with engine.reading() as monitor:
                seen = monitor.rows_seen, engine.offset
                if seen[0] != 2 * (seen[1] - 1) or len(steps) != seen[1] - 1:
                    wrong.append(seen)
                with engine.reading():
                    monitor.watches["w"].top()

    threads = [threading.Thread(target=write, args=(name,)) for name in range(3)]
    reader = threading.Thread(target=look)
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    reader.join()
    end()
    assert not wrong
    assert engine.offset == 121 and [step.offset for step in steps] == list(range(2, 122))
    engine.push({"a": [0.0], "b": [0.0]})
    assert len(steps) == 120
    state = engine.monitor.to_bytes()
    engine.close()
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.monitor.to_bytes() == state and len(again.keys) == 120
    again.close()


def test_who_comes_while_it_closes_is_taken_or_told(tmp_path: Path) -> None:
    for number in range(10):
        engine = Engine(sb.Monitor(), tmp_path / str(number), BIG, Quick())
        taken: list[int] = []

        def write(engine: Engine = engine, taken: list[int] = taken) -> None:
            with contextlib.suppress(JournalError):
                while True:
                    future = engine.submit({"x": [1.0]})
                    taken.append(engine.push({"x": [1.0]}).rows + future.result(60).rows)

        threads = [threading.Thread(target=write) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(taken) < number:
            time.sleep(0.001)
        engine.close()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
        again = Engine(sb.Monitor(), tmp_path / str(number))
        assert again.monitor.rows_seen == again.offset >= sum(taken)
        again.close()


def test_a_coroutine_can_wait_for_a_batch() -> None:
    async def main() -> int:
        engine = some(None)
        waiting = [asyncio.wrap_future(engine.submit({"x": [1.0]})) for _ in range(3)]
        waiting[0].cancel()  # whoever goes away doesn't stop the step
        receipts = await asyncio.gather(*waiting[1:])
        engine.close()
        return receipts[-1].offset

    assert asyncio.run(main()) == 9


def test_a_subscriber_that_raises_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    engine = some(None)

    def bad(step: Step) -> None:
        raise RuntimeError("no")

    engine.subscribe(bad)
    assert engine.push({"x": [1.0]}).rows == 1
    assert "a subscriber failed" in caplog.text


# -- recent changes ------------------------------------------------------------------------------------------


def test_changes_can_be_read_again_and_are_bounded(tmp_path: Path) -> None:
    settings = Settings(history_steps=4, background=False)
    engine = some(tmp_path / "j", settings, steps=9)
    for _ in range(2):
        assert engine.oldest == 6
        assert [step.offset for step in engine.changes_since(8)] == [9, 10]
        assert [step.offset for step in engine.changes_since(6)] == [7, 8, 9, 10]
        assert engine.changes_since(10) == [] == engine.changes_since(99)
        with pytest.raises(Forgotten, match="since offset 5 are no longer kept, only those since 6") as error:
            engine.changes_since(5)
        assert error.value.first == 6
        engine.close()
        engine = Engine(sb.Monitor(), tmp_path / "j", settings)
    engine.close()
    few = Engine(sb.Monitor(), None, Settings(history_changes=7))
    few.watch(TOP)
    for number in range(9):
        few.push({"x": [float(number)] * 3})
    assert len(few.changes_since(few.oldest)) == 1


def test_changes_of_a_time_that_becomes_another_type(tmp_path: Path) -> None:
    engine = Engine(sb.Monitor(time={"b": "t"}), tmp_path / "j")
    engine.watch("SELECT x FROM a ORDER BY x LIMIT 1 WINDOW 9 ROWS")
    engine.watch("SELECT x FROM b ORDER BY x LIMIT 1 WINDOW 9 ROWS")
    engine.push({"x": [1.0]}, stream="a")
    engine.push({"t": [5.0], "x": [1.0]}, stream="b")
    before = [step.changes.to_pylist() for step in engine.changes_since(0)]
    engine.close()
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert [step.changes.to_pylist() for step in again.changes_since(0)] == before
    again.close()


# -- what is given -------------------------------------------------------------------------------------------


def test_bytes_of_an_arrow_stream_go_as_they_are(tmp_path: Path) -> None:
    engine = some(tmp_path / "j", BIG)
    data = codec.to_ipc(
        pa.table({"x": [3.5, 4.5], "c": pa.array(["a", "b"]).dictionary_encode()})
    ).to_pybytes()
    assert engine.push(data).rows == 2
    assert data in segments(tmp_path / "j")[0].read_bytes()
    for bad in (b"", b"nothing", data[: len(data) // 2], bytes(200)):
        with pytest.raises(sb.InputError, match="not a whole Arrow IPC stream"):
            engine.push(bad)
    assert engine.offset == 7
    leave(engine)
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.monitor.to_bytes() == engine.monitor.to_bytes()
    again.close()


def test_rows_that_could_not_be_read_are_rejects(tmp_path: Path) -> None:
    engine = Engine(sb.Monitor(), tmp_path / "j")
    receipt = engine.push({"x": [1.0, None, 2.0]}, unread={1: ("not a number", '{"x": oops}')})
    assert (receipt.rows, receipt.rejected) == (3, 1)
    rejects = engine.monitor.rejects().to_pylist()
    assert rejects == [
        {"seq": 1, "stream": "", "reason": "type", "detail": "not a number", "raw": '{"x": oops}'}
    ]
    leave(engine)
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.monitor.rejects().to_pylist() == rejects
    again.close()


VALUES = [
    None, True, 3, 2**70, 1.5, float("inf"), "text", "\ud800", b"bytes", np.float32(1.5), np.int8(3), np.bool_(True),
    dt.datetime(2024, 1, 2, 3), dt.datetime(2024, 1, 2, tzinfo=dt.UTC), dt.date(2024, 1, 2), decimal.Decimal("1.50"),
    np.datetime64("2024-01-02T03:04:05", "s"), [1, 2], {"a": 1}, dt.timedelta(seconds=3),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_single_values_survive(value: Any) -> None:
    import json

    back = codec.hear(json.loads(json.dumps(codec.say(value))))
    assert back == value and type(back) is type(value)


def test_a_value_of_no_type_keeps_its_text() -> None:
    back = codec.hear(codec.say(object))
    assert repr(back) == repr(object) and str(back) == str(object)
    zone = dt.timezone(dt.timedelta(hours=2))
    for moment in (
        dt.datetime(2024, 1, 2, 3, tzinfo=zone),
        np.datetime64("2024-01-02T01:00"),
        7,
        7.5,
        np.float64(3),
    ):
        assert clock.seconds(codec.hear(codec.say_time(moment))) == clock.seconds(moment)
    with pytest.raises(sb.InputError, match="is not a time"):
        codec.say_time("soon")


# -- a step that ends in the middle ---------------------------------------------------------------------------


@pytest.mark.parametrize("error", [MemoryError, KeyboardInterrupt])
def test_a_step_that_ends_in_the_middle_is_left_out(
    error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, twin = open_engine(tmp_path / "j", settings=BIG), Twin()
    watch = None
    for number, act in enumerate(story()):
        if number == 5:
            watch = engine.monitor.watches["talkers"]
            with monkeypatch.context() as broken:
                real = sb.Monitor._tell

                def half(self: sb.Monitor, arriving: Any, real: Any = real) -> Any:
                    sb.Monitor._tell = real  # type: ignore[method-assign]
                    real(self, arriving)
                    raise error("in the middle")

                broken.setattr(sb.Monitor, "_tell", half)
                with pytest.raises(error):
                    engine.monitor.push(rows(77), key="77")
            twin.offset += 2  # the step, and the word that it doesn't count
            assert watch is engine.monitor.watches["talkers"]  # what a caller holds goes on
        with contextlib.suppress(sb.QueryError, sb.InputError):
            act(engine.monitor, None)
        twin.take(act)
        twin.same(engine)
    assert watch is not None and watch.top().equals(twin.monitor.watches["talkers"].top())
    leave(engine)
    again = open_engine(tmp_path / "j")
    twin.same(again)
    assert not again.push(rows(77), key="77").repeated
    again.close()


def test_in_memory_it_can_only_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = some(None)

    def fails(self: sb.Monitor, arriving: Any) -> Any:
        raise MemoryError

    with monkeypatch.context() as broken:
        broken.setattr(sb.Monitor, "_tell", fails)
        future = engine.submit({"x": [1.0]})
        with pytest.raises(JournalError, match="stopped in the middle of step 7"):
            future.result(60)
    for ask in (lambda: engine.push({"x": [1.0]}), lambda: engine.changes_since(0)):
        with pytest.raises(JournalError, match="stopped in the middle of step 7"):
            ask()
    engine.close()


# -- snapshots -----------------------------------------------------------------------------------------------


def test_the_folder_does_not_grow_for_ever(tmp_path: Path) -> None:
    settings = Settings(segment_bytes=3000, snapshot_bytes=10_000)
    engine = Engine(sb.Monitor(), tmp_path / "j", settings, Quick())
    engine.watch(TOP)
    removed = 0
    for number in range(200):
        engine.push({"x": [float(number % 17)] * 20})
        assert engine._keeper is not None
        engine._keeper.wait()
        sizes = [path.stat().st_size for path in (tmp_path / "j").glob("*.snapshot")]
        assert len(sizes) <= 2
        # as much as two snapshots, one segment that is not yet full of old steps, and one step
        kept = segments(tmp_path / "j")
        assert sum(path.stat().st_size for path in kept) <= 2 * max(10_000, *sizes) + 3000 + 2 * 600
        removed = int(kept[0].stem) - 1
    assert removed > 5
    engine.close()


def test_a_snapshot_on_demand(tmp_path: Path) -> None:
    engine = some(tmp_path / "j", BIG)
    engine.snapshot()
    assert (tmp_path / "j" / f"{engine.offset:020d}.snapshot").exists()
    leave(engine)
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.offset == engine.offset
    again.close()
    with pytest.raises(sb.InputError, match="in memory"):
        some(None).snapshot()


# -- who may open it -----------------------------------------------------------------------------------------


def test_a_monitor_that_was_used_begins_a_folder_but_continues_none(tmp_path: Path) -> None:
    used = sb.Monitor()
    used.watch(TOP, name="top")
    used.push({"x": [1.0, 2.0]})
    engine = Engine(used, tmp_path / "j")
    engine.push({"x": [3.0]})
    with pytest.raises(sb.InputError, match="has a journal already"):
        Engine(used, tmp_path / "other")
    engine.close()
    other = sb.Monitor()
    other.push({"x": [1.0]})
    with pytest.raises(sb.InputError, match="this monitor was used already: make a fresh one"):
        Engine(other, tmp_path / "j")
    again = Engine(sb.Monitor(), tmp_path / "j")
    assert again.monitor.watches["top"].top()["x"].to_pylist() == [3.0, 2.0, 1.0]
    again.close()


def test_a_folder_stays_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    engine = some(Path("j"), Settings(segment_bytes=1, background=False))
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    engine.push({"x": [1.0]})
    engine.close()
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert Engine(sb.Monitor(), tmp_path / "j").offset == 7


def test_what_one_caller_gives_wrongly_fails_nobody_else(tmp_path: Path) -> None:
    engine = some(tmp_path / "j")
    for wrong in ({"stream": object()}, {"stream": 7}, {"key": object()}):
        with pytest.raises(sb.InputError):
            engine.submit({"x": [1.0]}, **wrong)  # type: ignore[arg-type]
    for query in (7, None, sb.rows(3)):
        with pytest.raises(sb.QueryError, match="A watch takes SQL or a query object"):
            engine.watch(query)  # type: ignore[arg-type]
    with pytest.raises(sb.InputError, match="name must be a text"):
        engine.watch(TOP, name=7)  # type: ignore[arg-type]
    with pytest.raises(sb.InputError, match='no watch "nobody"'):
        engine.drop("nobody")
    with pytest.raises(sb.QueryError, match="k must be a whole number"):
        engine.change("top", k="many")  # type: ignore[arg-type]
    assert engine.push({"x": [1.0]}).offset == 8  # only the change came as far as the journal
    engine.close()


def test_it_is_made_anew_as_soon_as_there_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step ends in the middle, and there isn't even room to say so: reads are refused till there is."""
    disk = Failing(-1, errno.ENOSPC, times=10**9)
    engine = Engine(sb.Monitor(), tmp_path / "j", BIG, disk)
    engine.watch(TOP, name="top")
    engine.push({"x": [1.0]})
    real = sb.Monitor._tell

    def half(self: sb.Monitor, arriving: Any) -> Any:
        monkeypatch.setattr(sb.Monitor, "_tell", real)
        real(self, arriving)
        disk.at = disk.done + 1
        raise MemoryError

    monkeypatch.setattr(sb.Monitor, "_tell", half)
    with pytest.raises(MemoryError):
        engine.push({"x": [2.0]})
    for _ in range(2):
        with pytest.raises(JournalError, match="stopped in the middle of step 3"):
            engine.push({"x": [3.0]})
        with pytest.raises(JournalError, match="stopped in the middle of step 3"):
            engine.changes_since(0)
    disk.at = -1
    assert engine.push({"x": [4.0]}).first_seq == 1
    assert engine.monitor.watches["top"].top()["x"].to_pylist() == [4.0, 1.0]
    engine.close()
