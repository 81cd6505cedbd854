"""Measuring a collection: the landmarks of its cosines, and the weight of words.

- Questions that the collection does not answer (``questions``) give the landmark 0: the median of their best cosines.
  They are in the languages of the collection (``languages_of``): if a model has not learnt a language, it gives similar
  vectors to all texts in it, and other vectors to questions in the model's own language.
- Excerpts (``excerpts``) give the landmark 1: the median of their cosines with their chunks.
- The same excerpts give the weight of words (``weight``): both stages search for them as if their chunks lacked them.
  Lines of source code are left out.
- The texts count as unknown if most chunks of the sample consist mostly of words that the model does not know.

The sample grows with the collection up to a limit, so that measuring takes little time compared with encoding. A
collection is measured again when it has doubled. Some models have known landmarks, which are for English; these count
like a part of the sample.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.interrupts import raise_of_handler
from twinvec.retrieval.analysis import Analyzer, different_terms
from twinvec.retrieval.base import SpaceEncoder, unknown_texts
from twinvec.retrieval.bm25 import SparseVector, document_vector, query_vector
from twinvec.retrieval.fusion import CANDIDATES, parts
from twinvec.retrieval.relevance import LEAST_MEASURED, Calibration, share_learnt, usual_words
from twinvec_qdrant.calibration.excerpts import Excerpt, excerpts
from twinvec_qdrant.calibration.language import ENGLISH, language_hint, languages_of
from twinvec_qdrant.calibration.questions import QUESTIONS
from twinvec_qdrant.calibration.weight import Observation, fitted_weight
from twinvec_qdrant.encoders import checked_vectors, document_vectors
from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.schema import CHUNKS, EMBEDDED_FIELDS
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.candidates import Search, find_candidates
from twinvec_qdrant.stores.conditions import IdIs
from twinvec_qdrant.stores.points import Point, Query, pages

logger = logging.getLogger(__name__)

_LEAST_NOT_ENGLISH = 8  # fewest chunks to measure in another language if the landmarks for English are known
_QUESTIONS_SHARE, _EXCERPTS_SHARE = 4, 32  # one question for 4 chunks, one excerpt for 32 chunks
_QUESTIONS = 10  # least number of questions to measure with
_EXCERPTS = 48  # largest number of excerpts to measure with
_LOOKED_AT = 4  # chunks read for each excerpt, because not every chunk has one
_IDENTIFIED = 24  # chunks whose language is identified
_PRIOR = 20  # a known landmark counts like this number of questions or excerpts
_NEAR_SHARE = 0.53  # without excerpts, landmark 1 is this share of the way from landmark 0 to a cosine of 1
_FAR_SHARE = 0.9  # landmark 1 is at least this quantile of the cosines of unrelated texts
_ENDING = "the process is ending; the next ingest that changes documents calibrates the collection"
_NEWER = ("unknown_texts", "learnt")  # fields of a calibration that older versions do not know
_QUERIES = 16  # queries of each stage in one request


def is_due(description: Description, chunks: int) -> bool:
    """Return whether a collection with this many chunks is large enough, and twice as large as when last measured."""
    before = description.calibration.chunks if description.calibration else 0
    return chunks >= max(_least_measured(description.known()), 2 * before)


def try_to_calibrate(backend: Backend, encoder: Callable[[], SpaceEncoder], *, only_if_due: bool = False) -> None:
    """Measure a collection and store the calibration; log an error of any kind instead of raising it.

    The exception of a signal handler, such as a task queue's time limit, is raised.

    A collection that is too small keeps its calibration, unless it was measured for another language. A collection of
    an older version keeps its calibration too, until ``reindex`` or ``migrate`` renews it. One write records the new
    calibration, so a kill or an error leaves the last calibration.
    """
    try:
        if only_if_due and not is_due(stored_description(backend), backend.count([CHUNKS])):
            return
        loaded, now = encoder(), stored_description(backend)
        if (found := measured(backend, now, loaded)) is not None:
            with backend.writing:
                if stored_description(backend).vector == now.vector:  # if not, the collection was migrated meanwhile
                    backend.write_metadata({"calibration": _as_stored(found)})
    except Exception as error:  # an encoder may raise any error; the caller's own work is already done
        raise_of_handler(error)
        # Python's pools of threads raise this error while the process ends
        is_ending = isinstance(error, RuntimeError) and "shutdown" in str(error)
        reason = _ENDING if is_ending else error
        logger.warning("%s: was not calibrated: %s", backend.location, reason)


def measured(backend: Backend, now: Description, encoder: SpaceEncoder) -> Calibration | None:
    """Return the calibration of a collection as it is now; None if it cannot be measured."""
    chunks = backend.count([CHUNKS])
    known = now.known(chunks)
    if chunks < _least_measured(known) or now.scale is None or now.space != encoder.space:
        return None
    wanted = min(_EXCERPTS, chunks // _EXCERPTS_SHARE)
    looked_at = max(_IDENTIFIED, _LOOKED_AT * wanted)
    # a random sample: the store sorts chunks by their ids, which are hashes
    sample = list(islice(backend.scroll([CHUNKS], [*EMBEDDED_FIELDS, "title"]), looked_at))
    languages = languages_of(point.payload["text"] for point in sample[:_IDENTIFIED])
    hint = language_hint(languages[0], now.language, learnt_english=known.landmarks is not None)
    if hint and len(languages) == 1:
        logger.warning("%s: %s", backend.location, hint)
    are_unknown = 2 * sum(unknown_texts(encoder, [point.payload["text"] for point in sample])) > len(sample)
    if languages != [ENGLISH]:
        known = Calibration()
    elif chunks < LEAST_MEASURED:
        was_measured = now.calibration is not None and now.calibration.landmarks is not None
        return Calibration(chunks=chunks, unknown_texts=are_unknown) if was_measured or are_unknown else None
    asked = max(_QUESTIONS, chunks // _QUESTIONS_SHARE)
    questions = list(islice(chain.from_iterable(zip(*map(QUESTIONS.__getitem__, languages), strict=False)), asked))
    unrelated = _unrelated(backend, now, encoder, questions)
    taken = excerpts(sample[: _LOOKED_AT * wanted], wanted)
    queries_ED, rests_ED = _excerpt_vectors(encoder, taken)
    calibration = _landmarks(unrelated, _near(backend, now, taken, queries_ED), known, chunks)
    if calibration is None:
        return Calibration(chunks=chunks, unknown_texts=True) if are_unknown else None
    share = share_learnt(calibration, now.known())
    learnt = None if share == 1 else 1.0 if languages == [ENGLISH] else round(share, 4)
    usual = usual_words(now.average_length, _different_terms(now, sample))
    observations = _observations(backend, now, taken, queries_ED, rests_ED, calibration)
    return replace(calibration, words=fitted_weight(observations, usual), unknown_texts=are_unknown, learnt=learnt)


def _as_stored(calibration: Calibration) -> dict[str, Any]:
    """Return the stored form of a calibration; fields in ``_NEWER`` are left out if they have their defaults."""
    defaults = Calibration()
    kept = (key for key, value in asdict(calibration).items() if key not in _NEWER or value != getattr(defaults, key))
    return {key: getattr(calibration, key) for key in kept}


def _different_terms(now: Description, sample: Sequence[Point]) -> float | None:
    """Return the average number of different terms in a chunk, estimated from a sample; None for one without terms."""
    terms = now.analyzer.terms([point.payload["text"] for point in sample])
    every = sum(map(len, terms))
    return now.average_length * sum(different_terms(terms)) / every if every else None


def _least_measured(known: Calibration) -> int:
    return LEAST_MEASURED if known.landmarks is None else _LEAST_NOT_ENGLISH


def _unrelated(backend: Backend, now: Description, encoder: SpaceEncoder, questions: Sequence[str]) -> FloatArray:
    """Return the best cosine of each question with a chunk."""
    vectors = checked_vectors(encoder, encoder.encode_query(list(questions)), questions)
    queries = [Query(each, 1, (CHUNKS,), name=now.vector, index=now.index) for each in vectors]
    best = [found[0].score for page in pages(queries, _QUERIES) for found in backend.search(page) if found]
    return np.array(best, dtype=np.float32)


def _near(backend: Backend, now: Description, taken: Sequence[Excerpt], queries_ED: FloatArray) -> FloatArray:
    """Return the cosine of each excerpt with its chunk."""
    stored = backend.retrieve([each.chunk for each in taken], [], now.vector)
    vectors = ((row, stored[each.chunk].dense) for row, each in enumerate(taken) if each.chunk in stored)
    cosines = [queries_ED[row] @ unit(vector_D) for row, vector_D in vectors if vector_D is not None]
    return np.array(cosines, dtype=np.float32)


def _excerpt_vectors(encoder: SpaceEncoder, taken: Sequence[Excerpt]) -> tuple[FloatArray, FloatArray]:
    """Return the vectors of excerpts, encoded as queries, and the vectors of their chunks without the excerpts."""
    if not taken:
        empty = np.empty((0, encoder.dim), dtype=np.float32)
        return empty, empty
    texts = [each.text for each in taken]
    queries_ED = checked_vectors(encoder, encoder.encode_query(texts), texts)
    return unit(queries_ED), unit(document_vectors(encoder, [each.rest_embedded for each in taken]))


def _landmarks(unrelated: FloatArray, near: FloatArray, known: Calibration, chunks: int) -> Calibration | None:
    """Return a calibration with both landmarks, or None if landmark 0 is not below landmark 1."""
    if not len(unrelated):
        return None
    prior = known.landmarks
    low = _shrunk(unrelated, prior and prior[0])
    beyond = prior[1] if prior is not None else low + _NEAR_SHARE * (1 - low)
    high = _shrunk(near, beyond) if len(near) else beyond
    if prior is None:  # the model may give similar vectors to all texts in this language
        high = max(high, float(np.quantile(unrelated, _FAR_SHARE)))
    return Calibration(1, chunks, round(low, 4), round(high, 4)) if low < high else None


def _shrunk(sample: FloatArray, prior: float | None) -> float:
    """Return the weighted mean of the sample's median and the prior, which counts like ``_PRIOR`` values."""
    median = float(np.median(sample))
    return median if prior is None else (len(sample) * median + _PRIOR * prior) / (len(sample) + _PRIOR)


