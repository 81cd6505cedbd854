"""Checks that vectors from a framework belong to the collection's model.

Vectors that twinvec's embedding classes computed in this process are recognised (``twinvec.adapters.origins``). Any
other vector is compared with the vector that the collection's model computes for the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.adapters.origins import origin_of
from twinvec.arrays import FloatArray, row_cosines
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
    """Return the space of a vector, or None if it is unknown; ``Collection.search_vector`` checks the space.

    In a collection with a third party's encoder, the result is None: the encoder may wrap a twinvec encoder under
    another space.
    """
    origin = origin_of(vector)
    return None if origin is None or isinstance(collection.encoder, (ExternalEncoder, RecordedSpace)) else origin


def query_space(collection: Collection, text: str, vector: Vector) -> str | None:
    """Return the space of a query's vector; None if the space is unknown and the query has no text.

    Raise ``SpaceMismatchError`` if the space is unknown, and the model computes another vector for the text.
    """
    origin = vector_space(collection, vector)
    if origin is None and text.strip():
        encoder = collection.encoder
        _compare(encoder, [f"query {text[:60]!r}"], [text], encoder.encode_query([text]), [vector])
        return encoder.space
    return origin


def check_vectors(collection: Collection, documents: Sequence[Document], vectors: Mapping[str, Vector]) -> None:
    """Check the vectors that are given for documents; ``vectors`` maps document ids to vectors.

    Raise ``SpaceMismatchError`` for a vector of another model, ``BadVectorError`` for a zero or non-finite vector.
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
    own_ND = checked_vectors(encoder, own, texts, names)
    given_ND = [checked_vector(each, encoder.dim, f"{name}: ") for name, each in zip(names, given, strict=True)]
    for name, cosine in zip(names, row_cosines(own_ND, np.stack(given_ND)), strict=True):
        if cosine < SAME_VECTOR_COSINE:
            raise SpaceMismatchError(
                f"{name}: its vector differs from the vector that the collection's model {encoder.name!r} computes for "
                f"the text (cosine {cosine:.3f}): {_REMEDY}, or check_vectors=False if the vector is of another text"
            )
