"""What is known about an expression without looking at rows."""

from __future__ import annotations

import math
from collections.abc import Mapping

from skyband.query.nodes import Expression


def bound(e: Expression, box: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    return -math.inf, math.inf


def direction(e: Expression, column: str) -> str:
    return "neither"
