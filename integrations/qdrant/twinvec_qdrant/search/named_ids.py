"""A query that may name a document -> the ids that it may mean: for the hint that a document has this id.

A name is one word, or ends like a file ("annual report.pdf"). The ids of later sources begin with the source's name,
which is seldom typed. A word with a digit or a sign inside may be a file's name without its ending: "INV-2024-0042".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

_LONGEST = 500
_NAME = re.compile(r"\S+|\S.*\.\w{1,8}")
_STEM = re.compile(r"\w(?=.*[\d_.-])[\w./-]*")


def named_ids(query: str, prefixes: Iterable[str], endings: Iterable[str]) -> list[str]:
    """Return the ids that a query may mean, the likeliest first; none for a query that is a sentence.

    Args:
        query: The query.
        prefixes: What the ids of later sources begin with.
        endings: How the names of files end.
    """
    name = query.strip()
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        return []
    names = [name, *(f"{name}{ending}" for ending in endings if _STEM.fullmatch(name))]
    ids = [f"{prefix}{each}" for each in names for prefix in ("", *prefixes)]
    return list(dict.fromkeys(form for each in ids for form in _forms(each)))


def other_forms(identity: str) -> set[str]:
    """Return an id with each accented letter as one character (NFC), and as a letter and a mark (NFD), if others."""
    return set(_forms(identity)) - {identity}


def _forms(identity: str) -> Sequence[str]:
    return identity, normalize("NFC", identity), normalize("NFD", identity)
