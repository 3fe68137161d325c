"""Parse text to an expression tree.

sqlglot's tokenizer reads the text: it knows SQL's quoting, comments and keywords. A small precedence parser in this
module reads the expressions, and not the parser of sqlglot, for four reasons. `^` must be power, bind tighter than a
minus sign and be right-associative; in sqlglot's grammars it is bitwise xor or left-associative. Every token here has
its place, so that an error can name it. A column may have a name that is a keyword elsewhere (`date`, `rows`,
`window`). The depth is bounded, so that ten thousand brackets give an error and no stack overflow. For SQL that the
grammar does not have, an error says what to write instead. This module evaluates nothing.

From weakest to strongest: OR; AND; NOT; comparison, BETWEEN, IN; + -; * /; the minus sign; ^.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, Tokenizer, TokenType

from skyband.core.errors import QueryError
from skyband.query.expression import nodes
from skyband.query.expression.nodes import Expression
from skyband.query.suggestions import CLAUSE_WORDS, RESERVED, located, nearest

COMPARISONS = {
    TokenType.LT: "<",
    TokenType.LTE: "<=",
    TokenType.GT: ">",
    TokenType.GTE: ">=",
    TokenType.EQ: "=",
    TokenType.NEQ: "<>",
}
SUMS = {TokenType.PLUS: "+", TokenType.DASH: "-"}
PRODUCTS = {TokenType.STAR: "*", TokenType.SLASH: "/"}

INSTEAD = {
    "log": "write ln(x) for the natural logarithm",
    "log10": "write ln(x) / ln(10)",
    "log2": "write ln(x) / ln(2)",
    "min": "write least(x, y) for the smaller of several values",
    "avg": "write SUM(x) / COUNT(x) with GROUP BY",
    "mean": "write SUM(x) / COUNT(x) with GROUP BY",
    "round": "remove it, since scores are compared without rounding",
    "now": "write WINDOW 5 MINUTES at the end for the rows of the last five minutes",
    "current_timestamp": "write WINDOW 5 MINUTES at the end for the rows of the last five minutes",
    "power": "write pow(x, y) or x ^ y",
    "square": "write x ^ 2",
    "hypot": "write dist(x, y, 0, 0)",
    "distance": "write dist(x1, x2, p1, p2)",
    "coalesce": "remove it, since a row with a null in a used column does not count in the query",
    "if": "write a WHERE, or two queries",
    "row_number": "remove it, since ORDER BY and LIMIT rank the rows",
    "rank": "remove it, since ORDER BY and LIMIT rank the rows",
}

OR, AND, NOT, COMPARE, SUM, PRODUCT, POWER = range(1, 8)

MAX_NESTING = 100
"""The greatest depth of brackets; each takes a few frames of Python's stack."""

_LONGEST_NUMBER = 1000  # characters; Python itself refuses to read integers of more than 4300 digits


class _Tokenizer(Tokenizer):
    """Names may be in double quotes as in standard SQL, or in backticks as in Spark and MySQL."""

    IDENTIFIERS = ['"', "`"]


