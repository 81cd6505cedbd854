"""The stand-in's gRPC interface: the messages become those of HTTP, and the answers messages again.

The client's own generated services and conversions are used, so that what a client sends and reads is what it would
send to a server and read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol

import grpc
from pydantic_core import to_jsonable_python
from qdrant_client import grpc as messages
from qdrant_client import models
from qdrant_client.conversions.conversion import GrpcToRest, RestToGrpc

from stand_in.rest import Fault
from stand_in.strict import RefusedError


class Answering(Protocol):
    """What the interface stands before."""

    fault: Callable[[str, str], Fault | None]
    met: list[Fault]
    asked: list[tuple[str, str]]
    version: str

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the server gives for a request."""


FAULTS = {
    Fault.REFUSED: (grpc.StatusCode.UNAVAILABLE, "connection refused"),
    Fault.DROPPED: (grpc.StatusCode.UNAVAILABLE, "Socket closed"),
    Fault.STALLED: (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded"),
    Fault.BUSY: (grpc.StatusCode.UNAVAILABLE, "busy"),
    Fault.LIMITED: (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down"),
    Fault.REPLICA: (grpc.StatusCode.INTERNAL, "Some replica of shard 0 failed to apply operation"),
    Fault.UNKNOWN: (grpc.StatusCode.UNIMPLEMENTED, ""),
}
_CODES = {
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    507: grpc.StatusCode.RESOURCE_EXHAUSTED,
}
DONE_ALL_THE_SAME = (Fault.DROPPED, Fault.STALLED)


@contextmanager
def serving(stand_in: Answering) -> Iterator[int]:
    """Serve the interface until the end of the block; yields its port."""
    server = grpc.server(ThreadPoolExecutor(8))
    messages.add_PointsServicer_to_server(Points(stand_in), server)
    messages.add_CollectionsServicer_to_server(Collections(stand_in), server)
    messages.add_QdrantServicer_to_server(Root(stand_in), server)
    with listening(server) as port:
        yield port


@contextmanager
def listening(server: grpc.Server) -> Iterator[int]:
    """Run a server until the end of the block; yields its port."""
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield port
    finally:
        server.stop(None).wait()


class _Face:
    def __init__(self, stand_in: Answering) -> None:
        self._stand_in = stand_in

    def _ask(self, context: grpc.ServicerContext, method: str, path: str, body: Any = None) -> Any:
        """What a request over HTTP would give; a refusal ends the call."""
        stand_in = self._stand_in
        stand_in.asked.append((method, path))
        fault = stand_in.fault(method, path)
        if fault is not None:
            stand_in.met.append(fault)
        if fault is not None and fault not in DONE_ALL_THE_SAME:
            context.abort(*FAULTS[fault])
        try:
            answer = stand_in.answer(method, path, to_jsonable_python(body, exclude_none=True, by_alias=True) or {})
        except RefusedError as error:
            if error.retry_after is not None:
                context.set_trailing_metadata((("retry-after", str(error.retry_after)),))
            context.abort(_CODES.get(error.status, grpc.StatusCode.INVALID_ARGUMENT), str(error))
        except ValueError as error:
            unknown = "not found" in str(error)
            context.abort(grpc.StatusCode.NOT_FOUND if unknown else grpc.StatusCode.INVALID_ARGUMENT, str(error))
        if fault is not None:
            context.abort(*FAULTS[fault])
        return answer


class Root(_Face, messages.QdrantServicer):
    """The server itself."""

    def HealthCheck(self, request: Any, context: grpc.ServicerContext) -> Any:
        del request, context
        return messages.HealthCheckReply(title="stand-in for a Qdrant server", version=self._stand_in.version)


class Collections(_Face, messages.CollectionsServicer):
    """Collections."""

    def List(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._ask(context, "GET", "/collections").collections
        named = [messages.CollectionDescription(name=each.name) for each in found]
        return messages.ListCollectionsResponse(collections=named)

    def CollectionExists(self, request: Any, context: grpc.ServicerContext) -> Any:
        found = self._ask(context, "GET", f"/collections/{request.collection_name}/exists")
        return messages.CollectionExistsResponse(result=messages.CollectionExists(exists=found["exists"]))

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:
        info = self._ask(context, "GET", f"/collections/{request.collection_name}")
        return messages.GetCollectionInfoResponse(result=RestToGrpc.convert_collection_info(info))

    def Create(self, request: Any, context: grpc.ServicerContext) -> Any:
        body = {
            "vectors": GrpcToRest.convert_vectors_config(request.vectors_config),
            "sparse_vectors": GrpcToRest.convert_sparse_vector_config(request.sparse_vectors_config),
            "hnsw_config": GrpcToRest.convert_hnsw_config_diff(request.hnsw_config),
            "metadata": GrpcToRest.convert_payload(request.metadata),
        }
        for name in ("shard_number", "replication_factor", "write_consistency_factor", "on_disk_payload"):
            body[name] = getattr(request, name) if request.HasField(name) else None
        if request.HasField("sharding_method"):
            body["sharding_method"] = GrpcToRest.convert_sharding_method(request.sharding_method)
        done = self._ask(context, "PUT", f"/collections/{request.collection_name}", body)
        return messages.CollectionOperationResponse(result=bool(done))

    def Update(self, request: Any, context: grpc.ServicerContext) -> Any:
        body: dict[str, Any] = {}
        if request.HasField("hnsw_config"):
            body["hnsw_config"] = GrpcToRest.convert_hnsw_config_diff(request.hnsw_config)
        if request.HasField("vectors_config"):
            body["vectors"] = GrpcToRest.convert_vectors_config_diff(request.vectors_config)
        if request.HasField("params"):
            body["params"] = GrpcToRest.convert_collection_params_diff(request.params)
        if request.HasField("strict_mode_config"):
            body["strict_mode_config"] = GrpcToRest.convert_strict_mode_config(request.strict_mode_config)
        body["metadata"] = GrpcToRest.convert_payload(request.metadata) or None
        answer = self._ask(context, "PATCH", f"/collections/{request.collection_name}", body)
        return messages.CollectionOperationResponse(result=bool(answer))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        done = self._ask(context, "DELETE", f"/collections/{request.collection_name}")
        return messages.CollectionOperationResponse(result=bool(done))


class Points(_Face, messages.PointsServicer):
    """Points."""

    def _points(self, context: grpc.ServicerContext, request: Any, method: str, action: str, body: Any) -> Any:
        path = f"/collections/{request.collection_name}/points{action}"
        if method != "GET" and "ordering" in request.DESCRIPTOR.fields_by_name and request.HasField("ordering"):
            path += f"?ordering={messages.WriteOrderingType.Name(request.ordering.type).lower()}"
        return self._ask(context, method, path, body)

    def Upsert(self, request: Any, context: grpc.ServicerContext) -> Any:
        done = self._points(context, request, "PUT", "", _upserted(request))
        return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(done))

    def UpdateBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        operations = [{"upsert": _upserted(each.upsert)} for each in request.operations]
        done = self._points(context, request, "POST", "/batch", {"operations": operations})
        return messages.UpdateBatchResponse(result=[RestToGrpc.convert_update_result(each) for each in done])

    def UpdateVectors(self, request: Any, context: grpc.ServicerContext) -> Any:
        points = [GrpcToRest.convert_point_vectors(each) for each in request.points]
        done = self._points(context, request, "PUT", "/vectors", {"points": points})
        return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(done))

    def Delete(self, request: Any, context: grpc.ServicerContext) -> Any:
        selector = GrpcToRest.convert_points_selector(request.points)
        done = self._points(context, request, "POST", "/delete", selector)
        return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(done))

    def Get(self, request: Any, context: grpc.ServicerContext) -> Any:
        body = {
            "ids": [GrpcToRest.convert_point_id(each) for each in request.ids],
            "with_payload": GrpcToRest.convert_with_payload_selector(request.with_payload),
            "with_vector": GrpcToRest.convert_with_vectors_selector(request.with_vectors),
        }
        found = self._points(context, request, "POST", "", body)
        return messages.GetResponse(result=[_retrieved(each) for each in found])

    def Scroll(self, request: Any, context: grpc.ServicerContext) -> Any:
        body = {
            "filter": GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None,
            "offset": GrpcToRest.convert_point_id(request.offset) if request.HasField("offset") else None,
            "limit": request.limit if request.HasField("limit") else None,
            "with_payload": GrpcToRest.convert_with_payload_selector(request.with_payload),
            "with_vector": GrpcToRest.convert_with_vectors_selector(request.with_vectors),
        }
        found = self._points(context, request, "POST", "/scroll", body)
        following = found["next_page_offset"]
        return messages.ScrollResponse(
            result=[_retrieved(each) for each in found["points"]],
            next_page_offset=None if following is None else RestToGrpc.convert_extended_point_id(following),
        )

    def Count(self, request: Any, context: grpc.ServicerContext) -> Any:
        wanted = GrpcToRest.convert_filter(request.filter) if request.HasField("filter") else None
        found = self._points(context, request, "POST", "/count", {"filter": wanted, "exact": request.exact})
        return messages.CountResponse(result=RestToGrpc.convert_count_result(found))

    def QueryBatch(self, request: Any, context: grpc.ServicerContext) -> Any:
        searches = [GrpcToRest.convert_query_points(each) for each in request.query_points]
        found = self._points(context, request, "POST", "/query/batch", {"searches": searches})
        batches = [
            messages.BatchResult(result=[RestToGrpc.convert_scored_point(each) for each in answer.points])
            for answer in found
        ]
        return messages.QueryBatchResponse(result=batches)

    def CreateFieldIndex(self, request: Any, context: grpc.ServicerContext) -> Any:
        schema: Any = messages.FieldType.Name(request.field_type).removeprefix("FieldType").lower()
        if request.HasField("field_index_params"):
            schema = GrpcToRest.convert_payload_schema_params(request.field_index_params)
        body = {"field_name": request.field_name, "field_schema": schema}
        done = self._ask(context, "PUT", f"/collections/{request.collection_name}/index", body)
        return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(done))

    def CreateVectorName(self, request: Any, context: grpc.ServicerContext) -> Any:
        made = request.dense_config
        dense = models.DenseVectorConfig(
            size=made.size,
            distance=GrpcToRest.convert_distance(made.distance),
            multivector_config=GrpcToRest.convert_multivector_config(made.multivector_config)
            if made.HasField("multivector_config")
            else None,
            datatype=GrpcToRest.convert_datatype(made.datatype) if made.HasField("datatype") else None,
        )
        return self._vector(context, "PUT", request, models.DenseVectorNameConfig(dense=dense))

    def DeleteVectorName(self, request: Any, context: grpc.ServicerContext) -> Any:
        return self._vector(context, "DELETE", request, None)

    def _vector(self, context: grpc.ServicerContext, method: str, request: Any, body: Any) -> Any:
        path = f"/collections/{request.collection_name}/vectors/{request.vector_name}"
        done = self._ask(context, method, path, body)
        return messages.PointsOperationResponse(result=RestToGrpc.convert_update_result(done))


def _retrieved(record: models.Record) -> Any:
    return RestToGrpc.convert_retrieved_point(record.model_copy(update={"payload": record.payload or {}}))


def _upserted(request: Any) -> dict[str, Any]:
    return {
        "points": [GrpcToRest.convert_point_struct(each) for each in request.points],
        "update_filter": GrpcToRest.convert_filter(request.update_filter)
        if request.HasField("update_filter")
        else None,
        "update_mode": GrpcToRest.convert_update_mode(request.update_mode) if request.HasField("update_mode") else None,
    }
