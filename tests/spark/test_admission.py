"""Admission in the JVM: what it rejects, that nothing is lost by it, and that it was what ran."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.spark.streams import (
    QUERIES,
    Truth,
    as_answers,
    folded,
    make_files,
    pipeline_text,
    rejected,
    shown_tops,
    write_file,
)  # fmt: skip

from skyband.algorithms.heightmap import cell_filter as cells
from skyband.algorithms.heightmap.cell_filter import Cells
from skyband.engine.batch_filter import Family, Gate
from skyband.engine.monitor import Monitor
from skyband.engine.pruning import Sifted, families
from skyband.query.expression import columns_of, evaluate
from skyband.query.expression.score_space import Space
from skyband.query.sql.parser import parse
from skyband.spark import BatchInfo, run_pipeline, verify_pipeline
from skyband.spark.admission import Admission
from skyband.spark.bounds import as_bars
from skyband.spark.cells import meets
from skyband.spark.columns import Unfit, may_hold, number_of, reaches
from skyband.spark.filelog import StreamFiles, Taken
from skyband.spark.filescan import FileScan
from skyband.spark.heights import Beside
from skyband.stream.batches import Batch, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Batches of hundreds of rows are large enough."""
    monkeypatch.setattr("skyband.spark.admission._HEAD_ROWS", (24, 48))
    monkeypatch.setattr("skyband.spark.admission._OFTEN", 0.9)
    monkeypatch.setattr("skyband.spark.admission._PAUSE", 1)


SCORES = [
    "x + 2 * y", "x * y - n", "abs(x - y)", "sqrt(x)", "x / y", "x / n", "y / (x - x)", "dist(x, y, 0.5, 0.25)",
    "least(x, y / x)", "greatest(x, -y, n)", "(x - 0.5) ^ 2", "-x", "n", "x / 4", "least(x / y, 1)", "f * 3",
]  # fmt: skip
WHERES = [
    "x > 0.5 AND g = 'a'", "n >= 9007199254740993", "n = 9007199254740993", "0.5 < y", "x / y > 1", "g <> 'a'",
    "x > 0.5 OR y > 0.5", "x - y <= 0", "n > 3.5", "f > 0.1", "n - 9007199254740992 >= 1", "abs(3 - n) < 2",
    "(n - 1) * 2 - n * 2 < -1", "4 = n + n - n + 1", "least(n - 7, n - 8) > 9223372036854775798",
]  # fmt: skip


def odd_rows(count: int) -> pa.Table:
    chance = random.Random(5)
    odd = [0.0, -0.0, math.inf, -math.inf, math.nan, None, 1e308, 5e-324, -1.5, 0.5]

    def number() -> float | None:
        return chance.choice(odd) if chance.random() < 0.5 else chance.random()

    whole = [2**53 + 1, 2**53, -(2**63), 2**63 - 1, 0, 3, 4, None]
    schema = pa.schema(
        [("x", pa.float64()), ("y", pa.float64()), ("n", pa.int64()), ("f", pa.float32()), ("g", pa.string())]
    )
    rows = [
        {"x": number(), "y": number(), "n": chance.choice(whole), "f": number(), "g": chance.choice("ab")}
        for _ in range(count)
    ]
    for row in rows:
        row["f"] = None if row["f"] is None else float(np.float32(min(row["f"], 1e30)))  # type: ignore[arg-type]
    return pa.Table.from_pylist(rows, schema=schema)


