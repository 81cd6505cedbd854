"""Build the index of an embedded collection: on a copy of its files, in another process, while searches go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twinvec.errors import StoreError
from twinvec.support.atomic import sync_files
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.embedded.folder import CollectionFolder

WORTHWHILE = 20_000
"""Vectors without an index from which an ingest builds one; comparing a query with fewer takes milliseconds."""

_WORKER = Path(__file__).with_name("index_worker.py")


def build_index_of(copy: Path, folder: CollectionFolder, settings: IndexSettings) -> None:
    """Index a copy of the engine's files; no one may write the originals meanwhile. Errors remove the copy."""
    # -P: the worker must not import the modules in its folder
    command = [sys.executable, "-P", str(_WORKER), str(copy), json.dumps(settings.as_dict()), str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        folder.remove_copies()
        last_line = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise StoreError(f"{folder.path}: the engine could not build the index: {last_line}")
    sync_files(copy)  # it replaces the original, and has to survive a power cut
