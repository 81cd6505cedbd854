"""Open, fill and read a collection of whole documents, as the vector stores of LangChain and LlamaIndex need it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from contextlib import suppress
from pathlib import Path
from typing import Any

from twinvec.errors import CollectionNotFoundError, ConfigurationError, DocumentError, StoreBusyError, StoreError
from twinvec.retrieval.base import Hit, SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec.retrieval.filters import Filter
from twinvec.support.checks import check_methods, shown
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.frameworks.filters import canonical_id
from twinvec_qdrant.frameworks.given_vectors import check_vectors
from twinvec_qdrant.ingest.document_gate import DocumentGate
from twinvec_qdrant.ingest.reading.results import Failure, printable
from twinvec_qdrant.list_and_drop import drop_collection
from twinvec_qdrant.opening_store import QdrantClient
from twinvec_qdrant.report import IngestReport


def open_whole_documents(
    name: str,
    *,
    encoder: SpaceEncoder | None = None,
    path: str | Path | None = None,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    collection: Collection | None = None,
    recreate: bool = False,
    **options: Any,
) -> Collection:
    """Open or create a collection that keeps documents whole, in memory without ``path``, ``url`` and ``client``.

    ``collection`` is an open collection to use instead. ``recreate`` removes the stored collection first. The other
    arguments, ``options`` included, and the errors are those of ``Collection.open``.

    Raises:
        ConfigurationError: the arguments contradict one another, or the collection cuts documents into chunks.
    """
    if collection is None:
        if path is None and url is None and client is None:
            from qdrant_client import QdrantClient as Client

            client = Client(":memory:")
        place: dict[str, Any] = {"url": url, "client": client, "api_key": api_key}
        if recreate:
            kept = {key: options[key] for key in ("wait_seconds", "grpc", "grpc_port") if key in options}
            with suppress(CollectionNotFoundError):
                drop_collection(name, path, **place, **kept)
        return Collection.open(name, path, **place, encoder=encoder, chunking=False, **options)
    if path is not None or url is not None or client is not None:
        raise ConfigurationError("an open collection is given: leave out path, url and client")
    if recreate:
        raise ConfigurationError("an open collection is given, which cannot be created again: leave out force_recreate")
    check_methods(collection, ("ingest", "info"), "collection", "a collection, as Collection.open returns it")
    if collection.info()["chunking"]["enabled"]:
        raise ConfigurationError(
            f"{collection!r} cuts documents into chunks, but a vector store needs whole documents: search it with the "
            "framework's TwinvecRetriever, or open a collection with chunking=False"
        )
    return collection


def ingest_all(
    collection: Collection,
    documents: Mapping[str, Document | Failure],
    what: str,
    vectors: Mapping[str, Sequence[float]] | None = None,
    *,
    check: bool = True,
    unknown_ids: Set[str] = frozenset(),
) -> None:
    """Ingest documents, and raise an error if any document is refused.

    Args:
        collection: The open collection.
        documents: Each document under the name that errors give it, such as "text 3"; a ``Failure`` stands for a
            document that cannot be stored.
        what: Number and kind of the documents for the error, such as "3 texts".
        vectors: Vectors of documents, by document id.
        check: Whether to check that every vector is of the collection's model (``given_vectors``).
        unknown_ids: Random ids that the caller does not know. If a document is refused, or the encoder or the store
            fails, the documents with these ids are removed again: a second call would store them under other ids. If
            they cannot be removed, a note of the error names the ids.

    Raises:
        SpaceMismatchError: a vector is of another model; nothing was written.
        BadVectorError: a vector is not finite, is zero, or has another size; nothing was written.
        DocumentError: names the refused documents and the reasons, and says what is stored.
    """
    given = list(documents.values())
    collection.check_open()  # an error of the ingest would not say that nothing was stored
    if vectors and check:
        check_vectors(collection, [each for each in given if isinstance(each, Document)], vectors)
    if unknown_ids and len(given) > 1:  # a single document is stored or refused as a whole
        foreseen = _foreseen(collection, given)
        if foreseen.failures:
            raise _refusal(foreseen, documents, what, unknown_ids, "nothing was stored")
    report = IngestReport()
    try:
        collection.ingest(given, vectors=vectors, allow_all_failed=True, report=report)
    except Exception as error:  # some documents may be committed already
        if not isinstance(error, StoreBusyError) or report.new:
            _remove_after(error, collection, unknown_ids)
        raise
    if report.failures:
        others = "no document without an id is stored" if unknown_ids else "the others are stored"
        refusal = _refusal(report, documents, what, unknown_ids, others if report.failed < len(given) else "")
        _remove_after(refusal, collection, unknown_ids)
        raise refusal


def _foreseen(collection: Collection, given: Sequence[Document | Failure]) -> IngestReport:
    """Return a report with the documents that an ingest would refuse as invalid; nothing is stored."""
    report = IngestReport()
    gate = DocumentGate({}, collection.info()["tenant_key"], report.fail, lambda: None, report.count_empty)
    for _ in gate.groups(given):
        pass
    return report


def _remove_after(error: Exception, collection: Collection, ids: Set[str]) -> None:
    """Remove documents after an error; if the store fails again, add a note with their ids to the error."""
    if not ids:
        return
    try:
        collection.delete(sorted(ids))
    except StoreError as failure:
        named = ", ".join(sorted(ids))
        error.add_note(
            f"documents may be stored under generated ids and could not be removed ({failure}); delete these ids "
            f"before you add the documents again: {named}"
        )


def _refusal(
    report: IngestReport, documents: Mapping[str, Document | Failure], what: str, unknown_ids: Set[str], others: str
) -> DocumentError:
    """Return the error that lists the first five refused documents, with the ids that the caller knows."""
    # an ingest calls a document without an id "document 3", counted from 0
    names = {f"document {index}": place for index, place in enumerate(documents)}
    for place, each in documents.items():
        key = each.source if isinstance(each, Failure) else each.id
        if isinstance(key, str):
            names[printable(key)] = place if key in unknown_ids else f"{place} ({shown(key)})"
    reasons = []
    for source, reason in report.failures[:5]:
        name = names.get(printable(source), shown(source))
        reasons.append(f"{name}: {reason.removeprefix(f'document {shown(source)}: ')}")
    stored = f"; {others}" if others else ""
    return DocumentError(f"{report.failed} of {what} were refused{stored}: {'; '.join(reasons)}")


def stored_ids(collection: Collection, ids: Sequence[Any]) -> list[Any]:
    """Return the ids as the collection has them: a UUID in another form becomes that of the stored document.

    Qdrant accepts a UUID in any form, and returns it with dashes; the ids of documents that were taken over therefore
    have dashes. But ``QdrantVectorStore.add_texts`` gives an application UUIDs without dashes. An id stays as it is if
    a document has exactly this id, or if no document has it in either form.
    """
    forms = {each: form for each in ids if isinstance(each, str) and (form := canonical_id(each)) != each}
    there = set(collection.find({"id": list(forms.values())})) if forms else set()
    forms = {each: form for each, form in forms.items() if form in there}
    exact = set(collection.find({"id": list(forms)})) if forms else set()
    return [forms.get(each, each) if isinstance(each, str) and each not in exact else each for each in ids]


def filtered(collection: Collection, filter: Filter | None, limit: int, offset: int = 0) -> list[Hit]:
    """Return documents that satisfy a filter, in the order of their ids, as hits with score and relevance 0.

    These documents answer a blank query that has a filter, as language models write for "all pages of the team hr". A
    filter without a condition finds nothing. The caller has checked that the filter names a tenant, if the collection
    has many tenants.
    """
    keys = sorted(collection.find(filter))[offset : offset + limit] if filter else []
    return [Hit(document.id, document.text, 0.0, relevance=0.0) for document in collection.get(keys)]


def with_documents(collection: Collection, hits: Sequence[Hit]) -> list[tuple[Document, Hit]]:
    """Return each hit with its stored document, whose payload has only the user's fields."""
    stored = {document.id: document for document in collection.get([hit.id for hit in hits])}
    return [(stored[hit.id], hit) for hit in hits if hit.id in stored]
