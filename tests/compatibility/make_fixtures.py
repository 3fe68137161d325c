"""Writes the fixtures of this folder, with the source of commit 5be4cef and no other.

    git worktree add OLD 5be4cef
    PYTHONPATH=OLD/src:. .venv/bin/python -m tests.compatibility.make_fixtures [NAME ...]

Without names all of them are written. What is in the folder already is never written again: what 5be4cef did is the
truth for ever. So a scenario that is new needs its name here, and one that changes needs another name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.compatibility import recording
from tests.compatibility.scenarios import SCENARIOS, Scenario

import skyband as sb

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


def main(names: list[str]) -> None:
    check_source()
    recording.HERE.mkdir(exist_ok=True)
    for name in names or SCENARIOS:
        if recording.path_of(SCENARIOS[name]).exists():
            print(f"{name} is there already")
        else:
            make(SCENARIOS[name])
            print(name)


if __name__ == "__main__":
    main(sys.argv[1:])