@pytest.mark.spark
def test_the_jvm_lets_pass_whatever_we_take(spark: SparkSession) -> None:
    from pyspark.sql import functions as f

    table = odd_rows(1500)
    types = {field.name: field.type for field in table.schema}
    batch = Batch(table, np.arange(table.num_rows), np.zeros(table.num_rows, dtype=np.int64))
    tests: dict[str, tuple[str, set[int]]] = {}
    for text in SCORES:
        for order, sign in (("DESC", 1.0), ("ASC", -1.0)):
            query: Any = parse(f"SELECT x FROM s ORDER BY {text} {order} LIMIT 3 WINDOW 9 ROWS")
            for bar in (0.5, -1.5):
                view = View(batch).where(tuple(columns_of(query.score)), None, ())
                good = sign * np.asarray(evaluate(query.score, view), dtype=np.float64)
                place = np.arange(len(batch)) if view.index is None else view.index
                ours = set(batch.seq[place[good >= bar]].tolist())
                tests[f"{text} {order} {bar}"] = reaches(query.score, (), sign, bar, types), ours
    for text in WHERES:
        where: Any = parse(f"SELECT x FROM s WHERE {text} ORDER BY x LIMIT 3 WINDOW 9 ROWS").where  # type: ignore[union-attr]
        view = View(batch).where(tuple(columns_of(where)), None, ())
        place = np.arange(len(batch)) if view.index is None else view.index
        test = may_hold(where, types)
        ours = set(batch.seq[place[np.asarray(evaluate(where, view), dtype=bool)]].tolist())
        tests[text] = test or "true", ours
    told = spark.createDataFrame(table.append_column("at", pa.array(range(table.num_rows)))).select(
        "at", *(f.expr(test).alias(f"t{i}") for i, (test, _) in enumerate(tests.values()))
    )
    found = told.toArrow()
    rejecting = 0
    for i, (name, (_, ours)) in enumerate(tests.items()):
        passed = {a for a, t in zip(found["at"].to_pylist(), found[f"t{i}"].to_pylist(), strict=True) if t}
        assert ours <= passed, name
        rejecting += len(passed) < table.num_rows
    assert rejecting > len(tests) * 0.9
    for text in ("exp(x)", "ln(x)", "x ^ 3"):
        query = parse(f"SELECT x FROM s ORDER BY {text} LIMIT 3 WINDOW 9 ROWS")
        with pytest.raises(Unfit):
            reaches(query.score, (), 1.0, 0.0, types)


TIMED = {name: QUERIES[name] for name in ("seconds", "above", "ties")}


@pytest.mark.spark
def test_with_event_times(tmp_path: Path, spark: SparkSession, small: None) -> None:
    files = make_files(3, seed=3, rows=(200, 500))
    for number, rows in enumerate(files):
        write_file(tmp_path / "data" / f"{number}.parquet", rows)
    path = tmp_path / "pipeline.toml"
    path.write_text(pipeline_text(TIMED, spark="jvm_rows = 0\n"))
    infos: list[BatchInfo] = []
    run_pipeline(path, available_now=True, on_batch=infos.append, spark=spark)
    truth = Truth(TIMED)
    history = folded(tmp_path / "out", len(files))
    for batch, (rows, info) in enumerate(zip(files, infos, strict=True)):
        truth.push(rows)
        assert shown_tops(info.tops) == truth.tops()
        assert history[batch] == as_answers(truth.tops())
        assert rejected(tmp_path / "out", batch) == truth.take_rejects()
        assert info.rows == len(rows)
    assert sum(info.in_jvm for info in infos) >= 2 * 200
    assert any(info.crossed < info.rows for info in infos if info.in_jvm)


MANY = {f"q{i}": f"{1 + i % 7}.5 * x + {1 + i % 11}.25 * y" for i in range(40)}
PLAIN = {
    "best": "SELECT g, x FROM s ORDER BY x * y DESC LIMIT 5 WINDOW 900 ROWS",
    "least": "SELECT n FROM s WHERE y > 0.25 AND g = 'a' ORDER BY x LIMIT 3 WINDOW 300 ROWS",
    "above": "SELECT x FROM s WHERE x + y > 1.9 WINDOW 500 ROWS",
    "near": "SELECT x, y FROM s ORDER BY dist(x, y, 0.5, 0.5) LIMIT 4 WINDOW 2000 ROWS",
}


def plain_text(many: bool) -> str:
    queries = dict(PLAIN)
    if many:
        queries = {n: f"SELECT x FROM s ORDER BY {e} DESC LIMIT 4 WINDOW 800 ROWS" for n, e in MANY.items()}
    return pipeline_text(queries, max_files=2, spark="jvm_rows = 0\n").replace('time = "ts"\n', "")


def write_plain(folder: Path, seed: int, fall: float = 0.0) -> None:
    chance = random.Random(seed)
    for number, rows in enumerate(make_files(8, seed, rows=(300, 500))):
        for row in rows:
            if row["x"] is not None and fall:
                row["x"] = 1000 - fall * number + chance.random()
        write_file(folder / "data" / f"{number}.parquet", rows)


def outputs(folder: Path) -> dict[str, Any]:
    return {
        str(path.relative_to(folder)): pq.read_table(path).to_pylist()
        for path in sorted((folder / "out").rglob("*.parquet"))
    }


