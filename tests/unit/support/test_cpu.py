"""What is read of the processor."""

from __future__ import annotations

import os
import platform

import pytest

from twinvec.support import cpu as processor
from twinvec.support.cpu import available_cores, container_share, sums_bytes_exactly


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


def test_cores_of_a_container(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(64)), raising=False)
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    for share, cores in ((None, 64), (2.5, 3), (0.5, 1), (100.0, 64)):
        monkeypatch.setattr(processor, "container_share", lambda share=share: share)
        assert available_cores() == cores
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    assert available_cores() == 2


@pytest.mark.parametrize(
    ("own", "files", "share"),
    [
        ("0::/", {"cpu.max": "max 100000"}, None),
        ("0::/", {"cpu.max": "250000 100000"}, 2.5),
        ("0::/pod/box", {"pod/box/cpu.max": "max 100000", "pod/cpu.max": "50000 100000"}, 0.5),
        ("0::/pod/box", {"pod/box/cpu.max": "400000 100000", "pod/cpu.max": "800000 100000"}, 4.0),
        ("0::/of/the/host", {"cpu.max": "300000 100000"}, 3.0),  # seen from within a container
        ("0::/", {"cpu.max": "nonsense"}, None),
        (
            "12:memory:/box\n4:cpu,cpuacct:/box\n0::/",
            {"cpu/box/cpu.cfs_quota_us": "150000", "cpu/box/cpu.cfs_period_us": "100000"},
            1.5,
        ),
        ("4:cpu,cpuacct:/", {"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, None),
        ("nonsense", {}, None),
        ("", {}, None),
    ],
)
def test_the_share_of_a_container(tmp_path, own, files, share):
    (tmp_path / "own").write_text(own)
    for name, content in files.items():
        path = tmp_path / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    assert container_share(tmp_path / "groups", tmp_path / "own") == share
    assert container_share(tmp_path / "groups", tmp_path / "nowhere") is None
