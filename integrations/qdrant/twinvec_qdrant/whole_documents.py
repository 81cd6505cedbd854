"""Collections as frameworks' vector stores need them: whole documents, and in memory unless a place is given.

What the vector stores of LangChain and LlamaIndex share; their own methods and classes stay with them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.collection import Collection

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def open_whole(
    name: str,
    *,
    encoder: SpaceEncoder | None = None,
    path: str | Path | None = None,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    collection: Collection | None = None,
) -> Collection:
    """A collection that keeps documents whole, opened or made.

    Args:
        name: Its name.
        encoder: As for ``Collection.open``.
        path: Folder of the embedded store.
        url: Address of a Qdrant server.
        client: A ``QdrantClient`` of the caller's. With none of the three, the collection lives in memory.
        api_key: For ``url``.
        collection: One that is open already, in place of the arguments before.

    Raises:
        ConfigurationError: arguments that contradict one another, or a collection that cuts documents into chunks; and
            what ``Collection.open`` raises.
    """
    if collection is None:
        if path is None and url is None and client is None:
            from qdrant_client import QdrantClient

            client = QdrantClient(":memory:")
        return Collection.open(name, path, url=url, client=client, api_key=api_key, encoder=encoder, chunking=False)
    if path is not None or url is not None or client is not None:
        raise ConfigurationError("an open collection has its place: leave out path, url and client")
    if collection.info()["chunking"]["enabled"]:
        raise ConfigurationError(
            f"{collection!r} cuts documents into chunks, which a vector store must not: search it with the "
            "framework's TwinvecRetriever, or open one with chunking=False"
        )
    return collection
