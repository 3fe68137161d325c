"""Read a statement clause by clause.

The Reader of expressions also reads statements: SELECT, FROM, WHERE, GROUP BY, HAVING, ORDER BY, LIMIT, and then the
two clauses that are not in standard SQL, WINDOW and WITH. sqlglot makes the tokens. Its parser is not used: it does
not know the two clauses, reads `^` differently, and its errors name other places. The name of a clause has a meaning
only where a clause can begin, so a column may be called `window`, and a quoted text may contain any of these words.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from sqlglot.tokens import Token, TokenType

from skyband.core.errors import QueryError
from skyband.query.expression.grammar import Reader
from skyband.query.expression.nodes import Column, Expression
from skyband.query.model import MOST_RANKS, Options, Rows, Window
from skyband.query.options import check_option
from skyband.query.suggestions import RESERVED, nearest
from skyband.query.window import EXAMPLES, measure

CLAUSES = ("FROM", "WHERE", "GROUP BY", "HAVING", "ORDER BY", "LIMIT", "WINDOW", "WITH")
SHAPE = "SELECT … FROM s [WHERE …] ORDER BY … LIMIT k WINDOW 100000 ROWS"


@dataclass
class Item:
    """One term of the SELECT list; the value None means all columns."""

    value: Expression | None
    alias: str | None
    token: Token


@dataclass
class Source:
    """A stream in FROM, with its alias."""

    stream: str
    alias: str | None
    token: Token


@dataclass
class Statement:
    """The clauses as read; `parser` decides what they mean."""

    items: list[Item] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    using: str | None = None
    using_token: Token | None = None
    where: Expression | None = None
    where_token: Token | None = None
    group: list[Column] | None = None
    group_token: Token | None = None
    having: Expression | None = None
    having_token: Token | None = None
    order: Expression | None = None
    order_token: Token | None = None
    descending: bool = False
    then: Column | None = None  # the second column of ORDER BY, newest first
    then_token: Token | None = None
    k: int | None = None
    limit_token: Token | None = None
    window: Window | None = None
    options: Options = ()


def read(reader: Reader) -> Statement:
    """Read all clauses of a statement."""
    statement = Statement()
    if not reader.tokens:
        raise QueryError(f"The query is empty; write {SHAPE}.")
    if reader.sees(TokenType.WITH):
        raise reader.error(
            "WITH before SELECT is not supported; write one SELECT over a stream", reader.token
        )
    if not reader.take(TokenType.SELECT):
        first = reader.tokens[0].text
        raise reader.expected(
            "SELECT at the beginning", "did you mean SELECT" if nearest(first, ["SELECT"]) else ""
        )
    # GROUP BY decides whether SUM, COUNT and MAX may be called, and it comes later.
    reader.aggregates = any(token.token_type == TokenType.GROUP_BY for token in reader.tokens)
    _select(reader, statement)
    seen: list[str] = []
    while not reader.ended():
        if reader.take(TokenType.SEMICOLON):
            if not reader.ended():
                raise reader.error("A text has one query; remove what follows the semicolon", reader.token)
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
        raise reader.error(f"The query has {name} twice; remove one", token)
    # WINDOW and WITH may be in either order; the others have SQL's order.
    later = [other for other in seen if CLAUSES.index(other) > CLAUSES.index(name)]
    if later and name != "WINDOW":
        raise reader.error(f"{name} must come before {later[0]}", token)
    seen.append(name)
    reader.at += 1
    READ[name](reader, statement)


def _refuse_clause(reader: Reader, token: Token, seen: list[str]) -> None:
    word = token.text.upper()
    advice = {
        "OFFSET": "OFFSET is not supported; LIMIT k gives the first k ranks",
        "FETCH": "FETCH is not supported; write LIMIT k",
        "QUALIFY": "QUALIFY is not supported; use WHERE, or HAVING with GROUP BY",
        "UNION": "UNION is not supported; write two queries",
        "INTERSECT": "INTERSECT is not supported; write two queries",
        "EXCEPT": "EXCEPT is not supported; write two queries",
        ",": "A comma is not expected here; ORDER BY takes one expression, and FROM two streams at most",
    }
    if word in advice and token.token_type != TokenType.IDENTIFIER:
        raise reader.error(advice[word], token)
    if word == ")":
        raise reader.error("A closing bracket ) has no opening one; remove it", token)
    left = [name for name in CLAUSES if not seen or CLAUSES.index(name) > CLAUSES.index(seen[-1])]
    operators = ["an operator"] if not seen or seen[-1] in ("WHERE", "HAVING", "ORDER BY") else []
    choices = [*operators, *left, *(["the end of the query"] if "WINDOW" in seen else [])]
    near = _meant(reader, left)
    raise reader.expected(
        f"{', '.join(choices[:-1])} or {choices[-1]}" if len(choices) > 1 else choices[0],
        f"did you mean {near}" if near else "",
    )


def _meant(reader: Reader, clauses: list[str]) -> str | None:
    """Return the clause that a misspelt word may mean; the word before it may have been read as a name (ODER BY)."""
    here = reader.tokens[reader.at]
    before = reader.tokens[reader.at - 1]
    tries = [here.text, f"{before.text} {here.text}", before.text]
    return next((near for text in tries if (near := nearest(text, clauses, 0.75)) is not None), None)


# -- the clauses


def _select(reader: Reader, statement: Statement) -> None:
    if reader.sees(TokenType.DISTINCT):
        raise reader.error(
            "DISTINCT is not supported, since an answer never has a row twice; remove it",
            reader.token,
        )
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
                "The only join is FULL JOIN s USING (id); for pairs of one stream write FROM s a, s b", token
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
        raise reader.error(
            "A stream's name has no dots and brackets; put it into double quotes if it has", reader.token
        )
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
        raise reader.error(
            "Streams are joined over a column that all of them have; write USING (id) instead of ON",
            reader.token,
        )
    reader.expect(TokenType.USING, "USING and the key in brackets, such as USING (id)")
    reader.expect(TokenType.L_PAREN, "the key in brackets, such as USING (id)")
    token = reader.token
    key = reader.name("the key's name")
    if reader.sees(TokenType.COMMA):
        raise reader.error("Streams are joined over one key; remove the others", reader.token)
    reader.expect(TokenType.R_PAREN, "a closing bracket ) after the key")
    if statement.using is not None and statement.using != key:
        raise reader.error(
            f"All streams are joined over one key; write USING ({statement.using}) again", token
        )
    statement.using, statement.using_token = key, token


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
            raise reader.error("GROUP BY takes columns, not expressions; name the columns", token)
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
        raise reader.error(
            "NULLS FIRST and NULLS LAST are not supported; rows with a null are kept out", reader.token
        )
    if reader.sees(TokenType.COMMA):
        _then_by(reader, statement)


ONE_EXPRESSION = (
    "ORDER BY takes one expression, since recency decides between equal scores; remove the others"
)


def _then_by(reader: Reader, statement: Statement) -> None:
    """Read a second column of ORDER BY, which is allowed to say that the newer row is first."""
    comma = statement.then_token = reader.take(TokenType.COMMA)
    column = reader.whole()
    if not isinstance(column, Column) or not reader.take(TokenType.DESC) or reader.sees(TokenType.COMMA):
        raise reader.error(ONE_EXPRESSION, comma)
    statement.then = column


def _limit(reader: Reader, statement: Statement) -> None:
    token = statement.limit_token = reader.token
    if reader.take(TokenType.NUMBER):
        assert token is not None
        if token.text.isdecimal() and len(token.text) < 20 and 0 < int(token.text) <= MOST_RANKS:
            statement.k = int(token.text)
            return
        reader.at -= 1
    raise reader.expected(f"a whole number from 1 to {MOST_RANKS} after LIMIT")


def _window(reader: Reader, statement: Statement) -> None:
    bracket = reader.take(TokenType.L_BRACKET)
    first = reader.token
    interval = reader.word() == "interval"
    if interval:
        reader.at += 1
    quoted = reader.take(TokenType.STRING) if interval else None
    if quoted is None and not reader.sees(TokenType.NUMBER, TokenType.DOT):
        raise reader.expected(f"a number after {'INTERVAL' if interval else 'WINDOW'}, {EXAMPLES}")
    number = quoted.text.strip() if quoted is not None else reader.digits(glued=True)
    word = reader.word()
    if word is None or not word.isidentifier():
        raise reader.expected(f"a unit after {number}, {EXAMPLES}")
    unit = reader.tokens[reader.at]
    result = measure(number, unit.text)
    if isinstance(result, str):
        raise reader.error(result, unit if "not a unit" in result else first)
    if interval and isinstance(result, Rows):
        raise reader.error("An INTERVAL is a time; write a window such as 100000 ROWS without it", first)
    reader.at += 1
    if bracket is not None:
        reader.expect(TokenType.R_BRACKET, "a closing bracket ]")
    statement.window = result


def _with(reader: Reader, statement: Statement) -> None:
    reader.expect(TokenType.L_PAREN, "options in brackets after WITH, such as WITH (algorithm = 'sa')")
    options: dict[str, str | int | float] = {}
    while True:
        token = reader.token
        name = _option_name(reader)
        if not reader.take(TokenType.EQ):
            raise reader.expected(f"= and a value after {name}")
        if name in options:
            raise reader.error(f"The option {name} is given twice; remove one", token)
        value = _option_value(reader, name)
        wrong = check_option(name, value)
        if wrong is not None:
            raise reader.error(wrong, token)
        options[name] = value.lower() if isinstance(value, str) else value
        if not reader.take(TokenType.COMMA):
            break
    reader.expect(TokenType.R_PAREN, "a comma or a closing bracket )")
    statement.options = tuple(sorted(options.items()))


def _option_name(reader: Reader) -> str:
    word = reader.word()
    if word is not None and word.isidentifier():  # any word, since `limit` is an option too
        reader.at += 1
        return word
    return reader.name("an option's name").lower()


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
