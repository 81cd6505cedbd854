"""Which texts a file's pairs judge positive for an anchor.

A text is judged where it is the anchor or a positive of it, lies within such a positive (a chunk of it), or holds
one (a document around it). Case, spacing and Unicode form do not count. A short text within another has to stand there
in words of its own: "rain" lies in "rain, later snow" and not in "train".

Memory holds hashes of the pairs, not their texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from twinvec.retrieval.base import Hit
from twinvec.training.data.text_hash import normalised, text_hash

_LONG = 20  # characters; a text that long is not found in another by chance, in languages without blanks too


class Pairs(Protocol):
    """Pairs (anchor, positive): a list of them, or a ``PairFile``."""

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All of them, in order."""
        ...

    def __getitem__(self, index: int, /) -> tuple[str, str]:
        """One of them."""
        ...


class KnownPositives:
    """What pairs judge positive, for each anchor.

    Args:
        pairs: All there are; their texts are looked up again where an anchor is asked for.
    """

    def __init__(self, pairs: Pairs) -> None:
        self._pairs = pairs
        self._positives: dict[int, dict[int, int]] = {}
        for index, (anchor, positive) in enumerate(pairs):
            self._positives.setdefault(text_hash(anchor), {}).setdefault(text_hash(positive), index)

    def count(self, anchor: str) -> int:
        """How many positives an anchor has."""
        return len(self._positives.get(text_hash(anchor), ()))

    def verdicts(self, anchor: str, hits: Iterable[Sequence[str]]) -> list[bool]:
        """For each hit, by its ``text_variants``, whether it is judged positive for ``anchor``, or is the anchor."""
        itself = normalised(anchor)
        rows = self._positives.get(text_hash(anchor), {}).values()
        positives = [normalised(self._pairs[row][1]) for row in rows]
        return [
            text_variants[0] == itself or any(contains_either_way(text_variants, positive) for positive in positives)
            for text_variants in hits
        ]


def text_variants(hit: Hit) -> tuple[str, ...]:
    """The text of a hit, normalised: as it was found and, of a chunk under a heading, without the heading."""
    heading = hit.payload.get("heading")
    body = hit.text.removeprefix(f"{heading}\n\n") if isinstance(heading, str) and heading else hit.text
    return (normalised(hit.text),) if body == hit.text else (normalised(hit.text), normalised(body))


def contains_either_way(text_variants: Sequence[str], positive: str) -> bool:
    """Whether a text, by its ``text_variants``, is the normalised ``positive``, lies within it, or holds it."""
    return any(_stands_in(positive, reading) or _stands_in(reading, positive) for reading in text_variants)


def _stands_in(part: str, whole: str) -> bool:
    if not part or part not in whole:
        return False
    return len(part) >= _LONG or re.search(rf"(?<!\w){re.escape(part)}(?!\w)", whole) is not None
