"""The commands ``twinvec backup`` and ``twinvec restore``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from twinvec.cli.options import URL_HELP, WAIT_SECONDS, AsJson, CollectionName, StorePath, Wait, wrong_usage
from twinvec.cli.terminal import show_json, tell
from twinvec_qdrant.cli.options import CollectionPlace
from twinvec_qdrant.cli.served.connecting import client_of, looks_again
from twinvec_qdrant.report import Backup
from twinvec_qdrant.serving.names import check_new_name

_ServerUrl = Annotated[str | None, typer.Option("--url", envvar="TWINVEC_URL", help=URL_HELP, hidden=True)]


def backup_command(
    to: Annotated[Path, typer.Argument(metavar="FOLDER", help="New folder for the backup.")],
    collection: CollectionName,
    path: StorePath = None,
    url: _ServerUrl = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an older backup in FOLDER, once the new one is complete.")
    ] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Copy a collection of the embedded store to a folder.

    Searches and ingests of other processes wait while the files are copied. FOLDER appears when the backup is
    complete. If twinvec serve uses the store, its process makes the backup. For a Qdrant server, use its snapshots.

    \b
    twinvec backup ./backups/docs-monday --collection docs
    """
    _refuse_server(path, url)
    made = _made(CollectionPlace(collection, path, None, wait), to, overwrite=overwrite)
    if as_json:
        show_json({"backup": str(to), **asdict(made)})
    else:
        points = made.points
        tell(f"{to}: {points.get('record', 0):,} documents of {collection}, {points.get('chunk', 0):,} chunks")


def _refuse_server(path: Path | None, url: str | None) -> None:
    """Raise ``BadParameter`` if only a server is named, because the command would back up the default store instead."""
    if url is not None and path is None:
        raise typer.BadParameter(
            "a Qdrant server is named (--url, TWINVEC_URL or twinvec.toml), and it makes snapshots itself; for the "
            "backup of an embedded store, give --path"
        )


@looks_again
def _made(place: CollectionPlace, to: Path, *, overwrite: bool) -> Backup:
    """Make a backup; if a process serves the store, let that process make it."""
    if (client := client_of(place)) is not None:
        from twinvec_qdrant.cli.served.backups import back_up_served

        with client:
            return back_up_served(client, place, to, overwrite=overwrite)
    from twinvec_qdrant.backups import backup_collection

    return backup_collection(place.name, to, place.path, overwrite=overwrite, wait_seconds=place.wait)


def restore_command(
    source: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the backup.")],
    collection: Annotated[
        str | None,
        typer.Option(
            "--collection",
            "-c",
            metavar="NAME",
            help="Name of the restored collection. Default: the name in the backup.",
        ),
    ] = None,
    path: StorePath = None,
    url: _ServerUrl = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing collection.")] = False,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Restore a collection of the embedded store from a backup.

    The files of the backup are checked first. An existing collection is only replaced with --overwrite. If twinvec
    serve uses the store, its process restores the collection. That process replaces no collection: drop an existing
    one first.

    \b
    twinvec restore ./backups/docs-monday
    twinvec restore ./backups/docs-monday --collection docs --overwrite
    """
    _refuse_server(path, url)
    if collection is not None and not (overwrite and _exists(collection, path)):
        with wrong_usage():
            check_new_name(collection)
    made = _restored(CollectionPlace(collection or "", path, None, wait), source, overwrite=overwrite)
    name = made.collection if collection is None else collection
    if as_json:
        show_json({"restored": name, **asdict(made)})
    else:
        points = made.points
        tell(f"restored {name} as of {made.time}: {points.get('record', 0):,} documents")


def _exists(name: str, path: Path | None) -> bool:
    from twinvec_qdrant.serving.process import DEFAULT_PATH
    from twinvec_qdrant.stores.embedded.folder import collection_names

    return name in collection_names(path or DEFAULT_PATH)


@looks_again
def _restored(place: CollectionPlace, source: Path, *, overwrite: bool) -> Backup:
    """Restore a backup; if a process serves the store, let that process restore it."""
    if (client := client_of(place)) is not None:
        from twinvec_qdrant.cli.served.backups import restore_served

        with client:
            return restore_served(client, source, place.name or None)
    from twinvec_qdrant.backups import restore_collection

    return restore_collection(source, place.path, name=place.name or None, overwrite=overwrite, wait_seconds=place.wait)
