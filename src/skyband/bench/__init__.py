"""Benchmarks: every figure that the docs quote, printed by a command.

`make bench` runs them all; `skyband bench NAME` runs one. Competitors run interleaved in one process on the same
batches, and what counts is the ratio between them: rows per second change with the machine, ratios hardly do.
Times are CPU seconds of the process unless a line says otherwise, so that a busy machine blurs less.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

from skyband.errors import InputError

_EXPERIMENTS = {
    "engine": (
        "skyband.bench.engine",
        "ra against sa, the brute force, DuckDB asked again, and the machine's limit",
    ),
    "sizes": (
        "skyband.bench.sizes",
        "how many rows are kept: the k-skyband's size law (Pripužić et al., Lemma 4.9)",
    ),
    "startup": ("skyband.bench.startup", "import skyband and skyband --help, in fresh processes"),
    "spark": (
        "skyband.bench.on_spark",
        "the pipeline's driver placement against the same source into nothing",
    ),
}


def names() -> dict[str, str]:
    """The experiments and what each shows."""
    return {name: about for name, (_, about) in _EXPERIMENTS.items()}


def run(name: str) -> None:
    """Run one experiment and print its table."""
    if name not in _EXPERIMENTS:
        raise InputError(f'There is no experiment "{name}"; there are {", ".join(_EXPERIMENTS)}.')
    main: Callable[[], None] = import_module(_EXPERIMENTS[name][0]).main
    main()
