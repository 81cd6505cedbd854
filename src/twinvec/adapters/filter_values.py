"""Values of filters as language models write them."""

from __future__ import annotations

import math
from typing import Any

from twinvec.retrieval.filters.instants import moment


def range_limit(value: Any) -> Any:
    """Return the limit of a range; a number that a language model has written as text becomes a number."""
    try:
        number = float(value) if isinstance(value, str) and moment(value) is None else None
    except ValueError:
        return value
    return value if number is None or not math.isfinite(number) else number
