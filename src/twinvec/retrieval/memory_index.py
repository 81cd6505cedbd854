"""Retrieval: what a hit is, what a retriever is, exact search in memory, and two stages in one call.

``MemoryIndex`` compares the query with every document, by vectors and by words (``lexical``), and fuses both
(``fusion``). It is the reference for quality and the right store up to some hundred thousand texts; what has to
survive the process belongs into a collection (``twinvec_qdrant``). ``RetrieveRerank`` puts a reranker behind any
retriever.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from twinvec.arrays import FloatArray, unit, without_direction
from twinvec.errors import BadVectorError
from twinvec.retrieval.base import Hit, Mode, VectorEncoder, check_limit
from twinvec.retrieval.bm25 import Analyzer
from twinvec.retrieval.corpus import Corpus, Rows
from twinvec.retrieval.documents import Document, DocumentLike, as_documents
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.fusion import CANDIDATES, FusionMethod, check_method, fuse
from twinvec.support.checks import check_choice
from twinvec.text import check_text, check_texts

_BLOCK_SCORES = 1 << 24  # scores held at a time: 64 MB


class MemoryIndex:
    """Exact search over documents held in memory.

    Dense scores are cosines; sparse scores are BM25 (Lucene's variant, k1 1.5, b 0.75). ``search`` and ``add``
    may run in different threads: a search sees the index as it was when it began.

    Args:
        encoder: Gives the vectors, by ``encode_query`` and ``encode_document``.
        documents: What to start with, as for ``add``.
        language: Snowball language of the stemmer for BM25.
        fusion: How hybrid search fuses its two stages; see ``twinvec.retrieval.fusion``.

    Raises:
        ConfigurationError: no stemmer for ``language``, an unknown method of fusion; and what ``add`` raises.
    """

    def __init__(
        self,
        encoder: VectorEncoder,
        documents: Iterable[DocumentLike] = (),
        *,
        language: str = "english",
        fusion: FusionMethod = "adaptive",
    ) -> None:
        check_method(fusion)
        self._encoder = encoder
        self._analyzer = Analyzer(language)
        self._fusion: FusionMethod = fusion
        self._adding = threading.Lock()
        self._corpus = Corpus([], np.empty((0, 0), dtype=np.float32), [])
        self.add(documents)

    def __len__(self) -> int:
        return len(self._corpus.documents)

    def add(self, documents: Iterable[DocumentLike], *, progress: bool = False) -> None:
        """Add documents: anything that ``as_document`` takes; the same id again replaces the earlier document.

        All or none: when a document is refused, the index stays as it was. Only new texts are encoded.

        Raises:
            DocumentError: a document without a text or an id, or with values of the wrong type.
            TextError: a text refused by the input gate.
            BadVectorError: the encoder gave a vector that is not finite, is zero, or of another size.
        """
        wanted = list({document.id: document for document in as_documents(documents)}.values())
        if not wanted:
            return
        with self._adding:
            old = self._corpus
            changed = [d for d in wanted if (row := old.rows.get(d.id)) is None or old.texts[row] != d.full_text]
            vectors = self._encoded(changed, progress)
            terms = self._analyzer.terms([document.full_text for document in changed])
            self._corpus = old.replaced(wanted, changed, vectors, terms)

    def search(
        self,
        query: str,
        limit: int = 10,
        filter: Filter | None = None,
        *,
        mode: Mode = "hybrid",
        weights: tuple[float, float] = (1.0, 1.0),
    ) -> list[Hit]:
        """At most ``limit`` hits, best first, that satisfy ``filter``; equal scores in the order of their ids.

        A hybrid search fuses the best 100 of each stage (more where ``limit`` asks for more). A sparse search finds
        only documents that share a term with the query. A blank query finds nothing, and a blank document is never
        found. ``weights`` are those of vectors and of words in a hybrid search; see ``twinvec.retrieval.fusion``.

        Raises:
            TextError: the query is refused by the input gate.
            FilterError: the filter has no meaning.
            ConfigurationError: an unknown mode, a limit below 1, or weights that are no two numbers from 0.
            BadVectorError: the encoder gave a vector that is not finite, or of another size.
        """
        check_text(query, "query")
        return self.search_many([query], limit, filter, mode=mode, weights=weights)[0]

    def search_many(
        self,
        queries: Sequence[str],
        limit: int = 10,
        filter: Filter | None = None,
        *,
        mode: Mode = "hybrid",
        weights: tuple[float, float] = (1.0, 1.0),
    ) -> list[list[Hit]]:
        """``search`` for many queries at once; errors name a query by its index."""
        queries = check_texts(queries)
        check_limit(limit)
        check_choice(mode, Mode, "mode")
        corpus = self._corpus
        allowed = corpus.allowed(filter)
        asked = [query for query in dict.fromkeys(queries) if query.strip()]
        found: dict[str, list[Hit]] = {}
        if len(allowed) and asked:
            terms = self._analyzer.terms(asked) if mode != "dense" else [[]] * len(asked)
            scores = self._scores(corpus, asked, terms, allowed, mode)
            for query, words, (dense, sparse) in zip(asked, terms, scores, strict=True):
                found[query] = self._hits(corpus, dense, sparse, allowed, limit, mode, weights, len(words))
        return [list(found.get(query, ())) for query in queries]

    def _scores(
        self, corpus: Corpus, queries: list[str], terms: list[list[str]], allowed: Rows, mode: Mode
    ) -> Iterator[tuple[FloatArray, FloatArray]]:
        """For each query the dense and the sparse scores of the allowed rows; zeros for a stage left out."""
        nothing = np.zeros(len(allowed), dtype=np.float32)
        block = max(1, _BLOCK_SCORES // len(corpus.documents))
        for start in range(0, len(queries), block):
            part = queries[start : start + block]
            if mode != "sparse":
                vectors_QD = self._query_vectors(part, corpus.vectors_ND.shape[1])
                # rounded: the order in which products are summed must not decide between equal documents
                dense_QN = np.round(vectors_QD @ corpus.vectors_ND.T, 6)[:, allowed]
            for index in range(len(part)):
                sparse = corpus.bm25.scores(terms[start + index])[allowed] if mode != "dense" else nothing
                yield dense_QN[index] if mode != "sparse" else nothing, sparse

    def _query_vectors(self, queries: list[str], dim: int) -> FloatArray:
        vectors_QD = np.asarray(self._encoder.encode_query(queries), dtype=np.float32)
        if vectors_QD.shape != (len(queries), dim) or not np.isfinite(vectors_QD).all():
            raise BadVectorError(
                f"the encoder gave for queries vectors of shape {vectors_QD.shape}, "
                f"expected {(len(queries), dim)} and finite"
            )
        return unit(vectors_QD)

    def _hits(
        self,
        corpus: Corpus,
        dense: FloatArray,
        sparse: FloatArray,
        allowed: Rows,
        limit: int,
        mode: Mode,
        weights: tuple[float, float],
        terms: int,
    ) -> list[Hit]:
        ranks = corpus.id_ranks[allowed]
        if mode == "dense":
            best, stages = _top(dense, ranks, limit), {"dense": dense}
        elif mode == "sparse":
            best, stages = _top(sparse, ranks, limit), {"sparse": sparse}
            best = best[sparse[best] > 0]
        else:
            depth = max(limit, CANDIDATES)
            by_words = _top(sparse, ranks, depth)
            union = np.union1d(_top(dense, ranks, depth), by_words[sparse[by_words] > 0])
            fused = np.zeros_like(dense)
            fused[union] = fuse(dense[union], sparse[union], method=self._fusion, weights=weights, terms=terms)
            best = union[_top(fused[union], ranks[union], limit)]
            stages = {"dense": dense, "sparse": sparse, "fused": fused}
        hits = []
        for each in best:
            document = corpus.documents[allowed[each]]
            scores = {name: float(values[each]) for name, values in stages.items()}
            score = next(reversed(scores.values()))
            hits.append(Hit(document.id, document.full_text, score, scores, dict(document.payload)))
        return hits

    def _encoded(self, documents: list[Document], progress: bool) -> FloatArray:
        """The vectors of documents, checked, of length 1."""
        dim = self._corpus.vectors_ND.shape[1]
        if not documents:
            return np.empty((0, dim), dtype=np.float32)
        texts = [document.full_text for document in documents]
        vectors_ND = np.asarray(self._encoder.encode_document(texts, progress=progress), dtype=np.float32)
        expected = (len(documents), dim or vectors_ND.shape[-1])
        if vectors_ND.shape != expected:
            raise BadVectorError(f"the encoder gave vectors of shape {vectors_ND.shape}, expected {expected}")
        bad = without_direction(vectors_ND)
        if bad.size:
            raise BadVectorError(f"document {documents[bad[0]].id!r}: its vector is zero or not finite")
        return unit(vectors_ND)


def _top(scores: FloatArray, ranks: Rows, limit: int) -> Rows:
    """Indices of the ``limit`` largest scores, in order; equal ones by ``ranks``."""
    within = np.arange(len(scores))
    if limit < len(scores):
        threshold = np.partition(scores, len(scores) - limit)[len(scores) - limit]
        within = np.flatnonzero(scores >= threshold)
    return within[np.lexsort((ranks[within], -scores[within]))][:limit]
