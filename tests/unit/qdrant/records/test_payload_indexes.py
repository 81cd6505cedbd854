"""Indexes of payload keys: which are made, when, and how many; those that no longer fit go."""

from __future__ import annotations

from itertools import count

import pytest
from qdrant_client import models

from interleaving import interrupted
from stand_in import StandIn
from twinvec import Document
from twinvec.errors import ConfigurationError
from twinvec.retrieval.tuned_search import Setting, save, saved
from twinvec_qdrant import Collection
from twinvec_qdrant.records.payload_indexes import LONGEST_TEXT, MAX_PATHS, PayloadIndexing, seen_keys
from twinvec_qdrant.records.schema import filtered_key, filtered_paths
from twinvec_qdrant.settings import PayloadIndexes
from words import WordEncoder


def documents(*payloads: dict) -> list[Document]:
    return [Document(f"{payload}", f"tea {row}", payload=payload) for row, payload in enumerate(payloads)]


@pytest.fixture
def opened(tmp_path):
    """Open the collection of the test; the settings are those of a new one."""

    def opened(name: str = "notes", **settings) -> Collection:
        return Collection.open(name, tmp_path, encoder=WordEncoder(), chunking=False, **settings)

    return opened


def indexes(collection: Collection) -> dict[str, str]:
    return collection.info().get("payload_indexes", {})


def paths(collection: Collection) -> dict[str, str]:
    return {path: kind for path, kind in collection._backend.field_indexes().items() if path.startswith("metadata")}


def test_the_first_value_of_a_key_decides(opened):
    payload = {"text": "x", "number": 1, "flag": True, "none": None, "texts": ["a"], "empty": [], "o": {"n": 1.5}}
    later = {"text": 1, "number": "x", "flag": "x", "none": False, "empty": ["x"], "o": [{"n": "x"}]}
    with opened() as collection:
        collection.ingest(documents(payload))
        found = {"text": "keyword", "number": "float", "flag": "bool", "texts": "keyword", "o.n": "float"}
        assert indexes(collection) == found
        assert paths(collection)["metadata.o.n"] == paths(collection)["metadata.o[].n"] == "float"
        collection.ingest(documents(later))
        assert indexes(collection) == {**found, "none": "bool", "empty": "keyword"}
    with opened(create=False) as collection:
        assert indexes(collection)["o.n"] == "float"


def test_the_index_is_there_before_the_points(opened, monkeypatch):
    with opened() as collection:
        upsert, seen = type(collection._backend).upsert, []

        def watched(backend, points):
            seen.append((any("team" in point.payload.get("metadata", ()) for point in points), paths(collection)))
            upsert(backend, points)

        monkeypatch.setattr(type(collection._backend), "upsert", watched)
        collection.ingest(documents({"team": "a"}))
        assert [found for is_new, found in seen if is_new] == [{"metadata.team": "keyword"}]


def test_requested_indexes_and_none(opened):
    wanted = {"day": "datetime", "body": "text", "place": "geo", "size": "integer", "key": "uuid", "secret": False}
    payload = {"day": "2024-05-01", "body": "x", "size": 1, "key": "x", "secret": "x", "team": "x"}
    served = {"body": "text", "day": "datetime", "key": "keyword", "place": "geo", "size": "float"}
    with opened(payload_indexes=wanted) as collection:
        assert indexes(collection) == served, "those that are requested are there from the beginning"
        collection.ingest(documents(payload))
        assert indexes(collection) == {**served, "team": "keyword"}
    with opened(payload_indexes=wanted) as collection:
        assert indexes(collection)["team"] == "keyword"
    with pytest.raises(ConfigurationError, match=r"body text(?s:.*)not(?s:.*)reindex"):
        opened(payload_indexes={})


@pytest.mark.parametrize(("setting", "found"), [(False, {}), ({"*": False, "team": "keyword"}, {"team": "keyword"})])
def test_no_other_keys(opened, setting, found):
    with opened(payload_indexes=setting) as collection:
        collection.ingest(documents({"team": "x", "size": 1}))
        assert indexes(collection) == found


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"team": "words"}, "team(?s:.*)words(?s:.*)keyword"),
        ({"team": None}, "team"),
        ({"": "keyword"}, "mapping of payload keys"),
        ({"a\ud800": "keyword"}, "a key has a lone surrogate at character 1"),
        ({"*": "keyword"}, r"'\*' stands for all other keys"),
        (True, "False or a mapping"),
        ({"a.b.c.d.e.f": "keyword"}, "the limit is 5"),
        ({"id": "keyword"}, "'id' has an index"),
        ({f"a.b.c.d.e{row}": "keyword" for row in range(5)}, f"80 indexes(?s:.*){MAX_PATHS}"),
    ],
)
def test_what_cannot_be_requested(opened, tmp_path, setting, message):
    with pytest.raises(ConfigurationError, match=message):
        opened(payload_indexes=setting)
    assert not list(tmp_path.iterdir())


