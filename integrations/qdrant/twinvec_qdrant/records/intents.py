"""Intents: points that name the documents a writer is about to change, so that others find its leftovers if it dies.

An intent has the ids of the documents (``sources``), the revisions that the writer may leave unfinished, the writer's
process, and the last time at which the writer was certainly alive. On a server, the intent also has the root of the
documents, which another process may remove meanwhile. At the end, the writer removes the intent.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from uuid import uuid4

from twinvec_qdrant.records.schema import INTENTS, intent_id
from twinvec_qdrant.records.writer_process import Writer
from twinvec_qdrant.stored_roots import StoredRoot
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point

ABANDONED_SECONDS = 3600.0
"""Age at which an intent counts as abandoned if its writer cannot be checked; a live writer renews it earlier."""

_active: set[str] = set()  # keys of the intents of this process


def new_intent() -> str:
    """Return the key of a new intent."""
    return intent_id(uuid4().hex)


def unfinished_sources(backend: Backend) -> set[str]:
    """Return the sources that a writer is changing, or was changing when it died."""
    intents = backend.scroll([INTENTS], ["sources"])
    return {source for intent in intents for source in intent.payload["sources"]}


class Intents:
    """The intents of the collection in ``backend``."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def write(self, key: str, sources: Sequence[str], revisions: Iterable[str], root: StoredRoot | None = None) -> None:
        """Write the intent of this key, or write it again to show that the writer is still alive."""
        payload = {
            "kind": "intent",
            **({} if root is None else {"root": root.as_fields()}),
            "sources": list(sources),
            "revisions": sorted(revisions),
            "time": time.time(),
            **Writer.this().as_payload(),
        }
        _active.add(key)
        self._backend.upsert([Point(key, payload)])

    def remove(self, keys: Sequence[str]) -> None:
        """Remove intents whose work is done."""
        self._backend.delete(keys)
        self.leave(keys)

    def leave(self, keys: Iterable[str]) -> None:
        """Leave intents to the next writer, because this process has stopped its work on them."""
        _active.difference_update(keys)

    def running(self) -> set[str]:
        """Return the sources that live writers are changing."""
        found = self._backend.scroll([INTENTS])
        return {source for each in found if not self._is_abandoned(each) for source in each.payload["sources"]}

    def abandoned(self, ended: Collection[Writer]) -> list[Point]:
        """Return the intents whose writers have ended, and those too old to belong to a live writer.

        ``ended`` has writers of which the caller knows that they have ended.
        """
        found = self._backend.scroll([INTENTS])
        return [each for each in found if self._is_abandoned(each) or Writer.of_payload(each.payload) in ended]

    def _is_abandoned(self, intent: Point) -> bool:
        writer = Writer.of_payload(intent.payload)
        if self._backend.exclusive or writer == Writer.this():
            return intent.id not in _active
        gone = writer.gone()
        return time.time() - float(intent.payload["time"]) > ABANDONED_SECONDS if gone is None else gone
