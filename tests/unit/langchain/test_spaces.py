"""TwinvecVectorStore for LangChain searches with vectors of its own model only, as far as it knows them."""

from __future__ import annotations

import zlib

import numpy as np
import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings, FakeEmbeddings

from langchain_twinvec import TwinvecEmbeddings, TwinvecVectorStore
from twinvec import Encoder
from twinvec.adapters.external_encoder import ExternalEncoder
from twinvec.errors import ConfigurationError, SpaceMismatchError
from twinvec_qdrant import Collection, list_collections
from twinvec_qdrant.records.description import stored_description
from twinvec_qdrant.records.recorded_space import RecordedSpace, in_recorded_space


class Wrapped(Embeddings):
    """Embeddings of another class that ask ours, as a cache does."""

    def __init__(self, inner: Embeddings) -> None:
        self.inner = inner

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.inner.embed_documents(texts)

    def embed_query(self, text: str) -> list[float]:
        return self.inner.embed_query(text)


@pytest.fixture(scope="module")
def own(tiny_model) -> TwinvecEmbeddings:
    return TwinvecEmbeddings(model=str(tiny_model("bert")))


def test_a_vector_of_another_model_is_refused(own, tiny_model) -> None:
    other = TwinvecEmbeddings(model=str(tiny_model("bert")), query_prompt="a ")
    store = TwinvecVectorStore.from_texts(["one", "two"], own)
    for method in ("similarity_search_by_vector", "max_marginal_relevance_search_by_vector"):
        assert getattr(store, method)(own.embed_query("one"), 1)
        with pytest.raises(SpaceMismatchError):
            getattr(store, method)(other.embed_query("one"), 1)


def test_our_embeddings_may_lie_behind_others(own) -> None:
    store = TwinvecVectorStore.from_texts(["one", "two"], Wrapped(own))
    vector = store.embeddings.embed_query("one")
    assert store.similarity_search_by_vector(vector, 1)[0].page_content == "one"
    assert store.max_marginal_relevance_search_by_vector(vector, 1)[0].page_content == "one"


class Suffixed(TwinvecEmbeddings):
    """Our class, which adds to every text."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return super().embed_documents([f"{text} moon" for text in texts])

    def embed_query(self, text: str) -> list[float]:
        return super().embed_query(f"{text} moon")


class Counting(TwinvecEmbeddings):
    """Our class with the same vectors."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return super().embed_documents(texts)


def test_the_methods_of_a_subclass_embed(own, tmp_path) -> None:
    suffixed = Suffixed(encoder=own.encoder)
    store = TwinvecVectorStore.from_texts(["one", "two"], suffixed)
    ((found, score),) = store.similarity_search_with_score_by_vector(suffixed.embed_query("one"), 1)
    assert (found.page_content, score) == ("one", pytest.approx(1, abs=1e-5))
    TwinvecVectorStore(own, "notes", path=tmp_path).close()
    with pytest.raises(SpaceMismatchError, match="Suffixed"):
        TwinvecVectorStore(suffixed, "notes", path=tmp_path)
    TwinvecVectorStore(Counting(encoder=own.encoder), "notes", path=tmp_path).close()


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize("mode", ["dense", "hybrid"])
def test_an_exact_search_follows_a_migration(tiny_model, tmp_path, mode, dropped) -> None:
    """Both models have vectors of the same size, and the handle searches exactly from the first search on."""
    old, new = (Encoder(str(tiny_model("bert", seed=seed))) for seed in (1, 2))
    texts = ["the old cat sleeps", "two men walked on the moon", "retrieval finds documents"]
    store = TwinvecVectorStore(TwinvecEmbeddings(encoder=old), "notes", path=tmp_path)
    store.add_texts(texts, ids=texts)
    with Collection.open("notes", tmp_path, create=False) as other:
        other.migrate(new)
        if dropped:
            other.drop_others()
        expected = dict(zip(texts, (new.encode_document(texts) @ new.encode_query(texts[1])).tolist(), strict=True))
        for params in ({"exact": True}, None, {"exact": True}):
            found = store.similarity_search_with_score(texts[1], mode=mode, search_params=params)
            assert found[0][0].id == texts[1]
            if mode == "dense":
                assert {document.id: score for document, score in found} == pytest.approx(expected, abs=1e-5)
    store.close()


