"""Token states, which late interaction compares: what is kept of a chunk beside its vector.

MaxSim looks at the token states of a query and of each candidate (``twinvec.rerankers.maxsim``). A collection that was
made with ``late_interaction`` keeps those of every chunk, in half precision, as a multivector: reranking computes
nothing but the query (``stored_maxsim``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import BadVectorError, ConfigurationError
from twinvec.retrieval.base import SpaceEncoder, TokenEncoder
from twinvec_qdrant.stores.points import States

MAX_NUMBERS = 1024 * 1024
"""Of the token states of one chunk: more a server does not take."""
_TEXTS = 64  # encoded at a time


def token_encoder(encoder: SpaceEncoder) -> TokenEncoder:
    """The encoder, which has to have token states.

    Raises:
        ConfigurationError: it has none.
    """
    if not isinstance(encoder, TokenEncoder):
        raise ConfigurationError(f"{encoder!r} has no token states (encode_tokens), which late interaction compares")
    return encoder


def states_dim(encoder: SpaceEncoder) -> int:
    """The size of a token's state.

    Raises:
        ConfigurationError: the encoder has no token states.
    """
    return int(token_encoder(encoder).encode_tokens(["size"], prompt="document")[0].shape[1])


def token_states(encoder: SpaceEncoder, texts: Sequence[str], dim: int) -> list[States]:
    """What is kept of documents' texts.

    Raises:
        ConfigurationError: the encoder has no token states.
        BadVectorError: they are not finite or of another size, or those of one text are more than a store takes.
    """
    kept = []
    for text, states_TD in _each(token_encoder(encoder), texts):
        if states_TD.ndim != 2 or not len(states_TD) or states_TD.shape[1] != dim or not np.isfinite(states_TD).all():
            raise BadVectorError(
                f"the encoder gave token states of shape {states_TD.shape} for {text[:60]!r}, expected (tokens, {dim}) "
                "and finite"
            )
        if states_TD.size > MAX_NUMBERS:
            raise BadVectorError(
                f"the token states of {text[:60]!r} are {states_TD.size:,} numbers, and {MAX_NUMBERS:,} at most can be "
                "kept: cut shorter chunks (ChunkSettings(max_tokens=...)), or keep no token states"
            )
        kept.append(states_TD.astype(np.float16))
    return kept


def _each(encoder: TokenEncoder, texts: Sequence[str]) -> Iterator[tuple[str, FloatArray]]:
    """Texts with their states, some at a time: those of all chunks of a large document would fill the memory."""
    for start in range(0, len(texts), _TEXTS):
        part = texts[start : start + _TEXTS]
        yield from zip(part, encoder.encode_tokens(part, prompt="document"), strict=True)
