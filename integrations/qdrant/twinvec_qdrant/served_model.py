"""Serving: the model with which an open collection searches, while migrations may change it.

An open collection serves one ``ServedModel``, which is immutable and replaced as a whole. Each search reads the name of
the collection's model with its first request (``records.schema.model_id``). If the name has changed, or if the search
fails because the store has dropped the vectors, the open collection reads the description and serves its model.

If that model cannot be loaded, the old model is served for as long as the store keeps its vectors: no search fails
between a migration and ``drop_others``. After that, searches raise ``SpaceMismatchError`` with the remedy.

On a server, another program may drop the collection and create one of the same name with another model. The vectors of
both models may have the same name and size, so the space is compared as well. Version 0.2.0 of twinvec writes no name:
if the name was there and is gone, the open collection reads the description.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.engines import Precision
from twinvec.errors import ModelError, SpaceMismatchError, StoreError, StoreUnavailableError, TwinvecError
from twinvec.retrieval.base import Hit, SpaceEncoder, unknown_texts
from twinvec.retrieval.bm25 import SparseVector
from twinvec.retrieval.passages import with_passages
from twinvec.retrieval.phrasings import Phrasings, led_terms, led_vector, led_weight
from twinvec.support.checks import string
from twinvec_qdrant.encoders import checked_vector, checked_vectors
from twinvec_qdrant.opening import load_recorded
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.records.description import Description, check_space, read_description, stored_description
from twinvec_qdrant.search.ended import EndedCommits
from twinvec_qdrant.search.ranking import QueryVectors
from twinvec_qdrant.search.reading import Knows, Reading, known_words, read_queries
from twinvec_qdrant.search.request import SearchRequest
from twinvec_qdrant.search.searcher import NamedModel, Outcome, Searcher
from twinvec_qdrant.stores.points import pages
from twinvec_qdrant.stores.steps import Steps, encoded, worked

logger = logging.getLogger(__name__)

Vector = Sequence[float] | FloatArray

_ALONE = Phrasings()
_BLOCK = 32  # queries per request to the store
_ROUNDS = 5  # a search starts again only if another migration has ended meanwhile
_TRY_AGAIN_SECONDS = 10.0
_SWITCH_SECONDS = 5.0  # longer than a migration takes to write the model's point and the description
_SWITCH_PAUSE_SECONDS = 1.0  # pause between two reads of the description if a switch lasts longer than that


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A collection's description, the encoder of its model (None until it is loaded), and a searcher of its vectors."""

    description: Description
    encoder: SpaceEncoder | None
    searcher: Searcher


