"""The gRPC interface of a real server behind the stand-in's faults; messages pass as they are, but for names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol
from urllib.parse import urlsplit

import grpc
import pytest
from google.protobuf import descriptor_pool, message_factory
from qdrant_client import grpc as messages
from qdrant_client import models
from qdrant_client.conversions.conversion import RestToGrpc

from stand_in.grpc_face import DONE_ALL_THE_SAME, FAULTS, listening
from stand_in.rest import Fault

_ROUTES = {
    "Collections/List": ("GET", ""),
    "Collections/Get": ("GET", ""),
    "Collections/CollectionExists": ("GET", "/exists"),
    "Collections/Create": ("PUT", ""),
    "Collections/Update": ("PATCH", ""),
    "Collections/Delete": ("DELETE", ""),
    "Points/Upsert": ("PUT", "/points"),
    "Points/UpdateBatch": ("POST", "/points/batch"),
    "Points/UpdateVectors": ("PUT", "/points/vectors"),
    "Points/Delete": ("POST", "/points/delete"),
    "Points/Get": ("POST", "/points"),
    "Points/Scroll": ("POST", "/points/scroll"),
    "Points/Count": ("POST", "/points/count"),
    "Points/QueryBatch": ("POST", "/points/query/batch"),
    "Points/CreateFieldIndex": ("PUT", "/index"),
    "Points/CreateVectorName": ("PUT", "/vectors"),
    "Points/DeleteVectorName": ("DELETE", "/vectors"),
}
"""What a call would be over HTTP, which is how tests name the requests that meet a fault."""

_READY_SECONDS = 5
_LARGEST = [("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1)]


class Named(Protocol):
    """What the interface stands before."""

    fault: Callable[[str, str], Fault | None]
    met: list[Fault]
    asked: list[tuple[str, str]]
    prefix: str
    strict: models.StrictModeConfig | None

    def pass_time(self) -> None:
        """Give budgets what the pauses of the tests' clock add to them."""


@contextmanager
def serving(front: Named, url: str, key: str | None) -> Iterator[int]:
    """Forward calls to the server at ``url``, whose port for gRPC follows that for REST; yields the port.

    Without an answer at that port, the test is skipped.
    """
    behind = urlsplit(url)
    place = f"{behind.hostname}:{(behind.port or 6333) + 1}"
    secret = grpc.ssl_channel_credentials()
    made = (
        grpc.secure_channel(place, secret, _LARGEST)
        if behind.scheme == "https"
        else grpc.insecure_channel(place, _LARGEST)
    )
    with made as channel:
        try:
            grpc.channel_ready_future(channel).result(_READY_SECONDS)
        except grpc.FutureTimeoutError:
            pytest.skip(f"the server of QDRANT_URL does not answer over gRPC at {place}")
        server = grpc.server(ThreadPoolExecutor(8), (_Forwarded(front, channel, key),), options=_LARGEST)
        with listening(server) as port:
            yield port


class _Forwarded(grpc.GenericRpcHandler):
    def __init__(self, front: Named, channel: grpc.Channel, key: str | None) -> None:
        self._front, self._channel = front, channel
        self._headers = [("api-key", key)] if key else []

    def service(self, call: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        """Return what answers a call."""
        name, _, method = call.method.removeprefix("/").rpartition("/")
        described = descriptor_pool.Default().FindServiceByName(name).methods_by_name[method]
        asked, given = (message_factory.GetMessageClass(each) for each in (described.input_type, described.output_type))
        run = self._channel.unary_unary(call.method, asked.SerializeToString, given.FromString)

        def answer(request: Any, context: grpc.ServicerContext) -> Any:
            return self._answer(call.method, run, request, context)

        return grpc.unary_unary_rpc_method_handler(answer, asked.FromString, given.SerializeToString)

    def _answer(self, method: str, run: Callable[..., Any], request: Any, context: grpc.ServicerContext) -> Any:
        front = self._front
        fault = self._fault(method, request)
        if fault is not None and fault not in DONE_ALL_THE_SAME:
            context.abort(*FAULTS[fault])
        front.pass_time()
        if getattr(request, "collection_name", ""):
            request.collection_name = front.prefix + request.collection_name
        if isinstance(request, messages.CreateCollection) and front.strict is not None:
            request.strict_mode_config.CopyFrom(RestToGrpc.convert_strict_mode_config(front.strict))
        try:
            answer = run(request, timeout=context.time_remaining(), metadata=self._headers)
        except grpc.RpcError as error:
            context.set_trailing_metadata(error.trailing_metadata())
            context.abort(error.code(), error.details().replace(front.prefix, ""))
        if fault is not None:
            context.abort(*FAULTS[fault])
        if isinstance(answer, messages.ListCollectionsResponse):
            names = [each.name.removeprefix(front.prefix) for each in answer.collections if front.prefix in each.name]
            del answer.collections[:]
            answer.collections.extend(messages.CollectionDescription(name=each) for each in names)
        return answer

    def _fault(self, method: str, request: Any) -> Fault | None:
        """Note a call, and return the fault that it meets."""
        service, name = method.split("/")[1:]
        verb, action = _ROUTES.get(f"{service.rpartition('.')[2]}/{name}", ("GET", f"/{name}"))
        collection = getattr(request, "collection_name", "")
        path = f"/collections/{collection}".rstrip("/") + action
        if "ordering" in request.DESCRIPTOR.fields_by_name and request.HasField("ordering"):
            path += f"?ordering={messages.WriteOrderingType.Name(request.ordering.type).lower()}"
        self._front.asked.append((verb, path))
        fault = self._front.fault(verb, path)
        if fault is not None:
            self._front.met.append(fault)
        return fault
