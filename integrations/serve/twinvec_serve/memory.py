"""The memory of a server that runs for weeks: what its threads free is used again."""

from __future__ import annotations

import ctypes
from contextlib import suppress

_M_ARENA_MAX = -8  # of malloc.h
_HEAPS = 2


def share_heaps() -> None:
    """Let the threads of this process share two heaps, where glibc has one for nearly each of them.

    Large batches are computed now by one thread and now by another. Each heap keeps what was freed in it, so that many
    heaps grow for hours. Other C libraries have no such setting.
    """
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, _HEAPS)