class Serving:
    """The served model of an open collection; it follows migrations unless ``follows`` is False.

    ``given`` is the caller's encoder; vectors from the caller belong to its space. Recorded models compute in
    ``precision``.
    """

    def __init__(
        self,
        catalog: Catalog,
        description: Description,
        given: SpaceEncoder | None,
        *,
        precision: Precision,
        follows: bool,
    ) -> None:
        self._backend = catalog.backend
        self._bm25 = catalog.weights
        self._given = given
        self._precision = precision
        self._follows = follows
        self._changing = threading.RLock()
        # the model that could not be loaded last: its space, the time of the next try, the reason
        self._missing = ("", 0.0, "")
        # the name that the point gives and the description does not yet: the name, when it was first seen, when to
        # read the description again
        self._announced = ("", 0.0, 0.0)
        self._warned = False
        self._was_named = False  # whether a search has found the name of the served model in the store
        self._ended = EndedCommits()
        self.current = self._served(description, given)

    def encoder(self) -> SpaceEncoder:
        """Return the encoder of the served model; load the recorded model at the first use."""
        return self._encoder_of(self.current)

    def follow_own(self, description: Description, encoder: SpaceEncoder) -> None:
        """Serve the model to which this object has migrated the collection."""
        with self._changing:
            self._given = encoder
            self.current = self._served(description, encoder)

    def refresh_settings(self) -> None:
        """Read the stored settings again, which this object has changed."""
        with self._changing:
            now = stored_description(self._backend)
            if self.current.description.has_vectors_of(now):
                self.current = self._served(now, self.current.encoder)

    def refreshed(self, *, for_vectors: bool = False) -> tuple[Description, SpaceEncoder]:
        """Read the description and serve its model, for a writer; return the description and the model's encoder.

        ``for_vectors`` says that the caller ingests vectors, which come from the caller's encoder or else from the
        encoder served so far. Raise ``SpaceMismatchError`` if the model cannot be loaded, or with ``for_vectors`` if
        the encoder of the vectors has another space.
        """
        with self._changing:  # the lock keeps other switches from happening between read and use
            callers = self._given or self.current.encoder
            now = stored_description(self._backend) if self._follows else self.current.description
            if self.current.description.has_vectors_of(now):
                self.current = self._served(now, self.current.encoder)
            else:
                self._go_over(now)
            encoder = self._encoder_of(self.current)
        if for_vectors and callers is not None:
            check_space(now, callers, self._backend.location)
        return now, encoder

    def search_texts(
        self, texts: Sequence[str], request: SearchRequest, phrasings: Phrasings = _ALONE
    ) -> Steps[list[list[Hit]]]:
        """Return the hits for each text; ``phrasings`` apply to every text."""
        self.current.searcher.check_tenant(request)
        different = [text for text in dict.fromkeys(texts) if text.strip()]
        hits: dict[str, list[Hit]] = {}
        for block in pages(different, _BLOCK):
            read = yield from read_queries(block, self._bm25, self._known_words, syntax=request.syntax)
            found = yield from self._followed(partial(self._search_texts, read, request, phrasings))
            hits.update((e.query, self._shown(e.corrected, each, request)) for e, each in zip(read, found, strict=True))
        return [list(hits.get(text, ())) for text in texts]

    def search_vector(
        self, vector: Vector, words: str | None, request: SearchRequest, space: str | None
    ) -> Steps[list[Hit]]:
        """Return the hits for a caller's vector, and for ``words`` with corrected spelling if they are given."""
        sparse, corrected, unknown, codes, weight = None, "", False, 0.0, 0.0
        if words is not None:
            (read,) = yield from read_queries([words], self._bm25, self._known_words, syntax=False)
            sparse, corrected = self._bm25.queries([read.text], [read.corrected])[0], read.corrected
            codes, (weight,) = self._bm25.code_share(corrected), self._bm25.weights([corrected])
            if not corrected.isascii():  # a model knows almost all ASCII words, so it is not loaded for them
                (unknown,) = unknown_texts((yield from self._reader()), [corrected])
        found = yield from self._nearest(
            vector,
            space,
            lambda searcher, vector_D: searcher.search(
                [QueryVectors(vector_D, sparse, unknown=unknown, code_share=codes, weight=weight)], request
            ),
        )
        return found if words is None else self._shown(corrected, found, request)

    def search_diverse(
        self, query: str | Vector, request: SearchRequest, limit: int, diversity: float, space: str | None
    ) -> Steps[list[Hit]]:
        """Return ``limit`` of the request's hits for a text or a caller's vector, chosen for their diversity."""

        def search(searcher: Searcher, vector_D: FloatArray) -> Steps[Outcome]:
            return searcher.diverse(QueryVectors(vector_D), request, limit, diversity)

        def attempt(served: ServedModel) -> Steps[Outcome]:
            (vector_D,) = yield from _dense((yield from self._loaded(served)), [text])
            return self._noticed((yield from search(served.searcher, vector_D)), served)

        if not isinstance(query, str):
            return (yield from self._nearest(query, space, search))
        text = query
        self.current.searcher.check_tenant(request)
        if not text.strip():
            return []
        return self._shown(text, (yield from self._followed(attempt))[0], request)

    def described(self) -> tuple[Description, SpaceEncoder]:
        """Return the description of the collection, and the encoder of the served model."""
        served = self.current
        return served.description, self._encoder_of(served)

    def with_passages(self, text: str, hits: Sequence[Hit]) -> Steps[list[Hit]]:
        """Return the hits for a text, with the passages that are nearest to the text by their words."""
        (read,) = yield from read_queries([text], self._bm25, self._known_words, syntax=False)
        return with_passages(read.corrected, hits, self._bm25.analyzer)

    def corrected(self, text: str) -> Steps[str]:
        """Return a text with corrected spelling, as a search reads it."""
        (read,) = yield from read_queries([text], self._bm25, self._known_words, syntax=False)
        return read.corrected

    def _shown(self, text: str, hits: list[Hit], request: SearchRequest) -> list[Hit]:
        """Return the hits for a text, with passages if the request asks for them."""
        return with_passages(text, hits, self._bm25.analyzer) if request.passages else hits

    def _nearest(
        self, vector: Vector, space: str | None, search: Callable[[Searcher, FloatArray], Steps[Outcome]]
    ) -> Steps[list[Hit]]:
        """Return the hits of ``search`` for a caller's vector among the stored vectors of its space."""
        served = self.current
        if space is None:
            space = (self._given or served.description).space
        string(space, "space")
        holder = served if served.description.space == space else self._of_space(served.description, space)
        if holder is not None:
            vector_D = checked_vector(vector, holder.description.dim)
            try:
                outcome = self._noticed((yield from search(holder.searcher, vector_D)), holder)
                if not _is_replaced(holder, outcome):
                    self._warn_of_former(holder, outcome)
                    return outcome.hits[0]
                now = yield from self._described()
            except StoreUnavailableError:
                raise
            except StoreError:  # the store may have dropped the vectors
                now = yield from self._described()
                again = self._of_space(now, space)
                if again is not None and again.description.has_vectors_of(holder.description):
                    raise
        else:
            now = yield from self._described()
        holder = self._of_space(now, space)
        if holder is None:
            raise SpaceMismatchError(
                f"{self._backend.location}: no vectors of the query's space {space:.12}; the collection has the model "
                f"{now.model!r} (space {now.space:.12}). Encode with Collection.encoder and pass its space to "
                "Collection.search_vector, or open the collection again with its model"
            )
        self._was_named = False
        return (yield from search(holder.searcher, checked_vector(vector, holder.description.dim))).hits[0]

    def _search_texts(
        self, read: Sequence[Reading], request: SearchRequest, phrasings: Phrasings, served: ServedModel
    ) -> Steps[Outcome]:
        corrected = [each.corrected for each in read]
        dense: Sequence[FloatArray | None] = [None] * len(read)
        sparse: Sequence[SparseVector | None] = [None] * len(read)
        unknown, codes, weights = [False] * len(read), [0.0] * len(read), [0.0] * len(read)
        if request.mode != "sparse":
            encoder = yield from self._loaded(served)
            dense = list((yield from _dense(encoder, corrected, phrasings.answers)))
            if request.mode == "hybrid" and not phrasings.answers:
                unknown, codes = unknown_texts(encoder, corrected), list(map(self._bm25.code_share, corrected))
        if request.mode != "dense":
            sparse, weights = self._bm25.queries([each.text for each in read], corrected), self._bm25.weights(corrected)
            if phrasings.words:
                others, their_weights = self._bm25.queries(phrasings.words), self._bm25.weights(phrasings.words)
                sparse = [led_terms(each, others) for each in sparse]
                weights = [led_weight(each, their_weights) for each in weights]
        queries = [
            QueryVectors(
                vector_D,
                words,
                condition=each.condition,
                telling=each.telling,
                unknown=is_unknown,
                code_share=share,
                weight=weight,
            )
            for each, vector_D, words, is_unknown, share, weight in zip(
                read, dense, sparse, unknown, codes, weights, strict=True
            )
        ]
        outcome = yield from served.searcher.search(queries, request)
        return self._noticed(outcome, served) if request.mode != "sparse" else Outcome(outcome.hits, None)

    def _noticed(self, outcome: Outcome, served: ServedModel) -> Outcome:
        """Return the outcome; if the store has stopped naming its model, the outcome names a model without a space."""
        if outcome.model is not None:
            self._was_named = True
        elif self._was_named:
            return replace(outcome, model=NamedModel(served.description.vector, ""))
        return outcome

    def _known_words(self) -> Steps[Knows]:
        """Return a function that says whether the served model knows a word; False for all if it cannot be loaded."""
        return known_words((yield from self._reader()))

    def _reader(self) -> Steps[SpaceEncoder | None]:
        """Return the encoder of the served model, or None if it cannot be loaded; searches by words do without it."""
        try:
            return (yield from self._loaded(self.current))
        except TwinvecError:
            return None

    def _loaded(self, served: ServedModel) -> Steps[SpaceEncoder]:
        return served.encoder or (yield from worked(partial(self._encoder_of, served)))

    def _followed(self, attempt: Callable[[ServedModel], Steps[Outcome]]) -> Steps[list[list[Hit]]]:
        """Search with the served model; if the collection has another model now, switch to it and search again."""
        served = self.current
        for _ in range(_ROUNDS):
            try:
                outcome = yield from attempt(served)
            except StoreUnavailableError:
                raise
            except StoreError:  # the store may have dropped the vectors
                following = yield from self._following(served, None)
                if following is None:
                    raise
            else:
                named = outcome.model
                if named is None or named.is_of(served.description) or not self._follows:
                    return outcome.hits
                name = None if _is_replaced(served, outcome) else named.vector
                following = yield from self._following(served, name)
                if following is None:
                    return outcome.hits
            served = following
        raise StoreError(f"{self._backend.location}: its model changed {_ROUNDS} times during one search; search again")

    def _following(self, served: ServedModel, named: str | None) -> Steps[ServedModel | None]:
        """Return the model that has replaced ``served``; None to go on with ``served``.

        The search goes on with ``served`` if that is the collection's model, or if its successor cannot be loaded.
        ``named`` is the name in the store's point, or None if the vectors of ``served`` are probably gone. If they are
        gone, and the successor cannot be loaded, raise ``SpaceMismatchError``.
        """
        if not self._follows:
            return None
        if not self.current.description.has_vectors_of(served.description):
            return self.current  # another thread has switched already
        announced, _, ask_again = self._announced
        if named is not None and time.monotonic() < max(self._missing[1], ask_again if named == announced else 0.0):
            return None
        now = yield from self._described()
        if now.has_vectors_of(served.description):
            if named is not None:
                self._announce(named)
            self._was_named = False
            return None
        try:
            return (yield from worked(partial(self._go_over, now, wait=named is None)))
        except SpaceMismatchError as error:
            if named is None or now.previous is None or not now.previous.has_vectors_of(served.description):
                self._missing = ("", 0.0, "")
                raise
            logger.warning("%s; the search goes on with the old vectors until they are dropped", error)
            return None

    def _announce(self, named: str) -> None:
        """Remember when the point first named this model, and when to read the description again.

        After a killed migration, the point may name a model for ever that the description does not name.
        """
        since = self._announced[1] if self._announced[0] == named else time.monotonic()
        pause = _SWITCH_PAUSE_SECONDS if time.monotonic() - since > _SWITCH_SECONDS else 0.0
        self._announced = named, since, time.monotonic() + pause

    def _go_over(self, description: Description, *, wait: bool = True) -> ServedModel | None:
        """Load and serve the model of the description; raise ``SpaceMismatchError`` if it cannot be loaded.

        If another thread is loading a model, wait for it with ``wait``, else return None.
        """
        if not self._changing.acquire(blocking=wait):
            return None
        try:
            if not self.current.description.has_vectors_of(description):
                self.current = self._served(description, self._encoder_for(description))
                logger.info("%s: goes on with the model %r", self._backend.location, description.model)
            return self.current
        finally:
            self._changing.release()

    def _encoder_for(self, description: Description) -> SpaceEncoder:
        """Return a loaded encoder of the description's space, or load the recorded model."""
        for encoder in (self._given, self.current.encoder):
            if encoder is not None and encoder.space == description.space:
                return encoder
        space, until, why = self._missing
        if space == description.space and time.monotonic() < until:
            raise SpaceMismatchError(why)
        try:
            return self._load(description)
        except TwinvecError as error:
            why = (
                f"{self._backend.location}: has another model since it was opened, {description.model!r} "
                f"({description.dim} dimensions, space {description.space:.12}), and that model cannot be loaded: "
                f"{error}. Put the model where its name says, or open the collection again with it (encoder=..., "
                "--model)"
            )
            self._missing = description.space, time.monotonic() + _TRY_AGAIN_SECONDS, why
            raise SpaceMismatchError(why) from error

    def _encoder_of(self, served: ServedModel) -> SpaceEncoder:
        with self._changing:
            if served.encoder is None and self.current.description.has_vectors_of(served.description):
                if self.current.encoder is None:
                    self.current = replace(self.current, encoder=self._loaded_now(served.description))
                served = self.current
        return served.encoder or self._load(served.description)

    def _load(self, description: Description) -> SpaceEncoder:
        return load_recorded(description, self._backend.location, self._precision)

    def _loaded_now(self, description: Description) -> SpaceEncoder:
        """Load the recorded model; if that fails, and the collection now records another name for it, try that name."""
        try:
            return self._load(description)
        except ModelError:
            now = stored_description(self._backend)
            if now.space != description.space or now.model == description.model:
                raise
            return self._load(now)

    def _of_space(self, description: Description, space: str) -> ServedModel | None:
        """Return the present or the previous model, whichever has this space, without its encoder; else None."""
        if description.space == space:
            return self._served(description, None)
        if description.previous is not None and description.previous.space == space:
            return self._served(description.model_copy(update=dict(description.previous)), None)
        return None

    def _served(self, description: Description, encoder: SpaceEncoder | None) -> ServedModel:
        searcher = Searcher(self._backend, description, self._ended, lambda: self._bm25.vocabulary.chunks)
        return ServedModel(description, encoder, searcher)

    def _described(self) -> Steps[Description]:
        return read_description((yield from self._backend.described()), self._backend.location)

    def _warn_of_former(self, holder: ServedModel, outcome: Outcome) -> None:
        if outcome.model is not None and not outcome.model.is_of(holder.description) and not self._warned:
            self._warned = True
            logger.warning(
                "%s: searched with vectors of the former model %r; documents ingested since the migration have no such "
                "vectors, and were not found",
                self._backend.location,
                holder.description.model,
            )


def _is_replaced(served: ServedModel, outcome: Outcome) -> bool:
    """Return whether the store now holds another model's vectors under the name of the served model's vectors."""
    named, own = outcome.model, served.description
    return named is not None and named.vector == own.vector and not named.is_of(own)


def _dense(encoder: SpaceEncoder, texts: Sequence[str], answers: Sequence[str] = ()) -> Steps[FloatArray]:
    """Return the vector of each text, averaged with those of the answers; shape (texts, dim)."""
    vectors_QD = checked_vectors(encoder, (yield from encoded(encoder.encode_query, texts)), texts)
    if not answers:
        return vectors_QD
    found = yield from worked(partial(encoder.encode_document, list(answers)))
    answers_KD = checked_vectors(encoder, found, answers)
    return np.stack([led_vector(each, answers_KD) for each in vectors_QD])
