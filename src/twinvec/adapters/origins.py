"""Remember which encoder computed a vector, because frameworks pass vectors on as bare lists of floats.

A framework hands vectors of its embedding class to a store without naming the model. The embedding classes of this
process note their vectors, so that a store can ask for the space of a vector. Only hashes are kept, of the last
``MOST`` vectors.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray

MOST = 2**17
"""Largest number of remembered vectors: some 15 MB."""

_lock = threading.Lock()
_encoders: dict[int, weakref.ref[Any]] = {}


def note_origin(vectors_ND: FloatArray, encoder: object) -> None:
    """Remember that ``encoder`` has computed these vectors."""
    keys = [hash(vector_D.tobytes()) for vector_D in np.ascontiguousarray(vectors_ND, dtype=np.float32)]
    reference = weakref.ref(encoder)
    with _lock:
        for key in keys:
            _encoders.pop(key, None)
            _encoders[key] = reference
        for key in list(islice(_encoders, max(0, len(_encoders) - MOST))):
            del _encoders[key]


def origin_of(vector: Sequence[float] | FloatArray) -> str | None:
    """Return the space of the encoder that has computed the vector, or None if it is not known."""
    try:
        key = hash(np.ascontiguousarray(vector, dtype=np.float32).tobytes())
    # the vector has values that are not numbers: the store that gets it raises the error
    except (TypeError, ValueError, OverflowError):
        return None
    reference = _encoders.get(key)
    encoder = None if reference is None else reference()
    space: str | None = getattr(encoder, "space", None)
    return space
