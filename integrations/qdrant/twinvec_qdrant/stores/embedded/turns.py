"""Turns: which process has an embedded collection open, and which one writes.

    lock           locked by the process that has the engine open: this process has the turn
    owner          id of the process that has the turn, followed by a line break while it opens or closes the engine,
                   else by a space; empty between turns. Version 0.2.0 writes the id only, and never empties the file.
    turns/users    locked in common by all processes that have the collection open, with or without a turn; the last
                   process removes the folder ``turns``
    turns/wait-*   the ticket of a process that waits for its turn, locked by it; the lowest name gets the next turn
    turns/writer   locked by the process that writes, through all its turns
    turns/pid      id of the process that writes

Qdrant's embedded engine serves one process at a time. A process that has the turn looks regularly whether another
process waits, and then closes the engine (``engine``). The operating system holds the locks, so a kill releases them.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO

from filelock import FileLock, Timeout

from twinvec.errors import StoreBusyError, StoreUnavailableError
from twinvec.support.atomic import is_disk_full
from twinvec_qdrant.serving.process import hidden_note
from twinvec_qdrant.stores.embedded.folder import forget_outdated, has_owner
from twinvec_qdrant.stores.embedded.room import MAKE_ROOM

try:
    import fcntl
except ImportError:  # without flock, nobody notices processes that have the collection open without a turn
    fcntl = None  # type: ignore[assignment]  # mypy knows one platform at a time

logger = logging.getLogger(__name__)

_POLL_SECONDS = 0.01
_SILENT_SECONDS = 1.0  # a longer wait for the writer is logged
# longest wait for a new ticket; another process may lock it for a moment, to see whether its owner was killed
_TICKET_SECONDS = 60.0
_TIMES_AS_LONG = 10  # factor of the wait while another process opens or closes the engine
_OPENS_OR_CLOSES = b"\n"  # these two follow the id in the file ``owner``
_IS_OPEN = b" "
_TICKET = "wait-"
_USERS = "users"


class Turns:
    """The locks of the collection in the folder ``path``, for one process; one thread at a time may use them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._folder = path / "turns"
        self._turn, self._writer = (FileLock(path / name, thread_local=False) for name in ("lock", "turns/writer"))
        self._owner = path / "owner"
        self._writing = self._folder / "pid"
        self._users: IO[bytes] | None = None

    def enter(self, *, needs_room: bool = True) -> None:
        """Count this process among the users of the collection; create the folder of the locks if it is missing.

        If the disk is full, raise ``StoreUnavailableError``; without ``needs_room``, leave the process uncounted.
        """
        try:
            while self._users is None:
                self._folder.mkdir(parents=True, exist_ok=True)
                with suppress(FileNotFoundError):  # the last process has just removed the folder
                    self._users = self._entered()
        except OSError as error:
            if needs_room or not is_disk_full(error):
                raise self._unusable(error) from error

    def leave(self) -> None:
        """Stop counting this process as a user; a second call does nothing."""
        if self._users is not None:
            if fcntl is not None and not self._others():
                # the last process deletes the folder while it holds the lock; a process that waits for it then finds
                # the file gone
                with suppress(OSError):
                    fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(self._folder)
            self._users.close()
            self._users = None

    def abandon(self) -> None:
        """Release the locks of a folder that is gone, without touching files in its place."""
        self._turn.release()
        if self._users is not None:
            self._users.close()
            self._users = None

    @contextmanager
    def alone(self, wait_seconds: float) -> Iterator[bool]:
        """Take the turn when no other process has the collection open; raise ``StoreBusyError`` after the wait.

        Yield whether the last turn ended by ``give``, and not by a kill.
        """
        end = time.monotonic() + wait_seconds
        is_settled = False
        try:
            self.enter(needs_room=False)
            while self._others():
                if time.monotonic() >= end:
                    raise StoreBusyError(
                        f"{self._path}: {_holder(self._owner)} still has the collection open after {wait_seconds:g} s; "
                        "to drop, restore or repair it, end the processes that have it open"
                    )
                time.sleep(_POLL_SECONDS)
            is_settled = self.take(max(end - time.monotonic(), 0), needs_room=False)
            if self._users is None and self._others():
                raise StoreBusyError(f"{self._path}: {_holder(self._owner)} has just opened the collection; try again")
            yield is_settled
            is_settled = True
        finally:
            self.give(is_settled=is_settled)
            self.leave()

    @contextmanager
    def held(self, wait_seconds: float) -> Iterator[bool]:
        """Hold the turn without writing a file; yield whether the last turn ended by ``give``, and not by a kill.

        If no ticket can be written, the process that has the turn does not notice that this process waits.
        """
        patience = _Patience(self._owner, wait_seconds)
        ticket = self._new_ticket()
        try:
            if self._folder.is_dir():
                with suppress(OSError, Timeout):
                    _begin_waiting(ticket)
            with self._read_locked(patience):
                yield not has_owner(self._path)
        finally:
            _end_waiting(ticket)

    @contextmanager
    def _read_locked(self, patience: _Patience) -> Iterator[None]:
        with ExitStack() as stack:
            try:
                file = stack.enter_context(open(self._turn.lock_file, "rb"))
                while not _shares(file):
                    if not patience.is_left():
                        raise self._busy("in use", self._owner, patience.waited(), "use")
                    time.sleep(_POLL_SECONDS)
            except FileNotFoundError:  # no process ever had a turn here
                pass
            except OSError as error:
                raise StoreUnavailableError(f"{self._path}: cannot be read: {error.strerror or error}") from error
            yield

    def _entered(self) -> IO[bytes] | None:
        """Return the open file of users, locked in common; None if the last user has removed it meanwhile."""
        file = open(self._folder / _USERS, "ab")  # noqa: SIM115  # open for as long as the collection is
        if fcntl is None:
            return file
        fcntl.flock(file, fcntl.LOCK_SH)
        if os.fstat(file.fileno()).st_nlink:
            return file
        file.close()
        return None

    def _others(self) -> bool:
        if self._users is None:
            return (self._folder / _USERS).exists()
        if fcntl is None:
            return False
        try:
            fcntl.flock(self._users, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            with suppress(OSError):
                fcntl.flock(self._users, fcntl.LOCK_SH)
        return False

    def take(self, wait_seconds: float, check: Callable[[], None] = lambda: None, *, needs_room: bool = True) -> bool:
        """Take the turn; return whether the last turn ended by ``give``, and not by a kill.

        Processes take their turns in the order of their arrival. Each one waits ``wait_seconds`` for every process
        that has the turn before it, and longer while that process opens or closes the engine: see ``opened`` and
        ``closing``. After the wait, raise ``StoreBusyError``. ``check`` is called again and again, and ends the wait by
        an error. See ``enter`` for ``needs_room``.
        """
        self.enter(needs_room=needs_room)
        patience = _Patience(self._owner, wait_seconds)
        ticket = self._new_ticket()
        try:
            if self._users is not None:
                _begin_waiting(ticket)
            while self._is_behind(ticket) or not _acquires(self._turn, 0):
                check()
                if not patience.is_left():
                    raise Timeout(ticket.lock_file)
                time.sleep(_POLL_SECONDS)
            was_given = not has_owner(self._path)
            forget_outdated(self._path)
            self._note_owner()
        except Timeout:
            raise self._busy("in use", self._owner, patience.waited(), "use") from None
        except OSError as error:
            self._turn.release()
            raise self._unusable(error) from error
        finally:
            _end_waiting(ticket)
        return was_given

    def opened(self) -> None:
        """Show the waiting processes that this process has opened the engine."""
        # one byte is overwritten: on a full disk, a new file would stay empty, which means that the turn has ended
        with suppress(OSError), self._owner.open("r+b") as owner:
            owner.seek(len(str(os.getpid())))
            owner.write(_IS_OPEN)

    def closing(self) -> None:
        """If this process has the turn, show waiting processes that it begins to close the engine, which takes time."""
        if self._turn.is_locked:
            with suppress(OSError), self._owner.open("ab") as owner:
                owner.write(_OPENS_OR_CLOSES)

    def _is_behind(self, ticket: FileLock) -> bool:
        return any(self._waits(each) for each in self._tickets() if each < Path(ticket.lock_file))

    def _note_owner(self) -> None:
        try:
            self._owner.write_bytes(b"%d%b" % (os.getpid(), _OPENS_OR_CLOSES))
        except OSError as error:
            if not is_disk_full(error):
                raise
            with suppress(OSError):
                # a hole in a file needs no room, and a file that is not empty shows that the turn has not ended
                os.truncate(self._owner, 1)

    def _new_ticket(self) -> FileLock:
        return FileLock(self._folder / f"{_TICKET}{time.time_ns():020}-{os.getpid()}", thread_local=False)

    def give(self, *, is_settled: bool = True) -> None:
        """End the turn, if this process has it.

        Without ``is_settled``, the end looks like a kill: the next process lets the engine read its log again.
        """
        if self._turn.is_locked:
            if is_settled:
                with suppress(OSError):  # the folder may have been removed
                    self._owner.write_bytes(b"")
            self._turn.release()

    def wanted(self) -> bool:
        """Return whether another process is known to wait for the turn."""
        try:
            tickets = self._tickets()
        except OSError:  # for example, too many files are open
            return False
        return any(map(self._waits, tickets))

    def _tickets(self) -> list[Path]:
        return sorted(self._folder.glob(f"{_TICKET}*"))

    def _waits(self, ticket: Path) -> bool:
        """Return whether the process with the ticket still waits; remove the ticket of a killed process."""
        lock = FileLock(ticket, thread_local=False)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            return True
        except OSError:
            return False
        ticket.unlink(missing_ok=True)
        lock.release()
        return False

    def write(self, wait_seconds: float) -> None:
        """Become the writer, or raise ``StoreBusyError``. A long wait is logged once."""
        silent_seconds = min(wait_seconds, _SILENT_SECONDS)
        try:
            if not _acquires(self._writer, silent_seconds):
                if wait_seconds > silent_seconds:
                    logger.warning(
                        "%s: waiting for %s, which writes this collection", self._path, _holder(self._writing)
                    )
                self._writer.acquire(timeout=wait_seconds - silent_seconds, poll_interval=_POLL_SECONDS)
            self._writing.write_text(str(os.getpid()), encoding="ascii")
        except Timeout:
            raise self._busy("written", self._writing, wait_seconds, "write") from None
        except OSError as error:
            self._writer.release()
            raise self._unusable(error) from error

    def may_write(self) -> bool:
        """Return whether no process writes now."""
        try:
            self._writer.acquire(timeout=0)
        except (Timeout, OSError):
            return False
        self._writer.release()
        return True

    def end_writing(self) -> None:
        """Stop being the writer."""
        self._writer.release()

    def _busy(self, how: str, file: Path, wait_seconds: float, what: str) -> StoreBusyError:
        return StoreBusyError(
            f"{self._path}: {how} by {_holder(file)} for more than {round(wait_seconds, 2):g} s; only one process at a "
            f"time can {what} an embedded collection: wait for that process, or use a Qdrant server"
            f"{hidden_note(self._path.parent)}"
        )

    def _unusable(self, error: OSError) -> StoreUnavailableError:
        remedy = f"; {MAKE_ROOM}" if is_disk_full(error) else ""
        return StoreUnavailableError(f"{self._path}: cannot be opened for writing: {error.strerror or error}{remedy}")


class _Patience:
    """A wait for the turn, which ends ``seconds`` after the last change of the file ``owner``.

    While another process opens or closes the engine, the wait may take ``_TIMES_AS_LONG`` times as long.
    """

    def __init__(self, owner: Path, seconds: float) -> None:
        self._owner = owner
        self._seconds = seconds
        self._seen = self._now()
        self._start = self._since = time.monotonic()

    def is_left(self) -> bool:
        """Return whether the wait may go on."""
        if (now := self._now()) != self._seen:
            self._seen, self._since = now, time.monotonic()
        factor = _TIMES_AS_LONG if now[0].endswith(_OPENS_OR_CLOSES) else 1
        return time.monotonic() - self._since < self._seconds * factor

    def waited(self) -> float:
        """Return the seconds waited so far."""
        return time.monotonic() - self._start

    def _now(self) -> tuple[bytes, int]:
        try:
            return self._owner.read_bytes(), self._owner.stat().st_mtime_ns
        except OSError:
            return b"", 0


def _acquires(lock: FileLock, seconds: float) -> bool:
    try:
        lock.acquire(timeout=seconds, poll_interval=_POLL_SECONDS)
    except Timeout:
        return False
    return True


def _begin_waiting(ticket: FileLock) -> None:
    """Lock the ticket. On a full disk, go on without a ticket: other processes may then get their turns first."""
    try:
        ticket.acquire(timeout=_TICKET_SECONDS, poll_interval=_POLL_SECONDS)
        while not Path(ticket.lock_file).exists():  # another process removed the ticket before it was locked
            ticket.release()
            ticket.acquire(timeout=_TICKET_SECONDS, poll_interval=_POLL_SECONDS)
    except OSError as error:
        if not is_disk_full(error):
            raise


def _end_waiting(ticket: FileLock) -> None:
    if ticket.is_locked:
        Path(ticket.lock_file).unlink(missing_ok=True)
        ticket.release()


def _shares(file: IO[bytes]) -> bool:
    """Lock the file in common with other readers; return False if another process holds it for itself."""
    if fcntl is not None:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


def _holder(file: Path) -> str:
    """Return a name for the process whose id is in the file."""
    try:
        return f"process {int(file.read_text(encoding='ascii'))}"
    except (OSError, ValueError):
        return "another process"
