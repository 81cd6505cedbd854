"""Forks: a collection that was open when the process forked cannot be used in the child.

The engine's threads and the owners of its locks exist only in the parent, so a call in the child would wait for ever.
In the child, every use of such a collection therefore raises an error, until ``Collection.open`` opens it again. The
child never closes the parent's engine, and never releases its locks.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinvec.errors import StoreError
from twinvec_qdrant.stores.embedded.backend import EmbeddedBackend, ending, open_backends, opening

_USABLE = frozenset({"location", "place", "exclusive", "can_await", "close", "__class__", "__dict__"})
"""Names of the attributes that a child may still use."""


class InheritedBackend(EmbeddedBackend):
    """The form that an open backend takes in a forked child process: every use raises an error."""

    def __getattribute__(self, name: str) -> Any:
        if name in _USABLE:
            return object.__getattribute__(self, name)
        raise StoreError(
            f"{self.location}: was opened before this process was forked, and only the parent can use it: open the "
            "collection again in this process, or open it only after the fork (gunicorn: without --preload, or in "
            "post_fork; Celery: in worker_process_init)"
        )

    def close(self) -> None:
        """Do nothing, because the parent still uses the collection."""


def watch_forks() -> None:
    """Make every child of this process leave the open collections to the parent."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_leave_to_parent)


def _leave_to_parent() -> None:
    for backend in (*open_backends.values(), *ending):
        _close_files(backend._original.path)
        if backend._copy is not None:
            _close_files(backend._copy.place)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(backend))  # never freed: freeing releases the parent's locks
        backend.__class__ = InheritedBackend
    open_backends.clear()
    ending.clear()
    opening._at_fork_reinit()  # type: ignore[attr-defined]  # another thread of the parent may have held the lock


def _close_files(folder: Path) -> None:
    """Close the inherited files of locks: a lock is held until every process has closed its copy of the file."""
    with suppress(OSError):
        for number in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                if folder in Path(os.readlink(f"/proc/self/fd/{number}")).parents:
                    os.close(int(number))
