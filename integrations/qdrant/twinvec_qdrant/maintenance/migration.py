"""Migration: a collection changes from one model to another while it serves searches.

    1. The description names the next model, and points get room for its vectors next to the present ones.
    2. Every chunk without a next vector is encoded from its stored text, until all chunks have one.
    3. A sample of chunks is encoded again and searched for.
    4. Chunks written meanwhile are encoded. Then the point ``model`` names the next vectors, and at last the
       description makes the next model the collection's model.
    5. Chunks that other processes wrote just before the switch are encoded, too.

The vectors of two models have different names: a search uses the vectors of its own model, and a writer with a former
model is refused. Only the description decides which model the collection has. The point lets a search notice the switch
without another request (``served_model``); it is written first, so that no search misses a switch. All state is in the
store; a killed migration continues where it stopped. After a kill in step 5, the next ingest encodes these chunks
(``finish_switch``). If the kill came after the switch, a further call does what is left: chunks, words, calibration.

A model of the collection's own space, such as an export of its model, needs no new vectors: if it gives the recorded
vectors for the probes, one write of the description records its name.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from itertools import compress, islice
from typing import Any

from twinvec.arrays import unit
from twinvec.errors import BadVectorError, ConfigurationError, ModelError, StoreError, StoreLimitError
from twinvec.retrieval import analysis as analyses
from twinvec.retrieval.base import SpaceEncoder
from twinvec.support.checks import number
from twinvec.support.progress import Advance, progress_bar, unseen
from twinvec_qdrant.calibration.measuring import is_due
from twinvec_qdrant.encoders import document_vectors, token_states, truncated
from twinvec_qdrant.ingest.cutting.chunking import Chunker
from twinvec_qdrant.records.description import (
    SAME_VECTOR_COSINE,
    Description,
    Generation,
    check_probes,
    generation,
    name_model,
    stored_description,
    under_the_name_of,
)
from twinvec_qdrant.records.recorded_space import RecordedSpace
from twinvec_qdrant.records.schema import CHUNKS, EMBEDDED_FIELDS, embedded_text, model_id
from twinvec_qdrant.report import MigrationReport
from twinvec_qdrant.stores.base import Backend, update_existing
from twinvec_qdrant.stores.conditions import LacksVector, StoreCondition
from twinvec_qdrant.stores.points import Point, Query, pages

logger = logging.getLogger(__name__)

OnProgress = Callable[[str, int, int], None]
"""Function that gets the progress: the step ("measuring" or "migrating"), its finished chunks, and its total chunks."""

_PAGE = 512
_LONGEST_PAUSE = 1.0  # seconds between two checks that the migration was not given up
_SAMPLE = 64


class Migration:
    """One migration to the model of ``encoder``; see ``Collection.migrate`` for errors. ``report`` counts its work.

    ``renames`` says that only the name of the model changes, because all vectors exist. ``present`` returns the encoder
    of the present model; if it is None, the next model may truncate chunks that the present model reads whole.
    ``on_progress`` gets the progress, and ``progress`` says whether to show it.
    """

    def __init__(
        self,
        backend: Backend,
        encoder: SpaceEncoder,
        chunks_per_second: float | None,
        *,
        present: Callable[[], SpaceEncoder] | None,
        progress: bool,
        on_progress: OnProgress | None,
    ) -> None:
        if chunks_per_second is not None and not number(chunks_per_second, "chunks_per_second") > 0:
            raise ConfigurationError(f"chunks_per_second must be above 0, got {chunks_per_second!r}")
        self.report = MigrationReport(encoder.name)
        self.renames = False
        self._backend = backend
        self._encoder = encoder
        self._chunks_per_second = chunks_per_second
        self._progress = progress
        self._on_progress = on_progress
        now = stored_description(self._backend)
        Chunker(encoder, now.chunking)
        if present is not None and encoder.space != now.space:
            self._check_length(now, present)
        with backend.writing:
            self._next = self._begin()

    def target(self) -> Description:
        """Return the description with the next model; raise ``ConfigurationError`` if this migration was given up."""
        now = stored_description(self._backend)
        if now.vector == self._next.vector:
            return under_the_name_of(self._encoder, now)
        other = now if self.renames else now.next
        if other is None or other.vector != self._next.vector:
            instead = "it has been given up" if other is None else f"a migration to {other.model!r} took its place"
            raise ConfigurationError(
                f"{self._backend.location}: the migration to {self._next.model!r} was under way, but {instead} "
                "meanwhile; begin it again"
            )
        return now.switched(other)

    def fill(self) -> None:
        """Encode the chunks without a vector of the next model, and check a sample."""
        if self.renames:
            return
        with self._unless_given_up():
            left = self._backend.count([CHUNKS, LacksVector(self._next.vector)])
            with self._counted("migrating", left) as advance:
                self._sweep(advance)
            self._backend.build_index(stored_description(self._backend).index)
            self._check_sample()

    def switch(self) -> Description:
        """Make the next model the collection's model; return the description with it."""
        with self._unless_given_up():
            self._sweep(unseen)
            with self._backend.writing:  # other threads wait for the end of this block, so it must be short
                self._sweep(unseen, throttled=False)
                target = self.target()
                if not self.renames:
                    name_model(self._backend, target)
                    self._backend.flush()
                self._backend.write_metadata(target.changes(stored_description(self._backend)))
                self.report.model, self.report.switched = target.model, True
                if not self.renames and not self._backend.exclusive:
                    # another process may have dropped the vectors since ``target`` was read, and named its own model
                    _add_vector(self._backend, self._next)
                    name_model(self._backend, target)
            self._sweep(unseen, throttled=False)  # other processes may have written chunks before they saw the switch
            self._backend.flush()
        return target

    @contextmanager
    def _unless_given_up(self) -> Iterator[None]:
        """Raise the error of ``target`` instead of the store's if another process has given this migration up."""
        try:
            yield
        except StoreError:
            self.target()
            raise

    def _begin(self) -> Generation:
        """Return the next model that the description names; write it there first if necessary."""
        now = stored_description(self._backend)
        if self._encoder.space == now.space:
            present = under_the_name_of(self._encoder, now)
            self.renames = not self._was_killed_after_switch(now)
            # a RecordedSpace stands for an encoder of another library
            loadable = not isinstance(self._encoder, RecordedSpace)
            if self.renames and (present == now or not loadable):
                raise ConfigurationError(
                    f"{self._backend.location}: has the model {now.model!r} already, so nothing is left to migrate"
                )
            check_probes(now, self._encoder, self._backend.location)
            return present
        if now.next is not None and now.next.space != self._encoder.space:
            raise ConfigurationError(
                f"{self._backend.location}: a migration to {now.next.model!r} is under way; finish it, or give it up "
                "(Collection.drop_others)"
            )
        previous = now.previous
        following = now.next or previous
        if following is not None and following.space == self._encoder.space:
            check_probes(following, self._encoder, self._backend.location)
            following = under_the_name_of(self._encoder, following)
        else:
            name = f"dense-{self._encoder.space[:16]}"
            following = generation(self._encoder, name, late_interaction=now.states_dim is not None)
            if previous is not None:
                if _dropped(self._backend, previous).vector != now.vector:
                    return self._begin()  # another process has switched to that model meanwhile
                previous = None
        updated = now.model_copy(update={"next": following, "previous": previous})
        self._backend.write_metadata(updated.changes(now))
        _add_vector(self._backend, following)
        after = stored_description(self._backend)
        if all(each is None or each.vector != following.vector for each in (after, after.next, after.previous)):
            # another process gave the migration up before the vector was added, so nothing else removes the vector
            self._backend.drop_vector(following.vector)
        return following

    def _was_killed_after_switch(self, now: Description) -> bool:
        """Return whether a migration to the present model has left chunks, words or the calibration undone."""
        if self._backend.holds([CHUNKS, LacksVector(now.vector)]):
            return True
        if now.previous is None:
            return False
        return is_due(now, self._backend.count([CHUNKS])) or now.analyzer.version != analyses.NEWEST_ANALYSIS

    def _check_length(self, now: Description, present: Callable[[], SpaceEncoder]) -> None:
        """Raise ``ConfigurationError`` if the next model truncates chunks that the present one reads whole."""
        there = [each for each in (now.next, now.previous) if each is not None and each.space == self._encoder.space]
        unread: list[StoreCondition] = [CHUNKS, *(LacksVector(each.vector) for each in there)]
        encoder: Any = self._encoder
        total, longer = 0, 0
        with self._counted("measuring", self._backend.count(unread)) as advance:
            for page in pages(self._backend.scroll(unread, EMBEDDED_FIELDS), _PAGE):
                texts = [embedded_text(point.payload) for point in page]
                cut = list(compress(texts, truncated(encoder, texts)))
                if cut and not now.chunking.enabled:  # whole documents may be longer than any model reads
                    with suppress(ModelError):  # the present model may be missing
                        cut = [
                            text for text, was_cut in zip(cut, truncated(present(), cut), strict=True) if not was_cut
                        ]
                total, longer = total + len(page), longer + len(cut)
                advance(len(page))
        if longer:
            raise ConfigurationError(
                f"{self._backend.location}: {longer:,} of {total:,} chunks are longer than the "
                f"{encoder.tokenizer.max_tokens:,} tokens that {encoder.name!r} reads, so searches would miss "
                "their ends. Ingest the documents into a new collection, which cuts them to fit (twinvec ingest "
                f"SOURCE --collection NEW_NAME --model {encoder.name}), or migrate all the same (--allow-truncation, "
                "allow_truncation=True); nothing was changed"
            )

    @contextmanager
    def _counted(self, step: str, total: int) -> Iterator[Advance]:
        """Show and report the progress of a step; writers may add chunks to the total."""
        done = 0

        def advance(count: int, /, **shown: Any) -> None:
            nonlocal done
            done += count
            show(count, **shown)
            if self._on_progress is not None:
                self._on_progress(step, done, max(done, total))

        with progress_bar(step.capitalize(), total, "chunks", shown=self._progress) as show:
            advance(0)
            yield advance

    def _sweep(self, advance: Advance, *, throttled: bool = True) -> None:
        """Encode until all chunks have a vector of the next model."""
        rate = self._chunks_per_second if throttled else None
        # at most as many chunks as the rate permits in a second
        size = _PAGE if rate is None else max(1, round(min(rate, _PAGE)))
        due, found = 0.0, True
        while found:  # again, because writers may add chunks to pages that were read before
            found = False
            for page in pages(_without_vector(self._backend, self._next), size):
                found = True
                self._pause(due)
                due = time.monotonic() + (len(page) / rate if rate else 0)
                self._store(self._encoded(page, advance))
                self.report.encoded += len(page)

    def _pause(self, end: float) -> None:
        """Wait until ``end``; raise an error if the migration is given up or the collection is closed meanwhile."""
        while (left := end - time.monotonic()) > 0:
            time.sleep(min(left, _LONGEST_PAUSE))
            self._backend.count([CHUNKS])  # raises if the collection was closed
            self.target()

    def _store(self, points: Sequence[Point]) -> None:
        """Write the vectors of the chunks that no writer has removed meanwhile."""
        with self._backend.writing:
            self.target()  # raises if the migration was given up: the store then lacks the vector
            _update_dense(self._backend, points)

    def _encoded(self, points: Sequence[Point], advance: Advance) -> list[Point]:
        """Return the points with their new vectors only."""
        left = len(points)

        def on_texts(count: int) -> None:
            nonlocal left
            count = min(count, left)
            left -= count
            advance(count)

        encoded = encoded_chunks(points, self._encoder, self._next, _named(points), on_texts)
        advance(left)  # the remaining texts are repeated ones, which are encoded only once
        self.report.truncated += sum(truncated(self._encoder, [embedded_text(point.payload) for point in points]))
        return encoded

    def _check_sample(self) -> None:
        """Raise BadVectorError unless a sample of chunks gets the same vectors again and searches find the chunks."""
        sample = list(islice(self._backend.scroll([CHUNKS], ["source", *EMBEDDED_FIELDS]), _SAMPLE))
        if not sample:
            return
        name = self._next.vector
        vectors_ND = document_vectors(self._encoder, [embedded_text(point.payload) for point in sample])
        self.target()
        scores = self._best_scores([Query(vector_D, 1, (CHUNKS,), name=name) for vector_D in vectors_ND])
        stored = self._backend.retrieve([point.id for point in sample], [], name)
        for point, vector_D, score in zip(sample, vectors_ND, scores, strict=True):
            there = stored[point.id].dense if point.id in stored else None
            if there is None:
                continue
            if float(unit(there) @ unit(vector_D)) < SAME_VECTOR_COSINE or score < SAME_VECTOR_COSINE:
                raise BadVectorError(
                    f"document {point.payload['source']!r}: {self._encoder.name!r} now gives another vector than the "
                    "stored one, or searches do not find it; the collection keeps its old model"
                )

    def _best_scores(self, queries: Sequence[Query]) -> list[float]:
        """Return the score of the best chunk for each query; search exactly if the index finds too little."""
        found = self._backend.search(queries)
        missed = [row for row, hits in enumerate(found) if not hits or hits[0].score < SAME_VECTOR_COSINE]
        if missed:
            logger.warning("the index misses %d of %d chunks of the sample", len(missed), len(queries))
            with suppress(StoreLimitError):  # the server may forbid exact search
                exact = self._backend.search([replace(queries[row], exact=True) for row in missed])
                for row, hits in zip(missed, exact, strict=True):
                    found[row] = hits
        return [hits[0].score if hits else 0.0 for hits in found]


