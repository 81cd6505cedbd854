"""A file lock that one process at a time holds."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinvec.errors import ConfigurationError


@contextmanager
def exclusive_lock(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock file and remove it afterwards; the system releases the lock of a process that dies.

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
        lock.unlink(missing_ok=True)  # before the release: after it, the file may be another process's lock
        held.release()
