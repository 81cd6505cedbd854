"""Encoding: turns batches of planned documents into portions of vectors, each ready to be written.

While a thread encodes one portion, the caller writes the portion before it and plans the next batch. If planning
fails, the batches that were planned before are still encoded and written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import attrgetter
from typing import NamedTuple, TypeVar

from twinvec.errors import BadVectorError, InputError
from twinvec.support.cpu import thread_pool
from twinvec.support.progress import Advance
from twinvec_qdrant.ingest import pace
from twinvec_qdrant.ingest.chunk_vectors import ChunkVectors
from twinvec_qdrant.ingest.cutting.chunking import Chunk
from twinvec_qdrant.ingest.pace import Pace
from twinvec_qdrant.ingest.planned import PlannedDocument, TextVectors, distinct

T = TypeVar("T")


class _ToEncode(NamedTuple):
    """A chunk to encode: the row of its document in the batch, its key, and the chunk."""

    row: int
    key: str
    chunk: Chunk


@dataclass(slots=True)
class Portion:
    """A part of a batch: the vectors that have been encoded since the portion before."""

    batch: Sequence[PlannedDocument]
    vectors: dict[str, TextVectors]  # new vectors by key; the first portion has the known vectors of the batch, too
    is_first: bool
    is_last: bool = False  # whether all documents of the batch now have their vectors, or have failed
    encoded: int = 0  # number of encoded texts
    failures: list[tuple[str, str]] = field(default_factory=list)  # source and reason of each document that failed
    unseen: int = 0  # documents of the batch that the progress bar has not counted, if this portion is the last
    unseen_work: float = 0.0


class Encoding:
    """Encodes the batches of one ingest."""

    def __init__(self, vectors: ChunkVectors, pace: Pace) -> None:
        self._vectors = vectors
        self._pace = pace
        self._thread = thread_pool(1, "ingest")

    def portions(self, batches: Iterator[Sequence[PlannedDocument]], advance: Advance) -> Iterator[Portion]:
        """Yield the portions of all batches in order; while the caller handles one, the next one is encoded.

        ``advance`` moves the progress bar by documents and their work, in proportion to the encoded share of a batch.
        """
        failure: list[Exception] = []
        started = (_Batch(batch, self._vectors, self._pace, advance) for batch in _until_failure(batches, failure))
        batch = next(started, None)
        coming = None if batch is None else self._thread.submit(batch.portion)
        following = None
        while batch is not None and coming is not None:
            following = following or next(started, None)
            portion = coming.result()
            if portion.is_last:
                batch, following = following, None
            coming = None if batch is None else self._thread.submit(batch.portion)
            yield portion
        if failure:
            raise failure[0]

    def close(self) -> None:
        """End the thread after the current portion."""
        self._thread.shutdown(cancel_futures=True)


class LastingErrors(Iterator[T]):
    """An iterator that, after an error, raises the same error at each call.

    A failed generator would seem exhausted. An ingest that starts over with another model would then miss the error of
    its documents.
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._error: Exception | None = None

    def __next__(self) -> T:
        if self._error is not None:
            raise self._error
        try:
            return next(self._items)
        except StopIteration:  # not kept: its traceback would keep the frames of all callers
            raise
        except Exception as error:
            self._error = error
            raise


def _until_failure(
    batches: Iterator[Sequence[PlannedDocument]], failure: list[Exception]
) -> Iterator[Sequence[PlannedDocument]]:
    try:
        yield from batches
    except Exception as error:
        failure.append(error)


