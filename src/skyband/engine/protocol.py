"""Who the parts of the engine are to each other: monitor, stream, watch, and family.

A *family* is a set of watches that share state, of whatever kind of question: rows, pairs, objects. The engine, the
journal, the snapshot, Spark and the server know families by `Family` alone; `families.py` says which class serves which
query. A monitor is a `Host` to its streams, a stream is `Streamed` to its watches, and a watch is `Watched` to its
family, so that no module here needs one that needs it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import pyarrow as pa

from skyband.core.exchange import NOTHING, Changes, Entries
from skyband.core.types import LOWEST, Floats, Ints, Recency
from skyband.engine.answers import Answers
from skyband.stream.batches import Batch
from skyband.stream.windows import Horizons

if TYPE_CHECKING:
    from skyband.engine.planner import Choice
    from skyband.query.model import Last, Window
    from skyband.stream.clock import Kind
    from skyband.stream.history import Retained
    from skyband.stream.payloads import Kept
    from skyband.stream.validation import Door

Deleted = tuple[Ints, Ints]
"""Times and seqs of earlier rows that a step deletes or replaces."""

Arrived = Mapping[str, tuple[Batch | None, Deleted]]
"""What a step brings to each stream: the rows accepted, and those that end."""

NONE_DELETED: Deleted = (NOTHING, NOTHING)


class Comparing(Protocol):
    """How a stream's columns are compared with the constants of a query, in float64."""

    def fits(self, column: str, exact: bool) -> bool:
        """Whether comparing this column with a number is exact in float64; `exact`: the number is a float64."""

    def number_of(self, column: str, text: str) -> float | None:
        """Return the number that stands for a text in this column; None where it has no texts."""

    def epoch_of(self, column: str, text: str) -> int:
        """Return since when the number stands for the text: families with texts of different epochs are apart."""


class Step(NamedTuple):
    """One step, as a family sees it."""

    batches: Sequence[tuple[int, Batch]]  # the rows accepted, each batch with the number of its stream
    mark: Any  # by place of the only stream's rows: 1 for those whose columns must be put aside
    horizons: Horizons | Mapping[Window, Recency]
    deleted: Deleted = NONE_DELETED

    @property
    def batch(self) -> Batch | None:
        """The rows, where there is one stream."""
        return self.batches[0][1] if self.batches else None


class Host(Protocol):
    """What a monitor is to its streams and watches."""

    time: Any
    time_unit: Any
    key: Any
    schema: Any
    retain: Window | None
    max_ahead: Any
    lists_only: bool
    share: tuple[int, int] | None
    _next_seq: int
    _now: int | None
    _advanced: int | None
    _pending: Any
    _kind: Kind | None

    @property
    def streams(self) -> Mapping[str, Any]: ...
    @property
    def joints(self) -> Mapping[str, Any]: ...
    @property
    def watches(self) -> Mapping[str, Any]: ...
    @property
    def journal(self) -> Any: ...
    @property
    def _report(self) -> Any: ...
    def _time_type(self) -> tuple[Kind | None, pa.DataType]: ...
    @property
    def rows_seen(self) -> int: ...
    @property
    def now(self) -> Any: ...
    def declared(self, stream: str) -> pa.Schema | None: ...
    def max_ahead_of(self, stream: str) -> Last | None: ...


class Streamed(Protocol):
    """What a stream is to its watches and families."""

    name: str
    accepted: int
    kept: Kept
    retained: Retained

    @property
    def monitor(self) -> Host: ...
    @property
    def time(self) -> str | None: ...
    @property
    def schema(self) -> pa.Schema | None: ...
    @property
    def watches(self) -> Sequence[Any]: ...
    @property
    def review(self) -> Any: ...
    def horizon(self, window: Window) -> Recency: ...
    def _full_from(self, window: Window, begun: Recency) -> Recency: ...
    def beginning(self) -> Recency: ...
    def known_from(self) -> Recency: ...
    def allow(self, window: Window) -> None: ...
    def must_know(self, window: Any, beginning: Recency) -> None: ...
    def rows_in(self, window: Window, beginning: Recency) -> int | None: ...
    def words(self, recency: Recency) -> str: ...
    def also_kept(self) -> dict[str, int]: ...
    def door(self) -> Door: ...
    def fits(self, column: str, exact: bool) -> bool: ...
    def number_of(self, column: str, text: str) -> float | None: ...
    def epoch_of(self, column: str, text: str) -> int: ...
    def is_double(self, column: str) -> bool: ...
    def refill(self, watch: Any) -> None: ...
    def detach(self, watch: Any) -> None: ...
    def watch_windows(self) -> None: ...


