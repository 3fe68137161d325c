"""The state of a family with height maps: rows in blocks, queries in blocks, maps over both, and scratch memory.

maintenance.py decides when to rebuild its parts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from skyband.algorithms.contract import FUSE_MEMBERS, FUSE_SCORES, FUSE_SCORES_CACHED
from skyband.algorithms.heightmap.block_maps import Outlines
from skyband.algorithms.heightmap.box_maps import confined
from skyband.algorithms.heightmap.ingest import STRETCH, sift_arrays
from skyband.algorithms.heightmap.map_set import Relief
from skyband.algorithms.heightmap.refill import catching
from skyband.algorithms.heightmap.row_blocks import MOST, Blocks
from skyband.algorithms.heightmap.score_blocks import WIDTH, Stands, meeting
from skyband.algorithms.heightmap.slack_lists import Short
from skyband.algorithms.kernels.ranked_lists import Ranked
from skyband.algorithms.window_base import WindowAlgorithm
from skyband.compiling.array_version import Renewed
from skyband.compiling.memory import Shape, cut, words_of
from skyband.core.types import Floats, Ints
from skyband.query.expression.score_space import Space

PIECE = 16384  # rows of a batch that are processed at once
WAY = STRETCH + 256  # least room for rows between the maps and the queries
LEAST_ROWS = 2048  # rows before a map is made (or four blocks, if they are small)


class MappedState(Renewed, WindowAlgorithm):
    """Rows, queries, maps, and scratch memory for a step."""

    fleeting = frozenset({"horizon_time", "horizon_seq"})

    def __init__(self, options: Mapping[str, float], space: Space) -> None:
        super().__init__(options, space)
        self.axes = len(space.columns)
        block = max(WIDTH, min(MOST, int(self.options["block"])) // WIDTH * WIDTH)
        self.ranked = Ranked(timed=False, tight=True)
        self.counts = np.zeros((0, 0), dtype=np.int64)  # counters are of the whole family
        self.blocks = Blocks(self.axes, block)
        self.relief = Relief(space, max(2, int(self.options["cells"])))
        self.rendered = confined(self.relief.rendered, space)
        self.computed = 0  # scores computed by numpy
        self.members = 0  # queries
        self._compiled = False
        self.stands = Stands(0)
        self.outlines = Outlines()
        self.totals = np.zeros(16, dtype=np.int64)
        self.clock = np.zeros(4, dtype=np.int64)
        self.wish = np.empty(0, dtype=np.int32)
        self.todo = np.empty(0, dtype=np.int32)
        self.brim = np.empty(0, dtype=np.int32)  # by slot: the length at which a list is pruned
        self.back = np.zeros(1, dtype=np.int32)
        for name in ("old_time", "old_seq", "seen_time", "seen_seq"):
            setattr(self, name, np.empty(0, dtype=np.int64))
        self.old_time: Ints
        self.old_seq: Ints
        self.seen_time: Ints
        self.seen_seq: Ints
        self._least = min(LEAST_ROWS, 4 * block)
        self._next_check = self._least  # rows seen at which thresholds are checked again
        self._made_at = np.zeros(16, dtype=np.int64)  # totals when the map was made
        self._made_of = 0  # rows stored when it was made
        self._next_look = 0  # rows seen at which the map is checked again
        self._closed_at = (0, 0)  # survivors, and rows seen, when a block was full
        self._newcomers = 0  # queries added since floors were set
        self._calibrated_at = 0  # the block at which floors were set
        self._searched = 0  # blocks that had been searched whole by then
        self._falling = False  # whether reservoirs have become smaller
        self._stocked = 0  # rows of a reservoir when floors were set
        self._paced_at = 0, 0  # rows seen and lists rebuilt about when a window began
        self._busy = False  # whether lists run short all the time
        self._patience = 1.0
        self._rate = 1.0  # survivors per row when the map was made
        self._sifting = sift_arrays()
        self._counts = np.zeros(3, dtype=np.int64)
        self._way: tuple[Shape, ...] = ()  # layout of the scratch memory: incoming rows
        self._lists: tuple[Shape, ...] = ()  # or rebuilt lists
        self._scratch_picks()
        self._scratch_points(1, 1)

    def _scratch_picks(self) -> None:
        """Make room for the rows of a block that pass the outer maps, and of a stretch that pass the inner ones,
        too."""
        faces = len(self.relief.outer)
        self._picks = np.empty((2 * faces - 1, max(self.blocks.block, STRETCH) + 8), dtype=np.uint16)
        self._eager = np.empty((faces, STRETCH + 8), dtype=np.uint16)

    def _scratch_points(self, rows: int, faces: int) -> None:
        """Make room for so many rows between the maps and the queries of each face."""
        self._way = (
            (np.float64, (faces, self.axes, rows)),
            (np.int64, (faces, rows)),
            (np.int64, (faces, rows if self.timed else 0)),
            (np.int32, (faces, rows)),
        )
        self._lay_out()

    def _lay_out(self) -> None:
        """Lay out scratch memory for incoming rows and for rebuilt lists, which share it, since they are never needed
        together. Incoming rows are kept."""
        there = [getattr(self, name, None) for name in ("_points", "_number", "_when", "_spots")]
        desk = np.empty(max(words_of(self._way), words_of(self._lists)))
        self._points, self._number, self._when, self._spots = here = cut(desk, self._way)
        self._listing = cut(desk, self._lists)
        for old, new in zip(there, here, strict=True):
            if old is not None and old.shape == new.shape:
                new[...] = old

    def _make_way(self) -> None:
        """Make more room for incoming rows: `take_in` found too little, and all that were there have been processed.
        After a few steps there is enough."""
        faces, _, rows = self._points.shape
        if np.count_nonzero(self.stands.count) > faces:
            faces = 3
        else:
            rows = min(PIECE, max(WAY, 2 * rows))
        self._counts.fill(0)
        self._scratch_points(max(WAY, rows), faces)

    @property
    def compiled(self) -> bool:
        """Whether the generated kernels are used: they pay from some queries or scores on, or if they were made before.
        Without them numpy scores every row for every query, and there is no map."""
        if not self._compiled and self.rendered is not None and self.axes:
            self._compiled = self.members >= FUSE_MEMBERS or self.computed >= FUSE_SCORES
            if not self._compiled and self.computed >= FUSE_SCORES_CACHED:
                self._compiled = meeting(*self._text, known=True) is not None
        return self._compiled

    @property
    def timed(self) -> bool:
        return self.blocks.timed

    @property
    def terms(self) -> int:
        """How many numbers distinguish queries: the constants of the score, then the limits of the box."""
        return self.constants.shape[1] + 2 * len(self.space.boxed)

    @property
    def _text(self) -> tuple[str, int, int, float, tuple[int, ...]]:
        """Return what kernels are generated from."""
        return self.rendered or "", self.axes, self.terms, self.space.sign, self.space.boxed

    def _asked(self, slot: int) -> Floats:
        return np.concatenate([self.constants[slot], self.low[slot], self.high[slot]])

    def _know(self, slot: int) -> None:
        self.relief.know(slot, self.constants[slot], self.low[slot], self.high[slot])

    def _good(self, columns: Sequence[Floats], slot: int) -> Floats:
        """Return scores of points for a query, NaN outside its box."""
        good = self.space.good(columns, self.constants[slot])
        for i, axis in enumerate(self.space.boxed):
            inside = (columns[axis] >= self.low[slot, i]) & (columns[axis] <= self.high[slot, i])
            good = np.where(inside, good, np.nan)
        return good

    def _bars(self) -> Floats:
        """Return the thresholds by slot."""
        bars = np.full(len(self.ks), np.inf)
        here = self.stands.member >= 0
        bars[self.stands.member[here]] = self.stands.bar[here]
        return bars

    def _faces(self, slots: Ints) -> Ints:
        return np.asarray(self.stands.face[self.stands.place[slots] // WIDTH])

    def _kernels(self) -> Any:
        return catching(*self._text[:4])

    def _rank(self, b: int, begin: int, stop: int, wanted: int, guess: Floats, members: Short) -> Floats:
        """Return the score of this rank among some rows of a block, for each query place that has a member."""
        out = np.full((len(self.stands.member), wanted), -np.inf)
        self._kernels().rank(
            b, begin, stop, members, wanted, self.stands.constants, guess,
            self.blocks.pool, np.empty(64), np.empty(wanted), out,
        )  # fmt: skip
        return out[:, wanted - 1]
