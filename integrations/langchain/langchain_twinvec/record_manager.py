"""TwinvecRecordManager: the state of LangChain's indexing, kept in the collection itself.

``langchain_core.indexing.index`` asks a record manager which documents it has written. This record manager looks into
the collection, so that a document that is lost from the store is written again.

``index`` asks whether documents exist, adds the missing ones, and only then records them. A process that dies before
the last step leaves documents without a record, which no clean-up would ever find. The record manager therefore notes a
missing document as *announced* when ``index`` asks for it. The next ``index`` writes and records the announced
documents that it has. It removes the other announced documents, unless another ``index`` that is under way has
announced them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from itertools import count
from threading import Thread, current_thread
from typing import Any, NamedTuple
from weakref import ReferenceType, WeakValueDictionary, ref

from langchain_core.indexing import RecordManager

from langchain_twinvec.vectorstore import TwinvecVectorStore
from twinvec.errors import ConfigurationError
from twinvec.support.async_methods import awaitable
from twinvec.support.checks import as_list, check_methods, integer
from twinvec_qdrant import Collection, Writer

_LONGEST_SECONDS = 3600.0
"""Seconds after which an announced document counts as abandoned, if the end of its ``index`` cannot be seen.

A process on another machine may end unseen. An ``index`` of this process that has failed counts as under way for as
long as the program keeps its exception.
"""


class _Start(float):
    """The time at which an ``index`` began. The ``index`` keeps this object until it ends."""


class _Index(NamedTuple):
    """The number of an ``index`` of this process, and a reference to the task or thread that runs it."""

    number: int
    runner: ReferenceType[asyncio.Task[Any] | Thread]


_numbers = count()
_under_way: WeakValueDictionary[int, _Start] = WeakValueDictionary()
_current: ContextVar[_Index | None] = ContextVar("index", default=None)


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
        check_methods(self._collection, ("notes",), "store", "a TwinvecVectorStore or a Collection")
        self._notes = self._collection.notes(f"record-manager/{namespace}")

    def create_schema(self) -> None:
        """Do nothing: the collection exists."""

    acreate_schema = awaitable(create_schema)

    def get_time(self) -> float:
        """Return this machine's time in seconds.

        ``index`` asks for the time first, so an earlier ``index`` of the same task or thread has ended.
        """
        before, runner = _current.get(), _runner()
        if before is not None and before.runner() is runner:
            _under_way.pop(before.number, None)
        number, start = next(_numbers), _Start(time.time())
        _current.set(_Index(number, ref(runner)))
        _under_way[number] = start
        return start

    async def aget_time(self) -> float:
        """``get_time``, awaitable: it runs in the caller's task and not in a thread, so that the task is known."""
        return self.get_time()

    def update(
        self, keys: Sequence[str], *, group_ids: Sequence[str | None] | None = None, time_at_least: float | None = None
    ) -> None:
        """Record these keys with the present time.

        Raises:
            ConfigurationError: the numbers of group ids and keys differ, or the clock is behind ``time_at_least``.
        """
        if group_ids is not None and len(group_ids) != len(keys):
            raise ConfigurationError(
                f"group_ids must have one item for each of the {len(keys)} keys, got {len(group_ids)}"
            )
        now = time.time()
        if time_at_least is not None and now < time_at_least:
            raise ConfigurationError(f"this machine's clock says {now}, which is before {time_at_least}: set the clock")
        if group_ids is None:  # the call updates only the time, so keep the groups
            known = self._notes.get(keys)
            group_ids = [known.get(key, {}).get("group") for key in keys]
        self._notes.put({key: {"group": group, "time": now} for key, group in zip(keys, group_ids, strict=True)})

    aupdate = awaitable(update)

    def exists(self, keys: Sequence[str]) -> list[bool]:
        """Return whether the collection has a recorded document under each key; note missing documents as announced.

        A document that has lost its text and metadata, as ``Collection.verify`` reports, is missing too.
        """
        there = {each.id for each in self._collection.get(list(keys)) if each.text or each.payload}
        noted = self._notes.get(keys)
        missing = [key for key in dict.fromkeys(keys) if key not in there]
        if missing:
            current = _current.get()
            writer = json.dumps({**Writer.this().as_payload(), "index": current and current.number})
            note = {"group": None, "time": time.time(), "announced": True, "writer": writer}
            self._notes.put(dict.fromkeys(missing, note))
        return [key in there and key in noted and not noted[key].get("announced") for key in keys]

    aexists = awaitable(exists)

    def list_keys(
        self,
        *,
        before: float | None = None,
        after: float | None = None,
        group_ids: Sequence[str] | None = None,
        limit: int | None = None,
    ) -> list[str]:
        """Return the keys of existing documents, filtered by time of update and by group.

        With ``before``, the keys of abandoned documents are listed too: an ``index`` has announced such a document and
        ended without recording it. Abandoned documents have no group. A ``limit`` of 0 is no limit, as in LangChain's
        own record managers.
        """
        limit = integer(0 if limit is None else limit, "limit", least=0)
        bounds = {name: at for name, at in (("lt", before), ("gt", after)) if at is not None}
        wanted: dict[str, object] = {"time": bounds} if bounds else {}
        recorded = {**wanted, "announced": {"ne": True}}
        if group_ids is not None:
            if not group_ids:
                return []
            recorded["group"] = as_list(group_ids, "group_ids", "group ids")
        keys = [key for key, _ in self._notes.find(recorded)]
        if before is not None:
            keys += [key for key, note in self._notes.find({**wanted, "announced": True}) if self._is_abandoned(note)]
        there = self._present(keys)
        return [key for key in keys if key in there][: limit or None]

    alist_keys = awaitable(list_keys)

    def delete_keys(self, keys: Sequence[str]) -> None:
        """Delete the records of these keys."""
        self._notes.delete(keys)

    adelete_keys = awaitable(delete_keys)

    def _is_abandoned(self, note: Mapping[str, Any]) -> bool:
        """Return whether the ``index`` that announced a document will never record it."""
        written_by = json.loads(note["writer"])
        writer = Writer.of_payload(written_by)
        is_own = writer == Writer.this()
        if is_own and written_by.get("index") not in _under_way:
            return True
        gone = None if is_own else writer.gone()
        return note["time"] < time.time() - _LONGEST_SECONDS if gone is None else gone

    def _present(self, keys: Sequence[str]) -> set[str]:
        return {document.id for document in self._collection.get(list(keys))}


def _runner() -> asyncio.Task[Any] | Thread:
    """Return the running task, or the thread if it runs no task."""
    try:
        return asyncio.current_task() or current_thread()
    except RuntimeError:  # the thread has no event loop
        return current_thread()
