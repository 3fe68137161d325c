"""Columns of PySpark as expressions: `topk(F.col("a") * 2 + F.col("b"), 20, "1 hour")`.

A Column shows itself as calls, with an operator before its arguments: `Column<'+(*(a, 2), b)'>`. That text, which every
Column has, is read here and written in our own grammar; PySpark itself is not needed. What can't be read as a call, a
text or a number stays as it is: a column's name, or the text of `F.expr`.
"""

from __future__ import annotations

import re
from typing import Any

from skyband.core.errors import QueryError

_INFIX = {op: op for op in ("+", "-", "*", "/", "%", "<", "<=", ">", ">=")}
_INFIX |= {"=": "=", "==": "=", "and": "AND", "or": "OR"}
_PREFIX = {"!": "NOT ", "not": "NOT ", "negative": "-", "positive": "+"}
_CALLS = {"power": "pow", "signum": "sign", "ceiling": "ceil"}
_CALL = re.compile(r"(\w+|[-+*/%<>=!]+)\(")
_TEXT = re.compile(r"'((?:[^'\\]|\\.)*)'")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)?")


def is_column(value: Any) -> bool:
    """Return whether a value is a Column of PySpark."""
    return type(value).__name__ == "Column" and type(value).__module__.startswith("pyspark.")


def column_text(column: Any) -> str:
    """Return the text of a Column in the grammar of the SQL.

    >>> _written("+(*(a, 2), sqrt(b))")
    '((a * 2) + sqrt(b))'
    """
    shown = str(column)
    if not (shown.startswith("Column<'") and shown.endswith("'>")):
        raise QueryError(f"The Column {shown} can't be read; write the score as a string.")
    return _written(shown[len("Column<'") : -len("'>")])


def _written(text: str) -> str:
    text = text.strip()
    call = _CALL.match(text)
    if call is not None and _closing(text, call.end() - 1) == len(text) - 1:
        name, inner = call[1].lower(), text[call.end() : -1]
        distinct = inner.startswith("DISTINCT ")
        arguments = [_written(part) for part in _split(inner.removeprefix("DISTINCT "))]
        if name in _INFIX and len(arguments) == 2:
            return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
        if name == "!" and inner.startswith("=("):
            one, other = (_written(part) for part in _split(inner[2:-1]))
            return f"({one} <> {other})"
        if name in _PREFIX and len(arguments) == 1:
            return f"({_PREFIX[name]}{arguments[0]})"
        if name == "in":
            return f"({arguments[0]} IN ({', '.join(arguments[1:])}))"
        return f"{_CALLS.get(name, name)}({'DISTINCT ' if distinct else ''}{', '.join(arguments)})"
    quoted = _TEXT.fullmatch(text)
    if quoted is not None:
        return "'" + re.sub(r"\\(.)", r"\1", quoted[1]).replace("'", "''") + "'"
    if text.startswith("`") and text.endswith("`") and _name_end(text) == len(text):
        return '"' + text[1:-1].replace("``", "`").replace('"', '""') + '"'
    alias = text.rfind(" AS ")
    if alias > 0 and not text.endswith(")"):
        return _written(text[:alias])
    return text if _NAME.fullmatch(text) or any(sign in text for sign in "()+-*/%<>='\"") else _plain(text)


def _plain(text: str) -> str:
    """Return a number as it is, and a name with other characters in quotes."""
    return text if re.fullmatch(r"[\d.eE]+|\*", text) else '"' + text.replace('"', '""') + '"'


def _closing(text: str, opening: int) -> int:
    """Return where the bracket is closed that opens here."""
    depth, at = 0, opening
    while at < len(text):
        if text[at] in "'`":
            at = _quote_end(text, at)
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
        at += 1
    return -1


def _split(text: str) -> list[str]:
    """Return the arguments of a call."""
    found, depth, first, at = [], 0, 0, 0
    while at < len(text):
        if text[at] in "'`":
            at = _quote_end(text, at)
            continue
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if text[at] == "," and depth == 0:
            found.append(text[first:at])
            first = at + 1
        at += 1
    return [*found, text[first:]] if text.strip() else []


def _quote_end(text: str, at: int) -> int:
    """Return the place after a quoted text or name."""
    if text[at] == "`":
        return at + _name_end(text[at:])
    found = _TEXT.match(text, at)
    return len(text) if found is None else found.end()


def _name_end(text: str) -> int:
    found = re.match(r"`(?:[^`]|``)*`", text)
    return len(text) + 1 if found is None else found.end()
