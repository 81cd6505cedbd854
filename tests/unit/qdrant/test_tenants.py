"""Collections of many tenants: every document names its own, and every search says whose it means."""

from __future__ import annotations

import pytest

from twinvec.errors import ConfigurationError, FilterError
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
        for nobody in (None, {}, {"id": "a1"}, {"tenant": {"gte": 1}}):
            with pytest.raises(FilterError, match="tenant"):
                search(filter=nobody)


def test_a_document_without_a_tenant_fails_alone(shared):
    report = shared.ingest([{"id": "c", "text": "tea"}, {"id": "d", "text": "tea", "tenant": 5}, NOTES[0]])
    assert (report.failed, report.unchanged) == (2, 1)
    assert all("'tenant'" in reason for _, reason in report.failures)


def test_the_key_is_recorded_and_held_to(shared, place, words):
    assert shared.info()["tenant_key"] == "tenant"
    with Collection.open("notes", encoder=words, **place) as again, pytest.raises(FilterError):
        again.search("tea")
    with pytest.raises(ConfigurationError, match="divided by 'tenant', not by 'owner'"):
        Collection.open("notes", encoder=words, tenant_key="owner", **place)


@pytest.mark.parametrize("key", ["", "a.b", "id", "source", 3, "with space"])
def test_keys_that_cannot_be(words, tmp_path, key):
    with pytest.raises(ConfigurationError, match="tenant_key"):
        Collection.open("notes", tmp_path, encoder=words, chunking=False, tenant_key=key)
    assert list(tmp_path.iterdir()) == []
