"""Checks that vectors from elsewhere belong to the collection's model, for callers that do not name it.

The vectors of our embedding classes in this process are known (``twinvec.adapters.origins``). Any other vector is
compared with the one that the collection's model gives for the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.adapters.origins import origin_of
from twinvec.arrays import FloatArray, unit
from twinvec.errors import SpaceMismatchError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.encoders import checked_vector, checked_vectors
from twinvec_qdrant.records.description import SAME_VECTOR_COSINE
from twinvec_qdrant.records.recorded_space import RecordedSpace
from twinvec_qdrant.served_model import Vector

_REMEDY = "use one embedding model for the index and the store"


def vector_space(collection: Collection, vector: Vector) -> str | None:
    """Return the space of a vector if it is known, for ``Collection.search_vector``, which compares it.

    Nothing is known in a collection of a foreign encoder: one of ours may lie behind it, under another space.
    """
    origin = origin_of(vector)
    return None if origin is None or isinstance(collection.encoder, (ExternalEncoder, RecordedSpace)) else origin


def query_space(collection: Collection, text: str, vector: Vector) -> str | None:
    """Return the space of a query's vector for ``Collection.search_vector``; None for an unknown vector without a text.

    Raise ``SpaceMismatchError`` if the space is not known, and the vector is not that of the text.
    """
    origin = vector_space(collection, vector)
    if origin is None and text.strip():
        encoder = collection.encoder
        _compare(encoder, [f"query {text[:60]!r}"], [text], encoder.encode_query([text]), [vector])
        return encoder.space
    return origin


def check_vectors(collection: Collection, documents: Sequence[Document], vectors: Mapping[str, Vector]) -> None:
    """Check the given vectors, which are named by the ids of their documents.

    Raise ``SpaceMismatchError`` for a vector of another model, ``BadVectorError`` for one that is zero or not finite.
    """
    encoder = collection.encoder
    unknown = []
    for document in documents:
        if document.id not in vectors:
            continue
        origin = vector_space(collection, vectors[document.id])
        if origin is None and document.text.strip():
            unknown.append(document)
        elif origin not in (None, encoder.space):
            raise SpaceMismatchError(
                f"document {document.id!r}: its vector is of the space {origin:.12}, but the collection's model is "
                f"{encoder.name!r} (space {encoder.space:.12}): {_REMEDY}"
            )
    if unknown:
        names, texts = [f"document {each.id!r}" for each in unknown], [each.text for each in unknown]
        _compare(encoder, names, texts, encoder.encode_document(texts), [vectors[each.id] for each in unknown])


def _compare(
    encoder: SpaceEncoder, names: Sequence[str], texts: Sequence[str], own: FloatArray, given: Sequence[Vector]
) -> None:
    own_ND = unit(checked_vectors(encoder, own, texts, names))
    given_ND = unit(
        np.stack([checked_vector(each, encoder.dim, f"{name}: ") for name, each in zip(names, given, strict=True)])
    )
    cosines = (own_ND * given_ND).sum(axis=1)
    for name, cosine in zip(names, cosines, strict=True):
        if cosine < SAME_VECTOR_COSINE:
            raise SpaceMismatchError(
                f"{name}: its vector is not what the collection's model {encoder.name!r} gives for its text (cosine "
                f"{cosine:.3f}): {_REMEDY}"
            )
