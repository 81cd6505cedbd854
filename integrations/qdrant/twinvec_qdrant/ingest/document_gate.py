"""Intake: whatever callers give -> checked documents with different ids, in groups.

A broken document becomes a failure and stops no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from twinvec.errors import DocumentError, InputError
from twinvec.retrieval.documents import Document, as_document
from twinvec_qdrant.ingest.reading import Failure
from twinvec_qdrant.records.schema import canonical, digest, json_payload

GROUP_DOCUMENTS = 256
_GROUP_CHARACTERS = 4 * 1024 * 1024


class DocumentGate:
    """The documents of one ingest, read once.

    Args:
        settings: Those of chunking, which with the document decide what its chunks are.
        tenant_key: The key that every payload needs, in a collection of many tenants.
        fail: Called with the source and the reason of each that is broken.
        repeat: Called for each that came before, word for word.

    Attributes:
        seen: The version of every document so far, the hash of all that decides its chunks, by id; "" for a broken one.
        tenants: Those that documents named.
        hidden: Failures behind which there may be documents that were not seen.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        tenant_key: str | None,
        fail: Callable[[str, str], None],
        repeat: Callable[[], None],
    ) -> None:
        self.seen: dict[str, str] = {}
        self.tenants: set[str] = set()
        self.hidden = 0
        self._settings = canonical(dict(settings))
        self._tenant_key = tenant_key
        self._fail = fail
        self._repeat = repeat

    def groups(self, documents: Iterable[object]) -> Iterator[list[Document]]:
        """Checked documents, a few hundred at a time.

        Raises:
            DocumentError: ``documents`` is no iterable of documents.
        """
        if isinstance(documents, (str, bytes, Mapping)) or not isinstance(documents, Iterable):
            raise DocumentError(f"expected an iterable of documents, got {type(documents).__name__}")
        return self._groups(documents)

    def _groups(self, documents: Iterable[object]) -> Iterator[list[Document]]:
        group: list[Document] = []
        characters = 0
        for position, value in enumerate(documents):
            document = self._checked(value, position)
            if document is None:
                continue
            group.append(document)
            characters += len(document.text)
            if len(group) == GROUP_DOCUMENTS or characters >= _GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
        if group:
            yield group

    def _checked(self, value: object, position: int) -> Document | None:
        if isinstance(value, Failure):
            self.seen.setdefault(value.source, "")
            self.hidden += value.hides
            self._fail(value.source, value.reason)
            return None
        try:
            document = as_document(value, position)
            document = Document(document.id, document.text, document.title, json_payload(document))
            if self._tenant_key is not None and not isinstance(document.payload.get(self._tenant_key), str):
                raise DocumentError(
                    f"document {document.id!r}: its payload has to name its tenant, a string under {self._tenant_key!r}"
                )
        except InputError as error:
            source = _claimed_id(value)
            if source is None:
                self.hidden += 1
            else:
                self.seen.setdefault(source, "")
            self._fail(source or f"document {position}", str(error))
            return None
        if self._tenant_key is not None:
            self.tenants.add(document.payload[self._tenant_key])
        version = digest(document.text, document.title, canonical(document.payload), self._settings)
        earlier = self.seen.get(document.id)
        if not earlier:
            self.seen[document.id] = version
            return document
        if earlier == version:
            self._repeat()
        else:
            self._fail(document.id, "another document with the same id came before; that one was kept")
        return None


def _claimed_id(value: object) -> str | None:
    """The id that a broken document gives itself, if it can be told."""
    if isinstance(value, Mapping):
        found = value.get("id", value.get("_id"))
    elif isinstance(value, tuple):
        found = value[0] if value else None
    else:
        found = getattr(value, "id", None)
    if isinstance(found, int) and not isinstance(found, bool):
        return str(found)
    return found if isinstance(found, str) and found else None