def run(folder: Path, spark: SparkSession, **more: Any) -> list[BatchInfo]:
    infos: list[BatchInfo] = []
    run_pipeline(folder / "pipeline.toml", available_now=True, on_batch=infos.append, spark=spark, **more)
    return infos


@pytest.mark.spark
@pytest.mark.parametrize(
    ("many", "failures"),
    [
        (True, False),
        pytest.param(False, False, marks=pytest.mark.soak),
        pytest.param(True, True, marks=pytest.mark.soak),
    ],
)
def test_without_event_times(
    tmp_path: Path,
    spark: SparkSession,
    small: None,
    many: bool,
    failures: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken) if failures else (whole,):
        write_plain(folder, 11)
        (folder / "pipeline.toml").write_text(plain_text(many))
    infos = run(whole, spark)
    assert len(infos) == 4 and all(info.in_jvm == info.rows for info in infos)
    assert sum(info.crossed for info in infos) < 0.5 * sum(info.rows for info in infos)
    report = verify_pipeline(whole / "pipeline.toml")
    assert report.ok and report.answers == 4 * len(MANY if many else PLAIN), str(report)
    if not failures:
        return
    # it ends before a step is written, and once more after one is: what comes out is the same
    with monkeypatch.context() as patch:
        for where in _failures(patch):
            with pytest.raises(RuntimeError, match=where):
                run(broken, spark)
    infos = run(broken, spark)
    assert infos[0].replayed and infos[-1].in_jvm
    assert outputs(broken) == outputs(whole)


def _failures(patch: pytest.MonkeyPatch) -> Iterator[str]:
    from skyband.spark.checkpoint import Checkpoint
    from skyband.spark.engine import Engine

    write, take = Checkpoint.write_step, Engine.take

    def before(self: Checkpoint, step: Any, offset: Any) -> None:
        if step.batch == 1:
            raise RuntimeError("before the step")
        write(self, step, offset)

    def after(self: Engine, step: Any, leaves: Any) -> Any:
        if step.batch == 2:
            raise RuntimeError("after the step")
        return take(self, step, leaves)

    patch.setattr(Checkpoint, "write_step", before)
    yield "before the step"
    patch.setattr(Checkpoint, "write_step", write)
    patch.setattr(Engine, "take", after)
    yield "after the step"
    patch.setattr(Engine, "take", take)


@pytest.mark.spark
@pytest.mark.soak
def test_falling_scores_go_the_old_way(tmp_path: Path, spark: SparkSession, small: None) -> None:
    write_plain(tmp_path, 4, fall=10.0)
    (tmp_path / "pipeline.toml").write_text(plain_text(many=True))
    infos = run(tmp_path, spark)
    # the oldest rows are all better than the newest: a gate would let every one pass
    assert all(info.in_jvm == 0 for info in infos) and len(infos) == 4
    report = verify_pipeline(tmp_path / "pipeline.toml")
    assert report.ok, str(report)


# -- cells, for many queries whose scores have no map ---------------------------------------------------------

CELLED = [
    "dist(x, y, 0.5, 0.25)",
    "abs(n - 3) + abs(x - 0.5)",
    "exp(x) * y",
    "abs(f - 0.25)",
    "abs(x - 0.5) * y + f",
]


def edgy_rows(count: int) -> pa.Table:
    """Odd rows, and as many close to the edges of slabs: of even values, each edge is a multiple of a small number."""
    table, chance = odd_rows(count), np.random.default_rng(6)
    near = np.repeat(chance.integers(-200, 4500, count) / 4096 * 1.1 - 0.05, 1)
    near = np.nextafter(near, chance.choice([-1.0, 0.5, 2.0], count))
    more = table.set_column(0, "x", pa.array(near)).set_column(1, "y", pa.array(chance.permutation(near)))
    return pa.concat_tables([table, more])


