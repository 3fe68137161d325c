"""Integer arithmetic in comparisons is exact, whatever its size and whatever rows come along."""

import operator

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skyband.query.expression import evaluate, parse_expression

INTEGERS = st.one_of(
    st.integers(-5, 5), st.integers(-(2**63), 2**63 - 1), st.sampled_from([2**53, 2**53 + 1, -(2**53) - 1])
)
LEFT = {
    "x + y": operator.add,
    "x - y": operator.sub,
    "x * y": operator.mul,
    "-x": lambda x, y: -x,
    "abs(x - y)": lambda x, y: abs(x - y),
    "least(x, y) + 1": lambda x, y: min(x, y) + 1,
    "greatest(x, 2 * y)": lambda x, y: max(x, 2 * y),
}
OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "=": operator.eq,
    "<>": operator.ne,
}


class Columns:
    def __init__(self, rows: list[tuple[int, int]]) -> None:
        self.columns = {
            "x": pa.array([x for x, _ in rows], pa.int64()),
            "y": pa.array([y for _, y in rows], pa.int64()),
        }
        self.length = len(rows)

    def __len__(self) -> int:
        return self.length

    def array(self, name: str) -> pa.Array:
        return self.columns[name]

    def number(self, name: str):
        return self.columns[name].cast(pa.float64(), safe=False).to_numpy()


@pytest.mark.parametrize("left", LEFT)
@given(
    rows=st.lists(st.tuples(INTEGERS, INTEGERS), min_size=1, max_size=5),
    op=st.sampled_from(sorted(OPERATORS)),
    bound=st.one_of(INTEGERS, st.just("y"), st.just("x + y")),
)
def test_as_python_has_it(left: str, rows: list[tuple[int, int]], op: str, bound: int | str) -> None:
    found = evaluate(parse_expression(f"{left} {op} {bound}"), Columns(rows))
    for (x, y), truth in zip(rows, found.tolist(), strict=True):
        right = {"y": y, "x + y": x + y}.get(bound, bound) if isinstance(bound, str) else bound
        assert truth == OPERATORS[op](LEFT[left](x, y), right)


def test_what_is_no_whole_number_is_compared_as_a_float() -> None:
    found = evaluate(parse_expression("x / y > 1"), Columns([(3, 2), (2, 3), (2**53 + 1, 2**53)]))
    assert found.tolist() == [True, False, False]
