"""The syntax of queries, for callers that want it: ``"exact phrase"`` must occur, and ``-word`` must not.

A phrase is in double quotes of any language: "…", “…”, „…“, «…», »…«, 「…」 or 『…』. A hyphen excludes the word or the
phrase that follows directly, if it is at the beginning of the query or after white space. Everything else is text:
``--dry-run`` and ``a - b`` are words, and an unpaired quote is a character.

Case, accents and the characters between words do not matter. Word forms matter. In scripts without spaces between words
(Chinese, Japanese, Thai, Lao, Khmer, Burmese), each letter is a word.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from unicodedata import normalize

from twinvec.errors import TextError
from twinvec.retrieval.filters.words import words

_SYNTAX = re.compile(
    r"""(?P<minus>(?<!\S)-)?(?:"([^"]*)"|“([^“”]*)”|„([^„“”]*)[“”]|«([^«»]*)»|»([^«»]*)«|「([^「」]*)」|『([^『』]*)』)"""
    r"""|(?<!\S)-(?P<word>[^\W\d_]\S*)"""
)


@dataclass(frozen=True, slots=True)
class ParsedQuery:
    """A query without its syntax.

    Attributes:
        text: The text to search for, with phrases unquoted and exclusions removed.
        phrases: The words of each phrase that must occur.
        excluded: The words of each word or phrase that must not occur.
    """

    text: str
    phrases: tuple[tuple[str, ...], ...] = ()
    excluded: tuple[tuple[str, ...], ...] = ()

    @property
    def has_conditions(self) -> bool:
        """Return whether the query requires or excludes anything."""
        return bool(self.phrases or self.excluded)

    def admits(self, *texts: str) -> bool:
        """Return whether each phrase is in at least one of the texts, and each exclusion in none of them."""
        there = f" {' | '.join(' '.join(_words(text)) for text in texts)} "
        return all(_in(there, each) for each in self.phrases) and not any(_in(there, each) for each in self.excluded)


def parse_query(query: str) -> ParsedQuery:
    """Parse a query; raise TextError if it has only exclusions."""
    phrases: list[tuple[str, ...]] = []
    excluded: list[tuple[str, ...]] = []

    def text_of(match: re.Match[str]) -> str:
        quoted = next((each for each in match.groups()[1:-1] if each is not None), "")
        if match["word"] or match["minus"]:
            excluded.append(_words(match["word"] or quoted))
            return " "
        phrases.append(_words(quoted))
        return f" {quoted} "

    text = _SYNTAX.sub(text_of, query)
    parsed = ParsedQuery(text.strip(), tuple(filter(None, phrases)), tuple(filter(None, excluded)))
    if parsed.excluded and not words(parsed.text):
        raise TextError(f"query {query!r}: has only exclusions; add a word or a phrase to search for")
    return parsed if parsed.has_conditions else ParsedQuery(query)


def _words(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without accents."""
    if text.isascii():
        return tuple(words(text))
    from twinvec.retrieval.analysis import folded, with_characters_apart

    return tuple(map(folded, words(with_characters_apart(normalize("NFKC", text)))))


def _in(text: str, phrase: Iterable[str]) -> bool:
    """Return whether the words of a phrase follow one another in a text, whose words have spaces on both sides."""
    return f" {' '.join(phrase)} " in text
