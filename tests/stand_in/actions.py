"""What requests do in the stand-in: the client's local mode answers them, and the settings of indexes are kept here."""

from __future__ import annotations

from typing import Any

from pydantic import TypeAdapter
from qdrant_client import QdrantClient, models


class Actions:
    """The collections of the stand-in.

    Attributes:
        graphs: The edges of a node of the index (m) after every update of a collection's settings.
        fields: The payload fields with an index, of all collections.
    """

    def __init__(self) -> None:
        self.graphs: list[int] = []
        self.fields: set[str] = set()
        self._index: dict[str, dict[str, Any]] = {}
        self._indexes: dict[str, dict[str, Any]] = {}
        self._client = QdrantClient(":memory:")

    def do(self, action: str, name: str, body: dict[str, Any]) -> Any:
        """Return the answer to a request, such as "POST points/scroll"."""
        client = self._client
        if not name:
            return client.get_collections()
        if action == "GET exists":
            return {"exists": client.collection_exists(name)}
        if action == "GET":
            info = client.get_collection(name)
            info.config = info.config.model_copy(update=self._index[name])
            info.payload_schema = {
                field: models.PayloadIndexInfo(data_type=getattr(kept, "type", kept), params=_params(kept), points=0)
                for field, kept in self._indexes.get(name, {}).items()
            }
            return info
        if action == "PUT":
            wanted = models.CreateCollection.model_validate(body)
            graph = models.HnswConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
            self._index[name] = _index(wanted, graph, models.CollectionParams(vectors=wanted.vectors))
            return client.create_collection(
                name,
                vectors_config=wanted.vectors,
                sparse_vectors_config=wanted.sparse_vectors,
                metadata=wanted.metadata,
            )
        if action == "PATCH":
            changes = models.UpdateCollection.model_validate(body)
            self._index[name] = _index(changes, *self._index[name].values())
            self.graphs.append(self._index[name]["hnsw_config"].m)
            return client.update_collection(name, metadata=changes.metadata)
        if action == "DELETE":
            return client.delete_collection(name)
        if action == "PUT index":
            asked = models.CreateFieldIndex.model_validate(body)
            self.fields.add(asked.field_name)
            self._indexes.setdefault(name, {})[asked.field_name] = asked.field_schema
            return models.UpdateResult(status=models.UpdateStatus.COMPLETED)
        if "vectors/" in action:
            return self._vectors(*action.split(" vectors/"), name, body)
        return self._points(action.replace(" points", " ", 1).replace(" /", " ").strip(), name, body)

    def _vectors(self, method: str, vector: str, name: str, body: dict[str, Any]) -> Any:
        """Room for one more vector, or for one fewer; again, neither changes anything."""
        params = self._index[name]["params"]
        if method == "PUT":
            wanted = models.DenseVectorNameConfig.model_validate(body)
            done = self._client.create_vector_name(name, vector, wanted)
            known = params.vectors.get(vector) or models.VectorParams(**wanted.dense.model_dump())
            if known.datatype != wanted.dense.datatype:
                raise ValueError(f"Vector {vector} already exists with a different configuration")
            vectors = {**params.vectors, vector: known}
        else:
            done = self._client.delete_vector_name(name, vector)
            vectors = {key: value for key, value in params.vectors.items() if key != vector}
        self._index[name]["params"] = params.model_copy(update={"vectors": vectors})
        return done

    def _points(self, action: str, name: str, body: dict[str, Any]) -> Any:
        client = self._client
        if action == "PUT":
            wanted = models.PointsList.model_validate(body)
            return client.upsert(
                name, wanted.points, update_filter=wanted.update_filter, update_mode=wanted.update_mode
            )
        if action == "POST":
            asked = models.PointRequest.model_validate(body)
            return client.retrieve(name, asked.ids, with_payload=asked.with_payload, with_vectors=asked.with_vector)
        if action == "POST batch":
            operations = TypeAdapter(list[models.UpdateOperation]).validate_python(body["operations"])
            return client.batch_update_points(name, operations)
        if action == "POST scroll":
            scroll = models.ScrollRequest.model_validate(body)
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
            return client.count(name, count_filter=models.CountRequest.model_validate(body).filter)
        if action == "POST query/batch":
            return client.query_batch_points(
                name, [models.QueryRequest.model_validate(each) for each in body["searches"]]
            )
        if action == "POST delete":
            return client.delete(name, TypeAdapter(models.PointsSelector).validate_python(body))
        if action == "PUT vectors":
            return client.update_vectors(name, models.UpdateVectors.model_validate(body).points)
        raise NotImplementedError(action)


def _params(schema: Any) -> Any:
    """The parameters of a payload index; None if only its type was given."""
    return None if isinstance(schema, models.PayloadSchemaType) else schema


def _index(wanted: Any, graph: models.HnswConfig, params: models.CollectionParams) -> dict[str, Any]:
    """The settings of indexes after a request that makes or changes a collection, as the server keeps them."""
    given = wanted.hnsw_config.model_dump(exclude_none=True) if wanted.hnsw_config else {}
    vectors = dict(params.vectors)
    changes = wanted.vectors or {} if isinstance(wanted, models.UpdateCollection) else {}
    for name, change in changes.items():
        copies = change.quantization_config
        kept = None if copies is models.Disabled.DISABLED else copies
        vectors[name] = vectors[name].model_copy(update={"quantization_config": kept})
    return {
        "hnsw_config": graph.model_copy(update=given),
        "params": params.model_copy(update={"vectors": vectors}),
    }
