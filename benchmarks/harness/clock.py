"""The times of steps, by wall clock and of CPU."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np


class Clock:
    """Seconds of each step, by wall clock and of CPU."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def step(self, push: Callable[[Any], Any], batch: Any) -> None:
        wall, cpu = time.perf_counter(), time.process_time()
        push(batch)
        self.cpu.append(time.process_time() - cpu)
        self.wall.append(time.perf_counter() - wall)

    def values(self) -> dict[str, float]:
        wall, cpu = np.array(self.wall), np.array(self.cpu)
        return {
            "mean": float(wall.mean()), "median": float(np.median(wall)), "p99": float(np.percentile(wall, 99)),
            "longest": float(wall.max()), "cpu": float(cpu.mean()), "cpu median": float(np.median(cpu)),
        }  # fmt: skip
