"""The relief: the height maps of a family, and when to rebuild them.

Two maps lie over the same cells. The *inner* one is made of the admission thresholds: rows that pass it are scored for
the queries. The *outer* one is lower: rows that pass it are copied into the reservoir of their block. Its thresholds
(the *floors*) are scores of one rank in a recent block, the same for all queries, chosen so that a few rows in a
hundred pass. Since they change, each change begins an *epoch*, and a block records its own. The outer map is
kept below the inner one everywhere, so a row that fails it need not be compared with the inner one.

A map only ever errs by letting rows pass, so it need not follow at once when thresholds rise. It is rebuilt, with a new
frame around recent rows, when its errors have cost more than rebuilding does.

A map can serve queries whose score is proved monotone on every axis (over the frame, at least), rounding included,
and whose threshold most rows fail. All others are *loose*: they are offered every row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from skyband.algorithms.heightmap.box_maps import carve_boxes
from skyband.algorithms.heightmap.maps import UNIT, Frame, bisecting, blank, carve_weights, frame_of
from skyband.compiling.array_version import Renewed
from skyband.core.types import Floats, Ints
from skyband.query.expression.linear import linear
from skyband.query.expression.score_space import Space

HIGH, LOW, LOOSE = range(3)  # faces: the last axis is wanted high, low; no map serves
EPOCHS = 32
BISECTED = 2048  # most cells where heights are found by bisection
FARTHER = 4.0  # rounding also covers rows so many times as far out as the frame, as in earlier windows
SAMPLE = 16384  # rows that a frame is made from


def _no_less(values: Floats) -> Any:
    """Return numbers in float32, rounded up."""
    with np.errstate(over="ignore"):
        short = values.astype(np.float32)
        return np.where(short < values, np.nextafter(short, np.float32(np.inf)), short)


class Relief(Renewed):
    """Frame, maps and floors of a family."""

    def __init__(self, space: Space, cells: int) -> None:
        self.space = space
        self.axes = len(space.columns)
        self.rendered = space.rendered
        self.weighted = linear(space.shape, space.columns, np.ones((1, 4096))) is not None
        self.cells = cells if self.weighted else min(cells, BISECTED)
        self.frame: Frame | None = None
        self.last = self.axes - 1
        self.outer = np.empty((2, 1), dtype=np.int16)
        self.inner = np.empty((2, 1), dtype=np.int16)
        self.corners = np.empty((0, 2, 1))
        self.offset = np.empty(0)
        self.weight = np.empty((0, self.axes))
        self.box = np.empty((0, 2, self.axes))  # by slot: the limits of its box
        # by slot: the greatest rounding error of a score inside the frame
        self.slip = np.empty(0, dtype=np.float32)
        self.blur = np.empty(0, dtype=np.float32)  # by slot: the same for rounding to float32, near the frame
        self.slope = np.empty(0)  # by slot: the score that one step of height is worth
        # how far rows are moved along each axis for a step, so that their scores fall
        self.tilt = np.zeros(self.axes)
        self.toward = np.empty((0, self.axes), dtype=np.int64)
        self.usable = np.empty(0, dtype=bool)  # by slot: whether a map could serve it
        self.mapped = np.empty(0)  # by slot: the threshold in the inner map
        # by epoch, of which at most EPOCHS are kept
        self.floors = np.empty((1, 0), dtype=np.float32)
        self.now = -1  # the present epoch
        self.wanted = 12  # the rank of the floors in a block
        self.target = 0  # so many rows of a block should reach one of them

    # -- queries -------------------------------------------------------------------------------------------

    def know(self, slot: int, constants: Floats, low: Any = (), high: Any = ()) -> None:
        """Set a query's weights, or its directions, and its box."""
        while slot >= len(self.usable):
            self._widen()
        if boxed := list(self.space.boxed):
            self.box[slot, 0, boxed], self.box[slot, 1, boxed] = low, high
        self.mapped[slot] = np.inf
        self.floors[:, slot] = np.inf
        self.usable[slot] = False
        self.blur[slot] = np.inf
        if self.rendered is None or self.axes == 0:
            return
        if self.weighted:
            found = linear(self.space.shape, self.space.columns, constants.reshape(1, -1))
            if found is None:
                return
            sign = self.space.sign
            self.offset[slot], self.weight[slot] = sign * found.offset[0], sign * found.weight[0]
            weight = self.weight[slot]
            self.usable[slot] = bool(
                np.isfinite(weight).all() and weight.any() and np.isfinite(found.offset[0])
            )
        else:
            self._direct(slot, constants)

    def _direct(self, slot: int, constants: Floats) -> None:
        """Set in which direction each axis is better: everywhere, or at least inside the frame."""
        found: Sequence[int | None] = self.space.directions(constants)
        if None in found and self.frame is not None:
            ends = zip(self.frame.low.tolist(), self.frame.high.tolist(), strict=True)
            found = self.space.directions(constants, dict(zip(self.space.columns, ends, strict=True)))
        self.usable[slot] = None not in found and any(found)
        self.toward[slot] = [0 if sign is None else sign for sign in found]

    def _widen(self) -> None:
        for name, fill in (
            ("offset", 0),
            ("slip", 0),
            ("blur", np.inf),
            ("slope", 0),
            ("usable", False),
            ("mapped", np.inf),
        ):
            old = getattr(self, name)
            setattr(self, name, np.append(old, np.full(1, fill, dtype=old.dtype)))
        name = "weight" if self.weighted else "toward"
        old = getattr(self, name)
        setattr(self, name, np.vstack([old, np.zeros((1, self.axes), dtype=old.dtype)]))
        if self.space.boxed or not self.weighted:
            self.box = np.concatenate([self.box, np.full((1, 2, self.axes), [[-np.inf], [np.inf]])])
        self.floors = np.pad(self.floors, ((0, 0), (0, 1)), constant_values=np.inf)

    def face(self, slot: int) -> int:
        """Return the face whose map would serve a query."""
        if not self.usable[slot]:
            return LOOSE
        sense = self.weight[slot, self.last] if self.weighted else self.toward[slot, self.last]
        return LOW if sense < 0 else HIGH

    def traits(self, slots: Ints, constants: Floats) -> Floats:
        """Return what makes queries similar: where their boxes lie, and the proportions of their weights."""
        traits = self.weight[slots] if self.weighted else constants
        with np.errstate(all="ignore"):
            length = np.abs(traits).sum(axis=1, keepdims=True)
            traits = np.nan_to_num(traits / np.where(length > 0, length, 1.0))
        if not self.space.boxed:
            return np.asarray(traits)
        return np.hstack([self._middles(slots), 0.25 * traits])

    def _middles(self, slots: Ints) -> Floats:
        """Return where boxes lie in the frame, each axis from 0 to 1: blocks of queries with other boxes skip rows."""
        assert self.frame is not None
        low, high = self.frame.low, self.frame.high
        ends = np.clip(self.box[slots], low, high)
        with np.errstate(all="ignore"):
            return np.asarray(np.nan_to_num((ends.mean(axis=1) - low) / (high - low)))

    # -- maps ----------------------------------------------------------------------------------------------

    def survey(self, columns: list[Floats], slots: Ints, constants: Floats) -> bool:
        """Make a new frame around these rows, and blank maps; return False if there is nothing to divide.

        In that case an older frame stays, with its maps, because queries are arranged by its faces.
        """
        columns = [column[-SAMPLE:] for column in columns]
        if self.frame is None:
            self.last = self._widest(columns, slots)
        frame = frame_of(columns, self.last, self.cells)
        if frame is None:
            return False
        self.frame = frame
        parts = self.axes - 1
        self.corners = np.zeros((parts, 2, int(frame.size.max(initial=1))))
        for a in range(parts):
            lower, upper = frame.corners(a)
            self.corners[a, 0, : len(lower)], self.corners[a, 1, : len(upper)] = lower, upper
        self.mapped.fill(np.inf)
        self._incline()
        if self.weighted:
            self._slip(slots, constants, np.maximum(np.abs(frame.low), np.abs(frame.high)))
        else:
            for slot in slots.tolist():
                self._direct(slot, constants[slot])
        self.outer = np.stack([blank(frame)] * self._faces(slots))
        self.inner = self.outer.copy()
        return True

    def _slip(self, slots: Ints, constants: Floats, farthest: Floats) -> None:
        """Compute the greatest rounding error of a query's score inside the frame."""
        with np.errstate(all="ignore"):
            found = linear(self.space.shape, self.space.columns, constants[slots])
            if found is not None and len(slots):
                most = found.size + (found.amount * farthest).sum(axis=1)
                self.slip[slots] = _no_less(1e-12 * most)
                # each number is rounded, each product and each sum
                sound = (most > 1e-20) & (most < 1e30) & ((farthest == 0.0) | (farthest > 1e-20)).all()
                sound &= (found.amount < 1e30).all(axis=1)
                self.blur[slots] = _no_less(
                    np.where(sound, FARTHER * 2.0**-23 * (self.axes + 4) * most, np.inf)
                )

    def _faces(self, slots: Ints) -> int:
        """Return how many maps there must be: a single one serves any face."""
        slots = slots[self.usable[slots]]
        senses = self.weight[slots, self.last] if self.weighted else self.toward[slots, self.last]
        low = senses < 0
        return 1 if low.all() or not low.any() else 2

    def _incline(self) -> None:
        """Compute for each slot the score that one step of a raised map is worth: the map is then that of floors so
        much higher. As in `carve_weights`; 0 where heights aren't solved for.

        A step raises heights, and moves rows along those other axes that all queries want in one direction: raising
        heights alone would change little for a query to which the last axis means little."""
        self.slope.fill(0.0)
        self.tilt.fill(0.0)
        if not self.weighted or self.frame is None or self.space.boxed:
            return
        weight = self.weight[self.usable]
        lean: Floats = np.subtract((weight >= 0.0).all(axis=0), (weight <= 0.0).all(axis=0), dtype=np.float64)
        lean[self.last] = 0.0
        with np.errstate(all="ignore"):
            extent = self.frame.high - self.frame.low
            tilt = lean * extent / UNIT
            spans = np.abs(self.weight) * extent
            slope = np.maximum(spans[:, self.last], spans.sum(axis=1) / 1024.0) / UNIT
            slope += (np.abs(self.weight) * np.abs(tilt)).sum(axis=1)
            # slightly more: the promise must hold to the last bit
            self.slope[:] = np.where(np.isfinite(slope), slope * (1.0 + 1e-9), 0.0)
        if np.isfinite(tilt).all():
            self.tilt[:] = tilt

    def _widest(self, columns: list[Floats], slots: Ints) -> int:
        """Return the axis for which most queries can be solved; the last one, if several are equal."""
        useful = np.array([len(np.unique(column[-256:])) > 1 for column in columns])
        senses = self.weight[slots] if self.weighted else self.toward[slots]
        score = useful * (1 + (senses != 0).sum(axis=0)) if len(slots) else useful.astype(int)
        return self.axes - 1 - int(np.argmax(score[::-1]))

    def lower(
        self, slots: Ints, faces: Ints, bars: Floats, constants: Floats, outer_too: bool = True
    ) -> None:
        """Make the maps let pass what these queries admit, given a threshold for each."""
        self.mapped[slots] = bars
        self.carve(self.inner, slots, faces, self.mapped, constants)
        if not outer_too:
            return
        if self.now >= 0:  # where the floor is lower the outer map lets these rows pass already
            above = np.flatnonzero(self.floors[self.now, slots] > bars)
            if not len(above):
                return
            slots, faces = slots[above], faces[above]
        self.carve(self.outer, slots, faces, self.mapped, constants)

    def misfits(self, columns: Floats) -> bool:
        """Whether these rows (an axis each) fill so little of the frame that a new one would be sharper."""
        if self.frame is None:
            return False
        cells = np.append(self.frame.size[: self.axes - 1], UNIT)
        for axis, steps in zip(self.frame.order.tolist(), cells.tolist(), strict=True):
            values = columns[axis][np.isfinite(columns[axis])]
            if steps == 1 or not len(values) or self.frame.inverse[axis] == 0.0:
                continue
            if (values.max() - values.min()) * self.frame.inverse[axis] < 0.88 * steps:
                return True
        return False

    def carve(self, maps: Any, slots: Ints, faces: Ints, bars: Floats, constants: Floats) -> None:
        for face in (HIGH, LOW):
            own = slots[faces == face]
            if len(own):
                self._carve_face(maps, face, own, bars, constants)

    def _carve_face(self, maps: Any, face: int, slots: Ints, bars: Floats, constants: Floats) -> None:
        frame = self.frame
        assert frame is not None
        place = (
            maps[face if len(maps) > 1 else 0], 1.0 if face == HIGH else -1.0, frame.low, frame.high, self.corners,
            frame.size[: self.axes - 1], frame.order, slots, bars,
        )  # fmt: skip
        if self.weighted and self.space.boxed:
            carve_boxes(*place, self.offset, self.weight, self.slip, self.box, frame.base, frame.inverse)
        elif self.weighted:
            rows = int(frame.size[0]) if self.axes > 2 else 1
            scratch = (np.empty(shape, np.int32) for shape in ((4, frame.cells // rows), (4, rows)))
            grown = np.empty(self.corners.shape[2] if self.axes > 1 else 1, np.int32)
            carve_weights(*place, self.offset, self.weight, self.slip, *scratch, grown)
        else:
            bisecting(self.rendered or "", self.axes)(
                *place, constants, self.toward, self.space.sign, self.box, frame.base, frame.inverse
            )

    def begin_epoch(self, floors: Floats) -> int:
        """Set new floors (by slot) from now on. The oldest epoch's number is used again: no block may have it.

        They are kept in float32, rounded up: a promise is never more than what was sifted."""
        self.now = (self.now + 1) % EPOCHS
        if self.now == len(self.floors):
            self.floors = np.pad(self.floors, ((0, self.now), (0, 0)), constant_values=np.inf)
        self.floors[self.now] = _no_less(floors)
        return self.now

    def mapping(self) -> tuple[Any, ...]:
        """Return the arrays of the frame that kernels need."""
        frame = self.frame
        if frame is None:
            none, nothing = np.zeros(self.axes), np.zeros(self.axes, dtype=np.int64)
            return nothing, nothing[:-1], none, none, none, none, self.outer, self.inner
        return (
            frame.order, frame.size, frame.low, frame.high, frame.base, frame.inverse, self.outer, self.inner,
        )  # fmt: skip
