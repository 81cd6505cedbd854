"""Recipes, by which a worker loads the driver's encoder again, in its own process and perhaps on another machine."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinvec import Encoder
from twinvec.errors import SpaceMismatchError
from twinvec.retrieval.base import SpaceEncoder


@dataclass(frozen=True, slots=True)
class EncoderRecipe:
    """Recipe of a ``twinvec.Encoder``: its name, and the space that it must have."""

    name: str
    space: str
    options: dict[str, Any] = field(default_factory=dict)

    def load(self, threads: int) -> Encoder:
        """Load the model and its engine; raise SpaceMismatchError if the name finds another model here."""
        os.environ["OMP_NUM_THREADS"] = str(threads)  # ``twinvec.support.cpu`` reads this variable
        encoder = Encoder(self.name, **self.options)
        if encoder.space != self.space:
            raise SpaceMismatchError(
                f"the model {self.name!r} has the space {encoder.space:.12} on a worker's machine, but the space "
                f"{self.space:.12} on the driver's; put the same model on all machines"
            )
        _ = encoder.engine
        return encoder


@dataclass(frozen=True, slots=True)
class CopyRecipe:
    """Recipe of any other encoder: a copy of the encoder."""

    encoder: SpaceEncoder

    def load(self, threads: int) -> SpaceEncoder:
        """Return the copied encoder, after limiting its libraries to ``threads`` threads."""
        os.environ["OMP_NUM_THREADS"] = str(threads)
        return self.encoder


Recipe = EncoderRecipe | CopyRecipe
"""Loads an encoder that computes with a given number of CPU threads."""


def encoder_recipe(model: str | Path, options: dict[str, Any]) -> EncoderRecipe:
    """Return the recipe of a model with arguments of ``Encoder``; raise as ``Encoder`` does."""
    encoder = Encoder(model, **options)
    return EncoderRecipe(encoder.name, encoder.space, options)


def recipe_of(encoder: SpaceEncoder, options: dict[str, Any]) -> Recipe:
    """Return the recipe of an encoder; ``options`` replace arguments of ``Encoder``, such as its device."""
    if isinstance(encoder, Encoder):
        given = {**encoder.overrides, **encoder.engine_options}
        return EncoderRecipe(encoder.name, encoder.space, {**given, **options})
    return CopyRecipe(encoder)
