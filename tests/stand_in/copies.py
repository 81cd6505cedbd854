"""Making and removing copies of shards in the stand-in's cluster, with the checks of a real server.

The checks and their sentences are those of Qdrant's source (1.17 to 1.19, August 2026), file by file:

    src/common/collections.rs                    a request is about a shard that exists
    lib/collection/src/collection/collection_ops.rs
                                                 a copy to remove exists, and another active copy stays
    lib/collection/src/shards/transfer/helpers.rs
                                                 the source of a transfer is active, and neither source nor target is
                                                 part of another transfer of the same shard
    lib/collection/src/shards/replica_set/update.rs
                                                 every copy applies a write by itself; writes without an ordering reach
                                                 the copies in any order

One check is stricter here: a write without an ordering is refused if there are several copies. The server would apply
it, and the copies could differ after racing writes.
"""

from __future__ import annotations

from typing import Any

from qdrant_client import models

from stand_in.strict import RefusedError


def check_ordering(params: models.CollectionParams, ordering: str | None) -> None:
    """Check that all copies of a shard apply a write in the same order as other writes."""
    if (params.replication_factor or 1) > 1 and ordering not in ("medium", "strong"):
        raise RefusedError(400, f"a collection with several copies is written with the ordering {ordering or 'weak'}")


def operated(info: models.CollectionClusterInfo, body: dict[str, Any]) -> models.CollectionClusterInfo:
    """Return what the cluster is like after a request to make or remove a copy."""
    if "replicate_shard" in body:
        return _replicated(info, models.ReplicateShard.model_validate(body["replicate_shard"]))
    dropped = models.Replica.model_validate(body["drop_replica"])
    _check_shard(info, dropped.shard_id)
    states = _states(info, dropped.shard_id)
    if dropped.peer_id not in states:
        raise RefusedError(400, f"Bad request: Peer {dropped.peer_id} has no replica of shard {dropped.shard_id}")
    if models.ReplicaState.ACTIVE not in [state for peer, state in states.items() if peer != dropped.peer_id]:
        said = f"must have at least one active replica after removing {dropped.peer_id}"
        raise RefusedError(400, f"Bad request: Shard {dropped.shard_id} {said}")
    local = [each for each in info.local_shards if (each.shard_id, info.peer_id) != (dropped.shard_id, dropped.peer_id)]
    remote = [
        each for each in info.remote_shards if (each.shard_id, each.peer_id) != (dropped.shard_id, dropped.peer_id)
    ]
    return info.model_copy(update={"local_shards": local, "remote_shards": remote})


def transferred(info: models.CollectionClusterInfo) -> models.CollectionClusterInfo:
    """Return what the cluster is like when all transfers have ended."""
    active = {"state": models.ReplicaState.ACTIVE}
    return info.model_copy(
        update={
            "local_shards": [each.model_copy(update=active) for each in info.local_shards],
            "remote_shards": [each.model_copy(update=active) for each in info.remote_shards],
            "shard_transfers": [],
        }
    )


def _replicated(info: models.CollectionClusterInfo, made: models.ReplicateShard) -> models.CollectionClusterInfo:
    _check_shard(info, made.shard_id)
    if _states(info, made.shard_id).get(made.from_peer_id) is not models.ReplicaState.ACTIVE:
        raise RefusedError(400, f"Bad request: Shard {made.shard_id} is not active on peer {made.from_peer_id}")
    for each in info.shard_transfers:
        if each.shard_id == made.shard_id and {each.from_, each.to} & {made.from_peer_id, made.to_peer_id}:
            said = f"Shard {made.shard_id} is already involved in transfer {each.from_} -> {each.to}"
            raise RefusedError(400, f"Bad request: {said}")
    moved = {"shard_id": made.shard_id, "from": made.from_peer_id, "to": made.to_peer_id, "sync": True}
    transfer = models.ShardTransferInfo.model_validate(moved)
    partial = models.ReplicaState.PARTIAL
    update: dict[str, Any] = {"shard_transfers": [*info.shard_transfers, transfer]}
    if made.to_peer_id == info.peer_id:
        local = models.LocalShardInfo(shard_id=made.shard_id, points_count=0, state=partial)
        update["local_shards"] = [*info.local_shards, local]
    else:
        remote = models.RemoteShardInfo(shard_id=made.shard_id, peer_id=made.to_peer_id, state=partial)
        update["remote_shards"] = [*info.remote_shards, remote]
    return info.model_copy(update=update)


def _states(info: models.CollectionClusterInfo, shard: int) -> dict[int, models.ReplicaState]:
    """The state of each copy of a shard, by peer."""
    states = {each.peer_id: each.state for each in info.remote_shards if each.shard_id == shard}
    for each in info.local_shards:
        if each.shard_id == shard:
            states[info.peer_id] = each.state
    return states


def _check_shard(info: models.CollectionClusterInfo, shard: int) -> None:
    if shard not in {each.shard_id for each in (*info.local_shards, *info.remote_shards)}:
        raise RefusedError(400, f"Bad request: Shard {shard} does not exist")