def _observations(
    backend: Backend,
    now: Description,
    taken: Sequence[Excerpt],
    queries_ED: FloatArray,
    rests_ED: FloatArray,
    calibration: Calibration,
) -> list[Observation]:
    """Return the scores of each excerpt's candidates in both stages.

    The chunk from which the excerpt is taken is scored as if the excerpt were not in it. Lines of source code are left
    out, because people ask about code in other words than those of the code.
    """
    analyzer = now.analyzer
    found: list[Observation] = []
    rows = [row for row, each in enumerate(taken) if not each.is_code]
    for page in pages(rows, _QUERIES):
        terms = analyzer.query_terms([taken[row].text for row in page])
        kept = [(row, each) for row, each in zip(page, terms, strict=True) if each]
        searches = [_search(now, queries_ED[row], query_vector(each)) for row, each in kept]
        candidates = find_candidates(searches, backend.search).found if searches else []
        own = _own_words(backend, analyzer, now.average_length, [(taken[row], each) for row, each in kept])
        for (row, each), stages in zip(kept, candidates, strict=True):
            ids = [key for key in dict.fromkeys([*stages["dense"], *stages["sparse"]]) if key != taken[row].chunk]
            dense = [float(queries_ED[row] @ rests_ED[row])] + [_score(stages["dense"], key) for key in ids]
            words = [own[taken[row].chunk]] + [_score(stages["sparse"], key) for key in ids]
            both = parts(np.array(dense), np.array(words), len(each), calibration)
            found.append(Observation(*both, 0))
    return found


