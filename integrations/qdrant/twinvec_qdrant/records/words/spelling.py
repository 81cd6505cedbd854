"""Spelling: a word of a query that is not in the collection is replaced by a similar word of the collection.

Distances are optimal string alignment: insertions, deletions, replacements, and swaps of neighbours count one each
(``rapidfuzz``). A word of 4 to 7 letters is corrected at a distance of 1, a longer word at up to 2; the first letter
must be the same. Of the closest words, the word in the most chunks is taken. Stop words and question words are not
corrected. Neither is a word for which the caller's ``is_right`` is true, for example because it is a token of the
model. From version 5 of the analysis on, the parts of a joined word such as "node.js" are not corrected either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from twinvec.retrieval.analysis import Analyzer, folded

MAX_WORDS = 50_000
"""Largest number of words in a vocabulary; they take about 250 KB."""

_SHORTEST = 4
_LONG = 8
_MOST_WORDS = 1_000  # different words of a query that are checked
_WORD = re.compile(r"[^\W\d_]+")
_SURE = 10  # in a full vocabulary, corrections must be more frequent than the rarest word by this factor

_QUESTION_WORDS = {
    "dutch": "hoeveel waar waarbij waardoor waarheen waarin waarmee waarom waarop waaruit waarvoor wanneer welke wiens",
    "english": "when where what which whom whose",
    "finnish": "kenen koska kuinka kuka mihin miksi mikä milloin missä mistä mitkä montako paljonko",
    "french": "quand comment pourquoi combien quel quelle quels quelles lequel laquelle lesquels lesquelles",
    "german": "inwiefern wann warum weshalb wessen wieso wieviel wieviele wobei wodurch wofür wogegen woher wohin "
    "womit woran worauf woraus worin worum wovon wozu",
    "hungarian": "hány hogyan honnan hova kinek melyik mennyi miért mikor",
    "italian": "quali quando",
    "norwegian": "hvilket hvorav",
    "portuguese": "aonde onde porque porquê quais quanta quantas quanto quantos",
    "russian": "какие какое кого кому откуда почему сколько",
    "spanish": "adónde cómo cuál cuáles cuándo cuánta cuántas cuánto cuántos dónde porqué quién quiénes",
    "swedish": "hurdan varifrån vems",
    "turkish": "kimin",
}
"""Language -> the question words that are not in its list of stop words."""


class Correction(NamedTuple):
    """A misspelt word of a query, its position, and the word of the collection that replaces it.

    ``is_sure`` is True if the word is long and its distance from the replacement is 1.
    """

    word: str
    start: int
    end: int
    instead: str
    is_sure: bool


class Speller:
    """Corrects queries by the ``words`` of the collection, each with the number of chunks that contain it.

    ``terms`` has the terms of these words.
    """

    def __init__(self, words: Mapping[str, int], terms: Collection[str], analyzer: Analyzer) -> None:
        self._analyzer = analyzer
        self._terms = terms
        self._asking = set(map(folded, _QUESTION_WORDS.get(analyzer.language, "").split()))
        rare = _SURE * min(words.values(), default=0) if len(words) >= MAX_WORDS else 0
        self._by_letter: dict[str, dict[str, tuple[int, str]]] = {}
        for word, count in words.items():
            plain = folded(word)
            if len(plain) >= _SHORTEST - 1 and count > rare:
                self._by_letter.setdefault(plain[0], {})[plain] = (count, word)

    def corrections(self, query: str) -> list[Correction]:
        """Return the corrections of probably misspelt words, among the first 1,000 different words of a query."""
        found = []
        instead: dict[str, tuple[str, bool] | None] = {}
        for match in _WORD.finditer(self._analyzer.masked(query)):
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
        plain = folded(word)
        terms = [] if plain in self._asking else self._analyzer.terms([word])[0]
        if not terms or any(term in self._terms for term in terms):
            return None
        from rapidfuzz import process
        from rapidfuzz.distance import OSA

        near = self._by_letter.get(plain[0], {})
        most = 1 if len(plain) < _LONG else 2
        found = process.extract(plain, near.keys(), scorer=OSA.distance, score_cutoff=most, limit=None)
        if not found:
            return None
        best = min(found, key=lambda each: (each[1], -near[each[0]][0], each[0]))
        return near[best[0]][1], len(plain) >= _LONG and best[1] == 1


def corrected(query: str, corrections: Sequence[Correction], is_right: Callable[[Correction], bool]) -> str:
    """Return the query with the corrections applied, except those for which ``is_right`` is true."""
    parts, end = [], 0
    right: dict[str, bool] = {}
    for each in corrections:
        if each.word not in right:
            right[each.word] = is_right(each)
        if not right[each.word]:
            parts += [query[end : each.start], each.instead]
            end = each.end
    return "".join([*parts, query[end:]])
