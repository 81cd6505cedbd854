"""What requests do in the stand-in: the client's local mode answers them, and the settings of indexes are kept here."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any
from urllib.parse import unquote

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models

import local_mode  # noqa: F401
from stand_in import copies, schema
from stand_in.shards import Shards, within
from stand_in.strict import RefusedError, StrictMode, kind_of

_QUOTA = (
    "Disk usage is at 91% of total capacity, exceeding the configured limit of 90%. Help: Reduce disk usage (e.g. "
    "delete points or drop collections), or raise `max_disk_usage_percent` in the global quota config."
)
"""lib/shard/src/quota/check.rs (1.19): what a node says of a write that needs room."""

LATE = 2
"""Reads of a new vector that are refused: a server optimizes while it makes room for it."""


class Actions:
    """The collections of the stand-in.

    Attributes:
        graphs: The edges of a node of the index (m) after every update of a collection's settings.
        strict: The strict mode of new collections, as managed clusters have one.
        cluster: Where the shards of every collection are.
        operations: What a cluster was asked to do.
        clustered: Whether the server is in cluster mode.
        version: The version of the server.
        ordering: The ordering that the present request names.
        shards: The shard keys of every collection.
        late: How many reads of a new vector are still refused, by collection and vector.
        is_full: Whether the disk of the server is fuller than its quota permits (1.19).
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.graphs: list[int] = []
        self.strict: models.StrictModeConfig | None = None
        self.cluster: models.CollectionClusterInfo | None = None
        self.operations: list[dict[str, Any]] = []
        self.clustered = False
        self.version = "1.18.3"
        self.ordering: str | None = None
        self.shards: dict[str, Shards] = {}
        self.is_full = False
        self.late: dict[str, dict[str, int]] = {}
        self._sparse: dict[str, int] = {}
        self._clock = clock
        self._strict: dict[str, StrictMode] = {}
        self._indexes: dict[str, dict[str, Any]] = {}
        self._index: dict[str, dict[str, Any]] = {}
        self._client = QdrantClient(":memory:")

    @property
    def fields(self) -> set[str]:
        """The payload fields with an index, of all collections."""
        return {field for indexes in self._indexes.values() for field in indexes}

    def restrict(self, name: str, config: models.StrictModeConfig | None) -> None:
        """Add limits to a collection's; a limit stays until another one of the same name comes."""
        old = self._strict.get(name)
        before = old.config.model_dump(exclude_none=True) if old is not None else {}
        changes = config.model_dump(exclude_none=True) if config is not None else {}
        merged = models.StrictModeConfig.model_validate({**before, **changes})
        self._strict[name] = StrictMode(merged, self._indexes[name], self._clock)
        self._strict[name].is_written = old is not None and old.is_written

    def do(self, action: str, name: str, body: dict[str, Any]) -> Any:
        """Return the answer to a request, such as "POST points/scroll"."""
        client = self._client
        if not name:
            return client.get_collections()
        if action == "GET exists":
            return {"exists": client.collection_exists(name)}
        if action == "PUT":
            wanted = models.CreateCollection.model_validate(body)
            schema.check_name(name)
            schema.check_settings(wanted, self.version)
            graph = models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
            if name not in self._index:
                self._index[name] = _index(wanted, graph, _params(wanted))
                self._indexes[name] = {}
                self.shards[name] = Shards(custom=wanted.sharding_method is models.ShardingMethod.CUSTOM)
                self.restrict(name, wanted.strict_mode_config or self.strict)
            return client.create_collection(
                name,
                vectors_config=wanted.vectors,
                sparse_vectors_config=wanted.sparse_vectors,
                metadata=wanted.metadata,
            )
        if name not in self._index and action != "DELETE":
            raise RefusedError(404, f"Not found: Collection `{name}` doesn't exist!")
        if action == "GET":
            return self._info(name)
        if action == "PATCH":
            changes = models.UpdateCollection.model_validate(body)
            schema.check_settings(changes, self.version)
            self._index[name] = _index(changes, *self._index[name].values())
            if changes.params is not None:
                given = changes.params.model_dump(exclude_none=True)
                self._index[name]["params"] = self._index[name]["params"].model_copy(update=given)
            if changes.strict_mode_config is not None:
                self.restrict(name, changes.strict_mode_config)
            self.graphs.append(self._index[name]["hnsw_config"].m)
            return client.update_collection(name, metadata=changes.metadata)
        if action == "DELETE":
            for kept in (self._index, self._indexes, self._strict, self.shards, self._sparse):
                kept.pop(name, None)
            return client.delete_collection(name)
        if action == "PUT index":
            self._strict[name].check_index()
            asked = models.CreateFieldIndex.model_validate(body)
            self._indexes[name][asked.field_name] = asked.field_schema
            return models.UpdateResult(status=models.UpdateStatus.COMPLETED)
        if action.startswith("DELETE index/"):
            self._indexes[name].pop(unquote(action.removeprefix("DELETE index/")), None)
            return models.UpdateResult(status=models.UpdateStatus.COMPLETED)
        if action == "PUT shards":
            asked_for = models.CreateShardingKey.model_validate(body)
            self.shards[name].make(str(asked_for.shard_key), clustered=self.clustered)
            return True
        if action == "GET shards":
            return {"shard_keys": [{"key": key} for key in self.shards[name].keys]}
        if action == "GET cluster":
            return self.cluster
        if action == "POST cluster":
            assert self.cluster is not None
            self.cluster = copies.operated(self.cluster, body)
            self.operations.append(body)
            return True
        if "vectors/" in action:
            schema.check_route(self.version)
            return self._vectors(*action.split(" vectors/"), name, body)
        action = action.replace(" points", " ", 1).replace(" /", " ").strip()
        if action not in _WRITES:
            return self._read(action, name, body)
        copies.check_ordering(self._index[name]["params"], self.ordering)
        if self.is_full and action != "POST delete":
            raise RefusedError(507, f"Insufficient storage: {_QUOTA}")
        return self._write(action, name, body)

    def _vectors(self, method: str, vector: str, name: str, body: dict[str, Any]) -> Any:
        """Room for one more vector, or for one fewer; again, neither changes anything."""
        params = self._index[name]["params"]
        if not vector:
            raise ValueError("not found: no route for a vector without a name")
        if method == "PUT" and "sparse" in body:
            words = models.SparseVectorNameConfig.model_validate(body)
            done = self._client.create_vector_name(name, vector, words)
            kept = models.SparseVectorParams(modifier=words.sparse.modifier)
            changes: dict[str, Any] = {"sparse_vectors": {**(params.sparse_vectors or {}), vector: kept}}
        elif method == "PUT":
            wanted = models.DenseVectorNameConfig.model_validate(body)
            done = self._client.create_vector_name(name, vector, wanted)
            known = named(params).get(vector) or models.VectorParams(**wanted.dense.model_dump())
            if known.datatype != wanted.dense.datatype:
                raise ValueError(f"Vector {vector} already exists with a different configuration")
            changes = {"vectors": {**named(params), vector: known}}  # one without a name is now one of several
        else:
            done = self._client.delete_vector_name(name, vector)
            changes = {
                "vectors": {key: value for key, value in named(params).items() if key != vector},
                "sparse_vectors": {k: value for k, value in (params.sparse_vectors or {}).items() if k != vector},
            }
        if method == "PUT" and vector not in {*named(params), *(params.sparse_vectors or {})}:
            self.late.setdefault(name, {})[vector] = LATE
        self._index[name]["params"] = params.model_copy(update=changes)
        return done

    def _write(self, action: str, name: str, body: dict[str, Any]) -> Any:
        client, strict, shards = self._client, self._strict[name], self.shards[name]
        if action == "PUT":
            wanted = models.PointsList.model_validate(body)
            schema.check_vectors(wanted.points, needed=False)
            shards.put([point.id for point in wanted.points], wanted.shard_key)
            self._check_points(name, len(wanted.points), "upsert limit")
            strict.write(len(wanted.points))
            self._count_sparse(name, wanted.points)
            return client.upsert(
                name, wanted.points, update_filter=wanted.update_filter, update_mode=wanted.update_mode
            )
        if action == "POST batch":
            operations = TypeAdapter(list[models.UpdateOperation]).validate_python(body["operations"])
            for operation in operations:
                if isinstance(operation, models.UpsertOperation):
                    schema.check_vectors(operation.upsert.points, needed=False)
                    self._check_points(name, len(operation.upsert.points), "upsert limit")
                    shards.put([point.id for point in operation.upsert.points], operation.upsert.shard_key)
                else:
                    assert isinstance(operation, models.SetPayloadOperation)
                    shards.check_there(operation.set_payload.points, operation.set_payload.shard_key)
            done: list[Any] = []
            for operation in operations:  # one by one: what comes before a refusal is done
                if isinstance(operation, models.UpsertOperation):
                    strict.write(len(operation.upsert.points))
                    self._count_sparse(name, operation.upsert.points)
                else:
                    strict.write(len(operation.set_payload.points))
                done += client.batch_update_points(name, [operation])
            return done
        if action == "POST delete":
            selector = TypeAdapter(models.PointsSelector).validate_python(body)
            strict.check_selection(selector)
            strict.write(self._selected(name, selector))
            return self._delete(name, selector)
        update = models.UpdateVectors.model_validate(body)
        vectors = update.points
        schema.check_vectors(vectors, needed=True)
        shards.check_there([each.id for each in vectors], update.shard_key)
        self._check_points(name, len(vectors), "update limit")
        strict.write(len(vectors))
        return client.update_vectors(name, vectors)

    def _delete(self, name: str, selector: Any) -> Any:
        """Delete points of the shards that the request names."""
        shards = self.shards[name]
        shards.written(selector.shard_key)
        points = shards.read(selector.shard_key)
        if points is not None and isinstance(selector, models.PointIdsList):
            chosen: Any = models.PointIdsList(points=[each for each in selector.points if str(each) in points])
        else:
            chosen = selector if points is None else models.FilterSelector(filter=within(points, selector.filter))
        done = self._client.delete(name, chosen)
        for each in list(shards.of):
            if not self._client.retrieve(name, [each], with_payload=False):
                del shards.of[each]
        return done

    def _routed(self, name: str, search: models.QueryRequest) -> models.QueryRequest:
        """Return a search for the points of the shards that it names."""
        points = self.shards[name].read(search.shard_key)
        if points is None:
            return search
        prefetches = search.prefetch or []
        narrowed = [
            each.model_copy(update={"filter": within(points, each.filter)})
            for each in (prefetches if isinstance(prefetches, list) else [prefetches])
        ]
        update = {"filter": within(points, search.filter), "prefetch": narrowed or None, "shard_key": None}
        return search.model_copy(update=update)

    def _read(self, action: str, name: str, body: dict[str, Any]) -> Any:
        client, strict = self._client, self._strict[name]
        self._check_vectors(name, body)
        if action == "POST":
            asked = models.PointRequest.model_validate(body)
            strict.read(len(asked.ids))
            found = client.retrieve(name, asked.ids, with_payload=asked.with_payload, with_vectors=asked.with_vector)
            keys = self.shards[name].of
            return [each.model_copy(update={"shard_key": keys.get(str(each.id))}) for each in found]
        if action == "POST scroll":
            scroll = models.ScrollRequest.model_validate(body)
            schema.check_scroll(scroll)
            strict.check_scroll(scroll)
            points, following = client.scroll(
                name,
                scroll_filter=scroll.filter,
                limit=scroll.limit,
                offset=scroll.offset,
                with_payload=scroll.with_payload,
                with_vectors=scroll.with_vector,
            )
            return {"points": points, "next_page_offset": following}
        if action == "POST count":
            count = models.CountRequest.model_validate(body)
            strict.check_count(count)
            return client.count(name, count_filter=count.filter)
        if action == "POST query":
            (found,) = self._read("POST query/batch", name, {"searches": [body]})
            return found
        if action == "POST query/batch":
            searches = [models.QueryRequest.model_validate(each) for each in body["searches"]]
            for row, each in enumerate(searches):
                schema.check_search(each, self._index[name]["params"], f"searches[{row}]")
            strict.check_searches(searches, self._without_graph(name))
            return client.query_batch_points(name, [self._routed(name, each) for each in searches])
        raise NotImplementedError(action)

    def _check_vectors(self, name: str, body: dict[str, Any]) -> None:
        """Refuse reads that name a vector which is missing, or was just added: it takes a server some time."""
        params = self._index[name]["params"]
        known = {*named(params), *(params.sparse_vectors or {}), "", None}
        reads = [body, *body.get("searches", ())]
        asked = [each.get("using") for each in reads] + [each.get("with_vector") for each in reads]
        for vector in chain.from_iterable(each if isinstance(each, list) else [each] for each in asked):
            if isinstance(vector, str | None) and vector not in known:
                raise RefusedError(400, f"Wrong input: Not existing vector name error: {vector}")
            if vector in (late := self.late.get(name, {})):
                late[vector] -= 1
                if not late[vector]:  # those that were added before it are there, too
                    self.late[name] = dict(list(late.items())[list(late).index(vector) + 1 :])
                raise RefusedError(400, f"Wrong input: Not existing vector name error: {vector}")

    def _count_sparse(self, name: str, points: Sequence[models.PointStruct]) -> None:
        """Count sparse vectors as a server does, which counts those of deleted points until it optimizes."""
        kinds = [each.vector.values() if isinstance(each.vector, dict) else () for each in points]
        written = sum(isinstance(each, models.SparseVector) for vectors in kinds for each in vectors)
        self._sparse[name] = self._sparse.get(name, 0) + written

    def _info(self, name: str) -> models.CollectionInfo:
        info = self._client.get_collection(name)
        info.indexed_vectors_count = self._sparse.get(name, 0)
        limits = self._strict[name].config
        shown = models.StrictModeConfigOutput.model_validate(limits.model_dump(exclude_none=True))
        info.config = info.config.model_copy(update={**self._index[name], "strict_mode_config": shown})
        info.payload_schema = {
            field: models.PayloadIndexInfo(data_type=kind_of(schema), params=_index_params(schema), points=0)
            for field, schema in self._indexes[name].items()
        }
        return info

    def _check_points(self, name: str, points: int, what: str) -> None:
        info = self._info(name)
        dims = sum(each.size for each in named(self._index[name]["params"]).values() if not each.multivector_config)
        self._strict[name].check_points(points, info, 4 * dims * (info.points_count or 0), what)

    def _selected(self, name: str, selector: Any) -> int:
        """How many points a deletion concerns."""
        if isinstance(selector, models.PointIdsList):
            return len(selector.points)
        return int(self._client.count(name, count_filter=selector.filter).count)

    def _without_graph(self, name: str) -> set[str]:
        """The dense vectors of a collection that have no graph."""
        index = self._index[name]
        own = {key: each.hnsw_config and each.hnsw_config.m for key, each in named(index["params"]).items()}
        return {key for key, edges in own.items() if (index["hnsw_config"].m if edges is None else edges) == 0}


