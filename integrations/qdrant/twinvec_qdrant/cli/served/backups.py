"""Backups of a store that a process serves: the process makes a backup, and the command unpacks it, or sends one."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.report import Backup, report_of
from twinvec_qdrant.serving.client import ServerClient
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.serving.process import DEFAULT_PATH
from twinvec_qdrant.stores.embedded.archives import packed, unpack
from twinvec_qdrant.stores.embedded.backups import check_target, new_backup, read_backup
from twinvec_qdrant.stores.embedded.folder import CollectionFolder


def back_up_served(client: ServerClient, place: CollectionPlace, to: Path, *, overwrite: bool) -> Backup:
    """Back up a served collection to the folder ``to``; checks and errors are those of ``backup_collection``."""
    target = to.resolve()
    check_target(target, CollectionFolder(place.path or DEFAULT_PATH, place.name).path.parent, overwrite=overwrite)
    archive = client.download(collection_path(place.name, "/backup"))
    with new_backup(target) as unfinished:
        unpack(archive, unfinished)
        return read_backup(unfinished)


def restore_served(client: ServerClient, source: Path, name: str | None) -> Backup:
    """Restore a backup as a new collection of the served store; see ``restore_collection``."""
    source = source.resolve()
    about = read_backup(source)
    path = collection_path(about.collection if name is None else name, "/restore")
    told: dict[str, dict[str, Any]] = {}
    client.upload(path, partial(packed, source), told.__setitem__)
    return report_of(Backup, told["report"])
