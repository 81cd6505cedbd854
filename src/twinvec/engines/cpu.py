"""What the processor can do: cores, and how it sums up products of bytes."""

from __future__ import annotations

import math
import os
import platform
from pathlib import Path

_SUMS_IN_32_BITS = {"avx512_vnni", "avx_vnni", "amx_int8"}
_X86 = {"x86_64", "amd64", "i386", "i686"}


def available_cores() -> int:
    """Cores that this process may use: fewer in a container that has a share only, or by ``OMP_NUM_THREADS``."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if stated.isdecimal() and int(stated):
        cores = min(cores, int(stated))
    share = container_share()
    return cores if share is None else min(cores, math.ceil(share))


def container_share(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """How many cores' time Linux gives to this process' control group and those around it; None for no limit.

    A container with a share of a large machine sees all of its cores; more threads than the share are halted in turn.
    """
    try:
        paths = dict(line.split(":", 2)[1:] for line in own.read_text().splitlines())
    except (OSError, ValueError):
        return None
    first = next((path for names, path in paths.items() if "cpu" in names.split(",")), None)  # version 1 of such groups
    if first is not None:
        group, files = groups / "cpu" / first.strip("/"), ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    else:
        group, files = groups / paths.get("", "").strip("/"), ["cpu.max"]
    shares = [_share([each / file for file in files]) for each in (group, *group.parents)]
    return min((share for share in shares if share is not None), default=None)


def _share(files: list[Path]) -> float | None:
    """Time by period, of a group that has a limit."""
    try:
        time, period = (int(word) for file in files for word in file.read_text().split())
    except (OSError, ValueError):  # there are none, or "max"
        return None
    return time / period if time > 0 and period > 0 else None


def sums_bytes_exactly(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Whether products of bytes are summed up in 32 bits.

    x86 without VNNI or AMX adds two of them in 16 bits first, which saturates where weights use all of their 8 bits;
    nor is int8 faster than float32 there. Where x86 does not say, it is taken for such a one.
    """
    return platform.machine().lower() not in _X86 or not _SUMS_IN_32_BITS.isdisjoint(_flags(cpuinfo))


def _flags(cpuinfo: Path) -> list[str]:
    """What the kernel says that an x86 processor can do."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
