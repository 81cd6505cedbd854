"""Vectors of the chunks to be written: kept from the committed version, given by the caller, or encoded."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError, InputError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.encoders import checked_vectors, token_states
from twinvec_qdrant.ingest.planned import PlannedDocument, TextVectors, texts
from twinvec_qdrant.records.description import Generation
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import States

OnTexts = Callable[[int], None]
"""Called with the number of texts that have just been encoded."""


@dataclass(slots=True)
class Encoded:
    """The vectors of a batch by text key, the number of encoded texts, and (source, reason) of each failed document."""

    vectors: dict[str, TextVectors]
    encoded: int = 0
    failures: list[tuple[str, str]] = field(default_factory=list)


class ChunkVectors:
    """Finds the vectors of batches; ``given`` holds those of whole documents, by id."""

    def __init__(
        self, backend: Backend, encoder: SpaceEncoder, model: Generation, given: Mapping[str, FloatArray]
    ) -> None:
        self._backend = backend
        self._encoder = encoder
        self._vector = model.vector
        self._states_dim = model.states_dim
        self._given = given

    def known(self, batch: Sequence[PlannedDocument]) -> dict[str, TextVectors]:
        """Return the vectors that need no encoding, by the key of their text."""
        old = [chunk for planned in batch if planned.old for chunk in planned.old.chunks]
        points = self._backend.retrieve(old, ["content"], self._vector).values() if old else ()
        wanted = texts(batch)
        kept = {each.payload["content"]: each for each in points if each.payload["content"] in wanted}
        states: Mapping[str, States] = {}
        if self._states_dim is not None:
            states = self._backend.states([point.id for point in kept.values()], self._vector)
        known = {
            key: TextVectors(point.dense, states.get(point.id))
            for key, point in kept.items()
            if point.dense is not None and (self._states_dim is None or point.id in states)
        }
        for planned in batch:
            if planned.document.id in self._given:
                known.update(dict.fromkeys(planned.keys, TextVectors(self._given[planned.document.id])))
        return known

    def complete(
        self, batch: Sequence[PlannedDocument], known: Mapping[str, TextVectors], on_texts: OnTexts
    ) -> Encoded:
        """Return the vectors of all texts without reading the store; a bad text fails its own documents only."""
        found = Encoded(dict(known))
        try:
            self._encode(texts(batch), found, on_texts)
        except (BadVectorError, InputError):
            for planned in batch:
                try:
                    self._encode(texts([planned]), found, on_texts)
                except (BadVectorError, InputError) as error:
                    found.failures.append((planned.document.id, str(error)))
        return found

    def _encode(self, texts: Mapping[str, str], found: Encoded, on_texts: OnTexts) -> None:
        missing = [key for key in texts if key not in found.vectors]
        if not missing:
            return
        from twinvec.encoder import Encoder

        wanted = [texts[key] for key in missing]
        options: dict[str, Any] = {"on_batch": on_texts} if isinstance(self._encoder, Encoder) else {}
        vectors_ND = checked_vectors(self._encoder, self._encoder.encode_document(wanted, **options), wanted)
        states: Sequence[States | None] = [None] * len(wanted)
        if self._states_dim is not None:
            states = token_states(self._encoder, wanted, self._states_dim)
        found.vectors.update(zip(missing, map(TextVectors, vectors_ND, states), strict=True))
        found.encoded += len(missing)
