"""Collections of LlamaIndex' own Qdrant class, adopted: nodes keep what that class reads, and both go on."""

from __future__ import annotations

import json

import pytest
from llama_index.core.schema import Document, ImageNode, MetadataMode, TextNode
from llama_index.core.vector_stores.types import FilterOperator, MetadataFilter, MetadataFilters, VectorStoreQuery
from qdrant_client import models

from cases import slow
from frameworks_collections import COSINE, NAME, llama_search, llama_store, nodes, with_vector
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec.errors import ConfigurationError

PAGE_7 = MetadataFilters(filters=[MetadataFilter(key="page", value=7)])


@pytest.mark.parametrize("hybrid", [False, True])
def test_adopted_with_embedded_metadata_and_read_by_both(theirs, words, hybrid):
    store = llama_store(theirs.client, enable_hybrid=hybrid)
    made = nodes(words, title="Notes", tags="a")
    store.add(made)
    report = theirs.adopt("llama_index", words)
    assert (report.adopted, report.skipped, report.compared) == (50, 0, 32)
    with theirs.opened(encoder=words) as collection:
        info = collection.info()
        assert info["layout"] == {
            "name": "llama_index", "text_key": "text", "metadata_key": None, "embeds_metadata": True
        }  # fmt: skip
        assert info["vector"] == ("text-dense" if hybrid else "")
        (best, *_) = collection.search("note 13 about topic 6", 3)
        assert (best.id, best.text) == (made[13].node_id, made[13].get_content(MetadataMode.EMBED))
        assert best.payload["page"] == 13
        assert collection.search("topic", 1, filter={"page": 7, "title": "Notes"})[0].id == made[7].node_id
        assert len(collection.find({"ref_doc_id": "doc-1"})) == 17
        assert collection.verify().sound
    store = llama_store(theirs.client, enable_hybrid=hybrid)  # as the application opens it again
    found = llama_search(store, words, "note 7 about topic 0", filters=PAGE_7)
    assert [(node.text, node.metadata, node.ref_doc_id) for node in found.nodes] == [
        ("note 7 about topic 0", {"file_name": "file-1.md", "page": 7, "title": "Notes", "tags": "a"}, "doc-1")
    ]
    assert {node.node_id for node in store.get_nodes(filters=PAGE_7)} == {made[7].node_id}
    everything = store.get_nodes()  # our records are among them, without text
    assert sorted(node.text for node in everything if node.text) == sorted(node.text for node in made)


def test_our_adapter_restores_the_nodes_and_knows_unchanged_ones(theirs, words):
    made = nodes(words)
    llama_store(theirs.client).add(made)
    theirs.adopt("llama_index", words)
    with theirs.opened(encoder=words) as collection:
        store = TwinvecVectorStore(collection=collection, check_vectors=False)
        (node,) = store.get_nodes([made[7].node_id])
        assert (node.text, node.metadata, node.ref_doc_id) == (made[7].text, made[7].metadata, "doc-1")
        words.encoded.clear()
        revision = collection._catalog.records([made[7].node_id])[made[7].node_id].revision
        store.add([made[7]])
        assert collection._catalog.records([made[7].node_id])[made[7].node_id].revision == revision
        changed = made[8].model_copy(update={"text": "note eight anew"})
        store.add([with_vector(changed, words)])
        store.delete("doc-0")
        assert collection.count() == 33
        assert collection.verify().sound
    old = llama_store(theirs.client)
    assert llama_search(old, words, "note eight anew", 1).nodes[0].text == "note eight anew"
    where = MetadataFilters(filters=[MetadataFilter(key="page", value=8, operator=FilterOperator.EQ)])
    assert [node.text for node in old.get_nodes(filters=where)] == ["note eight anew"]


def test_later_ingests_are_read_by_the_old_class_and_its_deletions_noticed(theirs, words):
    store = llama_store(theirs.client)
    store.add(nodes(words))
    theirs.adopt("llama_index", words)
    with theirs.opened(encoder=words) as collection:
        collection.ingest([{"id": "new", "text": "wholly new", "page": 99}])
    where = MetadataFilters(filters=[MetadataFilter(key="page", value=99)])
    assert llama_search(store, words, "wholly new", 1, filters=where).nodes[0].text == "wholly new"
    store.delete("doc-1")
    late = with_vector(TextNode(text="a late comer", metadata={"page": 100}), words)
    store.add([late])
    report = theirs.adopt("llama_index", words)
    assert (report.adopted, report.removed) == (1, 17)
    with theirs.opened(encoder=words) as collection:
        assert collection.search("a late comer", 1)[0].id == late.node_id
        assert collection.verify().sound


def test_ids_without_dashes_name_their_nodes(on_server, words):
    """Qdrant adds the dashes to a UUID without them."""
    made = [with_vector(TextNode(id_=f"{row:032}", text=f"note {row}"), words) for row in range(3)]
    llama_store(on_server.client).add(made)
    on_server.adopt("llama_index", words)
    with on_server.opened(encoder=words) as collection:
        store = TwinvecVectorStore(collection=collection)
        assert [node.text for node in store.get_nodes([made[1].node_id])] == ["note 1"]
        store.delete_nodes([made[1].node_id])
        assert sorted(node.text for node in store.get_nodes()) == ["note 0", "note 2"]


