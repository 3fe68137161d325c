"""How long state takes to a Python worker and back, by either of Spark's stateful operators.

The state is that of a unit of the executors placement: one key with one blob. Every micro-batch reads the blob and
replaces it by another one of the same size, and does nothing else. So the runs differ in the operator only: they have
the same files, keys, partitions and state store, and a no-op sink. `applyInPandasWithState` has the blob as a text, as
in the pipeline (`seven`). `transformWithStateInPandas` needs the package `protobuf`.
"""

from __future__ import annotations

import importlib.util
import os
import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.spark.runs import into_nothing, stream_of, triggers, write_files
from skyband.spark.executors.merging import STATE, state_bytes
from skyband.spark.executors.run import state_settings
from skyband.spark.executors.seven import to_text

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.state import GroupState

UNITS = 2
SIZES = (100_000, 1_300_000)  # bytes; five hundred queries of the benchmark have the second
_OUTPUT = "unit bigint, size bigint"
_NAMES = ("applyInPandasWithState", "transformWithState")


def operators() -> tuple[str, ...]:
    """Return the operators that can run here."""
    try:
        known = importlib.util.find_spec("google.protobuf") is not None
    except ModuleNotFoundError:  # nothing of `google` at all
        known = False
    return _NAMES if known else _NAMES[:1]


def blob_seconds(session: SparkSession, home: Path, batches: int, warm: int) -> dict[int, dict[str, float]]:
    """Return the seconds of a micro-batch with each operator, by size of the blob."""
    data = home / "blobs"
    write_files(data, batches, 200)
    names = operators()
    found: dict[int, dict[str, float]] = {}
    for size in SIZES:
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for turn in range(2):
            for name in names:
                folder = home / f"blob-{size}-{name}-{turn}"
                run = partial(_run, session, data, folder, name, size)
                seconds[name] += [*triggers(session, run)][warm:]
        found[size] = {name: statistics.median(every) for name, every in seconds.items()}
    return found


def _run(session: SparkSession, data: Path, folder: Path, name: str, size: int) -> None:
    rows = stream_of(session, data)
    keyed = rows.selectExpr(f"explode(sequence(0L, {UNITS - 1}L)) AS unit", "x0").groupBy("unit")
    with state_settings(session, UNITS):
        found: DataFrame
        if name == _NAMES[0]:
            found = keyed.applyInPandasWithState(_stepper(size), _OUTPUT, STATE, "append", "NoTimeout")
        else:
            found = keyed.transformWithStateInPandas(_processor(size), _OUTPUT, "append", "None")
        into_nothing(found, folder)


def _stepper(size: int) -> Any:
    def step(key: Any, frames: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = sum(len(frame) for frame in frames)
        before = len(state_bytes(state.get[0])) if state.exists else 0
        assert before in (0, size) and rows
        state.update((to_text(os.urandom(size)),))
        yield pd.DataFrame({"unit": [key[0]], "size": [before]})

    return step


def _processor(size: int) -> Any:
    from pyspark.sql.streaming import StatefulProcessor

    class Keep(StatefulProcessor):
        def init(self, handle: Any) -> None:
            self._state = handle.getValueState("state", "state binary")

        def handleInputRows(self, key: Any, rows: Iterator[pd.DataFrame], timerValues: Any) -> Iterator[Any]:
            import pandas as pd

            count = sum(len(frame) for frame in rows)
            before = len(self._state.get()[0]) if self._state.exists() else 0
            assert before in (0, size) and count
            self._state.update((os.urandom(size),))
            yield pd.DataFrame({"unit": [key[0]], "size": [before]})

        def close(self) -> None:
            pass

    return Keep()
