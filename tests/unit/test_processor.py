"""What is read of the processor."""

from __future__ import annotations

import os
import platform

import pytest

from twinvec.engines.processor import available_cores, sums_bytes_exactly


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others sum exactly, whatever they say")
@pytest.mark.parametrize(
    ("flags", "exact"),
    [
        ("fpu sse2 avx2", False),
        ("fpu avx2 avx512f", False),
        ("fpu avx2 avx_vnni", True),
        ("avx512f avx512_vnni", True),
        ("amx_tile amx_int8", True),
        ("", False),
    ],
)
def test_flags(tmp_path, flags, exact):
    path = tmp_path / "cpuinfo"
    path.write_text(f"processor\t: 0\nmodel name\t: avx_vnni inside\nflags\t\t: {flags}\n")
    assert sums_bytes_exactly(path) == exact
    assert not sums_bytes_exactly(tmp_path / "nowhere")


def test_cores():
    assert 1 <= available_cores() <= (os.cpu_count() or 1)
