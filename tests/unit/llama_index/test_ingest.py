"""LlamaIndex documents and nodes handed to a collection as they are."""

from __future__ import annotations

import json

import pytest
from langchain_core.documents import Document as LangChainDocument
from llama_index.core import Document
from llama_index.core.schema import TextNode

from langchain_twinvec import TwinvecRetriever as LangChainRetriever
from llama_index.retrievers.twinvec import TwinvecRetriever
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec import MemoryIndex
from twinvec.errors import DocumentError
from twinvec_qdrant import Asked, Collection, search_as_asked, stored_documents
from words import WordEncoder


def hiding(embed=("salary", "file"), llm=("salary",)) -> Document:
    return Document(
        text="Salaries are paid on the last day.",
        id_="pay.md",
        metadata={"team": "hr", "salary": "secret", "file": "pay.md"},
        excluded_embed_metadata_keys=list(embed),
        excluded_llm_metadata_keys=list(llm),
    )


def test_documents_and_nodes_are_ingested_as_they_are(encoder, tmp_path) -> None:
    values = [
        Document(text="Holidays are requested two weeks ahead.", id_="leave.md", metadata={"team": "hr"}),
        TextNode(text="The VPN client is installed from the portal.", id_="vpn#0", metadata={"team": "it"}),
    ]
    before = [value.model_dump() for value in values]
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        assert collection.ingest(values).new == 2
        again = collection.ingest(values)
        assert (again.unchanged, again.encoded) == (2, 0)
        hit = collection.search("install the VPN client", 1)[0]
        assert (hit.id, hit.text, hit.payload["team"]) == ("vpn#0", values[1].text, "it")
        assert [each.id for each in collection.search("holidays", filter={"team": "hr"})] == ["leave.md"]
    assert [value.model_dump() for value in values] == before


@pytest.fixture(params=[False, None], ids=["whole", "chunks"])
def opened(request, tmp_path):
    with Collection.open("docs", tmp_path, encoder=WordEncoder(max_tokens=32), chunking=request.param) as collection:
        yield collection


def test_metadata_that_a_document_hides_stays_hidden_in_its_nodes(opened) -> None:
    opened.ingest([hiding(), {"id": "vpn.md", "text": "Install the client.", "title": "VPN", "team": "it"}])
    pay = TwinvecRetriever(opened, similarity_top_k=1).retrieve("salaries paid")[0].node
    assert pay.metadata["salary"] == "secret"
    assert pay.get_content("llm") == "team: hr\nfile: pay.md\n\nSalaries are paid on the last day."
    assert pay.get_content("embed") == pay.text == "Salaries are paid on the last day."
    assert set(pay.excluded_llm_metadata_keys) == {"source", "position", "heading", "salary"}
    assert set(pay.excluded_embed_metadata_keys) == set(pay.metadata)
    vpn = TwinvecRetriever(opened, similarity_top_k=1).retrieve("install client")[0].node
    assert vpn.metadata["title"] == "VPN"
    assert vpn.get_content("llm") == "team: it\n\nVPN\n\nInstall the client."
    assert vpn.get_content("embed") == vpn.text


def test_a_key_of_the_document_is_shown_though_the_collection_has_one_of_that_name(opened) -> None:
    opened.ingest([Document(text="Salaries are paid.", metadata={"source": "intranet", "title": "Pay"})])
    (found,) = TwinvecRetriever(opened).retrieve("salaries")
    assert found.node.get_content("llm") == "source: intranet\ntitle: Pay\n\nSalaries are paid."


def test_a_store_gives_back_what_a_document_of_its_collection_hides(tmp_path) -> None:
    with Collection.open("docs", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([hiding()])
        (node,) = TwinvecVectorStore(collection=opened).get_nodes(["pay.md"])
    assert node.get_content("llm") == "team: hr\nfile: pay.md\n\nSalaries are paid on the last day."
    assert node.get_content("embed") == node.text


def test_an_index_in_memory_hides_the_same() -> None:
    (found,) = TwinvecRetriever(MemoryIndex(WordEncoder(), [hiding()])).retrieve("salaries")
    assert found.node.get_content("llm") == "team: hr\nfile: pay.md\n\nSalaries are paid on the last day."
    assert found.node.excluded_embed_metadata_keys == ["salary", "file", "team"]


def test_hidden_keys_are_no_metadata(opened) -> None:
    opened.ingest([hiding()])
    given = {"team": "hr", "salary": "secret", "file": "pay.md"}
    own = {"source": "pay.md", "position": 0, "heading": ""}
    (stored,) = opened.get(["pay.md"])
    assert stored.payload == given
    assert stored.hidden == (("salary",), ("salary", "file"))
    (hit,) = opened.search("salaries")
    assert hit.payload == own | given
    (answer,) = search_as_asked(opened, ["salaries"], Asked())
    for shown in (answer.hits[0].as_fields(), stored_documents(opened, ["pay.md"])):
        assert "hidden" not in json.dumps(shown)
    (document,) = LangChainRetriever(retriever=opened).invoke("salaries")
    assert set(document.metadata) == {*own, *given, "relevance_score", "twinvec_scores"}
    assert opened.find({"_hidden_keys": {"exists": True}}) == []


def test_a_document_that_comes_to_hide_keys_is_written_again_and_not_encoded(opened) -> None:
    opened.ingest([hiding((), ())])
    report = opened.ingest([hiding()])
    assert (report.updated, report.unchanged, report.encoded) == (1, 0, 0)
    assert opened.ingest([hiding()]).unchanged == 1
    assert opened.ingest(opened.get(["pay.md"])).unchanged == 1
    (found,) = TwinvecRetriever(opened).retrieve("salaries")
    assert "secret" not in found.node.get_content("llm")
    report = opened.ingest([hiding((), ())])
    assert (report.updated, report.encoded) == (1, 0)
    (found,) = TwinvecRetriever(opened).retrieve("salaries")
    assert "secret" in found.node.get_content("llm")
    assert opened.verify().sound


def test_copies_of_a_collection_hide_the_same(opened, tmp_path) -> None:
    opened.ingest([hiding()])
    opened.push(path=tmp_path / "copy")
    with Collection.open("docs", tmp_path / "copy", encoder=WordEncoder(max_tokens=32), create=False) as copy:
        assert copy.get(["pay.md"]) == opened.get(["pay.md"])
        assert copy.ingest([hiding()]).unchanged == 1


def test_a_document_without_hidden_keys_is_the_same_as_in_other_forms(opened) -> None:
    metadata = {"team": "hr"}
    opened.ingest([{"id": "a", "text": "Salaries are paid.", "payload": metadata}])
    for same in (
        Document(id_="a", text="Salaries are paid.", metadata=metadata),
        LangChainDocument(id="a", page_content="Salaries are paid.", metadata=metadata),
    ):
        assert opened.ingest([same]).unchanged == 1
    assert opened.get(["a"])[0].hidden is None


def test_hidden_keys_that_no_store_keeps_are_refused(opened) -> None:
    report = opened.ingest(
        [hiding(["\ud800"]), Document(text="Salaries are paid.", id_="other")], allow_all_failed=True
    )
    assert report.new == 1
    assert "the hidden keys" in report.failures[0][1]
    with pytest.raises(DocumentError, match="hidden keys"):
        MemoryIndex(WordEncoder(), [hiding(["\ud800"])])
