"""What commit 5be4cef answered, saved and kept is answered, loaded and continued for ever.

The house behind the contract may change, and the meaning of no stream, saved file, journal or checkpoint with it.
`scenarios.py` says what was done, `written/` holds what came of it, to the last bit. If an answer must change (a rule
of the contract does), remove the fixtures that show the old one and say so in the CHANGELOG. What it left on Spark is
continued in tests/spark/test_written_by_5be4cef.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compatibility import pipelines, recording
from tests.compatibility.scenarios import JOURNALS, OLD_RULES, SCENARIOS, Push

import skyband as sb

NAMES = sorted(SCENARIOS)
KNOWN = {**SCENARIOS, OLD_RULES.name: OLD_RULES}


def test_a_difference_is_named() -> None:
    scenario = SCENARIOS["sa-plain"]
    written, _ = recording.read(scenario)
    step, rows = next((step, rows) for step, rows in written.changes.items() if len(rows) > 3)
    wrong = [*rows[:2], (*rows[2][:4], 77, *rows[2][5:]), *rows[3:]]
    with pytest.raises(
        AssertionError, match=rf"scenario sa-plain, step {step} \(push\), change 2: .*'seq': 77"
    ):
        recording.compare(scenario, written, written._replace(changes={**written.changes, step: wrong}))
    with pytest.raises(AssertionError, match=r"now it is nothing"):
        recording.compare(scenario, written, written._replace(changes={**written.changes, step: rows[:-1]}))
    monitor = scenario.monitor()
    with pytest.raises(
        AssertionError, match=r"scenario sa-plain: end / rows_seen: 5be4cef wrote 469, and now it is 0"
    ):
        recording.same_state(scenario, "end", written.answers["end"], monitor)


def test_every_scenario_was_written() -> None:
    assert sorted(path.stem for path in recording.HERE.glob("*.zip")) == sorted([*NAMES, OLD_RULES.name])
    journals = {recording.journal_path(KNOWN[name], way) for name, way in JOURNALS}
    assert set((recording.HERE / "journals").glob("*.zip")) == journals
    assert {*pipelines.FOLDER.iterdir()} == {*map(pipelines.path_of, pipelines.names())}


@pytest.mark.parametrize("name", NAMES)
def test_the_same_changes_and_answers(name: str) -> None:
    scenario = SCENARIOS[name]
    written, _ = recording.read(scenario)
    monitor, middle = scenario.monitor(), scenario.middle
    recording.compare(scenario, written, recording.play(scenario, monitor, 0, middle), 0, middle)
    recording.same_state(scenario, "middle", written.answers["middle"], monitor)
    recording.compare(scenario, written, recording.play(scenario, monitor, middle), middle)
    recording.same_state(scenario, "end", written.answers["end"], monitor)


@pytest.mark.parametrize("name", NAMES)
def test_a_saved_file_continues(name: str) -> None:
    scenario = SCENARIOS[name]
    written, saved = recording.read(scenario)
    monitor, middle = sb.Monitor.from_bytes(saved), scenario.middle
    recording.same_state(scenario, "loaded", written.answers["middle"], monitor)
    recording.compare(scenario, written, recording.play(scenario, monitor, middle), middle)
    recording.same_state(scenario, "end", written.answers["end"], monitor)


def test_a_file_of_older_rules_loads() -> None:
    written, saved = recording.read(OLD_RULES)
    recording.same_state(OLD_RULES, "loaded", written.answers["middle"], sb.Monitor.from_bytes(saved))


@pytest.mark.parametrize(("name", "way"), JOURNALS)
def test_a_journal_opens_and_continues(name: str, way: str, tmp_path: Path) -> None:
    scenario = KNOWN[name]
    about, (written, _) = recording.unpack_journal(scenario, way, tmp_path), recording.read(scenario)
    first = about["acts"]
    with sb.Monitor(journal=tmp_path / "journal") as monitor:
        assert monitor.journal is not None and monitor.journal.offset == about["offset"]
        recording.same_state(scenario, "opened", about["state"], monitor)
        # what changed in the past is reported as it was then
        past = monitor.journal.changes_since(monitor.journal.oldest)
        changes = {step.offset: recording.rows_of(step.changes) for step in past if step.changes.num_rows}
        offsets = {
            number: offset for number, offset in about["steps"].items() if offset > monitor.journal.oldest
        }
        for number, offset in offsets.items():
            reported = recording.Record({int(number): changes.pop(offset, [])}, written.answers)
            recording.compare(scenario, written, reported, int(number), int(number) + 1)
        assert not changes
        # a batch that is sent again gets its first answer
        again = range(max(0, first - 8), first)
        for number in (number for number in again if isinstance(scenario.acts[number], Push)):
            if str(number) not in written.answers["refused"]:
                repeated = {number: recording.rows_of(scenario.acts[number].do(monitor, f"batch {number}"))}
                found = recording.Record(repeated, written.answers)
                recording.compare(scenario, written, found, number, number + 1)
        recording.same_state(scenario, "repeated", about["state"], monitor)
        if scenario is OLD_RULES:
            return
        recording.compare(scenario, written, recording.play(scenario, monitor, first, keys=True), first)
        recording.same_state(scenario, "end", written.answers["end"], monitor)
    with sb.Monitor(journal=tmp_path / "journal") as monitor:
        recording.same_state(scenario, "opened again", written.answers["end"], monitor)
