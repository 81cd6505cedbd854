"""What this process knows about a collection on a server: its limits, indexes and shards; and work within the limits.

The process asks the server once, and again if the server refuses a request because of a limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar

from qdrant_client import models

from twinvec.errors import StoreError, StoreLimitError
from twinvec_qdrant.settings import ReadConsistency
from twinvec_qdrant.stores.base import OWN_FIELDS, UnindexedError
from twinvec_qdrant.stores.server import cluster
from twinvec_qdrant.stores.server.field_indexes import FieldIndexes
from twinvec_qdrant.stores.server.limits.permitted import Limits, limits_of
from twinvec_qdrant.stores.server.retrying import Requests
from twinvec_qdrant.stores.steps import Ask, Steps, asked, run

T = TypeVar("T")


class KnownCollection(FieldIndexes):
    """The collection that ``requests`` are about: its limits, payload indexes and shards, and its read consistency."""

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
        """Ask the server about the collection, and remember the answer."""
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
        """Do the work within the known limits; if the limits have changed, repeat it within the new limits.

        The work is also repeated if an index is missing. Either a node of a cluster does not know yet of an index that
        another node has just made; or an index of twinvec's own fields is not made yet, because the process that
        creates the collection is still at work or was killed. Such an index is made here.
        """
        known = yield from self._permitted()
        try:
            return (yield from work(known))
        except StoreLimitError as error:
            if isinstance(error, UnindexedError) and error.path in OWN_FIELDS:
                with suppress(StoreError):  # the API key may not permit it
                    yield from asked("create_payload_index", error.path, models.PayloadSchemaType.KEYWORD, wait=True)
            yield from self._asked_again()
            now = yield from self._permitted()
            if now == known and not (isinstance(error, UnindexedError) and error.path in self._types):
                raise
        return (yield from work(now))

    def _permitted(self) -> Steps[Limits]:
        if self._limits is None:
            yield from self._asked_again()
        return self._limits or Limits()

    def _read(self, method: str, limits: Limits, cost: int, *arguments: Any, **options: Any) -> Steps[Any]:
        """Send a read of this cost, and return the answer."""
        copies = {} if method == "count" else self._consistency()  # the client has no such option for counts
        options = {**options, "refill_seconds": limits.refill(reads=cost), **copies}
        return (yield Ask(method, arguments, options, alone=limits.searches is not None or limits.reads is not None))

    def _consistency(self) -> dict[str, Any]:
        """Return the client's option for the number of copies that a read queries."""
        chosen = self._asked if self._asked is not None else self._recorded
        if chosen is None or self._local:
            return {}
        return {"consistency": chosen if isinstance(chosen, int) else models.ReadConsistencyType(chosen)}


def _filler(metadata: Mapping[str, Any]) -> dict[str, str]:
    """Return extra payload fields for points without vectors, in an adopted collection or during its adoption.

    LlamaIndex' own class also reads these points when it lists all nodes, and it fails at a point without a text.
    """
    layout = (metadata.get("twinvec_adoption") or metadata).get("layout")
    return {} if layout is None or layout.get("metadata_key") is not None else {layout["text_key"]: ""}