def _search(now: Description, query_D: FloatArray, terms: SparseVector) -> Search:
    dense = Query(query_D, CANDIDATES, (CHUNKS,), name=now.vector, index=now.index)
    return Search({"dense": dense, "sparse": Query(terms, CANDIDATES, (CHUNKS,))})


def _own_words(
    backend: Backend, analyzer: Analyzer, average: float, queries: Sequence[tuple[Excerpt, list[str]]]
) -> dict[str, float]:
    """Return the BM25 score of each excerpt, as a query, for its chunk without the excerpt; the keys are ids of chunks.

    Only the store knows the document frequencies, but it scores whole chunks. Each term of the query therefore gets a
    lower weight, in proportion to its lower weight in the rest of the chunk (``_lowered``).
    """
    rests = analyzer.terms([excerpt.rest_text for excerpt, _ in queries])
    wholes = {
        point.id: point.payload["text"]
        for point in backend.retrieve([excerpt.chunk for excerpt, _ in queries], ["text"]).values()
    }
    asked: list[tuple[str, Query]] = []
    for (excerpt, terms), rest in zip(queries, rests, strict=True):
        whole = document_vector(analyzer.terms([wholes.get(excerpt.chunk, "")])[0], average)
        lowered = _lowered(query_vector(terms), whole, document_vector(rest, average))
        if len(lowered[0]):
            asked.append((excerpt.chunk, Query(lowered, 1, (IdIs((excerpt.chunk,)),))))
    answers = backend.search([query for _, query in asked]) if asked else []
    scores = {excerpt.chunk: 0.0 for excerpt, _ in queries}
    scores.update((chunk, answer[0].score) for (chunk, _), answer in zip(asked, answers, strict=True) if answer)
    return scores


def _lowered(query: SparseVector, whole: SparseVector, rest: SparseVector) -> SparseVector:
    """Return the query, with each term's weight times (its weight in the rest) / (its weight in the whole chunk)."""
    before: Mapping[int, float] = dict(zip(whole[0].tolist(), whole[1].tolist(), strict=True))
    after: Mapping[int, float] = dict(zip(rest[0].tolist(), rest[1].tolist(), strict=True))
    weights = [
        (term, count * after[term] / before[term])
        for term, count in zip(query[0].tolist(), query[1].tolist(), strict=True)
        if term in before and term in after
    ]
    ids, values = [term for term, _ in weights], [value for _, value in weights]
    return np.array(ids, dtype=np.int64), np.array(values, dtype=np.float32)


def _score(found: Mapping[str, object], key: str) -> float:
    return float(getattr(found.get(key), "score", 0.0))
