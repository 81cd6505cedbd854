"""The forms in which vectors are kept: float32, float16, one byte or one bit a number.

One byte a number needs to know between which values the numbers of a dimension lie. These ranges are taken once, from
the vectors of sample texts, and are kept with the model (``twinvec export``), so that a vector has the same codes
whatever else is in the call, today and in a year.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray

Storage = Literal["float16", "int8", "binary"]
Vectors = npt.NDArray[Any]

_STEPS = 255


@dataclass(frozen=True, slots=True)
class Ranges:
    """Between which values the numbers of each dimension lie; both of shape (D,)."""

    low_D: FloatArray
    high_D: FloatArray

    @property
    def steps(self) -> FloatArray:
        """The distance between neighbouring codes, shape (D,)."""
        found: FloatArray = np.maximum(self.high_D - self.low_D, 1e-9) / np.float32(_STEPS)
        return found


def measure_ranges(vectors_ND: FloatArray) -> Ranges:
    """The smallest and largest value of each dimension, with a tenth of their distance on both sides to spare."""
    low_D, high_D = vectors_ND.min(axis=0), vectors_ND.max(axis=0)
    spare_D = (high_D - low_D) / np.float32(10)
    return Ranges(low_D - spare_D, high_D + spare_D)


def to_int8(vectors: FloatArray, ranges: Ranges) -> npt.NDArray[np.int8]:
    """The nearest of 256 codes, -128 to 127, for each number; what lies outside its range gets the code at its end."""
    steps = np.rint((vectors - ranges.low_D) / ranges.steps) - 128
    codes: npt.NDArray[np.int8] = np.clip(steps, -128, 127).astype(np.int8)
    return codes


def from_int8(codes: npt.NDArray[np.int8], ranges: Ranges) -> FloatArray:
    """The values that codes stand for: ``low + (code + 128) * (high - low) / 255``."""
    values: FloatArray = ranges.low_D + (codes.astype(np.float32) + 128) * ranges.steps
    return values


def to_bits(vectors: FloatArray) -> npt.NDArray[np.uint8]:
    """1 where a number is positive, eight a byte: shape (..., ceil(D / 8))."""
    return np.packbits(vectors > 0, axis=-1)
