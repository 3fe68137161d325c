"""Where a pipeline's state lives: in the driver, or with the executors.

The driver placement has less to do for a batch, and answers sooner; what it keeps has to fit one process, and what
every batch asks of the engine has to fit one core. So `auto` takes the driver as long as the queries' state is small,
and always where all executors are on the driver's own machine (`local[…]`), for there they could not carry more. A
checkpoint stays where it began.
"""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from skyband.core.errors import InputError
from skyband.query.model import Grouped, Joined, Pairs, Rows, Threshold
from skyband.spark.config import Pipeline

from .checkpoint import Checkpoint

if TYPE_CHECKING:
    from skyband.query.model import Query

_BYTES = 1 << 30  # state that a driver carries without thinking about it
_QUERIES = 2000  # standing queries that one core answers beside everything else
_GUESS = 1_000_000  # rows of a window that is a stretch of time


def choose_placement(pipeline: Pipeline, checkpoint: Checkpoint | None, first: int) -> tuple[str, str]:
    """The placement, and why; `first` is the first batch never attempted."""
    wanted = pipeline.spark.placement
    begun = None
    if checkpoint is not None and first > 0:
        begun = "executors" if (checkpoint.own / "shards.json").exists() else "driver"
    if begun is not None and wanted not in ("auto", begun):
        raise InputError(
            f"The checkpoint {checkpoint and checkpoint.folder} was begun with the state in the {begun}, and [spark] "
            f'asks for placement = "{wanted}": undo the change, or start again with another checkpoint and output '
            f"folder."
        )
    if begun is not None:
        return begun, "as the checkpoint was begun"
    if wanted != "auto":
        return wanted, "asked for in [spark]"
    return _fitting(pipeline)


def explain_pipeline(path: str | Path, all_of_it: bool = False) -> str:
    """Where a pipeline's state will be and why, and the plan of each query. Neither rows nor Spark are needed."""
    from skyband.engine.monitor import Monitor
    from skyband.spark.config import load_pipeline
    from skyband.spark.session.start import reach

    from .asking import Asked
    from .engine import watch_all

    pipeline = load_pipeline(path)
    reach(pipeline)
    checkpoint = Checkpoint(pipeline.spark.checkpoint.resolve())
    pipeline = replace(pipeline, queries=Asked(checkpoint).applied(pipeline.queries))
    chosen, why = choose_placement(pipeline, checkpoint, checkpoint.first_new())
    monitor = Monitor(**pipeline.monitor_options())
    monitor.lists_only = True  # as on Spark
    watch_all(monitor, pipeline)
    plans = [watch.explain().text(all_of_it) for watch in monitor.watches.values()]
    return "\n\n".join([f"placement {chosen}: {why}", *plans])


def _fitting(pipeline: Pipeline) -> tuple[str, str]:
    from .engine import bound

    queries = [bound(query, pipeline) for query in pipeline.queries]
    size = sum(_state(query) for query in queries)
    many = "1 query" if len(queries) == 1 else f"{len(queries):,} queries"
    what = f"{many} will keep about {_bytes(size)}"
    if pipeline.spark.master.startswith("local"):
        return "driver", f"{what}, and the executors would be on this machine too"
    if len(queries) > _QUERIES or size > _BYTES:
        return "executors", f"{what}, which is more than one process should carry"
    return "driver", f"{what}, which one process carries"


def _state(query: Query) -> float:
    """About how many bytes a query keeps."""
    rows = float(query.window.n if isinstance(query.window, Rows) else _GUESS)
    if isinstance(query, Pairs | Grouped | Joined):
        return rows * 40
    if isinstance(query, Threshold):
        return rows * 4  # one row in six beyond the bound
    k = query.k
    return 24.0 * min(rows, k * (1 + math.log(max(1.0, rows / k))))


def _bytes(size: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:,.0f} {unit}"
        size /= 1000
    return f"{size:,.1f} GB"
