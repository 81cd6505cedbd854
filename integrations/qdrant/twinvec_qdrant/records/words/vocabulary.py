"""The vocabulary of a collection: its words, each with the number of chunks that have it, to correct queries.

One point without vectors holds the most frequent words, compressed. At the end of its work, a writer adds the words of
its chunks; words of removed chunks stay until all chunks are counted again. The point also holds the number of counted
chunks. If a writer was killed, or two wrote at the same time, this number is wrong, and the next writer counts all
chunks again. Collections with version 1 of the analysis of words have no vocabulary, and queries are not corrected.
"""

from __future__ import annotations

import base64
import math
import time
import zlib
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial

from twinvec.retrieval.analysis import Analyzer, is_counted, is_short, written_words
from twinvec.retrieval.bm25 import TermCounts
from twinvec.retrieval.relevance import MANY
from twinvec_qdrant.records.schema import CHUNKS, note_id
from twinvec_qdrant.records.words.spelling import MAX_WORDS, Speller
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.steps import Steps

_NAMESPACE = "twinvec.vocabulary"
VOCABULARY = note_id(_NAMESPACE, "")
"""Id of the point that holds the vocabulary."""

_SHORT = "short"  # field of the point: whether short words were counted in all chunks
_FRESH_SECONDS = 60.0  # time after which the vocabulary is read again, because other writers may have changed it
_MOST_COUNTED = 200_000  # more chunks are not counted again, because that would take minutes
_MOST_SEEN = 200_000  # spellings held in memory; more are merged into words


