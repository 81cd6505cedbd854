"""The memory of a server: the heaps of its threads, and large arrays."""

import subprocess
import sys

import pytest

HEAPS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit(77)
if "share" in sys.argv:
    from twinvec_serve.memory import limit_memory
    limit_memory()
libc.malloc.restype = ctypes.c_void_p
libc.fopen.restype = ctypes.c_void_p
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
written = ctypes.c_void_p(libc.fopen(sys.argv[1].encode(), b"w"))
libc.malloc_info(0, written)
libc.fclose(written)
"""


def heaps(path, *options: str) -> int:
    code = subprocess.run([sys.executable, "-c", HEAPS, str(path), *options]).returncode
    if code == 77:
        pytest.skip("the C library is not glibc")
    assert code == 0
    return path.read_text().count("<heap nr=")


def test_the_threads_of_a_server_share_two_heaps(tmp_path) -> None:
    assert heaps(tmp_path / "shared", "share") == 2
    assert heaps(tmp_path / "own") > 2


def test_a_number_of_heaps_that_the_user_has_set_stays(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("MALLOC_ARENA_MAX", "4")
    assert heaps(tmp_path / "set", "share") == 4


LARGE = """
import ctypes, sys
libc = ctypes.CDLL(None)
if not hasattr(libc, "mallinfo2"):
    sys.exit(77)
if "limit" in sys.argv:
    from twinvec_serve.memory import limit_memory
    limit_memory()

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


def large_lies_outside(*options: str) -> str:
    done = subprocess.run([sys.executable, "-c", LARGE, *options], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("the C library has no mallinfo2")
    return done.stdout.strip()


def test_large_arrays_of_a_server_lie_outside_the_heaps() -> None:
    assert large_lies_outside("limit") == "True"
    assert large_lies_outside() == "False"
