"""The memory of a server that runs for weeks: it ends growing after a few minutes."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress

_HEAPS = 2
_LARGE = 2**20  # bytes
_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of malloc.h
_KERNELS = 64


def limit_memory() -> None:
    """Limit what threads and oneDNN keep; call it before threads are started and models are loaded.

    What the user has set in the environment stays.
    """
    _set_of_glibc("arena_max", _M_ARENA_MAX, _HEAPS)
    _set_of_glibc("mmap_threshold", _M_MMAP_THRESHOLD, _LARGE)
    _keep_few_kernels()


def _set_of_glibc(name: str, number: int, value: int) -> None:
    """Set a parameter of glibc's ``malloc``; other C libraries have none.

    By default nearly every thread gets a heap of its own, and heaps take arrays of up to 32 MB. Each keeps what was
    freed in it, so that memory grows for hours.
    """
    if f"MALLOC_{name.upper()}" in {each.rstrip("_") for each in os.environ} or f"malloc.{name}" in _tunables():
        return
    with suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(number, value)


def _tunables() -> str:
    return os.environ.get("GLIBC_TUNABLES", "")


def _keep_few_kernels() -> None:
    """Let oneDNN, which computes for OpenVINO, keep few of the kernels that it compiles for each shape of a batch.

    By default it keeps 1,024, some 60 MB, although OpenVINO has a memory of its own for them.
    """
    if "DNNL_PRIMITIVE_CACHE_CAPACITY" not in os.environ:
        os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", str(_KERNELS))
