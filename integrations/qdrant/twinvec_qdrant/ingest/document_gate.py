"""The input gate of an ingest: checks documents of all accepted forms, and reports invalid and repeated documents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from twinvec.errors import DocumentError, InputError
from twinvec.retrieval.documents import Document, as_document, as_id, check_documents, json_payload
from twinvec.support.checks import shown
from twinvec_qdrant.ingest.reading.results import Empty, Failure, printable
from twinvec_qdrant.ingest.reading.root import Reading
from twinvec_qdrant.records.roots import FIRST_ROOT, Membership
from twinvec_qdrant.records.schema import canonical, digest, hidden_parts
from twinvec_qdrant.stored_roots import SEPARATOR

GROUP_DOCUMENTS = 256
_GROUP_CHARACTERS = 4 * 1024 * 1024
_OVERHEAD = 64  # what a document costs besides its text, in characters


class DocumentGate:
    """Checks the documents of one ingest, in one pass.

    If ``tenant_key`` is not None, every payload needs this key. ``fail`` is called with the id and the reason for each
    invalid document, and ``empty`` for each document without text, which counts as absent. ``repeat`` is called for
    each document that came before in the same version. ``ways`` returns the settings for cutting one document.

    Attributes:
        seen: Id -> version of each document so far: the hash of all that decides its chunks; "" if it is invalid.
        tenants: The tenants that the documents name.
        hidden: Prefix of ids -> number of failures that may hide documents with such ids.
        unnamed: The ids that were made for texts without an id.
        work: Id -> amount that was read for a document and for the invalid documents before it, in the unit of
            ``total_work``. The caller removes the entry of each document that it has handled.
    """

    def __init__(
        self,
        settings: Mapping[str, Any],
        tenant_key: str | None,
        fail: Callable[[str, str], None],
        repeat: Callable[[], None],
        empty: Callable[[str, str], None],
        ways: Callable[[Document], Mapping[str, Any]] = lambda _: {},
    ) -> None:
        self.seen: dict[str, str] = {}
        self.tenants: set[str] = set()
        self.hidden: Counter[str] = Counter()
        self.unnamed: set[str] = set()
        self.work: dict[str, int] = {}
        self._given = dict(settings)
        self._settings = canonical(self._given)
        self._ways = ways
        self._tenant_key = tenant_key
        self._membership = FIRST_ROOT
        self._fail = fail
        self._repeat = repeat
        self._empty = empty

    def groups(self, documents: Iterable[object], membership: Membership = FIRST_ROOT) -> Iterator[list[Document]]:
        """Check documents and yield them in groups of a few hundred; ``membership`` gives their ids a prefix.

        Raise ``DocumentError`` if ``documents`` is not an iterable.
        """
        self._membership = membership
        return self._groups(check_documents(documents))

    def _groups(self, documents: Iterable[object]) -> Iterator[list[Document]]:
        group: list[Document] = []
        characters = work = before = 0
        for position, value in enumerate(documents):
            if isinstance(documents, Reading):
                work, before = work + documents.done - before, documents.done
            else:
                work += _size(value)
            document = self._checked(value, position)
            if document is None or not self._is_first(document):
                continue
            self.work[document.id], work = work, 0
            group.append(document)
            characters += len(document.text)
            if len(group) == GROUP_DOCUMENTS or characters >= _GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
        if group:
            yield group

    def _checked(self, value: object, position: int) -> Document | None:
        """Return the document with its payload as plain JSON; None if it is invalid."""
        if isinstance(value, Empty):
            self._empty(self._membership.prefix + value.source, value.reason)
            return None
        if isinstance(value, Failure):
            prefix = self._membership.prefix
            is_whole = value.hides and not value.below  # whether the source consists of one file
            is_named = is_whole and f"{value.source}{SEPARATOR}".startswith(prefix)
            name = value.source if is_named else prefix + value.source
            self._refuse(name, value.reason, prefix + value.below if value.hides else None)
            return None
        try:
            document = as_document(value, position)
            source = self._membership.id_of(document.id)
            payload = json_payload(document)
            if self._tenant_key is not None:
                self.tenants.add(_tenant(document.id, payload, self._tenant_key))
        except InputError as error:
            claimed = _claimed_id(value)
            name = f"document {position}" if claimed is None else self._membership.prefix + printable(claimed)
            reason = str(error).removeprefix(f"document {position}: ")  # the caller may number documents differently
            self._refuse(name, reason, self._membership.prefix if claimed is None else None)
            return None
        if isinstance(value, str):
            self.unnamed.add(source)
        return replace(document, id=source, payload=payload)

    def _refuse(self, source: str, reason: str, below: str | None) -> None:
        """Report a failure; it may hide documents whose ids begin with ``below`` (None: no document)."""
        self.seen.setdefault(source, "")
        if below is not None:
            self.hidden[below] += 1
        self._fail(source, reason)

    def _is_first(self, document: Document) -> bool:
        ways = self._ways(document)
        settings = canonical({**self._given, **ways}) if ways else self._settings
        version = document_version(document, settings)
        earlier = self.seen.get(document.id)
        if not earlier:
            self.seen[document.id] = version
        elif earlier == version:
            self._repeat()
        else:
            self._fail(document.id, "an earlier document has the same id; the earlier document was kept")
        return not earlier


def document_version(document: Document, settings: str) -> str:
    """Return the hash of everything that decides a checked document's chunks; ``settings`` are canonical JSON."""
    payload = canonical(document.payload)
    return digest(document.text, document.title, payload, settings, *hidden_parts(document.hidden))


def total_work(documents: object) -> int | None:
    """Return the amount to read: bytes of files, or characters of texts; None if it is unknown."""
    if isinstance(documents, Reading):
        return documents.size or None
    return sum(map(_size, documents)) if isinstance(documents, Collection) else None


def _size(value: object) -> int:
    """Return the length of a document's text plus a constant, for a document of any accepted form."""
    if isinstance(value, Mapping):
        text = value.get("text")
    elif isinstance(value, tuple):
        text = value[-1] if value else None
    else:
        text = value if isinstance(value, str) else getattr(value, "text", getattr(value, "page_content", None))
    return _OVERHEAD + len(text) if isinstance(text, str) else _OVERHEAD


def _tenant(identity: str, payload: Mapping[str, Any], key: str) -> str:
    tenant = payload.get(key)
    if not isinstance(tenant, str):
        raise DocumentError(f"document {shown(identity)}: the payload must name the tenant, a string under {key!r}")
    return tenant


def _claimed_id(value: object) -> str | None:
    """Return the id of an invalid document, if it has a usable one."""
    if isinstance(value, Mapping):
        found = value.get("id", value.get("_id"))
    elif isinstance(value, tuple):
        found = value[0] if value else None
    else:
        found = getattr(value, "id", None)
    found = as_id(found)
    return found if isinstance(found, str) and found else None
