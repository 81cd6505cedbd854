"""Undo: put the files that a killed process has left back as they were, if opening them is refused.

When the engine opens such files, it applies its log to them. If one of the files is damaged, this can overwrite what
other files still hold, and empty the log. So twinvec copies the files first. If opening is refused, the copy replaces
them: a repair then finds all that could be read before, and the collection opens if the damaged file is put back.

    <name>/shard.copy-undo-*/    the copy; ``CollectionFolder.remove_copies`` removes it after a kill

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

from twinvec.errors import StoreUnavailableError
from twinvec.support.atomic import is_disk_full, sync_files
from twinvec_qdrant.stores.embedded.folder import COPY, CollectionFolder, copied_file, copied_tree
from twinvec_qdrant.stores.embedded.room import file_sizes, lacking_room

_STORAGES = ("vector_storage-", "payload_storage")
_DATA = ("matrix.dat", "page_", "chunk_")  # files of vectors, of texts and BM25 weights, of token states


@contextmanager
def undone_if_refused(folder: CollectionFolder) -> Iterator[None]:
    """Open the engine on the folder's files in the block, and close it there before an error leaves the block.

    An error puts the files back as they were. It leaves them as they are if the disk has no room for a copy. Raise
    ``StoreUnavailableError`` if the files cannot be copied or put back.
    """
    copy = folder.path / f"{COPY}undo-{uuid4().hex[:12]}"
    is_copied = _is_copied(folder, copy)
    try:
        yield
    except BaseException:
        if is_copied:
            _put_back(folder, copy)
        raise
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _put_back(folder: CollectionFolder, copy: Path) -> None:
    try:
        sync_files(copy)
        folder.exchange(copy)
    except OSError as error:
        raise StoreUnavailableError(f"{folder.path}: cannot be put back: {error.strerror or error}") from error


def _is_copied(folder: CollectionFolder, copy: Path) -> bool:
    """Copy the engine's files; return False if the disk has no room for a copy and for opening the files."""
    shard = folder.shard
    size = sum(occupied for name, _, occupied in file_sizes(shard) if not _is_fixed(shard / name, shard))
    if lacking_room(folder.path, size + folder.opening_room(folder.path), "copy it") is not None:
        return False

    def copy_file(source: str, target: str) -> None:
        if not (_is_fixed(Path(source), shard) and _is_linked(source, target)):
            copied_file(source, target)
            shutil.copystat(source, target)

    try:
        copied_tree(shard, copy, copy_file)
    except OSError as error:
        shutil.rmtree(copy, ignore_errors=True)
        if is_disk_full(error):
            return False
        raise StoreUnavailableError(f"{folder.path}: cannot be copied: {error.strerror or error}") from error
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
