"""Vectors of what is to be written: kept from the version in force, brought along by the caller, or encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from twinvec.arrays import FloatArray, without_direction
from twinvec.errors import BadVectorError, InputError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.encoders import token_states
from twinvec_qdrant.ingest.planned import PlannedDocument, texts
from twinvec_qdrant.records.description import Generation
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import States

OnTexts = Callable[[int], None]
"""Told how many more texts have been encoded."""


class TextVectors(NamedTuple):
    """What a text is found by: its dense vector, and its token states where they are kept."""

    dense: FloatArray
    states: States | None = None


@dataclass(slots=True)
class Encoded:
    """What came of a batch.

    Attributes:
        vectors: By the key of the text.
        encoded: How many texts had to be encoded.
        failures: Source and reason of each document that has a text without a vector.
    """

    vectors: dict[str, TextVectors]
    encoded: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


class Vectors:
    """Finds the vectors of batches.

    Args:
        backend: Where the versions in force are.
        encoder: Of the collection's model; checked.
        model: The one in force.
        given: Vectors of documents that come with theirs, by id; checked. Only where no token states are kept.
    """

    def __init__(
        self, backend: Backend, encoder: SpaceEncoder, model: Generation, given: Mapping[str, FloatArray]
    ) -> None:
        self._backend = backend
        self._encoder = encoder
        self._vector = model.vector
        self._states_dim = model.states_dim
        self._given = given

    def known(self, batch: Sequence[PlannedDocument]) -> dict[str, TextVectors]:
        """Those that need no encoding, by the key of their text."""
        old = [chunk for work in batch if work.old for chunk in work.old.chunks]
        points = self._backend.retrieve(old, ["content"], self._vector).values() if old else ()
        wanted = texts(batch)
        kept = {each.payload["content"]: each for each in points if each.payload["content"] in wanted}
        states: Mapping[str, States] = {}
        if self._states_dim is not None:
            states = self._backend.states([point.id for point in kept.values()], self._vector)
        brought = {
            key: TextVectors(self._given[work.document.id])
            for work in batch
            if work.document.id in self._given
            for key in work.keys
        }
        return {
            key: TextVectors(point.dense, states.get(point.id))
            for key, point in kept.items()
            if point.dense is not None and (self._states_dim is None or point.id in states)
        } | brought

    def complete(
        self, batch: Sequence[PlannedDocument], known: Mapping[str, TextVectors], on_texts: OnTexts
    ) -> Encoded:
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

    def _encode(self, texts: Mapping[str, str], on_texts: OnTexts) -> dict[str, TextVectors]:
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
        if self._states_dim is None:
            return {key: TextVectors(vector_D) for key, vector_D in zip(texts, vectors_ND, strict=True)}
        states = token_states(self._encoder, list(texts.values()), self._states_dim)
        return {key: TextVectors(*each) for key, *each in zip(texts, vectors_ND, states, strict=True)}
