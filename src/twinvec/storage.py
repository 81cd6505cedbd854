"""Storage types of vectors: float32, float16, int8 (one byte per number) and binary (one bit per number).

int8 storage needs each dimension's value range. ``twinvec export`` measures the ranges on sample texts and keeps them
with the model, so that the codes of a vector do not depend on the other vectors of a call.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray

Storage = Literal["float16", "int8", "binary"]
Vectors = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class Ranges:
    """The smallest and the largest value of each dimension; both of shape (D,)."""

    low_D: FloatArray
    high_D: FloatArray

    @property
    def steps(self) -> FloatArray:
        """Distance between neighbouring codes in each dimension: shape (D,)."""
        found: FloatArray = np.maximum(self.high_D - self.low_D, 1e-9) / np.float32(255)
        return found


def measure_ranges(vectors_ND: FloatArray) -> Ranges:
    """Return the range of each dimension, extended on both sides by a tenth of its width."""
    low_D, high_D = vectors_ND.min(axis=0), vectors_ND.max(axis=0)
    spare_D = (high_D - low_D) / np.float32(10)
    return Ranges(low_D - spare_D, high_D + spare_D)


def to_int8(vectors: FloatArray, ranges: Ranges) -> npt.NDArray[np.int8]:
    """Return the nearest of 256 codes, -128 to 127, for each number; clip numbers outside the range."""
    nearest = np.rint((vectors - ranges.low_D) / ranges.steps) - 128
    codes: npt.NDArray[np.int8] = np.clip(nearest, -128, 127).astype(np.int8)
    return codes


def from_int8(codes: npt.NDArray[np.int8], ranges: Ranges) -> FloatArray:
    """Return the values of codes: ``low + (code + 128) * (high - low) / 255``."""
    values: FloatArray = ranges.low_D + (codes.astype(np.float32) + 128) * ranges.steps
    return values


def to_bits(vectors: FloatArray) -> npt.NDArray[np.uint8]:
    """Return one bit per number, 1 if it is positive, packed eight to a byte: shape (..., ceil(D / 8))."""
    return np.packbits(vectors > 0, axis=-1)
