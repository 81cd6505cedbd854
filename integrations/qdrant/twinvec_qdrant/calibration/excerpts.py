"""Excerpts: sentences taken out of their chunks, which serve as queries with a known answer.

A title can be an excerpt too, if its chunk contains it. From text without sentences, an excerpt is a span of words. A
chunk that is too short to lose a part gives no excerpt.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from twinvec_qdrant.records.schema import embedded_text
from twinvec_qdrant.stores.points import Point

_SENTENCE = re.compile(r"[^.!?。！？\n]+[.!?。！？]*")
_WORD = re.compile(r"\S+")
_WORDS = range(4, 41)  # number of words of an excerpt
_SPAN = 10  # words of an excerpt from text without sentences
_LEAST_REST = 8  # least number of words that remain in a chunk without its excerpt
_SEED = 20
_CODE = re.compile(r"[=_{}<>\\]|\w[(\[]|[;:]$")  # operators, identifiers, calls and ends of statements


@dataclass(frozen=True, slots=True)
class Excerpt:
    """A part of a chunk, and the rest of the chunk: the text to embed, and the text for BM25."""

    chunk: str
    text: str
    rest_embedded: str
    rest_text: str

    @property
    def is_code(self) -> bool:
        """Whether the text looks like source code: "else:" or "sort(values)"."""
        return _CODE.search(self.text) is not None


def excerpts(chunks: Iterable[Point], limit: int) -> list[Excerpt]:
    """Return at most ``limit`` excerpts, one for each chunk; the same chunks always give the same excerpts."""
    drawn = random.Random(_SEED)
    found: list[Excerpt] = []
    for point in chunks:
        if len(found) == limit:
            break
        text, embedded = point.payload["text"], embedded_text(point.payload)
        parts = _parts(point.payload, drawn)
        if parts:
            part = drawn.choice(parts)
            rest = text.replace(part, " ", 1)
            if len(rest.split()) >= _LEAST_REST:
                found.append(Excerpt(point.id, part, embedded.replace(part, " ", 1), rest))
    return found


def _parts(payload: Mapping[str, Any], drawn: random.Random) -> list[str]:
    """Return possible excerpts of a chunk: its title, and one of its sentences or a span of words."""
    text = payload["text"]
    title = str(payload.get("title") or "").strip()
    sentences = [each.strip() for each in _SENTENCE.findall(text.removeprefix(title))]
    sentences = [each for each in sentences if len(each.split()) in _WORDS]
    parts = [title] if title and title in text else []
    if len(sentences) > 1:
        return [*parts, drawn.choice(sentences)]
    words = list(_WORD.finditer(text))
    if len(words) < 3 * _SPAN:
        return parts
    first = drawn.randrange(len(words) - _SPAN)
    return [*parts, text[words[first].start() : words[first + _SPAN - 1].end()]]
