"""The options that WITH (…) and the builders accept."""

from __future__ import annotations

import math

from skyband.query.assumptions import read_appears, read_ranges
from skyband.query.suggestions import nearest

NUMBERS = ("additional", "block", "buffer", "cells", "flag", "gamma", "kmax", "limit", "refresh", "slack")
"""Options of single algorithms; each algorithm checks which of them it takes."""
OF_OBJECTS = ("appears", "counts", "range", "sample")
"""Options of grouped and joined queries: assumptions about coming rows, and estimated counts (assumptions.py)."""
KNOWN = ("algorithm", "error", "repeat", *OF_OBJECTS, *NUMBERS)
REPEATS = ("sum", "max", "last")
COUNTS = ("sketch", "exact")


def check_option(name: str, value: object) -> str | None:
    """Return what is wrong with an option, without a full stop; None if it is valid."""
    if name not in KNOWN:
        near = nearest(name, KNOWN)
        return f"There is no option {name}; " + (
            f"did you mean {near}" if near else f"there are {', '.join(KNOWN)}"
        )
    if name == "algorithm":
        if not isinstance(value, str) or not value:
            return "The option algorithm takes a name, such as algorithm = 'sa'"
    elif name == "repeat":
        if not isinstance(value, str) or value.lower() not in REPEATS:
            return "The option repeat takes 'sum', 'max' or 'last'"
    elif name == "range":
        if not isinstance(value, str) or read_ranges(value) is None:
            return (
                "The option range takes least and greatest values, such as range = '0..1' or "
                "range = 'r1.x 0..1, r2.x 0..9'"
            )
    elif name == "appears":
        if not isinstance(value, str) or read_appears(value) is None:
            return "The option appears takes 'once', 'once per window' or a number, such as appears = '3 per window'"
    elif name == "counts":
        if not isinstance(value, str) or value.lower() not in COUNTS:
            return "The option counts takes 'sketch' or 'exact'"
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return f"The option {name} takes a number, such as {name} = {'0.001' if name == 'error' else '2'}"
    elif name == "error" and not 0 <= value < 1:
        return "The option error takes a number from 0 to less than 1, such as error = 0.001"
    elif value < 0:
        return f"The option {name} takes a number that is not negative"
    return None
