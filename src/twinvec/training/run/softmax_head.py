"""The softmax head over two sentence embeddings (SBERT, Reimers and Gurevych 2019, section 3)."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError, ModelIntegrityError
from twinvec.models.integrity import MANIFEST, check_hash, manifest_hashes, read_object
from twinvec.training.losses import modules as losses
from twinvec.training.objectives import pair_features

_HEAD = "softmax_head"


def save_head(loss: nn.Module, folder: Path) -> None:
    """Write the softmax head next to the model, if the loss has one."""
    if isinstance(loss, losses.SoftmaxLoss):
        tensors = {f"classifier.{name}": value.contiguous() for name, value in loss.classifier.state_dict().items()}
        save_file(tensors, folder / f"{_HEAD}.safetensors")
        (folder / f"{_HEAD}.json").write_text(
            json.dumps({"labels": loss.labels, "concatenation": loss.concatenation}, indent=2) + "\n"
        )


class PairClassifier:
    """Labels pairs of texts with the softmax head that was trained with a model.

    Raises:
        ModelIntegrityError: the folder has no head, or the head is damaged or does not fit the encoder.
    """

    def __init__(self, encoder: Encoder, folder: str | Path) -> None:
        folder = Path(folder)
        described_at, weights = (folder / f"{_HEAD}.{suffix}" for suffix in ("json", "safetensors"))
        described = read_object(described_at)
        labels, concatenation = described.get("labels"), described.get("concatenation")
        if not isinstance(labels, list) or not isinstance(concatenation, str):
            raise ModelIntegrityError(f"{described_at}: expected 'labels' and a 'concatenation'")
        self.labels: list[str] = labels
        self._encoder = encoder
        recorded = manifest_hashes(folder).get(weights.name)
        if recorded is not None and weights.is_file():
            check_hash(weights, recorded, f"{folder / MANIFEST} records")
        try:
            self._head = losses.SoftmaxLoss(encoder.dim, labels, concatenation)
            self._head.load_state_dict(load_file(weights))
        except (ConfigurationError, OSError, RuntimeError, SafetensorError) as error:
            raise ModelIntegrityError(f"{weights}: {error}") from error

    def label(self, pairs: list[tuple[str, str]]) -> list[str]:
        """Return the most probable label of each pair."""
        u_BD, v_BD = (torch.from_numpy(self._encoder.encode([pair[side] for pair in pairs])) for side in (0, 1))
        with torch.inference_mode():
            scores_BK: Tensor = self._head.classifier(pair_features(u_BD, v_BD, self._head.concatenation))
        return [self.labels[index] for index in scores_BK.argmax(1).tolist()]
