"""correlated: removes the instances that are unlikely to matter. An approximation.

**Problem.** As for `eaa`. The state of `eaa` is linear in the window, because rows of any size may still arrive in
streams in which an object has not been seen yet.

**Idea.** Usually no such row arrives. The window shows, of the objects that were seen in a set of streams, the share
that was also seen in another one. An upper bound that is multiplied by this share is lower, so more instances are
dominated (estimated_instances.py). A sketch for each stream estimates the counts.

**What is kept.** The instances that are left, and sketches of fixed size. With counts = 'exact' 32 bytes for each row
of the window instead of sketches; with a sample the window's rows as well, for comparison.

**Cost.** As `eaa`, and a pass over the sketches' registers for every set of streams at each pass over the instances.

**Wrong choice when** answers must be exact, or when the error is never measured: it depends on the data, and no
bound can be given. `sample = 0.1` measures it against an exact run at one answer in ten.

Haghani, Michel and Aberer (2009), section 4, with the signs of inclusion and exclusion corrected.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from skyband.algorithms.contract import Card
from skyband.algorithms.objects.eaa import EAA, expected
from skyband.algorithms.objects.estimated_instances import Likely
from skyband.algorithms.objects.sketches import REGISTERS, standard_error
from skyband.algorithms.objects.sums import Asked
from skyband.algorithms.objects.window_objects import Objects


class Compared:
    """A window's approximate objects and, where a sample is asked for, exact ones to compare with."""

    def __init__(self, likely: Likely, exact: Objects | None, every: int) -> None:
        self.likely, self.truth, self.every = likely, exact, every
        self.steps = self.compared = 0
        self.precision = self.error = 0.0

    def __getattr__(self, name: str) -> Any:
        if name in ("likely", "__deepcopy__", "__getstate__", "__setstate__"):
            raise AttributeError(name)
        return getattr(self.likely, name)

    def __len__(self) -> int:
        return len(self.likely)

    @property
    def horizon(self) -> Any:
        return self.likely.horizon

    @horizon.setter
    def horizon(self, horizon: Any) -> None:
        for objects in self._both():
            objects.horizon = horizon

    def expire(self, horizon: Any) -> None:
        for objects in self._both():
            objects.expire(horizon)

    def add(self, *rows: Any) -> None:
        for objects in self._both():
            objects.add(*rows)

    def settle(self, scores: Any) -> None:
        for objects in self._both():
            objects.settle(scores)

    def _both(self) -> list[Any]:
        return [self.likely, *([self.truth] if self.truth is not None else [])]

    def best(self, k: int | None) -> Any:
        found = self.likely.best(k)
        self.steps += 1
        if self.truth is not None and self.truth.keys is not None and self.steps % self.every == 0:
            own, right = found, self.truth.best(k)
            rank = min(len(own[1]), len(right[1]))
            if len(right[1]) and self.likely.keys is not None:
                ids = set(self.likely.keys.values(own[0]).to_pylist())
                wanted = self.truth.keys.values(right[0]).to_pylist()
                self.precision += sum(key in ids for key in wanted) / len(wanted)
                self.error += float(np.abs(own[1][:rank] - right[1][:rank]).mean()) if rank else 0.0
                self.compared += 1
        return found

    def within(self, horizon: Any, scores: Any) -> Any:
        truth = None if self.truth is None else self.truth.within(horizon, scores)
        return Compared(self.likely.within(horizon, scores), truth, self.every)  # type: ignore[arg-type]

    def dump(self) -> dict[str, Any]:
        measured = [self.steps, self.compared, self.precision, self.error]
        truth = None if self.truth is None else self.truth.dump()
        return {"likely": self.likely.dump(), "truth": truth, "measured": measured}

    def load(self, blob: dict[str, Any], scores: Any) -> None:
        self.likely.load(blob["likely"], scores)
        if self.truth is not None:
            self.truth.load(blob["truth"], scores)
        self.steps, self.compared, self.precision, self.error = blob["measured"]

    def bytes(self) -> int:
        return sum(objects.bytes() for objects in self._both())

    def _check(self) -> None:
        for objects in self._both():
            objects._check()


class Correlated(EAA):
    """Instances with estimated upper bounds, one slot for each window."""

    card = Card(
        name="correlated",
        title="instances that are unlikely to matter are removed",
        source="Haghani, Michel, Aberer 2009, section 4",
        answers=frozenset({"grouped", "joined"}),
        exact=False,
        keeps="instances that fewer than k other objects are likely to dominate, and a sketch for each stream",
        cost="as eaa, and a look at the sketches at each pass",
        wrong_when="answers must be exact",
        expected=expected,
        options={"counts": 0.0, "sample": 0.0},
        scores="bounded",
        window=True,
        fifo=True,
    )

    def __init__(self, options: Mapping[str, float], asked: Asked) -> None:
        super().__init__(options, asked)
        self.sample = float(asked.options.get("sample", 0.0))
        self.exact_counts = asked.options.get("counts", "sketch") == "exact"

    def objects(self, bar: float | None) -> Any:
        asked = self.asked
        likely = Likely(
            asked.aggregates, asked.width, asked.streams, asked.several, list(asked.most), asked.rows, asked.ever,
            not self.retained, asked.plain, asked.sign, exact_counts=self.exact_counts,
        )  # fmt: skip
        truth = None
        if self.sample:
            truth = Objects(asked.aggregates, asked.width, asked.several, None, asked.plain, asked.sign)
        return Compared(likely, truth, max(1, round(1 / self.sample)) if self.sample else 1)

    def notes(self) -> list[str]:
        error = standard_error(REGISTERS)
        counts = (
            "counts are exact"
            if self.exact_counts
            else f"counts are estimated to about {100 * error:.1f} % (standard error)"
        )
        found = [f"approximate: an object may be missed if its rows arrive in unlikely streams; {counts}"]
        for objects in self.slots:
            if objects is not None and objects.compared:
                n = objects.compared
                found.append(
                    f"measured against an exact run at {n:,} answers: {objects.precision / n:.3f} of the objects were "
                    f"right, scores at equal rank differed by {objects.error / n:.4g} on average"
                )
        if not self.sample:
            found.append("WITH (sample = 0.1) compares one answer in ten with an exact run")
        return found

    def _check(self) -> None:
        for objects in self.slots:
            if objects is not None:
                objects._check()
