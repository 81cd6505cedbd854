"""Foreign encoders and the space that a collection has recorded: they are compared by vectors.

Nothing names the model of a foreign embedding class, and a hosted model gives slightly different vectors each time. So
where the collection's encoder or the caller's is foreign, the caller's vectors of the collection's probes decide. An
encoder that gives the recorded ones counts as that of the recorded space.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.arrays import FloatArray, unit
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.records.description import Description

SAME_MODEL_COSINE = 0.9999
"""Smallest cosine of two vectors that one model gives a text: noise of 1e-4 in 3,072 components leaves .99997."""


class RecordedSpace:
    """An encoder under the space that a collection has recorded; ``probes`` are its vectors of the probes."""

    def __init__(self, encoder: SpaceEncoder, space: str, probes: dict[str, FloatArray]) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.space = space
        self.dim = len(next(iter(probes.values())))
        self._probes = probes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode_query(self, texts: Sequence[str]) -> FloatArray:
        """Vectors of queries."""
        return np.asarray(self.encoder.encode_query(texts), dtype=np.float32)

    def encode_document(self, texts: Sequence[str], **options: Any) -> FloatArray:
        """Vectors of documents; those of the probes are known."""
        if texts and all(text in self._probes for text in texts):
            return np.stack([self._probes[text] for text in texts])
        return np.asarray(self.encoder.encode_document(texts, **options), dtype=np.float32)


def in_recorded_space(description: Description, encoder: SpaceEncoder) -> SpaceEncoder:
    """Return the encoder: under the recorded space if it or the collection's is foreign, and their vectors agree."""
    is_foreign = isinstance(encoder, ExternalEncoder)
    if not is_foreign and (not description.external or encoder.space == description.space):
        return encoder
    texts = [probe.text for probe in description.probes]
    try:
        now_PD = np.asarray(encoder.encode_document(texts), np.float32)
    except (TypeError, ValueError):  # vectors of several sizes: the checks that follow say so
        return encoder
    then_PD = np.array([probe.vector for probe in description.probes], dtype=np.float32)
    if now_PD.shape != then_PD.shape:
        return encoder
    if (np.sum(unit(now_PD) * unit(then_PD), axis=1) < SAME_MODEL_COSINE).any():
        return encoder
    return RecordedSpace(encoder, description.space, dict(zip(texts, now_PD, strict=True)))
