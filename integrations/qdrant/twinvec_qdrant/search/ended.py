"""Which commits have ended: what a handle knows of that, from the answers to its searches.

Every writer keeps an intent from before its first chunk until its last chunk is committed, or removed
(``records.commits``), and its chunks carry its revision. Suppose that an answer has shown a chunk of a revision, and
that a request which is sent afterwards finds no intent. Then the writer of this revision has ended: all chunks of this
revision that exist from then on are committed.

So a search may show chunks without reading the records if

- their revisions are known to have ended before its first request was sent, and
- none of its requests finds an intent.

The first rule keeps out what a writer has not committed, also one that comes between the parts of a request: a server
answers these in any order. It keeps a document's old and new chunks apart too, because a new one is shown only if its
writer had removed the old ones before. The second rule keeps out what a killed writer has left: its intent stays until
the next writer has removed these remains. A search that meets the end of a write may show what this write replaces or
removes, as if the search had come before the write.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

_MOST = 100_000  # revisions; the oldest half makes way for others


@dataclass(frozen=True, slots=True)
class Moment:
    """What is known when a search begins.

    Attributes:
        number: The number of the search.
        ended: The number of a search; the commits that were met before that search began have ended.
        expects_no_records: Whether the search will probably need no records.
    """

    number: int
    ended: int
    expects_no_records: bool


class EndedCommits:
    """The revisions that the searches of one handle have met; threads may share it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._met: dict[str, int] = {}  # revision -> number of the last search that had begun when it was first met
        self._number = 0
        self._ended = 0
        self._expects_no_records = False

    def now(self) -> Moment:
        """Return this moment, for a search whose requests are sent later."""
        with self._lock:
            self._number += 1
            return Moment(self._number, self._ended, self._expects_no_records)

    def had_ended(self, revision: str, then: Moment) -> bool:
        """Return whether the commit of this revision is known to have ended at that moment."""
        return self._met.get(revision, then.ended) < then.ended

    def learn(self, then: Moment, revisions: Sequence[str], *, no_intents: bool) -> None:
        """Learn from the answer to a request that was sent after that moment, and found no intent if ``no_intents``.

        ``revisions`` are those of all chunks in the answer.
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
