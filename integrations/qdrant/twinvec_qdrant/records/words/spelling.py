"""Spelling: a word of a query that the collection lacks is replaced by a close word that it has.

Distances are optimal string alignment: insertions, deletions, replacements, and swaps of neighbours count one each
(``rapidfuzz``). A word of 4 to 7 letters may be 1 away from the right one, a longer one 2; the first letter has to be
right. Of the closest words, the one in the most chunks is taken. A word for which ``is_right`` is true, such as one of
the tokens of a model, is right although the collection lacks it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from twinvec.retrieval.analysis import Analyzer, folded

MAX_WORDS = 50_000
"""Most words that a vocabulary holds; about 250 KB."""

_SHORTEST = 4
_LONG = 8
_MOST_WORDS = 1_000  # different ones of a query that are looked at: nobody types more
_WORD = re.compile(r"[^\W\d_]+")
_SURE = 10  # if the vocabulary is full, how many times as frequent as its rarest word a correction has to be


class Correction(NamedTuple):
    """A misspelt word of a query, where it stands, and the word of the collection that replaces it.

    ``is_sure`` if the word is long and differs from the other by one letter.
    """

    word: str
    start: int
    end: int
    instead: str
    is_sure: bool


class Speller:
    """Corrects queries to one collection by its ``words``, each with the number of chunks that have it."""

    def __init__(self, words: Mapping[str, int], analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._terms = frozenset(analyzer.terms([" ".join(words)])[0])
        rare = _SURE * min(words.values(), default=0) if len(words) >= MAX_WORDS else 0
        self._by_letter: dict[str, dict[str, tuple[int, str]]] = {}
        for word, count in words.items():
            plain = folded(word)
            if len(plain) >= _SHORTEST - 1 and count > rare:
                self._by_letter.setdefault(plain[0], {})[plain] = (count, word)

    def corrections(self, query: str) -> list[Correction]:
        """Return what is probably misspelt in a query, as far as its first 1,000 different words go."""
        found = []
        instead: dict[str, tuple[str, bool] | None] = {}
        for match in _WORD.finditer(query):
            start, end = match.span()
            beside = query[max(start - 1, 0) : start] + query[end : end + 1]
            if end - start < _SHORTEST or any(each.isalnum() or each == "_" for each in beside):
                continue
            word = match[0].lower()
            if word not in instead:
                if len(instead) == _MOST_WORDS:
                    break
                instead[word] = self._instead(word)
            if (correction := instead[word]) is not None:
                found.append(Correction(match[0], start, end, *correction))
        return found

    def _instead(self, word: str) -> tuple[str, bool] | None:
        terms = self._analyzer.terms([word])[0]
        if not terms or not self._terms.isdisjoint(terms):
            return None
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        plain = folded(word)
        near = self._by_letter.get(plain[0], {})
        most = 1 if len(plain) < _LONG else 2
        found = process.extract(plain, near.keys(), scorer=OSA.distance, score_cutoff=most, limit=None)
        if not found:
            return None
        best = min(found, key=lambda each: (each[1], -near[each[0]][0], each[0]))
        return near[best[0]][1], len(plain) >= _LONG and best[1] == 1


def corrected(query: str, corrections: Sequence[Correction], is_right: Callable[[Correction], bool]) -> str:
    """Return the query with its words corrected; a word for which ``is_right`` is true stays."""
    parts, end = [], 0
    right: dict[str, bool] = {}
    for each in corrections:
        if each.word not in right:
            right[each.word] = is_right(each)
        if not right[each.word]:
            parts += [query[end : each.start], each.instead]
            end = each.end
    return "".join([*parts, query[end:]])
