"""The memory of a server that runs for weeks: what its threads free is used again."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_M_ARENA_MAX = -8  # of malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """Limit glibc to two heaps for all threads of this process; call it before threads are started.

    By default nearly every thread gets its own, and each keeps what was freed in it, so that memory grows for hours.
    Other C libraries have no such setting. What the user has set in the environment stays.
    """
    if "MALLOC_ARENA_MAX" in os.environ or "arena_max" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)
