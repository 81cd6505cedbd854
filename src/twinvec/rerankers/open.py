"""Open a reranker by name."""

from __future__ import annotations

from twinvec.encoder import Encoder
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.base import Reranker


def open_reranker(model: str = "maxsim", *, encoder: Encoder | None = None, device: str | None = None) -> Reranker:
    """Open ``"maxsim"``, or the cross-encoder of a folder or hub name; ``device`` and errors are those of ``Encoder``.

    ``encoder`` computes the token states for "maxsim" (default: the default encoder).
    """
    if model == "maxsim":
        return MaxSimReranker(encoder or Encoder(device=device))
    return CrossEncoderReranker(model, device=device)
