"""What may be asked: a query's size against the limits, before the engine sees it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from skyband.algorithms import CARDS
from skyband.core.errors import InputError
from skyband.engine.explain import Plan
from skyband.engine.planner import Choice
from skyband.query.expression.nodes import walk
from skyband.query.model import Query, Rows, Window, window
from skyband.query.sql.parser import parse
from skyband.server.problems import limit
from skyband.server.settings import Settings

LONGEST_NAME = 200


def read_query(sql: str, settings: Settings) -> Query:
    """Return the query of a text, if it is of a size that is allowed."""
    if len(sql) > settings.max_sql:
        raise limit("The length of the query", f"{len(sql):,} characters", "--max-sql", settings.max_sql)
    try:
        query = parse(sql)
    except RecursionError:
        raise InputError("The query is nested too deeply: write it with fewer brackets.") from None
    terms = sum(1 for part in _parts(query) for _ in walk(part))
    if terms > settings.max_terms:
        raise limit("The size of the query", f"{terms:,} terms", "--max-terms", settings.max_terms)
    check_k(getattr(query, "k", None), settings)
    check_window(query.window, settings)
    return query


def _parts(query: Query) -> list[Any]:
    parts = [query.score, query.where, getattr(query, "having", None)]
    parts += [output.value for output in query.select or ()]
    return [part for part in parts if part is not None]


def check_k(k: int | None, settings: Settings) -> None:
    if k is not None and k > settings.max_k:
        raise limit("k", f"{k:,}", "--max-k", settings.max_k)


def check_window(wanted: Window, settings: Settings) -> None:
    if isinstance(wanted, Rows):
        if wanted.n > settings.max_window_rows:
            raise limit("The window", f"{wanted.n:,} rows", "--max-window-rows", settings.max_window_rows)
    elif wanted.seconds > settings.max_window_seconds:
        raise limit(
            "The window",
            f"{wanted.seconds:,.0f} seconds",
            "--max-window-seconds",
            settings.max_window_seconds,
        )


def check_k_and_window(k: int | None, wanted: str | None, settings: Settings) -> None:
    check_k(k, settings)
    if wanted is not None:
        check_window(window(wanted), settings)


def check_name(name: str, what: str = "query") -> None:
    """Whether something of this name can be found again at its address."""
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise InputError(f"A {what}'s name must be a text of 1 to {LONGEST_NAME} printable characters.")
    if name in (".", ".."):
        raise InputError(
            f"A {what} can't be named {name}, which means a folder in addresses: choose another name."
        )


def other_plan(plan: Plan, choice: Choice) -> Plan:
    """Return the plan with another algorithm, of which nothing has been kept yet."""
    card = CARDS[choice.algorithm]
    return replace(
        plan,
        algorithm=card.name,
        title=card.title,
        source=card.source,
        why=choice.why,
        exact=card.exact,
        alternatives=choice.alternatives,
    )
