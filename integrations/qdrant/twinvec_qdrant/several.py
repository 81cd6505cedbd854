"""Search several collections of a store, and merge their hits into one list.

Hits of different collections are compared by their relevance, which means the same in all collections. Scores are
comparable within one collection only. If a collection is not calibrated, hits are merged by rank: the best hit of each
collection comes first, then the second hits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar

from twinvec.errors import CollectionNotFoundError, SpaceMismatchError, TwinvecError
from twinvec.retrieval.base import Hit, Mode, SpaceEncoder, check_limit
from twinvec.retrieval.filters import Filter
from twinvec.text import check_texts
from twinvec_qdrant.collection import Collection
from twinvec_qdrant.list_and_drop import CollectionEntry, list_collections
from twinvec_qdrant.opening_store import GRPC_PORT, QdrantClient
from twinvec_qdrant.serving.process import DEFAULT_PATH

T = TypeVar("T")
H = TypeVar("H", bound="_WithHit")


class _WithHit(Protocol):
    @property
    def hit(self) -> Hit: ...


@dataclass(frozen=True, slots=True)
class CollectionHit:
    """A hit and the name of its collection."""

    collection: str
    hit: Hit


@dataclass(frozen=True, slots=True)
class CollectionHits:
    """Result of a search of several collections.

    Attributes:
        hits: The hits of all collections, best first.
        failed: The errors of the collections that could not be searched, by name.
    """

    hits: list[CollectionHit]
    failed: dict[str, TwinvecError] = field(default_factory=dict)


def search_collections(
    query: str,
    limit: int = 10,
    path: str | Path | None = None,
    *,
    names: Sequence[str] | None = None,
    mode: Mode = "hybrid",
    filter: Filter | None = None,
    group: bool = True,
    url: str | None = None,
    client: QdrantClient | None = None,
    api_key: str | None = None,
    wait_seconds: float = 10.0,
    grpc: bool = False,
    grpc_port: int = GRPC_PORT,
) -> CollectionHits:
    """Search all collections of a store, each with its own model; a shared model is loaded once.

    A collection that cannot be searched does not stop the others. Arguments that are not listed here are those of
    ``Collection.search`` and ``Collection.open``.

    Args:
        query: The text; a blank text finds nothing.
        limit: Largest number of hits to return, of all collections together.
        names: The collections to search. Default: all collections of twinvec in the store.

    Raises:
        CollectionNotFoundError: the store has no collection.
        TwinvecError: none of the collections could be searched; the error of the first collection is raised.
    """
    check_limit(limit)
    store: dict[str, Any] = {"url": url, "client": client, "api_key": api_key, "wait_seconds": wait_seconds}
    store |= {"grpc": grpc, "grpc_port": grpc_port}
    server = url or ("the server" if client is not None else "")
    entries = collections_of(list_collections(path, **store), names, server=server, path=path)
    opened = partial(Collection.open, path=path, create=False, **store)
    found, failed = in_each(entries, opened, lambda each: each.search(query, limit, mode, filter, group))
    ranked = [(rank, CollectionHit(name, hit)) for name, hits in found.items() for rank, hit in enumerate(hits)]
    return CollectionHits(best_first(ranked)[:limit], failed)


def best_first(ranked: Iterable[tuple[int, H]]) -> list[H]:
    """Sort the hits of several collections, best first; ``ranked`` holds pairs of a rank in a collection and a hit."""
    ranked = list(ranked)
    if any(each.hit.relevance is None for _, each in ranked):
        ranked.sort(key=lambda each: each[0])
    else:
        ranked.sort(key=lambda each: (-(each[1].hit.relevance or 0.0), each[0]))
    return [each for _, each in ranked]


def in_each(
    entries: Sequence[CollectionEntry], opened: Callable[..., Collection], do: Callable[[Collection], T]
) -> tuple[dict[str, T], dict[str, TwinvecError]]:
    """Open the collections one after another, and call ``do`` with each; raise the first error if all fail.

    Return the results and the errors, each by the name of the collection. ``opened`` opens a collection by its name
    and an ``encoder``, which is None unless an earlier collection has loaded the same model.
    """
    encoders: dict[str, SpaceEncoder] = {}
    done: dict[str, T] = {}
    failed: dict[str, TwinvecError] = {}
    for entry in entries:
        try:
            known = encoders.get(entry.model or "")
            with open_with_one_of([] if known is None else [known], partial(opened, entry.name)) as collection:
                done[entry.name] = do(collection)
                encoder = collection.loaded_encoder
                if encoder is not None:
                    encoders.setdefault(encoder.name, encoder)
        except TwinvecError as error:
            failed[entry.name] = error
    if failed and not done:
        raise next(iter(failed.values()))
    return done, failed


def open_with_one_of(encoders: Iterable[SpaceEncoder], opened: Callable[..., Collection]) -> Collection:
    """Open a collection with the first encoder that has the collection's space, else with the recorded model.

    Encoders of one model have different spaces if their options differ, such as the number of dimensions.

    Args:
        encoders: The encoders.
        opened: Function that calls ``Collection.open`` with its ``encoder`` and all other arguments.
    """
    for encoder in encoders:
        with suppress(SpaceMismatchError):
            return opened(encoder=encoder)
    return opened(encoder=None)


def collections_of(
    entries: Sequence[CollectionEntry], names: Sequence[str] | None = None, *, server: str, path: str | Path | None
) -> list[CollectionEntry]:
    """Return the collections with these names; without ``names``, all, and on a ``server`` all that twinvec can read.

    Raises:
        CollectionNotFoundError: the store has no collections.
    """
    known = {entry.name: entry for entry in entries}
    if names is not None:
        names = check_texts(names, name="name", argument="names")
        return [known.get(name, CollectionEntry(name, None, None)) for name in dict.fromkeys(names)]
    ours = [entry for entry in entries if entry.model is not None or not server]
    if not ours:
        raise no_collections(server, path)
    return ours


def no_collections(server: str, path: str | Path | None) -> CollectionNotFoundError:
    """Return the error for a store that has no collections; the store is a ``server``, or else the folder ``path``."""
    from twinvec_qdrant.stores.embedded.store import local_mode_hint

    store = server or path or DEFAULT_PATH
    is_missing = not server and not Path(str(store)).expanduser().is_dir()
    reason = "the folder does not exist" if is_missing else "the store has no collections"
    hint = "" if server else local_mode_hint(str(store))
    hint = hint or "; twinvec ingest SOURCE -c NAME makes a collection"
    return CollectionNotFoundError(f"{store}: {reason}{hint}")