class Hosted(Embeddings):
    """A model behind an API: calls are counted, and each has noise of its own."""

    def __init__(self, weights: int, noise: float = 1e-4, dim: int = 384) -> None:
        self.calls = 0
        self.weights = weights
        self.noise = noise
        self.dim = dim
        self.rng = np.random.default_rng()

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls += 1
        return [self._vector(text) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        self.calls += 1
        return self._vector(text)

    def _vector(self, text: str) -> list[float]:
        vector = np.random.default_rng(zlib.crc32(f"{self.weights} {text}".encode())).normal(size=self.dim)
        return (vector / np.linalg.norm(vector) + self.rng.normal(0, self.noise, self.dim)).tolist()


def test_opening_again_costs_one_batched_call(tmp_path) -> None:
    TwinvecVectorStore(Hosted(1), path=tmp_path).close()
    again = Hosted(1)
    store = TwinvecVectorStore(again, path=tmp_path)
    assert again.calls == 1
    store.add_texts(["one"], ids=["a"])
    assert again.calls == 2
    assert store.similarity_search("one")[0].id == "a"
    assert store.similarity_search_by_vector(again.embed_query("one"))[0].id == "a"
    store.close()


def test_random_vectors_are_refused_before_a_collection_is_made(tmp_path) -> None:
    with pytest.raises(ConfigurationError, match="another vector at each call"):
        TwinvecVectorStore(FakeEmbeddings(size=16), path=tmp_path)
    assert list_collections(tmp_path) == []
    TwinvecVectorStore(DeterministicFakeEmbedding(size=16), path=tmp_path).close()


@pytest.mark.slow
@pytest.mark.parametrize("dim", [384, 3072])
def test_a_hosted_model_that_wobbles_is_taken_and_another_is_refused(tmp_path, dim) -> None:
    TwinvecVectorStore(Hosted(1, dim=dim), path=tmp_path).close()
    with Collection.open("langchain", tmp_path, create=False) as collection:
        description = stored_description(collection._backend)
    for draw in range(1000):
        for weights, taken in ((1, True), (2 + draw, False)):
            hosted = Hosted(weights, dim=dim)
            encoder = ExternalEncoder("hosted", hosted.embed_documents, hosted.embed_documents)
            assert isinstance(in_recorded_space(description, encoder), RecordedSpace) is taken, (draw, weights)
            assert hosted.calls == 1
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(Hosted(2, dim=dim), path=tmp_path)


def test_a_collection_that_others_have_filled_with_our_model_opens_with_it(own, tiny_model, tmp_path) -> None:
    filled = TwinvecVectorStore.from_texts(["one", "two"], Wrapped(own), path=tmp_path)
    filled.close()
    store = TwinvecVectorStore(own, path=tmp_path)
    assert store.similarity_search("one", 1)[0].page_content == "one"
    assert store.similarity_search_by_vector(own.embed_query("one"), 1)[0].page_content == "one"
    store.add_texts(["three"])
    store.close()
    again = TwinvecVectorStore(Wrapped(own), path=tmp_path)
    assert len(again.similarity_search("one", 9)) == 3
    again.close()
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(TwinvecEmbeddings(model=str(tiny_model("bert", normalize=False, seed=5))), path=tmp_path)


def test_a_collection_of_our_model_opens_with_it_behind_another_class(own, tmp_path) -> None:
    TwinvecVectorStore.from_texts(["one", "two"], own, path=tmp_path).close()
    store = TwinvecVectorStore(Wrapped(own), path=tmp_path)
    assert store.similarity_search("one", 1)[0].page_content == "one"
    store.close()
