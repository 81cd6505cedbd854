"""The processor: its available cores, pools of threads on them, and whether it sums int8 products exactly."""

from __future__ import annotations

import math
import os
import platform
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

_EXACT_INT8 = {"avx512_vnni", "avx_vnni", "amx_int8"}  # instructions that sum in 32 bits
_X86 = {"x86_64", "amd64", "i386", "i686"}


def available_cores() -> int:
    """Return the number of usable cores, by CPU affinity, ``OMP_NUM_THREADS`` and the container's CPU limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    if stated.isdecimal() and int(stated):
        cores = min(cores, int(stated))
    share = container_share()
    return cores if share is None else min(cores, math.ceil(share))


def thread_pool(threads: int, name: str) -> Executor:
    """Return a pool of threads, whose names begin with ``twinvec-`` and ``name``.

    While the interpreter ends, the executor does the work in the caller's thread.
    """
    return _Inline() if interpreter_ends() else ThreadPoolExecutor(threads, thread_name_prefix=f"twinvec-{name}")


def interpreter_ends() -> bool:
    """Return whether the interpreter ends. Python then runs the functions of ``atexit``, and starts no more threads."""
    return not threading.main_thread().is_alive()


class _Inline(Executor):
    """An executor that runs a function when it is submitted."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


def container_share(groups: Path = Path("/sys/fs/cgroup"), own: Path = Path("/proc/self/cgroup")) -> float | None:
    """Return the CPU limit of this process's control groups on Linux, in cores; None means no limit.

    A container sees all cores of its machine, but Linux pauses its threads if they exceed the limit.
    """
    try:
        paths = dict(line.split(":", 2)[1:] for line in own.read_text().splitlines())
    except (OSError, ValueError):
        return None
    version_1 = next((path for names, path in paths.items() if "cpu" in names.split(",")), None)
    if version_1 is not None:
        group, files = groups / "cpu" / version_1.strip("/"), ["cpu.cfs_quota_us", "cpu.cfs_period_us"]
    else:
        group, files = groups / paths.get("", "").strip("/"), ["cpu.max"]
    shares = [_share([each / file for file in files]) for each in (group, *group.parents)]
    return min((share for share in shares if share is not None), default=None)


def _share(files: list[Path]) -> float | None:
    try:
        time, period = (int(word) for file in files for word in file.read_text().split())
    except (OSError, ValueError):  # the files are missing, or say "max"
        return None
    return time / period if time > 0 and period > 0 else None


def sums_bytes_exactly(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """Return whether the processor sums int8 products in 32 bits.

    x86 without VNNI or AMX adds two products in 16 bits first, which saturates if weights use all 8 bits; int8 is not
    faster than float32 there either. An x86 processor whose flags cannot be read counts as one without VNNI and AMX.
    """
    return platform.machine().lower() not in _X86 or not _EXACT_INT8.isdisjoint(_flags(cpuinfo))


def _flags(cpuinfo: Path) -> list[str]:
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])
