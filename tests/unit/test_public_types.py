"""The types of public names resolve at run time, as FastAPI and pydantic read them, and load nothing heavy."""

from __future__ import annotations

import dataclasses
import inspect
import json
import subprocess
import sys
from importlib import import_module
from typing import Any, get_type_hints

import fastapi
import pytest
from fastapi.testclient import TestClient
from pydantic import TypeAdapter
from pydantic.errors import PydanticSchemaGenerationError
from tools.docs import documented_names

from twinvec import Hit
from twinvec.errors import StoreBusyError
from twinvec_qdrant import CollectionHit, CollectionHits, FoundHit

PACKAGES = ("twinvec", "twinvec_qdrant")
WITHOUT_JSON = {
    *("Asked", "Helpers"),  # they hold objects of the caller
    *("IrResult", "NliResult", "Reranked", "StorageVariant", "StsResult", "StsSet"),  # arrays
}
SLOW = {"ServingProcess.tls_context"}  # whose types are those of ``ssl``


def public() -> dict[str, Any]:
    """What the reference documents of the two packages, by dotted name."""
    names = [name for name in sorted(documented_names()) if name.partition(".")[0] in PACKAGES]
    return {name: getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2]) for name in names}


def callables(value: Any, name: str) -> list[tuple[str, Any]]:
    """A function, or a class with its public methods and properties."""
    if inspect.isfunction(value):
        return [(name, value)]
    if not inspect.isclass(value):
        return []
    found = [(name, value)]
    for each, member in inspect.getmembers(value):
        member = member.fget if isinstance(member, property) else member
        ours = str(getattr(member, "__module__", "")).startswith(PACKAGES)
        if ours and (each == "__init__" or not each.startswith("_")) and callable(member):
            found.append((f"{value.__name__}.{each}", member))
    return found


def test_annotations_resolve():
    seen = 0
    for name, value in public().items():
        for each, member in callables(value, name):
            if each not in SLOW:
                get_type_hints(member)
                seen += 1
    assert seen > 300


@pytest.mark.parametrize(
    ("name", "kind"), [pair for pair in public().items() if dataclasses.is_dataclass(pair[1])], ids=str
)
def test_pydantic_takes_a_dataclass(name, kind):
    del name
    if kind.__name__ in WITHOUT_JSON:
        with pytest.raises(PydanticSchemaGenerationError):  # and not one of a name that is not found
            TypeAdapter(kind)
    else:
        TypeAdapter(list[kind])


def test_routes_answer_with_hits():
    app = fastapi.FastAPI()
    hit = Hit("a", "green tea", 0.5)

    @app.get("/hits")
    def hits() -> list[Hit]:
        return [hit]

    @app.get("/several")
    def several() -> CollectionHits:
        return CollectionHits([CollectionHit("notes", hit)], {"old": StoreBusyError("busy")})

    @app.get("/found")
    def found() -> FoundHit:
        return FoundHit(hit, "a")

    client = TestClient(app)
    assert [each["id"] for each in client.get("/hits").json()] == ["a"]
    assert client.get("/several").json()["failed"] == {"old": "busy"}
    assert client.get("/found").json()["hit"]["text"] == "green tea"
    assert "CollectionHits" in client.get("/openapi.json").json()["components"]["schemas"]


def test_an_error_goes_through_json():
    adapter = TypeAdapter(CollectionHits)
    before = CollectionHits([], {"old": StoreBusyError("busy")})
    assert str(adapter.validate_json(adapter.dump_json(before)).failed["old"]) == "busy"
    with pytest.raises(ValueError, match="instance of TwinvecError"):
        adapter.validate_python({"hits": [], "failed": {"old": 3}})


def test_resolving_loads_nothing_heavy():
    program = (
        "import json, sys, typing\nimport twinvec, twinvec_qdrant as q\n"
        "hints = [typing.get_type_hints(each) for each in (q.Collection.open, q.Collection.push, q.list_collections,\n"
        "    q.search_collections, q.drop_collection, q.search_as_asked, twinvec.Hit)]\n"
        "print(json.dumps([name for name in ('torch', 'qdrant_client', 'transformers') if name in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []
