"""Ended commits: an open collection learns from the answers to its searches which commits have ended.

Every writer stores an intent before its first chunk, and removes the intent after its last chunk is committed or
removed (``records.commits``). All chunks of a commit carry its revision. Suppose that an answer shows a chunk of a
revision, and that a later request finds no intent. Then the commit of this revision has ended: every chunk of this
revision that still exists is committed.

A search may therefore show chunks without reading the records if

- the revisions of the chunks are known to have ended before the first request of the search was sent, and
- no request of the search finds an intent.

The first rule excludes uncommitted chunks, even if their writer starts between the parts of a request: a server answers
the parts in any order. The first rule also keeps a document's old and new chunks apart, because a new chunk is shown
only if its writer had already removed the old chunks. The second rule excludes the chunks that a killed writer left:
its intent stays until the next writer has removed these chunks. A search during the end of a write may show chunks that
the write replaces or removes, as if the search had come before the write.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

_MOST = 100_000  # largest number of revisions to remember; when it is exceeded, the oldest half is forgotten


@dataclass(frozen=True, slots=True)
class Moment:
    """The state of knowledge about commits when a search begins.

    Attributes:
        number: The number of the search; an open collection numbers its searches from 1.
        ended: Number of an earlier search. All commits that were seen before the start of that search have ended.
        expects_no_records: Whether the search will probably need no records.
    """

    number: int
    ended: int
    expects_no_records: bool


class EndedCommits:
    """The revisions that the searches of one open collection have seen; safe for several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[str, int] = {}  # revision -> number of the latest search when the revision was first seen
        self._number = 0
        self._ended = 0
        self._expects_no_records = False

    def now(self) -> Moment:
        """Return the present moment, for a search that has not sent a request yet."""
        with self._lock:
            self._number += 1
            return Moment(self._number, self._ended, self._expects_no_records)

    def had_ended(self, revision: str, then: Moment) -> bool:
        """Return whether the commit of a revision was known to have ended at the moment ``then``."""
        return self._met.get(revision, then.ended) < then.ended

    def learn(self, then: Moment, revisions: Sequence[str], *, no_intents: bool) -> None:
        """Learn from the answer to a request that was sent after the moment ``then``.

        ``revisions`` are the revisions of all chunks in the answer. ``no_intents`` says that the request found no
        intent.
        """
        with self._lock:
            if no_intents:
                self._ended = max(self._ended, then.number)
            ended = sum(self._met.get(each, self._ended) < self._ended for each in revisions)
            self._expects_no_records = no_intents and (
                2 * ended >= len(revisions) if revisions else self._expects_no_records
            )
            for each in revisions:
                self._met.setdefault(each, self._number)
            if len(self._met) > _MOST:
                self._met = dict(islice(self._met.items(), len(self._met) // 2, None))
