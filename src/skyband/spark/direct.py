"""Reading in the driver: micro-batches that are done before Spark would have started its tasks.

**Problem.** A Spark job with two Python workers in it takes longer than reading and sifting a few thousand rows; and
where Spark itself runs inside the driver (`local[…]`), its tasks are other processes on the same machine, to which
every query has to be sent and from which every row comes back.

**Idea.** The driver reads such a batch itself: small ones of any files, whatever the master is, and large ones of
Parquet files where the cores are the driver's own. It reads the same splits in the same order as the tasks would, with
the same code, so every row gets the same seq.

**Large ones** are read in as many threads as Spark has cores; Arrow and our kernels run outside the interpreter's lock.
The newest rows come first. What they leave as k-th best scores are bars (rejecting.py) that older rows have to reach,
whichever thread reads them: a row that doesn't has k better rows that are newer. The survivors of all pieces, few, are
then pruned together, so what is written down and merged is the k-skyband of the batch, not one for each piece. A task
of the executors placement does the same with its own pieces.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from skyband.engine.pruning import Gates, Sifted, Sifter, joined
from skyband.stream.batches import read
from skyband.stream.validation import Accepted, accept

from .filelog import FileLog, StreamFiles
from .reading import join_chunks
from .sifting import read_runs, with_gaps
from .splits import Offset, Split, plan_splits

SMALL = 4 << 20  # bytes of a batch that no task is worth starting for
_PIECE = 12 << 20  # bytes that a thread reads at once: little enough to stay in the processor's caches
_HEAD_ROWS = 65_536  # rows at least behind the bars
_MANY = 65_536  # survivors of one piece that are pruned there and then


@dataclass(frozen=True)
class Direct:
    """Reads batches in this process."""

    log: FileLog
    streams: list[StreamFiles]
    schemas: Mapping[str, pa.Schema]
    threads: int

    def read(
        self, start: Offset, end: Offset, sifters: Mapping[str, Sifter], prune: bool
    ) -> list[tuple[str, Sifted]]:
        """The rows between two offsets, in order of arrival."""
        found: list[tuple[str, Sifted]] = []
        for stream in self.streams:
            taken = self.log.taken(stream.name)[start.get(stream.name, 0) : end.get(stream.name, 0)]
            if not taken:
                continue
            pieces = max(1, sum(one.size for one in taken) // _PIECE)
            splits = plan_splits(self.log, [stream], start, end, pieces)
            sifter, work = sifters[stream.name], Pieces(self.schemas, self.threads)
            read = work.pruned if prune and sifter.can_prune else work.whole
            found += [(stream.name, part) for part in read(splits, sifter)]
        return found


@dataclass(frozen=True)
class Pieces:
    """Reads consecutive pieces of files, each some splits, in order of arrival."""

    schemas: Mapping[str, pa.Schema]
    threads: int = 1

    def whole(self, pieces: list[list[Split]], sifter: Sifter) -> list[Sifted]:
        """All rows that are accepted."""
        return [
            Sifted(part)
            for parts in self._map(lambda one: self._accepted(one, sifter), pieces)
            for part in parts
        ]

    def pruned(self, pieces: list[list[Split]], sifter: Sifter) -> list[Sifted]:
        """The rows that can be in an answer: the newest ones first, the others by what those say."""
        newest: list[Accepted] = []
        older = list(pieces)
        while older and sum(part.table.num_rows for part in newest) < _HEAD_ROWS:
            newest = [*self._accepted(older.pop(), sifter), *newest]
        if not older:
            return [sifter.pruned(part) for part in newest]
        last = max(newest, key=lambda part: part.table.num_rows)
        opened, gates = sifter.opened(last, self.threads)
        kept = [opened if part is last else sifter.pruned(part).part for part in newest]
        thin = [
            part
            for parts in self._map(lambda one: self._thinned(one, sifter, gates), older)
            for part in parts
        ]
        whole = joined([*thin, *kept])
        # To prune a few thousand rows takes as long as to let the engine have them.
        return [Sifted(whole) if whole.table.num_rows < _MANY else sifter.pruned(whole)]

    def _thinned(self, splits: list[Split], sifter: Sifter, gates: Gates) -> list[Accepted]:
        found = []
        for part in self._accepted(splits, sifter):
            thin = sifter.thinned(part, gates)
            found.append(thin if thin.table.num_rows < _MANY else sifter.pruned(thin).part)
        return found

    def _accepted(self, splits: list[Split], sifter: Sifter) -> list[Accepted]:
        """The rows of some splits at the stream's door."""
        found = []
        for run in read_runs(splits, self.schemas):
            table, texts = with_gaps(join_chunks(run.chunks))
            found.append(accept(sifter.door, *read(table), texts))
        return found

    def _map(self, work: Any, pieces: Sequence[list[Split]]) -> list[list[Any]]:
        if len(pieces) < 2 or self.threads < 2:
            return [work(piece) for piece in pieces]
        with ThreadPoolExecutor(self.threads, "skyband-read") as pool:
            return list(pool.map(work, pieces))
