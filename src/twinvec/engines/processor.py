"""What the processor can do: cores, and how it sums up products of bytes."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_SUMS_IN_32_BITS = {"avx512_vnni", "avx_vnni", "amx_int8"}
_X86 = {"x86_64", "amd64", "i386", "i686"}


def available_cores() -> int:
    """Cores that this process may use, fewer where ``OMP_NUM_THREADS`` says so."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return min(cores, int(stated)) if stated.isdecimal() and int(stated) else cores


def sums_bytes_exactly(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether products of bytes are summed up in 32 bits.

    x86 without VNNI or AMX adds two of them in 16 bits first, which saturates where weights use all of their 8 bits;
    nor is int8 faster than float32 there. Where x86 does not say, it is taken for such a one.
    """
    if platform.machine().lower() not in _X86:
        return True
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
    return not _SUMS_IN_32_BITS.isdisjoint(flags)
