"""Export: a model folder with a graph that ends in the pooled, normalised vector."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.export.model import LEAST_TEXTS as LEAST_TEXTS
    from twinvec.export.model import ExportPrecision as ExportPrecision
    from twinvec.export.model import ExportReport as ExportReport
    from twinvec.export.model import export_model as export_model
    from twinvec.export.model import sample_texts as sample_texts
    from twinvec.export.quantization import BOUNDS as BOUNDS

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "BOUNDS": "quantization",
        "ExportPrecision": "model",
        "ExportReport": "model",
        "LEAST_TEXTS": "model",
        "export_model": "model",
        "sample_texts": "model",
    },
)
