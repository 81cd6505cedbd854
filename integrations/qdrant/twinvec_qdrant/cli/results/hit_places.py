"""Where the hits of ``twinvec search`` stand: in which file of this machine, and on which lines or pages of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from twinvec.retrieval.base import body_start, pages_of
from twinvec_qdrant.asking import FoundHit
from twinvec_qdrant.cli.results.hits import ShownHit
from twinvec_qdrant.cli.results.places import Places
from twinvec_qdrant.stored_roots import StoredRoot

RootsOf = Mapping[str, Iterable[StoredRoot]]
"""The roots of collections by name; "" is the only collection that was searched."""


def placed(hits: Iterable[FoundHit], roots: RootsOf, *, full: bool) -> list[ShownHit]:
    """Return hits with their places; ``full`` places the whole text instead of the passage."""
    places = {name: Places(each) for name, each in roots.items()}
    return [_placed(each, places[each.collection], full) for each in hits]


def _placed(found: FoundHit, places: Places, full: bool) -> ShownHit:
    hit = found.hit
    start, end = body_start(hit), len(hit.text)
    if hit.passage is not None and not full:
        start, end = hit.passage.start, hit.passage.end
    lines = places.lines(found.source, hit, start, end)
    return ShownHit(found, places.file(found.source), lines, pages_of(hit, start, end))
