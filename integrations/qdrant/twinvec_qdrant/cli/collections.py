"""The commands ``twinvec info``, ``twinvec collections`` and ``twinvec drop``."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from twinvec.cli.options import WAIT_SECONDS, AsJson, CollectionName, GrpcPort, StorePath, StoreUrl, Wait, check_store
from twinvec.cli.terminal import properties, show, show_json, table, tell
from twinvec_qdrant.cli.options import CollectionPlace, as_text, check_confirmed, open_from_options
from twinvec_qdrant.cli.served.connecting import client_of, looks_again
from twinvec_qdrant.serving.names import collection_path
from twinvec_qdrant.serving.process import DEFAULT_PATH

_FOR_PROGRAMS = frozenset({"space", "dim", "distance", "average_length", "reading", "indexed"})  # only --json has these

_ADOPTING = "its adoption was begun and is not finished; run twinvec adopt again"


def info_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Show the contents, the model and the settings of a collection.

    Settings that are off are left out; --json has all settings and the digests. Unfinished documents belong to an
    ingest that is running or was interrupted; the next ingest removes their leftovers.

    \b
    twinvec info --collection docs
    """
    values = collection_info(CollectionPlace(collection, path, url, wait, grpc_port))
    if as_json:
        show_json(values)
        return
    title = f"{values.pop('name')} at {values.pop('location')}"
    contents = {"documents": values.pop("sources"), "chunks": values.pop("points")}
    if unfinished := values.pop("unfinished_documents", 0):
        contents["unfinished documents"] = f"{unfinished:,}, which searches do not find; ingest them again"
    sources = {"sources": "\n".join(map(_source, values.pop("roots", []))) or "not known"}
    values["model"] = f"{values['model']} ({values['dim']:,} dimensions)"
    if values.get("vector") == "":
        values["vector"] = "without a name"
    told = {name: _without_none(value) for name, value in values.items() if name not in _FOR_PROGRAMS}
    rows = contents | sources | {name: value for name, value in told.items() if value not in (None, False, {})}
    show(title, properties({name.replace("_", " "): as_text(value) for name, value in rows.items()}))


@looks_again
def collection_info(place: CollectionPlace) -> dict[str, Any]:
    """Return ``Collection.info``; if a process serves the store, ask that process."""
    if (client := client_of(place)) is not None:
        with client:
            return client.get(collection_path(place.name))
    with open_from_options(place) as opened:
        return opened.info()


def _without_none(value: Any) -> Any:
    """Return a mapping of settings without those that are None; return any other value unchanged."""
    return {name: each for name, each in value.items() if each is not None} if isinstance(value, dict) else value


def _source(root: dict[str, Any]) -> str:
    """Describe a source of a collection in words, with a line for each of its folders with a description."""
    described = root.get("described", {})
    about = f": {described['']}" if "" in described else ""
    place = f" from {root['location']}" if root["location"] else ""
    noun = "document" if root["documents"] == 1 else "documents"
    lines = [f"{root['name']}{about} ({root['documents']:,} {noun}{place})"]
    return "\n".join([*lines, *(f"  {path}: {text}" for path, text in described.items() if path)])


def collections_command(
    path: StorePath = None,
    url: StoreUrl = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """List the collections of a store.

    \b
    twinvec collections
    twinvec collections --url http://localhost:6333
    """
    found = store_entries(CollectionPlace("", path, url, wait, grpc_port))
    if as_json:
        show_json({"collections": found})
        return
    if not found:
        tell(f"no collections in {url or path or DEFAULT_PATH}{'' if url else _why_none(path or DEFAULT_PATH)}")
        return
    lines = table("Collections", "name", "model", "dimensions", numbers=("dimensions",))
    for each in found:
        otherwise = _ADOPTING if each["adopting"] else "not a twinvec collection, or damaged"
        lines.add_row(each["name"], each["model"] or otherwise, str(each["dim"] or ""))
    show(lines)


def _why_none(folder: Path | str) -> str:
    """Return the reason why a folder has no collections: it does not exist, or ``QdrantClient`` has filled it."""
    from twinvec_qdrant.stores.embedded.store import local_mode_hint

    return local_mode_hint(folder) if Path(folder).is_dir() else ", which does not exist"


def store_entries(place: CollectionPlace) -> list[dict[str, Any]]:
    """Return the fields of a ``CollectionEntry`` for each collection; if a process serves the store, ask it."""
    if (client := client_of(place)) is not None:
        with client:
            listed = client.get("/v1/collections")["data"]
        # only a Qdrant server has collections to adopt, and the process serves an embedded store
        return [{**{name: each[name] for name in ("name", "model", "dim")}, "adopting": False} for each in listed]
    from twinvec_qdrant.list_and_drop import list_collections

    return [asdict(each) for each in list_collections(**place.store())]


def drop_command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="The same as --collection.")] = None,
    collection: Annotated[
        str | None, typer.Option("--collection", "-c", metavar="NAME", help="Name of the collection.")
    ] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Delete a collection and all its contents; this cannot be undone.

    \b
    twinvec drop --collection docs --yes
    """
    check_store(path, url)
    if (name is None) == (collection is None):
        raise typer.BadParameter("give --collection NAME")
    dropped = name or str(collection)
    check_confirmed(yes, as_json=as_json)
    if not yes:
        typer.confirm(f"Delete the collection {dropped!r} and all its contents?", abort=True)
    _drop(CollectionPlace(dropped, path, url, wait, grpc_port))
    if as_json:
        show_json({"dropped": dropped})
    else:
        tell(f"dropped {dropped}")


@looks_again
def _drop(place: CollectionPlace) -> None:
    """Drop a collection; if a process serves the store, let that process drop it."""
    if (client := client_of(place)) is not None:
        with client:
            client.delete(collection_path(place.name))
        return
    from twinvec_qdrant.list_and_drop import drop_collection

    drop_collection(place.name, **place.store())
