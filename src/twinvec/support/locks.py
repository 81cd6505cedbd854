"""One process at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from twinvec.errors import ConfigurationError


@contextmanager
def exclusive_lock(lock: Path, busy: str) -> Iterator[None]:
    """Hold a lock file, which is gone afterwards; a process that dies lets go of it.

    Raises:
        ConfigurationError: another holder is at work; it says ``busy``.
        OSError: the file cannot be made.
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
        lock.unlink(missing_ok=True)  # while it is held: afterwards it may be another's
        held.release()
