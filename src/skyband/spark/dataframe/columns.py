"""Columns of a DataFrame by their names, whatever is in those."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def quoted(name: str) -> str:
    """A column by its name, whatever it has in it."""
    return "`" + name.replace("`", "``") + "`"


def numbered_columns(df: DataFrame, names: list[str]) -> DataFrame:
    """These columns under names that `mapInArrow` knows what to do with: it takes a dot or a backtick in one amiss."""
    return df.select(*map(quoted, names)).toDF(*(f"c{number}" for number in range(len(names))))
