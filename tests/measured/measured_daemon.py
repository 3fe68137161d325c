"""Spark's Python workers, made to write down what coverage saw of them before they go (`make coverage`).

Spark ends its workers with a hang-up signal, which Python answers by vanishing. Here they leave through `os._exit`,
where coverage (`patch = ["_exit"]`) saves its data.
"""

from __future__ import annotations

import os
import signal
from typing import Any

from pyspark import daemon

_signal = signal.signal


def _leaving_properly(number: int, action: Any) -> Any:
    if number == signal.SIGHUP and action is signal.SIG_DFL:
        return _signal(number, lambda *_: os._exit(0))
    return _signal(number, action)


if __name__ == "__main__":
    signal.signal = _leaving_properly
    daemon.manager()
