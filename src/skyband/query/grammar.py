"""From text to an expression tree.

sqlglot's tokenizer reads the text: it knows SQL's quoting, comments and keywords. The expressions themselves
are read by the small precedence parser here and not by sqlglot's own, for four reasons: `^` must be power,
tighter than a minus sign and from right to left, where sqlglot's grammars have it as bitwise xor or from left
to right; every token here knows its place, so that an error can name it; a column may have a name that is a
keyword elsewhere (`date`, `rows`, `window`); and the depth is bounded, so that ten thousand brackets are an
error and not a stack overflow. What SQL has beyond our grammar is refused with a sentence that says what to
write instead. Nothing here evaluates anything.

From weakest to strongest: OR; AND; NOT; comparison, BETWEEN, IN; + -; * /; the minus sign; ^.
"""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from sqlglot.errors import SqlglotError
from sqlglot.tokens import Token, Tokenizer, TokenType

from skyband.errors import QueryError
from skyband.query import nodes
from skyband.query.nodes import Expression
from skyband.query.words import nearest

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

# Words that end an expression or belong to another clause; as a column's name they need double quotes.
RESERVED = {
    "select", "from", "where", "group by", "having", "order by", "limit", "offset", "with", "and", "or", "not",
    "in", "between", "is", "like", "ilike", "rlike", "asc", "desc", "as", "case", "when", "then", "else", "union",
    "intersect", "except", "join", "using", "on", "exists", "fetch", "distinct", "null", "true", "false", "over",
    "cast", "qualify", "cross", "inner",
}  # fmt: skip

INSTEAD = {
    "log": "write ln(x) for the natural logarithm",
    "log10": "write ln(x) / ln(10)",
    "log2": "write ln(x) / ln(2)",
    "min": "write least(x, y) for the smaller of several values",
    "avg": "write SUM(x) or COUNT(*) with GROUP BY",
    "mean": "write SUM(x) or COUNT(*) with GROUP BY",
    "round": "scores are compared as they are",
    "power": "write pow(x, y) or x ^ y",
    "square": "write x ^ 2",
    "hypot": "write dist(x, y, 0, 0)",
    "distance": "write dist(x1, x2, p1, p2)",
    "coalesce": "a row with a null in a used column is kept out of the query anyway",
    "if": "write a WHERE, or two queries",
    "row_number": "ORDER BY and LIMIT rank the rows already",
    "rank": "ORDER BY and LIMIT rank the rows already",
}

OR, AND, NOT, COMPARE, SUM, PRODUCT, POWER = range(1, 8)

_LONGEST_NUMBER = 1000  # characters; Python itself refuses to read integers of more than 4300 digits


