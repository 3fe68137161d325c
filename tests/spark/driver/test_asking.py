"""Queries that come and go while a pipeline runs: every batch equals the oracle with the queries that held in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.streams import (
    OTHER,
    QUERIES,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    shown_tops,
    write_file,
)

from skyband.core.errors import SkybandError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.driver.asking import add_query, drop_query, list_queries

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FIRST = {name: QUERIES[name] for name in ("rows", "above")}
LAST = {"above": QUERIES["above"], "ties": QUERIES["ties"], "rows": OTHER}


class PowerCut(Exception):
    """Ends a run in the middle of a batch, after its output and before Spark's commit."""


@pytest.mark.spark
@pytest.mark.parametrize("placement", ["driver", "executors"])
def test_from_the_next_batch_on(tmp_path: Path, spark: SparkSession, placement: str) -> None:
    files = make_files(8, seed=91, rows=(40, 200))
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(FIRST, spark=f'prune_rows = 0\nplacement = "{placement}"\n'))
    truth, infos = Truth({}), list[BatchInfo]()

    def run(then: Callable[[int], None]) -> None:
        def each(info: BatchInfo) -> None:
            if not info.replayed or info.batch == len(infos):
                del infos[info.batch :]
                infos.append(info)
            then(info.batch)

        run_pipeline(path, available_now=True, on_batch=each, spark=spark)

    def change(batch: int) -> None:
        if batch == 1:
            add_query(path, "ties", QUERIES["ties"])
        if batch == 4:
            drop_query(path, "rows")
            add_query(path, "rows", OTHER)
            raise PowerCut

    with pytest.raises(PowerCut):
        run(change)
    assert [query.since for query in list_queries(path) if query.name == "rows"] == [None]
    run(lambda batch: None)
    assert len(infos) == 8
    for info, rows in zip(infos, files, strict=True):
        truth.change_queries(info.queries)
        truth.push(rows)
        assert shown_tops(info.tops) == truth.tops()
    assert as_answers(truth.tops()) == folded(tmp_path / "out", 8)[-1]
    held = [info.queries for info in infos]
    assert held[0] == held[1] == FIRST and held[7] == LAST
    assert "ties" in held[4] and held[4]["rows"] == FIRST["rows"]
    since = {query.name: query.since for query in list_queries(path)}
    assert since["above"] == 0 and 2 <= (since["ties"] or 0) <= 4 and since["rows"] == 5
    assert verify_pipeline(path).difference is None


def test_what_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(FIRST))
    with pytest.raises(SkybandError, match="There is a query 'rows' already"):
        add_query(path, "rows", OTHER)
    with pytest.raises(SkybandError, match="query 'new': "):
        add_query(path, "new", "SELECT x FROM s ORDER BY")
    with pytest.raises(SkybandError, match="There is no query 'new'; there are rows, above"):
        drop_query(path, "new")
    drop_query(path, "rows")
    with pytest.raises(SkybandError, match="'above' is the only query"):
        drop_query(path, "above")
    add_query(path, "rows", FIRST["rows"])  # as the file has it
    assert [(query.name, query.since) for query in list_queries(path)] == [("rows", None), ("above", None)]