class Vocabulary:
    """The vocabulary of the collection in ``backend``, and the words that this process adds to it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._seen: Counter[str] = Counter()  # words as spelt in texts
        self._new: Counter[str] = Counter()
        self._written = 0  # number of written chunks minus number of removed chunks
        self._stored: Mapping[str, object] | None = None
        self._read_at = -math.inf  # seconds of the monotonic clock
        self._of_stored: tuple[Mapping[str, object] | None, TermCounts, Speller | None] | None = None

    @property
    def chunks(self) -> int | None:
        """Number of chunks of the collection, as far as this object knows; None if no stored vocabulary was read."""
        return None if self._stored is None else int(str(self._stored["chunks"])) + self._written

    def see(self, texts: Iterable[str], analyzer: Analyzer) -> None:
        """Count the words of chunks that have been written."""
        self._seen.update(written_words(texts))
        if len(self._seen) > _MOST_SEEN:
            self._count(analyzer)

    def _count(self, analyzer: Analyzer) -> None:
        self._new.update(analyzer.word_counts(self._seen))
        self._seen.clear()

    def changed(self, chunks: int) -> None:
        """Add the number of written chunks, which is negative for removed chunks."""
        self._written += chunks

    def taken(self, analyzer: Analyzer) -> tuple[Counter[str], int]:
        """Return the counted words and chunks, for another object to ``add``, and forget them here."""
        self._count(analyzer)
        taken = self._new, self._written
        self._new, self._written = Counter(), 0
        return taken

    def add(self, words: Mapping[str, int], chunks: int) -> None:
        """Add words and chunks that another object has counted (``taken``)."""
        self._new.update(words)
        self._written += chunks

    def follows(self, chunks: int) -> bool:
        """Return whether the vocabulary, with the words that are not yet saved, covers exactly ``chunks`` chunks."""
        return chunks == self._covered(self._backend.retrieve([VOCABULARY]).get(VOCABULARY))

    def _covered(self, stored: Point | None) -> int:
        return self._written + (stored.payload["chunks"] if stored else 0)

    def save(self, chunks: int, analyzer: Analyzer, *, anew: bool = False) -> None:
        """Store the counted words at the end of a writer's work; with ``anew``, count all chunks again.

        ``chunks`` is the number of chunks that the collection has now. All chunks are also counted again if the stored
        number of chunks shows that another writer was killed before this step. Without ``anew``, the words are not
        forced to the disk: after a power failure they may be missing, and fewer words of queries are corrected.
        """
        self._count(analyzer)
        stored = self._backend.retrieve([VOCABULARY]).get(VOCABULARY)
        is_complete = chunks == self._covered(stored)
        if is_complete and not (self._new or self._written or anew):
            return
        has_short = True
        if not anew and (is_complete or (stored is not None and chunks > _MOST_COUNTED)):
            words = self._new + Counter(_unpacked(stored.payload) if stored else {})
            has_short = stored is None or bool(stored.payload.get(_SHORT))
        else:
            words = Counter()
            for page in pages(self._backend.scroll([CHUNKS], ["text"])):
                words.update(analyzer.word_counts(written_words(point.payload["text"] for point in page)))
        kept = dict(words.most_common(MAX_WORDS))
        point = _point(kept, chunks, has_short=has_short)
        self._backend.upsert([point])
        if anew:
            self._backend.flush()
        self._new, self._written = Counter(), 0
        self._stored, self._read_at = point.payload, time.monotonic()

    def read(self) -> Steps[None]:
        """Read the stored vocabulary, unless this object has read or written it in the last minute."""
        if time.monotonic() - self._read_at > _FRESH_SECONDS:
            stored = (yield from self._backend.points([VOCABULARY])).get(VOCABULARY)
            now = None if stored is None else stored.payload
            if now != self._stored:  # an equal vocabulary keeps what was derived from it
                self._stored = now
            self._read_at = time.monotonic()

    def speller(self, analyzer: Analyzer) -> Steps[Speller | None]:
        """Return the corrector of queries, or None without a vocabulary."""
        yield from self.read()
        return self._derived(analyzer)[1]

    def term_counts(self, analyzer: Analyzer) -> TermCounts:
        """Return the number of chunks that have each term, by the vocabulary that was read last.

        A chunk that has several words with the same term counts several times.
        """
        return self._derived(analyzer)[0]

    def _derived(self, analyzer: Analyzer) -> tuple[TermCounts, Speller | None]:
        """Return the counts of terms and the corrector of queries, from the vocabulary that was read last."""
        stored = self._stored
        if self._of_stored is None or self._of_stored[0] is not stored:
            words = {} if stored is None else _unpacked(stored)
            counts: Counter[str] = Counter()
            for terms, count in zip(analyzer.terms(list(words)), words.values(), strict=True):
                for term in terms:
                    counts[term] += count
            is_known = partial(_is_counted, short=stored is not None and bool(stored.get(_SHORT)))
            known = TermCounts(max(self.chunks or MANY, 1), counts, is_known if words else _knows_nothing)
            self._of_stored = stored, known, None if stored is None else Speller(words, counts, analyzer)
        return self._of_stored[1:]


def _is_counted(term: str, *, short: bool) -> bool:
    """Return whether the vocabulary would have a term that a chunk has; with ``short``, it also has short words."""
    return is_counted(term) or (short and is_short(term))


def _knows_nothing(term: str) -> bool:
    return False


def _point(words: Mapping[str, int], chunks: int, *, has_short: bool = True) -> Point:
    """Return the point that holds the words: a note with a separate field for them, which filters do not read."""
    lines = "\n".join(f"{word} {count}" for word, count in words.items())
    packed = base64.b85encode(zlib.compress(lines.encode())).decode()
    note = {"kind": "note", "namespace": _NAMESPACE, "key": "", "metadata": {}}
    short = {_SHORT: True} if has_short else {}
    return Point(VOCABULARY, {**note, "chunks": chunks, "words": packed, **short})


def _unpacked(payload: Mapping[str, object]) -> dict[str, int]:
    lines = zlib.decompress(base64.b85decode(str(payload["words"]))).decode().splitlines()
    return {word: int(count) for word, _, count in (line.partition(" ") for line in lines)}
