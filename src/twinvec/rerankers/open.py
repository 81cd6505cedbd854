"""Open a reranker by name."""

from __future__ import annotations

from twinvec.encoder import Encoder
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.base import Reranker


def open_reranker(model: str = "maxsim", *, encoder: Encoder | None = None, device: str | None = None) -> Reranker:
    """Open a reranker by name.

    Args:
        model: ``"maxsim"``, or the folder or hub name of a cross-encoder.
        encoder: Computes the token states for "maxsim" (default: the default encoder).
        device: As for ``Encoder``.

    Raises:
        ModelError: the model is not found, damaged or not supported.
    """
    if model == "maxsim":
        return MaxSimReranker(encoder or Encoder(device=device))
    return CrossEncoderReranker(model, device=device)
