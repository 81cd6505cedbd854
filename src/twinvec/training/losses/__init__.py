"""Losses: the objectives as modules for sentence-transformers' trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.training.losses.modules import ContrastiveLoss as ContrastiveLoss
    from twinvec.training.losses.modules import CosineRegressionLoss as CosineRegressionLoss
    from twinvec.training.losses.modules import EmbeddingLoss as EmbeddingLoss
    from twinvec.training.losses.modules import InfoNCELoss as InfoNCELoss
    from twinvec.training.losses.modules import MatryoshkaLoss as MatryoshkaLoss
    from twinvec.training.losses.modules import PairScoreLoss as PairScoreLoss
    from twinvec.training.losses.modules import SoftmaxLoss as SoftmaxLoss
    from twinvec.training.losses.modules import TripletLoss as TripletLoss
    from twinvec.training.losses.modules import VectorLoss as VectorLoss

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "ContrastiveLoss": "modules",
        "CosineRegressionLoss": "modules",
        "EmbeddingLoss": "modules",
        "InfoNCELoss": "modules",
        "MatryoshkaLoss": "modules",
        "PairScoreLoss": "modules",
        "SoftmaxLoss": "modules",
        "TripletLoss": "modules",
        "VectorLoss": "modules",
    },
)
