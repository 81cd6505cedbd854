"""Read the graphs, and the value ranges for int8 storage, that ``twinvec export`` added to a model's folder.

``twinvec.json`` lists them, each with the digest of its network. A graph with another digest than the model is refused.
``models.integrity.verify_folder`` checks that the files are unchanged.
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
    """A graph (.onnx, or .xml with a .bin). ``precision="auto"`` uses it if it ``passed`` its check.

    The sums of an int8 graph with 8 ``weight_bits`` saturate on some processors.
    """

    path: Path
    passed: bool
    weight_bits: int


def export_key(engine: str, precision: str) -> str:
    """Return the manifest's key of a graph."""
    return f"{engine}-{precision}"


def read_exports(root: Path) -> dict[str, dict[str, Any]]:
    """Return the manifest's graphs by ``export_key``; raise ModelIntegrityError if one is malformed or missing."""
    manifest = root / MANIFEST
    exports = _table(manifest, EXPORTS)
    for key, entry in exports.items():
        if not (
            isinstance(entry, dict)
            and isinstance(entry.get("quality"), dict)
            and isinstance(entry.get("weight_bits", 8), int)
            and "passed" in entry
        ):
            raise ModelIntegrityError(f"{manifest}: the entry of the export {key!r} is malformed")
        path = root / safe_relative(entry.get("graph"), manifest)
        if not path.is_file():
            raise ModelIntegrityError(f"{path}: missing, though {manifest} names it")
    return exports


def graph_files(root: Path, exports: Mapping[str, Mapping[str, Any]]) -> list[Path]:
    """Return the files of all graphs."""
    return [path for entry in exports.values() for path in files_of(root / entry["graph"])]


def find_export(model: LoadedModel[BackboneSpec], engine: str, precision: str) -> ExportedGraph | None:
    """Return the folder's graph for an engine ("openvino" or "onnx"), if any; raises as ``read_exports``."""
    key = export_key(engine, precision)
    entry = read_exports(model.root).get(key)
    if entry is None:
        return None
    if entry.get("network") != model.graph:
        raise ModelIntegrityError(
            f"{model.root / MANIFEST}: the export {key} was made from other weights or settings; export the model again"
        )
    return ExportedGraph(model.root / entry["graph"], entry["passed"] is True, entry.get("weight_bits", 8))


def ranges_key(dim: int) -> str:
    """Return the manifest's key of the ranges of truncated vectors; the key of whole vectors is ``RANGES``."""
    return f"{RANGES}-{dim}"


def find_ranges(model: LoadedEncoder) -> Ranges | None:
    """Return each dimension's value range, or None if the folder has none for this network and vector size."""
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
        raise ModelIntegrityError(
            f"{manifest}: the ranges of the vectors are malformed: expected 'low' and 'high' with {dim} numbers each, "
            "low at most high; export the model again with texts (twinvec export --calibrate)"
        )
    return Ranges(low_D, high_D)


def _table(manifest: Path, name: str) -> dict[str, Any]:
    table = optional_json(manifest).get(name, {})
    if not isinstance(table, dict):
        raise ModelIntegrityError(f"{manifest}: {name!r} is {type(table).__name__}, expected a table")
    return table
