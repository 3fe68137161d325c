"""The pipeline on Spark against Spark alone; needs Java and pyspark."""

from __future__ import annotations

from skyband.bench import Settings, parts_of


def main(settings: Settings) -> None:
    from skyband.spark.measure import FULL, PARTS, QUICK, measure

    plan = FULL if settings.scale == "full" else QUICK
    print(measure(plan, parts_of(settings, PARTS)))
