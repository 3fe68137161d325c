"""skyband on Spark: the same engine behind Structured Streaming.

`watch` turns a streaming DataFrame into one of changes. `run_pipeline`, `verify_pipeline` and `run_demo` are what
the command line calls. PySpark is imported here and nowhere else, and only when one of these is used.

In reading order. A pipeline: config (pipeline.toml), pipeline (its run), placement, driver and engine (state in the
driver), executors (state with the executors), asking (other queries while it runs), progress, metrics, signals. What
tasks do: source and filelog (files and their order), splits, inputs, reading, values with registered, registry, avro
and protobuf (records), jobs, sifting (driver), routing and hashing (executors), expected (strict streams). State in
executors: shards (units), merging (the step of one), residents, seven, handover, frames (what is late), partial and
gather (units' answers become one), shown. Output: sinks/. What lasts: checkpoint, files, hadoop, paths. `watch`:
dataframe/. `skyband verify`: verify, again, outputs, brute, brute_answers, due. Spark itself: session, jvm, java,
home, connector; demo.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.spark.session.progress import (
        BatchInfo,
        OnBatch,
        Summary,
        print_batch,
    )
    from skyband.spark.verify.compare import Report, verify_pipeline

    from .dataframe import answers, watch
    from .demo import run_demo
    from .pipeline import run_pipeline

__all__ = [
    "BatchInfo",
    "OnBatch",
    "Report",
    "Summary",
    "answers",
    "print_batch",
    "run_demo",
    "run_pipeline",
    "verify_pipeline",
    "watch",
]

_HOMES = {
    "BatchInfo": "session.progress",
    "OnBatch": "session.progress",
    "Report": "verify",
    "Summary": "session.progress",
    "answers": "dataframe",
    "print_batch": "session.progress",
    "run_demo": "demo",
    "run_pipeline": "pipeline",
    "verify_pipeline": "verify",
    "watch": "dataframe",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{home}", __name__), name)
