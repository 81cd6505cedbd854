"""The hash of texts: training treats texts with the same hash as equal."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b


def normalised(text: str) -> str:
    """Return a text with case, spacing and Unicode form made uniform."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def text_hash(text: str) -> int:
    """Return a signed 64-bit hash of the ``normalised`` form of a text."""
    return int.from_bytes(blake2b(normalised(text).encode(), digest_size=8).digest(), "big", signed=True)
