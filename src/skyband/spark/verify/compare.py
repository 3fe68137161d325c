"""`skyband verify`: is what a pipeline put out what it should have been?

The input is read again in its order of arrival, batch by batch (`again`), and every query is answered by brute force.
After each batch that answer is compared with the changes folded so far, and the batch's changes with what they must be
(`due`); after the last, the answer with `top` too; and the rows that don't fit by themselves (type, time, key,
operation), with `rejects`. Nothing else may be there. Only Kafka's records need Spark.

A query that allows an error (`WITH (error = …)`, or an algorithm that isn't exact) may miss a row now and then: what it
missed is counted and reported, and is no difference. Its `top` must still be what its changes add up to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from skyband.algorithms import CARDS
from skyband.core.errors import InputError
from skyband.query.model import Query
from skyband.spark.config import Pipeline, load_pipeline, sources_of
from skyband.spark.driver.checkpoint import Checkpoint, Queries
from skyband.spark.driver.engine import bound, compare_queries, new_monitor
from skyband.spark.session.start import reach
from skyband.spark.sinks import json_text

from .again import Again
from .brute import Brute, Ranked
from .due import (
    Who,
    due,
    name_of,
    number,
    who_of,
    wrong_form,
    wrong_rows,
)
from .outputs import Output, Rows, output_of


@dataclass(frozen=True)
class Report:
    """What was compared, and the first difference (None if there is none)."""

    batches: int
    rows: int
    answers: int
    places: int  # ranks of all answers compared
    rejects: int
    loose: int = 0  # of these, answers to queries that allow an error
    wrong: int = 0  # of those, answers with another row than the right one
    missed: int = 0  # rows that belonged into such an answer once and weren't there
    difference: str | None = None

    @property
    def ok(self) -> bool:
        return self.difference is None

    def __str__(self) -> str:
        done = (
            f"{self.rows:,} rows in {self.batches:,} batches: {self.answers:,} answers with {self.places:,} places "
            f"and {self.rejects:,} rejects compared"
        )
        if not self.ok:
            return f"{done}; then a difference: {self.difference}"
        if not self.loose:
            return f"{done}, all equal."
        return (
            f"{done}, all equal but {self.wrong:,} of the {self.loose:,} answers to queries that allow an error, "
            f"which missed {self.missed:,} rows."
        )


_JUDGED = (
    "type",
    "time",
    "key",
    "op",
    "ahead",
    "overtaken",
)  # reasons that rows themselves give; lateness depends on the cut into steps


class _Different(Exception):
    """The first difference."""


def verify_pipeline(path: str | Path) -> Report:
    """Compare a pipeline's output with the brute force."""
    pipeline = load_pipeline(path)
    reach(pipeline)
    output = output_of(pipeline)
    checkpoint = Checkpoint(pipeline.spark.checkpoint.resolve(), sources_of(pipeline))
    if checkpoint.folder.exists() and not checkpoint.folder.is_dir():
        raise InputError(
            f"The checkpoint {checkpoint.folder} is a file and no folder: name the right one in [spark]."
        )
    schemas = checkpoint.schemas(pipeline.streams)
    batches = checkpoint.batches()
    if schemas is None or not batches:
        raise InputError(
            f"The pipeline has not run yet (checkpoint {checkpoint.folder}): start it with skyband run."
        )
    return _Verification(pipeline, checkpoint, schemas, output).run(batches)


