"""Get vectors and token states from a collection's encoder, and check them.

Late interaction compares token states (``twinvec.rerankers.maxsim``). A collection with ``late_interaction`` stores the
token states of every chunk in half precision, so that a reranker encodes only the query (``search/maxsim``).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.arrays import FloatArray, without_direction
from twinvec.errors import BadVectorError, ConfigurationError
from twinvec.retrieval.base import SpaceEncoder, TokenEncoder, as_vectors
from twinvec.support.checks import check_methods, integer, string
from twinvec.tokens.tokenizer import TextTokenizer, is_mostly_unknown
from twinvec_qdrant.stores.points import States, pages

MAX_NUMBERS = 1024 * 1024 - 1
"""Largest count of numbers in the token states of one chunk: a server refuses more."""

_TEXTS = 64  # texts encoded at once; the token states of all chunks of a large document could fill the memory


def check_encoder(encoder: Any, expected: str) -> None:
    """Raise ConfigurationError, which says what was ``expected``, unless a value is a ``SpaceEncoder``."""
    check_methods(encoder, ("encode_query", "encode_document"), "encoder", expected)
    if isinstance(encoder, ExternalEncoder):
        return  # it computes dim and space from vectors, and only when they are needed
    for attribute in ("name", "dim", "space"):
        if not hasattr(encoder, attribute):
            raise ConfigurationError(
                f"encoder: {encoder!r} has no {attribute}; a collection needs an encoder with name (that of its "
                "model), dim (the size of its vectors) and space (a text that changes when the vectors change)"
            )
    string(encoder.name, "name of the encoder")
    integer(encoder.dim, "dim of the encoder", least=1)
    string(encoder.space, "space of the encoder")


def document_vectors(
    encoder: SpaceEncoder,
    texts: Sequence[str],
    names: Sequence[str] | None = None,
    on_texts: Callable[[int], None] | None = None,
) -> FloatArray:
    """Return the vectors of documents, shape (n, dim); raise ``BadVectorError`` if one is zero or not finite.

    A ``twinvec.Encoder`` calls ``on_texts`` with the number of texts that it has just encoded.
    """
    from twinvec.encoder import Encoder

    options: dict[str, Any] = {"on_batch": on_texts} if isinstance(encoder, Encoder) else {}
    return checked_vectors(encoder, encoder.encode_document(list(texts), **options), texts, names)


def checked_vectors(
    encoder: SpaceEncoder, vectors: Any, texts: Sequence[str], names: Sequence[str] | None = None
) -> FloatArray:
    """Check an encoder's vectors as ``document_vectors`` does, and return them; errors quote ``names`` or texts."""
    vectors_ND = as_vectors(vectors, f"encoder {encoder.name!r}")
    if vectors_ND.shape != (len(texts), encoder.dim):
        raise BadVectorError(
            f"encoder {encoder.name!r}: vectors of shape {vectors_ND.shape}, expected {(len(texts), encoder.dim)}"
        )
    bad = without_direction(vectors_ND)
    if bad.size:
        index = int(bad[0])
        name = names[index] if names else repr(texts[index][:60])
        raise BadVectorError(f"encoder {encoder.name!r}: the vector of {name} is zero or not finite")
    return vectors_ND


def checked_vector(vector: Sequence[float] | FloatArray, dim: int, where: str = "") -> FloatArray:
    """Return a caller's vector, shape (dim,); raise ``BadVectorError`` if it is zero, not finite or of another size."""
    try:
        vector_D = np.asarray(vector, dtype=np.float32)
    except (TypeError, ValueError, OverflowError) as error:
        raise BadVectorError(f"{where}expected {dim} numbers: {error}") from None
    square = float(vector_D @ vector_D) if vector_D.shape == (dim,) else 0.0
    if not 0 < square < math.inf:
        norm = np.linalg.norm(vector_D)
        raise BadVectorError(
            f"{where}a vector of shape {vector_D.shape} and length {norm:g}; expected ({dim},), finite and not zero"
        )
    return vector_D


def truncated(encoder: object, texts: Sequence[str]) -> list[bool]:
    """Return which documents the encoder truncates; none for an encoder without a tokenizer."""
    return [each.truncated for each in as_read(encoder, texts)]


class AsRead(NamedTuple):
    """Whether a model truncates a text, and whether the model knows few of the text's words.

    A model does not know a word if its vocabulary has only the word's letters, or not even these. The vector of a text
    with mostly unknown words says little about the text's meaning.
    """

    truncated: bool
    unknown: bool


def as_read(encoder: object, texts: Sequence[str]) -> list[AsRead]:
    """Return how the encoder reads each document; without a tokenizer, nothing counts as truncated or unknown."""
    tokenizer = getattr(encoder, "tokenizer", None)
    if not isinstance(tokenizer, TextTokenizer):
        return [AsRead(False, False)] * len(texts)
    prompt: str = getattr(encoder, "document_prompt", "")
    counts = zip(texts, tokenizer.count_unknown([prompt + text for text in texts]).tolist(), strict=True)
    return [AsRead(count > tokenizer.max_tokens, is_mostly_unknown(text, unknown)) for text, (count, unknown) in counts]


def token_encoder(encoder: SpaceEncoder) -> TokenEncoder:
    """Return the encoder as a ``TokenEncoder``; raise ``ConfigurationError`` if it gives no token states."""
    if not isinstance(encoder, TokenEncoder):
        raise ConfigurationError(f"{encoder!r} gives no token states, which late interaction needs (encode_tokens)")
    return encoder


def states_dim(encoder: SpaceEncoder) -> int:
    """Return the number of dimensions of a token state; errors are those of ``token_encoder``."""
    return int(token_encoder(encoder).encode_tokens(["size"], prompt="document")[0].shape[1])


def token_states(encoder: SpaceEncoder, texts: Sequence[str], dim: int | None) -> Sequence[States | None]:
    """Return the token states of documents in half precision; None for each document if ``dim`` is None.

    Raise ``BadVectorError`` if a store cannot hold the token states.
    """
    if dim is None:
        return [None] * len(texts)
    states = []
    tokens = token_encoder(encoder)
    for page in pages(texts, _TEXTS):
        for text, states_TD in zip(page, tokens.encode_tokens(page, prompt="document"), strict=True):
            if states_TD.ndim != 2 or not len(states_TD) or states_TD.shape[1] != dim:
                raise BadVectorError(
                    f"the encoder gave token states of shape {states_TD.shape} for {text[:60]!r}, expected "
                    f"(tokens, {dim})"
                )
            if not np.isfinite(states_TD).all():
                raise BadVectorError(
                    f"the token states of {text[:60]!r} hold NaN or infinite numbers, expected finite numbers"
                )
            if states_TD.size > MAX_NUMBERS:
                raise BadVectorError(
                    f"the token states of {text[:60]!r} are {states_TD.size:,} numbers; a store takes at most "
                    f"{MAX_NUMBERS:,}: cut shorter chunks (ChunkSettings(max_tokens=...)), or keep no token states"
                )
            states.append(states_TD.astype(np.float16))
    return states
