"""ONNX Runtime computes graphs (.onnx): one session, which several threads may run at once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from twinvec.arrays import FloatArray
from twinvec.engines.graph import Runner
from twinvec.errors import EngineError, ModelIntegrityError
from twinvec.interrupts import raise_of_handler
from twinvec.support import telemetry
from twinvec.support.extras import import_extra
from twinvec.tokens.batching import Batch

ERRORS_ONLY = 3


class OnnxRunner(Runner):
    """A session of ONNX Runtime."""

    runtime = "onnx"

    def __init__(self, path: Path, precision: str, output: str, streams: int, threads: int) -> None:
        onnxruntime = import_onnxruntime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        # off, because a memory plan is stored for each shape, and batches have many shapes
        options.enable_mem_pattern = False
        options.log_severity_level = ERRORS_ONLY
        try:
            self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
            ports = (*self._session.get_inputs(), *self._session.get_overridable_initializers())
            known = {port.name for port in self._session.get_outputs()}
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise_of_handler(error)
            raise ModelIntegrityError(f"{path}: cannot be read as an ONNX graph: {error}") from error
        if output not in known:
            raise ModelIntegrityError(f"{path}: cannot be read as an ONNX graph: it has no output {output!r}")
        self._inputs = [port.name for port in ports]
        self._output = output

    def infer(self, batch: Batch, name: str) -> FloatArray:
        arrays = batch.inputs
        try:
            result: FloatArray = self._session.run([self._output], {key: arrays[key] for key in self._inputs})[0]
        except Exception as error:  # ONNX Runtime's errors have no common base class
            raise_of_handler(error)
            raise EngineError(f"engine {name}: {error}") from error
        return result


def import_onnxruntime() -> Any:
    """Import onnxruntime; errors as for ``import_extra``."""
    telemetry.switch_off()
    return import_extra("onnxruntime", "onnx", "the ONNX engine")


def import_onnx() -> Any:
    """Import onnx, which makes graphs; errors as for ``import_extra``."""
    return import_extra("onnx", "onnx", "making an ONNX graph")
