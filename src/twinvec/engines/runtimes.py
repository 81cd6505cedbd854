"""The runtimes that graphs are made for, fastest first: what they are called, and how their graphs lie on the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from twinvec.engines.graph import GraphEngine, GraphScoringEngine
from twinvec.engines.onnx import OnnxEngine, OnnxScoringEngine, import_onnxruntime
from twinvec.engines.openvino import OpenVinoEngine, OpenVinoScoringEngine, has_bfloat16, import_openvino

RuntimeName = Literal["openvino", "onnx"]


@dataclass(frozen=True, slots=True)
class Runtime:
    """One of them.

    Attributes:
        name: Of its engine, and of the folder that its graphs lie in.
        package: What is installed.
        load: Imports the package, or raises MissingExtraError.
        engine: For encoders.
        scoring_engine: For cross-encoders.
        has_bfloat16: Asks whether it computes graphs of float32 in bfloat16 on this processor.
        suffixes: Of a graph's files, the one that names it first.
    """

    name: RuntimeName
    package: str
    load: Callable[[], Any]
    engine: type[GraphEngine]
    scoring_engine: type[GraphScoringEngine]
    has_bfloat16: Callable[[], bool]
    suffixes: tuple[str, ...]

    @property
    def installed(self) -> bool:
        return find_spec(self.package) is not None

    @property
    def version(self) -> str:
        return str(self.load().__version__)


RUNTIMES: dict[RuntimeName, Runtime] = {
    "openvino": Runtime(
        "openvino", "openvino", import_openvino, OpenVinoEngine, OpenVinoScoringEngine, has_bfloat16, (".xml", ".bin")
    ),
    "onnx": Runtime(
        "onnx", "onnxruntime", import_onnxruntime, OnnxEngine, OnnxScoringEngine, lambda: False, (".onnx",)
    ),
}


def files_of(graph: Path) -> list[Path]:
    """All files of a graph, named by its first one."""
    for runtime in RUNTIMES.values():
        if graph.suffix == runtime.suffixes[0]:
            return [graph.with_suffix(suffix) for suffix in runtime.suffixes]
    return [graph]
