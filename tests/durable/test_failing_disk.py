"""The journal on disks that fail at the n-th write, flush, rename, for every n."""

from __future__ import annotations

import contextlib
import errno
import functools
from pathlib import Path

import pytest
from tests.durable.disks import Counting, Failing, Killed, Killing, PowerCut, Quick
from tests.durable.story import SMALL, leave, open_engine, rows, same, story

import skyband as sb
from skyband.core.errors import DiskFull, JournalError
from skyband.durable import Engine, task


def act_on(engine: Engine, number: int) -> None:
    """The story's step of this number; that the monitor refuses one belongs to it."""
    with contextlib.suppress(sb.InputError, sb.QueryError):
        story()[number](engine.monitor, f"key {number}")


def told(folder: Path, disk: Counting) -> int:
    """The story on a disk, up to where it is killed: how many of its steps were acknowledged."""
    try:
        engine = open_engine(folder, disk)
    except Killed:
        return 0
    for number in range(len(story())):
        try:
            act_on(engine, number)
        except (JournalError, Killed):
            leave(engine)
            return number
    same(engine, len(story()))
    with contextlib.suppress(Killed):
        engine.close()
    leave(engine)
    return len(story())


@pytest.fixture(scope="module")
def moments(tmp_path_factory: pytest.TempPathFactory) -> int:
    """How many things the story does to a disk, of every kind."""
    disk = Counting()
    assert told(tmp_path_factory.mktemp("whole") / "journal", disk) == len(story())
    assert {"create", "write", "sync", "rename", "sync_folder", "remove"} <= set(disk.log)
    return disk.done


def test_the_story_needs_segments_and_snapshots_and_removes_both(tmp_path: Path) -> None:
    folder = tmp_path / "journal"
    told(folder, Counting())
    snapshots = sorted(folder.glob("*.snapshot"))
    segments = sorted(folder.glob("*.journal"))
    assert len(snapshots) == 2 and "0" * 20 not in snapshots[0].name
    assert int(segments[0].stem) > 2


def went_on(folder: Path, acknowledged: int) -> None:
    """Open the folder again: all that was acknowledged is there, and the one step under way may be. The rest of the
    story then comes to the same end, though a client that never got its answer sends its batch again."""
    engine = open_engine(folder)
    assert engine.offset in (acknowledged, acknowledged + 1)
    same(engine, engine.offset)
    if engine.offset > acknowledged and engine.keys.get(f"key {acknowledged}") is not None:
        act_on(engine, acknowledged)
        same(engine, acknowledged + 1)
    for number in range(engine.offset, len(story())):
        act_on(engine, number)
    same(engine, len(story()))
    leave(engine)
    engine = open_engine(folder)
    same(engine, len(story()))
    leave(engine)


DEEP = [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 20))]


@pytest.mark.parametrize("seed", DEEP)
def test_killed_at_any_moment_nothing_is_lost_and_nothing_twice(
    seed: int, moments: int, tmp_path: Path
) -> None:
    """By a kill or, in turns, by a power cut, which also loses what was not flushed."""
    for at in range(1, moments + 1):
        disk = PowerCut(at, seed=1000 * seed + at) if (at + seed) % 2 else Killing(at)
        acknowledged = told(tmp_path / str(at), disk)
        if isinstance(disk, PowerCut):
            disk.lose()
        went_on(tmp_path / str(at), acknowledged)


@pytest.mark.parametrize(
    ("number", "times"),
    [
        (errno.EIO, 1),
        (errno.ENOSPC, 3),
        pytest.param(errno.EIO, 4, marks=pytest.mark.soak),
        pytest.param(errno.ENOSPC, 1, marks=pytest.mark.soak),
    ],
)
def test_a_disk_that_fails_for_a_while_loses_nothing(
    number: int, times: int, moments: int, tmp_path: Path
) -> None:
    failed = 0
    for at in range(1, moments + 1):
        folder, disk = tmp_path / str(at), Failing(at, number, times)
        engine = None
        while engine is None:
            try:
                engine = open_engine(folder, disk)
            except JournalError:
                assert disk.done <= at + times
        for place in range(len(story())):
            while engine.offset == place:
                try:
                    act_on(engine, place)
                except JournalError as error:
                    failed += 1
                    assert disk.done <= at + times
                    assert isinstance(error, DiskFull) == (number == errno.ENOSPC)
                    same(engine, place)  # not changed by what failed
        same(engine, len(story()))
        leave(engine)
        engine = open_engine(folder)
        same(engine, len(story()))
        leave(engine)
    # what fails once is mostly tried again with a new segment, and nobody hears of it
    assert (failed > 0) == (number == errno.ENOSPC or times > 1)


def test_what_failed_is_not_there_after_a_restart_either(moments: int, tmp_path: Path) -> None:
    """The write may have come to the disk whole before something failed: it is cut off again."""
    failed = 0
    for at in range(8, moments + 1, 3):
        engine = open_engine(tmp_path / str(at), Failing(at, errno.ENOSPC))
        try:
            for place in range(len(story())):
                act_on(engine, place)
        except JournalError:
            failed += 1
            acknowledged = engine.offset
            leave(engine)
            engine = open_engine(tmp_path / str(at))
            assert engine.report == []
            same(engine, acknowledged)
        leave(engine)
    assert failed > 5


# -- several steps in one flush ---------------------------------------------------------------------------------

GROUPS, EACH = 4, 4


def pushed_in_groups(folder: Path, disk: Counting) -> int:
    """Groups of batches that wait together; how many of the batches were acknowledged."""
    acknowledged = 0
    try:
        engine = Engine(sb.Monitor(time="t"), folder, SMALL, disk)
    except Killed:
        return 0
    try:
        for group in range(GROUPS):
            first = group * EACH
            steps = [task.push(rows(n), None, f"key {n}", None) for n in range(first, first + EACH)]
            for step in steps:
                engine._enter(step)
            engine._drive()
            acknowledged += sum(step.future.result().rows > 0 for step in steps)
    except (Killed, JournalError):
        pass
    leave(engine)
    return acknowledged


@functools.cache
def states_in_groups() -> list[bytes]:
    twin = sb.Monitor(time="t")
    states = [twin.to_bytes()]
    for number in range(GROUPS * EACH):
        twin.push(rows(number))
        states.append(twin.to_bytes())
    return states


@pytest.mark.parametrize("seed", DEEP)
def test_of_a_torn_group_a_beginning_is_there_or_nothing(seed: int, tmp_path: Path) -> None:
    whole = PowerCut()
    assert pushed_in_groups(tmp_path / "whole", whole) == GROUPS * EACH
    partial = 0
    for at in range(1, whole.done + 1):
        folder, disk = tmp_path / str(at), PowerCut(at, seed=1000 * seed + at)
        acknowledged = pushed_in_groups(folder, disk)
        disk.lose()
        engine = Engine(sb.Monitor(time="t"), folder, SMALL, Quick())
        assert acknowledged <= engine.offset <= acknowledged + EACH
        partial += acknowledged < engine.offset < acknowledged + EACH
        assert engine.monitor.to_bytes() == states_in_groups()[engine.offset]
        for number in range(GROUPS * EACH):
            assert engine.push(rows(number), key=f"key {number}").offset == number + 1
        assert engine.monitor.to_bytes() == states_in_groups()[-1]
        leave(engine)
    assert partial or seed  # it does happen that some of a group is there
