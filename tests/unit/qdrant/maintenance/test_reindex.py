"""Payload indexes of collections that exist: made and removed by reindex, kept by push and migrate."""

from __future__ import annotations

import json

import pytest
from qdrant_client import QdrantClient

from stand_in import StandIn
from twinvec import Document
from twinvec.errors import ConfigurationError
from twinvec_qdrant import Collection
from words import WordEncoder

DOCUMENTS = [
    Document(f"n{row}", f"tea {row}", payload={"team": f"t{row % 3}", "size": row, "day": f"2024-05-{row + 1:02}"})
    for row in range(12)
]
AUTOMATIC = {"day": "keyword", "size": "float", "team": "keyword"}


@pytest.fixture(params=["embedded", "stand-in"])
def place(request, tmp_path):
    """Where the collection lies."""
    if request.param == "embedded":
        yield {"path": tmp_path}
        return
    with StandIn().running() as server:
        yield {"client": QdrantClient(server.url, timeout=60, check_compatibility=False)}


def opened(place: dict, name: str = "notes", **settings) -> Collection:
    return Collection.open(name, encoder=WordEncoder(), chunking=False, **place, **settings)


def indexes(collection: Collection) -> dict[str, str]:
    return collection.info().get("payload_indexes", {})


def test_reindex_makes_what_is_missing_and_removes_what_is_not_wanted(place):
    with opened(place, payload_indexes=False) as collection:
        collection.ingest(DOCUMENTS)
        assert indexes(collection) == {}
        assert collection.reindex().payload_indexes == {}
        assert collection.reindex(payload_indexes={}).payload_indexes == AUTOMATIC
        later = {"day": "datetime", "team": "text", "size": False}
        assert collection.reindex(payload_indexes=later).payload_indexes == {"day": "datetime", "team": "text"}
        assert collection.find({"day": {"gte": "2024-05-12"}, "team": {"text": "T2"}}) == ["n11"]
        assert collection.reindex(payload_indexes={"*": False, "team": "keyword"}).payload_indexes == {
            "team": "keyword"
        }
        assert collection.reindex({"quantization": "int8"}).payload_indexes == {"team": "keyword"}
        collection.ingest([Document("later", "tea", payload={"colour": "red"})])
        assert indexes(collection) == {"team": "keyword"}
        assert collection.reindex(payload_indexes=False).payload_indexes == {}
    with opened(place, payload_indexes=False, create=False) as collection:
        assert indexes(collection) == {}
        assert sorted(collection.find({"team": "t1"})) == ["n1", "n10", "n4", "n7"]


def test_a_requested_index_hides_nothing(place):
    with opened(place) as collection:
        collection.ingest([*DOCUMENTS, Document("odd", "tea", payload={"size": "2024-05-01", "day": 5})])
        assert indexes(collection) == {**AUTOMATIC, "size": "keyword"}
        for wanted, what in (({"day": "datetime"}, "numbers"), ({"size": "float"}, "dates")):
            with pytest.raises(ConfigurationError, match=f"holds {what} too"):
                collection.reindex(payload_indexes=wanted)
        assert indexes(collection) == {**AUTOMATIC, "size": "keyword"}


def test_the_usual_type_and_the_most_frequent_keys_are_indexed():
    with opened({"client": QdrantClient(":memory:")}) as collection:
        collection.ingest(DOCUMENTS)
        assert collection.reindex().payload_indexes == {}, "the client's local mode has no index"


def test_push_keeps_the_indexes(place, tmp_path):
    with opened(place, payload_indexes={"day": "datetime"}) as collection:
        collection.ingest([Document("mixed", "tea", payload={"odd": "x"}), Document("b", "tea", payload={"odd": 1})])
        collection.ingest(DOCUMENTS)
        kept = {**AUTOMATIC, "day": "datetime", "odd": "keyword"}
        assert indexes(collection) == kept
        collection.push(tmp_path / "copy")
    with opened({"path": tmp_path / "copy"}, payload_indexes={"day": "datetime"}, create=False) as copy:
        assert indexes(copy) == kept
        copy.ingest([Document("new", "tea", payload={"colour": "red"})])
        assert indexes(copy) == {**kept, "colour": "keyword"}


def test_migrate_keeps_the_indexes(place):
    with opened(place, payload_indexes={"day": "datetime"}) as collection:
        collection.ingest(DOCUMENTS)
        collection.migrate(WordEncoder(seed=1))
        collection.drop_others()
        assert indexes(collection) == {**AUTOMATIC, "day": "datetime"}
        assert collection.info()["migrating_to"] is None


def test_an_index_of_vectors_keeps_those_of_payload(tmp_path):
    with opened({"path": tmp_path}) as collection:
        collection.ingest(DOCUMENTS)
        collection.reindex({"m": 8})
        assert indexes(collection) == AUTOMATIC
        assert collection._backend._shard.info().payload_schema.keys() >= {"metadata.team", "metadata.size"}


def test_no_chunk_counts_as_indexed_before_a_server_makes_an_index(place):
    with opened(place) as collection:
        collection.ingest(DOCUMENTS)
        collection.ingest([Document(each.id, f"{each.full_text} again") for each in DOCUMENTS[:4]])
        report = collection.reindex()
        assert (report.chunks, report.indexed) == (12, 0 if "client" in place else 12)
        assert collection.info()["indexed"] == report.indexed


def test_the_commands_take_the_options(tmp_path, twinvec, tiny_model):
    def shown(*command) -> dict:
        done = twinvec(*command, *docs, "--json")
        assert done.code == 0, done.err
        return json.loads(done.out)

    docs = ("--collection", "docs", "--path", tmp_path)
    lines = [json.dumps({"id": each.id, "text": each.full_text, **each.payload}) for each in DOCUMENTS]
    (tmp_path / "docs.jsonl").write_text("\n".join(lines))
    shown("ingest", tmp_path / "docs.jsonl", "--model", tiny_model("bert"), "--payload-index", "day:datetime")
    assert shown("info")["payload_indexes"] == {**AUTOMATIC, "day": "datetime"}
    only = shown("reindex", "--no-payload-indexes", "--payload-index", "team:keyword")
    assert only["payload_indexes"] == {"team": "keyword"}
    without = shown("reindex", "--payload-index", "day:none")
    assert without["payload_indexes"] == {"size": "float", "team": "keyword"}
    assert shown("reindex", "--no-payload-indexes")["payload_indexes"] == {}
    for wrong in ("team", ":keyword"):
        refused = twinvec("reindex", *docs, "--payload-index", wrong)
        assert (refused.code, "KEY:TYPE" in refused.err) == (2, True)
    refused = twinvec("reindex", *docs, "--payload-index", "team:words")
    assert (refused.code, "'words' is not one of keyword" in refused.err) == (2, True)
