"""Make a query from SQL.

The clauses decide the kind of query: two streams with a comma make pairs, FULL JOIN makes a joined query, GROUP BY a
grouped one, ORDER BY with LIMIT a top-k, WHERE without them a threshold. This module reports clauses that are missing
or contradict each other; skyband.query.sql.clauses reads the clauses.
"""

from __future__ import annotations

from functools import lru_cache

from sqlglot.tokens import Token

from skyband.core.errors import QueryError
from skyband.query.expression import nodes
from skyband.query.expression.grammar import Reader
from skyband.query.expression.nodes import Call, Column, Expression, Text
from skyband.query.expression.text import expression_text
from skyband.query.expression.threshold import split
from skyband.query.model import Grouped, Joined, Output, Pairs, Query, Select, Threshold, TopK, Window
from skyband.query.sql.clauses import ONE_EXPRESSION, Item, Source, Statement, read
from skyband.query.suggestions import located
from skyband.query.window import EXAMPLES

__all__ = ["parse"]


def parse(sql: str) -> Query:
    """Parse a query; raise QueryError if it is wrong. Its columns are checked later, against a schema."""
    return _parsed(sql) if isinstance(sql, str) else _parse(sql)


def _parse(sql: str) -> Query:
    reader = Reader(sql)
    return _Conclusion(reader, read(reader)).query()


# The start of a pipeline parses the same texts several times: a millisecond each is seconds for thousands of them.
_parsed = lru_cache(maxsize=16_384)(_parse)


