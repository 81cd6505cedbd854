"""A collection on a server as this process knows it, and work that keeps to the limits of the server.

What is known is what the server has said of the collection. If it refuses a request by a limit, it is asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from qdrant_client import models

from twinvec.errors import StoreLimitError
from twinvec_qdrant.settings import ReadConsistency
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.field_indexes import FieldIndexes
from twinvec_qdrant.stores.server.limits.permitted import Limits, limits_of
from twinvec_qdrant.stores.server.requests import Requests
from twinvec_qdrant.stores.steps import Ask, Steps, asked, run

T = TypeVar("T")


class KnownCollection(FieldIndexes):
    """The collection that ``requests`` are about: its limits, its payload indexes, its shards, and what reads ask."""

    def __init__(self, requests: Requests) -> None:
        super().__init__(requests)
        self._limits: Limits | None = None
        self._shards = 1
        self._copies = 1
        self._tenants: cluster.TenantShards | None = None
        self._filler: Mapping[str, Any] = {}
        self._asked: ReadConsistency | None = None
        self._recorded: ReadConsistency | None = None

    def read_consistently(self, consistency: ReadConsistency | None) -> None:
        self._asked = consistency if consistency is not None else self._asked

    def run(self, steps: Steps[T]) -> T:
        def ask(step: Ask) -> Any:
            return self.requests.call(getattr(self._client, step.method), *step.arguments, **step.options)

        return run(steps, ask)

    def _info(self) -> models.CollectionInfo:
        return self.run(self._asked_again())

    def _asked_again(self) -> Steps[models.CollectionInfo]:
        """Ask the server, and keep what it says."""
        info: models.CollectionInfo = yield from asked("get_collection")
        self._learn_indexes(info)
        self._limits = limits_of(info.config.strict_mode_config, self.requests.wait_seconds)
        self.requests.most_timeout = self._limits.timeout
        self._recorded = (info.config.metadata or {}).get(cluster.READ_CONSISTENCY)
        self._tenants = cluster.TenantShards.of(info.config.metadata)
        self._filler = _filler(info.config.metadata or {})
        keys = 1 if self._tenants is None else len(self._tenants.keys)
        self._shards = keys * max(1, info.config.params.shard_number or 1)
        self._copies = info.config.params.replication_factor or 1
        return info

    def _within(self, work: Callable[[Limits], Steps[T]]) -> Steps[T]:
        """Do the work within the limits; if they have changed meanwhile, do it once more, within those of now."""
        known = yield from self._permitted()
        try:
            return (yield from work(known))
        except StoreLimitError:
            yield from self._asked_again()
            now = yield from self._permitted()
            if now == known:
                raise
        return (yield from work(now))

    def _permitted(self) -> Steps[Limits]:
        if self._limits is None:
            yield from self._asked_again()
        return self._limits or Limits()

    def _read(self, method: str, limits: Limits, cost: int, *arguments: Any, **options: Any) -> Steps[Any]:
        """Return the answer to a request that reads, at this cost."""
        copies = {} if method == "count" else self._consistency()  # the client has no such option for counts
        options = {**options, "refill_seconds": limits.refill(reads=cost), **copies}
        return (yield Ask(method, arguments, options, alone=limits.searches is not None or limits.reads is not None))

    def _consistency(self) -> dict[str, Any]:
        """Return the client's option for the number of copies that a read asks."""
        chosen = self._asked if self._asked is not None else self._recorded
        if chosen is None or self._local:
            return {}
        return {"consistency": chosen if isinstance(chosen, int) else models.ReadConsistencyType(chosen)}


def _filler(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return what points without vectors have besides their payload, in a collection that was adopted or is being so.

    LlamaIndex' own class reads them too when it is asked for all nodes, and fails at one without a text.
    """
    layout = (metadata.get("twinvec_adoption") or metadata).get("layout")
    return {} if layout is None or layout.get("metadata_key") is not None else {layout["text_key"]: ""}
