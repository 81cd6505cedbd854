"""Undo: after a kill, the files are copied before the engine opens them, and restored if that fails.

When the engine opens files that a killed process has left, it applies its log to them. If one of the files is damaged,
this can overwrite what other files still hold, and empty the log. So twinvec copies the files first. If opening is
refused, the copy replaces them. A repair then finds all that could be read before, and the collection opens again if
the user restores the damaged file.

    <name>/shard.copy-undo-*/    the copy while it is made; ``CollectionFolder.remove_copies`` removes it after a kill
    <name>/shard.indexed/        the complete copy, forced to the disk, until the collection is open or refused

If the process is killed before that, or cannot restore the files, the copy stays, and the next process puts the copy in
place (``CollectionFolder.settle``). When the collection is open, the copy is renamed and then removed: from then on,
the files change, and the copy must not replace them.

The engine never writes to the data files of a segment with an index. The copy has hard links to these files, and so
takes as much room as the segments that still grow.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from twinvec.support.atomic import is_disk_full
from twinvec_qdrant.stores.embedded.folder import COPY, CollectionFolder, copied_file, copied_tree, os_errors
from twinvec_qdrant.stores.embedded.room import file_sizes, lacking_room

_STORAGES = ("vector_storage-", "payload_storage")
_DATA = ("matrix.dat", "page_", "chunk_")  # files of vectors, of texts and BM25 weights, of token states


@contextmanager
def undone_if_refused(folder: CollectionFolder) -> Iterator[None]:
    """Restore the folder's files as they were if the block raises an error.

    The block opens the engine on the files, and closes it before an error leaves the block. If the disk has no room for
    a copy, an error leaves the files as they are.

    Raise ``StoreUnavailableError`` if the files cannot be copied or restored; a complete copy then stays. At the end of
    the block, when the engine is open, the same error says that the copy cannot be removed.
    """
    is_kept = _keep_copy(folder)
    try:
        yield
    except BaseException:
        if is_kept:
            with os_errors(folder.path, "put back"):
                folder.put_kept_in_place()
        raise
    if is_kept:
        with os_errors(folder.path, "opened"):
            folder.drop_kept()


def _keep_copy(folder: CollectionFolder) -> bool:
    """Copy the engine's files; return False if the disk has no room for a copy and for opening the files."""
    shard = folder.shard
    copy = folder.path / f"{COPY}undo-{uuid4().hex[:12]}"
    size = sum(occupied for name, _, occupied in file_sizes(shard) if not _is_fixed(shard / name, shard))
    if lacking_room(folder.path, size + folder.opening_room(folder.path), "copy it") is not None:
        return False

    def copy_file(source: str, target: str) -> None:
        if not (_is_fixed(Path(source), shard) and _is_linked(source, target)):
            copied_file(source, target)
            shutil.copystat(source, target)

    with os_errors(folder.path, "copied"):
        try:
            copied_tree(shard, copy, copy_file)
            folder.keep(copy)
        except OSError as error:
            shutil.rmtree(copy, ignore_errors=True)
            if is_disk_full(error) and not folder.has_kept():
                return False
            raise
    return True


def _is_fixed(file: Path, shard: Path) -> bool:
    """Return whether this is a data file of a segment with an index."""
    segment = shard.joinpath(*file.relative_to(shard).parts[:2])
    storage = file.relative_to(segment).parts[0] if file != segment else ""
    is_data = storage.startswith(_STORAGES) and file.name.startswith(_DATA)
    return is_data and (segment / "id_tracker.mappings").is_file()


def _is_linked(source: str, target: str) -> bool:
    """Make ``target`` a hard link to ``source``; return False if the file system has no hard links."""
    try:
        os.link(source, target)
    except OSError:
        return False
    return True