@pytest.mark.spark
def test_the_jvm_looks_cells_up_as_we_do(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cells, "CELLS", (1 << 12, 1 << 15))
    table = edgy_rows(600)
    types = {field.name: field.type for field in table.schema}
    rows = table.num_rows
    batch = Batch(table, np.arange(rows), np.zeros(rows, dtype=np.int64))
    even = np.random.default_rng(8)
    whole = pa.array(even.integers(0, 8, 4000))
    of_sample = {
        "x": even.random(4000),
        "y": even.random(4000),
        "n": whole,
        "f": even.random(4000).astype("f4"),
    }
    sample = Batch(pa.table(of_sample), np.arange(4000), np.zeros(4000, dtype=np.int64))
    pq.write_table(table.append_column("at", pa.array(range(rows))), tmp_path / "rows.parquet")
    frame = spark.read.parquet(str(tmp_path / "rows.parquet"))
    for number, text in enumerate(CELLED):
        order, sign = (("", -1.0), (" DESC", 1.0))[number % 3 == 2]
        query: Any = parse(f"SELECT x FROM s ORDER BY {text}{order} LIMIT 3 WINDOW 9 ROWS")
        space = Space(query.score, columns_of(query.score), sign)
        view = View(batch).where(space.columns, None, ())
        place = np.arange(rows) if view.index is None else view.index
        seen = tuple(sample.number(name) for name in space.columns)
        cut = Cells.learned(space, seen)
        assert cut is not None
        bars = np.sort(space.good(seen, ()))[-40:-39]
        made = cut.entered(np.arange(1), bars, np.empty((1, 0)))
        mine = tuple(view.number(name) for name in space.columns)
        for column in mine:
            column.flags.writeable = False
        reach = set(batch.seq[place[space.good(mine, ()) >= bars[0]]].tolist())
        ours = set(batch.seq[place[made.passing(mine)]].tolist())
        beside = Beside("beside", "CAST(at < 0 AS int)")
        test = meets(made, [number_of(name, types) for name in space.columns], beside)
        found = frame.select("*", *beside.columns(spark)).filter(test).select("at").toArrow()
        passed = set(found["at"].to_pylist())
        assert reach <= passed & set(batch.seq[place].tolist()) == ours, (
            text
        )  # a NaN passes, and we don't look at it
        assert len(passed) < 0.9 * rows, text


def celled_queries(families: tuple[str, ...]) -> dict[str, str]:
    """Families, and two of thresholds, most around two points: so small batches have rows to be rejected."""
    chance = random.Random(9)
    found: dict[str, str] = {}
    for i in range(40):
        a, b = (c + 0.03 * chance.random() for c in ((0.1, 0.8), (0.6, 0.3))[i % 2])
        window = chance.choice(["300 ROWS", "900 ROWS"])
        asked = {
            "near": f"dist(x, y, {a:.4f}, {b:.4f}) LIMIT {1 + i % 3}",
            "weighted": f"sqrt({1 + i % 5} * (x - {a:.4f}) ^ 2 + {2 - a:.3f} * (y - {b:.4f}) ^ 2) LIMIT 2",
            "product": f"abs(x * y - {0.7 + i / 1000:.4f}) LIMIT 1",
            "whole": f"abs(n - {2 + i % 2}) + abs(x - {b:.4f}) LIMIT 2",
            "curved": f"exp({2 + a:.4f} * x) * (y + {b:.4f}) LIMIT 1",
        }
        for name in families:
            found[f"{name}{i}"] = f"SELECT x, n FROM s ORDER BY {asked[name]} WINDOW {window}"
        found[f"inside{i}"] = (
            f"SELECT x FROM s WHERE dist(x, y, {a:.4f}, {b:.4f}) < 0.0{1 + i % 3} WINDOW {window}"
        )
        found[f"above{i}"] = (
            f"SELECT x FROM s WHERE x + 1.{i:02} * y >= {1.93 + i / 100:.2f} AND n < 8 WINDOW {window}"
        )
    return found


def celled_files(folder: Path, seed: int, rows: int) -> None:
    """Rows that crowd in some batches, lie further out in others, have ties, and odd values."""
    chance = random.Random(seed)
    for number, made in enumerate(make_files(4, seed, rows=(rows, rows + 200))):
        for row in made:
            if number == 1 and row["x"] is not None and chance.random() < 0.7:
                row["x"], row["y"] = (chance.gauss(c, 0.04) for c in chance.choice([(0.1, 0.8), (0.6, 0.3)]))
            if number == 2:
                row["x"] = None if row["x"] is None else round(5 * row["x"], 1)
            if number == 3 and chance.random() < 0.1:
                row["x"] = chance.choice([math.nan, math.inf, -math.inf, -0.0, 1e308, 5e-324])
        write_file(folder / "data" / f"{number}.parquet", made)


EVERY = ("near", "weighted", "product", "whole", "curved")