def test_vectors_of_texts_without_their_metadata(theirs, words):
    made = [with_vector(node, words, MetadataMode.NONE) for node in nodes(words)]
    llama_store(theirs.client).add(made)
    assert theirs.adopt("llama_index", words).lowest_cosine == pytest.approx(1, abs=1e-5)
    with theirs.opened(encoder=words) as collection:
        assert collection.info()["layout"]["embeds_metadata"] is False
        assert collection.search("note 13 about topic 6", 1)[0].text == "note 13 about topic 6"


def test_templates_documents_and_old_nodes(theirs, words):
    template = {"text_template": "<{content}>\n{metadata_str}", "metadata_template": "{key}={value}"}
    styled = TextNode(
        text="a {metadata_str} in the text", metadata={"a": "{content}", "b": 2}, metadata_separator=";", **template
    )
    document = Document(text="whole document", metadata={"author": "Ann"})
    made = [with_vector(node, words) for node in (styled, document)]
    store = llama_store(theirs.client)
    store.add(made)
    vector = words.encode_document(["an old node"])[0].tolist()
    old = {"text": "an old node", "doc_id": "d", "topic": "history"}
    theirs.client.upsert(NAME, [models.PointStruct(id=7, vector=vector, payload=old)])
    picture = ImageNode(image_url="http://example.org/a.png", embedding=vector)
    store.add([picture])
    report = theirs.adopt("llama_index", words)
    assert (report.adopted, report.skips) == (3, [(picture.node_id, "it has no text")])
    with theirs.opened(encoder=words) as collection:
        texts = {each.id: each.text for each in collection.get([styled.node_id, document.node_id, "7"])}
        assert texts == {
            styled.node_id: styled.get_content(MetadataMode.EMBED),
            document.node_id: document.get_content(MetadataMode.EMBED),
            "7": "an old node",
        }
        assert collection.find({"topic": "history", "doc_id": "d"}) == ["7"]
        assert collection.verify().sound
    assert llama_search(store, words, "an old node", 1).nodes[0].text == "an old node"


@pytest.mark.parametrize(
    "broken",
    [
        [1],
        None,
        {"text_resource": "text"},
        {"text": "a", "metadata": [1]},
        {"text": "a", "metadata": {"b": 1}, "excluded_embed_metadata_keys": 5},
        {"text": "a", "metadata": {"b": 1}, "text_template": None},
    ],
)
def test_a_broken_node_stops_no_other(theirs, words, broken):
    llama_store(theirs.client).add(nodes(words))
    vector = words.encode_document(["a"])[0].tolist()
    point = models.PointStruct(id=7, vector=vector, payload={"_node_content": json.dumps(broken)})
    theirs.client.upsert(NAME, [point])
    report = theirs.adopt("llama_index", words)
    assert (report.adopted, report.skips) == (50, [("7", "its _node_content is not a node of LlamaIndex")])


@pytest.mark.parametrize(
    "key", ["source", slow("kind"), "text", slow("content"), slow("metadata"), slow("embedded"), slow("_hidden_keys")]
)
def test_metadata_under_our_keys_are_refused_in_place_and_copied(theirs, words, key, tmp_path):
    from twinvec_qdrant import Collection

    made = nodes(words, **{key: "theirs"})
    llama_store(theirs.client).add(made)
    before = theirs.client.scroll(NAME, limit=99)[0]
    with pytest.raises(ConfigurationError, match=f"{key!r}, which twinvec needs for its own fields.*into="):
        theirs.adopt("llama_index", words)
    assert theirs.client.scroll(NAME, limit=99)[0] == before
    with Collection.open("copy", tmp_path, encoder=words, chunking=False) as copy:
        report = theirs.adopt("llama_index", into=copy)
        assert (report.adopted, report.skipped) == (50, 0)
        assert copy.find({key: "theirs", "page": 7}) == [made[7].node_id]
        assert copy.search("note 13 about topic 6", 1, "dense")[0].id == made[13].node_id
        store = TwinvecVectorStore(collection=copy, check_vectors=False)
        assert store.get_nodes([made[7].node_id])[0].metadata == made[7].metadata
        assert theirs.adopt("llama_index", into=copy).unchanged == 50
        assert copy.verify().sound
    assert theirs.client.scroll(NAME, limit=99)[0] == before


def test_several_vectors_need_a_name(theirs, words):
    theirs.client.create_collection(NAME, vectors_config={"a": COSINE, "b": COSINE})
    with pytest.raises(ConfigurationError, match="has the vectors 'a', 'b': name one"):
        theirs.adopt("llama_index", words)
    store = llama_store(theirs.client, dense_vector_name="b")
    store.add(nodes(words, 10))
    assert theirs.adopt("llama_index", words, vector_name="b").adopted == 10
    query = VectorStoreQuery(query_embedding=words.encode_query(["note 3 about topic 3"])[0].tolist())
    assert store.query(query).nodes[0].text == "note 3 about topic 3"
