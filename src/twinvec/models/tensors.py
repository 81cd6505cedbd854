"""The tensors of a model folder by their names in the architecture, as float32 arrays, without torch."""

from __future__ import annotations

import json
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.errors import ModelIntegrityError
from twinvec.models.integrity import loaded_weights

_PREFIX = re.compile(r"^(bert|roberta|xlm_roberta|mpnet|distilbert|model)\.")


class Tensors:
    """The tensors of a folder, open while the ``with`` block runs; ``names`` are without the backbone's prefix."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._open = ExitStack()
        self._found: dict[str, tuple[Path, Any, str]] = {}
        self._kept: dict[str, FloatArray] = {}

    def __enter__(self) -> Self:
        from safetensors import safe_open

        for path in loaded_weights(self._folder):
            file = self._open.enter_context(safe_open(path, framework="np"))
            for stored in file.keys():  # noqa: SIM118 - not a mapping
                name = _PREFIX.sub("", stored).replace(".gamma", ".weight").replace(".beta", ".bias")
                self._found[name] = (path, file, stored)
        return self

    def __exit__(self, *_: object) -> None:
        self._kept.clear()
        self._open.close()

    @property
    def names(self) -> list[str]:
        """The names in order."""
        return sorted(self._found)

    def read(self, name: str) -> FloatArray:
        """Return a tensor as float32; raise ModelIntegrityError if the folder lacks it."""
        if name not in self._found:
            raise ModelIntegrityError(f"{self._folder / 'model.safetensors'}: lacks the tensor {name} of the model")
        path, file, stored = self._found[name]
        if file.get_slice(stored).get_dtype() == "BF16":  # a type that NumPy lacks
            return _read_bfloat16(path, stored)
        return np.ascontiguousarray(file.get_tensor(stored), dtype=np.float32)

    def read_shaped(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return a tensor as ``read`` does; raise ModelIntegrityError, too, if it has another shape."""
        values = self.read(name)
        if values.shape != shape:
            path = self._found[name][0]
            raise ModelIntegrityError(f"{path}: {name} has shape {values.shape}, expected {shape}")
        return values

    def keep(self, name: str, shape: tuple[int, ...]) -> FloatArray:
        """Return a tensor as ``read_shaped`` does, and cache it."""
        if name not in self._kept:
            self._kept[name] = self.read_shaped(name, shape)
        return self._kept[name]


def _read_bfloat16(path: Path, name: str) -> FloatArray:
    """Read one tensor of a safetensors file: the upper halves of float32 numbers."""
    with path.open("rb") as file:
        size = int.from_bytes(file.read(8), "little")
        entry = json.loads(file.read(size))[name]
        start, end = entry["data_offsets"]
        file.seek(8 + size + start)
        halves = np.frombuffer(file.read(end - start), dtype="<u2")
    values: FloatArray = (halves.astype(np.uint32) << 16).view(np.float32).reshape(entry["shape"])
    return values
