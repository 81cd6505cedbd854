"""Read what ``twinvec export`` added to a model's folder: graphs, and the value ranges that int8 storage needs.

``twinvec.json`` lists them. Each entry records the digest of the network it was made of; a graph made of other weights
is refused. ``models.integrity.verify_folder`` checks that the files are unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.engines.loaded_model import LoadedEncoder, LoadedModel
from twinvec.engines.runtimes import files_of
from twinvec.errors import ModelIntegrityError
from twinvec.models.backbone import BackboneSpec
from twinvec.models.integrity import MANIFEST, optional_json, safe_relative
from twinvec.storage import Ranges

EXPORTS = "exports"
RANGES = "ranges"


@dataclass(frozen=True, slots=True)
class ExportedGraph:
    """A graph in a model's folder.

    Attributes:
        path: The graph: .onnx, or .xml with a .bin in the same folder.
        precision: "float32" or "int8".
        passed: Whether the graph is close enough to float32 for ``precision="auto"`` to use it.
        weight_bits: Number of bits of an int8 graph's weights; with 8, sums saturate on some processors.
    """

    path: Path
    precision: str
    passed: bool
    weight_bits: int


def export_key(engine: str, precision: str) -> str:
    """Return the manifest's key of a graph."""
    return f"{engine}-{precision}"


def read_exports(root: Path) -> dict[str, dict[str, Any]]:
    """Return the manifest's entries of graphs by ``export_key``; empty if the folder has no manifest.

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
    """Return the files of all graphs: one or two for each."""
    return [path for entry in exports.values() for path in files_of(root / entry["graph"])]


def find_export(model: LoadedModel[BackboneSpec], engine: str, precision: str) -> ExportedGraph | None:
    """Return the graph in a model's folder for an engine ("openvino", "onnx") in a precision ("float32", "int8").

    Raises:
        ModelIntegrityError: an entry is malformed, its file is missing, or it was made of other weights.
    """
    key = export_key(engine, precision)
    entry = read_exports(model.root).get(key)
    if entry is None:
        return None
    if entry.get("network") != model.graph:
        raise ModelIntegrityError(
            f"{model.root / MANIFEST}: the export {key} was made of other weights or settings; export the model again"
        )
    return ExportedGraph(model.root / entry["graph"], precision, entry["passed"] is True, entry.get("weight_bits", 8))


def ranges_key(dim: int) -> str:
    """Return the manifest's key of ranges of vectors truncated to ``dim``; the key of whole ones is ``RANGES``."""
    return f"{RANGES}-{dim}"


def find_ranges(model: LoadedEncoder) -> Ranges | None:
    """Return the value range of each dimension, or None if the folder has none for this network and vector size.

    Raises:
        ModelIntegrityError: the ranges are malformed.
    """
    manifest, dim = model.root / MANIFEST, model.spec.dim
    found = _table(manifest, RANGES)
    if found.get("dim") != dim:
        found = _table(manifest, ranges_key(dim))
    if (found.get("network"), found.get("dim")) != (model.network, dim):
        return None
    try:
        low_D, high_D = (np.array(found[name], dtype=np.float32) for name in ("low", "high"))
        valid = low_D.shape == high_D.shape == (dim,) and bool(np.all(low_D <= high_D))
    except (KeyError, TypeError, ValueError):
        valid = False
    if not valid:
        raise ModelIntegrityError(f"{manifest}: the ranges of the vectors are malformed")
    return Ranges(low_D, high_D)


def _table(manifest: Path, name: str) -> dict[str, Any]:
    table = optional_json(manifest).get(name, {})
    if not isinstance(table, dict):
        raise ModelIntegrityError(f"{manifest}: {name!r} is {type(table).__name__}, expected a table")
    return table
