"""A small exact encoder for tests of stores: hashed words. It starts at once, so that processes can be many.

Texts that share words are near each other; every text has a vector that is not zero.
"""

from __future__ import annotations

import random
import zlib
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from twinvec.tokens.tokenizer import TextTokenizer

_WORDS = "the quick brown fox jumps over a lazy dog while two men on the moon compare files Größe 日本語 384,400"
WORDS = _WORDS.split()


def sentences(count: int, seed: int, longest: int = 40) -> list[str]:
    """Texts of 2 to ``longest`` words at random."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=rng.randint(2, longest))) for _ in range(count)]


class WordEncoder:
    """A vector of hashed word counts.

    Args:
        seed: Stands for the weights of a model.
        dim: Size of the vectors.
        max_tokens: Words that it reads of a text; None for an encoder without a tokenizer, which cannot cut documents.
    """

    def __init__(self, seed: int = 0, dim: int = 64, max_tokens: int | None = None) -> None:
        self.name = f"words-{seed}"
        self.space = f"words-{seed}-{dim}"
        self.dim = dim
        self.tokenizer = None if max_tokens is None else _word_tokenizer(max_tokens)
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


class StateEncoder(WordEncoder):
    """The same with token states: one a word, and one at the end.

    Args:
        states_dim: Size of a state.
        **options: Those of ``WordEncoder``.
    """

    def __init__(self, states_dim: int = 24, **options: Any) -> None:
        super().__init__(**options)
        self.states_dim = states_dim
        self.states_of: list[str] = []

    def encode_tokens(self, texts, *, prompt, on_batch=None):
        if prompt == "document":
            self.states_of.extend(texts)
        found = []
        for text in texts:
            seeds = [zlib.crc32(f"{self.name}{word}".encode()) for word in [*text.lower().split(), "."]]
            states = np.stack([np.random.default_rng(seed).normal(size=self.states_dim) for seed in seeds])
            found.append((states / np.linalg.norm(states, axis=1, keepdims=True)).astype(np.float32))
        return found


@cache
def _word_tokenizer(max_tokens: int) -> TextTokenizer:
    from tokenizers import Tokenizer, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    with TemporaryDirectory() as folder:
        tokenizer.save(str(Path(folder) / "tokenizer.json"))
        Path(folder, "config.json").write_text('{"pad_token_id": 0}')
        return TextTokenizer(Path(folder), max_tokens)
