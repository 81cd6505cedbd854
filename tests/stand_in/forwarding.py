"""A real server behind the stand-in's faults, so that the tests of the stand-in run on it, too.

Every ``Forwarding`` has collections of its own: on the server, their names begin with a prefix, which requests and
answers do not show. A pause of the tests' clock fills the budgets of a minute up on the server, too. A test that asks
for what only the stand-in can do is skipped.
"""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.request
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self
from urllib.error import HTTPError

import pytest
from pydantic_core import from_json, to_json
from qdrant_client import models

from stand_in.rest import Front

_SPENDING = {"read_rate_limit": ("/points", "ids"), "write_rate_limit": ("/points/delete", "points")}
"""What takes an operation a point from the budget of a minute, even if the points do not exist."""


class Forwarding(Front):
    """A server that forwards requests to the one at ``url``; its interface is that of ``StandIn``."""

    def __init__(self, url: str, key: str | None, clock: Callable[[], float]) -> None:
        super().__init__()
        self._clock = None if clock is time.monotonic else clock
        self._then = clock()
        self._turn = threading.Lock()
        self.graphs: list[int] = []
        self._behind, self._key = url.rstrip("/"), key
        self.prefix = f"tests-{uuid.uuid4().hex[:12]}-"
        self.strict: models.StrictModeConfig | None = None

    def __getattr__(self, name: str) -> Any:
        pytest.skip(f"a real server has no {name}: this is a test of the stand-in")

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("version", "is_scoped"):
            pytest.skip(f"a test cannot set the {name} of a real server")
        super().__setattr__(name, value)

    @contextmanager
    def running(self) -> Iterator[Self]:
        """Serve until the end of the block, and delete the collections then."""
        try:
            with super().running():
                yield self
        finally:
            for name in self._names():
                self._forward("DELETE", f"/collections/{name}", {})

    def be_strict(self, config: models.StrictModeConfig, name: str | None = None) -> None:
        """Set limits: for the collection of this name, or for those that are made from now on."""
        if name is None:
            self.strict = config
        else:
            self.respond("PATCH", f"/collections/{name}", {"strict_mode_config": config.model_dump(exclude_none=True)})

    @contextmanager
    def over_grpc(self) -> Iterator[int]:
        """Forward gRPC as well until the end of the block; yields the port."""
        from stand_in.grpc_forwarding import serving

        with serving(self, self._behind, self._key) as port:
            yield port

    @property
    def fields(self) -> set[str]:
        """The payload fields with an index, of all collections."""
        return {
            field
            for name in self._names()
            for field in from_json(self._forward("GET", f"/collections/{name}", {})[1])["result"]["payload_schema"]
        }

    def pass_time(self) -> None:
        """Give budgets what the pauses of the tests' clock add to them; the server's own clock does not see these."""
        with self._turn:
            if self._clock is None or (passed := self._clock() - self._then) == 0:
                return
            self._then += passed
            for name in self._names():
                config = from_json(self._forward("GET", f"/collections/{name}", {})[1])["result"]["config"]
                paces = {
                    key: most for key, most in (config.get("strict_mode_config") or {}).items() if key in _SPENDING
                }
                spent = {key: most - self._left(name, key, most) - passed * most / 60 for key, most in paces.items()}
                if paces:  # settings that are set again, changed or not, fill all budgets
                    self._forward("PATCH", f"/collections/{name}", {"strict_mode_config": paces})
                for key, cost in spent.items():
                    self._spend(name, key, int(cost))

    def respond(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes, int | None]:
        """Forward a request, and return the answer; its names of collections have no prefix."""
        self.pass_time()
        if method == "PUT" and re.fullmatch(r"/collections/[^/?]+(\?.*)?", path) and self.strict is not None:
            body = body | {"strict_mode_config": self.strict.model_dump(exclude_none=True)}
        if method == "PATCH" and (graph := body.get("hnsw_config") or {}).get("m") is not None:
            self.graphs.append(graph["m"])
        path = re.sub(r"^/collections/(?!aliases(?:\?|$))(?=[^?])", f"/collections/{self.prefix}", path)
        status, answer, pause = self._forward(method, path, self._prefixed(body, path))
        if path.partition("?")[0] in ("/collections", "/aliases"):
            answer = self._own(answer)
        return status, answer.replace(self.prefix.encode(), b""), pause

    def _left(self, name: str, pace: str, most: int) -> float:
        """Return what is left of a budget; one that is full is used up."""
        status, answer = self._spend(name, pace, most)
        return float(re.findall(rb"only ([0-9.]+) were", answer)[0]) if status == 429 else most

    def _spend(self, name: str, pace: str, cost: int) -> tuple[int, bytes]:
        """Take operations from a budget."""
        if cost <= 0:
            return 200, b""
        path, key = _SPENDING[pace]
        unknown = [str(uuid.uuid4()) for _ in range(cost)]
        return self._forward("POST", f"/collections/{name}{path}", {key: unknown})[:2]

    def _prefixed(self, body: Any, path: str) -> Any:
        """Return the body of a request with the prefix before the names of collections and aliases."""
        if path.partition("?")[0] != "/collections/aliases":
            return body
        return {
            "actions": [
                {kind: {key: self.prefix + name for key, name in names.items()}}
                for action in body["actions"]
                for kind, names in action.items()
            ]
        }

    def _own(self, answer: bytes) -> bytes:
        """Return a list of collections or aliases without those that others have made on the server."""
        said = from_json(answer)
        for kind, items in said["result"].items():
            name = "name" if kind == "collections" else "collection_name"
            said["result"][kind] = [item for item in items if item[name].startswith(self.prefix)]
        return to_json(said)

    def _names(self) -> list[str]:
        said = from_json(self._forward("GET", "/collections", {})[1])
        return [one["name"] for one in said["result"]["collections"] if one["name"].startswith(self.prefix)]

    def _forward(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, bytes, int | None]:
        headers = {"content-type": "application/json"} | ({"api-key": self._key} if self._key else {})
        data = json.dumps(body).encode() if body or method in ("PUT", "POST", "PATCH") else None
        request = urllib.request.Request(self._behind + path, data, headers, method=method)
        try:
            with urllib.request.urlopen(request) as answer:
                return answer.status, answer.read(), None
        except HTTPError as error:
            pause = error.headers.get("retry-after")
            return error.code, error.read(), int(pause) if pause else None
