"""BM25 weights in a store: the average length that they depend on, and when they are computed again.

The store keeps saturated term frequencies (``twinvec.retrieval.bm25``), which depend on the average length of all
chunks. The collection therefore records the average length that its weights assume. When the true average has moved too
far from the recorded one, all weights are computed again from the stored texts.

The first ingest records the newest version of the analysis of words (``twinvec.retrieval.analysis``), together with the
first average. Texts and queries of a collection are analysed by the recorded version until ``renew``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from twinvec.errors import StoreFullError
from twinvec.retrieval import analysis as analyses
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.bm25 import SparseVector, document_vectors, query_vector, weighted_sum
from twinvec_qdrant.records.description import Description, stored_description
from twinvec_qdrant.records.schema import CHUNKS, EMBEDDED_FIELDS, RECORDS, Record, chunks_of, embedded_text
from twinvec_qdrant.records.words.spelling import Speller
from twinvec_qdrant.records.words.vocabulary import Vocabulary
from twinvec_qdrant.stores.base import Backend, update_existing
from twinvec_qdrant.stores.points import Point, pages
from twinvec_qdrant.stores.steps import Steps

DRIFT = 0.05
"""Relative change of the average at which all weights are computed again."""

CORRECTED = 0.75
"""Weight of a corrected word; the word as it was typed has the weight 1 - CORRECTED."""

_RECORDS = 100


class BM25Weights:
    """The sparse vectors of a collection; the weights assume chunks of ``average_length`` terms (0: not known yet).

    ``analyzer`` is the analysis of words that the collection records.
    """

    def __init__(self, backend: Backend, description: Description) -> None:
        self._backend = backend
        self.analyzer = description.analyzer
        self.average_length = description.average_length
        self._totals: tuple[int, int] | None = None  # numbers of chunks and terms; None until they are counted
        self.vocabulary = Vocabulary(backend)
        self._has_tenants = description.tenant_key is not None

    @property
    def chunks(self) -> int | None:
        """Number of the collection's chunks; None before ``rebalance``."""
        return None if self._totals is None else self._totals[0]

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text."""
        return self.analyzer.terms(texts)

    def documents(self, terms: Sequence[list[str]]) -> list[SparseVector]:
        """Return the vectors of chunks, from their terms; the first chunks of a collection set the average."""
        self._assume(terms)
        return document_vectors(terms, self.average_length)

    def begin(self, texts: Sequence[str]) -> None:
        """Record the average length of these chunks, unless the collection has recorded an average before."""
        if not self.average_length:
            self._assume(self.terms(texts))

    def queries(self, texts: Sequence[str], instead: Sequence[str] | None = None) -> list[SparseVector]:
        """Return the vectors of queries; if ``instead`` has corrected queries, their terms weigh most."""
        vectors = [query_vector(each) for each in self.analyzer.query_terms(texts)]
        if instead is None or list(instead) == list(texts):
            return vectors
        return [
            vector if text == right else weighted_sum([vector, self.queries([right])[0]], (1 - CORRECTED, CORRECTED))
            for text, right, vector in zip(texts, instead, vectors, strict=True)
        ]

    def weights(self, queries: Sequence[str]) -> list[float]:
        """Return the weight of each query's terms (``TermCounts.weight``), by the vocabulary that was read before."""
        counts = self.vocabulary.term_counts(self.analyzer)
        return [counts.weight(terms) for terms in self.analyzer.query_terms(queries)]

    def code_share(self, query: str) -> float:
        """Return the share of a query's terms that are numbers or codes."""
        return self.analyzer.code_share(query, *self.analyzer.query_terms([query]))

    def written(self, texts: Iterable[str]) -> None:
        """Add the words of newly written chunks to the vocabulary."""
        if self.analyzer.version > 1:
            self.vocabulary.see(texts, self.analyzer)

    def taken_words(self) -> tuple[Counter[str], int]:
        """Return the words and the number of written chunks, for another writer to ``add_words``, and forget them."""
        return self.vocabulary.taken(self.analyzer) if self.analyzer.version > 1 else (Counter(), 0)

    def add_words(self, words: Mapping[str, int], chunks: int) -> None:
        """Add the results of other writers' ``taken_words``; the totals are counted again when they are needed."""
        self.vocabulary.add(words, chunks)
        self._totals = None

    def read_vocabulary(self) -> None:
        """Read the collection's vocabulary now, so that the first search is faster."""
        if self.average_length and self.analyzer.version > 1:
            self._backend.run(self.vocabulary.read())

    def speller(self) -> Steps[Speller | None]:
        """Return the corrector of queries; None if the collection has no vocabulary, or many tenants.

        A corrected query would show a tenant the words of other tenants.
        """
        if self.analyzer.version == 1:
            return None
        found = yield from self.vocabulary.speller(self.analyzer)  # reads the counts of words, too
        return None if self._has_tenants else found

    def changed(self, old: Record | None, new: Record | None) -> None:
        """Update the totals after a commit has replaced the record ``old`` by ``new``; None stands for no record."""
        self.vocabulary.changed(len(new.chunks if new else ()) - len(old.chunks if old else ()))
        if self._totals is not None:
            chunks, terms = self._totals
            for record, sign in ((old, -1), (new, 1)):
                if record is not None:
                    chunks += sign * len(record.chunks)
                    terms += sign * record.terms
            self._totals = chunks, terms

    def count_from_nothing(self) -> None:
        """Set the totals to zero, in an empty collection without another writer."""
        self._totals = (0, 0)

    def refresh(self) -> None:
        """Read the average length and the analysis again, which other writers may have changed."""
        now = stored_description(self._backend)
        self.analyzer = now.analyzer
        if now.average_length != self.average_length:
            self.average_length, self._totals = now.average_length, None

    def rebalance(self, *, recount: bool = False) -> None:
        """Compute all weights again if the average length has drifted, and save the vocabulary.

        With ``recount``, count the words of all chunks for the vocabulary. After a kill, the next call starts over.
        """
        if self._totals is None or self._drifted(*self._totals) or not self._follows(self._totals[0]):
            chunks, terms = self._totals = self._counted()  # also counts the commits of other writers
            if self._drifted(chunks, terms):
                self._weigh_all(chunks, terms)
        if self.analyzer.version > 1:
            with suppress(StoreFullError):  # the collection is full; the next ingest saves the vocabulary
                self.vocabulary.save(self._totals[0], self.analyzer, anew=recount)

    def _follows(self, chunks: int) -> bool:
        """Return whether the vocabulary shows that no other writer has committed since the totals were counted."""
        return self.analyzer.version == 1 or self.vocabulary.follows(chunks)

    def _weigh_all(self, chunks: int, terms: int) -> None:
        average = terms / chunks
        for page in pages(self._backend.scroll([CHUNKS], EMBEDDED_FIELDS)):
            of_texts = self.terms([embedded_text(point.payload) for point in page])
            self._update(dict(zip([point.id for point in page], of_texts, strict=True)), average)
        self._backend.flush()
        self._record(average)

    def renew(self) -> None:
        """Analyse all texts by the newest version of the analysis of words, and count all words again.

        Searches continue meanwhile. After a kill, the collection keeps the old version, and the next call starts over.
        """
        self.refresh()
        if not self.average_length:
            return
        if self.analyzer.version != analyses.NEWEST_ANALYSIS:
            analyzer = Analyzer(self.analyzer.language, analyses.NEWEST_ANALYSIS)
            for page in pages(self._backend.scroll([RECORDS]), _RECORDS):
                self._analyse(page, analyzer)
            self._backend.flush()
            self._backend.write_metadata({"analysis": analyzer.version})
            self.analyzer, self._totals = analyzer, None
        self.rebalance(recount=True)

    def _analyse(self, records: Sequence[Point], analyzer: Analyzer) -> None:
        """Write new weights to the chunks of these records, and the new numbers of terms to the records."""
        chunks = [chunk for each in records for chunk in each.payload["chunks"]]
        there = chunks_of(self._backend.retrieve(chunks, ["kind", *EMBEDDED_FIELDS]))
        texts = [embedded_text(point.payload) for point in there.values()]
        terms = dict(zip(there, analyzer.terms(texts), strict=True))
        self._update(terms, self.average_length)
        counted = [sum(len(terms.get(chunk, ())) for chunk in each.payload["chunks"]) for each in records]
        changed = [
            Point(each.id, {**each.payload, "terms": count})
            for each, count in zip(records, counted, strict=True)
            if count != each.payload["terms"]
        ]
        self._backend.commit(changed, [each.payload["revision"] for each in changed])

    def _assume(self, terms: Sequence[Sequence[str]]) -> None:
        if not self.average_length and any(terms):
            self._record(sum(map(len, terms)) / len(terms))

    def _drifted(self, chunks: int, terms: int) -> bool:
        return terms > 0 and abs(terms / chunks - self.average_length) > DRIFT * self.average_length

    def _counted(self) -> tuple[int, int]:
        chunks = terms = 0
        for record in self._backend.scroll([RECORDS], ["terms", "size"]):
            chunks += record.payload["size"]
            terms += record.payload["terms"]
        return chunks, terms

    def _update(self, terms: Mapping[str, Sequence[str]], average: float) -> None:
        """Write the weights of chunks, by id."""
        weights = dict(zip(terms, document_vectors(list(terms.values()), average), strict=True))
        update_existing(
            self._backend, weights, lambda ids: self._backend.update_sparse({key: weights[key] for key in ids})
        )

    def _record(self, average: float) -> None:
        first = {} if self.average_length or self.analyzer.version == 1 else {"analysis": self.analyzer.version}
        self._backend.write_metadata({"average_length": average, **first})
        self.average_length = average
