"""The command ``twinvec adopt``, in place on a server and as a copy from a folder."""

from __future__ import annotations

import json
import re
from contextlib import closing

import pytest
from qdrant_client import QdrantClient, models

from stand_in import StandIn
from twinvec import Encoder
from twinvec.errors import StoreError
from twinvec_qdrant.stores.server.backend import ServerBackend

NAME = "theirs"
TEXTS = [f"note {row} about topic {row % 7}" for row in range(12)]


def fill(client: QdrantClient, model: str) -> None:
    encoder = Encoder(model)
    client.create_collection(
        NAME, vectors_config=models.VectorParams(size=encoder.dim, distance=models.Distance.COSINE)
    )
    points = [
        models.PointStruct(id=row, vector=vector.tolist(), payload={"page_content": text, "metadata": {"number": row}})
        for row, (text, vector) in enumerate(zip(TEXTS, encoder.encode_document(TEXTS), strict=True))
    ]
    client.upsert(NAME, [*points, models.PointStruct(id=99, vector=points[0].vector, payload={})])


@pytest.fixture
def server(tiny_model):
    with StandIn().running() as running:
        fill(QdrantClient(running.url, check_compatibility=False, timeout=60), str(tiny_model("bert")))
        yield running


def test_in_place_then_searched_by_the_other_commands(twinvec, server, tiny_model):
    place = ("--url", server.url, "--collection", NAME)
    adopt = ("adopt", *place, "--layout", "langchain", "--model", tiny_model("bert"))
    counted = twinvec(*adopt, "--dry-run")
    assert (counted.code, "would be adopted" in counted.out, "lowest cosine 1.0000" in counted.out) == (3, True, True)
    assert twinvec("info", *place).code == 1
    done = twinvec(*adopt, "--json")
    assert done.code == 3
    report = json.loads(done.out)
    assert (report["adopted"], report["skipped"], report["compared"]) == (12, 1, 12)
    assert report["skips"] == [["99", "it has no text"]]
    info = json.loads(twinvec("info", *place, "--json").out)
    assert (info["layout"]["name"], info["points"]) == ("langchain", 12)
    shown = twinvec("info", *place).out
    assert "langchain" in shown
    assert re.search(r"vector +without a name", shown)
    hits = json.loads(twinvec("search", TEXTS[5], *place, "--mode", "sparse", "--json").out)["hits"]
    assert hits[0]["id"] == "5"
    again = twinvec("adopt", *place, "--layout", "langchain")  # by the recorded model
    assert "skipped: 99: it has no text" in again.err


def test_a_list_says_how_to_finish_an_adoption(twinvec, server, tiny_model, monkeypatch):
    def fails(*_):
        raise StoreError("the disk is full")

    place = ("--url", server.url)
    adopt = ("adopt", *place, "--collection", NAME, "--layout", "langchain")
    with monkeypatch.context() as patched:
        patched.setattr(ServerBackend, "commit", fails)
        assert twinvec(*adopt, "--model", tiny_model("bert")).code == 1
    assert "run twinvec adopt again" in " ".join(twinvec("collections", *place).out.split())
    assert twinvec(*adopt).code == 3
    assert "adopt" not in twinvec("collections", *place).out


def test_another_model_is_an_error_with_the_cosines(twinvec, server, tiny_model):
    other = tiny_model("bert", seed=7)
    done = twinvec("adopt", "--url", server.url, "-c", NAME, "--layout", "langchain", "--model", other)
    assert done.code == 1
    assert "does not give the vectors that are stored: of 12 texts" in done.err


def test_a_refused_copy_leaves_no_empty_collection(twinvec, tiny_model, tmp_path):
    folder, store = tmp_path / "qdrant", tmp_path / "store"
    with closing(QdrantClient(path=str(folder))) as client:
        fill(client, str(tiny_model("bert")))
    copy = ("adopt", "--local-path", folder, "-c", NAME, "--layout", "langchain", "--to-path", store)
    other = ("--model", tiny_model("bert", seed=7))
    refused = twinvec(*copy, *other)
    assert (refused.code, "does not give the vectors that are stored" in refused.err) == (1, True)
    assert twinvec("info", "-c", NAME, "--path", store).code == 1
    assert twinvec(*copy, "--model", tiny_model("bert")).code == 3
    assert twinvec(*copy, *other).code == 1
    assert json.loads(twinvec("info", "-c", NAME, "--path", store, "--json").out)["points"] == 12


@pytest.mark.slow
def test_a_folder_of_the_local_mode_is_copied(twinvec, tiny_model, tmp_path):
    folder, store = tmp_path / "qdrant", tmp_path / "store"
    client = QdrantClient(path=str(folder))
    fill(client, str(tiny_model("bert")))
    from_there = ("adopt", "--local-path", folder, "-c", NAME, "--layout", "langchain", "--model", tiny_model("bert"))
    held = twinvec(*from_there, "--to-path", store)
    assert (held.code, "already accessed" in held.err) == (1, True)
    client.close()
    assert twinvec(*from_there).code == 2
    assert twinvec(*from_there, "--to-path", store, "--dry-run").code == 3
    other = ("adopt", "--local-path", folder, "-c", "other", "--layout", "langchain", "--to-path", store)
    assert f"no collection 'other' at {folder}; there are: {NAME}" in twinvec(*other).err
    done = twinvec(*from_there, "--to-path", store, "--to-collection", "copy", "--json")
    assert (done.code, json.loads(done.out)["adopted"]) == (3, 12)
    hits = json.loads(twinvec("search", TEXTS[5], "--path", store, "-c", "copy", "--json").out)["hits"]
    assert hits[0]["id"] == "5"
    (tmp_path / "tea.md").write_text("green tea")
    ingest = ("ingest", tmp_path / "tea.md", "-c", NAME)
    for asked in (ingest, (*ingest, "--dry-run"), ("search", "a", "-c", NAME), ("search", "a")):
        refused = twinvec(*asked, "--path", folder)
        assert (refused.code, f"twinvec adopt --local-path {folder} --to-path" in refused.err) == (1, True)
    listed = twinvec("collections", "--path", folder)
    assert (listed.code, f"twinvec adopt --local-path {folder} --to-path" in listed.out) == (0, True)
    missing = twinvec("adopt", "--local-path", tmp_path, "-c", NAME, "--layout", "langchain", "--to-path", store)
    assert "not a folder of qdrant-client's local mode" in missing.err
