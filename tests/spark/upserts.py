"""The MERGE of docs/spark.md into a table of current answers; a process of its own (test_versions).

    python upserts.py delta|iceberg folder jar [jar ...]

Prints the table's rows after each micro-batch, as one JSON list.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

PAGE = Path(__file__).resolve().parents[2] / "docs" / "spark.md"
QUERIES = {
    "best": "SELECT x FROM s ORDER BY x DESC LIMIT 3 WINDOW 40 SECONDS",
    "sums": "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 2 WINDOW 50 ROWS",
}
SETTINGS = {
    "delta": {
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    },
    "iceberg": {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
        "spark.sql.defaultCatalog": "local",
    },
}


def main(kind: str, folder: str, *jars: str) -> None:
    from pyspark.sql import SparkSession

    from skyband.spark import watch

    builder = SparkSession.builder.master("local[2]").config("spark.jars", ",".join(jars))
    more = {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}
    more["spark.sql.catalog.local.warehouse"] = more["spark.sql.warehouse.dir"] = f"{folder}/warehouse"
    for name, value in {**SETTINGS[kind], **more}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    types = "query string, id string, rank int, score double, seq bigint, seq_b bigint, time double"
    spark.sql(f"CREATE TABLE default.tops ({types}) USING {kind}" if kind == "delta" else _create(types))
    names: dict[str, Any] = {}
    block = re.search(r"^def merge\(.*?(?=^```)", PAGE.read_text(), re.M | re.S)
    assert block is not None
    exec(f"from skyband.spark import answers\n{block[0]}", names)
    seen = []

    def each(changes: Any, number: int) -> None:
        names["merge"](changes, number)
        # another session may have cached the table as it was
        tops = changes.sparkSession.table("default.tops").orderBy("query", "rank")
        seen.append([list(row) for row in tops.select("query", "id", "rank", "score").collect()])

    rows = spark.readStream.schema("ts double, x double, g string").option("maxFilesPerTrigger", 1)
    changes = watch(rows.parquet(f"{folder}/data"), QUERIES, time="ts")
    writer = changes.writeStream.foreachBatch(each).option("checkpointLocation", f"{folder}/checkpoint")
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None
    spark.stop()
    print(json.dumps(seen))


def _create(types: str) -> str:
    return f"CREATE TABLE default.tops ({types}) USING iceberg TBLPROPERTIES ('format-version' = '2')"


if __name__ == "__main__":
    main(*sys.argv[1:])
