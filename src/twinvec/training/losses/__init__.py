"""Losses: the objectives as modules for sentence-transformers' trainers."""

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__,
    dict.fromkeys(
        (
            "ContrastiveLoss",
            "CosineRegressionLoss",
            "EmbeddingLoss",
            "InfoNCELoss",
            "MatryoshkaLoss",
            "PairScoreLoss",
            "SoftmaxLoss",
            "TripletLoss",
            "VectorLoss",
        ),
        "modules",
    ),
)
