"""The engine of one embedded collection, which several processes use in turns.

One process at a time has the engine open: this is its turn (``turns``). If another process waits, the first process
closes the engine when it is idle or has used the engine for a while, and opens the engine again for its next call.
Between two calls, the store is consistent: if the process is killed at such a moment, the next writer can go on.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from typing import Any

import qdrant_edge as edge

from twinvec.errors import StoreCorruptError, StoreError, StoreUnavailableError, TwinvecError
from twinvec.interrupts import raise_of_handler
from twinvec.support.atomic import is_disk_full
from twinvec.support.cpu import interpreter_ends
from twinvec_qdrant.stores.base import CollectionGoneError, Damage, closed_error
from twinvec_qdrant.stores.conditions import Conditions, field_is
from twinvec_qdrant.stores.embedded.checksums import Checksums, named_files, times_tell
from twinvec_qdrant.stores.embedded.folder import REMEDY, CollectionFolder, too_many_files
from twinvec_qdrant.stores.embedded.index_build import LastBuild
from twinvec_qdrant.stores.embedded.reading_copy import ReadingCopy
from twinvec_qdrant.stores.embedded.repair.contents import Contents, loss_after_kill, read_contents
from twinvec_qdrant.stores.embedded.repair.expected_records import ExpectedRecords, read_expected
from twinvec_qdrant.stores.embedded.repair.salvage import noted
from twinvec_qdrant.stores.embedded.repair.salvage_worker import load_shard
from twinvec_qdrant.stores.embedded.repair.undo import undone_if_refused
from twinvec_qdrant.stores.embedded.room import OPEN_ROOM, Obstacle, check_room, lacking_room, opening_room
from twinvec_qdrant.stores.embedded.turns import Turns
from twinvec_qdrant.stores.embedded.values import counted, edge_filter, index_types
from twinvec_qdrant.stores.points import PAGE, payload_selector
from twinvec_qdrant.stores.served_tests import fitted

logger = logging.getLogger(__name__)

TURN_SECONDS = 0.25
"""A busy process keeps its turn at least this long.

