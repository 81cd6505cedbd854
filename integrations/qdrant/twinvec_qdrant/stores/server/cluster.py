"""How a server keeps a collection: its shards, their copies on the nodes of a cluster, and what lies on the disk.

The server's configuration holds these settings, except the number of copies that a read asks, which is recorded with
the description.
Another replication factor holds for new shards only, so the copies of the present ones are made and removed here, one
request a copy; the cluster then transfers them while it serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from qdrant_client import QdrantClient, models

from twinvec.errors import ConfigurationError
from twinvec_qdrant.settings import ClusterSettings
from twinvec_qdrant.stores.server.requests import Requests

READ_CONSISTENCY = "read_consistency"
"""The key of the collection's metadata that records the setting."""

_WHOLE = (models.ReplicaState.ACTIVE, models.ReplicaState.ACTIVEREAD)


def creation_options(settings: ClusterSettings) -> dict[str, Any]:
    """Return the options of ``create_collection`` for these settings."""
    wanted = {
        "shard_number": settings.shards,
        "replication_factor": settings.replication_factor,
        "write_consistency_factor": settings.write_consistency_factor,
        "on_disk_payload": settings.on_disk,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def recorded(settings: ClusterSettings) -> dict[str, Any]:
    """Return what the collection's metadata records of the settings."""
    return {} if settings.read_consistency is None else {READ_CONSISTENCY: settings.read_consistency}


def settings_of(info: models.CollectionInfo) -> ClusterSettings:
    """Return the settings that the server and the metadata have."""
    params = info.config.params
    vectors = params.vectors if isinstance(params.vectors, dict) else {}
    dense = [bool(each.on_disk) for each in vectors.values() if each.multivector_config is None]
    return ClusterSettings(
        shards=params.shard_number,
        replication_factor=params.replication_factor,
        write_consistency_factor=min(params.write_consistency_factor or 1, params.replication_factor or 1),
        on_disk=bool(params.on_disk_payload) and bool(dense) and all(dense),
        read_consistency=(info.config.metadata or {}).get(READ_CONSISTENCY),
    )


def change(requests: Requests, info: models.CollectionInfo, wanted: ClusterSettings) -> None:
    """Change the settings of a collection; raise ``ConfigurationError`` for another number of shards."""
    client, now = requests.client, settings_of(info)
    if wanted.shards not in (None, now.shards):
        raise ConfigurationError(
            f"{requests.location}: has {now.shards} shards, and only a new collection can have {wanted.shards}: "
            "push it to one (twinvec push, Collection.push)"
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
        requests.call(client.update_collection, metadata=recorded(wanted))
    if wanted.replication_factor is not None:
        for operation in _operations(requests, client, wanted.replication_factor):
            requests.call(client.cluster_collection_update, operation)


def _operations(requests: Requests, client: QdrantClient, copies: int) -> list[Any]:
    """Return the operations that give each shard this number of copies, at most one on each node."""
    status = requests.ask(client.cluster_status)
    if not isinstance(status, models.ClusterStatusOneOf1):  # a single node
        return []
    return balanced(requests.call(client.collection_cluster_info), [int(peer) for peer in status.peers], copies)


def balanced(info: models.CollectionClusterInfo, peers: list[int], copies: int) -> list[Any]:
    """Return the operations that give each shard ``copies`` copies on as many of the peers; the emptiest come first."""
    placed: dict[int, dict[int, models.ReplicaState]] = {each.shard_id: {} for each in info.remote_shards}
    for local in info.local_shards:
        placed.setdefault(local.shard_id, {})[info.peer_id] = local.state
    for remote in info.remote_shards:
        placed[remote.shard_id][remote.peer_id] = remote.state
    load = Counter(peer for where in placed.values() for peer in where)
    operations: list[Any] = []
    for shard, where in sorted(placed.items()):
        whole = [peer for peer, state in where.items() if state in _WHOLE]
        free = sorted((peer for peer in peers if peer not in where), key=lambda peer: (load[peer], peer))
        for peer in free[: max(copies - len(where), 0)] if whole else []:
            moved = models.ReplicateShard(shard_id=shard, from_peer_id=whole[0], to_peer_id=peer)
            operations.append(models.ReplicateShardOperation(replicate_shard=moved))
            load[peer] += 1
        broken = [peer for peer in where if peer not in whole]
        spare = [*broken, *sorted(whole, key=lambda peer: (-load[peer], peer))][: max(len(where) - copies, 0)]
        for peer in spare if len(whole) - len(set(spare) & set(whole)) >= 1 else []:
            dropped = models.Replica(shard_id=shard, peer_id=peer)
            operations.append(models.DropReplicaOperation(drop_replica=dropped))
            load[peer] -= 1
    return operations
