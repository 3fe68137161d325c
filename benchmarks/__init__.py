"""Every figure that the docs quote, measured by a command; not part of the installed package.

`make bench` runs all experiments, `python -m benchmarks NAME` runs one. Competitors run interleaved in one process on
the same batches. What counts is the ratio between them: rows per second change with the machine, ratios hardly do.
Times are CPU seconds of the process unless a line says otherwise, since other work on the machine changes these less.

Some experiments take a scale: `quick` runs in minutes, `full` at the sizes that papers and goals name, `tiny` shows
that everything works. They write tables, charts and a page into a folder, one file for each figure, and each of their
parts can be measured again alone.

Kernels are compiled at their first call, not in a process beside, so that the planned algorithm is what is measured.

- harness/: what experiments share: settings, contestants, figures, charts, pages;
- streams/: the rows and queries that they run on;
- papers/: the experiments of four papers, each with its page;
- peers/: one engine against others and against the machine;
- serve/: the server, its journal, the start of a process;
- spark/: the pipeline on Spark.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from benchmarks.harness.settings import Settings
from skyband.core.errors import InputError

os.environ.setdefault("SKYBAND_COMPILE", "now")


@dataclass(frozen=True)
class Experiment:
    module: str
    about: str
    scaled: bool = False  # takes settings


_EXPERIMENTS = {
    "engine": Experiment(
        "peers.engine", "ra against sa, the brute force, DuckDB asked again, and the machine's limit"
    ),
    "sizes": Experiment(
        "papers.pripuzic.size_law",
        "how many rows are kept: the k-skyband's size law (Pripužić et al., Lemma 4.9)",
    ),
    "mouratidis": Experiment(
        "papers.mouratidis.experiment",
        "tsl, tma and sma: the figures of Mouratidis, Bakiras and Papadias",
        scaled=True,
    ),
    "pripuzic": Experiment(
        "papers.pripuzic.experiment",
        "nearest neighbours: the figures of Pripužić, Podnar Žarko and Aberer",
        scaled=True,
    ),
    "shen": Experiment(
        "papers.shen.experiment",
        "pairs of rows: the figures of Shen, Cheema, Lin, Zhang and Wang",
        scaled=True,
    ),
    "haghani": Experiment(
        "papers.haghani.experiment",
        "objects whose attributes arrive in several streams: the figures of Haghani, Michel and Aberer",
        scaled=True,
    ),
    "heightmap": Experiment("peers.heightmap", "heightmap against one memcpy, sma and drift", scaled=True),
    "planner": Experiment(
        "peers.planner", "how far the planner's pick is from the fastest algorithm", scaled=True
    ),
    "streams": Experiment(
        "peers.streams",
        "what event time, late rows, WHERE, types, nulls, k and windows cost beside the plain stream",
        scaled=True,
    ),
    "serve": Experiment(
        "serve.experiment", "skyband serve: rows a second, push to change, readers, start", scaled=True
    ),
    "journal": Experiment(
        "serve.journal", "what a journal costs: rows a second with and without, snapshots, opening again"
    ),
    "startup": Experiment("serve.startup", "import skyband and skyband --help, in fresh processes"),
    "spark": Experiment(
        "spark.experiment", "the pipeline in both placements against Spark's source into nothing", scaled=True
    ),
}


def names() -> dict[str, str]:
    """The experiments and what each shows."""
    return {name: experiment.about for name, experiment in _EXPERIMENTS.items()}


def run(name: str, settings: Settings | None = None) -> None:
    """Run one experiment and print its table."""
    if name not in _EXPERIMENTS:
        raise InputError(f'There is no experiment "{name}"; there are {", ".join(_EXPERIMENTS)}.')
    experiment = _EXPERIMENTS[name]
    module = import_module(f"benchmarks.{experiment.module}")
    if experiment.scaled:
        scaled: Callable[[Settings], None] = module.main
        scaled(settings or Settings())
        return
    if settings is not None and settings != Settings():
        many = ", ".join(n for n, other in _EXPERIMENTS.items() if other.scaled)
        raise InputError(f"The experiment {name} takes no options; scale, parts and output are for {many}.")
    plain: Callable[[], None] = module.main
    plain()
