"""The hash by which training tells equal texts."""

from __future__ import annotations

import unicodedata
from hashlib import blake2b


def normalised(text: str) -> str:
    """A text without regard to case, spacing and Unicode form."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split())


def text_hash(text: str) -> int:
    """Signed 64-bit hash of a text as ``normalised``."""
    return int.from_bytes(blake2b(normalised(text).encode(), digest_size=8).digest(), "big", signed=True)
