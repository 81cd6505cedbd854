"""Build the index of an embedded collection: on a copy of its files, in another process, while searches go on.

A build also removes outdated versions of points: the engine adds each new version to its files, and only marks the
former version as deleted.

    shard/built.json    the result of the last build, and the number of chunks written since (``LastBuild``)
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from twinvec.errors import StoreError
from twinvec.support.atomic import atomic_write, sync_file, sync_files
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.embedded.folder import os_errors
from twinvec_qdrant.stores.embedded.index_worker import BUILT

WORTHWHILE = 20_000
"""An ingest builds the index if at least this many chunks lack it; a search compares fewer vectors in milliseconds."""

OUTDATED = 5_000
"""An ingest rebuilds the files if at least this many chunks are outdated, and at least as many as are current."""

_WORKER = Path(__file__).with_name("index_worker.py")


@dataclass(frozen=True, slots=True)
class LastBuild:
    """State of the engine after the last build, or when the collection was made.

    Attributes:
        chunks: Number of chunks.
        names: Names of the dense vectors.
        with_index: Whether the vectors were indexed.
        written: Number of chunks written since, except by a process that was killed or is still writing.
    """

    chunks: int
    names: Sequence[str]
    with_index: bool
    written: int = 0

    @classmethod
    def read(cls, shard: Path) -> LastBuild | None:
        """Read ``built.json``; return None if the file is missing or damaged. Older collections have no such file."""
        try:
            return cls(**json.loads((shard / BUILT).read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError):
            return None

    def write(self, shard: Path) -> None:
        atomic_write(shard / BUILT, json.dumps(asdict(self)))


def build_index_of(copy: Path, settings: IndexSettings, location: str, *, with_index: bool, erase: bool) -> None:
    """Remove outdated points from a copy of the engine's files, and build its index if ``with_index``.

    Nobody may write the originals meanwhile. With ``erase``, no deleted or replaced data are left. An error names
    ``location``, and the copy is removed. The error is a ``StoreUnavailableError`` if no process can be started, for
    example without free file descriptors, and else a ``StoreError``.
    """
    given = json.dumps({**settings.as_dict(), "with_index": with_index, "erase": erase})
    # -P: the worker must not import the modules in its folder
    command = [sys.executable, "-P", str(_WORKER), str(copy), given, str(os.getpid())]
    try:
        with os_errors(Path(location), "indexed"):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                last_line = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
                raise StoreError(f"{location}: the engine could not build the index: {last_line}")
            sync_files(copy)  # the copy will replace the original, and must survive a power cut
    except StoreError:
        # removes only this copy: after a close, another process may build another copy
        shutil.rmtree(copy, ignore_errors=True)
        raise
    with suppress(OSError):  # some systems cannot open a folder
        sync_file(copy / "wal")  # after a power cut, no file of the former log may reappear
