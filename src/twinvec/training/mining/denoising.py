"""A cross-encoder that denoises mined negatives: it returns the probability that a text answers a query."""

from __future__ import annotations

from collections.abc import Sequence

from twinvec.arrays import FloatArray
from twinvec.models.cross_encoder_spec import ACTIVATIONS, read_classifier
from twinvec.models.finding import find_model
from twinvec.models.space import classifier_digest
from twinvec.rerankers.cross_encoder import CrossEncoderReranker

_SIGMOID = ACTIVATIONS["torch.nn.Sigmoid"]


class ProbabilityScorer:
    """A ``CrossEncoderReranker`` with the sigmoid of its logits as scores; ``identity`` is a digest of the model."""

    def __init__(self, model: str) -> None:
        spec = read_classifier(find_model(model).path)
        self.identity = classifier_digest(spec)
        self._gives_logits = spec.activate is not _SIGMOID
        self._scorer = CrossEncoderReranker(model)

    def score(self, pairs: Sequence[tuple[str, str]]) -> FloatArray:
        """Return the probabilities of pairs (query, text), in their order: (n,)."""
        scores = self._scorer.score(pairs)
        return _SIGMOID(scores) if self._gives_logits else scores
