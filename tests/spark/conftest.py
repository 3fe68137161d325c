"""One Spark session for all tests that can share it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.spark.broker import CONNECTOR, Missing, fetch

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from skyband.spark.config import SparkSpec
    from skyband.spark.session.start import start_session

    folder: Path = tmp_path_factory.mktemp("session")
    # The state store looks every minute by default what is to be copied or thrown away: no test is as long.
    conf = {
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.streaming.stateStore.maintenanceInterval": "500ms",
        # viewfs://box/files is a folder of the disk that only Hadoop's side knows to be one (test_stores)
        "spark.hadoop.fs.viewfs.mounttable.box.link./files": f"file://{folder / 'box'}",
    }
    if any("test_kafka" in item.nodeid for item in request.session.items):
        with contextlib.suppress(Missing, OSError):  # the tests of Kafka say so themselves
            conf["spark.jars"] = ",".join(map(str, fetch("connector", CONNECTOR, alone=True)))
    session = start_session(
        SparkSpec(checkpoint=folder, master="local[2]", conf=tuple(conf.items())),
        folder / "spark.log",
    )
    (folder / "box").mkdir()
    yield session
    session.stop()
