"""Runners: classes that run a command outside its process, such as ``--ray`` on a cluster.

A distribution offers a runner by an entry point in the group ``twinvec.runners``: a class that takes the address. Its
``encode`` does what ``twinvec encode`` does, and its ``helpers`` are those of an ingest (``twinvec_qdrant.Helpers``).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError
from twinvec.installation import entry_points, install_line

_OPTION = "--ray"
_ADDRESS = re.compile(r"auto|local|\w+://\S+|[\w.-]+:\d+|\[[0-9a-fA-F:]+\]:\d+")
_HOST = re.compile(r"[A-Za-z0-9][\w.-]*")


def with_address(arguments: list[str]) -> list[str]:
    """Return the arguments of a command line, in which a ``--ray`` without an address gets an empty address.

    Raise ConfigurationError for a host without a port after ``--ray``, which would be taken for a file to read.
    """
    end = arguments.index("--") if "--" in arguments else len(arguments)
    stated: list[str] = []
    for row, each in enumerate(arguments):
        following = arguments[row + 1] if row + 1 < end else ""
        if each != _OPTION or row >= end or _ADDRESS.fullmatch(following):
            stated.append(each)
            continue
        if _HOST.fullmatch(following) and not Path(following).exists():
            raise ConfigurationError(
                f"{_OPTION} {following}: there is no file or folder {following!r}, and the address of a cluster has a "
                f"port, such as {following}:6379"
            )
        stated.append(f"{_OPTION}=")
    return stated


def place_of(path: Path) -> str:
    """Return a path or URL as it was typed; ``Path`` has dropped the second slash of a URL."""
    return re.sub(r"^(\w{2,}):/(?=[^/])", r"\1://", str(path))


def ray_runner(address: str) -> Any:
    """Return the runner for Ray; raise ConfigurationError if ``twinvec-ray`` is not installed."""
    for entry in entry_points(group="twinvec.runners", name="ray"):
        return entry.load()(address)
    raise ConfigurationError(f"{_OPTION} is in the package 'twinvec-ray': {install_line('twinvec-ray')}")
