"""The data that comes with the install is what its page says."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from skyband.core.errors import InputError
from skyband.spark.config import load_pipeline
from skyband.spark.demo import QUERIES, prepare_demo


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    return pq.read_table(str(files("skyband") / "data" / "flights.parquet"))


def test_size_and_columns(flights: pa.Table) -> None:
    assert (files("skyband") / "data" / "flights.parquet").stat().st_size < 4_000_000
    assert flights.num_rows == 336_776
    assert flights.schema.field("departed").type == pa.timestamp("us")
    table = (files("skyband") / "data" / "README.md").read_text(encoding="utf-8")
    for name in flights.column_names:
        assert name in table


def test_cancelled_flights_have_no_departure(flights: pa.Table) -> None:
    assert flights["departed"].null_count == flights["dep_delay"].null_count == 8255


def test_rows_come_as_scheduled_and_so_depart_out_of_order(flights: pa.Table) -> None:
    scheduled = flights["scheduled"].combine_chunks()
    assert pc.all(pc.greater_equal(scheduled[1:], scheduled[:-1])).as_py()
    departed = flights["departed"].drop_null().combine_chunks()
    assert 100_000 < pc.sum(pc.cast(pc.less(departed[1:], departed[:-1]), pa.int64())).as_py() < 200_000


def test_the_demo_takes_only_its_own_folder(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "to mother").touch()
    with pytest.raises(InputError, match="letters is not empty: choose another for the demo's output"):
        prepare_demo(tmp_path / "letters")
    home = tmp_path / "demo"
    prepare_demo(home)
    for left in ("out", "checkpoint"):
        (home / left).mkdir()
    pipeline = load_pipeline(prepare_demo(home))  # once more: what the demo before left is gone
    assert [query.name for query in pipeline.queries] == list(QUERIES)
    assert len(list((home / "data").iterdir())) == 365
    assert not (home / "out").exists() and not (home / "checkpoint").exists()
