"""skyband: exact continuous top-k over sliding windows.

Say once what you want to watch; from then on the answer is always there, exact, as rows stream by:

    import skyband as sb
    m = sb.Monitor(time="ts")
    w = m.watch("SELECT id, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 5 MINUTES")
    changes = m.push({"ts": [1.0, 2.0], "id": ["a", "b"], "speed": [88.0, 93.5]})
    w.top()

Names are looked up on first use, so that `import skyband` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skyband.core.errors import DiskFull, InputError, JournalError, QueryError, SkybandError, StrictError
    from skyband.engine.monitor import Monitor
    from skyband.engine.watch import Watch
    from skyband.query.builders import above, grouped, joined, nearest, pairs, topk
    from skyband.query.model import last, rows
    from skyband.server.client import connect

__version__ = "0.1.0"

_HOMES = {
    "Monitor": "skyband.engine.monitor",
    "Watch": "skyband.engine.watch",
    "SkybandError": "skyband.core.errors",
    "QueryError": "skyband.core.errors",
    "InputError": "skyband.core.errors",
    "JournalError": "skyband.core.errors",
    "StrictError": "skyband.core.errors",
    "DiskFull": "skyband.core.errors",
    "rows": "skyband.query.model",
    "last": "skyband.query.model",
    "topk": "skyband.query.builders",
    "nearest": "skyband.query.builders",
    "above": "skyband.query.builders",
    "pairs": "skyband.query.builders",
    "joined": "skyband.query.builders",
    "grouped": "skyband.query.builders",
    "connect": "skyband.server.client",
}

__all__ = [
    "DiskFull",
    "InputError",
    "JournalError",
    "Monitor",
    "QueryError",
    "SkybandError",
    "StrictError",
    "Watch",
    "__version__",
    "above",
    "connect",
    "grouped",
    "joined",
    "last",
    "nearest",
    "pairs",
    "rows",
    "topk",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skyband' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