_WRITES = {"PUT", "POST batch", "POST delete", "PUT vectors"}


def _params(wanted: models.CreateCollection) -> models.CollectionParams:
    """The parameters of a new collection, as the server keeps them."""
    return models.CollectionParams(
        vectors=wanted.vectors,
        sparse_vectors=wanted.sparse_vectors,
        sharding_method=wanted.sharding_method,
        shard_number=wanted.shard_number or 1,
        replication_factor=wanted.replication_factor or 1,
        write_consistency_factor=wanted.write_consistency_factor or 1,
        on_disk_payload=True if wanted.on_disk_payload is None else wanted.on_disk_payload,
    )


def named(params: models.CollectionParams) -> dict[str, models.VectorParams]:
    """The dense vectors by name; one without a name has the name ""."""
    vectors = params.vectors or {}
    return dict(vectors) if isinstance(vectors, dict) else {"": vectors}


def _index_params(schema: Any) -> Any:
    """The parameters of a payload index; None if only its type was given."""
    return None if isinstance(schema, models.PayloadSchemaType) else schema


def _index(wanted: Any, graph: models.HnswConfig, params: models.CollectionParams) -> dict[str, Any]:
    """The settings of indexes after a request that makes or changes a collection, as the server keeps them."""
    given = wanted.hnsw_config.model_dump(exclude_none=True) if wanted.hnsw_config else {}
    vectors = named(params)
    changes = wanted.vectors or {} if isinstance(wanted, models.UpdateCollection) else {}
    for name, change in changes.items():
        copies = change.quantization_config
        kept = None if copies is models.Disabled.DISABLED else copies or vectors[name].quantization_config
        update = {"quantization_config": kept}
        update |= {key: new for key in ("on_disk", "hnsw_config") if (new := getattr(change, key)) is not None}
        vectors[name] = vectors[name].model_copy(update=update)
    return {
        "hnsw_config": graph.model_copy(update=given),
        "params": params.model_copy(update={"vectors": vectors if isinstance(params.vectors, dict) else vectors[""]}),
    }
