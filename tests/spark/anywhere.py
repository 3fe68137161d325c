"""What `watch` and `answers` give on the PySpark of this interpreter; a process of its own (test_versions).

    python anywhere.py classic
    python anywhere.py connect sc://127.0.0.1:15002
    python anywhere.py connect sc://127.0.0.1:15002 environment.tar.gz

Prints one JSON object: what each way of calling `watch` returned, and for comparison what a `Monitor` says of the same
rows. With an archive the server's workers take their Python from it, and there are no streaming queries.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark

import skyband as sb
from skyband.spark import answers, watch

ROWS = 400
FILES = 4
BEST = "SELECT g, x FROM s ORDER BY x DESC LIMIT 3 WINDOW 60 SECONDS"
SUMS = "SELECT g, SUM(x) FROM s GROUP BY g ORDER BY SUM(x) DESC LIMIT 3 WINDOW 100 ROWS"
PAIRS = (
    "SELECT a.x, b.x FROM s a, s b WHERE a.ts < b.ts ORDER BY abs(a.x - b.x + 0.5) LIMIT 2 WINDOW 20 SECONDS"
)
JOINED = "SELECT g, one.x + two.y FROM one FULL JOIN two USING (g) ORDER BY one.x + two.y DESC LIMIT 2 WINDOW 1 HOUR"
QUERIES = {"best": BEST, "sums": SUMS, "pairs": PAIRS}
TYPES = "ts double, x double, y double, g string"


def rows() -> list[dict[str, Any]]:
    return [
        {"ts": float(n), "x": n * 37 % 101 + n / 1000, "y": float(n * 17 % 29), "g": f"g{n % 7}"}
        for n in range(ROWS)
    ]


def truth() -> dict[str, Any]:
    """The answers of a monitor after each file, and of joined streams at the end."""
    m = sb.Monitor(time="ts")
    watches = {name: m.watch(sql, name=name) for name, sql in QUERIES.items()}
    found = []
    for part in parts():
        m.push(part)
        found.append({name: scores(w.top().to_pylist()) for name, w in watches.items()})
    two = sb.Monitor(time="ts")
    joined = two.watch(JOINED, name="joined")
    two.push(pa.Table.from_pylist(rows()).select(["ts", "x", "g"]), stream="one")
    two.push(pa.Table.from_pylist(rows()).select(["ts", "y", "g"]), stream="two")
    return {"after": found, "joined": scores(joined.top().to_pylist())}


def parts() -> list[pa.Table]:
    size = ROWS // FILES
    return [pa.Table.from_pylist(rows()[at : at + size]) for at in range(0, ROWS, size)]


def scores(top: list[Any]) -> list[float]:
    return [row["score"] for row in top]


def by_query(found: list[Any]) -> dict[str, list[float]]:
    ordered = sorted(found, key=lambda row: (row["query"], row["rank"]))
    return {name: scores([row for row in ordered if row["query"] == name]) for name in QUERIES}


def batch(spark: Any) -> dict[str, Any]:
    """Batch DataFrames: final answers in three spellings, changes along time, joined ones."""
    from pyspark.sql import functions as F

    df = spark.createDataFrame([tuple(row.values()) for row in rows()], TYPES)
    found = {"tops": by_query(watch(df, QUERIES, time="ts").collect())}
    one = df.transform(watch(BEST, time="ts"))
    found["transform"] = scores(sorted(one.collect(), key=lambda row: row["rank"]))
    built = watch(df, sb.topk(F.col("x") * 1 + 0.0, 3, "60 seconds", select=["g", "x"]), time="ts")
    found["columns"] = scores(sorted(built.collect(), key=lambda row: row["rank"]))
    along = watch(df, BEST, time="ts", output="changes").collect()
    found["steps"] = len({row["now"] for row in along})
    frames = {"one": df.select("ts", "x", "g"), "two": df.select("ts", "y", "g")}
    found["joined"] = scores(sorted(watch(frames, JOINED, time="ts").collect(), key=lambda row: row["rank"]))
    return found


def streaming(spark: Any, folder: Path, classic: bool) -> dict[str, Any]:
    """Streaming DataFrames: folded changes after each file, in one run and after a restart; upserts; `answers`."""
    import pyarrow.parquet as pq

    data = folder / "data"
    data.mkdir()
    stream = spark.readStream.schema(TYPES).option("maxFilesPerTrigger", 1).parquet(str(data))
    out, known = folder / "out", []
    said: list[dict[str, list[float]]] = []

    def each(changes: Any, number: int) -> None:
        said.append(by_query(answers(changes).collect()))

    for number, part in enumerate(parts()):
        pq.write_table(part, data / f"{number}.parquet")
        writer = watch(stream, QUERIES, time="ts").writeStream.format("parquet").option("path", str(out))
        finish(writer.option("checkpointLocation", str(folder / "checkpoint")))
        changes = [row.asDict() for row in spark.read.parquet(str(out)).collect()]
        known.append(len(changes))
        if classic:
            upserts = watch(stream, QUERIES, time="ts").writeStream.foreachBatch(each)
            finish(upserts.option("checkpointLocation", str(folder / "upserts")))
    alive = {}
    for row in sorted(changes, key=lambda row: row["change"] == "enter"):
        key = row["query"], row["seq"], row["seq_b"], row["id"], row["score"]
        alive[key] = alive.get(key, 0) + (1 if row["change"] == "enter" else -1)
    folded = {
        name: sorted(key[4] for key, times in alive.items() if times and key[0] == name) for name in QUERIES
    }
    tops = watch(stream, QUERIES, time="ts", output="tops").writeStream.outputMode("update")
    finish(
        tops.format("memory" if classic else "noop")
        .queryName("tops")
        .option("checkpointLocation", str(folder / "tops"))
    )
    return {"folded": folded, "grew": known == sorted({*known}), "answers": said}


def finish(writer: Any) -> None:
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None, query.exception()


def main(kind: str, server: str = "", archive: str = "") -> None:
    from pyspark.sql import SparkSession

    if kind == "classic":
        settings = {"spark.sql.shuffle.partitions": "1", "spark.ui.enabled": "false"}
        builder = SparkSession.builder.master("local[2]")
        for name, value in settings.items():
            builder = builder.config(name, value)
    else:
        builder = SparkSession.builder.remote(server)
    spark = builder.getOrCreate()
    if archive:
        spark.addArtifacts(f"{archive}#environment", archive=True)
        spark.conf.set("spark.sql.execution.pyspark.python", "environment/bin/python")
    if kind != "classic":
        spark.conf.set("spark.sql.shuffle.partitions", "1")
    with tempfile.TemporaryDirectory() as folder:
        found = {"pyspark": pyspark.__version__, "truth": truth(), "batch": batch(spark)}
        if not archive:
            found["streaming"] = streaming(spark, Path(folder), kind == "classic")
    spark.stop()
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
