"""Lift the constants out of a score, and write a score as source for numba.

Queries that differ only in their constants have one shape: `0.3 * x + 0.7 * y` and `0.9 * x + 0.1 * y` both lift to
`$0 * x + $1 * y`. A shape is compiled once and takes the constants as parameters.

`render` makes the source from the tree alone: names x0, x1 … for columns, p[i] for parameters, digits and operators. It
contains no text of the user. It contains only operations that numba and numpy round identically; for other operations
(exp, ln, other powers, comparisons) `render` returns None, and numpy evaluates the score.
"""

from __future__ import annotations

from collections.abc import Sequence

from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression

Lifted = tuple[Expression, tuple[float, ...]]

# by id, with the expression itself, so that no other expression gets its id
_lifted: dict[int, tuple[Expression, Lifted]] = {}


def lift(e: Expression) -> Lifted:
    """Return the shape of a numeric expression and its constants.

    An exponent that is a number stays, since x^2 is computed as x*x. The literals of comparisons stay, since they are
    exact and not float64.
    """
    known = _lifted.get(id(e))
    if known is None:
        if len(_lifted) >= 4096:
            _lifted.clear()
        known = _lifted[id(e)] = (e, _lift(e))
    return known[1]


def _lift(e: Expression) -> Lifted:
    constants: list[float] = []

    def visit(node: Expression) -> Expression:
        match node:
            case nodes.Number(value):
                constants.append(nodes.as_float(value))
                return nodes.Parameter(len(constants) - 1)
            case nodes.Arithmetic("^", base, exponent) if nodes.literal(exponent) is not None:
                return nodes.Arithmetic("^", visit(base), exponent)
            case nodes.Negate() | nodes.Arithmetic() | nodes.Call():
                return nodes.rebuild(node, tuple(visit(part) for part in nodes.children(node)))
            case _:
                return node

    shape = visit(e)
    return shape, tuple(constants)


def render(shape: Expression, columns: Sequence[str]) -> str | None:
    """Return the shape as a scalar expression for numba (error_model="numpy", no fastmath).

    It is over x0, x1 … in the order of `columns`, p[0], p[1] …, and the modules np and math. Return None where the
    result could differ from that of `evaluate` by rounding.
    """
    try:
        return _render(shape, {name: index for index, name in enumerate(columns)})
    except _Different:
        return None


class _Different(Exception):
    """A node that numpy and numba may round differently."""


def _render(e: Expression, index: dict[str, int]) -> str:
    match e:
        case nodes.Column():
            return f"x{index[e.key]}"
        case nodes.Parameter(i):
            return f"p[{i}]"
        case nodes.Number(value):
            return _literal(nodes.as_float(value))
        case nodes.Negate(operand):
            return f"(-{_render(operand, index)})"
        case nodes.Arithmetic("^", base, exponent):
            if nodes.literal(exponent) != 2 or not isinstance(base, nodes.Column | nodes.Parameter):
                # np.square is the same product, and does not repeat a long base in the text
                return f"np.square({_render(base, index)})" if nodes.literal(exponent) == 2 else _refuse()
            return f"({_render(base, index)} * {_render(base, index)})"
        case nodes.Arithmetic(op, left, right):
            return f"({_render(left, index)} {op} {_render(right, index)})"
        case nodes.Call("abs", (arg,)):
            return f"abs({_render(arg, index)})"
        case nodes.Call("sign", (arg,)):
            return (
                f"(np.sign({_render(arg, index)}) + 0.0)"  # numba's sign of -0.0 is -0.0, that of numpy 0.0
            )
        case nodes.Call("sqrt", (arg,)):
            return f"np.sqrt({_render(arg, index)})"
        case nodes.Call(("least" | "greatest") as name, args):
            function = "np.minimum" if name == "least" else "np.maximum"
            text = _render(args[0], index)
            for arg in args[1:]:
                text = f"{function}({text}, {_render(arg, index)})"
            return text
        case nodes.Call("dist", args):
            half = len(args) // 2
            pairs = zip(args[:half], args[half:], strict=True)
            squares = [f"np.square({_render(x, index)} - {_render(p, index)})" for x, p in pairs]
            return f"np.sqrt({' + '.join(squares)})"
        case _:
            return _refuse()


def _refuse() -> str:
    raise _Different


def _literal(value: float) -> str:
    if value in (float("inf"), float("-inf")):
        return "np.inf" if value > 0 else "(-np.inf)"
    return repr(value) if value >= 0 else f"({value!r})"
