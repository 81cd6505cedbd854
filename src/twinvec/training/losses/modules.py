"""The objectives as modules that sentence-transformers' trainers can use; the formulas are in ``objectives``.

A batch is a list of feature dicts, one for each column: anchors, positives and any hard negatives, or the two sides of
labelled pairs. A dict may have ``text_hash``, (rows,) int64, for the mask of ``info_nce``.
Shapes: B rows, N candidates, M texts of all columns, D dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from twinvec.engines.torch import quick_attention
from twinvec.errors import ConfigurationError
from twinvec.training import objectives
from twinvec.training.data.truncation import TruncationNotice
from twinvec.training.losses.distributed import average, gather, share_of_batch, world_size
from twinvec.training.losses.gradient_cache import embed_in_two_passes
from twinvec.training.losses.negatives_mask import PairTexts
from twinvec.training.losses.tiled_info_nce import InfoNCESettings, tiled_info_nce
from twinvec.training.objectives import Distance, Similarity

_ON_CPU = (1024, 6144)  # token budget, kept tokens; a CPU is fastest while a chunk fits in its cache
_ELSEWHERE = (16384, 16384)
_GPU_TOKENS = 65536  # token budget of a large GPU; with smaller chunks, it would wait for Python
_KEPT_BYTES = 16  # estimate: bytes of activations for each token and output of a linear layer


class VectorLoss(nn.Module):
    """An objective with its settings. With ``whole_batch``, the objective needs the rows of all processes."""

    whole_batch = False

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        """Return the loss; ``vectors`` has a tensor (rows, D) for each column."""
        raise NotImplementedError


class InfoNCELoss(VectorLoss):
    """``info_nce``, computed in tiles. Columns after the second hold hard negatives, which count for all anchors."""

    whole_batch = True

    def __init__(self, settings: InfoNCESettings | None = None) -> None:
        super().__init__()
        self.settings = settings or InfoNCESettings()

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        texts = PairTexts(hashes[0], torch.cat(hashes[1:])) if hashes else None
        return tiled_info_nce(vectors[0], torch.cat(vectors[1:]), self.settings, texts=texts)


class ContrastiveLoss(VectorLoss):
    """``objectives.contrastive``, or its online variant, over labelled pairs."""

    def __init__(self, distance: Distance = "cosine", margin: float = 0.5, online: bool = False) -> None:
        super().__init__()
        self.distance: Distance = distance
        self.margin = margin
        self.online = online
        self.whole_batch = online  # the online loss needs the whole batch to decide which pairs are hard

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        objective = objectives.online_contrastive if self.online else objectives.contrastive
        return objective(*_pair(vectors), _required(labels), distance=self.distance, margin=self.margin)


class TripletLoss(VectorLoss):
    """``objectives.triplet`` over three columns with the same number of rows."""

    def __init__(self, distance: Distance = "euclidean", margin: float = 1.0) -> None:
        super().__init__()
        self.distance: Distance = distance
        self.margin = margin

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        if len(vectors) != 3:
            raise ConfigurationError(f"triplet: expected 3 columns (anchors, positives, negatives), got {len(vectors)}")
        return objectives.triplet(*vectors, distance=self.distance, margin=self.margin)


class CosineRegressionLoss(VectorLoss):
    """``objectives.cosine_regression`` over scored pairs."""

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        return objectives.cosine_regression(*_pair(vectors), _required(labels))


class MarginMSELoss(VectorLoss):
    """``objectives.margin_mse`` over anchors, positives and negatives, of which an anchor may have several.

    ``labels`` has a row for each negative: the row of its anchor, and the teacher's margin.
    """

    def __init__(self, similarity: Similarity = "cosine", scale: float = 1.0) -> None:
        super().__init__()
        self.similarity: Similarity = similarity
        self.scale = scale

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        if len(vectors) != 3:
            raise ConfigurationError(
                f"margin_mse: expected 3 columns (anchors, positives, negatives), got {len(vectors)}"
            )
        anchors, positives, negatives = vectors
        owners, margins = _required(labels).unbind(dim=-1)
        owners = owners.long()
        return objectives.margin_mse(
            anchors[owners], positives[owners], negatives, margins, similarity=self.similarity, scale=self.scale
        )


class SoftmaxLoss(VectorLoss):
    """``objectives.softmax_classification`` with its linear layer; ``labels[k]`` is the name of class k."""

    def __init__(self, dim: int, labels: Sequence[str], concatenation: str = "u,v,|u-v|") -> None:
        super().__init__()
        self.labels = list(labels)
        self.concatenation = concatenation
        self.classifier = nn.Linear(dim * len(objectives.concatenation_parts(concatenation)), len(self.labels))

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        features = objectives.pair_features(*_pair(vectors), self.concatenation)
        head = self.classifier
        return objectives.softmax_classification(features, _required(labels), head.weight, head.bias)


class MatryoshkaLoss(VectorLoss):
    """The sum of a loss over several numbers of leading dimensions (Kusupati et al. 2022, equation 1).

    With ``normalizes``, truncated vectors are normalised again, as in an ``Encoder`` of a model that normalises.
    """

    def __init__(self, loss: VectorLoss, dims: Sequence[int], *, normalizes: bool = False) -> None:
        super().__init__()
        self.loss = loss
        self.dims = sorted(dims, reverse=True)
        self.normalizes = normalizes
        self.whole_batch = loss.whole_batch

    def forward(self, vectors: list[Tensor], labels: Tensor | None, hashes: list[Tensor] | None) -> Tensor:
        parts = ([truncated(column, dim, self.normalizes) for column in vectors] for dim in self.dims)
        return torch.stack([self.loss(part, labels, hashes) for part in parts]).sum()


class EmbeddingLoss(nn.Module):
    """The loss of a model for batches of any size.

    Args:
        model: A SentenceTransformer, or a wrapper of one.
        loss: The objective.
        token_budget: Padded tokens that go through the model at a time. Default: 1,024 on a CPU, up to 65,536 on CUDA,
            16,384 elsewhere.
        kept_tokens: Padded tokens whose activations are held for the backward pass; other tokens are computed twice.
            A smaller number saves memory, a larger one time. Default: 6,144 on a CPU, on CUDA as many as half of the
            memory is estimated to hold, 16,384 elsewhere.
        truncate: Function from the model's vectors to the vectors that the model serves. Default: no change.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: VectorLoss,
        *,
        token_budget: int | None = None,
        kept_tokens: int | None = None,
        truncate: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        super().__init__()
        self.model = model
        self.loss = loss
        self.token_budget = token_budget
        self.kept_tokens = kept_tokens
        self.truncate = truncate
        for parameter in loss.parameters():  # DistributedDataParallel averages the parameters of the model only
            parameter.register_hook(average)  # type: ignore[no-untyped-call]

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        columns = [dict(features) for features in sentence_features]
        hashes = [column.pop("text_hash") for column in columns if "text_hash" in column]
        rows = [len(column["input_ids"]) for column in columns]
        gathered = self.loss.whole_batch and world_size() > 1 and torch.is_grad_enabled()

        def objective(vectors_MD: Tensor) -> Tensor:
            served_MD = vectors_MD if self.truncate is None else self.truncate(vectors_MD)
            vectors = list(torch.split(served_MD, rows))
            if not gathered:
                loss: Tensor = self.loss(vectors, labels, hashes or None)
                counted = rows[0] if labels is None else len(labels)
                return loss if self.loss.whole_batch else loss * share_of_batch(counted, loss.device)
            all_labels = None if labels is None else gather(labels)
            whole: Tensor = self.loss(list(map(gather, vectors)), all_labels, list(map(gather, hashes)) or None)
            # each process has its own part of the gradient, and the parts are averaged: multiply by their number
            return whole + (whole - whole.detach()) * (world_size() - 1)

        budget, kept = _chunk_tokens(self.model, columns[0]["input_ids"].device)
        return embed_in_two_passes(
            self.model,
            columns,
            objective,
            token_budget=budget if self.token_budget is None else self.token_budget,
            kept_tokens=kept if self.kept_tokens is None else self.kept_tokens,
        )


