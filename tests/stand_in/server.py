"""The stand-in as a running server."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qsl, unquote

from pydantic_core import to_json
from qdrant_client import models

from stand_in.actions import Actions
from stand_in.forwarding import Forwarding
from stand_in.rest import Front
from stand_in.strict import RefusedError


class StandIn(Front):
    """A running server.

    Attributes:
        version: What it says that its version is.
        peers: The nodes of the cluster; None for a server alone.
        is_scoped: Whether the API key is a token for one collection with the access ``rw``, which permits no change of
            the collection itself (lib/storage/src/rbac/ops_checks.rs, collection_meta_ops: global manage access).
    """

    def __new__(cls, clock: Callable[[], float] = time.monotonic) -> Any:
        """Return ``Forwarding`` to the server that QDRANT_URL names, if it names one."""
        url = os.environ.get("QDRANT_URL")
        return Forwarding(url, os.environ.get("QDRANT_API_KEY"), clock) if url else super().__new__(cls)

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.version = "1.18.3"
        self.peers: models.ClusterStatusOneOf1 | None = None
        self.is_scoped = False
        self._actions = Actions(clock)
        self._turn = threading.Lock()

    def respond(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes, int | None]:
        try:
            result = self.answer(method, path, body)
        except RefusedError as error:
            return error.status, to_json({"status": {"error": str(error)}}), error.retry_after
        except KeyError as error:  # a point to update does not exist; those before it are updated
            return 404, to_json({"status": {"error": f"Not found: No point with id {error} found"}}), None
        except ValueError as error:
            return 404 if "not found" in str(error) else 400, to_json({"status": {"error": str(error)}}), None
        answer = result if path == "/" else {"result": result, "status": "ok", "time": 0.0}
        return 200, to_json(answer), None

    def answer(self, method: str, path: str, body: dict[str, Any]) -> Any:
        """What the server gives for a request."""
        if path == "/":
            return {"title": "stand-in for a Qdrant server", "version": self.version}
        if path == "/cluster":
            return self.peers or {"status": "disabled"}
        route = path.partition("?")[0].removeprefix("/collections").strip("/")
        name, _, action = route.partition("/")
        name = unquote(name)
        if self.is_scoped and name and method != "GET" and action in ("", "shards", "cluster"):
            raise RefusedError(403, "Forbidden: Global access is required")
        with self._turn:
            self._actions.clustered = self.peers is not None
            self._actions.version = self.version
            options = dict(parse_qsl(path.partition("?")[2]))
            self._actions.ordering = options.get("ordering")
            return self._actions.do(f"{method} {action}".strip() if name else method, name, body)

    def be_strict(self, config: models.StrictModeConfig, name: str | None = None) -> None:
        """Set limits: for the collection of this name, or for those that are made from now on."""
        if name is None:
            self._actions.strict = config
        else:
            self._actions.restrict(name, config)

    def be_cluster(self, nodes: int) -> None:
        """Be one of so many nodes of a cluster."""
        self.peers = models.ClusterStatusOneOf1(
            status="enabled",
            peer_id=1,
            peers={str(peer): models.PeerInfo(uri=f"http://node-{peer}:6335") for peer in range(1, nodes + 1)},
            raft_info=models.RaftInfo(term=1, commit=1, pending_operations=0, leader=1, role="Leader", is_voter=True),
            consensus_thread_status=models.ConsensusThreadStatusOneOf1(consensus_thread_status="stopped"),
            message_send_failures={},
        )

    @contextmanager
    def over_grpc(self) -> Iterator[int]:
        """Serve the same over gRPC until the end of the block; yields the port."""
        from stand_in.grpc_face import serving

        with serving(self) as port:
            yield port

    @property
    def actions(self) -> Actions:
        """What requests do."""
        return self._actions

    @property
    def graphs(self) -> list[int]:
        """The edges of a node of the index (m) after every update of a collection's settings."""
        return self._actions.graphs

    @property
    def fields(self) -> set[str]:
        """The payload fields with an index, of all collections."""
        return self._actions.fields
