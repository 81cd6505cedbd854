"""Training data: files become checked rows of named columns, and rows become batches."""

from twinvec.support.lazy import lazy_names

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(("Row", "Rows", "open_rows"), "rows"))
