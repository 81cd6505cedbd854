"""The ids that are most similar to an unknown id, for the message that no document has this id.

Most ids are file paths. The whole ids are compared, and the file names alone; the higher of the two similarities
counts. A file with the same name in another folder therefore comes first. An id that contains the unknown id, such as
"rfc9110.txt" for "rfc", is suggested too, after the similar ones. Case is ignored.
"""

from __future__ import annotations

from collections.abc import Iterable

_LEAST = 60.0
"""Smallest similarity, in percent, of an id that is suggested."""

_PART = 3
"""Smallest number of characters of an unknown id for which the ids that contain it are suggested."""


def nearest_ids(source: str, sources: Iterable[str], limit: int) -> list[str]:
    """Return at most ``limit`` ids of ``sources`` that are similar to ``source``, the most similar first."""
    from rapidfuzz import fuzz, process

    there = list(sources)
    asked = source.lower()
    whole = [each.lower() for each in there]
    names = [_name(each) for each in whole]
    by_name = process.cdist([_name(asked)], names, scorer=fuzz.ratio)[0]
    by_id = process.cdist([asked], whole, scorer=fuzz.ratio)[0]
    by_part = [_LEAST if len(asked) >= _PART and asked in each else 0.0 for each in whole]
    ranked = sorted(
        (-max(name, same, part), -same, each)
        for name, same, part, each in zip(by_name.tolist(), by_id.tolist(), by_part, there, strict=True)
        if max(name, same, part) >= _LEAST
    )
    return [each for _, _, each in ranked[:limit]]


def _name(source: str) -> str:
    """Return the file name in an id, without the folders and the source's name before it."""
    return source.replace("\\", "/").rsplit("/", 1)[-1].rsplit(":", 1)[-1]
