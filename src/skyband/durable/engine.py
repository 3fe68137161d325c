"""The engine: one step after the other, written before it is taken, answered when it is on disk.

Callers come from any thread. Each puts its step into a queue; the thread that gets the commit lock writes all that
waits there and flushes once (*group commit*), the others find their step done. While one group is taken by the monitor
the next may already be on its way to the disk: the turn lock is taken before the commit lock is given back, so groups
are taken in the order in which they were written. The state is locked for one step at a time, and fairly (`turnstile`):
a reader waits for one step and not for a group.

Blocking calls do this work in their own thread. `submit` leaves it to two threads of the engine, started at first use.

A step that the monitor refuses (a column of the wrong type, a name that is taken) keeps its offset and changes
nothing; repeated from the journal it is refused again, in the same way. A step that fails for no such reason (memory,
a bug) may have changed half of the state: the engine then refuses everything until the folder is opened again.
"""

from __future__ import annotations

import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from skyband.core.errors import InputError, JournalError, SkybandError
from skyband.durable import task as tasks
from skyband.durable.files import Files
from skyband.durable.history import History, Step
from skyband.durable.keeper import Keeper, put_together
from skyband.durable.keys import Answer, KeyReused, Keys
from skyband.durable.replay import agree, task_of
from skyband.durable.settings import Settings
from skyband.durable.task import Receipt, Task, Unread
from skyband.durable.turnstile import Turnstile
from skyband.query.model import Query, Window

if TYPE_CHECKING:
    from skyband.engine.monitor import Monitor
    from skyband.engine.watch import Watch

log = logging.getLogger("skyband")

WORKERS = 2  # one writes while the other's steps are taken