class _Batch:
    """A batch that is being encoded, by one thread at a time."""

    def __init__(
        self, documents: Sequence[PlannedDocument], vectors: ChunkVectors, pace: Pace, advance: Advance
    ) -> None:
        self._documents = documents
        self._source = vectors
        self._pace = pace
        self._advance = advance
        self._known = vectors.known(documents)
        self._done = set(self._known)  # keys of the chunks that have their vectors
        # documents of similar length go together, since an encoder pads the texts of a call to the longest one
        longest = [max((len(chunk.embedded) for chunk in each.chunks), default=0) for each in documents]
        self._order = sorted(range(len(documents)), key=longest.__getitem__)
        self._next = 0  # index in ``_order`` of the first document that may lack vectors
        self._failed: dict[int, str] = {}
        self._began = False
        unknown = (chunk.embedded for key, chunk in distinct(documents).items() if key not in self._done)
        self._left_weight = self._weight = sum(map(pace.weight, unknown))
        self._work = sum(planned.work for planned in documents)
        self._moved, self._moved_work = 0, 0.0

    def portion(self) -> Portion:
        """Encode texts for some seconds, or to the end of the batch, and return their vectors."""
        portion = Portion(self._documents, self._known, is_first=not self._began)
        self._began, self._known = True, {}
        before = set(self._failed)
        self._pace.begin()
        while taken := self._taken():
            self._encode(taken, portion)
            if self._pace.ended() and next(self._left(), None) is not None:
                break
        else:
            portion.is_last, portion.unseen = True, len(self._documents) - self._moved
            portion.unseen_work = self._work - self._moved_work
        failed = sorted(self._failed.keys() - before)
        portion.failures = [(self._documents[row].document.id, self._failed[row]) for row in failed]
        return portion

    def _left(self) -> Iterator[_ToEncode]:
        """Yield the distinct chunks that lack vectors, document by document."""
        coming: set[str] = set()
        for place in range(self._next, len(self._order)):
            row = self._order[place]
            planned = self._documents[row]
            for key, chunk in zip(planned.keys, planned.chunks, strict=True):
                if row not in self._failed and key not in self._done and key not in coming:
                    coming.add(key)
                    yield _ToEncode(row, key, chunk)
            if not coming:
                self._next = place + 1

    def _taken(self) -> list[_ToEncode]:
        """Return the chunks of the next encoder call; split a document only if whole documents fill less than half."""
        count = len(self._pace.next(each.chunk.embedded for each in self._left()))
        taken = list(islice(self._left(), count + 1))
        cut = taken[count].row if len(taken) > count else None  # the document of the first text that does not fit
        whole = [each for each in taken[:count] if each.row != cut]
        return whole if 2 * len(whole) >= count else taken[:count]

    def _encode(self, taken: Sequence[_ToEncode], portion: Portion) -> None:
        """Encode chunks in one call; if a text is bad, encode each document in a call of its own."""
        try:
            self._call(taken, portion)
        except (BadVectorError, InputError):
            for row, group in groupby(sorted(taken, key=attrgetter("row")), attrgetter("row")):
                try:
                    self._call(list(group), portion)
                except (BadVectorError, InputError) as error:
                    self._failed[row] = str(error)

    def _call(self, taken: Sequence[_ToEncode], portion: Portion) -> None:
        wanted = [each.chunk.embedded for each in taken]
        weight, encoded, began = sum(map(self._pace.weight, wanted)), 0, pace.clock()

        def on_texts(count: int) -> None:
            nonlocal encoded
            encoded += count
            self._move(self._left_weight - weight * min(encoded / len(wanted), 1))

        vectors = self._source.encoded([each.chunk for each in taken], on_texts)
        self._pace.took(wanted, pace.clock() - began)
        self._left_weight -= weight
        self._move(self._left_weight)
        portion.vectors.update(zip([each.key for each in taken], vectors, strict=True))
        portion.encoded += len(taken)
        self._done.update(each.key for each in taken)

    def _move(self, left: float) -> None:
        """Advance the progress bar: ``left`` is the weight of the batch's texts that are still to encode."""
        share = 1 - left / self._weight
        if self._work * share < self._moved_work:
            return  # after a bad text, the documents of a call are encoded again
        items, work = int(len(self._documents) * share), self._work * share
        self._advance(items - self._moved, work=work - self._moved_work)
        self._moved, self._moved_work = items, work
