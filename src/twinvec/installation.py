"""Installed distributions: their entry points, and the command that installs their extras from the same source.

pip and uv record the source of a distribution that came from a folder, a file or a repository in ``direct_url.json``
(PEP 610). An extra of such a distribution must come from the same source, not from a package index.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

# Only functions that read metadata import importlib.metadata: it is slow to import, and commands must start fast.
if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

_CORE = "twinvec"
_IN_CLONE = {"twinvec-qdrant": "integrations/qdrant", "twinvec-ray": "integrations/ray"}
"""Name of a distribution -> its folder in a clone of the repository."""

_hides_folders = False


@contextmanager
def hidden_folders() -> Iterator[None]:
    """Inside the block, ``install_line`` names no folder of this machine, because clients of a server read its errors.

    A line without the folder installs the same packages: pip reads the extras of an installed distribution from its
    metadata.
    """
    global _hides_folders
    _hides_folders = True
    try:
        yield
    finally:
        _hides_folders = False


def entry_points(*, group: str, name: str | None = None) -> EntryPoints:
    """Return the entry points of a group, or only those with a ``name``."""
    from importlib import metadata

    found = metadata.entry_points(group=group)
    return found if name is None else found.select(name=name)


def install_line(distribution: str, extra: str = "") -> str:
    """Return the shell command that installs a distribution, with one of its extras."""
    wanted = f"[{extra}]" if extra else ""
    source = {} if _hides_folders else _source(distribution) or _clone_of(distribution)
    path = _local_path(source)
    if path is not None:
        editable = "-e " if source.get("dir_info", {}).get("editable") else ""
        return f"pip install {editable}{shlex.quote(f'{path}{wanted}')}"
    repository = source.get("vcs_info")
    if repository:
        address = f"{repository['vcs']}+{source['url']}@{repository['commit_id']}"
        inside = f"#subdirectory={source['subdirectory']}" if source.get("subdirectory") else ""
        return f"pip install {shlex.quote(f'{distribution}{wanted} @ {address}{inside}')}"
    return f"pip install {shlex.quote(f'{distribution}{wanted}')}"


def _source(distribution: str) -> dict[str, Any]:
    """Return the content of ``direct_url.json``; empty for a distribution from a package index, which has none."""
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import distribution as find_distribution

    try:
        text = find_distribution(distribution).read_text("direct_url.json")
        found = json.loads(text) if text else None
    except (PackageNotFoundError, OSError, ValueError):
        return {}
    return found if isinstance(found, dict) and isinstance(found.get("url"), str) else {}


def _clone_of(distribution: str) -> dict[str, Any]:
    """Return the source of a distribution that is not installed: its folder in the clone that twinvec came from."""
    source = _source(_CORE)
    clone = _local_path(source)
    if clone is None or distribution not in _IN_CLONE:
        return {}
    folder = clone / _IN_CLONE[distribution]
    return {**source, "url": folder.as_uri()} if (folder / "pyproject.toml").is_file() else {}


def _local_path(source: dict[str, Any]) -> Path | None:
    """Return the folder or file that a distribution came from, if it is still there."""
    from urllib.parse import urlparse
    from urllib.request import url2pathname

    address = urlparse(source.get("url", ""))
    if address.scheme != "file":
        return None
    path = Path(url2pathname(address.path))
    return path if path.exists() else None
