"""LlamaIndex documents and nodes handed to a collection as they are."""

from __future__ import annotations

from llama_index.core import Document
from llama_index.core.schema import TextNode

from twinvec_qdrant import Collection


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
