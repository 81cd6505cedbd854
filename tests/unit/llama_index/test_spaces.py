"""TwinvecVectorStore for LlamaIndex refuses vectors of other models, of queries and of every node."""

from __future__ import annotations

import numpy as np
import pytest
from llama_index.core import MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import QueryBundle, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec import Encoder
from twinvec.adapters import origins
from twinvec.errors import SpaceMismatchError
from words import WordEncoder

TEXTS = [f"note {row} about the moon" for row in range(6)]


@pytest.fixture(scope="module")
def own(tiny_model) -> TwinvecEmbedding:
    return TwinvecEmbedding(str(tiny_model("bert")))


@pytest.fixture(scope="module")
def near(tiny_model) -> TwinvecEmbedding:
    """The same model with a prompt: another space, with vectors that are near."""
    return TwinvecEmbedding(str(tiny_model("bert")), text_instruction="a ", query_instruction="a ")


@pytest.fixture
def store(own) -> TwinvecVectorStore:
    store = TwinvecVectorStore(own)
    store.add([TextNode(id_=text, text=text) for text in TEXTS])
    return store


def asked(vector, mode: str = "default") -> VectorStoreQuery:
    return VectorStoreQuery(vector, 2, query_str=TEXTS[0], mode=VectorStoreQueryMode(mode))


@pytest.mark.parametrize("mode", ["default", "hybrid", "mmr"])
def test_a_query_of_another_model_is_refused(store, own, near, mode) -> None:
    mock = MockEmbedding(len(own.get_query_embedding("size")))
    assert store.query(asked(own.get_query_embedding(TEXTS[0]), mode)).ids
    for other in (mock, near):
        with pytest.raises(SpaceMismatchError):
            store.query(asked(other.get_query_embedding(TEXTS[0]), mode))


async def test_the_awaited_query_is_refused_too(store, near) -> None:
    with pytest.raises(SpaceMismatchError):
        await store.aquery(asked(near.get_query_embedding(TEXTS[0])))


def test_an_index_with_another_model_is_refused(store, own, near) -> None:
    for other in (near, MockEmbedding(len(own.get_query_embedding("size")))):
        index = VectorStoreIndex.from_vector_store(store, embed_model=other)
        with pytest.raises(SpaceMismatchError):
            index.as_retriever().retrieve(TEXTS[0])


def test_a_vector_that_is_not_known_is_compared_with_that_of_the_text(store, own) -> None:
    vector = (np.asarray(own.get_query_embedding(TEXTS[0])) * 2).tolist()  # as another process would give it
    assert origins.origin_of(vector) is None
    assert store.query(asked(vector)).ids[0] == TEXTS[0]


def test_the_mean_of_several_texts_is_taken(store, own) -> None:
    """As the made-up answers of HyDEQueryTransform are embedded."""
    index = VectorStoreIndex.from_vector_store(store, embed_model=own)
    bundle = QueryBundle("When is the moon full?", custom_embedding_strs=[TEXTS[3], "When is the moon full?"])
    assert index.as_retriever(similarity_top_k=2).retrieve(bundle)


@pytest.mark.parametrize("place", [0, 3, 5])
def test_every_node_is_checked(own, near, place) -> None:
    store = TwinvecVectorStore(own)
    nodes = [TextNode(id_=text, text=text, embedding=own.get_text_embedding(text)) for text in TEXTS]
    for foreign in (near.get_text_embedding(TEXTS[place]), MockEmbedding(store.client.encoder.dim)._get_vector()):
        nodes[place].embedding = foreign
        with pytest.raises(SpaceMismatchError, match=f"note {place}"):
            store.add(nodes)
        assert store.client.count() == 0
    nodes[place].embedding = own.get_text_embedding(TEXTS[place])
    assert len(store.add(nodes)) == len(TEXTS)


def test_vectors_that_are_known_are_not_computed_again(own, monkeypatch) -> None:
    store = TwinvecVectorStore(own)
    nodes = [TextNode(id_=text, text=text, embedding=own.get_text_embedding(text)) for text in TEXTS]
    vector = own.get_query_embedding(TEXTS[0])
    monkeypatch.setattr(Encoder, "encode_document", None)
    monkeypatch.setattr(Encoder, "encode_query", None)
    StorageContext.from_defaults(vector_store=store)
    assert store.add(nodes) == TEXTS
    assert store.query(asked(vector)).ids[0] == TEXTS[0]


def test_a_store_may_trust_its_caller(own) -> None:
    store = TwinvecVectorStore(own, check_vectors=False)
    vector = MockEmbedding(store.client.encoder.dim)._get_vector()
    store.add([TextNode(id_="a", text="a", embedding=vector)])
    assert store.query(VectorStoreQuery(vector, 1, query_str="b")).ids == ["a"]


def test_only_the_last_vectors_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr(origins, "MOST", 10)
    encoder = WordEncoder()
    vectors = encoder.encode_query([f"word{row}" for row in range(12)])
    origins.note_origin(vectors, encoder)
    assert [origins.origin_of(vector) for vector in vectors] == [None] * 2 + [encoder.space] * 10
    assert origins.origin_of(vectors[5].tolist()) == encoder.space
    del encoder
    assert origins.origin_of(vectors[5]) is None
