"""The memory of a server: how many heaps its threads have."""

import subprocess
import sys

import pytest

HEAPS = """
import ctypes, sys, threading
libc = ctypes.CDLL(None)
if not hasattr(libc, "malloc_info"):
    sys.exit(77)
if "share" in sys.argv:
    from twinvec_serve.memory import share_heaps
    share_heaps()
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
