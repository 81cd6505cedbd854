"""Reports: models compared side by side, as a page with tables and plots."""

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(
    __name__, dict.fromkeys(("Comparison", "Difference", "compare", "write_report"), "comparison")
)
