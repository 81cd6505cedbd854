"""The runtimes of graphs, fastest first: their packages, their runners and the files of their graphs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from twinvec.engines.graph import Runner
from twinvec.engines.onnx import OnnxRunner, import_onnxruntime
from twinvec.engines.openvino import OpenVinoRunner, has_bfloat16, import_openvino

RuntimeName = Literal["openvino", "onnx"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """A library that computes graphs. ``name`` is also the folder of its graphs in a model's folder.

    ``load`` imports the Python package or raises MissingExtraError. ``has_bfloat16`` returns whether the runtime can
    compute float32 graphs in bfloat16 on this processor. A graph has a file for each of ``suffixes``, and its path is
    the file with the first suffix.
    """

    name: RuntimeName
    package: str
    load: Callable[[], Any]
    runner: type[Runner]
    has_bfloat16: Callable[[], bool]
    suffixes: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def version(self) -> str:
        return str(self.load().__version__)


RUNTIMES: dict[RuntimeName, Runtime] = {
    "openvino": Runtime("openvino", "openvino", import_openvino, OpenVinoRunner, has_bfloat16, (".xml", ".bin")),
    "onnx": Runtime("onnx", "onnxruntime", import_onnxruntime, OnnxRunner, lambda: False, (".onnx",)),
}


def files_of(graph: Path) -> list[Path]:
    """Return all files of a graph."""
    suffixes = next((each.suffixes for each in RUNTIMES.values() if graph.suffix == each.suffixes[0]), (graph.suffix,))
    return [graph.with_suffix(suffix) for suffix in suffixes]