def test_the_number_of_paths_is_limited(opened, caplog):
    with opened() as collection:
        collection.ingest(documents({f"k{row}": row for row in range(MAX_PATHS - 1)} | {"o": {"n": 1}, "z": 1}))
        assert len(paths(collection)) == MAX_PATHS
        assert "o.n" not in indexes(collection), "it takes two paths"
        assert caplog.text.count("no more payload keys are indexed") == 1
        assert collection.find({"o.n": 1, "z": 1, "k0": 0})


def test_keys_with_long_texts_have_no_index(opened):
    with opened() as collection:
        collection.ingest(documents({"body": "x" * (LONGEST_TEXT + 1), "team": "x" * LONGEST_TEXT}, {"body": "x"}))
        assert indexes(collection) == {"team": "keyword"}


def test_numbers_and_dates_together_are_compared_without_their_index(opened, caplog):
    with opened(payload_indexes={"day": "datetime"}) as collection:
        collection.ingest(documents({"size": 1, "day": "2024-05-01"}))
        assert indexes(collection) == {"day": "datetime", "size": "float"}
        collection.ingest(documents({"size": "2024-05-01", "day": 5}))
        assert indexes(collection) == {"day": "keyword", "size": "keyword"}
        assert len(collection.find({"size": {"gte": "2024-01-01"}})) == 1
        assert len(collection.find({"size": {"lt": 2}})) == 1
        assert len(collection.find({"day": {"lt": 9}})) == 1
        assert caplog.text.count("holds both numbers and dates") == 2


def test_older_documents_are_looked_at_before_an_index_could_hide_them(opened):
    with opened(payload_indexes=False) as collection:
        collection.ingest(documents({"size": "2024-05-01"}))
    with opened(create=False) as collection:
        collection._backend.write_metadata({"payload_indexes": None})  # as a collection of an older version
    with opened(create=False) as collection:
        collection.ingest(documents({"size": 1, "other": 1}))
        assert indexes(collection) == {"other": "float", "size": "keyword"}
        assert len(collection.find({"size": {"gte": "2024-01-01"}})) == 1


def test_what_twinvec_notes_is_not_indexed(opened, tmp_path):
    with opened() as collection:
        collection.ingest(documents({"team": "a"}))
        save(collection, Setting("hybrid", 0.7, 0.4, 20), "ndcg@10")
        assert indexes(collection) == {"team": "keyword"}
        collection.reindex(payload_indexes={})
        assert indexes(collection) == {"team": "keyword"}
        collection.push(tmp_path / "copy")
        assert saved(collection) == Setting("hybrid", 0.7, 0.4, 20)
    with Collection.open("notes", tmp_path / "copy", encoder=WordEncoder()) as copy:
        assert indexes(copy) == {"team": "keyword"}
        assert saved(copy) == Setting("hybrid", 0.7, 0.4, 20)


def test_notes_are_indexed_too(opened):
    with opened() as collection:
        collection.notes("memory").put({"k": {"when": 1}})
        assert indexes(collection) == {"when": "float"}
        collection.ingest(documents({"when": "2024-05-01"}))
        assert indexes(collection) == {"when": "keyword"}
        assert [key for key, _ in collection.notes("memory").find({"when": {"lt": 2}})] == ["k"]


