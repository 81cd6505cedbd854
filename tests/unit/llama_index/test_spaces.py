"""TwinvecVectorStore for LlamaIndex refuses vectors of other models, of queries and of every node."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter
from llama_index.core.schema import ImageNode, QueryBundle, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode

from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec import Encoder
from twinvec.adapters import origins
from twinvec.errors import DocumentError, SpaceMismatchError
from twinvec_qdrant import Collection
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


class WordEmbedding(MockEmbedding):
    """A third party's embedding with the vectors of a ``WordEncoder``."""

    def __init__(self) -> None:
        super().__init__(embed_dim=64)

    def _get_text_embedding(self, text: str) -> list[float]:
        return WordEncoder().encode_document([text])[0].tolist()

    def _get_query_embedding(self, query: str) -> list[float]:
        return WordEncoder().encode_query([query])[0].tolist()


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


@pytest.mark.parametrize("dropped", [False, True])
def test_a_query_follows_a_migration_in_every_form(tiny_model, tmp_path, dropped) -> None:
    """Both models have vectors of the same size."""
    old, new = (Encoder(str(tiny_model("bert", seed=seed))) for seed in (1, 2))
    store = TwinvecVectorStore(TwinvecEmbedding(encoder=old), "notes", path=tmp_path)
    store.add([TextNode(id_=text, text=text) for text in TEXTS])
    with Collection.open("notes", tmp_path, create=False) as other:
        other.migrate(new)
        if dropped:
            other.drop_others()
        by_text = VectorStoreQuery(query_str=TEXTS[3], similarity_top_k=6)
        by_vector = VectorStoreQuery(new.encode_query(TEXTS[3]).tolist(), 6, query_str=TEXTS[3])
        assert origins.origin_of(by_vector.query_embedding) is None
        expected = dict(zip(TEXTS, (new.encode_document(TEXTS) @ new.encode_query(TEXTS[3])).tolist(), strict=True))
        for query, params in (
            (by_text, {"exact": True}),
            (by_text, None),
            (by_vector, {"exact": True}),
            (by_vector, None),
        ):
            found = store.query(query, search_params=params)
            assert dict(zip(found.ids, found.similarities, strict=True)) == pytest.approx(expected, abs=1e-5)
    store.close()


def test_a_vector_of_the_former_model_is_not_stored_after_a_migration(tiny_model, tmp_path) -> None:
    """The store has been opened without an embedding, and has not searched since the migration."""
    old, new = (Encoder(str(tiny_model("bert", seed=seed))) for seed in (1, 2))
    with Collection.open("notes", tmp_path, encoder=old, chunking=False) as other:
        store = TwinvecVectorStore(collection=Collection.open("notes", tmp_path))
        vectors = {encoder: TwinvecEmbedding(encoder=encoder).get_text_embedding(TEXTS[0]) for encoder in (old, new)}
        assert store.add([TextNode(id_="before", text=TEXTS[0], embedding=vectors[old])])
        other.migrate(new)
        for _ in range(2):
            with pytest.raises(SpaceMismatchError):
                store.add([TextNode(id_="after", text=TEXTS[0], embedding=vectors[old])])
        assert store.client.find() == ["before"]
        assert store.add([TextNode(id_="after", text=TEXTS[0], embedding=vectors[new])])
        assert store.query(VectorStoreQuery(vectors[new], 2)).similarities == pytest.approx([1, 1], abs=1e-5)
        store.close()


@pytest.mark.parametrize("check", [True, False])
def test_a_vector_without_a_text_is_refused_by_name(own, check) -> None:
    store = TwinvecVectorStore(own, check_vectors=check)
    image = ImageNode(
        id_="image", image_path="image.png", embedding=MockEmbedding(store.client.encoder.dim)._get_vector()
    )
    blank = TextNode(id_="blank", text=" ", embedding=image.embedding)
    with pytest.raises(
        DocumentError, match=r"others are stored: node 0 \('image'\): .*no text.*; node 2 \('blank'\): "
    ):
        store.add([image, TextNode(id_="note", text=TEXTS[0]), blank])
    assert store.client.find() == ["note"]


def test_an_empty_document_stops_no_pipeline(own, store) -> None:
    pipeline = IngestionPipeline(transformations=[SentenceSplitter(), own], vector_store=store)
    (node,) = pipeline.run(documents=[Document(text="")])
    assert node.embedding is not None
    assert [each.text for each in store.get_nodes([node.node_id])] == [""]
    assert node.node_id not in store.query(asked(node.embedding)).ids


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


def test_a_vector_of_another_text_needs_trust(tmp_path) -> None:
    """A HyDEQueryTransform, for example, gives the mean vector of several texts, and a third party's has no origin."""
    model = WordEmbedding()
    node = TextNode(id_="a", text=TEXTS[0])
    bundle = QueryBundle("When is the moon full?", custom_embedding_strs=[TEXTS[3], "When is the moon full?"])

    def found(**options) -> list[str]:
        with closing(TwinvecVectorStore(model, "notes", path=tmp_path, **options)) as store:
            store.add([node])
            index = VectorStoreIndex.from_vector_store(store, embed_model=model)
            return [each.node_id for each in index.as_retriever().retrieve(bundle)]

    with pytest.raises(SpaceMismatchError, match="check_vectors=False if the vector is of another text"):
        found()
    assert found(check_vectors=False) == ["a"]


def test_only_the_last_vectors_are_remembered(monkeypatch) -> None:
    monkeypatch.setattr(origins, "MOST", 10)
    encoder = WordEncoder()
    vectors = encoder.encode_query([f"word{row}" for row in range(12)])
    origins.note_origin(vectors, encoder)
    assert [origins.origin_of(vector) for vector in vectors] == [None] * 2 + [encoder.space] * 10
    assert origins.origin_of(vectors[5].tolist()) == encoder.space
    del encoder
    assert origins.origin_of(vectors[5]) is None
