"""The ids closest to an unknown one: for the message that there is no document with this id.

Ids are mostly paths of files. An id is as close as the more similar of two pairs: the whole ids, and the names of the
files. A file of the same name in another folder is closer than any other. Case does not matter.
"""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 60.0
"""Similarity, in percent, from which an id is worth naming."""


def nearest_ids(source: str, sources: Iterable[str], limit: int) -> list[str]:
    """Return at most ``limit`` of ``sources`` that are close to ``source``, the closest first."""
    from rapidfuzz import fuzz, process

    there = list(sources)
    asked = source.lower()
    whole = [each.lower() for each in there]
    names = [_name(each) for each in whole]
    by_name = process.cdist([_name(asked)], names, scorer=fuzz.ratio)[0]
    by_id = process.cdist([asked], whole, scorer=fuzz.ratio)[0]
    ranked = sorted(
        (-max(name, same), -same, each)
        for name, same, each in zip(by_name.tolist(), by_id.tolist(), there, strict=True)
        if max(name, same) >= _LEAST
    )
    return [each for _, _, each in ranked[:limit]]


def _name(source: str) -> str:
    """Return the name of a file without the folders and the name of the source before it."""
    return source.replace("\\", "/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
