"""Cluster settings of a collection: its shards, their copies on the nodes of a cluster, and what is kept on disk.

The server's configuration holds these settings, except the number of copies that a read queries, which is recorded with
the description. For the server, a new replication factor affects new shards only. This module therefore asks the
cluster to make or remove each copy of an existing shard; the cluster then transfers the copies while it serves. A copy
can be the source of one transfer at a time, so further copies of a shard have to wait.

Large tenants may have shards of their own, by custom sharding with the tenant as shard key (tiered multitenancy, server
1.16). The chunks of all other tenants, and all points without vectors, are in the shards of the key ``SHARED``. All
records are in these shards, because a commit must find the record of a document whatever tenant the document belongs
to.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from qdrant_client import models

from twinvec.errors import ConfigurationError, StoreError
from twinvec.support.checks import listed
from twinvec_qdrant.settings import ClusterSettings
from twinvec_qdrant.stores.conditions import AnyText, Conditions, Fitted
from twinvec_qdrant.stores.points import Point
from twinvec_qdrant.stores.server.retrying import Requests

READ_CONSISTENCY = "read_consistency"
"""Key of the collection's metadata that records how many copies a read queries."""

TENANT_SHARDS = "tenant_shards"
"""Key of the collection's metadata that records which tenants have had shards of their own from the beginning."""

_ADDED = f"{TENANT_SHARDS}."
"""Prefix of the metadata keys that record tenants that were added later, one key for each tenant.

The server merges metadata by key. If one key held a list of tenants, two administrators who add tenants at once would
overwrite each other's list.
"""

SHARED = "twinvec-shared"
"""Shard key of all tenants without shards of their own."""

logger = logging.getLogger(__name__)

_WHOLE = (models.ReplicaState.ACTIVE, models.ReplicaState.ACTIVEREAD)


@dataclass(frozen=True, slots=True)
class TenantShards:
    """The tenants with shards of their own; the payload field at ``path`` names the tenant of a chunk."""

    path: str
    tenants: tuple[str, ...]

    @classmethod
    def of(cls, metadata: Mapping[str, Any] | None) -> TenantShards | None:
        """Return the tenants that a collection's metadata record; None if the collection has no shard keys."""
        known = metadata or {}
        recorded = known.get(TENANT_SHARDS)
        if recorded is None:
            return None
        added = sorted(key.removeprefix(_ADDED) for key in known if key.startswith(_ADDED))
        return cls(recorded["path"], tuple(dict.fromkeys([*recorded["tenants"], *added])))

    @property
    def keys(self) -> list[str]:
        """The shard keys of the collection."""
        return [SHARED, *self.tenants]

    def key_of(self, point: Point) -> str:
        """Return the shard key of a point to write."""
        value: Any = point.payload
        for part in self.path.split(".") if point.dense is not None or point.sparse is not None else ():
            value = value.get(part) if isinstance(value, Mapping) else None
        return value if isinstance(value, str) and value in self.tenants else SHARED

    def selector(self, conditions: Conditions) -> models.ShardKeyWithFallback | None:
        """Return the shard key of a search whose (fitted) conditions name one tenant; None to search all shards.

        The tenant may have got shards of its own recently. The key therefore names both choices: the server takes the
        tenant's shards if they exist, and else the shared ones.
        """
        for each in conditions:
            tests = each.tests if isinstance(each, Fitted) else None
            if isinstance(tests, AnyText) and tests.path == self.path and len(tests.texts) == 1:
                return models.ShardKeyWithFallback(target=tests.texts[0], fallback=SHARED)
        return None


def make_keys(requests: Requests, shards: TenantShards) -> None:
    """Make the missing shard keys, which another process may make at the same time."""
    for key in shards.keys:
        if key not in _keys(requests):
            try:
                requests.call(requests.client.create_shard_key, key)
            except StoreError:
                if key not in _keys(requests):
                    raise


def _keys(requests: Requests) -> set[Any]:
    return {each.key for each in requests.call(requests.client.list_shard_keys).shard_keys or ()}


