"""What is not public of PySpark stands in one module."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from skyband.spark import jvm

ROOM = Path(jvm.__file__).parent
# Java's side of PySpark's objects, its gateway and its launcher, the classic implementation, py4j
PRIVATE = re.compile(
    r"\._j\w+|\b_(gateway|active_spark_context|ensure_initialized|cause)\b|java_gateway|sql\.classic|import py4j"
    r"|from py4j|ExpressionUtils"
)


@pytest.mark.parametrize(
    "text",
    [
        "df._jdf",
        "sc._jvm.x",
        "session._jsparkSession",
        "from py4j.java_gateway import X",
        'getattr(e, "_cause")',
    ]
    + ["SparkContext._gateway", "from pyspark.sql.classic.column import Column", "reader._jreader"],
)
def test_the_pattern_sees_what_it_is_for(text: str) -> None:
    assert PRIVATE.search(text)


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_no_other_module_has_any_of_it(path: Path) -> None:
    found = [line.strip() for line in path.read_text().splitlines() if PRIVATE.search(line)]
    assert bool(found) == (path == Path(jvm.__file__)), found


def test_no_other_room_imports_pyspark() -> None:
    others = [path for path in ROOM.parent.rglob("*.py") if not path.is_relative_to(ROOM)]
    assert not [path for path in others if re.search(r"^\s*(from|import) pyspark\b", path.read_text(), re.M)]


def test_each_has_a_reason_and_a_version() -> None:
    functions = [value for value in vars(jvm).values() if getattr(value, "__module__", "") == jvm.__name__]
    assert len(functions) >= 4
    for function in functions:
        assert re.search(r"PySpark 4\.\d+\.\d+", function.__doc__ or ""), function
