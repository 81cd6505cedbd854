"""What ``twinvec export`` added to a model's folder, as its ``twinvec.json`` lists it.

An entry says for which network it was made, by its digest: one that was made of other weights than lie beside it is
refused. That the files themselves are unchanged is checked with the weights, by ``models.verify_folder``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.engines.runtimes import files_of
from twinvec.errors import ModelIntegrityError
from twinvec.models.integrity import MANIFEST, optional_json, safe_relative
from twinvec.storage import Ranges

EXPORTS = "exports"
RANGES = "ranges"


@dataclass(frozen=True, slots=True)
class Export:
    """One graph of a model's folder.

    Attributes:
        path: The graph: .onnx, or .xml with its .bin beside it.
        precision: "float32" or "int8".
        passed: Whether it came near enough to the float32 original to be used unasked.
        weight_bits: How many bits the weights of an int8 graph use; 8 saturate on some processors.
    """

    path: Path
    precision: str
    passed: bool
    weight_bits: int


def export_key(engine: str, precision: str) -> str:
    """The name of an entry."""
    return f"{engine}-{precision}"


def read_exports(root: Path) -> dict[str, dict[str, Any]]:
    """What the manifest of a model's folder says of its exports, by ``export_key``; empty without a manifest.

    Raises:
        ModelIntegrityError: an entry is malformed, or its file is missing or outside the folder.
    """
    manifest = root / MANIFEST
    exports = _table(manifest, EXPORTS)
    for key, entry in exports.items():
        if not isinstance(entry, dict) or not isinstance(entry.get("quality"), dict) or "passed" not in entry:
            raise ModelIntegrityError(f"{manifest}: the entry of the export {key!r} is malformed")
        path = root / safe_relative(entry.get("graph"), manifest)
        if not path.is_file():
            raise ModelIntegrityError(f"{path}: missing, though {manifest} names it")
    return exports


def graph_files(root: Path, exports: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """The files of exports: one or two for each graph."""
    return [path for entry in exports.values() for path in files_of(root / entry["graph"])]


def find_export(root: Path, network: str, engine: str, precision: str) -> Export | None:
    """The export for an engine in a precision, None where the folder has none.

    Args:
        root: The model's folder.
        network: Digest of what the graph computes, as it is now.
        engine: "openvino" or "onnx".
        precision: "float32" or "int8".

    Raises:
        ModelIntegrityError: an entry is malformed, its file is missing, or it belongs to other weights.
    """
    key = export_key(engine, precision)
    entry = read_exports(root).get(key)
    if entry is None:
        return None
    if entry.get("network") != network:
        raise ModelIntegrityError(
            f"{root / MANIFEST}: the export {key} was made of other weights or settings; export the model again"
        )
    return Export(root / entry["graph"], precision, entry["passed"] is True, entry.get("weight_bits", 8))


def ranges_key(dim: int) -> str:
    """The manifest's key of the ranges of vectors that are cut to ``dim`` dimensions; ``RANGES`` for whole ones."""
    return f"{RANGES}-{dim}"


def find_ranges(root: Path, network: str, dim: int) -> Ranges | None:
    """The ranges of the model's vectors, None where the folder has none for this network and this many dimensions.

    Raises:
        ModelIntegrityError: they are malformed.
    """
    manifest = root / MANIFEST
    found = _table(manifest, RANGES)
    if found.get("dim") != dim:
        found = _table(manifest, ranges_key(dim))
    if (found.get("network"), found.get("dim")) != (network, dim):
        return None
    try:
        low_D, high_D = (np.array(found[name], dtype=np.float32) for name in ("low", "high"))
        whole = low_D.shape == high_D.shape == (dim,) and bool(np.all(low_D <= high_D))
    except (KeyError, TypeError, ValueError):
        whole = False
    if not whole:
        raise ModelIntegrityError(f"{manifest}: the ranges of the vectors are malformed")
    return Ranges(low_D, high_D)


def _table(manifest: Path, name: str) -> dict[str, Any]:
    table = optional_json(manifest).get(name, {})
    if not isinstance(table, dict):
        raise ModelIntegrityError(f"{manifest}: {name!r} is {type(table).__name__}, expected a table")
    return table
