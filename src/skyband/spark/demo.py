"""`skyband demo`: a year of real flights, replayed through the pipeline.

The flights come with the package (see data/README.md). They are cut into files of one day, in the order in which
the flights were scheduled, and the pipeline reads a few days a micro-batch: a year passes in well under a minute.
Cancelled flights never left, so they have no event time and end up among the rejects; delayed ones arrive out of
the order of their event times, and count all the same.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from skyband.core.errors import InputError
from skyband.spark.session.progress import OnBatch, Summary

from .pipeline import run_pipeline

DAYS_PER_BATCH = 5

QUERIES = {
    "longest delays, 24 hours": (
        "SELECT airline, flight, origin, dest, departed FROM flights "
        "ORDER BY dep_delay DESC LIMIT 10 WINDOW 24 HOURS"
    ),
    "longest delays from JFK, 7 days": (
        "SELECT airline, flight, dest, departed FROM flights WHERE origin = 'JFK' "
        "ORDER BY dep_delay DESC LIMIT 10 WINDOW 7 DAYS"
    ),
    "fastest in the air, 30 days": (
        "SELECT airline, flight, origin, dest, air_time FROM flights "
        "ORDER BY distance / air_time * 60 DESC LIMIT 10 WINDOW 30 DAYS"
    ),
    "most time made up, 7 days": (
        "SELECT airline, flight, origin, dest, dep_delay, arr_delay FROM flights "
        "ORDER BY dep_delay - arr_delay DESC LIMIT 10 WINDOW 7 DAYS"
    ),
    "five hours late or more, 10000 flights": (
        "SELECT airline, flight, origin, dest, departed FROM flights WHERE dep_delay >= 300 WINDOW 10000 ROWS"
    ),
}


@dataclass(frozen=True)
class DemoResult:
    """Where the demo's output is, and how to look at it."""

    summary: Summary
    folder: Path
    pipeline: Path

    @property
    def hint(self) -> str:
        return (
            f"Look at it: duckdb -c \"SELECT query, rank, score, row FROM '{self.folder}/out/top/*.parquet'\"  "
            f"(changes/ and rejects/ are beside it); check it: skyband verify {self.pipeline}"
        )


def run_demo(folder: str | Path, on_batch: OnBatch | None = None) -> DemoResult:
    """Replay the flights; the pipeline file and its output stay in `folder`."""
    home = Path(folder)
    pipeline = prepare_demo(home)
    summary = run_pipeline(pipeline, available_now=True, on_batch=on_batch)
    return DemoResult(summary, home, pipeline)


def prepare_demo(home: Path) -> Path:
    """Cut the flights into files and write the pipeline file; its path."""
    pipeline = home / "pipeline.toml"
    if home.exists() and any(home.iterdir()):
        if not (home / ".skyband-demo").exists():
            raise InputError(f"The folder {home} is not empty: choose another for the demo's output.")
        for name in ("data", "out", "checkpoint"):  # of the demo before
            shutil.rmtree(home / name, ignore_errors=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / ".skyband-demo").touch()
    _cut(home / "data")
    pipeline.write_text(pipeline_text(), encoding="utf-8")
    return pipeline


def pipeline_text() -> str:
    """The demo's pipeline file."""
    parts = [
        "# The pipeline of `skyband demo`. Run it yourself: skyband run pipeline.toml\n"
        "[stream.flights]\n"
        'format = "parquet"\n'
        'path = "data"\n'
        'time = "departed"\n'
        f"max_files = {DAYS_PER_BATCH}\n"
    ]
    parts += [f'\n[[query]]\nname = "{name}"\nsql = "{sql}"\n' for name, sql in QUERIES.items()]
    parts.append('\n[sink]\nformat = "parquet"\npath = "out"\n')
    parts.append('\n[spark]\nmaster = "local[*]"\ncheckpoint = "checkpoint"\n')
    return "".join(parts)


def flights_file() -> Path:
    """The flights inside the package."""
    return Path(__file__).resolve().parents[1] / "data" / "flights.parquet"


def _cut(folder: Path) -> None:
    """One file for each day on which flights were scheduled."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    flights = pq.read_table(flights_file())
    days = np.asarray(pc.cast(flights.column("scheduled"), pa.date32(), safe=False).cast(pa.int32()))
    edges = [0, *(np.flatnonzero(np.diff(days)) + 1).tolist(), flights.num_rows]
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as unfinished:
        for first, last in pairwise(edges):
            name = f"{np.datetime64(int(days[first]), 'D')}.parquet"
            pq.write_table(flights.slice(first, last - first), Path(unfinished) / name)
            (Path(unfinished) / name).rename(folder / name)
