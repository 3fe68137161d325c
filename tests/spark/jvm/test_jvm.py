"""What is not public of PySpark stands in one module."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from skyband.spark.jvm import private as jvm

ROOM = Path(jvm.__file__).parents[1]
# Java's side of PySpark's objects, its gateway and its launcher, the classic implementation, py4j
PRIVATE = re.compile(
    r"\._j(?!udged\b)\w+|\b_(gateway|active_spark_context|ensure_initialized|cause)\b|java_gateway|sql\.classic"
    r"|import py4j|from py4j|ExpressionUtils"
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


# what PySpark documents, and so promises to keep
PUBLIC = {
    "pyspark",
    "pyspark.sql",
    "pyspark.sql.datasource",
    "pyspark.sql.functions",
    "pyspark.sql.streaming",
    "pyspark.sql.streaming.datasource",
    "pyspark.sql.streaming.state",
    "pyspark.sql.types",
    "pyspark.errors",
}
ELSEWHERE = {"_replace", "_fields", "_asdict", "_exit"}  # of named tuples and of os: documented, too


def imported(tree: ast.Module) -> set[str]:
    """The modules of PySpark and py4j that a module imports, and what it takes from them that begins with _."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{a.name}" for a in node.names if a.name[0] == "_")}
    return {name for name in found if name.split(".")[0] in ("pyspark", "py4j")}


def names(tree: ast.Module) -> set[str]:
    """What begins with _ and is defined in a module: functions, attributes and names that are assigned to."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            found.add(node.attr)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
    return found


TREES = {path: ast.parse(path.read_text()) for path in ROOM.parent.rglob("*.py")}
OURS = ELSEWHERE.union(*map(names, TREES.values()))


@pytest.mark.parametrize("path", sorted(ROOM.rglob("*.py")), ids=lambda path: str(path.relative_to(ROOM)))
def test_what_is_used_of_others_is_public(path: Path) -> None:
    """Only documented modules of PySpark, and no attribute with _ that isn't defined in this package."""
    if path == Path(jvm.__file__):
        return
    assert imported(TREES[path]) <= PUBLIC
    used = {node.attr for node in ast.walk(TREES[path]) if isinstance(node, ast.Attribute)}
    assert not {name for name in used if name[0] == "_" and name[:2] != "__"} - OURS


def test_the_search_sees_what_it_is_for() -> None:
    odd = "from pyspark.sql import _helper\nimport pyspark.worker\nfrom pyspark.java_gateway import x\n"
    assert not imported(ast.parse(odd)) <= PUBLIC and len(imported(ast.parse(odd))) == 4
    assert {"_jsc", "_jvm", "_sc", "_instantiatedSession"}.isdisjoint(OURS)


def test_no_other_room_imports_pyspark() -> None:
    others = [path for path in ROOM.parent.rglob("*.py") if not path.is_relative_to(ROOM)]
    assert not [path for path in others if re.search(r"^\s*(from|import) pyspark\b", path.read_text(), re.M)]


def test_each_has_a_reason_and_a_version() -> None:
    functions = [value for value in vars(jvm).values() if getattr(value, "__module__", "") == jvm.__name__]
    assert len(functions) >= 4
    for function in functions:
        assert re.search(r"PySpark 4\.\d+\.\d+", function.__doc__ or ""), function
