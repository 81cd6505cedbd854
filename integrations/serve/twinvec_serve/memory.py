"""The memory of a server that runs for weeks: freed memory is used again, or goes back to the system."""

from __future__ import annotations

import asyncio
import ctypes
import os
from contextlib import suppress

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # constants of malloc.h
_LARGE = 128 * 2**10  # bytes; glibc maps larger blocks of memory, and gives them back when they are freed
_HEAPS = 2
_TRIM_SECONDS = 30.0


def limit_memory() -> None:
    """Let this process give memory back to the system. Call this before threads start and models are loaded.

    Settings of ``malloc`` in the environment take precedence.
    """
    _set_malloc("arena_max", _ARENA_MAX, _HEAPS)
    _set_malloc("mmap_threshold", _MMAP_THRESHOLD, _LARGE)


async def trim_regularly() -> None:
    """Let glibc give free pages inside its heaps back to the system every 30 seconds, until the task is cancelled."""
    while True:
        await asyncio.sleep(_TRIM_SECONDS)
        await asyncio.to_thread(trim)


def trim() -> None:
    """Give back the free pages in the heaps of glibc's ``malloc``, in under 0.1 s. Other C libraries lack the call."""
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def _set_malloc(name: str, number: int, value: int) -> None:
    """Set a parameter of glibc's ``malloc``; other C libraries have none.

    By default, glibc has a heap for nearly every thread and puts arrays of up to 32 MB there. A heap keeps its freed
    memory, so that memory grows for hours. With fewer heaps, threads use the same memory again, and arrays of
    ``mmap_threshold`` go back to the system when they are freed.
    """
    set_by_user = {f"MALLOC_{name.upper()}", f"MALLOC_{name.upper()}_"} & os.environ.keys()
    if set_by_user or f"malloc.{name}" in os.environ.get("GLIBC_TUNABLES", ""):
        return
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(number, value)
