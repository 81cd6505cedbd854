"""Options that several commands share, and opening the collection that they name."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinvec.errors import CollectionNotFoundError
from twinvec_qdrant.settings import IndexSettings

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection
    from twinvec_qdrant.settings import ChunkSettings


Name = Annotated[str, typer.Option("--collection", metavar="NAME", help="The collection.")]


Place = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Folder of the embedded store; ./.twinvec unless given."),
]


Url = Annotated[
    str | None,
    typer.Option(help="Qdrant server, in place of a folder; its key from QDRANT_API_KEY."),
]


Model = Annotated[
    str | None, typer.Option(help="default, a folder, or org/name@commit; the collection's own unless given.")
]


Wait = Annotated[
    float,
    typer.Option(
        "--wait", min=0, metavar="SECONDS", help="For a server that does not answer, or a process that has the store."
    ),
]


AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]


WAIT_SECONDS = 10.0
"""How long the commands wait for a store, unless told."""


def open_collection(
    name: str,
    path: Path | None,
    url: str | None,
    model: str | None,
    *,
    create: bool,
    chunking: ChunkSettings | Literal[False] | None = None,
    index: IndexSettings | None = None,
    tenant_key: str | None = None,
    late_interaction: bool | None = None,
    language: str = "english",
    dry_run: bool = False,
    wait: float = WAIT_SECONDS,
) -> Collection:
    """The collection that the options of a command name; with ``dry_run``, where there is none, an empty one in memory
    like the one that would be made.
    """
    from twinvec.encoder import Encoder
    from twinvec_qdrant.collection import Collection

    check_place(path, url)
    opened = partial(
        Collection.open,
        name,
        encoder=None if model is None else Encoder(model),
        chunking=chunking,
        index=index,
        tenant_key=tenant_key,
        late_interaction=late_interaction,
        language=language,
        wait_seconds=wait,
    )
    try:
        return opened(path=path, url=url, create=create)
    except CollectionNotFoundError:
        if not dry_run:
            raise
        from qdrant_client import QdrantClient

        return opened(client=QdrantClient(":memory:"))


def check_place(path: Path | None, url: str | None) -> None:
    """Refuse options that name two places."""
    if path is not None and url is not None:
        raise typer.BadParameter("give --path or --url, not both")


def plain(value: Any) -> str:
    """A value of a report in words."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {plain(each)}" for key, each in value.items())
    if isinstance(value, list):
        return ", ".join(map(plain, value))
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