class Watched(Protocol):
    """What a watch is to its family."""

    name: str
    query: Any
    k: int | None
    window: Window
    beginning: Recency
    growing: list[tuple[Recency, int]]
    choice: Choice
    group: Any
    slot: int

    @property
    def capacity(self) -> int: ...
    @property
    def _stream(self) -> Streamed: ...
    def horizon(self, wanted: Window | None = None) -> Recency: ...
    def ranks(self, horizon: Recency) -> int | None: ...
    def needs(self) -> set[str]: ...


class Family(ABC):
    """Watches that share state: the one contract for every kind of question.

    `step` expires, deletes, inserts, and only then compares answers: to report inside removal or insertion would name
    rows that were in no answer.
    """

    key: Any  # queries with equal keys are one family
    sign: float  # 1.0 where the greatest score is best, else -1.0
    timed: bool = True  # whether the stream has event times
    windowed: bool  # keeps the rows of the window
    patient: bool = False  # its kernels run as plain Python until they are compiled (stand_in.py)
    oldest: Recency = LOWEST  # the oldest horizon of all watches at the last step
    used: tuple[str, ...]  # columns that scores and predicates read
    watches: Sequence[Watched]
    algorithm_name: str
    options: dict[str, float]
    algorithm: Any
    answers: Answers  # as they were reported last

    @abstractmethod
    def attach(self, watch: Any) -> None:
        """A watch comes: give it a slot."""

    @abstractmethod
    def detach(self, watch: Any) -> None:
        """A watch goes."""

    @abstractmethod
    def update(self, watch: Any) -> None:
        """The watch has another k or window."""

    @abstractmethod
    def refill(self, slot: int, batch: Batch, stream: int = 0) -> Ints:
        """Take in retained rows that the slot hasn't; return the seqs of the rows it needs the columns of."""

    @abstractmethod
    def step(self, step: Step) -> Changes | None:
        """Run one step; return what it did to the answers."""

    def reported(self, watch: Any) -> Entries:
        """The watch's answer as it was reported last."""
        return self.answers.of(self.watches.index(watch))

    @abstractmethod
    def top(self, slot: int, k: int | None, horizon: Recency) -> Entries:
        """Return the first k entries from a horizon on; all of them for None."""

    def tops(self, asked: Sequence[tuple[int, int | None, Recency]]) -> list[Entries]:
        """Return the answers to many (slot, k, horizon)."""
        return [self.top(*each) for each in asked]

    @abstractmethod
    def dump(self) -> dict[str, Any]:
        """State as plain data, arrays and tables."""

    @abstractmethod
    def load(self, blob: dict[str, Any], watches: list[Any], slots: list[int]) -> None:
        """Continue from what `dump` gave, with these watches in their slots."""

    @abstractmethod
    def _check(self) -> None:
        """Every invariant."""

    # -- what most families don't need ---------------------------------------------------------------------

    def live_seqs(self) -> Ints:
        """Return the rows whose selected columns must be at hand."""
        return NOTHING

    def columns(self) -> tuple[str, ...]:
        """Return the columns whose values the index has, for all rows of the window."""
        return ()

    def values(self, seq: Ints) -> tuple[Floats, ...]:
        """Return those columns of some rows."""
        return ()

    def cast_to(self, schema: pa.Schema) -> dict[str, Any] | None:
        """Return the state in the types of a schema, or None if nothing differs; an error if that can't be had."""
        return None

    def cast(self, schema: pa.Schema) -> None:  # noqa: B027
        """Columns have other types now."""

    # -- what explain shows --------------------------------------------------------------------------------

    def exact(self, slot: int) -> bool:
        """Whether the slot's answers are exact."""
        return bool(self.algorithm.card.exact)

    def certain(self, watch: Any) -> bool:
        """Whether the watch's answer now is certainly exact."""
        return self.exact(watch.slot)

    def bound(self, watch: Any) -> str | None:
        """Return how many rows an approximate answer may miss."""
        return None

    def certified(self, watch: Any) -> tuple[int, int] | None:
        """Return how many of how many answers of an approximate family were certified."""
        return None

    def metadata(self, watch: Any, k: int | None, horizon: Recency, answer: Entries) -> dict[str, str] | None:
        """Return what an answer's table says about itself."""
        return None

    def notes(self) -> list[str]:
        """Return what else there is to say."""
        return []

    def also_kept(self) -> dict[str, int]:
        """Return what all watches of the family need together, in bytes."""
        return {}
