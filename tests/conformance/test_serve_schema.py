"""The HTTP interface under requests that schemathesis makes from its OpenAPI description, valid ones and others.

No request gets an answer of 500, and every answer is one that the description has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, Phase, given, settings, strategies
from hypothesis.errors import Unsatisfiable

from unit.serve.processes import serving

schemathesis = pytest.importorskip("schemathesis")
schemathesis.serializer.alias("application/x-tar", "application/octet-stream")
of_openapi = pytest.importorskip("schemathesis.specs.openapi.checks")
requests = pytest.importorskip("requests")

pytestmark = pytest.mark.slow

EXAMPLES = 12
"""Requests for each operation in each of two modes: as described, and not."""

STREAMS = {"/mcp"}
"""Paths whose answers end when the client goes."""

CHECKS = [
    schemathesis.checks.not_a_server_error,
    of_openapi.status_code_conformance,
    of_openapi.content_type_conformance,
    of_openapi.response_schema_conformance,
]


@pytest.fixture(scope="module")
def server(tiny_model, tmp_path_factory) -> Iterator[str]:
    """The address of a server with a collection, ``notes``, so that some requests find what they name."""
    with serving(tmp_path_factory.mktemp("server"), tiny_model("bert")) as running:
        httpx.post(f"{running.address}/v1/collections", json={"name": "notes"}, timeout=120).raise_for_status()
        documents = [{"id": f"n{row}", "text": f"note {row} about topic {row % 3}"} for row in range(20)]
        there = f"{running.address}/v1/collections/notes/documents"
        httpx.post(there, json=documents, timeout=120).raise_for_status()
        yield running.address


def test_no_request_makes_the_server_fail(server):
    backup = httpx.get(f"{server}/v1/collections/notes/backup", timeout=120).content
    archives = strategies.one_of(strategies.binary(), strategies.just(backup), strategies.just(backup[: 2**16]))
    schemathesis.openapi.media_type("application/x-tar", archives)
    interface = schemathesis.openapi.from_dict(_without_tuples(httpx.get(f"{server}/openapi.json", timeout=120).json()))
    operations = [each.ok() for each in interface.get_all_operations()]
    names = {(each.method, each.path) for each in operations}
    of_collection = ("search", "tune", "restore", "repair", "migrate", "reindex")
    assert {
        ("post", "/v1/embeddings"),
        *(("post", f"/v1/collections/{{name}}/{each}") for each in of_collection),
    } <= names
    failures: dict[str, str] = {}
    sent: list[int] = []
    with requests.Session() as session:
        for operation in operations:
            if operation.path in STREAMS:
                continue
            for mode in schemathesis.GenerationMode:
                try:
                    _try(operation.as_strategy(generation_mode=mode), server, session, sent)
                except Unsatisfiable:  # without parameters and body, nothing can be wrong
                    assert mode is schemathesis.GenerationMode.NEGATIVE
                except (Exception, BaseExceptionGroup) as error:  # all are shown together
                    found = error.exceptions if isinstance(error, BaseExceptionGroup) else [error]
                    failures[f"{operation.method} {operation.path}, {mode.value}"] = "\n".join(map(str, found))
    assert failures == {}, "\n\n".join(f"{name}: {why}" for name, why in failures.items())
    assert len(sent) > EXAMPLES * len(operations)
    assert {200, 400, 404} <= set(sent)
    assert httpx.get(f"{server}/readyz", timeout=120).status_code == 200


def _try(strategy: Any, server: str, session: Any, sent: list[int]) -> None:
    @given(case=strategy)
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    def run(case: Any) -> None:
        answer = case.call(base_url=server, session=session, timeout=120)
        sent.append(answer.status_code)
        case.validate_response(answer, checks=CHECKS)

    run()


def _without_tuples(part: Any) -> Any:
    """Return a part of the description with lists of one type for pairs, whose checks schemathesis cannot make."""
    if isinstance(part, list):
        return [_without_tuples(each) for each in part]
    if not isinstance(part, dict):
        return part
    kept = {key: _without_tuples(value) for key, value in part.items() if key != "prefixItems"}
    return {**kept, "items": part["prefixItems"][0]} if "prefixItems" in part else kept
