"""Locks of an engine's threads, of a file and of a temporary folder.

The system releases the locks of a file and of a folder when the process that holds them dies.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from twinvec.errors import ConfigurationError, EngineError

try:
    import fcntl
except ImportError:  # without flock, nobody knows whether a folder is still used
    fcntl = None  # type: ignore[assignment]  # mypy knows one platform at a time

_HELD = "held"
_GOING = ".going"  # ends the name of a temporary folder that is being removed


class ThreadLock:
    """A lock that one thread holds during a ``with`` block.

    A fork lacks the other threads of its parent process. If one of them held the lock at the fork, the runtime's own
    locks may be held as well, so the ``with`` block raises EngineError instead of waiting for ever.

    Args:
        name: What the lock protects, for the error.
        activity: What a thread did while it held the lock, for the error, such as "encoded texts".
    """

    def __init__(self, name: str, activity: str) -> None:
        self._name = name
        self._activity = activity
        self._locks: dict[int, threading.Lock] = {}  # by process, because a fork cannot release those of its parent

    def __enter__(self) -> None:
        process = os.getpid()
        if any(lock.locked() for owner, lock in list(self._locks.items()) if owner != process):
            raise EngineError(
                f"{self._name}: this process was forked while another thread {self._activity}, so it would wait for "
                "ever; start processes by 'spawn', or fork before the first thread encodes"
            )
        self._locks.setdefault(process, threading.Lock()).acquire()

    def __exit__(self, *_: object) -> None:
        self._locks[os.getpid()].release()


@contextmanager
def exclusive_lock(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock file during the block, then remove the file. The system releases the lock of a process that dies.

    Raise ConfigurationError with the message ``busy`` if another process holds the lock.
    """
    from filelock import FileLock, Timeout

    held = FileLock(lock, timeout=0)
    try:
        held.acquire()
    except Timeout:
        raise ConfigurationError(busy) from None
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)  # removed before the release: later, the file may be another process's lock
        held.release()


class TemporaryFolder:
    """A new folder for temporary files, ``path``, which only this user can read; ``remove`` removes it.

    The process holds a lock file in the folder, so that ``remove_abandoned`` recognises folders of killed processes.
    """

    def __init__(self, prefix: str, parent: Path | None = None) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=prefix, dir=parent))  # mkdtemp gives it mode 0700
        self._held: IO[bytes] | None = None
        try:
            new = self.path / f"{_HELD}.new"
            self._held = new.open("wb")  # stays open until ``remove``
            if fcntl is not None:
                fcntl.flock(self._held, fcntl.LOCK_EX)
            new.rename(self.path / _HELD)  # a lock file with its final name is held
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder and all in it."""
        if self._held is not None:
            self._held.close()  # closed first, because Windows cannot remove an open file
        _remove(self.path)


def place_for_temporary_files() -> Path | None:
    """Return the system's folder for temporary files (``TMPDIR``); None if this process can write to none."""
    try:
        return Path(tempfile.gettempdir())
    except OSError:
        return None


def remove_abandoned(prefix: str, parent: Path) -> list[Path]:
    """Remove the temporary folders of this user whose processes have died, and return them.

    A folder without a lock file stays, because another program may use it. If its name says that its removal has begun,
    it is removed too.
    """
    removed = []
    for folder in parent.glob(f"{prefix}*") if fcntl is not None else ():
        with suppress(OSError):
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if folder.name.endswith(_GOING):
                shutil.rmtree(folder, ignore_errors=True)
            else:
                with open(os.open(folder / _HELD, os.O_RDONLY | os.O_NOFOLLOW), "rb") as held:
                    fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    _remove(folder)
                removed.append(folder)
    return removed


def _remove(folder: Path) -> None:
    """Remove a folder, its lock last, so that ``remove_abandoned`` finds the rest if the process is killed.

    Before the lock is removed, the folder is renamed.
    """
    with suppress(OSError):
        for child in folder.iterdir():
            if child.name != _HELD:
                shutil.rmtree(child, ignore_errors=True)
        folder = folder.rename(folder.with_name(folder.name + _GOING))
    shutil.rmtree(folder, ignore_errors=True)
