"""Opens collections that version 0.1.0 wrote (``fixtures/collections.tar.xz``) with the code of today.

They stand for the users' own: each opens, holds what it held, finds what it found with the same scores, and takes an
ingest of the same documents for what it is, without encoding any of them. The archive is small because the engine's
files, which are mostly holes, are compressed.

The model is ``default``, which is not in the archive. Scores of words are compared exactly. Scores that depend on the
vector of a query have a tolerance, since engines and processors differ in the last bits of it: 1e-6 for cosines, 1e-5
for hybrid search, which divides cosines by their spread, and for MaxSim, which sums them.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from pins.pinning import FIXTURES, pack, recorded, unpack
from twinvec import Document, RetrieveRerank
from twinvec.retrieval.tuned_search import Setting, save, saved
from twinvec_qdrant import ChunkSettings, Collection

ARCHIVE = FIXTURES / "collections.tar.xz"
TEXTS = {
    "leave": "Annual leave has to be asked for two weeks ahead. Sick leave starts on the first day.",
    "certificates/renew.md": "# Certificates\n\nHow to renew a certificate: run the tool.\n\n## Keys\n\nKeys stay.",
    "fees": "Late fees are refunded within 30 days if the invoice was wrong.",
    "moon": "In 1969 two men walked on the moon, 384,400 km away from home, and came back safely.",
    "größe": "Größe und Façade: naïve Café in Łódź. 日本語のテキスト. Москва.",
    "code": "def retry(times: int) -> None: raise NotImplementedError  # TODO",
    "dogs": "The quick brown fox jumps over the lazy dog. " * 40,
    "cats": "The old cat sleeps in the warm sun while the dog barks.",
    "copy": "Late fees are refunded within 30 days if the invoice was wrong.",
}
DOCUMENTS = [
    Document(name, text, "Title" if name == "fees" else "", {"lang": "de" if name == "größe" else "en", "year": year})
    for year, (name, text) in enumerate(TEXTS.items(), 2015)
]
QUERIES = ("how do I renew a certificate", "refund of late fees", "日本語 Größe", "a sleeping dog")
SEARCHES: dict[str, dict[str, Any]] = {
    "dense": {"mode": "dense"},
    "sparse": {"mode": "sparse"},
    "hybrid": {"mode": "hybrid"},
    "weighted": {"mode": "hybrid", "weights": (1.0, 0.3)},
    "chunks": {"mode": "hybrid", "group": False},
    "filtered": {"mode": "dense", "filter": {"lang": "en", "year": {"gte": 2017}}},
    "second page": {"mode": "hybrid", "offset": 2, "limit": 3},
}
TOLERANCES = {"dense": 1e-6, "sparse": 0, "filtered": 1e-6}
LOOSEST = 1e-5


def make(folder: Path) -> None:
    """Make the collections and pack them."""
    with Collection.open("docs", folder, chunking=ChunkSettings(max_tokens=64, overlap=8)) as opened:
        opened.ingest([*DOCUMENTS[:3], Document("gone", "This document was removed.")])
        opened.ingest([Document("moon", "An older version."), *DOCUMENTS], prune=True)
        opened.ingest(DOCUMENTS, prune=True)
        save(opened, Setting("hybrid", 0.5, 0.4, 50), "ndcg@10")
    options: dict[str, Any] = {"chunking": False, "tenant_key": "lang", "late_interaction": True}
    with Collection.open("states", folder, language="german", **options) as opened:
        opened.ingest(_short())
    pack(folder, ARCHIVE)


def values(folder: Path) -> dict[str, Any]:
    """What the archive's collections hold and find."""
    unpack(ARCHIVE, folder)
    with Collection.open("docs", folder, create=False) as opened:
        hits = {
            name: [[_hit(hit) for hit in opened.search(query, **options)] for query in QUERIES]
            for name, options in SEARCHES.items()
        }
        found = {
            "info": _info(opened),
            "documents": [_document(each) for each in opened.get(sorted(TEXTS))],
            "verify": asdict(opened.verify()),
            **hits,
        }
    with Collection.open("states", folder, create=False) as opened:
        search = RetrieveRerank(opened, opened.maxsim(), candidates=5)
        maxsim = [[_hit(hit) for hit in search.search(query, filter={"lang": "en"})] for query in QUERIES]
        return {**found, "states": _info(opened), "maxsim": maxsim}


def _short() -> list[Document]:
    return [document for document in DOCUMENTS if document.id in ("leave", "größe", "code", "cats")]


def _info(collection: Collection) -> dict[str, Any]:
    found = collection.info()
    assert collection.count() == found["points"]
    return {**found, "location": Path(found["location"]).name}


