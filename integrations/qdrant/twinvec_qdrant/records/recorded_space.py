"""Recognise a collection's model by its vectors if an embedding class of another library is involved.

Such a class has no reliable name for its model, and a hosted model gives slightly different vectors each time. If the
caller's or the collection's encoder is of such a class, the caller's encoder encodes the collection's probes. If the
new vectors agree with the recorded ones, the encoder is used as if it had the space that the collection has recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.arrays import FloatArray, row_cosines
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.records.description import Description

SAME_MODEL_COSINE = 0.9999
"""Smallest cosine of two vectors of a text by one model; noise of 1e-4 in 3,072 components gives .99997."""


class RecordedSpace:
    """An encoder with ``space``, the recorded space of a collection, in place of its own space.

    ``probes`` has the encoder's vectors of the collection's probes, by text.
    """

    def __init__(self, encoder: SpaceEncoder, space: str, probes: dict[str, FloatArray]) -> None:
        self.encoder = encoder
        self.name = encoder.name
        self.space = space
        self.dim = len(next(iter(probes.values())))
        self._probes = probes

    def __getattr__(self, name: str) -> Any:
        return getattr(self.encoder, name)

    def encode_query(self, texts: Sequence[str]) -> FloatArray:
        """Return the vectors of queries."""
        return np.asarray(self.encoder.encode_query(texts), dtype=np.float32)

    def encode_document(self, texts: Sequence[str], **options: Any) -> FloatArray:
        """Return the vectors of documents; the vectors of the probes are not computed again."""
        if texts and all(text in self._probes for text in texts):
            return np.stack([self._probes[text] for text in texts])
        return np.asarray(self.encoder.encode_document(texts, **options), dtype=np.float32)


def in_recorded_space(description: Description, encoder: SpaceEncoder) -> SpaceEncoder:
    """Return the encoder, as a ``RecordedSpace`` if it gives the probes the recorded vectors.

    Only encoders of other libraries are compared, or encoders for a collection that such an encoder has made.
    """
    is_foreign = isinstance(encoder, ExternalEncoder)
    if not is_foreign and (not description.external or encoder.space == description.space):
        return encoder
    texts = [probe.text for probe in description.probes]
    try:
        now_PD = np.asarray(encoder.encode_document(texts), np.float32)
    except (TypeError, ValueError):  # vectors of different sizes: later checks raise the error
        return encoder
    then_PD = np.array([probe.vector for probe in description.probes], dtype=np.float32)
    if now_PD.shape != then_PD.shape:
        return encoder
    if (row_cosines(now_PD, then_PD) < SAME_MODEL_COSINE).any():
        return encoder
    return RecordedSpace(encoder, description.space, dict(zip(texts, now_PD, strict=True)))
