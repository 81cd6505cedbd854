"""Open a reranker by name."""

from __future__ import annotations

import os

from twinvec.encoder import Encoder
from twinvec.errors import ModelNotFoundError
from twinvec.rerankers.cross_encoder import CrossEncoderReranker
from twinvec.rerankers.maxsim import MaxSimReranker
from twinvec.retrieval.base import Reranker
from twinvec.support.checks import shown


def open_reranker(model: str = "maxsim", *, encoder: Encoder | None = None, device: str | None = None) -> Reranker:
    """Open ``"maxsim"``, or the cross-encoder of a folder or hub name; ``device`` and errors are those of ``Encoder``.

    ``encoder`` computes the token states for "maxsim" (default: the default encoder).
    """
    if model == "maxsim":
        return MaxSimReranker(encoder or Encoder(device=device))
    if isinstance(model, str) and "/" not in model and model.strip() and not os.path.exists(model):
        raise ModelNotFoundError(
            f"no reranker {shown(model)}: expected 'maxsim', or a cross-encoder: a folder or a name on the hub, "
            "such as 'cross-encoder/ms-marco-MiniLM-L6-v2'"
        )
    return CrossEncoderReranker(model, device=device)
