"""From SQL to a query.

A statement is read clause by clause with the Reader that also reads its expressions: SELECT, FROM, WHERE,
GROUP BY, HAVING, ORDER BY, LIMIT, and then the two clauses that are our own, WINDOW and WITH. sqlglot gives
the tokens; its parser is not used, since it knows neither clause, reads `^` differently, and would name other
places in its errors than ours. A clause is only looked for where one can begin, so a column may be called
`window` and a quoted text may hold any of these words.

What kind of query it is follows from its shape: two streams with a comma are pairs, FULL JOIN is joined, GROUP
BY is grouped, ORDER BY with LIMIT is top-k, a WHERE alone is a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot.tokens import Token, TokenType

from skyband.errors import QueryError
from skyband.query import nodes
from skyband.query.grammar import RESERVED, Reader
from skyband.query.model import (
    MOST_RANKS,
    Grouped,
    Joined,
    Options,
    Output,
    Pairs,
    Query,
    Select,
    Threshold,
    TopK,
    Window,
)
from skyband.query.nodes import Call, Column, Expression
from skyband.query.options import check_option
from skyband.query.text import expression_text
from skyband.query.threshold import split
from skyband.query.window import EXAMPLES, measure

CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WINDOW", "WITH")
SHAPE = "SELECT … FROM s [WHERE …] ORDER BY … LIMIT k WINDOW 100000 ROWS"


@dataclass
class Item:
    """One term of the SELECT list; the value None stands for all columns."""

    value: Expression | None
    alias: str | None
    token: Token


@dataclass
class Source:
    """A stream in FROM, with its other name."""

    stream: str
    alias: str | None
    token: Token


@dataclass
class Statement:
    """The clauses as read, before anything is concluded from them."""

    items: list[Item] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    using: str | None = None
    where: Expression | None = None
    where_token: Token | None = None
    group: list[Column] | None = None
    group_token: Token | None = None
    having: Expression | None = None
    having_token: Token | None = None
    order: Expression | None = None
    order_token: Token | None = None
    descending: bool = False
    k: int | None = None
    window: Window | None = None
    options: Options = ()


def parse(sql: str) -> Query:
    """Read a query. Raises QueryError; whether its columns exist is checked later, against a schema."""
    reader = Reader(sql)
    statement = _read(reader)
    return _Conclusion(reader, statement).query()


def _read(reader: Reader) -> Statement:
    statement = Statement()
    if not reader.tokens:
        raise QueryError(f"The query is empty; write {SHAPE}.")
    if reader.sees(TokenType.WITH):
        raise reader.error("WITH before SELECT is not supported; ask for one SELECT over a stream", reader.token)
    reader.expect(TokenType.SELECT, "SELECT at the beginning")
    # Whether SUM, COUNT and MAX may be called is known only from GROUP BY, which comes later.
    reader.aggregates = any(token.token_type == TokenType.GROUP_BY for token in reader.tokens)
    _select(reader, statement)
    seen: list[str] = []
    while reader.token is not None:
        if reader.take(TokenType.SEMICOLON):
            if reader.token is not None:
                raise reader.error("One query at a time; leave away what follows the semicolon", reader.token)
            break
        _clause(reader, statement, seen)
    if "FROM" not in seen:
        raise reader.expected("FROM and a stream's name")
    return statement


def _clause(reader: Reader, statement: Statement, seen: list[str]) -> None:
    token = reader.token
    assert token is not None
    name = token.text.upper()
    if token.token_type == TokenType.IDENTIFIER or name not in CLAUSES:
        _refuse_clause(reader, token, seen)
    if name in seen:
        raise reader.error(f"{name} is there twice; leave one away", token)
    # WINDOW and WITH are ours and may change places; the others have SQL's order.
    later = [other for other in seen if CLAUSES.index(other) > CLAUSES.index(name)]
    if later and name != "WINDOW":
        raise reader.error(f"{name} must come before {later[0]}", token)
    seen.append(name)
    reader.at += 1
    READ[name](reader, statement)


def _refuse_clause(reader: Reader, token: Token, seen: list[str]) -> None:
    word = token.text.upper()
    advice = {
        "OFFSET": "OFFSET is not supported; ask for the first ranks with LIMIT",
        "FETCH": "FETCH is not supported; write LIMIT k",
        "QUALIFY": "QUALIFY is not supported; use WHERE, or HAVING with GROUP BY",
        "UNION": "UNION is not supported; ask two queries",
        "INTERSECT": "INTERSECT is not supported; ask two queries",
        "EXCEPT": "EXCEPT is not supported; ask two queries",
        ",": "A comma is not expected here; ORDER BY takes one expression, and FROM two streams at most",
    }
    if word in advice and token.token_type != TokenType.IDENTIFIER:
        raise reader.error(advice[word], token)
    if word == ")":
        raise reader.error("A closing bracket ) without an opening one; leave it away", token)
    left = [name for name in CLAUSES if not seen or CLAUSES.index(name) > CLAUSES.index(seen[-1])]
    from skyband.query.words import nearest

    near = nearest(word, left) if token.token_type == TokenType.VAR else None
    advice_near = f"did you mean {near}" if near else ""
    shown = f"{', '.join(left[:-1])} or {left[-1]}" if len(left) > 1 else "".join(left) or "the end"
    raise reader.expected(f"an operator, {shown}" if left else "the end of the query", advice_near)


# -- the clauses


def _select(reader: Reader, statement: Statement) -> None:
    if reader.sees(TokenType.DISTINCT):
        raise reader.error("DISTINCT is not supported; every row of the answer is another row already", reader.token)
    while True:
        token = reader.token
        if token is None or token.token_type == TokenType.FROM:
            raise reader.expected("a column or * after SELECT")
        if reader.take(TokenType.STAR):
            statement.items.append(Item(None, None, token))
        elif reader.ahead(1) == TokenType.DOT and reader.ahead(2) == TokenType.STAR:
            name = reader.name("a stream's name")
            reader.at += 2
            statement.items.append(Item(None, name, token))
        else:
            value = reader.whole()
            statement.items.append(Item(value, _alias(reader), token))
        if not reader.take(TokenType.COMMA):
            return


def _alias(reader: Reader) -> str | None:
    if reader.take(TokenType.ALIAS):
        return reader.name("a name after AS")
    token = reader.token
    if token is None or token.token_type == TokenType.COMMA or token.text.lower() in RESERVED:
        return None
    if token.token_type == TokenType.IDENTIFIER or token.text.isidentifier():
        return reader.name("a name")
    return None


def _from(reader: Reader, statement: Statement) -> None:
    _source(reader, statement)
    while True:
        token = reader.token
        word = reader.word()
        if reader.take(TokenType.COMMA):
            _source(reader, statement)
        elif reader.take(TokenType.FULL):
            reader.take(TokenType.OUTER)
            reader.expect(TokenType.JOIN, "JOIN after FULL")
            _source(reader, statement)
            _using(reader, statement)
        elif word in ("join", "inner", "left", "right", "cross", "natural", "outer", "semi", "anti"):
            raise reader.error(
                "Of joins there is FULL JOIN s USING (id); for pairs of one stream write FROM s a, s b", token
            )
        else:
            return


def _source(reader: Reader, statement: Statement) -> None:
    token = reader.token
    if reader.sees(TokenType.L_PAREN):
        raise reader.error("Subqueries are not supported; name a stream after FROM", token)
    stream = reader.name("a stream's name after FROM")
    assert token is not None
    if reader.sees(TokenType.DOT, TokenType.L_PAREN):
        raise reader.error("A stream has a plain name; put it into double quotes if it has other signs", reader.token)
    alias = None
    if reader.take(TokenType.ALIAS):
        alias = reader.name("a name after AS")
    else:
        word = reader.word()
        following = reader.token
        clause = word is not None and (word.upper() in CLAUSES or word in RESERVED or word in JOINS)
        if following is not None and not clause:
            named = following.token_type == TokenType.IDENTIFIER or following.text.isidentifier()
            alias = reader.name("a name") if named else None
    statement.sources.append(Source(stream, alias, token))


JOINS = ("full", "join", "inner", "left", "right", "cross", "natural", "outer", "semi", "anti", "on", "using")


def _using(reader: Reader, statement: Statement) -> None:
    if reader.sees(TokenType.ON):
        raise reader.error("Streams are joined with USING (id) and not with ON", reader.token)
    reader.expect(TokenType.USING, "USING and the key in brackets, such as USING (id)")
    reader.expect(TokenType.L_PAREN, "the key in brackets, such as USING (id)")
    token = reader.token
    key = reader.name("the key's name")
    if reader.sees(TokenType.COMMA):
        raise reader.error("Streams are joined over one key; leave the others away", reader.token)
    reader.expect(TokenType.R_PAREN, "a closing bracket ) after the key")
    if statement.using is not None and statement.using != key:
        raise reader.error(f"All streams are joined over one key, but it was {statement.using} before", token)
    statement.using = key


def _where(reader: Reader, statement: Statement) -> None:
    statement.where_token = reader.token
    statement.where = reader.whole()


def _group_by(reader: Reader, statement: Statement) -> None:
    statement.group_token = reader.token
    statement.group = []
    while True:
        token = reader.token
        e = reader.whole()
        if not isinstance(e, Column):
            raise reader.error("GROUP BY takes columns, not expressions", token)
        statement.group.append(e)
        if not reader.take(TokenType.COMMA):
            return


def _having(reader: Reader, statement: Statement) -> None:
    statement.having_token = reader.token
    statement.having = reader.whole()


def _order_by(reader: Reader, statement: Statement) -> None:
    statement.order_token = reader.token
    statement.order = reader.whole()
    if reader.take(TokenType.DESC):
        statement.descending = True
    else:
        reader.take(TokenType.ASC)
    if reader.word() == "nulls":
        raise reader.error("NULLS FIRST and NULLS LAST are not supported; rows with a null are kept out", reader.token)
    if reader.sees(TokenType.COMMA):
        raise reader.error(
            "ORDER BY takes one expression, since equal scores are told apart by recency; leave the others away",
            reader.token,
        )


def _limit(reader: Reader, statement: Statement) -> None:
    token = reader.token
    if reader.take(TokenType.NUMBER):
        assert token is not None
        if token.text.isdecimal() and len(token.text) < 20 and 0 < int(token.text) <= MOST_RANKS:
            statement.k = int(token.text)
            return
        reader.at -= 1
    raise reader.expected("a whole number of at least 1 after LIMIT")


def _window(reader: Reader, statement: Statement) -> None:
    bracket = reader.take(TokenType.L_BRACKET)
    first = reader.token
    dot = "." if reader.take(TokenType.DOT) else ""
    number = reader.take(TokenType.NUMBER)
    if number is None:
        raise reader.expected(f"a number after WINDOW, {EXAMPLES}")
    word = reader.word()
    if word is None or not word.isidentifier():
        raise reader.expected(f"a unit after {dot}{number.text}, {EXAMPLES}")
    unit = reader.tokens[reader.at]
    result = measure(dot + number.text, unit.text)
    if isinstance(result, str):
        raise reader.error(result, unit if "no unit" in result else first)
    reader.at += 1
    if bracket is not None:
        reader.expect(TokenType.R_BRACKET, "a closing bracket ]")
    statement.window = result


def _with(reader: Reader, statement: Statement) -> None:
    reader.expect(TokenType.L_PAREN, "options in brackets after WITH, such as WITH (algorithm = 'sa')")
    options: dict[str, str | int | float] = {}
    while True:
        token = reader.token
        name = reader.name("an option's name").lower()
        if not reader.take(TokenType.EQ):
            raise reader.expected(f"= and a value after {name}")
        if name in options:
            raise reader.error(f"The option {name} is there twice; leave one away", token)
        value = _option_value(reader, name)
        wrong = check_option(name, value)
        if wrong is not None:
            raise reader.error(wrong, token)
        options[name] = value.lower() if isinstance(value, str) else value
        if not reader.take(TokenType.COMMA):
            break
    reader.expect(TokenType.R_PAREN, "a comma or a closing bracket )")
    statement.options = tuple(sorted(options.items()))


def _option_value(reader: Reader, name: str) -> str | int | float:
    token = reader.token
    if reader.take(TokenType.STRING):
        assert token is not None
        return token.text
    sign = -1 if reader.take(TokenType.DASH) else 1
    if reader.sees(TokenType.NUMBER, TokenType.DOT):
        value = reader.number().value
        return sign * (float(value) if isinstance(value, Decimal) else value)
    if sign < 0 or token is None or token.token_type == TokenType.R_PAREN:
        raise reader.expected(f"a value after {name} =")
    return reader.name(f"a value after {name} =")


READ = {
    "FROM": _from,
    "WHERE": _where,
    "GROUP BY": _group_by,
    "HAVING": _having,
    "ORDER BY": _order_by,
    "LIMIT": _limit,
    "WINDOW": _window,
    "WITH": _with,
}


# -- what follows from the clauses


class _Conclusion:
    """Decides which kind of query the clauses make, and says what is missing."""

    def __init__(self, reader: Reader, statement: Statement) -> None:
        self.reader = reader
        self.statement = statement
        self.streams = [source.stream for source in statement.sources]
        self.is_joined = statement.using is not None
        self.is_pairs = len(statement.sources) > 1 and not self.is_joined
        self.sides = self._sides()

    def query(self) -> Query:
        s = self.statement
        if s.window is None:
            raise self.reader.error(f"Expected WINDOW and a window at the end of the query, {EXAMPLES}")
        if self.is_joined and s.group is not None:
            raise self.reader.error("FULL JOIN and GROUP BY can't be combined; ask two queries", s.group_token)
        if self.is_pairs and s.group is not None:
            raise self.reader.error("Pairs can't be grouped; leave GROUP BY away", s.group_token)
        if s.having is not None and s.group is None:
            raise self.reader.error("HAVING needs GROUP BY; write the condition in WHERE", s.having_token)
        if "repeat" in dict(s.options) and not self.is_joined:
            raise self.reader.error("The option repeat is for FULL JOIN; leave it away")
        if s.group is not None:
            return self._grouped(s.window)
        if s.order is None and s.k is None and not self.is_pairs and not self.is_joined:
            return self._threshold(s.window)
        return self._ranked(s.window)

    # -- names

    def _sides(self) -> dict[str, str | None]:
        """What a qualifier stands for: nothing with one stream, a or b in pairs, the stream where joined."""
        sources = self.statement.sources
        if not self.is_pairs and not self.is_joined:
            names = {sources[0].stream, sources[0].alias or sources[0].stream}
            return {name.casefold(): None for name in names}
        if self.is_pairs:
            return self._pair_sides(sources)
        sides: dict[str, str | None] = {}
        for source in sources:
            if source.stream.casefold() in sides:
                raise self.reader.error(f"The stream {source.stream} is joined twice; name each stream once", source.token)
            sides[source.stream.casefold()] = source.stream
            if source.alias is not None:
                sides[source.alias.casefold()] = source.stream
        return sides

    def _pair_sides(self, sources: list[Source]) -> dict[str, str | None]:
        if len(sources) > 2:
            raise self.reader.error("Pairs are of two rows; name the stream twice, as in FROM s a, s b", sources[2].token)
        one, other = sources
        if one.stream != other.stream:
            raise self.reader.error(
                f"Pairs are of one stream, as in FROM {one.stream} a, {one.stream} b; "
                f"to join two streams write {one.stream} FULL JOIN {other.stream} USING (id)",
                other.token,
            )
        if one.alias is None or other.alias is None or one.alias.casefold() == other.alias.casefold():
            token = one.token if one.alias is None else other.token
            raise self.reader.error(f"Give each row of a pair a name, as in FROM {one.stream} a, {one.stream} b", token)
        return {one.alias.casefold(): "a", other.alias.casefold(): "b"}

    def resolve(self, e: Expression) -> Expression:
        """Replace the qualifiers that the user wrote by the sides that the model knows."""
        if isinstance(e, Column):
            return self._column(e)
        parts = nodes.children(e)
        return nodes.rebuild(e, tuple(self.resolve(part) for part in parts)) if parts else e

    def _column(self, column: Column) -> Column:
        if column.side is None:
            if self.is_pairs:
                one, other = (source.alias for source in self.statement.sources)
                raise self._at(column, f"Say whose {column.name} is meant: {one}.{column.name} or {other}.{column.name}")
            return column
        if column.side.casefold() not in self.sides:
            known = " or ".join(dict.fromkeys(source.alias or source.stream for source in self.statement.sources))
            raise self._at(column, f"There is no stream {column.side} in FROM; write {known}.{column.name}")
        if self.is_joined and column.name == self.statement.using:
            return Column(column.name, None, column.place)
        return Column(column.name, self.sides[column.side.casefold()], column.place)

    def _at(self, column: Column, message: str) -> QueryError:
        place = column.place or (1, 1)
        return QueryError(f"{message} (line {place[0]}, column {place[1]}).", place, self.reader.text)

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
            name = item.alias or (value.key if isinstance(value, Column) else expression_text(value))
            if any(output.name == name for output in outputs):
                raise self.reader.error(f"The column {name} is selected twice; leave one away or name it with AS", item.token)
            outputs.append(Output(name, value))
        return tuple(outputs)

    def _check_star(self, items: list[Item]) -> None:
        """* stands alone; in pairs a.*, b.* is the same as *."""
        for item in items:
            if item.value is not None:
                raise self.reader.error("* stands for all columns already; select either * or a list of columns", item.token)
            if item.alias is not None and item.alias.casefold() not in self.sides:
                known = " or ".join(source.alias or source.stream for source in self.statement.sources)
                raise self.reader.error(f"There is no stream {item.alias} in FROM; write {known}", item.token)
        if self.statement.group is not None:
            raise self.reader.error("With GROUP BY select the keys and SUM, COUNT or MAX, not *", items[0].token)
        whole = len(items) == 1 and items[0].alias is None
        parts = {self.sides.get((item.alias or "").casefold(), "") for item in items}
        if not whole and (len(parts) != len(items) or parts != set(self.sides.values())):
            raise self.reader.error("Select * for all columns, or a list of columns", items[0].token)

    def _where(self) -> Expression | None:
        where = self.statement.where
        if where is None:
            return None
        if _aggregates(where):
            raise self.reader.error("SUM, COUNT and MAX belong into HAVING, not into WHERE", self.statement.where_token)
        return self.resolve(where)

    def _order(self) -> tuple[Expression, int]:
        """The score and k."""
        s, reader = self.statement, self.reader
        if s.order is None:
            raise reader.error("LIMIT needs ORDER BY; write ORDER BY an expression before it")
        if s.k is None:
            raise reader.error("ORDER BY needs LIMIT k; write LIMIT and a number before WINDOW", s.order_token)
        score = s.order
        if isinstance(score, Column) and score.side is None:
            # As everywhere, the name of a selected column may be ordered by.
            for item in s.items:
                if item.alias == score.name and item.value is not None:
                    score = item.value
        score = self.resolve(score)
        if not nodes.columns_of(score) and not _aggregates(score):
            raise reader.error("ORDER BY needs an expression over columns, not a constant", s.order_token)
        return score, s.k

    # -- kinds

    def _ranked(self, window: Window) -> Query:
        s = self.statement
        if s.order is None and s.k is None:
            raise self.reader.error("Expected ORDER BY an expression and LIMIT k before WINDOW")
        score, k = self._order()
        select, where = self._select(), self._where()
        if self.is_pairs:
            return Pairs(self.streams[0], select, score, s.descending, k, window, where, s.options)
        if self.is_joined:
            assert s.using is not None
            streams = tuple(self.streams)
            return Joined(streams, s.using, select, score, s.descending, k, window, where, s.options)
        return TopK(self.streams[0], select, score, s.descending, k, window, where, s.options)

    def _threshold(self, window: Window) -> Query:
        s = self.statement
        if s.where is None:
            raise self.reader.error("Expected ORDER BY and LIMIT k, or a WHERE that compares a number with a constant")
        where = self._where()
        assert where is not None
        found = split(where)
        if found is None:
            raise self.reader.error(
                "Without ORDER BY and LIMIT, WHERE must compare a numeric expression with a constant by >, >=, < or <=, "
                "joined to the rest by AND",
                s.where_token,
            )
        score, op, bound = found
        return Threshold(self.streams[0], self._select(), score, op[0] == ">", bound, op, window, where, s.options)

    def _grouped(self, window: Window) -> Query:
        s = self.statement
        assert s.group is not None
        key = tuple(self._column(column).name for column in s.group)
        if len(set(key)) != len(key):
            raise self.reader.error("A column is there twice in GROUP BY; leave one away", s.group_token)
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
        self._check_grouped(score, key, s.order_token)
        if not _aggregates(score):
            raise self.reader.error("With GROUP BY, ORDER BY needs SUM, COUNT or MAX", s.order_token)
        return Grouped(self.streams[0], key, select, score, s.descending, k, window, where, having, None, None, s.options)

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
            raise self.reader.error(
                "With GROUP BY, write ORDER BY and LIMIT k, or a HAVING that compares SUM, COUNT or MAX with a constant",
                s.having_token,
            )
        score, op, bound = found
        return Grouped(
            self.streams[0], key, select, score, op[0] == ">", None, window, where, having, bound, op, s.options
        )

    def _check_grouped(self, e: Expression, key: tuple[str, ...], token: Token | None) -> None:
        """Outside SUM, COUNT and MAX only keys may stand; inside them no further ones."""
        if isinstance(e, Call) and e.name in nodes.AGGREGATES:
            if any(_aggregates(arg) for arg in e.args):
                raise self.reader.error("SUM, COUNT and MAX can't be nested", token)
            return
        if isinstance(e, Column) and e.name not in key:
            raise self._at(e, f"{e.name} is neither in GROUP BY nor inside SUM, COUNT or MAX")
        for part in nodes.children(e):
            self._check_grouped(part, key, token)


def _aggregates(e: Expression) -> bool:
    return any(isinstance(node, Call) and node.name in nodes.AGGREGATES for node in nodes.walk(e))