If opening the engine took long, the process keeps its turn for four times that long, but at most for half of
``wait_seconds``: other processes are assumed to wait as long as this one."""

_IDLE_SECONDS = 0.05
_KINDS = ("chunk", "record", "note")


class SharedEngine:
    """The engine of a collection; ``start`` begins the first turn, and ``end`` closes it for good."""

    damage: Damage | None = None

    def __init__(self, folder: CollectionFolder, turns: Turns, wait_seconds: float, *, repairs: bool) -> None:
        self.location = str(folder.path)
        self.writer = WriterLock(turns, wait_seconds, self._check_writable)
        self._original = self._folder = folder  # ``_folder`` is the folder of the copy, if a copy is used
        self._copy: ReadingCopy | None = None
        self._repairs = repairs
        self._turns = turns
        self._wait_seconds = wait_seconds
        self._opened: edge.EdgeShard | None = None  # the engine, while this process has the turn
        self._known: Checksums | None = None  # checksums of the last close, if the files have not changed until now
        self._is_changed = False  # whether anything was written since the last close
        self._expected = ExpectedRecords(folder.shard)
        self._turn = threading.RLock()  # held by one thread at a time; the engine holds the interpreter lock anyway
        self._calls = 0  # number of nested calls
        self._began = self._ended = 0.0  # start of the turn, end of the last call
        self._least = TURN_SECONDS
        self._vectors = 0  # number of vectors at ``_count_from_now``
        self._is_closed = threading.Event()
        self._is_abandoned = False
        self._identity: tuple[int, int] | None = None  # identity of the folder, set by ``start``

    def start(self, create: Callable[[], None] | None) -> None:
        """Begin the first turn, and start to give turns to other processes; ``create`` makes the files if missing."""
        self._begin(create)
        self._identity = self._original.identity()
        if not interpreter_ends():  # otherwise closing gives the turn
            threading.Thread(target=self._give_when_idle, name="twinvec-turns", daemon=True).start()

    def _begin(self, create: Callable[[], None] | None = None) -> None:
        """Take the turn, check the files and open the engine, unless this process already has it open.

        If the files cannot be opened in place, open a copy, which needs no turn; see ``reading_copy``.

        Raise ``StoreBusyError`` if other processes do not end their turns in time, ``StoreCorruptError`` if files are
        damaged, and ``StoreError`` if this backend was closed or its folder has been removed.
        """
        with self._turn:
            self._check_open()
            if self._copy is not None and not self._calls and self._copy.is_outdated():
                self._leave_copy()
            if self._opened is not None:
                return
            if self._copy is not None:
                self._open(was_given=True, is_alone=False)
            elif (obstacle := self._obstacle()) is not None:
                self._begin_on_copy(obstacle)
            else:
                self._begin_in_place(create)

    def _obstacle(self) -> Obstacle | None:
        """Return the obstacle to opening the files in place; None if there is no obstacle, or if no file exists.

        Files that another process has open look like files after a kill, whose opening needs more room. If an obstacle
        is found in such files, this process therefore waits until they are closed, and looks again.
        """
        if not self._original.exists() or (obstacle := self._original.obstacle()) is None:
            return None
        if self._copy is not None or self._original.closed.is_file():
            return obstacle
        with self._turns.held(self._wait_seconds):
            return self._original.obstacle()

    def _begin_in_place(self, create: Callable[[], None] | None) -> None:
        was_given = self._turns.take(self._wait_seconds, self._check_open)
        start = time.monotonic()
        try:
            is_alone = not self.writer.depth and self._turns.may_write()
            self._folder.settle(was_given=was_given, alone=is_alone)
            if create is not None and not self._folder.exists():
                create()
            self._open(was_given=was_given, is_alone=is_alone)
        except BaseException:
            self._opened = None
            self._turns.give(is_settled=was_given)
            raise
        self._turns.opened()
        self._began = self._ended = time.monotonic()
        self._least = max(TURN_SECONDS, min(4 * (self._began - start), self._wait_seconds / 2))

    def _begin_on_copy(self, obstacle: Obstacle) -> None:
        if self._repairs or self.writer.depth:  # nobody can write to a copy
            raise obstacle.error(self.location)
        with self._turns.held(self._wait_seconds) as was_given:
            self._copy = ReadingCopy(self._original, obstacle.reason)
        self._folder = self._copy.folder
        try:
            self._open(was_given=was_given, is_alone=False)
        except BaseException:
            self._leave_copy()
            raise

    def _leave_copy(self) -> None:
        if self._copy is not None:
            self._opened, self._folder = None, self._original
            self._copy.remove()
            self._copy = None

    def give(self) -> None:
        """Close the engine and end the turn, if this process has it; remove the copy, if a copy is open."""
        with self._turn:
            if self.is_gone():
                self.abandon()
                return
            self._leave_copy()
            if self._opened is None:
                return
            is_closed = False
            try:
                self._turns.closing()
                with engine_errors(self.location, "close"):
                    self._note_close()
                is_closed = True
            except StoreUnavailableError as error:
                if not is_disk_full(error):
                    raise
                logger.warning(
                    "%s: the disk is full, so no checksums were written at the close; nothing is lost, and the next "
                    "opening reads the engine's log again",
                    self.location,
                )
            finally:
                self._opened = None
                self._turns.give(is_settled=is_closed)

    def end(self) -> None:
        """Close the engine for good, and leave the collection to other processes."""
        self._is_closed.set()
        try:
            self.give()
        finally:
            self._turns.leave()
            self._identity = None

    def is_gone(self) -> bool:
        """Return whether the folder that this process has opened was removed or replaced, even if it is back by now."""
        if self._is_abandoned:
            return True
        identity = self._identity  # read once: another thread may close the collection meanwhile
        if identity is None or self._copy is not None:  # copies are compared with their originals elsewhere
            return False
        try:
            return self._original.identity() != identity
        except OSError:  # the identity is unknown, for example on a share that does not answer
            return False

    def abandon(self) -> None:
        """Release the locks of a folder that is gone, and write nothing to a folder that has replaced it."""
        with self._turn:
            self._is_closed.set()
            self._is_abandoned = True
            self._leave_copy()
            self._opened = None
            self._turns.abandon()

    def _check_there(self) -> None:
        if self.is_gone():
            self.abandon()
            raise CollectionGoneError(self.location)

    def _check_open(self) -> None:
        self._check_there()
        if self._is_closed.is_set():
            raise closed_error(self.location)

    def _check_writable(self) -> None:
        """Raise ``StoreUnavailableError`` if the files cannot be written; close the copy if they now can."""
        with self._turn:
            self._check_open()
            if self._copy is not None or self._opened is None:
                if (obstacle := self._obstacle()) is not None:
                    raise obstacle.error(self.location)
                self._leave_copy()
            else:
                check_room(self._original.path, OPEN_ROOM)

    def reads_copy(self) -> bool:
        """Open the engine, and return whether it reads a copy, to which nobody can write."""
        with self._turn:
            self._check_open()
            place, shard = self._original.path, self._original.newest_shard()
            needed = opening_room(shard, place, is_clean=True) + OPEN_ROOM  # to close it, and to open it again
            is_full = self._copy is None and lacking_room(place, needed, "open it") is not None
            if is_full and not self._calls and not self.writer.depth:
                self.give()  # the engine was opened before the disk was full
            self._begin()
            return self._copy is not None

    @contextmanager
    def at_rest(self) -> Iterator[CollectionFolder]:
        """Yield the folder while the engine is closed and no other process has the turn, so that no file changes.

        If the disk has no room for the checksums of a close, yield the folder of a copy.
        """
        with self._turn:
            self._begin()
            is_closed = False
            try:
                try:
                    self._close_at_rest()
                except StoreUnavailableError as error:
                    if self._copy is not None or not is_disk_full(error):
                        raise
                    self._opened = None
                    self._turns.give(is_settled=False)
                    self._begin()
                    self._close_at_rest()
                is_closed = True
                yield self._folder
            finally:
                self._opened = None
                self._turns.give(is_settled=is_closed)

    def _close_at_rest(self) -> None:
        self._turns.closing()
        with engine_errors(self.location, "close"):
            self._note_close(at_rest=True)
        self._opened = None

    def flush(self) -> None:
        with self._turn, engine_errors(self.location, "write"):
            # a closed engine has all writes on the disk; an open engine has some in its log only
            if self._opened is not None:
                self._opened.flush()
                self._expected.flushed()

    @property
    def _shard(self) -> edge.EdgeShard:
        """The open engine; only within ``_locked``."""
        assert self._opened is not None
        return self._opened

    def _open(self, *, was_given: bool, is_alone: bool) -> None:
        """Check the files, and open the engine on them.

        ``was_given`` is False if the last turn ended by a kill, or was a turn of an older version of twinvec.
        """
        folder, where = self._folder, self.location
        if not folder.exists():
            raise StoreUnavailableError(f"{where}: the collection has been removed by another process")
        known, before = folder.checksums()
        if known is not None:
            folder.check_description(ours=True)
        damaged = known.damaged(folder.shard) if known else before.contradicted(folder.shard) if before else []
        self.damage = noted(folder.shard)
        if self.damage is not None and not self._repairs:
            raise StoreCorruptError(f"{where}: a repair has begun but not ended; {REMEDY}")
        if damaged:
            raise StoreCorruptError(f"{where}: {named_files(damaged)} missing or changed; {REMEDY}")
        # a killed writer leaves unlisted chunks, but no missing ones
        are_listed = before is not None and is_alone
        is_settled = was_given or known is not None
        try:
            with nullcontext() if is_settled or self._copy is not None else undone_if_refused(folder):
                self._load_whole(known, is_settled=is_settled, are_listed=are_listed)
        except BaseException:
            self._close_refused()
            raise

    def _load_whole(self, known: Checksums | None, *, is_settled: bool, are_listed: bool) -> None:
        """Open the engine; if it fails or has lost points, close it and raise ``StoreCorruptError``.

        The engine must find as many points as ``known`` has and, with ``are_listed``, all chunks that the records list.
        Without ``is_settled``, the records must also be in one of the states that were expected before a kill.
        """
        shard = self._folder.shard
        states = read_expected(shard) if known is None else [known.records] if known.records else []
        self._expected = ExpectedRecords(shard, states, states[0] if is_settled and len(states) == 1 else None)
        if known is not None:
            with engine_errors(self.location, "open"):
                self._expected.begin()
        self._folder.mark_opened(known)
        self._known, self._is_changed = known, known is None
        try:
            with engine_errors(self.location, "open", StoreCorruptError):
                self._load()
                self._types = index_types(self._shard.info())
                there = self._counts()
                written = {**there, **known.counts} if known is not None else dict(there)
                is_read = are_listed or not is_settled
                dims = self._folder.dims() if is_read else {}
                contents = read_contents(self._shard, dims) if is_read else Contents()
                if are_listed:
                    written["chunk"] = max(there["chunk"], contents.chunks)
                is_checked = not is_settled and self.damage is None
                loss = loss_after_kill(self._shard, contents, dims, there, states) if is_checked else ""
            if loss:
                raise StoreCorruptError(f"{self.location}: {loss}; {REMEDY}")
            if not is_settled and states:
                self._expected.now = contents.records
            if there != written:
                raise StoreCorruptError(
                    f"{self.location}: holds {_listed(there)}, but {_listed(written)} were written; {REMEDY}"
                )
        except BaseException:
            self._close_refused()
            raise

    def _close_refused(self) -> None:
        if self._opened is not None:
            with suppress(BaseException):  # a panic of the engine is not an Exception
                self._opened.close()
            self._opened = None

    def _note_close(self, *, at_rest: bool = False) -> None:
        """Close the engine, and write checksums unless files have changed and a writer will go on in a later turn."""
        is_last = at_rest or (not self.writer.depth and self._turns.may_write())
        if self._is_changed:
            self._note_written()
        counts = self._counts() if self._is_changed else dict(self._known.counts if self._known else {})
        self._shard.flush()
        self._expected.flushed()
        self._shard.close()
        if is_last or not self._is_changed:
            is_known = not self._is_changed or times_tell(self._folder.path)
            self._folder.write_checksums(counts, self._expected.now, self._known if is_known else None)

    def _load(self) -> None:
        """Open the engine on the folder's files, and count written chunks from now on."""
        self._opened = load_shard(str(self._folder.shard))
        self._count_from_now()

    def _count_from_now(self) -> None:
        self._vectors = self._shard.info().indexed_vectors_count

    def _written(self) -> int:
        """Return how many chunks were written since ``_count_from_now``.

        The engine counts every version of a chunk with words; when it is opened, it counts only the current versions.
        """
        return max(self._shard.info().indexed_vectors_count - self._vectors, 0)

    def _note_written(self) -> None:
        """Add the chunks written since ``_count_from_now`` to the number of written chunks in ``built.json``."""
        last = LastBuild.read(self._folder.shard)
        if last is not None and (written := self._written()):
            with suppress(OSError):  # fails on a full disk, for example; the number only decides when to build again
                replace(last, written=last.written + written).write(self._folder.shard)
        self._count_from_now()

    def _counts(self) -> dict[str, int]:
        return {kind: counted(self._shard, edge_filter([field_is("kind", kind)])) for kind in _KINDS}

    def _page(self, conditions: Conditions, fields: Sequence[str] | None, offset: Any) -> tuple[list[Any], Any]:
        """Return the next page of points, and the offset of the page after it; None after the last page."""
        wanted = edge_filter(fitted(conditions, self._types))
        request = edge.ScrollRequest(offset, PAGE, wanted, payload_selector(fields), False)
        found: tuple[list[Any], Any] = self._shard.scroll(request)
        return found

    def _give_when_idle(self) -> None:
        while not self._is_closed.wait(_IDLE_SECONDS):
            if not self._turn.acquire(blocking=False):
                continue
            try:
                is_idle = self._opened is not None and time.monotonic() - self._ended >= _IDLE_SECONDS
                if is_idle and not self._calls and self._is_wanted():
                    with suppress(StoreError):  # the next call raises the error again
                        self.give()
            finally:
                self._turn.release()

    def _is_wanted(self) -> bool:
        return self._copy is None and self._turns.wanted()

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Keep other threads from the engine; then end the turn if it has been long and another process waits."""
        with self._turn:
            self._begin()
            self._calls += 1
            try:
                yield
            finally:
                self._calls -= 1
                self._ended = time.monotonic()
                if not self._calls and self._ended - self._began >= self._least and self._is_wanted():
                    self.give()

    @contextmanager
    def _locked(self, action: str) -> Iterator[None]:
        """Keep other threads from the engine during one call; raise the engine's errors as twinvec's errors."""
        with self.undisturbed(), engine_errors(self.location, action):
            yield


def _listed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{number} {kind}s" for kind, number in counts.items())


class WriterLock:
    """The lock of a collection's writer: one thread of one process holds it at a time.

    ``depth`` counts nested ``with`` blocks. ``check`` is called before the lock is taken, and may raise.
    """

    def __init__(self, turns: Turns, wait_seconds: float, check: Callable[[], None]) -> None:
        self.depth = 0
        self._turns = turns
        self._wait_seconds = wait_seconds
        self._check = check
        self._thread = threading.RLock()

    def __enter__(self) -> None:
        self._thread.acquire()
        try:
            if not self.depth:
                self._check()
                self._turns.write(self._wait_seconds)
            self.depth += 1
        except BaseException:
            self._thread.release()
            raise

    def __exit__(self, *_: object) -> None:
        self.depth -= 1
        if not self.depth:
            self._turns.end_writing()
        self._thread.release()


@contextmanager
def engine_errors(location: str, action: str, otherwise: type[StoreError] = StoreError) -> Iterator[None]:
    """Raise the engine's exceptions and panics as twinvec's errors, which say that the engine could not ``action``.

    An ``OSError``, a full disk and too many open files become a ``StoreUnavailableError``, all others ``otherwise``.
    An exception that a signal handler or another thread has raised meanwhile, such as that of a task queue's time
    limit, stays as it is.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit, MemoryError, TwinvecError):
        raise
    except BaseException as error:  # a panic of the engine is not an Exception
        raise_of_handler(error)
        if not _can_be_of_engine(error):
            raise
        if isinstance(error, OSError):
            raise StoreUnavailableError(f"{location}: could not {action}: {error.strerror or error}") from error
        kind = StoreUnavailableError if is_disk_full(error) or too_many_files(error) else otherwise
        remedy = f"; {REMEDY}" if kind is StoreCorruptError else ""
        raise kind(f"{location}: the engine could not {action}: {error}{remedy}") from error


def _can_be_of_engine(error: BaseException) -> bool:
    """Return whether the engine raises errors of this class; another thread can raise any error in this one.

    The engine raises ``Exception`` itself, more special classes of Python, and panics. A ``TimeoutError`` of the file
    system has an ``errno``.
    """
    if isinstance(error, TimeoutError):
        return error.errno is not None
    nearest = next(each for each in type(error).__mro__ if each.__module__ == "builtins")
    is_own_class = nearest in (Exception, BaseException) and type(error) is not nearest
    return not is_own_class or type(error).__module__ == "pyo3_runtime"
