"""Functions that make queries without SQL: the same query objects, from Python.

    topk("0.3 * x + 0.7 * y", 10, rows(100_000), where="y > 0")
    nearest({"x": 0.3, "y": 0.4}, 5, last("5 minutes"))
    above("delay / distance", 0.5, last("1 hour"))

A score or a condition is a string in the grammar of the SQL, an expression, or a Column of PySpark. A window
is rows(n), last(…) or its text. Options are those of WITH (…), such as algorithm="sa".
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from skyband.core.errors import QueryError
from skyband.query.expression import nodes, parse_expression
from skyband.query.expression.nodes import Call, Column, Expression
from skyband.query.expression.text import expression_text
from skyband.query.expression.threshold import BEYOND, constant
from skyband.query.model import (
    Grouped,
    Joined,
    Options,
    Output,
    Pairs,
    Select,
    Threshold,
    TopK,
    Window,
)
from skyband.query.model import window as _window
from skyband.query.options import check_option
from skyband.query.spark_columns import column_text, is_column
from skyband.query.suggestions import located

WindowLike = str | Window | datetime.timedelta
ScoreLike = Any  # a text, an Expression or a Column of PySpark
ConditionLike = Any
SelectLike = str | Sequence[str] | Mapping[str, str | Expression] | None


def topk(
    score: ScoreLike,
    k: int,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    order: str = "desc",
    select: SelectLike = None,
    stream: str | None = None,
    **options: Any,
) -> TopK:
    """Return the query for the k rows of the window with the highest score, or the lowest with order="asc".

    >>> from skyband.query.text import to_sql
    >>> to_sql(topk("x + y", 10, "5 minutes", "x > 0"))
    'SELECT * FROM stream WHERE x > 0 ORDER BY x + y DESC LIMIT 10 WINDOW 5 MINUTES'
    """
    value, chosen = _score(score), _options(options, "topk")
    return TopK(
        stream, _select(select), value, _descending(order), _count(k), _window(window), _where(where), chosen
    )


def nearest(
    point: Mapping[str, float],
    k: int,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    weights: Mapping[str, float] | None = None,
    select: SelectLike = None,
    stream: str | None = None,
    **options: Any,
) -> TopK:
    """Return the query for the k rows of the window nearest to a point, which is given as {column: coordinate}.

    With `weights` ({column: weight}, 1 for the others) the distance is sqrt(w1 * (x1 - p1)^2 + w2 * (x2 - p2)^2 + …).

    >>> from skyband.query.text import to_sql
    >>> to_sql(nearest({"x": 0.3, "y": 0.4}, 5, "1000 rows"))
    'SELECT * FROM stream ORDER BY dist(x, y, 0.3, 0.4) LIMIT 5 WINDOW 1000 ROWS'
    """
    if not isinstance(point, Mapping) or not point:
        raise QueryError('nearest() takes a point such as {"x": 0.3, "y": 0.4}.')
    columns = tuple(Column(str(name)) for name in point)
    coordinates = tuple(_number(value, f"the coordinate {name}") for name, value in point.items())
    score = Call("dist", (*columns, *coordinates))
    if weights is not None:
        score = _weighted(columns, coordinates, [str(name) for name in point], weights)
    chosen = _options(options, "nearest")
    return TopK(stream, _select(select), score, False, _count(k), _window(window), _where(where), chosen)


def _weighted(
    columns: Sequence[Column],
    coordinates: Sequence[Expression],
    names: list[str],
    weights: Mapping[str, float],
) -> Call:
    """Return the square root of the sum of weight * (column - coordinate)^2."""
    if not isinstance(weights, Mapping):
        raise QueryError('weights are given by column, such as {"x": 2, "y": 0.5}.')
    for name, weight in weights.items():
        if name not in names:
            raise QueryError(
                f"There is a weight for {name}, but the point has no such coordinate; add it to the point."
            )
        known = _number(weight, f"the weight of {name}")
        if not 0 <= float(nodes.literal(known) or 0) < math.inf:
            raise QueryError(f"The weight of {name} must be a finite number of at least 0, not {weight}.")
    total: Expression | None = None
    for name, column, coordinate in zip(names, columns, coordinates, strict=True):
        square = nodes.Arithmetic("^", nodes.Arithmetic("-", column, coordinate), nodes.Number(2))
        term = nodes.Arithmetic("*", _number(weights.get(name, 1), f"the weight of {name}"), square)
        total = term if total is None else nodes.Arithmetic("+", total, term)
    assert total is not None
    return Call("sqrt", (total,))


def above(
    score: ScoreLike,
    c: float,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    op: str = ">",
    select: SelectLike = None,
    stream: str | None = None,
    **options: Any,
) -> Threshold:
    """Return the query for every row of the window whose score is above c; op may also be >=, < or <=.

    >>> from skyband.query.text import to_sql
    >>> to_sql(above("delay / distance", 0.5, "1 hour", "origin = 'JFK'"))
    "SELECT * FROM stream WHERE delay / distance > 0.5 AND origin = 'JFK' WINDOW 1 HOUR"
    """
    if op not in BEYOND:
        raise QueryError(f"above() takes op as one of {', '.join(BEYOND)}, not {op!r}.")
    value, limit = _score(score), _number(c, "the bound")
    condition = nodes.all_of([nodes.Compare(op, value, limit), *nodes.conjuncts(_where(where))])
    assert condition is not None
    bound = constant(limit)  # as of a query in SQL: the condition compares with the number as written
    assert bound is not None
    chosen = _options(options, "above")
    return Threshold(
        stream, _select(select), value, op[0] == ">", bound, op, _window(window), condition, chosen
    )


def pairs(
    score: ScoreLike,
    k: int,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    order: str = "asc",
    select: SelectLike = None,
    stream: str | None = None,
    **options: Any,
) -> Pairs:
    """Return the query for the k pairs of rows a, b with the lowest score, or the highest with order="desc".

    >>> from skyband.query.text import to_sql
    >>> to_sql(pairs("abs(a.x - b.x)", 5, "1000 rows", "a.id <> b.id"))
    'SELECT * FROM stream a, stream b WHERE a.id <> b.id ORDER BY abs(a.x - b.x) LIMIT 5 WINDOW 1000 ROWS'
    """
    value, condition = _score(score), _where(where)
    for part in (value, condition):
        for column in nodes.walk(part) if part is not None else ():
            if isinstance(column, Column) and column.side not in ("a", "b"):
                raise QueryError(
                    f"{column.name} may be of row a or of row b; write a.{column.name} or b.{column.name}."
                )
    chosen = _options(options, "pairs")
    return Pairs(
        stream, _select(select), value, _descending(order), _count(k), _window(window), condition, chosen
    )


def joined(
    streams: Sequence[str],
    key: str,
    score: ScoreLike,
    k: int,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    order: str = "desc",
    select: SelectLike = None,
    **options: Any,
) -> Joined:
    """Return the query for the k objects with the highest score, whose rows in several streams share one key.

    >>> from skyband.query.text import to_sql
    >>> to_sql(joined(["r1", "r2"], "id", "r1.x + r2.x", 5, "1 minute"))
    'SELECT * FROM r1 FULL JOIN r2 USING (id) ORDER BY r1.x + r2.x DESC LIMIT 5 WINDOW 1 MINUTE'
    """
    names = tuple(streams)
    if isinstance(streams, str) or len(names) < 2 or len(set(names)) != len(names):
        raise QueryError('joined() takes two or more different streams, such as ["r1", "r2"].')
    value, condition = _score(score), _where(where)
    for part in (value, condition):
        for column in nodes.walk(part) if part is not None else ():
            if isinstance(column, Column) and column.side is not None and column.side not in names:
                raise QueryError(
                    f"There is no stream {column.side} among {', '.join(names)}; write one of these."
                )
    chosen = _options(options, "joined")
    return Joined(
        names, key, _select(select), value, _descending(order), _count(k), _window(window), condition, chosen
    )


def grouped(
    key: str | Sequence[str],
    score: ScoreLike,
    k: int,
    window: WindowLike,
    where: ConditionLike = None,
    *,
    having: ConditionLike = None,
    order: str = "desc",
    select: SelectLike = None,
    stream: str | None = None,
    **options: Any,
) -> Grouped:
    """Return the query for the k objects with the highest score over their rows.

    >>> from skyband.query.text import to_sql
    >>> to_sql(grouped("host", "SUM(bytes)", 10, "5 minutes"))
    'SELECT host, SUM(bytes) FROM stream GROUP BY host ORDER BY SUM(bytes) DESC LIMIT 10 WINDOW 5 MINUTES'
    """
    keys = (key,) if isinstance(key, str) else tuple(key)
    value = _score(score, aggregates=True)
    if not any(isinstance(node, Call) and node.name in nodes.AGGREGATES for node in nodes.walk(value)):
        shown = expression_text(value)
        raise QueryError(f"The score of grouped() needs SUM, COUNT or MAX, such as SUM(x), not {shown}.")
    outputs = _select(select, aggregates=True)
    if outputs is None:
        outputs = (*(Output(name, Column(name)) for name in keys), Output(expression_text(value), value))
    return Grouped(
        stream, keys, outputs, value, _descending(order), _count(k), _window(window), _where(where),
        _where(having, aggregates=True), options=_options(options, "grouped"),
    )  # fmt: skip


# -- the arguments


def _score(score: ScoreLike, aggregates: bool = False) -> Expression:
    e = _parsed(score, aggregates)
    if not isinstance(e, Expression):
        raise QueryError(f'A score is a string such as "0.3 * x + 0.7 * y", not {score!r}.')
    if not nodes.columns_of(e) and not any(isinstance(node, Call) for node in nodes.walk(e)):
        raise QueryError(f"A score needs a column, but {expression_text(e)} is a constant.")
    return e


def _parsed(given: Any, aggregates: bool) -> Any:
    """Return the expression of a text or of a Column of PySpark; anything else as it is."""
    text = column_text(given) if is_column(given) else given
    return parse_expression(text, aggregates) if isinstance(text, str) else text


def _where(where: ConditionLike, aggregates: bool = False) -> Expression | None:
    if where is None:
        return None
    e = _parsed(where, aggregates)
    if not isinstance(e, Expression):
        raise QueryError(f'A condition is a string such as "x > 0", not {where!r}.')
    return e


def _descending(order: str) -> bool:
    if not isinstance(order, str) or order.lower() not in ("asc", "desc"):
        raise QueryError(f'order is "desc" (highest first) or "asc" (lowest first), not {order!r}.')
    return order.lower() == "desc"


def _count(k: Any) -> int:
    try:
        return int(k.__index__())  # numpy's integers too; the model checks the range
    except AttributeError:
        raise QueryError(f"k must be a whole number of at least 1, not {k!r}.") from None


def _number(value: Any, what: str) -> Expression:
    if isinstance(value, bool | str) or not hasattr(value, "__float__"):
        raise QueryError(f"{what[0].upper()}{what[1:]} must be a number, not {value!r}.")
    if hasattr(value, "__index__"):
        return nodes.Number(int(value.__index__()))
    plain = float(value)
    if math.isnan(plain):
        raise QueryError(f"{what[0].upper()}{what[1:]} must be a number, not NaN.")
    exact = isinstance(value, Decimal) and Decimal(repr(plain)) != value
    return nodes.Number(value if exact else plain)


def _select(select: SelectLike, aggregates: bool = False) -> Select:
    if select is None or select == "*":
        return None
    if isinstance(select, Mapping):
        named = [
            (name, value if not isinstance(value, str) else None, value) for name, value in select.items()
        ]
        return tuple(
            Output(name, tree if tree is not None else parse_expression(str(text), aggregates))
            for name, tree, text in named
        )
    texts = [select] if isinstance(select, str) else list(select)
    outputs = []
    for text in texts:
        e = parse_expression(text, aggregates)
        if isinstance(e, nodes.Text):
            raise QueryError(f"A text can't be selected; name a column instead of {text}.")
        outputs.append(Output(e.key if isinstance(e, Column) else expression_text(e), e))
    if len({output.name for output in outputs}) != len(outputs):
        raise QueryError('A column is selected twice; remove one or name it, as in {"name": "x + 1"}.')
    return tuple(outputs)


def _options(options: Mapping[str, Any], builder: str) -> Options:
    for name, value in options.items():
        wrong = check_option(name, value)
        if wrong is not None:
            raise QueryError(located(wrong, None))
    if "repeat" in options and builder != "joined":
        raise QueryError("The option repeat is for joined(); remove it.")
    return tuple(sorted((name, v.lower() if isinstance(v, str) else v) for name, v in options.items()))
