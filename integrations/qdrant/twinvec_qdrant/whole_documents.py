"""Open, fill and read a collection of whole documents, as the vector stores of LangChain and LlamaIndex need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinvec.arrays import unit
from twinvec.errors import ConfigurationError, DocumentError, SpaceMismatchError
from twinvec.retrieval.base import Hit, SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.encoders import checked_vector, document_vectors
from twinvec_qdrant.records.description import SAME_VECTOR_COSINE

if TYPE_CHECKING:
    from qdrant_client import QdrantClient


def open_whole_documents(
    name: str,
    *,
    encoder: SpaceEncoder | None = None,
    path: str | Path | None = None,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    collection: Collection | None = None,
    **options: Any,
) -> Collection:
    """Open or create a collection that keeps documents whole; default: in memory.

    ``collection`` is one that is open already; other arguments, ``options`` too, and errors are as for
    ``Collection.open``.

    Raises:
        ConfigurationError: the arguments contradict one another, or the collection cuts documents into chunks.
    """
    if collection is None:
        if path is None and url is None and client is None:
            from qdrant_client import QdrantClient

            client = QdrantClient(":memory:")
        place: dict[str, Any] = {"url": url, "client": client, "api_key": api_key}
        return Collection.open(name, path, **place, encoder=encoder, chunking=False, **options)
    if path is not None or url is not None or client is not None:
        raise ConfigurationError("an open collection has its place: leave out path, url and client")
    if collection.info()["chunking"]["enabled"]:
        raise ConfigurationError(
            f"{collection!r} cuts documents into chunks, but a vector store needs whole documents: search it with the "
            "framework's TwinvecRetriever, or open a collection with chunking=False"
        )
    return collection


def ingest_all(
    collection: Collection,
    documents: Sequence[Document],
    what: str,
    vectors: Mapping[str, Sequence[float]] | None = None,
) -> None:
    """Ingest documents, and raise an error if any are refused; arguments as for ``Collection.ingest``.

    Args:
        what: The documents in words, for the error ("3 texts").

    Raises:
        SpaceMismatchError: the model of the collection gives another vector for the first text that comes with one;
            nothing was written.
        BadVectorError: a vector is not finite, is zero, or has another size; nothing was written.
        DocumentError: names the refused documents and the reasons; the others are stored.
    """
    if vectors:
        _check_model(collection, documents, vectors)
    report = collection.ingest(documents, vectors=vectors)
    if report.failures:
        reasons = "; ".join(f"{source!r}: {reason}" for source, reason in report.failures[:5])
        raise DocumentError(f"{report.failed} of {what} were refused: {reasons}")


def with_documents(collection: Collection, hits: Sequence[Hit]) -> list[tuple[Document, Hit]]:
    """Return each hit with its document as it was stored; a hit's payload also has fields of the collection."""
    stored = {document.id: document for document in collection.get([hit.id for hit in hits])}
    return [(stored[hit.id], hit) for hit in hits if hit.id in stored]


def _check_model(collection: Collection, documents: Sequence[Document], vectors: Mapping[str, Sequence[float]]) -> None:
    """Compare the first vector with that of the collection's model, to notice the vectors of another one."""
    first = next((each for each in documents if each.id in vectors and each.text.strip()), None)
    if first is None:
        return
    encoder = collection.encoder
    where = f"document {first.id!r}: "
    given_D = unit(checked_vector(vectors[first.id], encoder.dim, where))
    cosine = given_D @ unit(document_vectors(encoder, [first.text])[0])
    if cosine < SAME_VECTOR_COSINE:
        raise SpaceMismatchError(
            f"{where}its vector is not what the collection's model {encoder.name!r} gives for its text (cosine "
            f"{cosine:.3f}): use one embedding model for the index and the store"
        )
