"""``MemoryIndex``: exact search over documents in memory, for up to some hundred thousand texts.

A query is compared with every document, by vectors and by words (``retrieval.bm25``); ``retrieval.fusion`` fuses the
scores. Documents that must outlive the process belong in a collection (``twinvec_qdrant``).
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, IntArray, largest, unit, without_direction
from twinvec.errors import BadVectorError
from twinvec.retrieval.analysis import ENGLISH, NEWEST_ANALYSIS, Analyzer, different_terms
from twinvec.retrieval.base import (
    Hit,
    Mode,
    VectorEncoder,
    as_vectors,
    check_hits,
    check_limit,
    continued_words,
    unknown_texts,
)
from twinvec.retrieval.bm25 import BM25Index, TermCounts
from twinvec.retrieval.documents import (
    Document,
    DocumentLike,
    as_documents,
    check_documents,
    json_payload,
    replaced_warning,
)
from twinvec.retrieval.feedback import check_feedback, moved
from twinvec.retrieval.filters import Filter, matches, parse_filter
from twinvec.retrieval.fusion import CANDIDATES, FusionMethod, fuse
from twinvec.retrieval.passages import with_passages
from twinvec.retrieval.relevance import (
    MOST_CONTINUED,
    UNLEARNT,
    Calibration,
    model_calibration,
    relevance,
    share_learnt,
)
from twinvec.support.checks import check_choice, check_methods, check_settings, shown
from twinvec.text import check_text, check_texts

logger = logging.getLogger(__name__)

_BLOCK_SCORES = 1 << 24  # scores held at a time: 64 MB
_TEXTS_READ, _CHARACTERS_READ = 100, 1000  # size of the sample that shows whether the texts are English


class MemoryIndex:
    """Exact search over documents held in memory.

    Dense scores are cosines; sparse scores are BM25 (Lucene's variant, k1 1.5, b 0.75). ``search`` and ``add`` may run
    in different threads: a search sees the index as it was when it began.

    Args:
        encoder: Computes the vectors, by ``encode_query`` and ``encode_document``.
        documents: The first documents, as for ``add``.
        language: Snowball language of the stemmer for BM25.
        fusion: How hybrid search fuses its two stages; see ``twinvec.retrieval.fusion``.
        calibration: Scale of the scores, for the fusion and the relevance of hits. Default: the usual weight of words
            for texts of this length, and the landmarks that ``retrieval.relevance`` records for the model. Without
            landmarks, the fusion standardises the dense scores of each query, and hits have no relevance. With
            landmarks, words count more if ``language`` or the texts are not English.

    Raises:
        ConfigurationError: ``language`` has no stemmer, ``fusion`` is unknown, or ``calibration`` is not a calibration.
            Errors of ``add`` are raised, too.
    """

    def __init__(
        self,
        encoder: VectorEncoder,
        documents: Iterable[DocumentLike] = (),
        *,
        language: str = "english",
        fusion: FusionMethod = "adaptive",
        calibration: Calibration | None = None,
    ) -> None:
        check_choice(fusion, FusionMethod, "fusion")
        check_methods(encoder, ("encode_query", "encode_document"), "encoder", "an encoder, such as Encoder(...)")
        check_settings(calibration, Calibration, "calibration")
        self._encoder = encoder
        self._analyzer = Analyzer(language, NEWEST_ANALYSIS)
        self._fusion: FusionMethod = fusion
        self._calibration = calibration
        self._adding = threading.Lock()
        self._corpus = _Corpus(encoder, [], np.empty((0, 0), dtype=np.float32), [])
        self.add(documents)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the lock: a copy gets its own lock, also in another process."""
        return {name: value for name, value in vars(self).items() if name != "_adding"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._adding = threading.Lock()

    def __repr__(self) -> str:
        return f"MemoryIndex({self._encoder!r}, documents={len(self)})"

    def __len__(self) -> int:
        return len(self._corpus.documents)

    def add(self, documents: Iterable[DocumentLike], *, progress: bool = False) -> None:
        """Add documents in any form that ``as_document`` takes. A document replaces an earlier one with the same id.

        Only new texts are encoded. If a document is refused, none is added. Texts without ids get their positions in
        this call as ids: "0", "1" and so on. The texts of a second call then replace those of the first, and a warning
        is logged; give ids to keep both.

        Raises:
            DocumentError: a document lacks a text or an id, or has a value of the wrong type or one that JSON lacks.
            TextError: a text is invalid (not a string, too long, or with a lone surrogate).
            BadVectorError: the encoder returned a vector that is zero, is not finite, or has another size.
        """
        given = list(check_documents(documents))
        unnamed = {str(position) for position, value in enumerate(given) if isinstance(value, str)}
        checked = (replace(document, payload=json_payload(document)) for document in as_documents(given))
        wanted = list({document.id: document for document in checked}.values())
        if not wanted:
            return
        with self._adding:
            old = self._corpus
            changed = [d for d in wanted if (row := old.rows.get(d.id)) is None or old.texts[row] != d.full_text]
            vectors = self._document_vectors(changed, progress)
            terms = self._analyzer.terms([document.full_text for document in changed])
            self._corpus = old.replaced(wanted, changed, vectors, terms)
            if replaced := sum(document.id in unnamed and document.id in old.rows for document in changed):
                logger.warning(replaced_warning(replaced))

    def search(
        self,
        query: str,
        limit: int = 10,
        filter: Filter | None = None,
        *,
        mode: Mode = "hybrid",
        weights: tuple[float, float] = (1.0, 1.0),
        feedback: int = 0,
        passages: bool = True,
    ) -> list[Hit]:
        """Return at most ``limit`` hits that satisfy ``filter``, best first; equal scores in the order of their ids.

        A hybrid search fuses the best 100 hits of each stage (``limit`` of them if that is more), with ``weights`` for
        vectors and words. A sparse search finds only documents that share a term with the query. A blank query finds
        nothing, and a blank document is never found.

        With ``feedback``, the query's vector moves towards the vectors of that many first hits, and the index is
        searched again (Rocchio 1971). A hit's "dense" score compares it with the original query, its "feedback" score
        with the moved query.

        With ``passages``, each hit gets the passage that answers the query, found by words in half a millisecond.

        Raises:
            TextError: the query is invalid (not a string, too long, or with a lone surrogate).
            FilterError: the filter is malformed.
            ConfigurationError: the mode is unknown, the limit is below 1, the weights are not two numbers of at least
                0, or the feedback is invalid.
            BadVectorError: the encoder returned a vector that is not finite or has another size.
        """
        check_text(query, "query")
        return self.search_many(
            [query], limit, filter, mode=mode, weights=weights, feedback=feedback, passages=passages
        )[0]

    def search_many(
        self,
        queries: Sequence[str],
        limit: int = 10,
        filter: Filter | None = None,
        *,
        mode: Mode = "hybrid",
        weights: tuple[float, float] = (1.0, 1.0),
        feedback: int = 0,
        passages: bool = True,
    ) -> list[list[Hit]]:
        """``search`` for many queries at once; errors name a query by its index."""
        queries = check_texts(queries, name="query", argument="queries")
        check_limit(limit)
        check_choice(mode, Mode, "mode")
        check_feedback(feedback)
        corpus = self._corpus
        ranking = _Ranking(
            corpus, corpus.allowed(filter), limit, mode, weights, self._fusion, self._calibration_of(corpus)
        )
        distinct = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        block = max(1, _BLOCK_SCORES // max(1, len(corpus.documents)))
        for start in range(0, len(distinct) if len(ranking.rows) else 0, block):
            part = distinct[start : start + block]
            terms = self._analyzer.query_terms(part) if mode != "dense" else [[]] * len(part)
            if mode == "sparse":
                dense_QN = np.zeros((len(part), len(ranking.rows)), dtype=np.float32)
            else:
                vectors_QD = self._query_vectors(part, corpus)
                dense_QN = ranking.cosines(vectors_QD)
            unknown = unknown_texts(self._encoder, part) if mode == "hybrid" else [False] * len(part)
            for row, (query, words) in enumerate(zip(part, terms, strict=True)):
                dense = dense_QN[row]
                sparse = np.zeros_like(dense) if mode == "dense" else corpus.bm25.scores(words)[ranking.rows]
                weight = corpus.term_counts.weight(words) if words else 0.0
                codes = self._analyzer.code_share(query, words)
                scores = _Scores(dense, sparse, len(words), weight, unknown[row], codes)
                if feedback and mode != "sparse":
                    found[query] = ranking.hits(ranking.moved(vectors_QD[row], scores, feedback), asked=dense)
                else:
                    found[query] = ranking.hits(scores)
        if passages:
            found = {query: self.with_passages(query, hits) for query, hits in found.items()}
        return [list(found.get(query, ())) for query in queries]

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return hits of a search without passages, each with the passage that answers the query."""
        check_text(query, "query")
        return with_passages(query, check_hits(hits, "hits"), self._analyzer)

    def _calibration_of(self, corpus: _Corpus) -> Calibration:
        if self._calibration is not None:
            return self._calibration
        known = model_calibration(self._encoder, len(corpus.documents), corpus.average_length, corpus.different_terms)
        if known.landmarks is None:
            return known
        is_learnt = self._analyzer.language in ENGLISH and corpus.continued_words <= MOST_CONTINUED
        return known if is_learnt else replace(known, learnt=UNLEARNT)

    def _query_vectors(self, queries: list[str], corpus: _Corpus) -> FloatArray:
        """Return the normalised vectors of queries."""
        expected = (len(queries), corpus.vectors_ND.shape[1])
        vectors_QD = as_vectors(self._encoder.encode_query(queries), "the encoder")
        if vectors_QD.shape != expected or not np.isfinite(vectors_QD).all():
            raise BadVectorError(
                f"the encoder gave vectors of shape {vectors_QD.shape} for queries, "
                f"expected {expected} and finite numbers"
            )
        return unit(vectors_QD)

    def _document_vectors(self, documents: list[Document], progress: bool) -> FloatArray:
        dim = self._corpus.vectors_ND.shape[1]
        if not documents:
            return np.empty((0, dim), dtype=np.float32)
        texts = [document.full_text for document in documents]
        options = {"progress": True} if progress else {}
        vectors_ND = as_vectors(self._encoder.encode_document(texts, **options), "the encoder")
        expected = (len(documents), dim or np.atleast_1d(vectors_ND).shape[-1])
        if vectors_ND.shape != expected:
            raise BadVectorError(f"the encoder gave vectors of shape {vectors_ND.shape}, expected {expected}")
        bad = without_direction(vectors_ND)
        if bad.size:
            raise BadVectorError(f"document {shown(documents[bad[0]].id)}: its vector is zero or not finite")
        return unit(vectors_ND)


@dataclass(frozen=True)
class _Corpus:
    """Documents with their normalised vectors and their terms: one row each.

    An addition makes a new corpus, so that a search in another thread sees one state throughout.
    """

    encoder: VectorEncoder
    documents: list[Document]
    vectors_ND: FloatArray
    terms: list[list[str]]

    @cached_property
    def rows(self) -> dict[str, int]:
        return {document.id: row for row, document in enumerate(self.documents)}

    @cached_property
    def texts(self) -> list[str]:
        return [document.full_text for document in self.documents]

    @cached_property
    def fields(self) -> list[dict[str, Any]]:
        return [_fields(document) for document in self.documents]

    @cached_property
    def filled(self) -> IntArray:
        """Rows of the documents that are not blank."""
        return np.array([row for row, text in enumerate(self.texts) if text.strip()], dtype=np.int64)

    @cached_property
    def bm25(self) -> BM25Index:
        return BM25Index(self.terms)

    @cached_property
    def average_length(self) -> float:
        """Average number of terms of a document."""
        return sum(map(len, self.terms)) / max(1, len(self.terms))

    @cached_property
    def different_terms(self) -> float:
        """Average number of different terms of a document."""
        return sum(different_terms(self.terms)) / max(1, len(self.terms))

    @cached_property
    def continued_words(self) -> float:
        """Proportion of words that the encoder's tokenizer splits, in a sample of the texts spread over the index."""
        step = max(1, len(self.texts) // _TEXTS_READ)
        return continued_words(self.encoder, [text[:_CHARACTERS_READ] for text in self.texts[::step]])

    @cached_property
    def term_counts(self) -> TermCounts:
        return TermCounts(len(self.terms), Counter(chain.from_iterable(map(set, self.terms))))

    @cached_property
    def id_ranks(self) -> IntArray:
        """Rank of each row in the order of ids."""
        return np.argsort(sorted(range(len(self.documents)), key=lambda row: self.documents[row].id))

    def allowed(self, filter: Filter | None) -> IntArray:
        """Return the rows of the documents that satisfy ``filter`` and are not blank."""
        conditions = parse_filter(filter)
        if not conditions:
            return self.filled
        kept = [row for row in self.filled if matches(conditions, self.documents[row].id, self.fields[row])]
        return np.array(kept, dtype=np.int64)

    def replaced(
        self, wanted: list[Document], changed: list[Document], vectors: FloatArray, terms: list[list[str]]
    ) -> _Corpus:
        """Return a corpus with the documents ``wanted`` added or replaced.

        ``vectors`` and ``terms`` belong to the documents ``changed``. The other documents keep their own.
        """
        new = [document for document in wanted if document.id not in self.rows]
        documents = self.documents + new
        all_terms = self.terms + [[]] * len(new)
        vectors_ND = np.empty((len(documents), vectors.shape[1]), dtype=np.float32)
        vectors_ND[: len(self.documents)] = self.vectors_ND.reshape(-1, vectors.shape[1])
        rows = {document.id: row for row, document in enumerate(documents)}
        for document in wanted:
            documents[rows[document.id]] = document
        for document, vector, its_terms in zip(changed, vectors, terms, strict=True):
            vectors_ND[rows[document.id]] = vector
            all_terms[rows[document.id]] = its_terms
        return _Corpus(self.encoder, documents, vectors_ND, all_terms)


def _fields(document: Document) -> dict[str, Any]:
    """Return the fields that filters compare: the payload, and the fields that a collection adds to a document."""
    own = {"source": document.id, "position": 0, "heading": document.title}
    if document.title:
        own["title"] = document.title
    given = document.payload
    return {**own, **{key: value for key, value in given.items() if key not in own or value not in (None, [])}}


@dataclass(frozen=True, slots=True)
class _Scores:
    """The scores of one query for all documents, and what fusion and relevance need to know about the query.

    Attributes:
        dense: Cosines.
        sparse: BM25 scores.
        terms: Number of the query's terms.
        weight: Weight of the query's terms (``TermCounts.weight``).
        unknown: Whether the model does not know most words of the query.
        code_share: Share of the terms that are numbers or codes.
    """

    dense: FloatArray
    sparse: FloatArray
    terms: int
    weight: float
    unknown: bool
    code_share: float


@dataclass(frozen=True, slots=True)
class _Ranking:
    """Turns scores into hits; scores are in the order of ``rows``, the rows of ``corpus`` that the filter allows."""

    corpus: _Corpus
    rows: IntArray
    limit: int
    mode: Mode
    weights: tuple[float, float]
    fusion: FusionMethod
    calibration: Calibration

    def cosines(self, vectors_QD: FloatArray) -> FloatArray:
        """Return the dense scores for normalised vectors: one row for each query."""
        # rounded, so that the order of summation does not decide between equal documents
        return np.round(vectors_QD @ self.corpus.vectors_ND.T, 6)[:, self.rows]

    def hits(self, scores: _Scores, asked: FloatArray | None = None) -> list[Hit]:
        """Return one query's hits, best first.

        If feedback has moved the query, ``asked`` has the dense scores of the original query.
        """
        best, final = self._best(scores)
        stages = {} if self.mode == "sparse" else {"dense": scores.dense}
        if asked is not None:
            stages = {"dense": asked, "feedback": scores.dense}
        if self.mode != "dense":
            stages["sparse"] = scores.sparse
        if self.mode == "hybrid":
            stages["fused"] = final
        return [self._hit(index, float(final[index]), stages, scores) for index in best]

    def moved(self, query_D: FloatArray, scores: _Scores, first: int) -> _Scores:
        """Return the scores of a query that has moved towards its ``first`` hits."""
        best, _ = replace(self, limit=first)._best(scores)
        vector_D = moved(query_D, self.corpus.vectors_ND[self.rows[best]])
        return replace(scores, dense=self.cosines(vector_D[None])[0])

    def _best(self, scores: _Scores) -> tuple[IntArray, FloatArray]:
        """Return the indices of the hits, best first, and the final scores of all documents."""
        if self.mode == "hybrid":
            return self._fused(scores)
        final = scores.dense if self.mode == "dense" else scores.sparse
        best = self._top(final, np.arange(len(final)), self.limit)
        return best if self.mode == "dense" else best[final[best] > 0], final

    def _fused(self, scores: _Scores) -> tuple[IntArray, FloatArray]:
        dense, sparse = scores.dense, scores.sparse
        everything, depth = np.arange(len(dense)), max(self.limit, CANDIDATES)
        by_words = self._top(sparse, everything, depth)
        candidates = np.union1d(self._top(dense, everything, depth), by_words[sparse[by_words] > 0])
        fused = np.zeros_like(dense)
        fused[candidates] = fuse(
            dense[candidates],
            sparse[candidates],
            method=self.fusion,
            weights=self.weights,
            terms=scores.terms,
            calibration=self.calibration,
            unknown=scores.unknown,
            code_share=scores.code_share,
        )
        return self._top(fused, candidates, self.limit), fused

    def _top(self, scores: FloatArray, among: IntArray, limit: int) -> IntArray:
        """Return the ``limit`` indices of ``among`` with the largest scores, best first; equal scores by id."""
        return among[largest(scores[among], limit, self.corpus.id_ranks[self.rows[among]])]

    def _hit(self, index: int, score: float, stages: dict[str, FloatArray], of_query: _Scores) -> Hit:
        document = self.corpus.documents[self.rows[index]]
        scores = {stage: float(values[index]) for stage, values in stages.items()}
        found = relevance(
            scores,
            of_query.weight,
            self.calibration,
            terms=of_query.terms,
            unknown=of_query.unknown,
            code_share=of_query.code_share,
            learnt=share_learnt(self.calibration),
        )
        payload, hidden = dict(document.payload), document.hidden
        return Hit(document.id, document.full_text, score, scores, payload, relevance=found, hidden=hidden)
