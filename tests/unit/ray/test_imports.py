"""Names of ``twinvec_ray`` are loaded at their first use: workers that parse or write need few of them."""

from __future__ import annotations

import subprocess
import sys

import pytest

import twinvec_ray


def test_each_name_is_found():
    assert set(twinvec_ray.__all__) <= set(dir(twinvec_ray))
    assert all(callable(getattr(twinvec_ray, name)) for name in twinvec_ray.__all__)
    with pytest.raises(AttributeError, match="decode"):
        _ = twinvec_ray.decode


def test_a_writing_worker_starts_without_what_only_others_need():
    program = "import sys, twinvec_ray.helpers; print(sorted({'pyarrow', 'twinvec_ray.mining'} & set(sys.modules)))"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n"
