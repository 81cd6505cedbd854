"""The memory of a server: the heaps of its threads, and large arrays."""

import asyncio
import platform
import subprocess
import sys

import pytest

from twinvec_serve.memory import trim_regularly

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="the limits are of glibc")

LIMITED = """
import sys
if "limit" in sys.argv:
    from twinvec_serve.memory import limit_memory
    limit_memory()
"""

HEAPS = """
import ctypes, threading
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.fdopen.restype = ctypes.c_void_p
together = threading.Barrier(6)

def allocate():
    together.wait()
    for _ in range(2000):
        libc.malloc(1000)
    together.wait()

threads = [threading.Thread(target=allocate) for _ in range(6)]
for each in threads:
    each.start()
for each in threads:
    each.join()
printed = ctypes.c_void_p(libc.fdopen(1, b"w"))
libc.malloc_info(0, printed)
libc.fflush(printed)
"""


LARGE = """
import ctypes
libc = ctypes.CDLL(None)

class Info(ctypes.Structure):  # of mallinfo2(3); "e" counts the bytes outside the heaps
    _fields_ = [(name, ctypes.c_size_t) for name in "abcdefghij"]

libc.mallinfo2.restype = Info
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]
libc.free(libc.malloc(16 * 2**20))  # from then on, by default, arrays of this size lie in a heap
before = libc.mallinfo2().e
libc.malloc(8 * 2**20)
print(libc.mallinfo2().e - before >= 8 * 2**20)
"""

TRIMMED = """
import ctypes
from twinvec_serve.memory import trim
libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]

def resident():
    with open("/proc/self/statm") as file:
        return 4096 * int(file.read().split()[1])

places = [libc.malloc(4000) for _ in range(10_000)]
for each in places:
    ctypes.memset(each, 1, 4000)
for each in places[:-1]:  # the last one keeps the heap from becoming shorter
    libc.free(each)
before = resident()
trim()
print(before - resident() > 30 * 2**20)
"""


def output(code: str, *options: str) -> str:
    """Return what the code prints in a process of its own; with the option "limit", after ``limit_memory``."""
    return subprocess.run(
        [sys.executable, "-c", LIMITED + code, *options], capture_output=True, text=True, check=True
    ).stdout


@pytest.mark.slow
def test_the_threads_of_a_server_share_two_heaps() -> None:
    assert output(HEAPS, "limit").count("<heap nr=") == 2
    assert output(HEAPS).count("<heap nr=") > 2


@pytest.mark.slow
def test_a_number_of_heaps_that_the_user_has_set_stays(monkeypatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert output(HEAPS, "limit").count("<heap nr=") == 4


@pytest.mark.slow
def test_large_arrays_of_a_server_lie_outside_the_heaps() -> None:
    assert output(LARGE, "limit") == "True\n"
    assert output(LARGE) == "False\n"


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_free_pages_inside_a_heap_go_back_to_the_system() -> None:
    assert output(TRIMMED) == "True\n"
    assert output(TRIMMED.replace("trim()\n", "")) == "False\n"


async def test_a_server_trims_its_heaps_regularly(monkeypatch) -> None:
    trimmed = []
    monkeypatch.setattr("twinvec_serve.memory._TRIM_SECONDS", 0.0)
    monkeypatch.setattr("twinvec_serve.memory.trim", lambda: trimmed.append(1))
    trimming = asyncio.create_task(trim_regularly())
    async with asyncio.timeout(60):
        while len(trimmed) < 3:
            await asyncio.sleep(0.001)
    trimming.cancel()
    with pytest.raises(asyncio.CancelledError):
        await trimming
