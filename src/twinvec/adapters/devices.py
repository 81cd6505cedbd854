"""Devices: a check when an object is made, where the first call would fail otherwise."""

from __future__ import annotations

from twinvec.engines.select import has_gpu
from twinvec.errors import ConfigurationError
from twinvec.support.checks import string


def check_device(device: str | None) -> None:
    """Raise ConfigurationError for what is no string, and for a GPU of NVIDIA where torch finds none."""
    if device is not None and string(device, "device").split(":")[0] == "cuda" and not has_gpu():
        raise ConfigurationError(
            f"device {device!r}: torch finds no GPU of NVIDIA on this machine; leave device out, which takes a GPU "
            "where there is one, or write device='cpu'"
        )
