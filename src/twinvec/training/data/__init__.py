"""Training data: files become checked rows of named columns, and rows become batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twinvec.support.lazy import lazy_names

if TYPE_CHECKING:
    from twinvec.training.data.rows import Row as Row
    from twinvec.training.data.rows import Rows as Rows
    from twinvec.training.data.rows import open_rows as open_rows

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "Row": "rows",
        "Rows": "rows",
        "open_rows": "rows",
    },
)
