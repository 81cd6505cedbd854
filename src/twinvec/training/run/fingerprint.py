"""What makes two runs the same run: their settings, their data and the model that they start from."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from twinvec.training.run.config import TrainConfig

_MODEL_FILES = {".safetensors", ".json", ".txt", ".model"}


def fingerprint(config: TrainConfig) -> str:
    """A digest of the settings and of what the files of data and model hold, wherever they are."""
    places: Any = {"model": True, "data": {"__all__": {"path"}}, "evaluation": {"pairs", "sts"}}
    digest = hashlib.sha256(config.model_dump_json(exclude=places).encode())
    files = {f"data {number}": source.path for number, source in enumerate(config.data)}
    if config.evaluation is not None:
        named = {"pairs": config.evaluation.pairs, "sts": config.evaluation.sts}
        files |= {name: path for name, path in named.items() if path is not None}
    model = Path(config.model)
    if model.is_dir():
        files |= {
            str(path.relative_to(model)): path for path in sorted(model.rglob("*")) if path.suffix in _MODEL_FILES
        }
    else:
        digest.update(config.model.encode())
    for name, path in files.items():
        with path.open("rb") as file:
            digest.update(name.encode() + hashlib.file_digest(file, "sha256").digest())
    return digest.hexdigest()
