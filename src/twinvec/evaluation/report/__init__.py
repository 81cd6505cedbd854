"""Reports: models compared side by side, as a page with tables and plots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.evaluation.report.comparison import Comparison as Comparison
    from twinvec.evaluation.report.comparison import Difference as Difference
    from twinvec.evaluation.report.comparison import compare as compare
    from twinvec.evaluation.report.comparison import write_report as write_report

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Comparison": "comparison",
        "Difference": "comparison",
        "compare": "comparison",
        "write_report": "comparison",
    },
)
