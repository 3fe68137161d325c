"""The pipeline on Spark against the same source into nothing; needs Java and pyspark."""

from __future__ import annotations


def main() -> None:
    from skyband.spark.measure import measure

    print(measure())