def finish_switch(backend: Backend, now: Description, encoder: Callable[[], SpaceEncoder]) -> None:
    """Encode the chunks that a killed migration has left without a vector of the present model.

    Other processes have written these chunks just before the switch. An embedded store has no such chunks, because its
    other writers wait for the switch; nor has a collection with the vectors of one model only. ``encoder`` returns the
    encoder of the present model.
    """
    if backend.exclusive or (now.next is None and now.previous is None):
        return
    for page in pages(_without_vector(backend, now), _PAGE):
        points = encoded_chunks(page, encoder(), now, _named(page))
        with backend.writing:
            if stored_description(backend).vector != now.vector:  # the next migration encodes the chunks
                return
            _update_dense(backend, points)


def _without_vector(backend: Backend, model: Generation) -> Iterator[Point]:
    return backend.scroll([CHUNKS, LacksVector(model.vector)], ["source", *EMBEDDED_FIELDS])


def _named(chunks: Sequence[Point]) -> list[str]:
    return [f"document {chunk.payload['source']!r}" for chunk in chunks]


def _update_dense(backend: Backend, points: Sequence[Point]) -> None:
    """Write the vectors of the chunks that still exist."""
    new = {point.id: point for point in points}
    there = backend.retrieve(list(new), [])
    update_existing(backend, there, lambda ids: backend.update_dense([new[key] for key in ids]))


