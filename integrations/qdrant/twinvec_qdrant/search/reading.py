"""Reading queries before they become vectors: parses their syntax, and corrects their spelling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from twinvec.retrieval.base import unknown_texts
from twinvec.retrieval.syntax import ParsedQuery, parse_query
from twinvec_qdrant.records.bm25_weights import BM25Weights
from twinvec_qdrant.records.words.spelling import Correction, corrected
from twinvec_qdrant.stores.steps import Steps

Knows = Callable[[Correction], bool]
"""Function that says whether a word is spelt right although the collection does not have it."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A parsed and corrected query.

    Attributes:
        query: The query as given.
        text: The query without its syntax and the blanks around it.
        corrected: ``text`` with corrected spelling.
        condition: The phrases that a text must have and the words that it must not have; None for a query without both.
        telling: Whether every text that satisfies the condition has a term of the query.
    """

    query: str
    text: str
    corrected: str
    condition: ParsedQuery | None = None
    telling: bool = False


def read_queries(
    queries: Sequence[str], weights: BM25Weights, knows: Callable[[], Steps[Knows]], *, syntax: bool
) -> Steps[list[Reading]]:
    """Parse queries and correct their spelling; ``knows`` is called if a word may be misspelt.

    With ``syntax``, raise ``TextError`` for a query that only excludes words.
    """
    parsed = [parse_query(query) if syntax else ParsedQuery(query) for query in queries]
    texts = [each.text.strip() for each in parsed]
    speller = yield from weights.speller()
    found = [speller.corrections(text) if speller else [] for text in texts]
    known = (yield from knows()) if any(found) else bool
    readings = []
    for query, each, text, corrections in zip(queries, parsed, texts, found, strict=True):
        condition = each if each.has_conditions else None
        readings.append(
            Reading(query, text, corrected(text, corrections, known), condition, _is_telling(each, weights))
        )
    return readings


def _is_telling(query: ParsedQuery, weights: BM25Weights) -> bool:
    """Return whether a phrase has a term of the query; stop words and question words are not terms of the query."""
    if not query.phrases:
        return False
    asked = set(weights.analyzer.query_terms([query.text])[0])
    return any(map(asked.intersection, weights.terms([" ".join(phrase) for phrase in query.phrases])))


def known_words(encoder: object) -> Knows:
    """Return a function that says whether a word counts as spelt right, judged by the encoder's model.

    A word counts as right if it is one token of the model. A word that the model does not know, such as a word in
    another script, counts as right unless its correction is sure. Without a tokenizer, no word counts as right.
    """
    tokenizer = getattr(encoder, "tokenizer", None)

    def knows(correction: Correction) -> bool:
        if tokenizer is None:
            return False
        alone, followed = tokenizer.count(["a", f"a {correction.word.lower()}"]).tolist()
        return bool(followed - alone == 1) or (not correction.is_sure and unknown_texts(encoder, [correction.word])[0])

    return knows