def check_tenant_shards(requests: Requests, settings: ClusterSettings, tenant_path: str | None) -> None:
    """Raise ``ConfigurationError`` if the settings ask for shards of tenants, and the new collection cannot have them.

    Such shards need a tenant key (``tenant_path``), and a server in cluster mode.
    """
    if settings.tenant_shards is None:
        return
    if tenant_path is None:
        raise ConfigurationError(f"{requests.location}: tenant_shards need a collection with a tenant_key")
    if not isinstance(requests.ask(requests.client.cluster_status), models.ClusterStatusOneOf1):
        raise ConfigurationError(
            f"{requests.location}: tenant_shards need a server in cluster mode; this server runs alone"
        )


def creation_options(settings: ClusterSettings) -> dict[str, Any]:
    """Return the options of ``create_collection`` for these settings."""
    wanted: dict[str, Any] = {
        "sharding_method": None if settings.tenant_shards is None else models.ShardingMethod.CUSTOM,
        "shard_number": settings.shards,
        "replication_factor": settings.replication_factor,
        "write_consistency_factor": settings.write_consistency_factor,
        "on_disk_payload": settings.on_disk,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def recorded(settings: ClusterSettings, tenant_path: str | None) -> dict[str, Any]:
    """Return the settings as the collection's metadata record them."""
    found: dict[str, Any] = {}
    if settings.read_consistency is not None:
        found[READ_CONSISTENCY] = settings.read_consistency
    if settings.tenant_shards is not None:
        found[TENANT_SHARDS] = {"path": tenant_path, "tenants": list(settings.tenant_shards)}
    return found


def settings_of(info: models.CollectionInfo) -> ClusterSettings:
    """Return the settings that the server's configuration and the metadata hold."""
    params = info.config.params
    vectors = params.vectors if isinstance(params.vectors, dict) else {}
    dense = [bool(each.on_disk) for each in vectors.values() if each.multivector_config is None]
    return ClusterSettings(
        shards=params.shard_number,
        replication_factor=params.replication_factor,
        write_consistency_factor=min(params.write_consistency_factor or 1, params.replication_factor or 1),
        on_disk=bool(params.on_disk_payload) and bool(dense) and all(dense),
        read_consistency=(info.config.metadata or {}).get(READ_CONSISTENCY),
        tenant_shards=shards.tenants if (shards := TenantShards.of(info.config.metadata)) else None,
    )


def change(requests: Requests, info: models.CollectionInfo, wanted: ClusterSettings) -> None:
    """Change the settings of a collection; raise ``ConfigurationError`` if the number of shards would change."""
    client, now = requests.client, settings_of(info)
    if wanted.shards not in (None, now.shards):
        raise ConfigurationError(
            f"{requests.location}: the collection has {now.shards} shards, and the number cannot change to "
            f"{wanted.shards}: push the collection to a new one (twinvec push, Collection.push)"
        )
    params = models.CollectionParamsDiff(
        replication_factor=wanted.replication_factor,
        write_consistency_factor=wanted.write_consistency_factor,
        on_disk_payload=wanted.on_disk,
    )
    vectors = info.config.params.vectors
    placed: Mapping[str, models.VectorParamsDiff] | None = None
    if wanted.on_disk is not None and isinstance(vectors, dict):
        dense = [name for name, each in vectors.items() if each.multivector_config is None]
        placed = dict.fromkeys(dense, models.VectorParamsDiff(on_disk=wanted.on_disk))
    if params.model_dump(exclude_none=True):
        requests.call(client.update_collection, collection_params=params, vectors_config=placed)
    if wanted.read_consistency is not None:
        requests.call(client.update_collection, metadata={READ_CONSISTENCY: wanted.read_consistency})
    if wanted.tenant_shards is not None:
        _add_tenants(requests, TenantShards.of(info.config.metadata), wanted.tenant_shards)
    if wanted.replication_factor is not None:
        _copy(requests, wanted.replication_factor)


def _add_tenants(requests: Requests, now: TenantShards | None, wanted: tuple[str, ...]) -> None:
    """Make shards for the tenants in ``wanted`` that have none; raise ``ConfigurationError`` if they have documents.

    The metadata record the tenants before the shard keys are made. If the process is killed in between, searches fall
    back to the shared shards, and the next write makes the keys. In the other order, writes would go to the shared
    shards, and searches to the tenant's own.
    """
    if now is None:
        raise ConfigurationError(
            f"{requests.location}: tenant_shards can grow only in a collection that was made with them: make a new "
            "collection with these tenant_shards, and ingest or push into it"
        )
    if missing := [name for name in now.tenants if name not in wanted]:
        raise ConfigurationError(
            f"{requests.location}: tenant_shards can only grow, and these tenants have shards already: "
            f"{listed(missing, 5)}; name them too, or push the collection to a new one without them"
        )
    added = [name for name in wanted if name not in now.tenants]
    for name in added:
        named = models.FieldCondition(key=now.path, match=models.MatchValue(value=name))
        if requests.call(requests.client.scroll, scroll_filter=models.Filter(must=[named]), limit=1)[0]:
            raise ConfigurationError(
                f"{requests.location}: the tenant {name!r} already has documents in the shared shards: delete them, "
                "add the tenant and ingest them again, or push to a new collection that has this tenant"
            )
    if added:
        requests.call(requests.client.update_collection, metadata={f"{_ADDED}{name}": True for name in added})
    make_keys(requests, TenantShards(now.path, (*now.tenants, *added)))


def _copy(requests: Requests, copies: int) -> None:
    """Give each shard ``copies`` copies, at most one on each node; log a warning about copies that have to wait."""
    status = requests.ask(requests.client.cluster_status)
    if not isinstance(status, models.ClusterStatusOneOf1):  # a single node
        return
    info = requests.call(requests.client.collection_cluster_info)
    operations, waiting = balanced(info, [int(peer) for peer in status.peers], copies)
    for operation in operations:
        try:
            requests.call(requests.client.cluster_collection_update, operation)
        except StoreError:  # the server refuses a second try if it has accepted the first
            if not _is_accepted(operation, requests.call(requests.client.collection_cluster_info)):
                raise
    if waiting:
        logger.warning(
            "%s: %d copies of shards have to wait, because a copy can be the source of one transfer at a time; set the "
            "replication factor again when the cluster has made the other copies",
            requests.location,
            waiting,
        )


def _is_accepted(operation: Any, info: models.CollectionClusterInfo) -> bool:
    """Return whether the cluster already makes the copy, or has already removed it."""
    if isinstance(operation, models.ReplicateShardOperation):
        made = operation.replicate_shard
        return made.to_peer_id in _placed(info).get(made.shard_id, {})
    dropped = operation.drop_replica
    return dropped.peer_id not in _placed(info).get(dropped.shard_id, {})


def _placed(info: models.CollectionClusterInfo) -> dict[int, dict[int, models.ReplicaState]]:
    """Return the state of each copy by shard and peer."""
    placed: dict[int, dict[int, models.ReplicaState]] = {}
    for local in info.local_shards:
        placed.setdefault(local.shard_id, {})[info.peer_id] = local.state
    for remote in info.remote_shards:
        placed.setdefault(remote.shard_id, {})[remote.peer_id] = remote.state
    return placed


def balanced(info: models.CollectionClusterInfo, peers: list[int], copies: int) -> tuple[list[Any], int]:
    """Return operations that give each shard ``copies`` copies on different peers; new copies go to the emptiest peers.

    Also return the number of copies that have to wait, because no copy of their shard is free to be a source.
    """
    placed = _placed(info)
    busy = {(each.shard_id, peer) for each in info.shard_transfers for peer in (each.from_, each.to)}
    load = Counter(peer for where in placed.values() for peer in where)
    operations: list[Any] = []
    waiting = 0
    for shard, where in sorted(placed.items()):
        free = sorted((peer for peer in peers if peer not in where), key=lambda peer: (load[peer], peer))
        wanted = free[: max(copies - len(where), 0)]
        sources = [
            peer for peer, state in where.items() if state is models.ReplicaState.ACTIVE and (shard, peer) not in busy
        ]
        waiting += max(len(wanted) - len(sources), 0)
        for source, peer in zip(sources, wanted, strict=False):
            moved = models.ReplicateShard(shard_id=shard, from_peer_id=source, to_peer_id=peer)
            operations.append(models.ReplicateShardOperation(replicate_shard=moved))
            load[peer] += 1
        whole = [peer for peer, state in where.items() if state in _WHOLE]
        broken = [peer for peer in where if peer not in whole]
        spare = [*broken, *sorted(whole, key=lambda peer: (-load[peer], peer))][: max(len(where) - copies, 0)]
        for peer in spare if len(whole) - len(set(spare) & set(whole)) >= 1 else []:
            dropped = models.Replica(shard_id=shard, peer_id=peer)
            operations.append(models.DropReplicaOperation(drop_replica=dropped))
            load[peer] -= 1
    return operations, waiting
