"""Building the index of an embedded collection: on a copy, in a process of its own, while searches go on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from twinvec.errors import StoreError
from twinvec_qdrant.settings import IndexSettings
from twinvec_qdrant.stores.embedded.folder import CollectionFolder

WORTHWHILE = 20_000
"""Vectors without an index, from which on one is built unasked; to compare a query with fewer takes milliseconds."""

_WORKER = Path(__file__).with_name("index_worker.py")


def build_aside(folder: CollectionFolder, settings: IndexSettings) -> Path:
    """Copy the engine's files, which nobody may write meanwhile, and build the index of the copy, which is returned.

    Raises:
        StoreUnavailableError: the disk has no room for the copy and its index.
        StoreError: the engine could not build it; the copy is gone.
    """
    copy = folder.copy_shard()
    # -P: the files beside the worker are no modules of its
    command = [sys.executable, "-P", str(_WORKER), str(copy), json.dumps(settings.as_dict()), str(os.getpid())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        folder.remove_copies()
        said = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        raise StoreError(f"{folder.path}: the engine could not build the index: {said}")
    folder.make_copy_durable(copy)
    return copy
