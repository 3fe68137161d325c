"""Data of a pipeline that is not as expected: notices of columns, and streams that are strict, in both placements."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.input.test_reading import splits_of
from tests.spark.streams import rejected

from skyband.core.errors import InputError, StrictError
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.config import load_pipeline
from skyband.spark.input.reading import join_chunks, odd_columns, read_runs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

QUERY = "SELECT car, speed FROM cars ORDER BY speed DESC LIMIT 3 WINDOW 60 SECONDS"
PLACEMENTS = ["driver", "executors"]


def text(placement: str, strict: bool) -> str:
    return (
        f'[stream.cars]\nformat = "csv"\npath = "data"\ntime = "ts"\nmax_files = 1\nstrict = {str(strict).lower()}\n'
        f'[[query]]\nname = "fastest"\nsql = "{QUERY}"\n[sink]\nformat = "parquet"\npath = "out"\n'
        f'[spark]\nmaster = "local[2]"\ncheckpoint = "checkpoint"\nui = false\nplacement = "{placement}"\n'
    )


def write(path: Path, lines: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(lines.replace(" ", "\n") + "\n")


def batches(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "out" / "changes").iterdir())


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_a_strict_stream(tmp_path: Path, spark: SparkSession, placement: str) -> None:
    path, data = tmp_path / "pipeline.toml", tmp_path / "data"
    path.write_text(text(placement, strict=True))
    write(data / "1.csv", "ts,car,speed 100,a,5 101,b,6")
    write(data / "2.csv", "ts,car,Speed 102,c,9")
    for _ in range(2):
        with pytest.raises(
            StrictError, match=r'Batch 1 of stream .cars. has the missing column "speed" .the batch'
        ):
            run_pipeline(path, available_now=True, spark=spark)
    assert batches(tmp_path) == ["batch-0.parquet"], "nothing of it is put out"
    write(data / "2.csv", "ts,car,speed 102,c,9 3,late,1")  # mended; a late row doesn't count
    write(data / "3.csv", "ts,car,speed 103,d,fast")
    with pytest.raises(
        StrictError, match=r"Batch 2 .* would be rejected .type: column speed: 'fast' is not int64"
    ):
        run_pipeline(path, available_now=True, spark=spark)
    assert rejected(tmp_path / "out", 1) == [(3, "late")]
    path.write_text(text(placement, strict=False))
    run_pipeline(path, available_now=True, spark=spark)
    assert rejected(tmp_path / "out", 2) == [(4, "type")]
    report = verify_pipeline(path)
    assert report.ok and report.rows == 5, str(report)
    write(data / "2.csv", "ts,car,speed 102,c,9 3,late,2")
    with pytest.raises(InputError, match="changed after it was read"):  # as ever where a batch was taken
        write(data / "4.csv", "ts,car,speed 104,e,1")
        run_pipeline(path, available_now=True, spark=spark)


@pytest.mark.parametrize("placement", PLACEMENTS)
def test_columns_are_watched(
    tmp_path: Path, spark: SparkSession, placement: str, caplog: pytest.LogCaptureFixture
) -> None:
    path, data = tmp_path / "pipeline.toml", tmp_path / "data"
    path.write_text(text(placement, strict=False))
    write(data / "1.csv", "ts,car,speed 100,a,5 101,b,6")
    for number in (2, 3):
        write(data / f"{number}.csv", f"ts,car,Speed,lane 10{number},c,9,1")
    infos: list[BatchInfo] = []
    with caplog.at_level(logging.WARNING, "skyband"):
        run_pipeline(path, available_now=True, spark=spark, on_batch=infos.append)
    # what the dashboard shows
    assert [info.streams["cars"] for info in infos] == [(2, 101, 101.0), (1, 102, 102.0), (1, 103, 103.0)]
    assert [[notice.notice for notice in info.notices][:1] for info in infos] == [
        [],
        *[["missing column"]] * 2,
    ]
    assert [len(info.rejected or ()) for info in infos] == [0, 0, 0]
    assert [record.getMessage() for record in caplog.records if record.name == "skyband"] == [
        'missing column "speed" in stream "cars": the batch has "Speed": rename it',
        'unknown column "Speed" in stream "cars": the batch lacks "speed": rename it',
        'unknown column "lane" in stream "cars": it is left out, for its first file decides the columns',
    ]


SCHEMA = pa.schema(
    [("ts", pa.float64()), ("car", pa.string()), ("speed", pa.int64()), ("load", pa.float64())]
)
NAMED = {"ts", "car", "speed"}
OF_SPEED = [("missing column", "speed", 'the batch has "Speed": rename it')]


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
@pytest.mark.parametrize("declared", [False, True])
def test_columns_of_a_file(tmp_path: Path, form: str, declared: bool) -> None:
    def found(*rows: dict[str, object]) -> list[tuple[str, str, str]]:
        path = tmp_path / f"{len([*tmp_path.iterdir()])}.{form}"
        if form == "parquet":
            pq.write_table(pa.Table.from_pylist([*rows]), path)
        elif form == "json":
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        else:
            names = [*rows[0]]
            lines = [",".join("" if row[name] is None else str(row[name]) for name in names) for row in rows]
            path.write_text("\n".join([",".join(names), *lines]) + "\n")
        runs = [*read_runs(splits_of(path, form), {"s": SCHEMA})]
        return [one for run in runs for one in odd_columns(join_chunks(run.chunks), SCHEMA, NAMED, declared)]

    assert found({"ts": 1.0, "car": "a", "speed": 5, "load": 0.5}) == []
    assert found({"ts": 1.0, "car": "a", "speed": 5}) == [], "no query needs load"
    assert found({"ts": 1.0, "car": "a", "speed": None, "load": 0.5}) == [], "a null is no missing column"
    odd = found({"ts": 1.0, "car": "a", "Speed": 5, "load": 0.5})
    assert odd[0] == OF_SPEED[0] and [each[:2] for each in odd[1:]] == (
        [] if declared else [("unknown column", "Speed")]
    )


def test_what_strict_can_be(tmp_path: Path) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(text("driver", strict=True))
    assert load_pipeline(path).streams[0].strict
    path.write_text(text("driver", strict=True).replace("strict = true", 'strict = "yes"'))
    with pytest.raises(InputError, match=r"'strict' of .stream.cars. must be true or false, not 'yes'"):
        load_pipeline(path)
