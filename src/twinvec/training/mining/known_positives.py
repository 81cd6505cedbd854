"""The known positives of each anchor, from the pairs of a file; memory holds hashes of the pairs.

A text is a known positive of an anchor if it equals the anchor or a positive of the anchor, lies within such a
positive (a chunk), or contains one (a document). Case, spacing and Unicode form are ignored. A short text must match
whole words: "rain" does not match "train".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from twinvec.retrieval.base import Hit, body_start
from twinvec.training.data.text_hash import normalised, text_hash
from twinvec.training.mining.pair_file import PairFile

_WORD = re.compile(r"\w+")
_SEQUENCE = 4  # number of words in a sequence
_LONG = 20  # characters that hardly occur in another text by chance, even in scripts without spaces


class KnownPositives:
    """The known positives of each anchor. Memory holds their hashes; ``of`` reads the texts from ``pairs`` again."""

    def __init__(self, pairs: PairFile | Sequence[tuple[str, str]]) -> None:
        self._pairs = pairs
        self._positives: dict[int, dict[int, int]] = {}
        for index, (anchor, positive) in enumerate(pairs):
            self._positives.setdefault(text_hash(anchor), {}).setdefault(text_hash(positive), index)

    def count(self, anchor: str) -> int:
        """Return the number of positives of an anchor."""
        return len(self._positives.get(text_hash(anchor), ()))

    def of(self, anchor: str) -> Callable[[Sequence[str]], bool]:
        """Return a function that tells whether a hit, given by its ``text_variants``, is a known positive."""
        itself = normalised(anchor)
        rows = self._positives.get(text_hash(anchor), {}).values()
        positives = {text for row in rows if (text := normalised(self._pairs[row][1]))}

        def is_positive(variants: Sequence[str]) -> bool:
            if variants[0] == itself or not positives.isdisjoint(variants):
                return True
            return any(contains_either_way(variants, positive) for positive in positives)

        return is_positive


def text_variants(hit: Hit) -> tuple[str, ...]:
    """Return the normalised text of a hit and, for a chunk under a heading, also the text without the heading."""
    start = body_start(hit)
    return (normalised(hit.text), normalised(hit.text[start:])) if start else (normalised(hit.text),)


def contains_either_way(variants: Sequence[str], positive: str) -> bool:
    """Return whether a text, given by its ``text_variants``, lies within the normalised ``positive`` or contains it."""
    for text in variants:  # a generator would take most of the time
        if (text in positive or positive in text) and (_contains(text, positive) or _contains(positive, text)):
            return True
    return False


def overlaps(variants: Sequence[str], positive: str) -> bool:
    """Return whether a text, given by its ``text_variants``, shares most of its words with the normalised ``positive``.

    At least half of the shorter text's sequences of four words must occur in the other text.
    """
    wanted = _sequences(positive)
    return any(2 * len(wanted & there) >= min(len(wanted), len(there)) > 0 for there in map(_sequences, variants))


def _sequences(text: str) -> set[tuple[str, ...]]:
    words = _WORD.findall(text)
    return {tuple(words[start : start + _SEQUENCE]) for start in range(len(words) - _SEQUENCE + 1)}


def _contains(whole: str, part: str) -> bool:
    if not part or part not in whole:
        return False
    return len(part) >= _LONG or re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole) is not None
