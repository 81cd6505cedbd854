"""Backups of a store that a process serves: the process makes a backup, and the command unpacks it."""

from __future__ import annotations

from pathlib import Path

from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.report import Backup
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.serving.process import DEFAULT_PATH
from twinvec_qdrant.stores.embedded.archives import unpack
from twinvec_qdrant.stores.embedded.backups import check_target, new_backup, read_backup
from twinvec_qdrant.stores.embedded.folder import CollectionFolder


def back_up_served(client: ServerClient, place: CollectionPlace, to: Path, *, overwrite: bool) -> Backup:
    """Back up a served collection to the folder ``to``; checks and errors are those of ``backup_collection``."""
    target = to.resolve()
    check_target(target, CollectionFolder(place.path or DEFAULT_PATH, place.name).path, overwrite=overwrite)
    archive = client.download(collection_path(place.name, "/backup"))
    with new_backup(target) as partial:
        unpack(archive, partial)
        return read_backup(partial)