def encoded_chunks(
    chunks: Sequence[Point],
    encoder: SpaceEncoder,
    model: Generation,
    names: Sequence[str] | None = None,
    on_texts: Callable[[int], None] | None = None,
) -> list[Point]:
    """Encode stored chunks; return for each a point with its id and its vectors for ``model``, without payload.

    See ``document_vectors`` for ``names`` and ``on_texts``.
    """
    vectors_ND = document_vectors(encoder, [embedded_text(each.payload) for each in chunks], names, on_texts)
    states = token_states(encoder, [each.payload["text"] for each in chunks], model.states_dim)
    return [
        Point(each.id, dense=vector_D, vector=model.vector, states=states_TD)
        for each, vector_D, states_TD in zip(chunks, vectors_ND, states, strict=True)
    ]


def drop_others(backend: Backend) -> list[str]:
    """Remove the vectors of all other models; see ``Collection.drop_others``.

    A migration of another process may switch to one of these models meanwhile. Its vectors then get room again, and
    ``finish_switch`` encodes them.
    """
    with backend.writing:
        now = stored_description(backend)
        others = {each.vector: each for each in (now.previous, now.next) if each is not None}
        if now.next is not None:  # gives the migration up before its vectors are gone
            backend.write_metadata(now.model_copy(update={"next": None, "previous": now.next}).changes(now))
        for each in others.values():
            if each.vector != now.vector and _dropped(backend, each).vector != now.vector:
                return []
        if model_id() in backend.retrieve([model_id()], []):
            name_model(backend, now)  # a migration may have been killed before it wrote the description
        if others:
            backend.write_metadata({"previous": None})
        after = stored_description(backend)
        if after.vector != now.vector:  # another process has switched, and kept the vectors of ``now``
            name_model(backend, after)
            kept = after.model_copy(update={"previous": now.switched(after).previous})
            backend.write_metadata(kept.changes(after))
        return list(dict.fromkeys(each.model for each in others.values()))


def _dropped(backend: Backend, other: Generation) -> Description:
    """Remove the vectors of another model, and return the description as it is afterwards.

    If another process has switched to this model meanwhile, its vectors get room again. That process, or
    ``finish_switch``, encodes them.
    """
    backend.drop_vector(other.vector)
    now = stored_description(backend)
    if now.vector == other.vector:
        _add_vector(backend, other)
    return now


def _add_vector(backend: Backend, model: Generation) -> None:
    backend.add_vector(model.vector, model.dim, model.states_dim)