def _chunk_tokens(model: nn.Module, device: torch.device) -> tuple[int, int]:
    """Return the default token budget and number of kept tokens for a device."""
    if device.type != "cuda":
        return _ON_CPU if device.type == "cpu" else _ELSEWHERE
    outputs = sum(module.out_features for module in model.modules() if isinstance(module, nn.Linear))
    memory: int = torch.cuda.get_device_properties(device).total_memory
    kept = memory // 2 // (_KEPT_BYTES * max(outputs, 1))
    return min(_GPU_TOKENS, max(kept, 1)), kept


class PairScoreLoss(nn.Module):
    """Binary cross-entropy of a cross-encoder's scores; each process is weighted by its number of rows.

    sentence-transformers' own loss wraps the features in a class that DistributedDataParallel does not look into.
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model: Any = model
        self._notice = TruncationNotice(model)

    def forward(self, inputs: Sequence[Sequence[str]], labels: Tensor, **reading: str | None) -> Tensor:
        """Return the loss over two columns of texts and labels from 0 to 1; ``reading`` is passed to ``preprocess``."""
        pairs: list[tuple[str, str]] = list(zip(*inputs, strict=True))
        features = self.model.preprocess(pairs, **reading)
        self._notice.warn_if_truncated(pairs, features, "")
        moved = {
            name: value.to(labels.device) if isinstance(value, Tensor) else value for name, value in features.items()
        }
        with quick_attention(labels.device):
            scores_B = self.model(moved)["scores"].view(-1)
        loss = functional.binary_cross_entropy_with_logits(scores_B, labels.float())
        return loss * share_of_batch(len(labels), loss.device)


def truncated(vectors_MD: Tensor, dim: int, normalizes: bool) -> Tensor:
    """Return the first ``dim`` dimensions, as a model serves them: normalised again if it ``normalizes`` vectors."""
    leading = vectors_MD[:, :dim]
    return functional.normalize(leading, dim=-1) if normalizes else leading


def _pair(vectors: list[Tensor]) -> tuple[Tensor, Tensor]:
    if len(vectors) != 2:
        raise ConfigurationError(f"this objective needs 2 columns of texts, got {len(vectors)}")
    return vectors[0], vectors[1]


def _required(labels: Tensor | None) -> Tensor:
    if labels is None:
        raise ConfigurationError("this objective needs a label or a score in every row")
    return labels