@pytest.mark.spark
@pytest.mark.parametrize(
    ("timed", "asked", "rows"),
    [
        (False, ("near", "curved"), 700),
        pytest.param(False, EVERY, 5000, marks=pytest.mark.soak),
        pytest.param(True, EVERY, 5000, marks=pytest.mark.soak),
    ],
)
def test_many_queries_without_a_map(
    tmp_path: Path,
    spark: SparkSession,
    small: None,
    timed: bool,
    asked: tuple[str, ...],
    rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("skyband.spark.admission._HEAD_ROWS", (rows // 20, rows // 10))
    gates: list[Gate] = []
    made = Family.gate

    def noted(self: Family, *told: Any) -> Gate | None:
        gate = made(self, *told)
        gates.extend([] if gate is None else [gate])
        return gate

    monkeypatch.setattr(Family, "gate", noted)
    celled_files(tmp_path, 20, rows)
    queries = celled_queries(asked)
    if timed:
        queries = {name: re.sub(r"(\d)00 ROWS", r"\g<1>00 SECONDS", sql) for name, sql in queries.items()}
    text = pipeline_text(queries, spark="jvm_rows = 0\n")
    (tmp_path / "pipeline.toml").write_text(text if timed else text.replace('time = "ts"\n', ""))
    infos = run(tmp_path, spark)
    assert len(infos) == 4 and all(info.in_jvm == info.rows for info in infos)
    assert sum(info.crossed for info in infos) < 0.7 * sum(info.rows for info in infos)
    # each family has its cells in each batch, and so have the first thresholds; a map serves the others
    assert sum(gate.cells is not None for gate in gates) == 4 * (len(asked) + 1)
    assert sum(gate.relief is not None for gate in gates) == 4
    report = verify_pipeline(tmp_path / "pipeline.toml")
    assert report.ok and report.answers == 4 * len(queries), str(report)


def test_thresholds_become_bars() -> None:
    made = Monitor(schema={"s": SCHEMA})
    made.lists_only = True
    for where in (
        "x + y > 3",
        "2 >= y + x",
        "x + y > 1.5",
        "x + y <= 4",
        "x * 2 > 1 AND y > 0",
        "x * 3 > 2 AND y > 1",
    ):
        made.watch(f"SELECT x FROM s WHERE {where} WINDOW 9 ROWS")
    made.watch("SELECT x FROM s WHERE y < 5 AND x * 4 > 9 WINDOW 9 ROWS")
    found = as_bars(families(made.sifter("s").queries))
    told = [(one.group.constants.tolist(), one.group.sign, one.group.where, bars) for one, bars in found]
    assert [len(constants) for constants, *_ in told] == [1, 1, 1, 2, 1]
    assert [sign for _, sign, *_ in told] == [1, -1, -1, 1, -1]
    assert all(where is None for _, _, where, _ in told[:4])  # what they ask besides isn't the same
    assert told[3][0] == [[2.0], [3.0]] and told[4][2] is not None
    for (*_, bars), wanted in zip(told, ([1.5], [-2], [-4], [1, 2], [-5]), strict=True):
        assert bars.tolist() == pytest.approx(wanted) and np.all(bars < wanted)


def test_thresholds_of_sums_of_integers_are_no_bars() -> None:
    """Comparisons don't round them, as scores are: few are tested with care, many can't be."""
    schema = pa.schema([("n", pa.int64()), ("m", pa.int64())])
    types = {field.name: field.type for field in schema}
    for count, where in ((3, "n - m > 5"), (17, "n - m > 5"), (17, "n > 5"), (17, "n / 2 - m > 5")):
        made = Monitor(schema={"s": schema})
        made.lists_only = True
        for i in range(count):
            made.watch(f"SELECT n FROM s WHERE {where} AND m > {i} WINDOW 9 ROWS")
        batch = Batch(schema.empty_table(), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))
        known = families(made.sifter("s").queries)
        if (count, where) == (17, "n - m > 5"):
            with pytest.raises(Unfit):
                Admission(schema)._wanted(known, batch)
        else:
            few, many = Admission(schema)._wanted(known, batch)
            assert (len(few), len(many)) == ((3, 0) if count == 3 else (0, 1))
    for text, told in (("n - m > 5", True), (" + ".join("nmnmnmnmn") + " > 5", False)):
        found: Any = parse(f"SELECT n FROM s WHERE {text} WINDOW 9 ROWS")
        assert (may_hold(found.where, types) is not None) is told


# -- the driver's part of it, with Spark's read from the files ----------------------------------------------

SCHEMA = pa.schema([("ts", pa.timestamp("us")), ("x", pa.float64()), ("y", pa.float64())])


def monitor(timed: bool) -> Monitor:
    made = Monitor(schema={"s": SCHEMA}, time={"s": "ts"} if timed else None)
    made.lists_only = True
    window = "100 SECONDS" if timed else "300 ROWS"
    made.watch(f"SELECT x FROM s ORDER BY x * y DESC LIMIT 5 WINDOW {window}", name="best")
    made.watch(f"SELECT x FROM s WHERE x + y > 1.9 WINDOW {window}", name="above")
    if not timed:  # which Spark might round otherwise
        made.watch(f"SELECT x FROM s WHERE exp(x) * y > 2.5 WINDOW {window}", name="beyond")
    return made


def rows_of(batch: int, chance: np.random.Generator, fall: float = 0.0) -> pa.Table:
    times = np.sort(chance.integers(0, 10**8, 400)) + batch * 10**8
    told = [None if chance.random() < 0.02 else int(time) for time in times]
    x = chance.random(400) - fall * np.arange(400)
    return pa.table({"ts": pa.array(told, pa.timestamp("us")), "x": x, "y": chance.random(400)}, SCHEMA)


def taken(folder: Path, name: str, table: pa.Table) -> Taken:
    pq.write_table(table, folder / name, row_group_size=64)
    status = (folder / name).stat()
    return Taken("s", name, status.st_size, status.st_mtime_ns, None)


def scan(tmp_path: Path, file: Taken) -> Callable[[list[str]], FileScan]:
    files = StreamFiles("s", "parquet", str(tmp_path), 1)
    return lambda names: FileScan(files, [file], names, SCHEMA)


@pytest.mark.parametrize("timed", [False, True])
def test_what_comes_through_is_a_step_like_any_other(
    tmp_path: Path, small: None, timed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = np.random.default_rng(1)
    gated, plain = monitor(timed), monitor(timed)
    admission = Admission(SCHEMA)
    for batch in range(3):
        table = rows_of(batch, chance)

        def all_rows(scan: Any, test: str, beside: Any, lines: Any, table: pa.Table = table) -> pa.Table:
            found = table.select(scan._names).append_column("__skyband_at", pa.array(range(400)))
            return found.take(pa.array(range(399, -1, -1)))

        monkeypatch.setattr("skyband.spark.filescan.FileScan.rows_that", all_rows)
        found = admission.read(
            None, scan(tmp_path, taken(tmp_path, f"{batch}.parquet", table)), gated.sifter("s")
        )  # type: ignore[arg-type]
        assert found is not None and found.looked_at == 400
        gated.push_sifted([("s", [Sifted.from_bytes(part.to_bytes()) for part in found.parts])])
        plain.push_sifted([("s", [plain.sifter("s").sift(table)])])
        for name in plain.watches:
            assert gated.watches[name].top().equals(plain.watches[name].top())
        assert gated.rejects().equals(plain.rejects()) and gated.now == plain.now
        assert gated.rows_seen == plain.rows_seen
        assert gated.streams["s"].newest() == plain.streams["s"].newest()


def test_what_is_not_for_a_gate(tmp_path: Path, small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(scan: Any, test: str, beside: Any, lines: Any) -> pa.Table:
        raise AssertionError("Spark was asked")

    monkeypatch.setattr("skyband.spark.filescan.FileScan.rows_that", nothing)
    monkeypatch.setattr("skyband.spark.admission._PAUSE", 0)
    admission = Admission(SCHEMA)
    chance = np.random.default_rng(2)
    sifter = monitor(timed=False).sifter("s")
    fall = taken(tmp_path, "falling.parquet", rows_of(0, chance, fall=1.0))
    table = rows_of(0, chance)
    other = taken(tmp_path, "types.parquet", table.set_column(0, "ts", pa.array(["a"] * 400)))
    pattern = taken(tmp_path, "a[1].parquet", table)
    few = taken(tmp_path, "few.parquet", table.slice(0, 40))
    for file in (fall, other, pattern, few):
        assert admission.read(None, scan(tmp_path, file), sifter) is None  # type: ignore[arg-type]
    rows = monitor(timed=True)
    rows.watch("SELECT x FROM s ORDER BY x LIMIT 1 WINDOW 9 ROWS")  # needs the times of all rows
    assert (
        admission.read(None, scan(tmp_path, taken(tmp_path, "rows.parquet", table)), rows.sifter("s")) is None
    )  # type: ignore[arg-type]