def test_notes_leave_a_requested_index_to_the_documents(opened, tmp_path):
    settings = {"when": "datetime"}
    with opened(payload_indexes=settings) as collection, opened("later") as later:
        for each in (collection, later):
            notes = each.notes("memory")
            notes.put({"k": {"when": 1, "team": "x"}, "l": {"when": 3}})
            each.ingest(documents({"when": "2024-05-01"}, {"when": "2023-05-01"}))
            if each is later:
                assert each.reindex(payload_indexes=settings).payload_indexes == {"team": "keyword", **settings}
            assert indexes(each) == {"team": "keyword", **settings}
            assert [key for key, _ in notes.find({"when": {"lt": 2}})] == ["k"]
            assert [key for key, _ in notes.find({"when": {"not_in": [1]}, "team": {"exists": False}})] == ["l"]
            assert len(each.find({"when": {"gte": "2024-01-01"}})) == 1
        later.push(tmp_path / "copied", name="later")
        with Collection.open("later", tmp_path / "copied", encoder=WordEncoder()) as copy:
            assert indexes(copy) == {"team": "keyword", **settings}
            assert [key for key, _ in copy.notes("memory").find({"when": {"lt": 2}})] == ["k"]


def test_the_key_of_tenants_keeps_its_index(opened):
    with opened(tenant_key="team", payload_indexes=False) as collection:
        collection.ingest(documents({"team": "x"}))
        collection.reindex(payload_indexes=False)
        assert paths(collection) == {"metadata.team": "keyword"}
    with pytest.raises(ConfigurationError, match="'team' has an index"):
        opened("new", tenant_key="team", payload_indexes={"team": "text"})


def test_keys_that_no_filter_can_name_are_left_out():
    payload = {"a.b": 1, 'q"': 1, "x[]": {"y": 1}, "": 1, "id": 1, "ok": 1, "o": {"p": {"q": {"r": 1}, "s": [{}, 2]}}}
    assert list(seen_keys([payload])) == [".id", "ok", "o.p.s"]


@pytest.mark.parametrize("key", ["team", "a.b", "a.b c.d", "ref_doc_id", "größe", "a-b.c"])
def test_paths_lead_back_to_their_key(key):
    assert {filtered_key(path) for path in filtered_paths(key)} == {key}


@pytest.mark.parametrize(("kind", "value"), [("float", 1.5), ("datetime", "2024-05-01")])
def test_an_index_that_a_killed_writer_made_for_a_look_is_not_kept(kind, value, monkeypatch):
    """On a strict server, a look for dates at a path needs an index of dates, and a look for numbers one of numbers."""
    settings = PayloadIndexes({"when": "datetime"} if kind == "datetime" else {})
    server = StandIn()
    options = {"url": server.url, "encoder": WordEncoder(), "chunking": False}
    with server.running(), Collection.open("notes", **options) as collection:
        collection.ingest([Document("first", "tea")])
        server.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False), "notes")
        backend = collection._backend

        def killed(path, made):
            type(backend).index_field(backend, path, made)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(backend, "index_field", killed)
            with pytest.raises(KeyboardInterrupt):
                PayloadIndexing(backend, settings).see([{"when": value}])
        assert paths(collection) == {"metadata.when": "datetime" if kind == "float" else "float"}
        PayloadIndexing(backend, settings).see([{"when": value}])
        assert paths(collection) == {"metadata.when": kind}


NUMBERS = [Document(f"n{row}", "tea", payload={"when": row}) for row in range(3)]
DATES = [Document(f"d{row}", "tea", payload={"when": f"2024-05-{row + 1:02}"}) for row in range(3)]
STEPS = ("field_indexes", "index_field", "upsert", "commit", "delete")


@pytest.mark.slow
@pytest.mark.parametrize("strict", [False, True], ids=["plain", "strict"])
def test_of_two_writers_that_first_see_a_key_neither_leaves_an_index_that_hides_values(strict, monkeypatch):
    """The other writer does all its work between any two steps of the first one."""
    server = StandIn()
    with server.running():
        if strict:
            server.be_strict(models.StrictModeConfig(enabled=True, unindexed_filtering_retrieve=False))
        options = {"url": server.url, "encoder": WordEncoder(), "chunking": False}
        for step in count():
            name = f"notes{step}"
            with Collection.open(name, **options) as first, Collection.open(name, **options) as other:
                with monkeypatch.context() as patched:
                    done = interrupted(first._backend, STEPS, step, lambda writer=other: writer.ingest(DATES), patched)
                    first.ingest(NUMBERS)
                if not done:
                    break
                assert paths(first) == {"metadata.when": "keyword"}, step
                if not strict:  # else ranges need their index
                    assert {*first.find({"when": {"gte": 1}})} == {"n1", "n2"}, step
                    assert {*first.find({"when": {"gte": "2024-05-02"}})} == {"d1", "d2"}, step
    assert step > 6
