"""Export: a model folder with a graph for OpenVINO or ONNX Runtime that computes finished vectors or logits."""

from twinvec.export.model import LEAST_TEXTS, ExportPrecision, ExportReport, export_model, sample_texts
from twinvec.export.quantization import BOUNDS

__all__ = ["BOUNDS", "LEAST_TEXTS", "ExportPrecision", "ExportReport", "export_model", "sample_texts"]
