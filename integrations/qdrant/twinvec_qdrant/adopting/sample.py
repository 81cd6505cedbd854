"""Whether a model has given the vectors that a collection stores, seen on a sample of its points.

Frameworks encode documents in their own ways: with a model's prompt for documents or without, a node with its metadata
or without. A vector that the model gives to the text in another of these ways is of another space, and the error says
which.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from twinvec.arrays import FloatArray, unit
from twinvec.errors import SpaceMismatchError
from twinvec.retrieval.base import SpaceEncoder
from twinvec_qdrant.encoders import document_vectors
from twinvec_qdrant.records.description import SAME_VECTOR_COSINE

if TYPE_CHECKING:
    from twinvec.encoder import Encoder

SAMPLE = 32
"""Points that are compared, at most."""

_CLEARLY = 0.002  # by how much another prompt must agree better to be the right one


def check_sample(
    location: str, encoder: SpaceEncoder, stored_ND: FloatArray, ways: Mapping[str, Sequence[str]]
) -> tuple[str, FloatArray]:
    """Return which of the ``ways`` (name -> texts) gives the stored vectors with the encoder, and the cosines.

    Raise ``SpaceMismatchError`` if none does for every point, or if another prompt than the document's agrees better.
    """
    if stored_ND.shape[1] != encoder.dim:
        raise SpaceMismatchError(
            f"{location}: its vectors have {stored_ND.shape[1]} dimensions; {encoder.name!r} gives {encoder.dim}"
        )
    cosines = {way: agreement(stored_ND, document_vectors(encoder, texts)) for way, texts in ways.items()}
    best = max(cosines, key=lambda way: float(cosines[way].mean()))
    prompt, at = _better_prompt(encoder, stored_ND, ways[best], float(cosines[best].mean()))
    if prompt is None and cosines[best].min() >= SAME_VECTOR_COSINE:
        return best, cosines[best]
    raise SpaceMismatchError(_explained(location, encoder, cosines[best], prompt, at))


def agreement(stored_ND: FloatArray, now_ND: FloatArray) -> FloatArray:
    """Return the cosine of each stored vector and the one that the model gives now."""
    found: FloatArray = np.sum(unit(stored_ND) * unit(now_ND), axis=1)
    return found


def _better_prompt(
    encoder: SpaceEncoder, stored_ND: FloatArray, texts: Sequence[str], reached: float
) -> tuple[str | None, float]:
    """Return the text of a prompt that agrees clearly better than the document's, and its mean cosine; else None."""
    from twinvec.encoder import Encoder

    if not isinstance(encoder, Encoder) or not encoder.prompts:
        return None, reached
    prompts = {text: name for name, text in encoder.prompts.items()} | {"": ""}
    prompts.pop(encoder.document_prompt, None)
    means = {text: _mean(encoder, stored_ND, texts, name) for text, name in prompts.items()}
    best = max(means, key=lambda text: means[text], default=None)
    if best is None or means[best] < reached + _CLEARLY:
        return None, reached
    return best, means[best]


def _mean(encoder: Encoder, stored_ND: FloatArray, texts: Sequence[str], prompt: str) -> float:
    now_ND = np.asarray(encoder.encode(list(texts), prompt=prompt), dtype=np.float32)
    return float(agreement(stored_ND, now_ND).mean())


def _explained(location: str, encoder: SpaceEncoder, cosines: FloatArray, prompt: str | None, at: float) -> str:
    same = int((cosines >= SAME_VECTOR_COSINE).sum())
    found = (
        f"{location}: {encoder.name!r} does not give the vectors that are stored: of {len(cosines)} texts, {same} have "
        f"a cosine of at least {SAME_VECTOR_COSINE} (lowest {cosines.min():.4f}, mean {cosines.mean():.4f})"
    )
    if prompt is None:
        return f"{found}. Name the model that filled the collection, in the revision and with the settings of then"
    said = f"with the prompt {prompt!r}" if prompt else "without a prompt"
    return (
        f"{found}; {said} they agree to {at:.4f}. The documents were encoded {said}: adopt with that prompt for "
        f"documents (--document-prompt {prompt!r}, in Python Encoder(model, prompts={{...}}))"
    )
