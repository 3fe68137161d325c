"""What commit 5be4cef answered, saved and kept is answered, loaded and continued for ever.

The house behind the contract may change, and the meaning of no stream, saved file, journal or checkpoint with it.
`scenarios.py` says what was done, `written/` holds what came of it, to the last bit. If an answer must change (a rule
of the contract does), remove the fixtures that show the old one and say so in the CHANGELOG.
"""

from __future__ import annotations

import pytest
from tests.compatibility import recording
from tests.compatibility.scenarios import SCENARIOS

import skyband as sb

NAMES = sorted(SCENARIOS)


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
    assert sorted(path.stem for path in recording.HERE.glob("*.zip")) == NAMES


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
