"""Collections by name: the core knows no store, an installed package offers one.

The package names, in the entry-point group ``twinvec.retrievers``, a function ``open(name, path, *, url, encoder,
create)`` that gives a collection: a retriever with ``encoder``, ``search_vector``, ``maxsim``, ``find``, ``get`` and
``notes``.
"""

from __future__ import annotations

from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from twinvec.errors import ConfigurationError


def open_collection(name: str, path: Path | None = None, *, url: str | None = None, encoder: Any = None) -> Any:
    """Open a collection that is there; used with ``with``.

    Args:
        name: Its name in the store.
        path: Folder of an embedded store, the store's default unless given.
        url: Address of a server, in place of a folder.
        encoder: In place of the model that the collection was made with.

    Raises:
        ConfigurationError: no installed package offers a store, or ``path`` and ``url`` are both given.
        TwinvecError: what the store raises: there is no such collection, another process holds it, ...
    """
    for entry in entry_points(group="twinvec.retrievers"):
        return entry.load()(name, path, url=url, encoder=encoder, create=False)
    raise ConfigurationError(f"the collection {name!r} needs a store: pip install twinvec-qdrant")
