"""The document ids that a query may mean, for the hint that a query names a document.

A query may be an id if it is one word, or ends like a file name ("annual report.pdf"). Ids of documents from a
collection's second and later sources begin with the source's name. Users seldom type this prefix, so it is added. A
word with a digit or a punctuation mark inside may be a file name without its ending: "INV-2024-0042".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from unicodedata import normalize

_LONGEST = 500
_NAME = re.compile(r"\S+|\S.*\.\w{1,8}")
_STEM = re.compile(r"\w(?=.*[\d_.-])[\w./-]*")


def named_ids(query: str, prefixes: Iterable[str], endings: Iterable[str]) -> list[str]:
    """Return the ids that a query may mean, the likeliest first; an empty list for a query that is a sentence.

    Args:
        query: The query.
        prefixes: Prefixes of the ids of documents from later sources: each source's name, with a colon.
        endings: Endings of file names, such as ".pdf".
    """
    name = query.strip()
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        return []
    names = [name, *(f"{name}{ending}" for ending in endings if _STEM.fullmatch(name))]
    ids = [f"{prefix}{each}" for each in names for prefix in ("", *prefixes)]
    return list(dict.fromkeys(form for each in ids for form in _forms(each)))


def other_forms(identity: str) -> set[str]:
    """Return the Unicode normal forms NFC and NFD of an id, without the form that the id has itself."""
    return set(_forms(identity)) - {identity}


def _forms(identity: str) -> Sequence[str]:
    return identity, normalize("NFC", identity), normalize("NFD", identity)
