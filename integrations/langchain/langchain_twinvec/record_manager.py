"""TwinvecRecordManager: the state of LangChain's indexing, kept in the collection itself.

``langchain_core.indexing.index`` asks a record manager which documents it has written. This one looks into the
collection, so that a document that is lost from the store is written again.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from langchain_core.indexing import RecordManager

from langchain_twinvec.vectorstore import TwinvecVectorStore
from twinvec.errors import ConfigurationError
from twinvec.support.async_methods import awaitable
from twinvec_qdrant import Collection


class TwinvecRecordManager(RecordManager):
    """The record manager of a collection.

        index(documents, TwinvecRecordManager(store), store, cleanup="full", key_encoder="blake2b")

    Args:
        store: The vector store that documents are indexed into, or its collection.
        namespace: Separates the keys of sets of documents that are cleaned up separately.
    """

    def __init__(self, store: TwinvecVectorStore | Collection, namespace: str = "langchain") -> None:
        super().__init__(namespace)
        self._collection = store.collection if isinstance(store, TwinvecVectorStore) else store
        self._notes = self._collection.notes(f"record-manager/{namespace}")

    def create_schema(self) -> None:
        """Do nothing: the collection exists."""

    acreate_schema = awaitable(create_schema)

    def get_time(self) -> float:
        """Return this machine's time in seconds."""
        return time.time()

    aget_time = awaitable(get_time)

    def update(
        self, keys: Sequence[str], *, group_ids: Sequence[str | None] | None = None, time_at_least: float | None = None
    ) -> None:
        """Record these keys with the present time.

        Raises:
            ConfigurationError: the numbers of group ids and keys differ, or the clock is behind ``time_at_least``.
        """
        groups = [None] * len(keys) if group_ids is None else group_ids
        if len(groups) != len(keys):
            raise ConfigurationError(f"{len(keys)} keys, but {len(groups)} group ids")
        now = self.get_time()
        if time_at_least is not None and now < time_at_least:
            raise ConfigurationError(f"this machine's clock says {now}, which is before {time_at_least}: set the clock")
        self._notes.put({key: {"group": group, "time": now} for key, group in zip(keys, groups, strict=True)})

    aupdate = awaitable(update)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return whether the collection has a document under each key."""
        there = self._present(keys)
        return [key in there for key in keys]

    aexists = awaitable(exists)

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys of existing documents, filtered by time of update and by group."""
        bounds = {name: at for name, at in (("lt", before), ("gt", after)) if at is not None}
        wanted: dict[str, object] = {"time": bounds} if bounds else {}
        if group_ids is not None:
            if not group_ids:
                return []
            wanted["group"] = list(group_ids)
        keys = [key for key, _ in self._notes.find(wanted)]
        there = self._present(keys)
        return [key for key in keys if key in there][:limit]

    alist_keys = awaitable(list_keys)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Forget these keys."""
        self._notes.delete(keys)

    adelete_keys = awaitable(delete_keys)

    def _present(self, keys: Sequence[str]) -> set[str]:
        return {document.id for document in self._collection.get(list(keys))}
