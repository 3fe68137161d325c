"""Benchmarks: every figure that the docs quote, printed by a command.

`make bench` runs them all; `skyband bench NAME` runs one. Competitors run interleaved in one process on the same
batches, and what counts is the ratio between them: rows per second change with the machine, ratios hardly do.
Times are CPU seconds of the process unless a line says otherwise, so that a busy machine blurs less.

Some experiments take a scale: `quick` runs in minutes, `full` at the sizes that papers and goals name, `tiny` shows
that everything works. They write tables, charts and a page into a folder, one file for each figure, and each of their
parts can be measured again alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from skyband.core.errors import InputError

SCALES = ("tiny", "quick", "full")


@dataclass(frozen=True)
class Settings:
    """How an experiment is run."""

    scale: str = "quick"
    only: tuple[str, ...] = ()  # parts of it; none: all
    output: Path = Path("skyband-bench")  # the folder for tables, charts and the page
    charts: bool = True
    data: Path | None = None  # a file of the user's to measure on, where the experiment reads one


@dataclass(frozen=True)
class Experiment:
    module: str
    about: str
    scaled: bool = False  # takes settings


_EXPERIMENTS = {
    "engine": Experiment("engine", "ra against sa, the brute force, DuckDB asked again, and the machine's limit"),
    "sizes": Experiment(
        "sizes", "how many rows are kept: the k-skyband's size law (Pripužić et al., Lemma 4.9)"
    ),
    "mouratidis": Experiment(
        "mouratidis", "tsl, tma and sma: the figures of Mouratidis, Bakiras and Papadias", scaled=True
    ),
    "pripuzic": Experiment(
        "pripuzic", "nearest neighbours: the figures of Pripužić, Podnar Žarko and Aberer", scaled=True
    ),
    "shen": Experiment(
        "shen", "pairs of rows: the figures of Shen, Cheema, Lin, Zhang and Wang", scaled=True
    ),
    "haghani": Experiment(
        "haghani", "objects told piece by piece: the figures of Haghani, Michel and Aberer", scaled=True
    ),
    "heightmap": Experiment("heightmap", "heightmap against one memcpy, sma and drift", scaled=True),
    "planner": Experiment("regret", "how far the planner's pick is from the fastest algorithm", scaled=True),
    "serve": Experiment("serve", "skyband serve: rows a second, push to change, readers, start", scaled=True),
    "journal": Experiment("journal", "what a journal costs: rows a second with and without, snapshots, opening again"),
    "startup": Experiment("startup", "import skyband and skyband --help, in fresh processes"),
    "spark": Experiment("on_spark", "the pipeline in both placements against Spark's source into nothing", scaled=True),
}  # fmt: skip


def names() -> dict[str, str]:
    """The experiments and what each shows."""
    return {name: experiment.about for name, experiment in _EXPERIMENTS.items()}


def run(name: str, settings: Settings | None = None) -> None:
    """Run one experiment and print its table."""
    if name not in _EXPERIMENTS:
        raise InputError(f'There is no experiment "{name}"; there are {", ".join(_EXPERIMENTS)}.')
    experiment = _EXPERIMENTS[name]
    module = import_module(f"skyband.bench.{experiment.module}")
    if experiment.scaled:
        scaled: Callable[[Settings], None] = module.main
        scaled(settings or Settings())
        return
    if settings is not None and settings != Settings():
        many = ", ".join(n for n, other in _EXPERIMENTS.items() if other.scaled)
        raise InputError(f"The experiment {name} takes no options; scale, parts and output are for {many}.")
    plain: Callable[[], None] = module.main
    plain()


def parts_of(settings: Settings, known: tuple[str, ...]) -> tuple[str, ...]:
    """The parts of an experiment that were asked for."""
    for part in settings.only:
        if part not in known:
            raise InputError(f'There is no part "{part}" in this experiment; there are {", ".join(known)}.')
    return settings.only or known