class Reader:
    """A cursor over the tokens of one text. `what` is the word for the text in errors."""

    def __init__(self, text: str, what: str = "query") -> None:
        if not isinstance(text, str):
            raise QueryError(f"A {what} is a string, not {type(text).__name__}.")
        self.text = text
        self.what = what
        self._check_characters()
        try:
            # The bracket keeps sqlglot from taking a first word such as `show` for a command.
            self.tokens: list[Token] = _Tokenizer().tokenize("(" + text)[1:]
        except SqlglotError:
            raise self._unfinished() from None
        self.at = 0
        self.nesting = 0
        self.aggregates = False  # whether SUM, COUNT and MAX may be called

    def _check_characters(self) -> None:
        """Refuse half a character (a surrogate, which a terminal with another encoding may send)."""
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            before = self.text[: error.start]
            place = (before.count("\n") + 1, error.start - (before.rfind("\n") + 1) + 1)
            raise QueryError(
                located("A character is not Unicode; write the text in UTF-8", place), place
            ) from None

    # -- the cursor

    @property
    def token(self) -> Token | None:
        return self.tokens[self.at] if self.at < len(self.tokens) else None

    def ended(self) -> bool:
        return self.at >= len(self.tokens)

    def ahead(self, offset: int) -> TokenType | None:
        index = self.at + offset
        return self.tokens[index].token_type if index < len(self.tokens) else None

    def sees(self, *kinds: TokenType) -> bool:
        return self.at < len(self.tokens) and self.tokens[self.at].token_type in kinds

    def take(self, *kinds: TokenType) -> Token | None:
        if self.sees(*kinds):
            self.at += 1
            return self.tokens[self.at - 1]
        return None

    def expect(self, kind: TokenType, expected: str) -> Token:
        token = self.take(kind)
        if token is None:
            raise self.expected(expected)
        return token

    def word(self) -> str | None:
        """Return the next token's text in lower case if it is a word, else None."""
        token = self.token
        if token is None or token.token_type in (TokenType.STRING, TokenType.NUMBER, TokenType.IDENTIFIER):
            return None
        return token.text.lower()

    # -- errors

    def place(self, token: Token | None) -> nodes.Place:
        start = token.start - 1 if token is not None else len(self.text.rstrip())
        before = self.text[:start]
        return before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1

    def error(self, message: str, token: Token | None = None) -> QueryError:
        place = self.place(token)
        return QueryError(located(message, place), place, self.text)

    def found(self, token: Token | None) -> str:
        if token is None:
            return f"the {self.what} ends"
        text = " ".join(self.text[token.start - 1 : token.end].split())
        return f"found {text if len(text) <= 40 else text[:39] + '…'}"

    def expected(self, expected: str, advice: str = "") -> QueryError:
        """Return the usual error: something else was expected at the cursor."""
        place = self.place(self.token)
        wrong = f"Expected {expected}, but {self.found(self.token)}".replace(";", "\0")
        message = located(f"{wrong}; {advice}" if advice else wrong, place).replace("\0", ";")
        return QueryError(message, place, self.text)

    def _unfinished(self) -> QueryError:
        """Return the error for a quote or comment without an end; the tokenizer does not report where it begins."""
        quote, start, i = "", 0, 0
        text = self.text
        while i < len(text):
            here = text[i]
            if quote == "*/":
                if text.startswith("*/", i):
                    quote, i = "", i + 1
            elif quote == "\n":
                quote = "" if here == "\n" else quote
            elif quote:
                quote = "" if here == quote else quote
            elif here in "'\"`":
                quote, start = here, i
            elif text.startswith("/*", i):
                quote, start, i = "*/", i, i + 1
            elif text.startswith("--", i):
                quote = "\n"
            i += 1
        before = text[:start]
        place = (before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
        what = {"'": "string", "*/": "comment"}.get(quote, "quoted name")
        return QueryError(
            located(
                f"A {what} that begins here has no end; close it with {quote.strip() or 'a quote'}", place
            ),
            place,
            text,
        )

    # -- expressions

    def expression(self, strength: int = OR) -> Expression:
        """Read operators that bind at least as tightly as `strength`."""
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            raise self.error(
                f"The expression is nested more than {MAX_NESTING} deep; simplify it", self.token
            )
        left = self._operand()
        while True:
            wider = self._infix(left, strength)
            if wider is None:
                break
            left = wider
        self.nesting -= 1
        return left

    def _infix(self, left: Expression, strength: int) -> Expression | None:
        """Read one operator after `left` with its right side; return None where the expression ends."""
        token = self.token
        if token is None:
            return None
        kind = token.token_type
        if kind == TokenType.OR and strength <= OR:
            self.at += 1
            return nodes.any_of([left, self.expression(AND)])
        if kind == TokenType.AND and strength <= AND:
            self.at += 1
            return nodes.all_of([left, self.expression(NOT)])
        if kind in COMPARISONS and strength <= COMPARE:
            return self._comparison(left, token)
        if kind in (TokenType.BETWEEN, TokenType.IN, TokenType.NOT, TokenType.IS) and strength <= COMPARE:
            return self._membership(left)
        if kind in SUMS and strength <= SUM:
            self.at += 1
            return nodes.Arithmetic(SUMS[kind], left, self.expression(PRODUCT))
        if kind in PRODUCTS and strength <= PRODUCT:
            self.at += 1
            if self.sees(TokenType.STAR, TokenType.SLASH):
                raise self.error(
                    f"{token.text * 2} is not an operator here; write ^ for power and / to divide", token
                )
            return nodes.Arithmetic(PRODUCTS[kind], left, self.expression(POWER))
        if kind == TokenType.CARET:
            self.at += 1
            return nodes.Arithmetic("^", left, self.expression(POWER))
        self._refuse_operator(token)
        return None

    def _comparison(self, left: Expression, token: Token) -> Expression:
        self.at += 1
        right = self.expression(SUM)
        if self.sees(*COMPARISONS):
            raise self.error("Comparisons can't be chained; write x < y AND y < z", self.token)
        return nodes.Compare(COMPARISONS[token.token_type], left, right, self.place(token))

    def _membership(self, left: Expression) -> Expression:
        """Read BETWEEN or IN, with or without NOT, as the comparisons that it stands for."""
        start = self.token
        if self.sees(TokenType.IS):
            raise self.error(
                "IS is not supported, since a row with a null in a used column does not count in the query; "
                "remove the test",
                start,
            )
        negated = self.take(TokenType.NOT) is not None
        token = self.token
        place = self.place(token)
        result: Expression | None
        if self.take(TokenType.BETWEEN):
            low = self.expression(SUM)
            self.expect(TokenType.AND, "AND and the upper end of BETWEEN")
            high = self.expression(SUM)
            result = nodes.all_of(
                [nodes.Compare(">=", left, low, place), nodes.Compare("<=", left, high, place)]
            )
        elif self.take(TokenType.IN):
            self.expect(TokenType.L_PAREN, "a list in brackets after IN, such as IN (1, 2, 3)")
            if self.sees(TokenType.SELECT):
                raise self.error(
                    "Subqueries are not supported; write a list such as IN (1, 2, 3)", self.token
                )
            items = self._list()
            result = nodes.any_of([nodes.Compare("=", left, item, place) for item in items])
        else:
            self._refuse_operator(token)
            raise self.expected("BETWEEN or IN after NOT")
        assert result is not None
        return nodes.Not(result) if negated else result

    def _refuse_operator(self, token: Token | None) -> None:
        """Raise an error for an operator that SQL has and the grammar does not have."""
        if token is None:
            return
        word = token.text.lower()
        if token.token_type in (TokenType.LIKE, TokenType.ILIKE, TokenType.RLIKE, TokenType.SIMILAR_TO):
            raise self.error(f"{token.text.upper()} is not supported; compare with = or with IN (…)", token)
        if token.token_type == TokenType.MOD:
            raise self.error("The remainder % is not supported; use + - * / and ^", token)
        if token.token_type == TokenType.DPIPE:
            raise self.error("Strings can't be joined with ||; compare the columns one by one", token)
        if token.token_type == TokenType.DCOLON:
            raise self.error("Casts with :: are not supported; name the column without a cast", token)
        if word in ("&", "|", "~", "<=>", "->", "=>"):
            raise self.error(
                f"{token.text} is not an operator here; use + - * / ^, comparisons, AND, OR, NOT", token
            )

    def _operand(self) -> Expression:
        token = self.token
        if token is None:
            raise self.expected("an expression")
        if self.take(TokenType.DASH):
            return nodes.negate(self.expression(POWER))
        if self.take(TokenType.PLUS):
            return self.expression(POWER)
        if self.take(TokenType.NOT):
            return nodes.Not(self.expression(COMPARE))
        if self.take(TokenType.L_PAREN):
            if self.sees(TokenType.SELECT):
                raise self.error("Subqueries are not supported; write one SELECT over a stream", self.token)
            inner = self.expression()
            self.expect(TokenType.R_PAREN, "a closing bracket )")
            return inner
        if self.sees(TokenType.NUMBER) or (self.sees(TokenType.DOT) and self.ahead(1) == TokenType.NUMBER):
            return self.number()
        if self.take(TokenType.STRING):
            return nodes.Text(token.text, self.place(token))
        if self.take(TokenType.TRUE):
            return nodes.Truth(True)
        if self.take(TokenType.FALSE):
            return nodes.Truth(False)
        if self.sees(TokenType.DATE, TokenType.TIMESTAMP) and self.ahead(1) == TokenType.STRING:
            self.at += 1
            return self._operand()
        return self._named()

    def number(self) -> nodes.Number:
        """Read an unsigned number; keep its exact value."""
        first = self.token
        return nodes.Number(self._value(self.digits(), first))

    def digits(self, glued: bool = False) -> str:
        """Read an unsigned number as written; only where `glued` may a word follow without a space (5MINUTES)."""
        first = self.token
        dot = "." if self.take(TokenType.DOT) else ""
        text = dot + self.expect(TokenType.NUMBER, "a number").text
        end = self.tokens[self.at - 1].end
        follower = self.token
        touching = follower is not None and follower.start == end + 1 and follower.text[:1].isidentifier()
        if follower is not None and touching and (not glued or follower.text.startswith("_")):
            raise self.error(
                f"{text}{follower.text} is not a number; write digits, such as 100000 or 1e-3", first
            )
        return text

    def _value(self, text: str, token: Token | None) -> int | float | Decimal:
        if len(text) > _LONGEST_NUMBER:
            raise self.error(
                f"A number may have at most {_LONGEST_NUMBER} characters; write it as 1e300", token
            )
        if text.isdecimal():
            return int(text)
        try:
            value, exact = float(text), Decimal(text)
        except (ValueError, InvalidOperation):
            raise self.error(f"{text} is not a number; write digits such as 0.5 or 1e-3", token) from None
        # The shortest text of a float64 is 0.1 for 0.1, but 9007199254740992.5 has no float64.
        # Beyond the range of float64 a number is an infinity or 0.
        if Decimal(repr(value)) == exact or abs(exact.adjusted()) > 400:
            return value
        return exact

    def _named(self) -> Expression:
        """Read a column or a function call."""
        token = self.token
        assert token is not None
        word = self.word()
        if token.token_type == TokenType.STAR:
            raise self.error("* means all columns only directly after SELECT; name a column", token)
        if (
            word in ("case", "cast", "exists", "interval", "null", "array", "select")
            and self.ahead(1) != TokenType.DOT
        ):
            self._refuse_word(word, token)
        name = self.name("a column, a number or a function")
        if self.sees(TokenType.L_PAREN) and token.token_type != TokenType.IDENTIFIER:
            return self._call(name, token)
        if self.take(TokenType.DOT):
            column = self.name(f"a column's name after {name}.")
            if self.sees(TokenType.DOT):
                raise self.error("A column is named as x or s.x, with one dot at most", self.token)
            return nodes.Column(column, name, self.place(token))
        return nodes.Column(name, None, self.place(token))

    def _refuse_word(self, word: str | None, token: Token) -> None:
        message = {
            "case": "CASE is not supported; use WHERE, least, greatest or several queries",
            "cast": "CAST is not supported; name the column without a cast",
            "exists": "Subqueries are not supported; write one SELECT over a stream",
            "select": "Subqueries are not supported; write one SELECT over a stream",
            "interval": "INTERVAL is not supported; times in expressions are seconds, so write 300 for five minutes",
            "null": "NULL can't be compared; a row with a null in a used column does not count in the query",
            "array": "Arrays are not supported; name the columns one by one",
        }
        following = self.ahead(1)
        if word in ("interval", "array") and following not in (
            TokenType.STRING,
            TokenType.NUMBER,
            TokenType.L_BRACKET,
        ):
            return  # a column of that name
        assert word is not None
        raise self.error(message[word], token)

    def name(self, expected: str) -> str:
        """Read a name, quoted or not."""
        token = self.token
        if token is None:
            raise self.expected(expected)
        if token.token_type == TokenType.IDENTIFIER:
            self.at += 1
            return token.text
        text = token.text
        # Strings with a prefix, such as N'x', are tokens of other types whose text lacks the quotes.
        plain = text[:1].isidentifier() and self.text[token.start - 1 : token.end] == text
        if not plain or not text.replace("$", "_").replace("@", "_").isidentifier():
            raise self.expected(expected)
        if text.lower() in RESERVED:
            quoted = "" if text.lower() in CLAUSE_WORDS else f'write "{text}" in quotes if it is a name'
            raise self.expected(expected, quoted)
        self.at += 1
        return text

    def _list(self) -> list[Expression]:
        """Read the rest of a bracketed list with at least one term."""
        items = [self.expression()]
        while self.take(TokenType.COMMA):
            items.append(self.expression())
        self.expect(TokenType.R_PAREN, "a comma or a closing bracket )")
        return items

    def _call(self, name: str, token: Token) -> Expression:
        function = name.lower()
        place = self.place(token)
        self.expect(TokenType.L_PAREN, "an opening bracket (")
        known = (*nodes.FUNCTIONS, "pow", *(nodes.AGGREGATES if self.aggregates else ()))
        if function in nodes.AGGREGATES and not self.aggregates:
            advice = "write greatest(x, y) for the larger of several values" if function == "max" else ""
            raise self.error(
                f"{function.upper()} needs GROUP BY"
                + (f"; {advice}" if advice else "; add GROUP BY and a key"),
                token,
            )
        if function not in known:
            if self.aggregates and function == "min":
                advice = "write -MAX(-x)"
            elif function in INSTEAD:
                advice = INSTEAD[function]
            else:
                near = nearest(function, known)
                advice = f"did you mean {near}" if near else f"there are {', '.join(known)}"
            raise self.error(f"There is no function {name}; {advice}", token)
        if function == "count" and self.take(TokenType.STAR):
            self.expect(TokenType.R_PAREN, "a closing bracket )")
            args: tuple[Expression, ...] = ()
        elif self.take(TokenType.R_PAREN):
            args = ()
        else:
            if self.sees(TokenType.DISTINCT):
                raise self.error("DISTINCT is not supported inside a function; remove it", self.token)
            args = tuple(self._list())
        if self.word() == "over":
            raise self.error("OVER is not supported; write WINDOW 100000 ROWS at the end", self.token)
        self._arity(function, args, token)
        if function == "pow":
            return nodes.Arithmetic("^", args[0], args[1])
        return nodes.Call(function, args, place)

    def _arity(self, function: str, args: tuple[Expression, ...], token: Token) -> None:
        got = len(args)
        if function == "dist":
            if got < 2 or got % 2:
                raise self.error(
                    f"dist takes as many coordinates as columns, such as dist(x, y, 0.3, 0.4), but got {got} "
                    f"argument{'' if got == 1 else 's'}",
                    token,
                )
        elif function in ("least", "greatest"):
            if got < 1:
                raise self.error(f"{function} takes one argument or more; write {function}(x, y)", token)
        elif function == "count":
            if got > 1:
                raise self.error("COUNT takes * or one column; write COUNT(*)", token)
        elif got != (wanted := 2 if function == "pow" else 1):
            shown = function.upper() if function in nodes.AGGREGATES else function
            given = "pow(x, y)" if function == "pow" else f"{shown}(x)"
            raise self.error(
                f"{shown} takes {wanted} argument{'' if wanted == 1 else 's'}, but got {got}; write {given}",
                token,
            )

    def whole(self) -> Expression:
        """Read one expression and check its depth: a long chain of operators is deep even without brackets."""
        start = self.token
        try:
            e = self.expression()
        except RecursionError:  # the stack of the caller was deep
            raise self.error("The expression is nested too deep; simplify it", start) from None
        if nodes.depth(e) > nodes.MAX_DEPTH:
            raise self.error(
                f"The expression has more than {nodes.MAX_DEPTH} operators in a row; simplify it", start
            )
        return e


def parse_expression(text: str, aggregates: bool = False) -> Expression:
    """Parse one expression; SUM, COUNT and MAX are allowed only with `aggregates`."""
    reader = Reader(text, "expression")
    reader.aggregates = aggregates
    e = reader.whole()
    if reader.token is not None:
        raise reader.expected("an operator or the end of the expression")
    return e
