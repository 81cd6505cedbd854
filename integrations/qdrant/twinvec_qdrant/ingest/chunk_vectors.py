"""Vectors of the chunks to be written: reused from the committed version, given by the caller, or encoded.

Vectors that a killed ingest wrote and did not commit are reused, too, and those of documents whose files have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from twinvec.arrays import FloatArray
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.encoders import document_vectors, token_states
from twinvec_qdrant.ingest.cutting.chunking import Chunk
from twinvec_qdrant.ingest.moved import MovedChunks
from twinvec_qdrant.ingest.planned import PlannedDocument, TextVectors, WeighedText, distinct
from twinvec_qdrant.records.description import Generation
from twinvec_qdrant.records.schema import chunks_of, stored_key
from twinvec_qdrant.stores.base import Backend
from twinvec_qdrant.stores.points import States


class ChunkVectors:
    """Finds the vectors of chunks; ``given`` holds the caller's vectors of whole documents, by document id."""

    def __init__(
        self, backend: Backend, encoder: SpaceEncoder, model: Generation, given: Mapping[str, FloatArray]
    ) -> None:
        self.left: Collection[str] = ()  # ids of documents that may have chunks of a killed writer
        self.moved: MovedChunks | None = None
        self._backend = backend
        self._encoder = encoder
        self._vector = model.vector
        self._states_dim = model.states_dim
        self._given = given

    def known(self, batch: Sequence[PlannedDocument]) -> dict[str, TextVectors]:
        """Return the vectors that need no encoding, by key: those in the store and those of the caller."""
        known = self._stored(batch)
        given = [planned for planned in batch if planned.document.id in self._given]
        others = distinct(planned for planned in batch if planned.document.id not in self._given)
        for planned in given:
            vectors = TextVectors(self._given[planned.document.id])
            known.update((key, vectors) for key in planned.keys if key not in others)
        return known

    def given_to(self, planned: PlannedDocument, chunks: Mapping[str, WeighedText]) -> Mapping[str, WeighedText]:
        """Return ``chunks``; if the caller gave a vector for the document, return its chunks with this vector."""
        vector_D = self._given.get(planned.document.id)
        if vector_D is None:
            return chunks
        return {key: chunks[key]._replace(vectors=TextVectors(vector_D)) for key in planned.keys if key in chunks}

    def encoded(self, chunks: Sequence[Chunk], on_texts: Callable[[int], None]) -> list[TextVectors]:
        """Encode chunks without reading the store; raise ``BadVectorError`` or ``InputError`` for a bad text.

        ``on_texts`` is called with the number of texts that have just been encoded.
        """
        vectors_ND = document_vectors(self._encoder, [chunk.embedded for chunk in chunks], on_texts=on_texts)
        states = token_states(self._encoder, [chunk.text for chunk in chunks], self._states_dim)
        return list(map(TextVectors, vectors_ND, states))

    def _stored(self, batch: Sequence[PlannedDocument]) -> dict[str, TextVectors]:
        ids = [chunk for planned in batch if planned.old for chunk in planned.old.chunks]
        ids += [chunk for planned in batch if planned.document.id in self.left for chunk in planned.ids]
        if self.moved is not None and (new := [planned for planned in batch if planned.old is None]):
            ids += [chunk for planned in new for key in planned.keys if (chunk := self.moved.ids.get(key))]
        if not ids:
            return {}
        read = self._backend.retrieve(list(dict.fromkeys(ids)), ["kind", "content", "key"], self._vector)
        points = chunks_of(read).values()
        wanted = distinct(batch)
        there = {stored_key(each.payload): each for each in points}
        kept = {key: each for key, each in there.items() if key in wanted}
        states: Mapping[str, States] = {}
        if self._states_dim is not None:
            states = self._backend.states([point.id for point in kept.values()], self._vector)
        return {
            key: TextVectors(point.dense, states.get(point.id))
            for key, point in kept.items()
            if point.dense is not None and (self._states_dim is None or point.id in states)
        }