def _hit(hit: Any) -> dict[str, Any]:
    return {**_then(asdict(hit)), "payload": dict(hit.payload)}


def _then(hit: dict[str, Any]) -> dict[str, Any]:
    """Return the fields that a hit had when the values were recorded; it has got more since."""
    return {name: hit[name] for name in ("id", "text", "score", "scores", "payload")}


def _document(document: Document) -> dict[str, Any]:
    return {"id": document.id, "text": document.text, "title": document.title, "payload": dict(document.payload)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """The folder of the collections, for tests that change nothing in them."""
    return tmp_path_factory.mktemp("old")


@pytest.fixture(scope="module")
def found(folder):
    return json.loads(json.dumps(values(folder)))


@pytest.mark.parametrize("name", ["info", "documents", "verify", "states"])
def test_it_holds_what_it_held(found, name):
    assert found[name] == recorded("old_collection")[name]


@pytest.mark.parametrize("name", [*SEARCHES, "maxsim"])
def test_it_finds_what_it_found(found, name):
    tolerance = TOLERANCES.get(name, LOOSEST)
    for now, then in zip(found[name], recorded("old_collection")[name], strict=True):
        assert [hit["id"] for hit in now] == [hit["id"] for hit in then]
        for hit, before in zip(now, then, strict=True):
            assert {"text": hit["text"], "payload": hit["payload"]} == {
                "text": before["text"],
                "payload": before["payload"],
            }
            assert hit["score"] == pytest.approx(before["score"], rel=0, abs=tolerance)
            assert hit["scores"] == pytest.approx(before["scores"], rel=0, abs=tolerance)


@pytest.mark.slow
def test_what_is_there_is_unchanged(encoder, tmp_path):
    unpack(ARCHIVE, tmp_path)
    for name, documents in (("docs", DOCUMENTS), ("states", _short())):
        with Collection.open(name, tmp_path, encoder=encoder, create=False) as opened:
            before = opened.count()
            report = opened.ingest(documents, prune=True)
            assert (report.unchanged, report.encoded, report.chunks) == (len(documents), 0, 0), report
            assert (report.new, report.updated, report.deleted, report.failures) == (0, 0, 0, [])
            assert opened.count() == before
            report = opened.ingest([Document("moon", "A newer version.", payload={"lang": "en"})])
            assert (report.new + report.updated, report.encoded) == (1, 1), report
            assert opened.verify().sound


def test_how_it_is_searched_is_still_known(found, folder, encoder):
    with Collection.open("docs", folder, encoder=encoder, create=False) as opened:
        assert saved(opened) == Setting("hybrid", 0.5, 0.4, 50)


def test_commands_open_it(twinvec, found, folder, tmp_path):
    place = ("--collection", "docs", "--path", folder, "--json")
    info = json.loads(twinvec("info", *place).out)
    assert {**info, "location": "docs"} == recorded("old_collection")["info"]
    hits = json.loads(twinvec("search", QUERIES[1], "--mode", "sparse", *place).out)["hits"]
    assert [_then(hit) for hit in hits] == recorded("old_collection")["sparse"][1]
    source = tmp_path / "documents.jsonl"
    source.write_text("".join(json.dumps(_line(document)) + "\n" for document in DOCUMENTS), encoding="utf-8")
    report = json.loads(twinvec("ingest", source, *place).out)
    assert (report["unchanged"], report["encoded"]) == (len(DOCUMENTS), 0)


def _line(document: Document) -> dict[str, Any]:
    return {"id": document.id, "text": document.text, "title": document.title, **document.payload}


@pytest.mark.slow
def test_pruning_asks_which_source_the_documents_are_from(twinvec, tmp_path):
    folder, store = tmp_path / "notes", tmp_path / "store"
    unpack(ARCHIVE, store)
    folder.mkdir()
    (folder / "leave").write_text(TEXTS["leave"])
    place = ("--collection", "docs", "--path", store)
    asked = twinvec("ingest", folder, *place, "--prune")
    assert asked.code == 1
    assert "--source 'notes'" in " ".join(asked.err.split())
    left = json.loads(twinvec("info", *place, "--json").out)
    assert (left["sources"], left.get("roots", [])) == (len(TEXTS), [])
    said = json.loads(twinvec("ingest", folder, *place, "--prune", "--source", "notes", "--json").out)
    assert (said["updated"], said["deleted"]) == (1, len(TEXTS) - 1), said
    assert [each["name"] for each in json.loads(twinvec("info", *place, "--json").out)["roots"]] == ["notes"]
