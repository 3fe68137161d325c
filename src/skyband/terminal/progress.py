"""How far a replay is: a bar on a terminal, nothing in a pipe."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class Bar:
    """A progress bar on standard error, drawn a few times a second, gone when the work is done."""

    def __init__(self, label: str, shown: bool | None = None) -> None:
        self._label = label
        self._shown = sys.stderr.isatty() if shown is None else shown
        self._progress: Progress | None = None
        self._task: TaskID | None = None
        self._next = 0.0

    def __enter__(self) -> Bar:
        if self._shown:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            self._progress = Progress(
                TextColumn("{task.description}"),
                BarColumn(bar_width=40),
                TextColumn("{task.fields[share]}"),
                TextColumn("[dim]{task.fields[rows]:,} rows[/]"),
                TimeElapsedColumn(),
                console=Console(file=sys.stderr),
                transient=True,
                refresh_per_second=8,
            )
            self._task = self._progress.add_task("starting", total=None, rows=0, share="")
            self._progress.start()
        return self

    def update(self, rows: int, fraction: float | None) -> None:
        """So many rows so far, this much of all."""
        if self._progress is None or self._task is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + 0.05
        if fraction is None:
            self._progress.update(self._task, description=self._label, rows=rows)
        else:
            share = f"{100 * fraction:3.0f} %"
            self._progress.update(
                self._task, description=self._label, total=1.0, completed=fraction, rows=rows, share=share
            )

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._progress is not None:
            self._progress.stop()