class Reader:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str, what: str = "query") -> None:
        if not isinstance(text, str):
            raise QueryError(f"A {what} is a string, not {type(text).__name__}.")
        self.text = text
        self.what = what
        try:
            # The bracket keeps sqlglot from taking a first word such as `show` for a command.
            self.tokens: list[Token] = Tokenizer().tokenize("(" + text)[1:]
        except SqlglotError:
            raise self._unfinished() from None
        self.at = 0
        self.nesting = 0
        self.aggregates = False  # whether SUM, COUNT and MAX may be called

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
        """The next token's text in lower case, if it is a word."""
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
        return QueryError(f"{message} (line {place[0]}, column {place[1]}).", place, self.text)

    def found(self, token: Token | None) -> str:
        if token is None:
            return f"the {self.what} ends"
        return f"found {self.text[token.start - 1 : token.end]}"

    def expected(self, expected: str, advice: str = "") -> QueryError:
        """The usual error: something else was expected at the cursor."""
        tail = f"; {advice}" if advice else ""
        return self.error(f"Expected {expected}, but {self.found(self.token)}{tail}", self.token)

    def _unfinished(self) -> QueryError:
        """Find the quote or comment that never ends, since the tokenizer does not say where it began."""
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
            elif here in "'\"":
                quote, start = here, i
            elif text.startswith("/*", i):
                quote, start, i = "*/", i, i + 1
            elif text.startswith("--", i):
                quote = "\n"
            i += 1
        before = text[:start]
        place = (before.count("\n") + 1, start - (before.rfind("\n") + 1) + 1)
        what = {"'": "string", '"': "quoted name", "*/": "comment"}.get(quote, "text")
        close = quote if quote in ("'", '"', "*/") else "a closing quote"
        return QueryError(
            f"A {what} begins here and never ends; close it with {close} (line {place[0]}, column {place[1]}).",
            place,
            text,
        )

    # -- expressions

    def expression(self, strength: int = OR) -> Expression:
        """Read operators that bind at least as tightly as `strength`."""
        self.nesting += 1
        if self.nesting > nodes.MAX_DEPTH:
            raise self.error(
                f"The expression is nested more than {nodes.MAX_DEPTH} deep; simplify it", self.token
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
        """One operator after `left` with its right side, or None where the expression ends."""
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
        """BETWEEN and IN, with or without NOT, as the comparisons that they stand for."""
        start = self.token
        if self.sees(TokenType.IS):
            raise self.error(
                "IS is not supported, since a row with a null in a used column is kept out of the query anyway; "
                "leave the test away",
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
        """Say what to do about operators that SQL has and the grammar has not."""
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
            raise self.error(
                "Casts with :: are not supported; columns are used with the type that they have", token
            )
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
                raise self.error("Subqueries are not supported; ask for one SELECT over a stream", self.token)
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
        dot = "." if self.take(TokenType.DOT) else ""
        token = self.expect(TokenType.NUMBER, "a number")
        follower = self.token
        if (
            follower is not None
            and follower.start == token.end + 1
            and self.text[follower.start - 1].isidentifier()
        ):
            raise self.error(
                f"{dot}{token.text}{follower.text} is not a number; write digits such as 100000, 0.5 or 1e-3",
                first,
            )
        return nodes.Number(self._value(dot + token.text, first))

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
        # A float says 0.1 well enough, but not 9007199254740992.5; beyond float64's range it is an infinity or 0.
        if Decimal(repr(value)) == exact or abs(exact.adjusted()) > 400:
            return value
        return exact

    def _named(self) -> Expression:
        """A column or a function call."""
        token = self.token
        assert token is not None
        word = self.word()
        if token.token_type == TokenType.STAR:
            raise self.error("* stands for all columns only alone after SELECT; name a column", token)
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
            "cast": "CAST is not supported; columns are used with the type that they have",
            "exists": "Subqueries are not supported; ask for one SELECT over a stream",
            "select": "Subqueries are not supported; ask for one SELECT over a stream",
            "interval": "INTERVAL is not supported; times in expressions are seconds, so write 300 for five minutes",
            "null": "NULL can't be compared; a row with a null in a used column is kept out of the query anyway",
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
        plain = text[:1].isidentifier() and token.token_type not in (TokenType.STRING, TokenType.NUMBER)
        if not plain or not text.replace("$", "_").replace("@", "_").isidentifier():
            raise self.expected(expected)
        if text.lower() in RESERVED:
            raise self.expected(expected, f'a column that is called so is written "{text}"')
        self.at += 1
        return text

    def _list(self) -> list[Expression]:
        """The rest of a bracketed list with at least one term."""
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
                advice = f"did you mean {near}?" if near else f"there are {', '.join(known)}"
            raise self.error(f"There is no function {name}; {advice.rstrip('?')}", token)
        if function == "count" and self.take(TokenType.STAR):
            self.expect(TokenType.R_PAREN, "a closing bracket )")
            args: tuple[Expression, ...] = ()
        elif self.take(TokenType.R_PAREN):
            args = ()
        else:
            if self.sees(TokenType.DISTINCT):
                raise self.error("DISTINCT is not supported inside a function; leave it away", self.token)
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
                raise self.error(f"{function} takes one argument or more", token)
        elif function == "count":
            if got > 1:
                raise self.error("COUNT takes * or one column", token)
        elif got != (wanted := 2 if function == "pow" else 1):
            shown = function.upper() if function in nodes.AGGREGATES else function
            raise self.error(
                f"{shown} takes {wanted} argument{'' if wanted == 1 else 's'}, but got {got}", token
            )

    def whole(self) -> Expression:
        """One expression, checked for its depth: a long chain of operators is deep though it has no brackets."""
        start = self.token
        e = self.expression()
        if nodes.depth(e) > nodes.MAX_DEPTH:
            raise self.error(f"The expression is nested more than {nodes.MAX_DEPTH} deep; simplify it", start)
        return e


def parse_expression(text: str, aggregates: bool = False) -> Expression:
    """Read one expression, with the grammar of the SQL."""
    reader = Reader(text, "expression")
    reader.aggregates = aggregates
    e = reader.whole()
    if reader.token is not None:
        raise reader.expected("an operator or the end of the expression")
    return e
