"""Passages: the part of a hit's text that answers a query, by words or by token states.

By words, the best window of a text (``windows``) has the largest sum of weights of the query's distinct terms. A term
weighs more, the fewer sentences of the hits contain it (as in BM25). By token states, the best window has the largest
MaxSim to the query, which also finds an answer that shares no word with the query.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import chain
from math import log

import numpy as np

from twinvec.arrays import FloatArray, IntArray
from twinvec.retrieval.analysis import Analyzer, stop_list
from twinvec.retrieval.base import Hit, Passage, SpanEncoder, body_start
from twinvec.retrieval.windows import Span, beginning, grown, units, windows

Match = tuple[str, int, int]
"""A term, and the start and end of its word in the text."""

_GAIN_OF_UNIT = 0.01
"""Gain in mean cosine that every further unit of a window must bring."""

_BY_STATES = 20  # number of first hits whose passages are found by token states: a page of hits

_PIECE = re.compile(r"\S+")  # no term contains white space
_REMEMBERED = 2**17  # pieces whose terms are cached
_REMEMBERED_LENGTH = 64  # characters of a cached piece; longer pieces rarely occur again


def with_passages(query: str, hits: Sequence[Hit], analyzer: Analyzer) -> list[Hit]:
    """Return the hits of one query, each with its best passage by words; ``analyzer`` belongs to the hits' index."""
    return [
        replace(hit, passage=passage) for hit, passage in zip(hits, word_passages(query, hits, analyzer), strict=True)
    ]


def word_passages(query: str, hits: Sequence[Hit], analyzer: Analyzer) -> list[Passage]:
    """Return the best passage of each hit by words; a text without a word of the query gets its first passage."""
    terms = _content_terms(query, analyzer)
    cut = [units(hit.text, body_start(hit)) for hit in hits]
    found = _matches([hit.text for hit in hits], terms, analyzer)
    by_unit = [_terms_of(spans, matches) for spans, matches in zip(cut, found, strict=True)]
    counts = Counter(term for each in by_unit for in_unit in each for term in in_unit)
    total = sum(map(len, cut))
    weights = {term: log(1 + (total - count + 0.5) / (count + 0.5)) for term, count in counts.items()}
    return [
        _passage(hit, _best(hit.text, spans, in_units, weights), matches)
        for hit, spans, in_units, matches in zip(hits, cut, by_unit, found, strict=True)
    ]


def with_state_passages(query: str, hits: Sequence[Hit], encoder: object, analyzer: Analyzer) -> list[Hit]:
    """Replace the passages of the first hits of one query by the best passages by token states.

    Hits without a passage are skipped. Only ``_BY_STATES`` hits change, because computing token states takes some 10 ms
    a text. Hits stay as they are if the encoder does not return token states and their positions (``SpanEncoder``).
    """
    chosen = [row for row, hit in enumerate(hits) if hit.passage is not None][:_BY_STATES]
    if not isinstance(encoder, SpanEncoder) or not chosen:
        return list(hits)
    best = [hits[row] for row in chosen]
    texts = [hit.text for hit in best]
    (query_QD,) = encoder.encode_tokens([query], prompt="query")
    (query_Q2,) = encoder.token_spans([query], prompt="query")
    # without special tokens, which match the special tokens of any text
    words_QD = query_QD[query_Q2[:, 1] > query_Q2[:, 0]]
    cosines = [states_TD @ words_QD.T for states_TD in encoder.encode_tokens(texts, prompt="document")]
    spans = encoder.token_spans(texts, prompt="document")
    found = dict(zip(chosen, state_passages(query, best, cosines, spans, analyzer), strict=True))
    return [replace(hit, passage=found.get(row, hit.passage)) for row, hit in enumerate(hits)]


def state_passages(
    query: str, hits: Sequence[Hit], cosines: Sequence[FloatArray], spans: Sequence[IntArray], analyzer: Analyzer
) -> list[Passage]:
    """Return the best passage of each hit by token states; ``analyzer`` belongs to the hits' index.

    ``cosines`` has, for each hit, the cosines of its tokens with the query's tokens: (T, Q). ``spans`` has, for each
    hit, the start and end of its tokens in the text: (T, 2).
    """
    found = _matches([hit.text for hit in hits], _content_terms(query, analyzer), analyzer)
    return [
        _passage(hit, _nearest(hit, cosines_TQ, spans_T2), matches)
        for hit, cosines_TQ, spans_T2, matches in zip(hits, cosines, spans, found, strict=True)
    ]