class Engine:
    """A monitor whose steps are numbered, written down and answered one by one.

    `monitor` is a fresh one; if `folder` holds a journal it continues from there, and its options must be those that
    the journal began with (or none). Without a folder all is the same but for the disk. `fresh` may set what holds in
    folders that begin now and not in older ones.
    """

    def __init__(
        self,
        monitor: Monitor,
        folder: str | os.PathLike[str] | None = None,
        settings: Settings | None = None,
        files: Files | None = None,
        fresh: Callable[[Monitor], None] | None = None,
    ) -> None:
        if monitor.journal is not None:
            raise InputError("This monitor has a journal already: make another.")
        self.monitor = monitor
        self.settings = settings or Settings()
        self.folder = None if folder is None else Path(folder).absolute()
        self.history = History(self.settings.history_steps, self.settings.history_changes)
        self.keys = Keys(self.settings.keys)
        self.report: list[str] = []  # what was amiss when the folder was opened
        self._keeper: Keeper | None = None
        self._offset = self._numbered = 0
        self._queue: deque[Task] = deque()
        self._under_way: dict[str, Task] = {}  # by key
        self._guard = threading.Lock()  # over the two above
        self._commit = threading.Lock()
        self._turn = threading.Lock()
        self._state = Turnstile()
        self._work = threading.Semaphore(0)
        self._workers: list[threading.Thread] = []
        self._subscribers: list[Callable[[Step], None]] = []
        self._nothing = monitor.no_changes()  # for callers that need a table and don't hold the state
        self._closed = False
        self._broken: str | None = None
        self._never: list[int] = []  # steps that were written, and must not be taken
        self._fresh = fresh or (lambda monitor: None)
        if self.folder is None:
            self._fresh(monitor)
        else:
            self._keeper = Keeper(self.folder, self.settings, files or Files())
            try:
                self._load(self._keeper, used=bool(monitor.watches or monitor.rows_seen))
            except BaseException as error:
                self._keeper.close()
                if isinstance(error, OSError):
                    said = error.strerror or error
                    raise JournalError(
                        f"{self._called()} can't be opened ({said}): see to the disk."
                    ) from None
                raise
        monitor.journal = self

    # -- asking for a step ---------------------------------------------------------------------------------

    def push(
        self,
        batch: Any,
        stream: str | None = None,
        key: str | None = None,
        unread: Unread | None = None,
        strict: bool | None = None,
    ) -> Receipt:
        """Rows come; returns when they are on disk and taken.

        `batch` is what Monitor.push takes, or the bytes of an Arrow IPC stream, which go to the journal as they are.
        `key`: the client's own name for this batch; sent again under the same one it is not taken twice.
        `unread`: rows that couldn't be read at all, by position: what is wrong with each, and its text.
        `strict`: see Monitor.push. A step carries whether it was, so it is repeated as it was taken.
        """
        return self._now(self._pushed(batch, stream, key, unread, strict))  # type: ignore[no-any-return]

    def submit(
        self,
        batch: Any,
        stream: str | None = None,
        key: str | None = None,
        unread: Unread | None = None,
        strict: bool | None = None,
    ) -> Future[Receipt]:
        """As `push`, without waiting. The future can't be cancelled: its step may be on its way."""
        step = self._enter(self._pushed(batch, stream, key, unread, strict))
        self._later()
        return step.future

    def _pushed(self, batch: Any, stream: Any, key: Any, unread: Unread | None, strict: bool | None) -> Task:
        name = stream if isinstance(stream, str) else None
        strict = self.monitor.is_strict(name) if strict is None else strict
        return tasks.push(batch, stream, key, unread, strict, self.monitor.index_columns(name))

    def advance(self, time: Any, force: bool = False) -> Receipt:
        """Time passes without rows; `force`: however far."""
        return self._now(tasks.advance(time, force))  # type: ignore[no-any-return]

    def restart(self, stream: str | None = None) -> Receipt:
        """Let a stream begin again."""
        return self._now(tasks.restart(stream))  # type: ignore[no-any-return]

    def watch(self, query: str | Query, name: str | None = None) -> Watch:
        """Ask once; from then on the answer is kept, through restarts too."""
        return self._now(tasks.watch(query, name))  # type: ignore[no-any-return]

    def drop(self, name: str) -> None:
        """Watch no longer."""
        self._named(name)
        self._now(tasks.drop(name))

    def change(self, name: str, k: int | None = None, window: str | Window | None = None) -> None:
        """Another k or window of a watch."""
        self._named(name)
        self._now(tasks.change(name, k, window))

    def set_stream(self, name: str, settings: Mapping[str, Any]) -> int:
        """Set a stream's own settings, as plain data (see engine/stream_settings.py); return the step's offset."""
        task = tasks.set_stream(name, settings)
        self._now(task)
        return task.offset

    def _named(self, name: Any) -> None:
        names = list(self.monitor.watches)
        if name not in names:
            raise InputError(f'There is no watch "{name}"; there are {", ".join(names) or "none"}.')

    # -- reading -------------------------------------------------------------------------------------------

    @property
    def offset(self) -> int:
        """The number of the last step taken; 0 before the first."""
        return self._offset

    @contextmanager
    def reading(self) -> Iterator[Monitor]:
        """The monitor between two steps; none is taken meanwhile, so be quick."""
        with self._state:
            if self._broken:
                raise self._stopped()
            yield self.monitor

    def changes_since(self, offset: int) -> list[Step]:
        """Return the steps after this offset that changed an answer or a query; Forgotten if some are gone."""
        with self.reading():
            return self.history.since(offset)

    def unready(self) -> str | None:
        """Why no step can be taken now, if none can: it is closed or broken, or the disk takes nothing."""
        if self._closed or self._broken:
            return str(self._stopped())
        return None if self._keeper is None else self._keeper.folder.journal.refusal()

    @property
    def oldest(self) -> int:
        """The earliest offset that `changes_since` can be asked for."""
        return self.history.first

    @property
    def waiting(self) -> int:
        """How many steps wait to be written."""
        return len(self._queue)

    def subscribe(self, callback: Callable[[Step], None]) -> Callable[[], None]:
        """Call back after every step, in the thread that takes it, before the next: be quick and don't push.

        Returns how to end it. Within `reading` what is read there and the first step called back leave no gap.
        """
        with self.reading():
            self._subscribers = [*self._subscribers, callback]

        def end() -> None:
            with self._state:
                self._subscribers = [other for other in self._subscribers if other is not callback]

        return end

    # -- taking steps --------------------------------------------------------------------------------------

    def _enter(self, task: Task) -> Task:
        """Put a step into the queue; a batch that came before gets its first answer instead."""
        if self._broken:
            self._heal()
        with self._guard:
            if self._closed or self._broken:
                raise self._stopped()
            if task.key is not None:
                answer = self.keys.get(task.key)
                first = self._under_way.get(task.key)
                task.taken = answer is not None or first is not None
                if answer is not None:
                    task.future.set_result(self._again(task, answer))
                    return task
                if first is not None:
                    first.future.add_done_callback(lambda done: self._follow(task, done))
                    return task
                self._under_way[task.key] = task
            self._queue.append(task)
        return task

    def _again(self, task: Task, answer: Answer) -> Receipt:
        """Return the first answer of a batch that was sent twice."""
        if task.rows != answer.rows:
            raise KeyReused(
                f'The key "{task.key}" was used for another batch, of {answer.rows} rows (offset {answer.offset}) and '
                f"not {task.rows}: give every batch a key of its own."
            )
        step = self.history.at(answer.offset)
        changes = self._nothing if step is None else step.changes
        return Receipt(*answer, changes=changes, repeated=True)

    def _follow(self, task: Task, first: Future[Receipt]) -> None:
        error = first.exception()
        try:
            if error is not None:
                raise error
            receipt = first.result()
            answer = Answer(
                receipt.rows, receipt.rejected, receipt.first_seq, receipt.offset, receipt.changed
            )
            task.future.set_result(self._again(task, answer))
        except BaseException as problem:
            task.future.set_exception(problem)

    def _now(self, task: Task) -> Any:
        """Take a step: do what waits, in this thread, until it is done."""
        self._enter(task)
        while not task.taken:
            self._drive(task)
        return task.future.result()

    def _later(self) -> None:
        """Let a thread of the engine do what waits."""
        if not self._workers:
            with self._guard:
                if not self._workers:
                    names = [f"skyband-engine-{number}" for number in range(WORKERS)]
                    self._workers = [threading.Thread(target=self._serve, name=n, daemon=True) for n in names]
                    for worker in self._workers:
                        worker.start()
        self._work.release()

    def _serve(self) -> None:
        while True:
            self._work.acquire()
            if self._closed:
                return
            try:
                self._drive()
            except BaseException:
                log.exception("a step failed inside")

    def _drive(self, wanted: Task | None = None) -> None:
        """Write all that waits, flush once, and take it."""
        group: list[Task] = []
        mine = False  # the turn
        try:
            with self._commit:
                if wanted is not None and wanted.taken:
                    return  # by another thread, while this one waited for the lock
                group = self._group()
                if not group:
                    return
                self._write(group)
                mine = self._turn.acquire()
            for task in group:
                self._take(task)
            self._keep()
        except JournalError as error:
            self._fail(group, error)
        except BaseException as error:
            self._break(group, error)
            raise
        finally:
            if mine:
                self._turn.release()
            if self._broken:
                self._heal()

    def _group(self) -> list[Task]:
        """Return what waits, up to so many bytes."""
        group: list[Task] = []
        size = 0
        with self._guard:
            while self._queue and (not group or size + self._queue[0].size <= self.settings.group_bytes):
                group.append(self._queue.popleft())
                group[-1].taken = True
                size += group[-1].size
        return group

    def _write(self, group: list[Task]) -> None:
        """Give the steps their numbers and bring them to the disk."""
        if self._keeper is not None:
            self._keeper.append(group)
            return
        for task in group:
            self._numbered += 1
            task.offset = self._numbered

    def _fail(self, group: list[Task], error: BaseException) -> None:
        waiting = [task for task in group if not task.future.done()]
        with self._guard:
            for task in waiting:
                if task.key is not None:
                    self._under_way.pop(task.key, None)
        for task in waiting:
            task.future.set_exception(error)

    def _take(self, task: Task) -> None:
        """One step, between two readers."""
        with self._state:
            try:
                if self._broken:
                    self._never.append(task.offset)
                    raise self._stopped()
                result, step = self._apply(task)
            except SkybandError as error:
                self._fail([task], error)
                return
            for callback in self._subscribers:
                try:
                    callback(step)
                except Exception:
                    log.exception("a subscriber failed")
        with self._guard:
            if task.key is not None:
                self._under_way.pop(task.key, None)
        task.future.set_result(result)

    def _apply(self, task: Task) -> tuple[Any, Step]:
        """Let the monitor take a step, and remember what came of it."""
        monitor = self.monitor
        first_seq = monitor.rows_seen
        monitor.begin_step()
        try:
            result: Any = getattr(monitor, f"_{task.kind}")(*task.given)
        finally:
            self._offset = task.offset
        changes = result if isinstance(result, pa.Table) else monitor.no_changes()
        if task.kind == "watch":
            task.name = result.name
        step = Step(task.offset, task.kind, changes, task.name, task.rows)
        self._nothing = changes.slice(0, 0)
        if task.kind in ("push", "advance", "restart"):
            # of its own rows: it may also reject rows that waited
            rejected = sum(reject.seq >= first_seq for reject in monitor.step_rejects)
            answer = Answer(task.rows, rejected, first_seq, task.offset, changes.num_rows)
            if task.key is not None:
                self.keys.add(task.key, answer)
            result = Receipt(*answer, changes=changes, notices=(*monitor.step_notices,))
        self.history.add(step)
        return result, step

    def _break(self, group: list[Task], error: BaseException) -> None:
        """It ended in the middle: what was written and not answered is left out, for half of a step may be done."""
        waiting = [task for task in group if not task.future.done()]
        last = self._numbered if self._keeper is None else self._keeper.last
        written = [task.offset for task in waiting if 0 < task.offset <= last]
        said = f"{type(error).__name__}: {error}".split("\n")[0][:200]
        if written:
            self._never += written
            self._broken = (
                f"{self._called()} stopped in the middle of step {written[0]} ({said}): open it again."
            )
        self._fail(waiting, JournalError(self._broken or f"{self._called()} was interrupted ({said})."))

    def _stopped(self) -> JournalError:
        return JournalError(self._broken or f"{self._called()} is closed: open it again.")

    def _heal(self) -> None:
        """After a step that ended in the middle: leave it out for good, and rebuild the state from the disk."""
        keeper = self._keeper
        if keeper is None:
            return
        with self._commit, self._turn, self._state:
            if not self._broken or self._closed:
                return
            try:
                keeper.wait()
                keeper.leave_out(self._never)
                self.monitor._known = self.monitor.watches  # a watch that is held stays the same object
                self._load(keeper)
            except Exception as error:
                log.error("%s It could not be rebuilt: %s", self._broken, error)
                return
            finally:
                self.monitor._known = {}
            log.error("%s It was rebuilt from the disk, without that step.", self._broken)
            self._broken, self._never = None, []

    # -- opening and snapshots -----------------------------------------------------------------------------

    def _load(self, keeper: Keeper, used: bool = False) -> None:
        """Make the state from the newest snapshot and the steps since; a new folder begins with the monitor's own."""
        content, report = keeper.load()
        if content is None:
            self._fresh(self.monitor)
            keeper.begin(self._content())
        else:
            own = content["journal"]
            if used:
                raise InputError(
                    f"The journal {keeper.folder.path} has begun, and this monitor was used already: make a fresh one."
                )
            agree(self.monitor.options(), content, keeper.folder.path)
            self.monitor._fill(content)
            self._offset = own["offset"]
            self.keys.load(own["keys"])
            self._nothing = self.monitor.no_changes()
            self.history.load(own["history"], self._nothing)
        notices = self.monitor._notices
        notices.silent = True  # they were logged when the steps came
        for found, body in keeper.steps(self._offset, report):
            try:
                self._apply(task_of(found, body))
            except SkybandError:
                pass  # it was refused when it came, too
            except Exception as error:
                raise JournalError(
                    f"Step {found.offset} of the journal {keeper.folder.path} can't be taken again "
                    f"({type(error).__name__}: {error}): use the version of skyband that wrote it."
                ) from error
        notices.silent = False
        self._offset = keeper.last
        keeper.folder.drop_damaged()
        self.report += report
        for line in report:
            log.warning("%s", line)

    def _keep(self) -> None:
        """A snapshot, if it is time for one. That it fails is no reason to fail a step."""
        if self._keeper is None or not self._keeper.due():
            return
        try:
            with self._state:
                if not self._broken:
                    self._keeper.snapshot(self._offset, self._copy)
        except Exception:
            log.exception("the journal %s: no snapshot", self.folder)

    def _copy(self) -> dict[str, Any]:
        """Return what a snapshot holds; parts that never change may be put together later."""
        own = {"offset": self._offset, "keys": self.keys.dump(), "history": self.history.dump()}
        return {**self.monitor.dump(), "journal": own}

    def _content(self) -> dict[str, Any]:
        content = self._copy()
        content["journal"] = put_together(content["journal"])
        return content

    def snapshot(self) -> None:
        """Write a snapshot now, and return when it is on disk."""
        keeper = self._keeper
        if keeper is None:
            raise InputError("An engine in memory has no folder for a snapshot: use Monitor.save.")
        keeper.wait()
        with self._turn, self._state:
            if self._broken:
                raise self._stopped()
            keeper.snapshot(self._offset, self._copy, wait=True)
        if keeper.failed:
            raise JournalError(keeper.failed)

    def _called(self) -> str:
        return "The engine" if self.folder is None else f"The journal {self.folder}"

    @property
    def snapshot_stall(self) -> float:
        """For how many seconds the last snapshot held up the steps."""
        return 0.0 if self._keeper is None else self._keeper.stall

    @property
    def snapshot_bytes(self) -> int:
        """How long the last snapshot was that this process wrote."""
        return 0 if self._keeper is None else self._keeper.snapshot_size

    # -- ending --------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Let go of the folder much as a kill does: without a snapshot of the end, and waiting steps are not taken."""
        self._closed = True
        if self._keeper is not None:
            self._keeper.close()

    def close(self) -> None:
        """Finish what waits, write a snapshot, and let go of the folder."""
        with self._guard:
            if self._closed:
                return
            self._closed = True  # from here on nothing comes into the queue
        while self._queue:
            self._drive()
        for _ in self._workers:
            self._work.release()
        for worker in self._workers:
            if worker is not threading.current_thread():
                worker.join()
        keeper = self._keeper
        if keeper is None:
            return
        with self._commit, self._turn:
            try:
                keeper.wait()
                if not self._broken and not keeper.fresh:
                    with self._state:
                        keeper.snapshot(self._offset, self._copy, wait=True)
            finally:
                keeper.close()
