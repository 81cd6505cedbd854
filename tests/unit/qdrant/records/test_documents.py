"""Documents that are read back while a writer replaces them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

import pytest

from twinvec import Document
from twinvec.errors import ConfigurationError, FilterError, StoreError
from twinvec_qdrant import Collection, DocumentEntry
from twinvec_qdrant.records import documents
from twinvec_qdrant.records.schema import record_id


@pytest.fixture
def interrupted(collection, monkeypatch):
    """A function that sets the calls that come before the requests of the next ``get``; None for no call."""
    waiting: list[Callable[[], object] | None] = []
    points = collection._backend.points

    def after_the_next(*arguments):
        if waiting and (call := waiting.pop(0)) is not None:
            call()
        return points(*arguments)

    monkeypatch.setattr(collection._backend, "points", after_the_next)
    return waiting.extend


@pytest.mark.parametrize("rounds", [1, 3])
def test_a_document_that_is_replaced_meanwhile_is_read_in_its_new_version(collection, interrupted, rounds):
    collection.ingest([("tea", "green tea"), ("bread", "rye bread")])

    def replaced(number: int):
        return lambda: collection.ingest([("tea", f"tea number {number}")])

    interrupted([each for number in range(rounds) for each in (None, replaced(number))])  # before chunks are read
    found = collection.get(["tea", "bread", "tea", "none"])
    assert [(each.id, each.text) for each in found] == [("tea", f"tea number {rounds - 1}"), ("bread", "rye bread")]


def test_a_document_that_is_removed_meanwhile_is_missing(collection, interrupted):
    collection.ingest([("tea", "green tea"), ("bread", "rye bread")])
    interrupted([None, lambda: collection.delete(["tea"])])
    assert [each.id for each in collection.get(["tea", "bread"])] == ["bread"]


def test_a_document_that_has_lost_chunks_is_what_is_left_of_it(collection):
    collection.ingest([("tea", "green tea")])
    (chunk,) = collection._backend.retrieve([record_id("tea")])[record_id("tea")].payload["chunks"]
    collection._backend.delete([chunk])
    assert [(each.id, each.text) for each in collection.get(["tea"])] == [("tea", "")]


def noted_requests(collection, monkeypatch) -> list[int]:
    """Return a list to which each request for points adds the number of its ids."""
    asked: list[int] = []
    retrieve = collection._backend.retrieve

    def noted(ids, *arguments):
        asked.append(len(ids))
        return retrieve(ids, *arguments)

    monkeypatch.setattr(collection._backend, "retrieve", noted)
    return asked


def test_the_ids_of_many_documents_are_found_a_page_at_a_time(collection, monkeypatch):
    monkeypatch.setattr(documents, "_PAGE", 4)
    notes = [Document(f"n{row}", "tea", payload={"drink": True}) for row in range(11)]
    collection.ingest([*notes, Document("beer", "beer", payload={"drink": False})])
    asked = noted_requests(collection, monkeypatch)
    found = collection.find({"drink": True})
    assert sorted(found) == sorted(each.id for each in notes)
    assert max(asked) == 4, "one request for all would keep searches waiting"


def test_documents_are_listed_by_id(place, words):
    with Collection.open("guides", encoder=words, chunking=False, **place) as opened:
        opened.ingest([("z/a[1].md", "green tea"), Document("b", "black tea", "All teas")], source="pages")
        opened.ingest([{"id": "c", "text": "rye bread", "lang": "en"}, ("e", " ")], source="notes")
        expected = [
            DocumentEntry("b", "All teas", "pages", 1, True),
            DocumentEntry("notes:c", "", "notes", 1, True),
            DocumentEntry("notes:e", "", "notes", 0, True),
            DocumentEntry("z/a[1].md", "", "pages", 1, True),
        ]
        assert list(opened.documents()) == expected
        assert list(opened.documents(source="notes")) == expected[1:3]
        assert list(opened.documents({"lang": "en"})) == expected[1:2]
        assert list(opened.documents(pattern="z/*")) == list(opened.documents(pattern="z/a[1].md")) == expected[3:]
        assert list(opened.documents(pattern=["notes:*", "b", "q?"])) == expected[:3]
        assert list(opened.documents(pattern=[])) == list(opened.documents(pattern="?")) == []
        assert list(opened.documents(limit=3)) == expected[:3]
        assert list(opened.documents(after="notes:c", limit=1)) == expected[2:3]
        assert sorted(opened.find(pattern="*:*", source="notes")) == ["notes:c", "notes:e"]


def test_a_document_that_is_removed_meanwhile_is_not_listed(collection, monkeypatch):
    monkeypatch.setattr(documents, "_PAGE", 2)
    collection.ingest([(f"n{row}", "tea") for row in range(5)])
    listed = collection.documents(limit=3)
    assert [each.id for each in islice(listed, 1)] == ["n0"]
    collection.delete(["n2"])
    assert [each.id for each in listed] == ["n1", "n3"], "a page that is not the last one is full"


def test_a_document_without_its_chunks_is_listed(collection):
    collection.ingest([Document("tea", "green tea", "Tea")])
    (chunk,) = collection._backend.retrieve([record_id("tea")])[record_id("tea")].payload["chunks"]
    collection._backend.delete([chunk])
    assert list(collection.documents()) == [DocumentEntry("tea", "", None, 1, True)], "nothing has looked for it"
    collection.verify(repair=True)
    assert list(collection.documents()) == [DocumentEntry("tea", "", None, 0, False)]


def test_a_list_reads_a_page_of_records_at_a_time(collection, monkeypatch):
    monkeypatch.setattr(documents, "_PAGE", 4)
    collection.ingest([(f"n{row:02}", "tea") for row in range(11)])
    asked = noted_requests(collection, monkeypatch)
    listed = collection.documents()
    assert [each.id for each in islice(listed, 4)] == ["n00", "n01", "n02", "n03"]
    assert asked[-2:] == [4, 4]
    assert len(list(listed)) == 7


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"limit": 0}, ConfigurationError),
        ({"limit": 2.5}, ConfigurationError),
        ({"after": 5}, ConfigurationError),
        ({"pattern": 5}, ConfigurationError),
        ({"pattern": ["a", None]}, ConfigurationError),
        ({"source": "none"}, ConfigurationError),
        ({"filter": {"a": {"foo": 1}}}, FilterError),
    ],
)
def test_a_list_with_wrong_arguments_is_refused_at_the_call(collection, given, error):
    with pytest.raises(error):
        collection.documents(**given)


def test_a_list_ends_with_its_collection(collection, monkeypatch):
    monkeypatch.setattr(documents, "_PAGE", 2)
    collection.ingest([(f"n{row}", "tea") for row in range(5)])
    listed = collection.documents()
    next(listed)
    collection.close()
    with pytest.raises(StoreError):
        list(listed)
