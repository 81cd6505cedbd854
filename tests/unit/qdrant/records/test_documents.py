"""Documents that are read back while a writer replaces them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from twinvec import Document
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


def test_the_ids_of_many_documents_are_found_a_page_at_a_time(collection, monkeypatch):
    monkeypatch.setattr(documents, "_PAGE", 4)
    notes = [Document(f"n{row}", "tea", payload={"drink": True}) for row in range(11)]
    collection.ingest([*notes, Document("beer", "beer", payload={"drink": False})])
    asked: list[int] = []
    retrieve = collection._backend.retrieve

    def noted(ids, *arguments):
        asked.append(len(ids))
        return retrieve(ids, *arguments)

    monkeypatch.setattr(collection._backend, "retrieve", noted)
    found = collection.find({"drink": True})
    assert sorted(found) == sorted(each.id for each in notes)
    assert max(asked) == 4, "one request for all would keep searches waiting"
