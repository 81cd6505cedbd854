"""The options that say how documents are cut: for a new collection, and for the next ingest of an existing one."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from twinvec_qdrant.settings import ChunkSettings

if TYPE_CHECKING:
    from twinvec_qdrant.collection import Collection

NewSurroundings = Annotated[
    int | None,
    typer.Option(
        "--surroundings",
        min=0,
        metavar="TOKENS",
        help="New collection: tokens of text around a chunk that are embedded with it. Default: 0.",
    ),
]
OtherSurroundings = Annotated[
    int | None,
    typer.Option(
        "--surroundings",
        min=0,
        metavar="TOKENS",
        help="From the next ingest: tokens of text around a chunk that are embedded with it.",
    ),
]
CutCode = Annotated[
    bool | None,
    typer.Option(
        "--cut-code/--no-cut-code",
        help="From the next ingest: cut code at functions and classes, in all languages that are installed.",
    ),
]
KeepPages = Annotated[
    bool | None, typer.Option("--pages/--no-pages", help="From the next ingest: keep the page of each chunk of a PDF.")
]


def new_chunking(
    whole: bool, max_tokens: int | None, overlap: int | None, surroundings: int | None
) -> ChunkSettings | Literal[False] | None:
    """Return the chunk settings that the options give, or None for the collection's own."""
    given = [each for each in (max_tokens, overlap, surroundings) if each is not None]
    if whole:
        if given:
            raise typer.BadParameter("--no-chunking excludes --chunk-tokens, --overlap and --surroundings")
        return False
    return ChunkSettings(max_tokens=max_tokens, overlap=overlap or 0, surroundings=surroundings or 0) if given else None


def other_chunking(
    collection: Collection, code: bool | None, pages: bool | None, surroundings: int | None
) -> ChunkSettings | None:
    """Return the collection's chunk settings with what the options change, or None if they change nothing."""
    from twinvec_qdrant.ingest.cutting.code import installed_languages

    settings = ChunkSettings.from_dict(collection.info()["chunking"])
    if code is not None:
        settings = replace(settings, code=installed_languages() if code else ())
    if pages is not None:
        settings = replace(settings, pages=pages)
    if surroundings is not None:
        settings = replace(settings, surroundings=surroundings)
    return None if code is pages is surroundings is None else settings
