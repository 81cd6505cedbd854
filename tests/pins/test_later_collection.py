"""Opens a collection that a version after 0.2.0 wrote (``fixtures/later_collection.tar.xz``).

It has what version 0.1.0 did not know: a source with a description, the second analysis of words, surroundings, code
that is cut at functions, payload indexes, a vocabulary. A change of what they decide would encode all documents of such
a collection again, or find other documents.

The archive has the folder of documents and the model too, which is tiny. Archive and values were made with the code of
commit 9f1838be, of 2026-11-23. Since 2026-11-26, words decide for a query that the model does not know: the hybrid hits
of "日本語", of which a text about leave was the first until then, are of that day. Since 2026-11-29, words count by the
length of the texts, here less than before: all hybrid hits are of that day. Since 2026-11-30, vectors only order what
words leave equal for a query that the model does not know: the scores of "日本語" are of that day, in the same order.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from pins.pinning import FIXTURES, pack, recorded, smallest_folder, unpack
from twinvec import Document, Encoder
from twinvec_qdrant import ChunkSettings, Collection, Root

ARCHIVE = FIXTURES / "later_collection.tar.xz"
FILES = {
    "leave.md": "---\ntitle: Leave\nyear: 2021\n---\n# Annual leave\n\nAsk for leave two weeks ahead.\n\n"
    "## Sick leave\n\nSick leave starts on the first day. It needs a certificate after the third day of absence.\n",
    "de/größe.md": "# Größe\n\nDie Straße ist naß, das Café in Łódź ist geöffnet.\n",
    "ja/日本語.txt": "日本語のテキスト。猫は暖かい日向で眠っています。",
    "retry.py": "import time\n\n\nclass HTTPServer:\n    def getEnvironmentVariable(self, name):\n"
    "        return self.environment[name]\n\n\ndef retry(times):\n    for n in range(times):\n        time.sleep(n)\n",
    "people.jsonl": '{"id": "p#1", "text": "Alice leads accounting.", "dept": "accounting", "age": 41}\n'
    '{"id": "p 2", "text": "Bob repairs bicycles.", "dept": "workshop", "since": "2020-05-01T00:00:00Z"}\n',
    "fees.txt": "Late fees are refunded within 30 days if the invoice was wrong.",
    "fees again.txt": "Late fees are refunded within 30 days if the invoice was wrong.",
    "empty.txt": "",
}
QUERIES = ("environment variable", "cafe in lodz", "sick leave certificate", "日本語", "who repairs bicycles")
SEARCHES: dict[str, dict[str, Any]] = {
    "sparse": {"mode": "sparse"},
    "dense": {"mode": "dense"},
    "hybrid": {"mode": "hybrid"},
    "chunks": {"mode": "hybrid", "group": False},
    "filtered": {"mode": "dense", "filter": {"age": {"gte": 40}}},
}
TOLERANCES = {"sparse": 0, "dense": 1e-6, "filtered": 1e-6}
LOOSEST = 1e-4  # fusion divides cosines by their spread, which is small with this model


def make(folder: Path) -> None:
    """Create the model, the documents and the collection, and write them to the archive."""
    smallest_folder(folder / "model")
    for name, text in FILES.items():
        path = folder / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    chunking = ChunkSettings(max_tokens=32, overlap=4, surroundings=16)
    encoder = Encoder(folder / "model")
    with (
        patch("socket.gethostname", lambda: "host"),
        Collection.open("notes", folder / "store", encoder=encoder, chunking=chunking) as opened,
    ):
        opened.ingest([Document("gone", "This document was removed.")], source="notes")
        opened.ingest(Root(str(folder / "notes")), source="notes", describe={"": "Notes of the office"}, prune=True)
    pack(folder, ARCHIVE)


def values(folder: Path) -> dict[str, Any]:
    """What the archive's collection holds and finds."""
    unpack(ARCHIVE, folder)
    with _opened(folder) as opened:
        return {
            "info": _info(opened),
            "verify": asdict(opened.verify()),
            "documents": [_document(each) for each in opened.get(sorted(opened.find()))],
            **{
                name: [[_hit(hit) for hit in opened.search(query, **options)] for query in QUERIES]
                for name, options in SEARCHES.items()
            },
        }


def _opened(folder: Path) -> Collection:
    return Collection.open("notes", folder / "store", encoder=Encoder(folder / "model"), create=False)


def _info(collection: Collection) -> dict[str, Any]:
    found = collection.info()
    return {name: found[name] for name in ("points", "sources", "chunking", "payload_indexes", "language")}


def _hit(hit: Any) -> dict[str, Any]:
    return {"id": hit.id, "text": hit.text, "score": hit.score, "payload": dict(hit.payload)}


def _document(document: Document) -> dict[str, Any]:
    return {"id": document.id, "text": document.text, "title": document.title, "payload": dict(document.payload)}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    return json.loads(json.dumps(values(tmp_path_factory.mktemp("later"))))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["info", "verify", "documents"])
def test_it_holds_what_it_held(found, name):
    assert found[name] == recorded("later_collection")[name]


@pytest.mark.slow
@pytest.mark.parametrize("name", SEARCHES)
def test_it_finds_what_it_found(found, name):
    for now, then in zip(found[name], recorded("later_collection")[name], strict=True):
        assert [(hit["id"], hit["text"], hit["payload"]) for hit in now] == [
            (hit["id"], hit["text"], hit["payload"]) for hit in then
        ]
        scores = [hit["score"] for hit in then]
        assert [hit["score"] for hit in now] == pytest.approx(scores, rel=0, abs=TOLERANCES.get(name, LOOSEST))


def test_its_folder_is_unchanged(tmp_path):
    unpack(ARCHIVE, tmp_path)
    with _opened(tmp_path) as opened:
        before = _points(opened)
        report = opened.ingest(Root(str(tmp_path / "notes")), source="notes", prune=True)
        assert (report.new, report.updated, report.deleted, report.encoded, report.failures) == (0, 0, 0, 0, [])
        assert report.unchanged == len(opened.find())
        assert _points(opened) == before
        assert opened.verify().sound


def _points(opened: Collection) -> dict[str, Any]:
    """All points by id but notes: that of the source names its folder, which has moved."""
    return {each.id: each.payload for each in opened._backend.scroll([]) if each.payload["kind"] != "note"}
