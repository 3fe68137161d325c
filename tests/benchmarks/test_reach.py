"""How far it goes: the page's tables are those of its own measured costs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.spark import reach
from skyband.core.errors import InputError

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "how-far.md").read_text()
COSTS = [
    reach.Cost(1, 1000, 2_000_000, 0.474, 0.214, 639_332, 945_974, 4),
    reach.Cost(2, 1000, 2_000_000, 0.542, 0.218, 639_338, 946_017, 4),
    reach.Cost(4, 1000, 2_000_000, 0.938, 0.250, 1_136_173, 1_022_106, 8),
    reach.Cost(2, 1000, 500_000, 0.470, 0.238, 492_167, 763_515, 4),
    reach.Cost(2, 10_000, 2_000_000, 1.962, 0.408, 812_215, 8_286_029, 4),
]


def test_the_tables_of_the_page() -> None:
    assert "\n".join(reach.table(COSTS)) in PAGE
    *lines, words = reach.model(COSTS)
    assert "\n".join(lines).strip() in PAGE
    assert words.startswith("First bottleneck: driver: starting 200 tasks, with a batch each second")


def test_bytes_by_the_event_log(tmp_path: Path) -> None:
    def ended(stage: int, shuffled: int) -> dict[str, object]:
        metrics = {"Shuffle Write Metrics": {"Shuffle Bytes Written": shuffled}, "Result Size": 10}
        return {"Event": "SparkListenerTaskEnd", "Stage ID": stage, "Task Metrics": metrics}

    events: list[dict[str, object]] = [
        {"Event": "SparkListenerJobStart", "Stage IDs": [0], "Properties": {}},
        ended(0, 1000),
    ]
    for batch in range(reach.WARM + 1):
        properties = {"streaming.sql.batchId": str(batch)}
        stages = [2 * batch + 1, 2 * batch + 2]
        events.append({"Event": "SparkListenerJobStart", "Stage IDs": stages, "Properties": properties})
        events += [ended(stages[0], 100 * batch), ended(stages[1], 0)]
    log = tmp_path / "app" / "events"
    log.parent.mkdir()
    log.write_text("\n".join(map(json.dumps, events)) + '\n{"Event": "SparkListenerTaskEn')
    assert reach._moved(tmp_path) == (100.0 * reach.WARM, 20.0, 2.0)
    log.write_text("")
    with pytest.raises(InputError, match="has no tasks of a micro-batch"):
        reach._moved(tmp_path)