class _Verification:
    """One pass over all batches."""

    def __init__(
        self, pipeline: Pipeline, checkpoint: Checkpoint, schemas: dict[str, pa.Schema], output: Output
    ) -> None:
        self._pipeline = pipeline
        self._checkpoint = checkpoint
        self._again = Again(pipeline, checkpoint, schemas)
        self._output = output
        streams = pipeline.streams
        monitor = new_monitor(pipeline, schemas)
        self._brute = Brute(
            schemas,
            {s.name: s.time for s in streams},
            {s.name: (s.key, s.op) for s in streams},
            {s.name: monitor.unit_of(s.name) for s in streams},
            {s.name: monitor.max_ahead_of(s.name) for s in streams},
        )
        self._time = monitor._time_type()
        self._queries: Queries = ()
        self._right: dict[str, list[Ranked]] = {}  # the answers before the batch
        self._dropped: dict[str, list[Ranked]] = {}  # those of queries that the batch has no more
        self._folded: dict[str, dict[Who, float]] = {}
        self._loose: set[str] = set()  # queries that allow an error
        self._missed: set[tuple[str, Who]] = set()
        names = ("batches", "rows", "answers", "places", "rejects", "loose", "wrong")
        self._counts = dict.fromkeys(names, 0)

    def run(self, batches: dict[int, dict[str, Any]]) -> Report:
        difference = None
        try:
            start: dict[str, Any] = {}
            committed = self._checkpoint.last_commit()
            as_before = False
            for batch in range(len(batches)):
                if batch not in batches:
                    raise _Different(f"batch {batch} is missing from the checkpoint.")
                under_way = batch > committed and batch + 1 == len(batches)
                if not self._output.there(batch):
                    if not under_way:
                        raise _Different(f"the output of batch {batch} is missing.")
                    break  # logged, and killed before its output: the next start puts it out
                # The answers come last: a pipeline killed before them has left those of the batch before.
                as_before = under_way and self._wrong_top() is None
                self._batch(batch, start, batches[batch])
                start = batches[batch]
            wrong = None if as_before else self._wrong_top()
            wrong = wrong or self._output.strange(self._checkpoint.batches)
            if wrong is not None:
                raise _Different(wrong)
        except _Different as found:
            difference = str(found)
        finally:
            self._again.close()
        return Report(**self._counts, missed=len(self._missed), difference=difference)

    def _batch(self, batch: int, start: dict[str, Any], end: dict[str, Any]) -> None:
        self._ask(self._checkpoint.queries(batch))
        rows = self._again.rows(start, end)
        self._brute.push(rows)
        self._counts["batches"] += 1
        self._counts["rows"] += sum(chunk.count for _, chunk in rows)
        reported = self._fold(batch)
        for query in self._queries:
            truth = self._brute.top(query.name)
            self._compare(batch, query.name, truth)
            self._compare_changes(batch, query.name, reported.pop(query.name, []), truth)
        for name in [*self._dropped]:  # and nothing else is asked under this name
            self._compare_changes(batch, name, reported.pop(name, []), [])
            for who in self._folded.pop(name, {}):
                raise _Different(
                    f"batch {batch}: {name_of(who)} should leave query '{name}', which was dropped."
                )
        for name in reported:
            raise _Different(f"batch {batch} has changes of {name!r}, which is not a query.")
        self._compare_rejects(batch)

    def _ask(self, queries: Queries) -> None:
        _, added, dropped = compare_queries(self._queries, queries)
        self._dropped = {}
        for name in dropped:
            self._brute.drop(name)
            self._dropped[name] = self._right.pop(name, [])
        for query in queries:
            if query.name in added:
                asked = bound(query, self._pipeline)
                self._brute.watch(query.name, asked)
                self._loose.discard(query.name)
                if _may_miss(asked):
                    self._loose.add(query.name)
        self._queries = queries

    def _fold(self, batch: int) -> dict[str, Rows]:
        """Apply a batch's changes: leaves first, then enters; the rows by query, as they stand."""
        rows = self._output.rows("changes", batch)
        for wanted in ("leave", "enter"):
            for row in rows:
                if row["batch"] != batch:
                    raise _Different(
                        f"the changes of batch {batch} say that they are of batch {row['batch']}."
                    )
                if row["change"] == wanted:
                    self._apply(batch, row)
        reported: dict[str, Rows] = {}
        for row in rows:
            reported.setdefault(row["query"], []).append(row)
        return reported

    def _apply(self, batch: int, row: dict[str, Any]) -> None:
        answer = self._folded.setdefault(row["query"], {})
        who = who_of(row)
        if row["change"] == "leave" and who not in answer:
            raise _Different(
                f"batch {batch}: {name_of(who)} leaves query '{row['query']}' and never was in it."
            )
        if row["change"] == "enter" and who in answer:
            raise _Different(
                f"batch {batch}: {name_of(who)} enters query '{row['query']}' and is in it already."
            )
        score = number(row["score"])
        if row["change"] == "enter":
            answer[who] = score
        elif answer.pop(who) != score:
            raise _Different(
                f"batch {batch}: {name_of(who)} leaves query '{row['query']}' with another score than it entered "
                f"with, {score!r}."
            )

    def _compare(self, batch: int, name: str, truth: list[Ranked]) -> None:
        self._counts["answers"] += 1
        self._counts["places"] += len(truth)
        reported = self._folded.get(name, {})
        right = {ranked.who: ranked.score for ranked in truth}
        where = f"batch {batch}, query '{name}'"
        loose = name in self._loose
        if loose:
            self._counts["loose"] += 1
            self._counts["wrong"] += reported.keys() != right.keys()
            self._missed |= {(name, who) for who in right.keys() - reported.keys()}
        for who, score in right.items():
            if who not in reported and loose:
                continue
            if who not in reported:
                raise _Different(f"{where}: {name_of(who)} with score {score!r} is missing.")
            if reported[who] != score:
                raise _Different(
                    f"{where}: {name_of(who)} has score {reported[who]!r} and should have {score!r}."
                )
        for who in reported:
            if who not in right and not loose:
                raise _Different(f"{where}: {name_of(who)} should not be there.")

    def _compare_changes(self, batch: int, name: str, rows: Rows, truth: list[Ranked]) -> None:
        """A query's rows of a batch, column by column, with what they must be."""
        right = due(self._right.get(name, []), truth, self._dropped.pop(name, []))
        wrong = wrong_form(rows)
        if wrong is None and name not in self._loose:
            wrong = wrong_rows(rows, right, self._time, self._output.shown)
        if wrong is not None:
            raise _Different(f"batch {batch}, query '{name}': {wrong}")
        self._right[name] = truth

    def _compare_rejects(self, batch: int) -> None:
        rows: dict[int, dict[str, Any]] = {}
        for row in self._output.rows("rejects", batch):
            seq = row["seq"]
            if row["batch"] != batch:
                raise _Different(f"the rejects of batch {batch} say that they are of batch {row['batch']}.")
            if not isinstance(seq, int) or seq in rows:
                how = "twice" if seq in rows else "and is no row"
                raise _Different(f"batch {batch}: row {seq} is rejected {how}.")
            rows[seq] = row
        reported = {seq: row for seq, row in rows.items() if row["reason"] in _JUDGED}
        right, shown = self._brute.unfit, self._output.shown
        self._counts["rejects"] += len(right)
        for seq in sorted(reported.keys() | right.keys()):
            reasons = [
                reported[seq]["reason"] if seq in reported else None,
                right[seq].reason if seq in right else None,
            ]
            if reasons[0] != reasons[1]:
                raise _Different(
                    f"batch {batch}: row {seq} is rejected for {reasons[0]} and should be for {reasons[1]}."
                )
            for column, value in (("stream", right[seq].stream), ("raw", right[seq].raw)):
                if reported[seq][column] != shown(value):
                    raise _Different(
                        f"batch {batch}: the rejected row {seq} has {column} {reported[seq][column]!r} and should have "
                        f"{value!r}."
                    )

    def _wrong_top(self) -> str | None:
        """What is wrong with the current answers that were put out."""
        reported: dict[str, list[tuple[int, float, str]]] = {}
        where = self._output.top
        for row in self._output.tops():
            reported.setdefault(row["query"], []).append((row["rank"], number(row["score"]), row["row"]))
        for query in self._queries:
            if query.name in self._loose:
                scores = sorted(score for _, score, _ in reported.pop(query.name, []))
                if scores != sorted(self._folded.get(query.name, {}).values()):
                    return f"query '{query.name}': {where} does not hold what its changes add up to."
                continue
            truth = self._brute.top(query.name, with_rows=True)
            right = [(rank, r.score, json_text(r.row or {})) for rank, r in enumerate(truth, 1)]
            if reported.pop(query.name, []) != right:
                return f"query '{query.name}': {where} does not hold its answer."
        return f"{where} has rows of '{next(iter(reported))}', which is not a query." if reported else None


def _may_miss(query: Query) -> bool:
    """Whether a query's answers need not be exact."""
    options = dict(query.options)
    card = CARDS.get(str(options.get("algorithm")))
    return "error" in options or (card is not None and not card.exact)
