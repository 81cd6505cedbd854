"""Collections of many tenants: every document names its own, and every search says whose it means."""

from __future__ import annotations

import pytest

from twinvec.errors import ConfigurationError, DocumentError, FilterError
from twinvec_qdrant import Collection

NOTES = [
    {"id": "a1", "text": "green tea", "tenant": "acme"},
    {"id": "a2", "text": "black tea", "tenant": "acme"},
    {"id": "b1", "text": "green tea with mint", "tenant": "bolt"},
]


@pytest.fixture
def shared(place, words):
    with Collection.open("notes", encoder=words, chunking=False, tenant_key="tenant", **place) as collection:
        assert collection.ingest(NOTES).new == 3
        yield collection


def test_a_search_finds_the_documents_of_its_tenant(shared, words):
    vector = words.encode_query(["green tea"])[0]
    for search in (
        lambda **options: shared.search("green tea", **options),
        lambda **options: shared.search_many(["green tea"], **options)[0],
        lambda **options: shared.search_vector(vector, **options),
        lambda **options: shared.search_diverse("green tea", **options),
    ):
        assert {hit.id for hit in search(filter={"tenant": "acme"})} == {"a1", "a2"}
        assert {hit.id for hit in search(filter={"tenant": ["acme", "bolt"], "id": ["a1", "b1"]})} == {"a1", "b1"}
        for acme in (
            {"and": [{"id": ["a1", "a2", "b1"]}, {"and": [{"tenant": {"eq": "acme"}}]}]},
            {"or": [{"tenant": "acme", "id": "a1"}, {"tenant": ["acme"], "id": "a2"}]},
            {"tenant": "acme", "not": {"tenant": "bolt"}},
        ):
            assert {hit.id for hit in search(filter=acme)} == {"a1", "a2"}
        for nobody in ({"tenant": []}, {"tenant": {"in": []}}, {"or": [{"tenant": []}]}):
            assert search(filter=nobody) == []
        unnamed = [
            None,
            {},
            {"tenant": {"not_in": []}},
            {"or": []},
            {"and": []},
            {"id": "a1"},
            {"tenant": {"gte": 1}},
            {"tenant": {"ne": "bolt"}},
        ]
        unnamed += [{"not": {"tenant": "bolt"}}, {"tenant": {"exists": True}}, {"tenant": {"not_in": ["bolt"]}}]
        unnamed += [{"or": [{"tenant": "acme"}, {"id": "b1"}]}]
        for nobody in unnamed:
            with pytest.raises(FilterError, match="tenant"):
                search(filter=nobody)


def test_documents_are_listed_without_a_tenant_or_by_tenant(shared):
    assert [each.id for each in shared.documents()] == ["a1", "a2", "b1"]
    assert [each.id for each in shared.documents({"tenant": "bolt"})] == ["b1"]


@pytest.mark.parametrize("tenant_key", ["tenant", None])
def test_a_correction_shows_no_word_of_another_tenant(place, words, tenant_key):
    notes = [*NOTES, {"id": "b2", "text": "the merger with Zyntrafex", "tenant": "bolt"}]
    with Collection.open("notes", encoder=words, chunking=False, tenant_key=tenant_key, **place) as collection:
        collection.ingest(notes)
        assert collection.corrected("zyntrafec tea") == ("zyntrafec tea" if tenant_key else "zyntrafex tea")


def test_whose_some_ids_are_can_be_found(shared):
    shared.ingest([{"id": "empty", "text": "", "tenant": "bolt"}])
    ids = ["a1", "b1", "empty", "none"]
    assert sorted(shared.find({"tenant": "bolt", "id": ids})) == ["b1", "empty"]
    assert shared.find({"tenant": "acme", "id": ids}) == ["a1"]


def test_a_document_without_a_tenant_fails_alone(shared):
    report = shared.ingest([{"id": "c", "text": "tea"}, {"id": "d", "text": "tea", "tenant": 5}, NOTES[0]])
    assert (report.failed, report.unchanged) == (2, 1)
    assert all("'tenant'" in reason for _, reason in report.failures)


def test_the_key_is_recorded_and_held_to(shared, place, words):
    assert shared.info()["tenant_key"] == "tenant"
    with Collection.open("notes", encoder=words, **place) as again, pytest.raises(FilterError):
        again.search("tea")
    with pytest.raises(ConfigurationError, match=r"'tenant', not 'owner', .*: leave tenant_key out"):
        Collection.open("notes", encoder=words, tenant_key="owner", **place)


def bolt(identity: str, text: str = "mint tea") -> dict[str, str]:
    return {"id": identity, "text": text, "tenant": "bolt"}


def test_an_id_of_another_tenants_document_is_refused(shared):
    report = shared.ingest([bolt("a1"), bolt("b1"), bolt("b2")])
    assert (report.new, report.updated, report.failed) == (1, 1, 1)
    ((source, reason),) = report.failures
    assert source == "a1"
    assert "another tenant" in reason
    assert "acme" not in reason
    assert shared.get(["a1"])[0].text == "green tea"
    assert shared.ingest([bolt("a1")], dry_run=True).failed == 1
    shared.delete(["a1"])
    assert shared.ingest([bolt("a1")]).new == 1


@pytest.mark.parametrize("place", ["client"], indirect=True)
def test_an_id_that_another_tenant_takes_at_the_same_moment_is_refused(shared, words, place, monkeypatch):
    with Collection.open("notes", encoder=words, **place) as other:
        commit = other._backend.commit

        def late(records, expected):
            monkeypatch.undo()
            assert shared.ingest([{"id": "new", "text": "their tea", "tenant": "acme"}]).new == 1
            commit(records, expected)

        monkeypatch.setattr(other._backend, "commit", late)
        report = other.ingest([bolt("new"), bolt("b2")])
    assert (report.new, report.updated, [source for source, _ in report.failures]) == (1, 0, ["new"])
    assert shared.get(["new"])[0].text == "their tea"
    assert shared.verify().sound


@pytest.mark.parametrize("chunkless", [False, True])
def test_only_documents_of_the_tenants_that_came_are_pruned(shared, chunkless):
    if chunkless:
        shared.ingest([{"id": identity, "text": "", "tenant": identity[:4]} for identity in ("acme3", "bolt3")])
    for dry_run in (True, False):
        assert shared.ingest([bolt("b2")], prune=True, dry_run=dry_run).deleted == 1 + chunkless
    assert sorted(shared.find()) == ["a1", "a2", *(["acme3"] if chunkless else []), "b2"]


def test_pruning_without_a_document_says_that_no_tenant_is_named(shared, place, words):
    """A tenant that has deleted its last document would otherwise be found for ever."""
    with Collection.open("empty", encoder=words, chunking=False, tenant_key="tenant", **place) as empty:
        assert empty.ingest([], prune=True).deleted == 0, "there is nothing to lose"
    for dry_run in (True, False):
        with pytest.raises(DocumentError, match=r"names no tenant, .*collection\.find\({'tenant': \.\.\.}\)"):
            shared.ingest([], prune=True, dry_run=dry_run)
    report = shared.ingest([], prune=True, allow_empty=True)
    assert report.deleted == 0
    assert "names no tenant" in report.warnings[0]
    assert len(shared.find()) == 3


@pytest.mark.parametrize("key", ["", "a.b", "id", "source", 3, "with space"])
def test_keys_that_cannot_be(words, tmp_path, key):
    with pytest.raises(ConfigurationError, match="tenant_key"):
        Collection.open("notes", tmp_path, encoder=words, chunking=False, tenant_key=key)
    assert list(tmp_path.iterdir()) == []
