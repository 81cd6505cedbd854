"""Vectors of what is to be written: kept from the version in force, brought along by the caller, or encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from twinvec.engines.base import FloatArray
from twinvec.errors import BadVectorError, InputError
from twinvec.vectors import without_direction
from twinvec_qdrant.backends.base import Backend
from twinvec_qdrant.description import SpaceEncoder
from twinvec_qdrant.work import Work, texts

OnTexts = Callable[[int], None]
"""Told how many more texts have been encoded."""


@dataclass(slots=True)
class Encoded:
    """What came of a batch.

    Attributes:
        vectors: By the key of the text.
        encoded: How many texts had to be encoded.
        failures: Source and reason of each document that has a text without a vector.
    """

    vectors: dict[str, FloatArray]
    encoded: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


class Vectors:
    """Finds the vectors of batches.

    Args:
        backend: Where the versions in force are.
        encoder: Of the collection's model; checked.
        vector: Name of the dense vector in force.
        given: Vectors of documents that come with theirs, by id; checked.
    """

    def __init__(self, backend: Backend, encoder: SpaceEncoder, vector: str, given: Mapping[str, FloatArray]) -> None:
        self._backend = backend
        self._encoder = encoder
        self._vector = vector
        self._given = given

    def known(self, batch: Sequence[Work]) -> dict[str, FloatArray]:
        """Those that need no encoding, by the key of their text."""
        old = [chunk for work in batch if work.old for chunk in work.old.chunks]
        points = self._backend.retrieve(old, ["content"], self._vector).values() if old else ()
        kept = {point.payload["content"]: point.dense for point in points if point.dense is not None}
        brought = {
            key: self._given[work.document.id] for work in batch if work.document.id in self._given for key in work.keys
        }
        return kept | brought

    def complete(self, batch: Sequence[Work], known: Mapping[str, FloatArray], on_texts: OnTexts) -> Encoded:
        """The vectors of all texts; the store is not asked. Where some have none, their documents fail and no other."""
        found = Encoded(dict(known))
        missing = {key: text for key, text in texts(batch).items() if key not in known}
        try:
            found.vectors |= self._encode(missing, on_texts)
            found.encoded = len(missing)
        except (BadVectorError, InputError):
            for work in batch:
                missing = {key: text for key, text in texts([work]).items() if key not in found.vectors}
                try:
                    found.vectors |= self._encode(missing, on_texts)
                    found.encoded += len(missing)
                except (BadVectorError, InputError) as error:
                    found.failures.append((work.document.id, str(error)))
        return found

    def _encode(self, texts: Mapping[str, str], on_texts: OnTexts) -> dict[str, FloatArray]:
        if not texts:
            return {}
        from twinvec.encoder import Encoder

        options = {"on_batch": on_texts} if isinstance(self._encoder, Encoder) else {}
        vectors_ND = np.asarray(self._encoder.encode_document(list(texts.values()), **options), dtype=np.float32)
        if vectors_ND.shape != (len(texts), self._encoder.dim):
            raise BadVectorError(
                f"the encoder gave vectors of shape {vectors_ND.shape}, expected {(len(texts), self._encoder.dim)}"
            )
        bad = without_direction(vectors_ND)
        if bad.size:
            text = list(texts.values())[int(bad[0])]
            raise BadVectorError(f"the encoder gave a vector that is zero or not finite for {text[:60]!r}")
        return dict(zip(texts, vectors_ND, strict=True))