class _Conclusion:
    """Decides which kind of query the clauses make, and reports what is missing."""

    def __init__(self, reader: Reader, statement: Statement) -> None:
        self.reader = reader
        self.statement = statement
        self.streams = [source.stream for source in statement.sources]
        self.is_joined = statement.using is not None
        self.is_pairs = len(statement.sources) > 1 and not self.is_joined
        self.sides = self._sides()

    def _error(self, message: str, token: Token | None = None) -> QueryError:
        return self.reader.error(message, token)

    def query(self) -> Query:
        s = self.statement
        if s.window is None:
            raise self._error(f"Expected WINDOW and a window at the end of the query, {EXAMPLES}")
        if self.is_joined and s.group is not None:
            raise self._error("FULL JOIN and GROUP BY can't be combined; write two queries", s.group_token)
        if self.is_pairs and s.group is not None:
            raise self._error("Pairs can't be grouped; remove GROUP BY", s.group_token)
        if s.having is not None and s.group is None:
            raise self._error("HAVING needs GROUP BY; write the condition in WHERE", s.having_token)
        if "repeat" in dict(s.options) and not self.is_joined:
            raise self._error("The option repeat is for FULL JOIN; remove it")
        if s.group is not None:
            return self._grouped(s.window)
        if s.order is None and s.k is None and not self.is_pairs and not self.is_joined:
            return self._threshold(s.window)
        return self._ranked(s.window)

    # -- names

    def _sides(self) -> dict[str, str | None]:
        """Return the side of each qualifier: none with one stream, a or b in pairs, the stream in joined queries."""
        sources = self.statement.sources
        if not self.is_pairs and not self.is_joined:
            names = {sources[0].stream, sources[0].alias or sources[0].stream}
            return {name.casefold(): None for name in names}
        if self.is_pairs:
            return self._pair_sides(sources)
        sides: dict[str, str | None] = {}
        for source in sources:
            if source.stream.casefold() in sides:
                raise self._error(
                    f"The stream {source.stream} is joined twice; name each stream once", source.token
                )
            sides[source.stream.casefold()] = source.stream
            if source.alias is not None:
                sides[source.alias.casefold()] = source.stream
        return sides

    def _pair_sides(self, sources: list[Source]) -> dict[str, str | None]:
        if len(sources) > 2:
            raise self._error(
                "Pairs are of two rows; name the stream twice, as in FROM s a, s b", sources[2].token
            )
        one, other = sources
        if one.stream != other.stream:
            raise self._error(
                f"Pairs are of one stream, as in FROM {one.stream} a, {one.stream} b; "
                f"to join two streams write {one.stream} FULL JOIN {other.stream} USING (id)",
                other.token,
            )
        if one.alias is None or other.alias is None or one.alias.casefold() == other.alias.casefold():
            token = one.token if one.alias is None else other.token
            raise self._error(
                f"Give each row of a pair a name, as in FROM {one.stream} a, {one.stream} b", token
            )
        return {one.alias.casefold(): "a", other.alias.casefold(): "b"}

    def resolve(self, e: Expression) -> Expression:
        """Replace the qualifiers that the user wrote by the sides of the model."""
        if isinstance(e, Column):
            return self._column(e)
        parts = nodes.children(e)
        return nodes.rebuild(e, tuple(self.resolve(part) for part in parts)) if parts else e

    def _column(self, column: Column) -> Column:
        if column.side is None:
            if self.is_pairs:
                one, other = (source.alias for source in self.statement.sources)
                name = column.name
                raise self._at(
                    column,
                    f"{name} may be of row {one} or of row {other}; write {one}.{name} or {other}.{name}",
                )
            return column
        if column.side.casefold() not in self.sides:
            known = " or ".join(
                dict.fromkeys(source.alias or source.stream for source in self.statement.sources)
            )
            raise self._at(column, f"There is no stream {column.side} in FROM; write {known}.{column.name}")
        if self.is_joined and column.name == self.statement.using:
            return Column(column.name, None, column.place)
        return Column(column.name, self.sides[column.side.casefold()], column.place)

    def _at(self, column: Column, message: str) -> QueryError:
        place = column.place or (1, 1)
        return QueryError(located(message, place), place, self.reader.text)

    # -- parts

    def _select(self) -> Select:
        items = self.statement.items
        if any(item.value is None for item in items):
            self._check_star(items)
            return None
        outputs: list[Output] = []
        for item in items:
            assert item.value is not None
            value = self.resolve(item.value)
            if isinstance(value, Text):
                raise self._error("A text can't be selected; name a column", item.token)
            name = item.alias or (value.key if isinstance(value, Column) else expression_text(value))
            if any(output.name == name for output in outputs):
                raise self._error(
                    f"The column {name} is selected twice; remove one or name it with AS", item.token
                )
            outputs.append(Output(name, value))
        return tuple(outputs)

    def _check_star(self, items: list[Item]) -> None:
        """Check that * is the only item; in pairs a.*, b.* is the same as *."""
        for item in items:
            if item.value is not None:
                raise self._error("* means all columns; select * or a list of columns", item.token)
            if item.alias is not None and item.alias.casefold() not in self.sides:
                known = " or ".join(source.alias or source.stream for source in self.statement.sources)
                raise self._error(f"There is no stream {item.alias} in FROM; write {known}", item.token)
        if self.statement.group is not None:
            raise self._error("With GROUP BY select the keys and SUM, COUNT or MAX, not *", items[0].token)
        whole = len(items) == 1 and items[0].alias is None
        parts = {self.sides.get((item.alias or "").casefold(), "") for item in items}
        if not whole and (len(parts) != len(items) or parts != set(self.sides.values())):
            raise self._error("Select * for all columns, or a list of columns", items[0].token)

    def _where(self) -> Expression | None:
        where = self.statement.where
        if where is None:
            return None
        if _aggregates(where):
            raise self._error(
                "SUM, COUNT and MAX can't be in WHERE; put the condition into HAVING",
                self.statement.where_token,
            )
        return self.resolve(where)

    def _order(self) -> tuple[Expression, int]:
        """Return the score and k."""
        s, reader = self.statement, self.reader
        if s.order is None:
            raise reader.error(
                "LIMIT needs ORDER BY; write ORDER BY and an expression before it", s.limit_token
            )
        if s.k is None:
            raise reader.error(
                "ORDER BY needs LIMIT k; write LIMIT and a number before WINDOW", s.order_token
            )
        score = s.order
        ordered = score
        if isinstance(ordered, Column) and ordered.side is None:
            # as in standard SQL, ORDER BY may use the alias of a selected column
            for item in s.items:
                if item.alias == ordered.name and item.value is not None:
                    score = item.value
        score = self.resolve(score)
        if not nodes.columns_of(score) and not _aggregates(score):
            raise reader.error(
                "ORDER BY needs an expression over columns, not a constant; name a column", s.order_token
            )
        return score, s.k

    # -- kinds

    def _ranked(self, window: Window) -> Query:
        s = self.statement
        if s.order is None and s.k is None:
            raise self._error("Expected ORDER BY an expression and LIMIT k before WINDOW")
        score, k = self._order()
        select, where = self._select(), self._where()
        if s.then is not None and (self.is_pairs or self.is_joined):
            raise self._error(ONE_EXPRESSION, s.then_token)
        if self.is_pairs:
            return Pairs(self.streams[0], select, score, s.descending, k, window, where, s.options)
        if self.is_joined:
            assert s.using is not None
            streams = tuple(self.streams)
            places = (self.reader.place(s.using_token),)
            return Joined(streams, s.using, select, score, s.descending, k, window, where, s.options, places)
        then = None if s.then is None else self._column(s.then)
        return TopK(self.streams[0], select, score, s.descending, k, window, where, s.options, then)

    def _threshold(self, window: Window) -> Query:
        s = self.statement
        if s.where is None:
            raise self._error(
                "Expected ORDER BY and LIMIT k, or a WHERE that compares a number with a constant"
            )
        where = self._where()
        assert where is not None
        found = split(where)
        if found is None:
            raise self._error(
                "Without ORDER BY and LIMIT, WHERE must compare a numeric expression with a constant "
                "by >, >=, < or <=, joined to the rest by AND",
                s.where_token,
            )
        score, op, bound = found
        self._check_bound(bound, s.where_token)
        return Threshold(
            self.streams[0], self._select(), score, op[0] == ">", bound, op, window, where, s.options
        )

    def _grouped(self, window: Window) -> Query:
        s = self.statement
        assert s.group is not None
        key = tuple(self._column(column).name for column in s.group)
        if len(set(key)) != len(key):
            raise self._error("GROUP BY names a column twice; remove one", s.group_token)
        select, where = self._select(), self._where()
        for item in s.items:
            assert item.value is not None
            self._check_grouped(self.resolve(item.value), key, item.token)
        having = None if s.having is None else self.resolve(s.having)
        if having is not None:
            self._check_grouped(having, key, s.having_token)
        if s.order is None and s.k is None:
            return self._group_threshold(key, select, where, having, window)
        score, k = self._order()
        if s.then is not None:
            raise self._error(ONE_EXPRESSION, s.then_token)
        self._check_grouped(score, key, s.order_token)
        if not _aggregates(score):
            raise self._error(
                "With GROUP BY, ORDER BY needs SUM, COUNT or MAX; write ORDER BY SUM(x)", s.order_token
            )
        return Grouped(
            self.streams[0], key, select, score, s.descending, k, window, where, having, options=s.options,
            places=self._places(),
        )  # fmt: skip

    def _places(self) -> tuple[nodes.Place | None, ...]:
        """Return the places of the keys of GROUP BY in the text."""
        return tuple(column.place for column in self.statement.group or ())

    def _check_bound(self, bound: float, token: Token | None) -> None:
        if bound != bound:
            raise self._error("The constant to compare with comes out as NaN; compare with a number", token)

    def _group_threshold(
        self,
        key: tuple[str, ...],
        select: Select,
        where: Expression | None,
        having: Expression | None,
        window: Window,
    ) -> Query:
        s = self.statement
        found = split(having)
        if found is None or not _aggregates(found[0]):
            raise self._error(
                "With GROUP BY, write ORDER BY and LIMIT k, or a HAVING that compares SUM, COUNT or MAX "
                "with a constant",
                s.having_token,
            )
        score, op, bound = found
        self._check_bound(bound, s.having_token)
        return Grouped(
            self.streams[0], key, select, score, op[0] == ">", None, window, where, having, bound, op, s.options,
            self._places(),
        )  # fmt: skip

    def _check_grouped(self, e: Expression, key: tuple[str, ...], token: Token | None) -> None:
        """Check that all columns outside SUM, COUNT and MAX are keys, and that these are not nested."""
        if isinstance(e, Call) and e.name in nodes.AGGREGATES:
            if any(_aggregates(arg) for arg in e.args):
                raise self._error("SUM, COUNT and MAX can't be nested; write one of them", token)
            return
        if isinstance(e, Column) and e.name not in key:
            raise self._at(
                e, f"{e.name} is neither in GROUP BY nor inside SUM, COUNT or MAX; put it into one of them"
            )
        for part in nodes.children(e):
            self._check_grouped(part, key, token)


def _aggregates(e: Expression) -> bool:
    return any(isinstance(node, Call) and node.name in nodes.AGGREGATES for node in nodes.walk(e))
