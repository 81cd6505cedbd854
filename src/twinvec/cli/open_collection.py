"""Open a collection by its name. The core has no store; an installed package provides one.

The package declares a function ``open(name, path, *, url, encoder, create)`` in the entry-point group
``twinvec.retrievers``. The function returns a retriever with ``encoder``, ``search_vector``, ``maxsim``, ``find``,
``get`` and ``notes``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError


def open_collection(name: str, path: Path | None = None, *, url: str | None = None, model: str | None = None) -> Any:
    """Open an existing collection, as a context manager: from the folder ``path`` (default: the store's) or a server.

    ``model`` defaults to the model that the collection records. Raise ConfigurationError if no installed package
    provides a store or both ``path`` and ``url`` are given, and a TwinvecError if the store cannot open the collection.
    """
    from twinvec.encoder import Encoder

    encoder = None if model is None else Encoder(model)
    for entry in entry_points(group="twinvec.retrievers"):
        return entry.load()(name, path, url=url, encoder=encoder, create=False)
    raise ConfigurationError(f"the collection {name!r} needs a store: pip install twinvec-qdrant")
