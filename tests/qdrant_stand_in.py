"""A stand-in for a Qdrant server: its HTTP interface before the client's local mode, with faults at will.

What twinvec asks of a server, and no more. Every request may meet a fault; see ``Fault``.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import from_json, to_json
from qdrant_client import QdrantClient, models


class Fault(Enum):
    """What happens to a request.

    REFUSED: the connection is closed and nothing done. DROPPED: it is done, and the connection closed before the
    answer. STALLED: it is done, and no answer comes. BUSY: 503. LIMITED: 429 with Retry-After.
    """

    REFUSED = "refused"
    DROPPED = "dropped"
    STALLED = "stalled"
    BUSY = "busy"
    LIMITED = "limited"


class StandIn:
    """A running server.

    Attributes:
        url: Its address.
        fault: Called with method and path of every request; the fault that it meets, or None.
        met: The faults so far.
        graphs: The edges of a node of the index (m) after every update of a collection's settings.
        fields: The payload fields with an index, of all collections.
    """

    def __init__(self) -> None:
        self.fault: Callable[[str, str], Fault | None] = lambda method, path: None
        self.met: list[Fault] = []
        self.graphs: list[int] = []
        self.fields: set[str] = set()
        self._index: dict[str, dict[str, Any]] = {}
        self._client = QdrantClient(":memory:")
        self._turn = threading.Lock()
        self.over = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    @contextmanager
    def running(self) -> Iterator[StandIn]:
        """Serve until the end of the block."""
        thread = threading.Thread(target=self._server.serve_forever)
        thread.start()
        try:
            yield self
        finally:
            self.over.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the server gives for a request."""
        route = path.partition("?")[0].removeprefix("/collections").strip("/")
        name, _, action = route.partition("/")
        with self._turn:
            return self._do(f"{method} {action}".strip() if name else method, name, body)

    def _do(self, action: str, name: str, body: dict[str, Any]) -> Any:
        client = self._client
        if not name:
            return client.get_collections()
        if action == "GET exists":
            return {"exists": client.collection_exists(name)}
        if action == "GET":
            info = client.get_collection(name)
            info.config = info.config.model_copy(update=self._index[name])
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
            self.fields.add(body["field_name"])
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


def _handler(stand_in: StandIn) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            fault = stand_in.fault(self.command, self.path)
            if fault is not None:
                stand_in.met.append(fault)
            if fault in (Fault.BUSY, Fault.LIMITED):
                self._send(503 if fault is Fault.BUSY else 429, b"{}")
                return
            if fault is not Fault.REFUSED:
                status, answer = self._done(from_json(body) if body else {})
            if fault is None:
                self._send(status, answer)
                return
            if fault is Fault.STALLED:
                stand_in.over.wait()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def _done(self, body: dict[str, Any]) -> tuple[int, bytes]:
            try:
                result = stand_in.answer(self.command, self.path, body)
            except ValueError as error:
                return 404 if "not found" in str(error) else 400, to_json({"status": {"error": str(error)}})
            return 200, to_json({"result": result, "status": "ok", "time": 0.0})

        def _send(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            if status == 429:
                self.send_header("retry-after", "0")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "POST", "PATCH", "DELETE"):
        setattr(Handler, f"do_{method}", Handler._answer)
    return Handler
