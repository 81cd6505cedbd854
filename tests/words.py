"""A small exact encoder for tests of stores: hashed words. It starts at once, so that processes can be many.

Texts that share words are near each other; every text has a vector that is not zero.
"""

from __future__ import annotations

import zlib

import numpy as np


class WordEncoder:
    """A vector of hashed word counts; ``seed`` stands for the weights of a model."""

    def __init__(self, seed: int = 0, dim: int = 64) -> None:
        self.name = f"words-{seed}"
        self.space = f"words-{seed}-{dim}"
        self.dim = dim
        self.encoded: list[str] = []

    def encode_document(self, texts):
        self.encoded.extend(texts)
        return self._vectors(texts)

    def encode_query(self, texts):
        return self._vectors(texts)

    def _vectors(self, texts):
        vectors = np.full((len(texts), self.dim), 0.01, dtype=np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                code = zlib.crc32(f"{self.name}{word}".encode("utf-8", "replace"))
                vectors[row, code % self.dim] += 1 if code & 1024 else -1
        return vectors
