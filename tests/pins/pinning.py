"""What the pins share: the recorded values, and models whose weights are the same on every machine.

A module ``test_NAME.py`` that records has a function ``values(folder)``: it computes what is pinned, as JSON has it,
and may use ``folder`` for its files. ``record.py`` writes the result to ``recorded/NAME.json``; the tests compare.
"""

from __future__ import annotations

import json
import tarfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

import models

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"
FIXTURES = HERE / "fixtures"


def recorded(name: str) -> Any:
    """The values of ``recorded/NAME.json``."""
    return json.loads((RECORDED / f"{name}.json").read_text(encoding="utf-8"))


def check(name: str, found: dict[str, Any]) -> None:
    """Compare with what was recorded, entry by entry, exactly."""
    expected, found = recorded(name), plain(found)
    changed = {
        key: {"recorded": each, "now": found.get(key)} for key, each in expected.items() if found.get(key) != each
    }
    assert not changed, json.dumps(changed, indent=1, ensure_ascii=False)
    assert found.keys() == expected.keys(), "record what is new: tests/pins/record.py"


def lacking(expected: Any, now: Any, where: str) -> list[str]:
    """What was recorded and is not there, or is something else; what is new passes."""
    if isinstance(expected, dict) and isinstance(now, dict):
        return [text for key in expected for text in lacking(expected[key], now.get(key), f"{where} {key}")]
    return [] if expected == now else [f"{where}: was {expected!r}, is {now!r}"]


def plain(values: Any) -> Any:
    """Values as they come back from a JSON file: tuples become lists, keys become strings."""
    return json.loads(json.dumps(values))


def settle_weights(folder: Path) -> Path:
    """Replace the weights of a model's folder by ones that depend on their names alone.

    ``numpy.random.RandomState`` is frozen: it gives the same numbers in every version of numpy. The generator of torch
    promises less.
    """
    from safetensors.numpy import load_file, save_file

    for path in sorted(folder.rglob("*.safetensors")):
        tensors = load_file(path)
        save_file({name: _settled(name, values) for name, values in tensors.items()}, path, metadata={"format": "pt"})
    return folder


def encoder_folder(folder: Path, kind: str = "bert", **options: Any) -> Path:
    """``models.build`` with settled weights."""
    return settle_weights(models.build(folder, kind, **options))


def smallest_folder(folder: Path) -> Path:
    """The smallest model that all of twinvec takes, 8 numbers a token, for archives."""
    usual, models.HIDDEN = models.HIDDEN, 8
    try:
        encoder_folder(folder)
    finally:
        models.HIDDEN = usual
    return folder


def cross_encoder_folder(folder: Path, kind: str = "bert", **options: Any) -> Path:
    """``models.build_cross_encoder`` with settled weights."""
    return settle_weights(models.build_cross_encoder(folder, kind, **options))


def _settled(name: str, values: np.ndarray) -> np.ndarray:
    if not np.issubdtype(values.dtype, np.floating):
        return values
    key = name.removeprefix("model.")
    noise = np.random.RandomState(zlib.crc32(key.encode())).random_sample(values.shape) - 0.5
    scale = values.ndim == 1 and key.endswith("weight")  # of a layer normalisation
    return (1 + noise / 4 if scale else noise).astype(values.dtype)


def pack(folder: Path, archive: Path) -> None:
    """Store what lies in a folder as a .tar.xz, which takes next to nothing for the holes of sparse files."""
    archive.parent.mkdir(exist_ok=True)
    with tarfile.open(archive, "w:xz") as file:
        for path in sorted(folder.iterdir()):
            file.add(path, path.name)


def unpack(archive: Path, folder: Path) -> Path:
    """The folder, with what ``pack`` stored."""
    with tarfile.open(archive) as file:
        file.extractall(folder, filter="data")
    return folder
