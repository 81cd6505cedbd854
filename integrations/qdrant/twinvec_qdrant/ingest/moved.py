"""Moved files: a file that was moved or renamed is a new document, and reuses the vectors of its old document.

The id of a document is its path. The vectors of a chunk depend only on the model and on the texts that its key stands
for, so vectors of any chunk with the same key serve. Only documents whose files are gone are searched for such chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from functools import cached_property
from itertools import accumulate, islice

from twinvec_qdrant.ingest.reading.results import Failure, printable
from twinvec_qdrant.ingest.reading.root import Reading
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description
from twinvec_qdrant.records.roots import Membership
from twinvec_qdrant.records.schema import chunks_of, stored_key
from twinvec_qdrant.stores.points import pages

_MOST = 100_000  # documents that are searched
_AT_ONCE = 256


class MovedChunks:
    """The stored chunks of documents of one root whose files are gone."""

    def __init__(self, catalog: Catalog, membership: Membership, reading: Reading) -> None:
        self._catalog = catalog
        self._membership = membership
        self._reading = reading

    @cached_property
    def ids(self) -> Mapping[str, str]:
        """The ids of the chunks, by key; looked up at the first use."""
        found: dict[str, str] = {}
        for page in pages(self._gone(), _AT_ONCE):
            listed = [chunk for record in self._catalog.records(page).values() for chunk in record.chunks]
            there = chunks_of(self._catalog.backend.retrieve(listed, ["kind", "content", "key"]))
            found.update((stored_key(point.payload), chunk) for chunk, point in there.items())
        return found

    def _gone(self) -> list[str]:
        own = list(filter(self._membership.has, self._catalog.sources()))
        walk = self._reading.walk
        if not own or walk is None:
            return []
        places = {printable(each.place) for each in walk.files() if not isinstance(each, Failure)}
        prefix = self._membership.prefix
        return list(islice((each for each in own if not _is_in(each.removeprefix(prefix), places)), _MOST))


def moved_chunks(
    catalog: Catalog, description: Description, membership: Membership, documents: object
) -> MovedChunks | None:
    """Return the chunks of moved files, or None if the vectors of stored chunks may not be those of the model.

    Callers can give vectors of whole documents, and an adopted collection has the vectors of another program.
    """
    is_encoded = description.chunking.enabled and description.layout is None
    return MovedChunks(catalog, membership, documents) if is_encoded and isinstance(documents, Reading) else None


def _is_in(source: str, places: Set[str]) -> bool:
    """Return whether a document is one of these files, or a record in one of them."""
    return not places.isdisjoint(accumulate(source.split("/"), "{}/{}".format))
