"""The commands ``twinvec info``, ``twinvec collections`` and ``twinvec drop``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer

from twinvec.cli.options import (
    COLLECTIONS_PANEL,
    MAINTENANCE_PANEL,
    AsJson,
    CollectionName,
    StorePath,
    StoreUrl,
    check_store,
)
from twinvec.cli.terminal import properties, show, show_json, table
from twinvec_qdrant.cli.options import (
    WAIT_SECONDS,
    CollectionPlace,
    GrpcPort,
    Wait,
    as_text,
    grpc_options,
    open_from_options,
)


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    app.command("info", rich_help_panel=COLLECTIONS_PANEL)(info_command)
    app.command("collections", rich_help_panel=COLLECTIONS_PANEL)(collections_command)
    app.command("drop", rich_help_panel=MAINTENANCE_PANEL)(drop_command)


def info_command(
    collection: CollectionName,
    path: StorePath = None,
    url: StoreUrl = None,
    wait: Wait = WAIT_SECONDS,
    grpc_port: GrpcPort = None,
    as_json: AsJson = False,
) -> None:
    """Show the contents, the model and the settings of a collection.

    \b
    twinvec info --collection docs
    """
    with open_from_options(CollectionPlace(collection, path, url, wait, grpc_port)) as opened:
        values = opened.info()
    if as_json:
        show_json(values)
        return
    title = f"{values.pop('name')} at {values.pop('location')}"
    contents = {"points": values.pop("points"), "documents": values.pop("sources")}
    sources = {"sources": "\n".join(map(_source, values.pop("roots", []))) or "not known"}
    shown = {key.replace("_", " "): as_text(value) for key, value in (contents | sources | values).items()}
    show(title, properties(shown))


def _source(root: dict[str, Any]) -> str:
    """Return a source of a collection in words, with a line for each described folder in it."""
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
    from twinvec_qdrant.list_and_drop import list_collections

    check_store(path, url)
    found = list_collections(path, url=url, wait_seconds=wait, **grpc_options(url, grpc_port))
    if as_json:
        show_json({"collections": [asdict(each) for each in found]})
        return
    if not found:
        typer.echo("the store has no collections")
        return
    lines = table("Collections", "name", "model", "dimensions", numbers=("dimensions",))
    for each in found:
        lines.add_row(each.name, each.model or "not a twinvec collection, or damaged", str(each.dim or ""))
    show(lines)


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
    """Delete a collection and all its contents for ever.

    \b
    twinvec drop --collection docs --yes
    """
    from twinvec_qdrant.list_and_drop import drop_collection

    check_store(path, url)
    if (name is None) == (collection is None):
        raise typer.BadParameter("give --collection NAME")
    dropped = name or str(collection)
    if not yes:
        typer.confirm(f"Delete the collection {dropped!r} and all its contents?", abort=True)
    drop_collection(dropped, path, url=url, wait_seconds=wait, **grpc_options(url, grpc_port))
    if as_json:
        show_json({"dropped": dropped})
    else:
        typer.echo(f"dropped {dropped}")
