"""skyband on Spark: the same engine behind Structured Streaming.

`watch` turns a streaming DataFrame into one of changes. `run_pipeline`, `verify_pipeline` and `run_demo` are what
the command line calls. PySpark is imported here and nowhere else, and only when one of these is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .dataframe import answers, watch
    from .demo import run_demo
    from .pipeline import run_pipeline
    from .progress import BatchInfo, OnBatch, Summary, print_batch
    from .verify import Report, verify_pipeline

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
    "BatchInfo": "progress",
    "OnBatch": "progress",
    "Report": "verify",
    "Summary": "progress",
    "answers": "dataframe",
    "print_batch": "progress",
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
