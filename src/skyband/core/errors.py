"""What can go wrong, and how it is said.

Every error that a user can cause is a SkybandError, and its text is one sentence: what is wrong, where, and
what to do about it. A QueryError is about what was asked (SQL, an expression, a builder, a plan), an
InputError about what was given (rows, options, files). Both are ValueErrors too, so that a program which
knows nothing of skyband can still catch them by the name it expects. A JournalError is about the disk below a
journal: nothing is wrong with the question or the rows. Anything else that escapes is our bug.
"""

from __future__ import annotations


class SkybandError(Exception):
    """The base of all errors that skyband raises on purpose; its text is one sentence."""


class QueryError(SkybandError, ValueError):
    """The question is wrong. Where it came from text, `place` is (line, column), both counted from 1."""

    def __init__(self, message: str, place: tuple[int, int] | None = None, source: str | None = None) -> None:
        super().__init__(message)
        self.place = place
        self.source = source

    def __reduce__(self) -> tuple[type[QueryError], tuple[object, ...]]:
        # Exceptions pickle by their args alone; a Spark worker's error should keep its place.
        return type(self), (str(self), self.place, self.source)

    def caret(self) -> str | None:
        """The line of the text that is wrong with a caret under the place, for terminals; None without one."""
        if self.place is None or self.source is None:
            return None
        line, column = self.place
        lines = self.source.split("\n")
        if not 1 <= line <= len(lines):
            return None
        shown = lines[line - 1].replace("\t", " ")
        return f"{shown}\n{' ' * (column - 1)}^"


class InputError(SkybandError, ValueError):
    """What was given is wrong: a batch, an option, a file, a pipeline."""


class StrictError(InputError):
    """A batch that strict refuses: it lacks a column, has a new one, or has a row that would be rejected."""


class JournalError(SkybandError):
    """The journal's folder can't be opened or written; the state is what it was before."""


class DiskFull(JournalError):
    """There is no room for the step: make some, and ask again."""
