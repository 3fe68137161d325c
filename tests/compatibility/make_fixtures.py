"""Writes the fixtures of this folder, with the source of commit 5be4cef and no other.

    git worktree add OLD 5be4cef
    PYTHONPATH=OLD/src:. .venv/bin/python -m tests.compatibility.make_fixtures [NAME ...]

Without names all of them are written. What is in the folder already is never written again: what 5be4cef did is the
truth for ever. So a scenario that is new needs its name here, and one that changes needs another name.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.compatibility import recording
from tests.compatibility.scenarios import JOURNALS, OLD_RULES, SCENARIOS, Ask, Push, Scenario

import skyband as sb
from skyband.core.errors import JournalError
from skyband.durable import Engine, Settings

COMMIT = "5be4cef"


def check_source() -> None:
    """The source must be that commit's."""
    source = Path(sb.__file__).parent

    def git(*command: str) -> str:
        return subprocess.run(
            ["git", *command], cwd=source, capture_output=True, text=True, check=True
        ).stdout

    if not git("rev-parse", "HEAD").startswith(COMMIT) or git("status", "--porcelain", "."):
        sys.exit(f"{source} is not the source of {COMMIT}: see the top of {__file__}.")


def make(scenario: Scenario) -> None:
    """One scenario from begin to end, saved in the middle."""
    monitor, middle = scenario.monitor(), scenario.middle
    first = recording.play(scenario, monitor, 0, middle)
    saved, state = monitor.to_bytes(), recording.state_of(monitor)
    second = recording.play(scenario, monitor, middle)
    answers = {kind: first.answers[kind] | second.answers[kind] for kind in first.answers}
    answers |= {"middle": recording.plain(state), "end": recording.plain(recording.state_of(monitor))}
    recording.write(scenario, recording.Record(first.changes | second.changes, answers), saved)


def make_journal(scenario: Scenario, way: str) -> None:
    """A folder as a process left it after the scenario's first half."""
    short = Settings(segment_bytes=4000, snapshot_steps=9, background=False)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "journal"
        monitor = scenario.monitor()
        engine = Engine(monitor, folder, short if way == "snapshots" else Settings(background=False))
        last, steps = scenario.middle, {}
        if scenario is OLD_RULES:
            last = len(scenario.acts)
        while way == "unfinished" and not isinstance(scenario.acts[last - 1], Push):
            last += 1
        for number, act in enumerate(scenario.acts[:last]):
            if way == "left out" and number == 12:
                interrupted(monitor, act, number)
            with contextlib.suppress(sb.InputError, sb.QueryError):
                act.do(monitor, f"batch {number}")
            if engine.offset not in steps.values() and not isinstance(act, Ask):
                steps[number] = engine.offset
        offset, state = engine.offset, recording.plain(recording.state_of(monitor))
        if way == "closed":
            engine.close()
        else:
            engine.leave()
        if way == "unfinished":
            cut(folder)
            last, offset = last - 1, offset - 1
            del steps[last]
            before = scenario.monitor()
            recording.play(scenario, before, 0, last)
            state = recording.plain(recording.state_of(before))
        about = {"acts": last, "offset": offset, "steps": steps, "state": state}
        recording.write_journal(recording.journal_path(scenario, way), folder, about)


def interrupted(monitor: sb.Monitor, act: Push, number: int) -> None:
    """A step that was written and ends in the middle: the journal says that it must not be taken."""
    whole = monitor._push

    def half(*given: object) -> None:
        monitor._push = whole
        raise MemoryError

    monitor._push = half
    with contextlib.suppress(MemoryError, JournalError):
        act.do(monitor, f"batch {number}")


def cut(folder: Path) -> None:
    """The last record is not whole."""
    segment = max(folder.glob("*.journal"))
    with open(segment, "r+b") as file:
        file.truncate(segment.stat().st_size - 100)


def main(names: list[str]) -> None:
    check_source()
    (recording.HERE / "journals").mkdir(exist_ok=True, parents=True)
    known = {**SCENARIOS, OLD_RULES.name: OLD_RULES}
    for name in names or known:
        if not recording.path_of(known[name]).exists():
            make(known[name])
            print(name)
    for name, way in JOURNALS:
        if name in (names or known) and not recording.journal_path(known[name], way).exists():
            make_journal(known[name], way)
            print(f"{name}, its journal: {way}")


if __name__ == "__main__":
    main(sys.argv[1:])