def _nearest(hit: Hit, cosines_TQ: FloatArray, spans_T2: IntArray) -> Span | None:
    """Return the window of a hit's text with the largest MaxSim to the query, extended by ``grown``.

    A smaller window is preferred to a larger one that is hardly nearer (``_GAIN_OF_UNIT``). A token belongs to the unit
    in which it starts, because an unknown token may be a long text without spaces. Without tokens, the first window is
    returned.
    """
    spans = units(hit.text, body_start(hit))
    starts, ends = spans_T2[:, 0], spans_T2[:, 1]
    inside = [(starts >= span.start) & (starts < span.end) & (ends > starts) for span in spans]
    # units with tokens: the model may have truncated the text
    kept = [row for row, rows_T in enumerate(inside) if rows_T.any()]
    if not kept or not cosines_TQ.shape[1]:
        return grown(hit.text, spans, 0, 1) if spans else None
    read = [spans[row] for row in kept]
    best_UQ = np.stack([cosines_TQ[inside[row]].max(axis=0) for row in kept])

    def nearness(window: tuple[int, int]) -> float:
        first, end = window
        return float(best_UQ[first:end].max(axis=0).mean()) - _GAIN_OF_UNIT * (end - first)

    first, end = max(windows(read), key=nearness)
    return grown(hit.text, spans, kept[first], kept[end - 1] + 1)


def has_all_words(query: str, passage: Passage, analyzer: Analyzer) -> bool:
    """Return whether a passage has all content words of a query."""
    return _content_terms(query, analyzer) <= frozenset(analyzer.terms([passage.text])[0])


def _content_terms(query: str, analyzer: Analyzer) -> frozenset[str]:
    """Return the terms of a query's content words; all terms if the query has no content word."""
    terms = frozenset(analyzer.query_terms([query])[0])
    if analyzer.language != "english":
        return terms
    return terms - _empty_terms(analyzer.version) or terms


@cache
def _empty_terms(version: int) -> frozenset[str]:
    """Return the terms of English function words, of which the stop words of BM25 are only a few."""
    return frozenset(chain.from_iterable(Analyzer(version=version).terms(sorted(stop_list("EN_PLUS")))))


def _best(text: str, spans: Sequence[Span], terms: Sequence[frozenset[str]], weights: dict[str, float]) -> Span | None:
    """Return the window whose terms have the largest sum of weights, extended by ``grown``.

    Among windows of equal sums, the smallest is preferred, and then the first.
    """
    if not spans:
        return None
    best, most = (0, 1), 0.0
    for first, end in windows(spans) if weights else ():
        weight = sum(map(weights.__getitem__, frozenset().union(*terms[first:end])))
        if weight > most + 1e-9:
            best, most = (first, end), weight
    return grown(text, spans, *best)


def _passage(hit: Hit, span: Span | None, matches: Sequence[Match]) -> Passage:
    """Return a span of a hit's text as a passage; without a span, the beginning of the text."""
    start, end = span or beginning(hit.text, body_start(hit))
    marks: list[tuple[int, int]] = []
    for _, begin, stop in matches:  # merge overlaps: an identifier and its parts, pairs of syllables
        if start <= begin and stop <= end:
            overlaps = bool(marks) and begin - start < marks[-1][1]
            first, last = marks.pop() if overlaps else (begin - start, 0)
            marks.append((first, max(last, stop - start)))
    return Passage(hit.text[start:end], start, end, tuple(marks))


def _terms_of(spans: Sequence[Span], matches: Sequence[Match]) -> list[frozenset[str]]:
    """Return the terms of the matches in each unit; matches and units are in the order of the text."""
    found: list[set[str]] = [set() for _ in spans]
    row = 0
    for term, start, _ in matches:
        while row < len(spans) and spans[row].end <= start:
            row += 1
        if row < len(spans) and spans[row].start <= start:
            found[row].add(term)
    return list(map(frozenset, found))


def _matches(texts: Sequence[str], terms: frozenset[str], analyzer: Analyzer) -> list[list[Match]]:
    """Return the matches of the terms in each text, in the order of the text."""
    pieces: set[str] = set().union(*map(str.split, texts))
    known = _known_terms(analyzer.language, analyzer.version)
    unknown = list(pieces.difference(known))
    new = dict(zip(unknown, map(frozenset, analyzer.terms(unknown)), strict=True))
    if len(known) < _REMEMBERED:
        known.update((piece, its_terms) for piece, its_terms in new.items() if len(piece) <= _REMEMBERED_LENGTH)
    found = {
        piece: [match for match in analyzer.spans(piece) if match[0] in terms]
        for piece in pieces
        if not terms.isdisjoint(new[piece] if piece in new else known[piece])
    }
    return [
        [
            (term, piece.start() + start, piece.start() + end)
            for piece in _PIECE.finditer(text)
            if piece[0] in found
            for term, start, end in found[piece[0]]
        ]
        for text in texts
    ]


@cache
def _known_terms(language: str, version: int) -> dict[str, frozenset[str]]:
    """Return a cache, piece of text -> its terms; new pieces are added until it has ``_REMEMBERED``."""
    return {}
