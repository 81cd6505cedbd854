"""Points that LangChain's or LlamaIndex's Qdrant store writes into a collection of twinvec: they disturb nothing."""

from __future__ import annotations

import pytest
from llama_index.core.schema import TextNode
from qdrant_client import QdrantClient

from frameworks_collections import langchain_store, llama_store, with_vector
from stand_in import StandIn
from twinvec_qdrant import Collection

TEXT = "soup of red lentils"
RECIPES = [{"id": "soup", "text": TEXT}, {"id": "cake", "text": "cake with lemon"}]


@pytest.fixture(params=["server", "local"])
def opened(request, words):
    """A client, and arguments of ``Collection.open`` that name the same store."""
    if request.param == "local":
        client = QdrantClient(":memory:")
        yield client, {"client": client}
        client.close()
        return
    with StandIn().running() as server:
        client = QdrantClient(server.url, timeout=60, check_compatibility=False)
        yield client, {"url": server.url}
        client.close()


def _by_langchain(client, words):
    keys = {"vector_name": "dense", "content_payload_key": "text", "metadata_payload_key": "metadata"}
    langchain_store(client, words, "recipes", **keys).add_texts([TEXT] * 20, [{"id": row} for row in range(20)])


def _by_llama_index(client, words):
    node = TextNode(text=TEXT, metadata={"source": "soup", "revision": 5})
    node.excluded_embed_metadata_keys = ["source", "revision"]
    llama_store(client, "recipes", dense_vector_name="dense").add([with_vector(node, words)])


@pytest.mark.parametrize("write", [_by_langchain, _by_llama_index])
def test_no_search_finds_them(opened, words, write):
    client, place = opened
    with Collection.open("recipes", encoder=words, chunking=False, **place) as collection:
        collection.ingest(RECIPES)
        before = {mode: collection.search(TEXT, 5, mode) for mode in ("dense", "sparse", "hybrid")}
        write(client, words)
        for mode, hits in before.items():
            assert [(hit.id, hit.scores) for hit in collection.search(TEXT, 5, mode)] == [
                (hit.id, pytest.approx(hit.scores, abs=1e-5)) for hit in hits
            ]
        assert [hit.id for hit in collection.search(TEXT, 1, feedback=2)] == ["soup"]
        assert [hit.id for hit in collection.search_diverse(TEXT, 2)] == ["soup", "cake"]
        assert [hit.id for hit in collection.search_vector(words.encode_query([TEXT])[0], 1)] == ["soup"]


def test_a_chunk_that_they_overwrite_counts_as_missing_and_is_written_again(opened, words):
    client, place = opened
    with Collection.open("recipes", encoder=words, chunking=False, **place) as collection:
        collection.ingest(RECIPES)
        keys = {"vector_name": "dense", "content_payload_key": "text", "metadata_payload_key": "metadata"}
        theirs = langchain_store(client, words, "recipes", **keys)
        (soup,) = theirs.similarity_search(TEXT, k=1)
        theirs.add_texts(["soup of onions"], ids=[soup.metadata["_id"]])
        assert collection.verify(repair=True).incomplete == ["soup"]
        assert (collection.ingest(RECIPES).updated, collection.verify().sound) == (1, True)
        assert [hit.text for hit in collection.search(TEXT, 1)] == [TEXT]
