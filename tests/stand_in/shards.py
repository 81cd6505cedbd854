"""Custom sharding of the stand-in: which shard key every point has, checked as the server checks it.

The checks and their sentences are those of Qdrant's source (1.18, August 2026), file by file:

    lib/collection/src/shards/shard_holder/mod.rs          a write names a key that exists; a read names none, for all
                                                           shards, or one that exists, or a target and a fallback of
                                                           which one exists
    lib/storage/src/content_manager/toc/point_ops.rs       a write with several keys is done for each of them
    src/common/collections.rs                              a key is made once, with custom sharding, in a cluster

One check is stricter here: a point written with another key than before is an error. The server would keep both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from qdrant_client import models

from stand_in.strict import RefusedError


class Shards:
    """The shard keys of one collection; it has none with automatic sharding."""

    def __init__(self, *, custom: bool) -> None:
        self.custom = custom
        self.keys: list[str] = []
        self.of: dict[str, str] = {}
        """Shard key of every point."""

    def make(self, key: str, *, clustered: bool) -> None:
        """Make a shard key."""
        if not clustered:
            raise ValueError("Distributed mode disabled")
        if not self.custom:
            raise ValueError("Bad request: Shard Key cannot be created with Auto sharding method")
        if key in self.keys:
            raise ValueError(f"Bad request: Sharding key {key} already exists for collection")
        self.keys.append(key)

    def written(self, selector: Any) -> list[str]:
        """Return the shard keys that a write names."""
        if not self.custom and selector is None:
            return []
        if selector is None:
            raise ValueError("Wrong input: Shard key not specified")
        return self._named(selector)

    def read(self, selector: Any) -> set[str] | None:
        """Return the points of the shards that a read names; None for all."""
        if selector is None:
            return None
        keys = self._named(selector)
        return {point for point, key in self.of.items() if key in keys}

    def put(self, ids: Iterable[Any], selector: Any) -> None:
        """Keep the shard key of written points."""
        for key in self.written(selector):
            for each in map(str, ids):
                assert self.of.get(each, key) == key, f"{each} is written to {key}, and lies in {self.of[each]}"
                self.of[each] = key

    def check_there(self, ids: Iterable[Any], selector: Any) -> None:
        """Check that points to update lie in the shards that the write names."""
        keys = self.written(selector)
        for each in map(str, ids):
            if self.custom and self.of.get(each) not in keys:
                raise ValueError(f"Wrong input: No point with id {each} found")

    def _named(self, selector: Any) -> list[str]:
        if isinstance(selector, models.ShardKeyWithFallback):
            found = [key for key in (selector.target, selector.fallback) if key in self.keys][:1]
            if not found:
                keys = f"target shard key {selector.target} nor fallback shard key {selector.fallback}"
                raise RefusedError(404, f"Not found: Neither {keys} exist not found")
            return [str(key) for key in found]
        keys = selector if isinstance(selector, list) else [selector]
        for key in keys:
            if key not in self.keys:
                raise RefusedError(400, f"Wrong input: Shard key {key} not found")
        return keys


def within(points: set[str] | None, filter: models.Filter | None) -> models.Filter | None:
    """Return the filter, for these points only."""
    if points is None:
        return filter
    there: Any = models.HasIdCondition(has_id=sorted(points))
    return models.Filter(must=[there] if filter is None else [there, filter])
