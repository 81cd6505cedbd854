"""LangChain documents handed to a collection or an index as they are."""

from __future__ import annotations

from datetime import date

import pytest
from langchain_core.documents import Document

from twinvec import MemoryIndex
from twinvec_qdrant import Collection


@pytest.fixture
def documents() -> list[Document]:
    return [
        Document("Holidays are requested two weeks ahead.", metadata={"source": "leave.md", "page": 1}),
        Document("Holidays are paid in full.", metadata={"source": "leave.md", "page": 2}),
        Document("The VPN client is installed from the portal.", id="vpn", metadata={"tags": ["it", "net"]}),
    ]


def test_documents_are_ingested_as_they_are(documents, encoder, tmp_path) -> None:
    before = [document.model_dump() for document in documents]
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        assert collection.ingest(documents).new == 3
        again = collection.ingest(documents)
        assert (again.unchanged, again.encoded) == (3, 0)
        hit = collection.search("install the VPN client", 1)[0]
        assert (hit.id, hit.text, hit.payload["tags"]) == ("vpn", documents[2].page_content, ["it", "net"])
        (page,) = collection.search("holidays", 9, filter={"page": 2})
        assert page.payload["source"] == "leave.md"
    assert [document.model_dump() for document in documents] == before


def test_a_changed_document_without_an_id_takes_the_place_of_the_old_when_pruned(documents, encoder, tmp_path) -> None:
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        collection.ingest(documents)
        documents[0].page_content = "Holidays are requested three weeks ahead."
        report = collection.ingest(documents, prune=True)
        assert (report.new, report.unchanged, report.deleted) == (1, 2, 1)


def test_metadata_that_is_no_json_fails_by_itself(documents, encoder, tmp_path) -> None:
    documents[0].metadata["day"] = date(2024, 5, 1)
    documents[1].metadata["tags"] = {"vpn"}
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        report = collection.ingest(documents)
        assert (report.new, report.failed) == (2, 1)
        assert "JSON" in report.failures[0][1]
        assert len(collection.find({"day": {"gte": "2024-05-01"}})) == 1


def test_a_memory_index_takes_them_too(documents, encoder) -> None:
    assert MemoryIndex(encoder, documents).search("install the VPN client", 1)[0].id == "vpn"
