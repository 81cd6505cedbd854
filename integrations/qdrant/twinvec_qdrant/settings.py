"""How a collection's dense vectors are indexed, and searched approximately.

The index is a graph (HNSW, Malkov and Yashunin 2016). With quantisation, searches walk it on small copies of the
vectors, take more candidates than asked for, and compare those with the vectors themselves. Exact search passes over
both.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Literal

from twinvec.errors import ConfigurationError
from twinvec.support.checks import check_choice

if TYPE_CHECKING:
    pass

Quantization = Literal["none", "int8", "binary", "turbo"]

_OVERSAMPLING = {"none": 1.0, "int8": 2.0, "turbo": 2.0, "binary": 4.0}


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """The settings of an index; a collection records them.

    Attributes:
        quantization: What the small copies are: bytes ("int8", a quarter of the size), four bits ("turbo", an eighth),
            signs ("binary", a thirty-second), or "none".
        m: Edges of a node of the graph.
        ef_construct: Candidates for the edges of a new node.
        ef: Candidates that a search keeps; the store's choice unless given.
        oversampling: How many times the hits asked for are compared with the vectors themselves; what suits the
            quantisation unless given.

    Raises:
        ConfigurationError: a value that cannot work.
    """

    quantization: Quantization = "none"
    m: int = 16
    ef_construct: int = 100
    ef: int | None = None
    oversampling: float | None = None

    def __post_init__(self) -> None:
        check_choice(self.quantization, Quantization, "quantization")
        for name, least, most in (("m", 2, 256), ("ef_construct", 4, 4096), ("ef", 1, 65_536)):
            value = getattr(self, name)
            if name == "ef" and value is None:
                continue
            if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
                raise ConfigurationError(f"{name} must be an integer from {least} to {most}, got {value!r}")
        factor = self.oversampling
        if factor is not None and (not isinstance(factor, (int, float)) or not 1 <= factor <= 1000):
            raise ConfigurationError(f"oversampling must be between 1 and 1000, got {self.oversampling!r}")

    def __str__(self) -> str:
        copies = "no quantisation" if self.quantization == "none" else f"{self.quantization} quantisation"
        extra = {"ef": self.ef, "oversampling": self.oversampling}
        given = "".join(f", {name} {value:g}" for name, value in extra.items() if value is not None)
        return f"{copies}, m {self.m}, ef_construct {self.ef_construct}{given}"

    @property
    def compared(self) -> float:
        """How many times the hits asked for are compared with the vectors themselves."""
        return self.oversampling or _OVERSAMPLING[self.quantization]

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> IndexSettings:
        """The settings that ``as_dict`` gave.

        Raises:
            ConfigurationError: a field that is none, or a value that cannot work.
        """
        known = [each.name for each in fields(cls)]
        if unknown := [name for name in values if name not in known]:
            raise ConfigurationError(f"an index has no setting {unknown[0]!r}; it has {', '.join(known)}")
        return cls(**values)


DEFAULT_INDEX = IndexSettings()
"""What suits most."""


@dataclass(frozen=True, slots=True)
class ChunkSettings:
    """How documents are cut; a collection records it, because other settings give other chunks.

    Attributes:
        enabled: False keeps each document whole, as one chunk.
        max_tokens: Largest chunk in tokens, heading and special tokens included; the model's limit unless given.
        overlap: Tokens that a chunk repeats of the one before it, within a section.

    Raises:
        ConfigurationError: a value that cannot work.
    """

    enabled: bool = True
    max_tokens: int | None = None
    overlap: int = 0

    def __post_init__(self) -> None:
        if not self.enabled and (self.max_tokens is not None or self.overlap):
            raise ConfigurationError("chunking is off: max_tokens and overlap have no meaning")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise ConfigurationError(f"max_tokens must be at least 1, got {self.max_tokens}")
        if self.overlap < 0:
            raise ConfigurationError(f"overlap must not be negative, got {self.overlap}")

    def __str__(self) -> str:
        if not self.enabled:
            return "whole documents"
        size = "as long as the model reads" if self.max_tokens is None else f"of at most {self.max_tokens} tokens"
        return f"chunks {size}" + (f" that overlap by {self.overlap}" if self.overlap else "")

    def as_dict(self) -> dict[str, Any]:
        """The settings as JSON has them."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ChunkSettings:
        """The settings that ``as_dict`` gave."""
        return cls(**values)
