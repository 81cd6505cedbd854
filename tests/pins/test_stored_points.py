"""Pins what a collection keeps of documents: ids and payloads of its points, versions, BM25 weights, its description.

An id, a version or a key that changes makes every document of every collection new: the next ingest encodes all again,
and what was there before stays behind as rubbish or is not found at all. The ids are the same in every process, which
is what makes killed ingests and two writers safe.

The collections have version 1 of the analysis of words, and record no version of the reading of files, as those do that
users made before there were others.

The store is Qdrant's own client in memory, so that the points are read as Qdrant has them; the description of an
embedded collection is read from its ``collection.json``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

from qdrant_client import QdrantClient

from langchain_twinvec import TwinvecRecordManager
from pins.pinning import check
from twinvec import Document, Encoder
from twinvec.retrieval import analysis
from twinvec.retrieval.tuned_search import Setting, save
from twinvec_qdrant import ChunkSettings, Collection, IndexSettings, opening
from twinvec_qdrant.records.schema import canonical, chunk_id, digest, intent_id, note_id, record_id
from twinvec_qdrant.records.writer_process import Writer
from words import StateEncoder, WordEncoder

LONG = " ".join(f"The quick brown fox number {n} jumps over the lazy dog." for n in range(12))
GUIDE = f"# Guide\n\nIntro.\n\n## Größe\n\n{LONG}\n\n### 日本語\n\n日本語のテキスト 384,400.\n"
DOCUMENTS = (
    Document("plain", "A text to find again."),
    Document("größe/日本語.txt", "Größe, façade, naïve: Москва 日本語 👩‍👩‍👧", "Der Titel — 題"),
    Document("payload", "With a payload.", payload={"b": [1, 2.5, None, True], "a": {"ü": "x"}, "year": 2020}),
    Document("node", "Of LlamaIndex.", payload={"doc_id": "1", "_node_type": "TextNode", "lang": "en"}),
    Document("guide.md", GUIDE, "The guide", {"lang": "de"}),
    Document("empty", ""),
)


class Watched(QdrantClient):
    """Notes the payload of the intent, which is gone when a commit is done."""

    intent: dict[str, Any] | None = None

    def upsert(self, collection_name, points, **options):
        for point in points:
            if point.payload["kind"] == "intent":
                self.intent = point.payload
        return super().upsert(collection_name, points, **options)


def values(folder: Path) -> dict[str, Any]:
    """Points and descriptions, by collection."""
    chunking = ChunkSettings(max_tokens=24, overlap=4)
    whole = {"chunking": False, "encoder": WordEncoder(dim=8)}
    cut = {"chunking": chunking, "encoder": WordEncoder(dim=8, max_tokens=32)}
    tenants = {"chunking": False, "encoder": WordEncoder(dim=8), "tenant_key": "lang", "language": "german"}
    states = {"chunking": False, "encoder": StateEncoder(dim=8), "late_interaction": True}
    index = {"chunking": False, "encoder": WordEncoder(dim=8), "index": IndexSettings("int8", ef=64)}
    owned = [document for document in DOCUMENTS if "lang" in document.payload]
    with Collection.open("default", folder, encoder=Encoder("default", dim=16, max_tokens=64)) as opened:
        opened.ingest(DOCUMENTS)
    description = json.loads((folder / "default" / "collection.json").read_text())
    for probe in description["probes"]:  # its vectors are pinned elsewhere, and differ by engines in the last bit
        probe["vector"] = len(probe["vector"])
    return {
        "whole": _stored(whole, DOCUMENTS),
        "cut": _stored(cut, DOCUMENTS),
        "tenants": _stored(tenants, owned),
        "states": _stored(states, DOCUMENTS[:1]),
        "index": _stored(index, DOCUMENTS[:1]),
        "embedded": {"description": description, "order": list(description), "files": _files(folder / "default")},
        "ids": {
            "record": record_id("größe/日本語.txt"),
            "chunk": chunk_id("größe/日本語.txt", 3, "0123456789abcdef"),
            "intent": intent_id("0123456789abcdef"),
            "note": note_id("twinvec.search", "setting"),
        },
        "hashes": {
            "digest": digest("one", "", "größe 日本語"),
            "canonical": canonical({"b": [1, 2.5, None, True], "a": {"ü": "x", "b": "\u2028"}}),
        },
        "writer": list(Writer.this().as_payload()),
    }


def _stored(options: dict[str, Any], documents: list[Document]) -> dict[str, Any]:
    """Everything that the store has: the description, and the points by id."""
    client = Watched(":memory:")
    with Collection.open("pinned", client=client, **options) as opened:
        report = opened.ingest(documents)
        assert (report.new, report.failures) == (len(documents), [])
        save(opened, Setting("hybrid", 0.5, 0.4, 50), "ndcg@10")
        opened.notes("größe").put({"a key": {"any": ["value", 1]}})
        TwinvecRecordManager(opened).update(["plain"], group_ids=["group"])
    points, rest = client.scroll("pinned", limit=1000, with_payload=True, with_vectors=True)
    assert rest is None
    info = client.get_collection("pinned")
    client.close()
    return {
        "description": info.config.metadata,
        "order": list(info.config.metadata),
        "intent": {key: type(value).__name__ for key, value in client.intent.items()},
        "points": {str(point.id): _point(point) for point in sorted(points, key=lambda point: str(point.id))},
    }


def _point(point: Any) -> dict[str, Any]:
    payload = dict(point.payload)
    if "revision" in payload:  # drawn by lot
        assert len(payload["revision"]) == 32
        payload["revision"] = ""
    if payload.get("namespace") == "record-manager/langchain":
        payload["metadata"]["time"] = 0
    vectors = dict(point.vector or {})
    sparse = {name: vectors[name] for name in vectors if hasattr(vectors[name], "indices")}
    words = {name: [each.indices, each.values] for name, each in sparse.items()}
    return {"payload": payload, "vectors": sorted(vectors), "sparse": words}


def _files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_points_and_descriptions_are_those_of_before(tmp_path):
    with patch.object(analysis, "NEWEST_ANALYSIS", 1), patch.object(opening, "NEWEST_READING", None):
        check("stored_points", values(tmp_path))
