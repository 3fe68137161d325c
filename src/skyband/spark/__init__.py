"""skyband on Spark: the same engine behind Structured Streaming.

`watch` turns a streaming DataFrame into one of changes. `run_pipeline`, `verify_pipeline` and `run_demo` are what
the command line calls. PySpark is imported here and nowhere else, and only when one of these is used.

In reading order: config (pipeline.toml), pipeline (its run), input/ (what is read), driver/ and executors/ (the two
places of the state), sinks/ (output), dataframe/ (`watch`), verify/ (`skyband verify`), session/ (Spark itself), jvm/
(what is not public of PySpark, and files in stores), demo.
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
