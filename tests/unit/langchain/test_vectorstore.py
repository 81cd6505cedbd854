"""TwinvecVectorStore for LangChain beyond the framework's own suite: modes, filters, MMR, errors, our embeddings."""

from __future__ import annotations

import asyncio
import copy
import math
import pickle
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding, FakeEmbeddings
from langchain_qdrant import QdrantVectorStore
from qdrant_client import QdrantClient, models

from handbook import QUESTION
from langchain_twinvec import TwinvecEmbeddings, TwinvecVectorStore
from stand_in import Fault, StandIn
from twinvec import Encoder
from twinvec.errors import (
    ConfigurationError,
    DocumentError,
    FilterError,
    SpaceMismatchError,
    StoreError,
    StoreUnavailableError,
)
from twinvec_qdrant import Collection, drop_collection

TEXTS = {
    "leave.md": "Holidays are requested two weeks ahead.",
    "vpn.md": "The VPN client is installed from the portal.",
    "pay.md": "Expenses are paid at the end of the month.",
    "überstunden": "Overtime is taken as free time within three months.",
}


@pytest.fixture(scope="module")
def embeddings(encoder: Encoder) -> TwinvecEmbeddings:
    return TwinvecEmbeddings(encoder=encoder)


@pytest.fixture(scope="module")
def documents() -> list[Document]:
    return [
        Document(text, id=key, metadata={"rank": rank, "source": {"file": key}, "id": "mine"})
        for rank, (key, text) in enumerate(TEXTS.items())
    ]


@pytest.fixture
def store(embeddings) -> TwinvecVectorStore:
    return TwinvecVectorStore(embeddings)


@pytest.fixture(scope="module")
def filled(embeddings, documents) -> TwinvecVectorStore:
    """Not to be changed."""
    store = TwinvecVectorStore(embeddings)
    store.add_documents(documents)
    return store


def test_documents_come_back_as_they_were(filled, documents) -> None:
    assert filled.get_by_ids(["pay.md", "gone", "leave.md"]) == [documents[2], documents[0]]
    assert filled.similarity_search(QUESTION, 1) == [documents[0]]


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_each_mode_gives_the_hits_of_the_core(filled, mode) -> None:
    found = filled.similarity_search_with_score("overtime for a VPN client", 3, mode=mode)
    expected = filled.collection.search("overtime for a VPN client", 3, mode)
    assert [document.id for document, _ in found] == [hit.id for hit in expected]
    assert [score for _, score in found] == pytest.approx([hit.score for hit in expected], abs=1e-6)
    assert found


def test_a_store_has_a_mode_of_its_own(embeddings, documents) -> None:
    store = TwinvecVectorStore(embeddings, mode="sparse")
    store.add_documents(documents)
    assert [document.id for document in store.similarity_search("portal")] == ["vpn.md"]
    (found, *_) = store.similarity_search_with_relevance_scores("portal", mode="hybrid")
    assert found[0].id == "vpn.md"


@pytest.mark.parametrize("mode", ["dense", "sparse", "hybrid"])
def test_relevance_scores_are_the_relevance_of_the_hits(filled, mode, monkeypatch) -> None:
    hits = filled.collection.search(QUESTION, 4, mode)
    scored = filled.similarity_search_with_relevance_scores(QUESTION, 4, mode=mode)
    cosines = [(1 + hit.scores.get("dense", 0.0)) / 2 for hit in hits]
    expected = [cosine if hit.relevance is None else hit.relevance for hit, cosine in zip(hits, cosines, strict=True)]
    assert [score for _, score in scored] == pytest.approx(expected, abs=1e-6)
    assert hits
    unknown = [replace(hit, relevance=None) for hit in hits]  # those of a collection of before
    monkeypatch.setattr(filled.collection, "search", lambda *_, **__: unknown)
    if mode == "sparse":
        with pytest.raises(ConfigurationError, match="reindex"):
            filled.similarity_search_with_relevance_scores(QUESTION, 4, mode=mode)
    else:
        scored = filled.similarity_search_with_relevance_scores(QUESTION, 4, mode=mode)
        assert [score for _, score in scored] == pytest.approx(cosines, abs=1e-6)


def test_filters_look_at_the_metadata(filled) -> None:
    assert {document.id for document in filled.similarity_search(QUESTION, filter={"rank": {"gte": 2}})} == {
        "pay.md",
        "überstunden",
    }
    nested = filled.similarity_search(QUESTION, filter={"source.file": "vpn.md"})
    assert [document.id for document in nested] == ["vpn.md"]
    with pytest.raises(FilterError, match="rank"):
        filled.similarity_search(QUESTION, filter={"rank": {"above": 2}})


def test_relevance_scores_lie_between_0_and_1_and_thresholds_work(filled) -> None:
    scores = [score for _, score in filled.similarity_search_with_relevance_scores(QUESTION)]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
    middle = (scores[0] + scores[1]) / 2
    retriever = filled.as_retriever(
        search_type="similarity_score_threshold", search_kwargs={"score_threshold": middle, "k": 4}
    )
    assert [document.id for document in retriever.invoke(QUESTION)] == ["leave.md"]


@pytest.mark.parametrize("search_type", ["similarity", "mmr", "similarity_score_threshold"])
async def test_the_filter_of_a_call_is_added_to_the_retrievers_own(filled, search_type) -> None:
    own = {"k": 4, "filter": {"rank": {"gte": 2}}, "score_threshold": 0.0}
    if search_type == "mmr":
        del own["score_threshold"]
    retriever = filled.as_retriever(search_type=search_type, search_kwargs=own)
    assert {document.id for document in retriever.invoke(QUESTION)} == {"pay.md", "überstunden"}
    for outside in ({"source.file": "vpn.md"}, {"rank": 1}):
        assert retriever.invoke(QUESTION, filter=outside) == []
        assert await retriever.ainvoke(QUESTION, filter=outside) == []
    within = {"rank": filled.get_by_ids(["pay.md"])[0].metadata["rank"]}
    assert [document.id for document in retriever.invoke(QUESTION, filter=within)] == ["pay.md"]
    assert {document.id for document in retriever.invoke(QUESTION, filter=None)} == {"pay.md", "überstunden"}
    assert "TwinvecVectorStore" in retriever.tags


def test_mmr_weighs_relevance_against_difference(filled, embeddings) -> None:
    nearest = filled.similarity_search(QUESTION)
    assert filled.max_marginal_relevance_search(QUESTION, lambda_mult=1.0) == nearest
    diverse = filled.max_marginal_relevance_search(QUESTION, 3, lambda_mult=0.1)
    expected = filled.collection.search_diverse(QUESTION, 3, candidates=20, diversity=0.9)
    assert [document.id for document in diverse] == [hit.id for hit in expected]
    vector = embeddings.embed_query(QUESTION)
    assert filled.max_marginal_relevance_search_by_vector(vector, 3, lambda_mult=0.1) == diverse
    assert filled.similarity_search_by_vector(vector) == nearest


async def test_awaited_searches_give_the_same(filled, embeddings) -> None:
    vector = embeddings.embed_query(QUESTION)
    assert await filled.asimilarity_search(QUESTION, 2) == filled.similarity_search(QUESTION, 2)
    assert await filled.asimilarity_search_by_vector(vector, 2) == filled.similarity_search(QUESTION, 2)
    expected = filled.max_marginal_relevance_search(QUESTION, 2)
    assert await filled.amax_marginal_relevance_search(QUESTION, 2) == expected
    assert await filled.amax_marginal_relevance_search_by_vector(vector, 2) == expected
    scored = await filled.asimilarity_search_with_relevance_scores(QUESTION, 2)
    assert scored == filled.similarity_search_with_relevance_scores(QUESTION, 2)
    many = await asyncio.gather(*(filled.asimilarity_search(QUESTION, 1) for _ in range(8)))
    assert [found[0].id for found in many] == ["leave.md"] * 8


def test_what_is_there_is_not_embedded_again(store, documents, encoder, monkeypatch) -> None:
    store.add_documents(documents)
    embedded: list[str] = []

    def encode_document(texts, **options):
        embedded.extend(texts)
        return Encoder.encode_document(encoder, texts, **options)

    monkeypatch.setattr(encoder, "encode_document", encode_document)
    store.add_documents(documents)
    assert embedded == []
    store.add_texts(["Holidays are requested at any time."], ids=["leave.md"])
    assert embedded == ["Holidays are requested at any time."]
    assert store.get_by_ids(["leave.md"])[0].metadata == {}


def test_a_text_that_is_refused_is_named_and_hurts_no_other(store) -> None:
    with pytest.raises(DocumentError, match=r"1 of 2 texts were refused; the others are stored: text 1 \('bad'\): "):
        store.add_texts(["fine", "lone \ud800 surrogate"], ids=["good", "bad"])
    assert [document.id for document in store.get_by_ids(["good", "bad"])] == ["good"]
    with pytest.raises(DocumentError, match="JSON"):
        store.add_texts(["fine"], [{"when": object()}])
    with pytest.raises(DocumentError, match=r"7\.5"):
        store.add_texts(["fine"], ids=[7.5])
    with pytest.raises(ConfigurationError, match="metadatas must have one item for each of the 2 texts, got 1"):
        store.add_texts(["a", "b"], [{}])
    with pytest.raises(ConfigurationError, match="ids must have one item for each of the 2 texts, got 1"):
        store.add_texts(["a", "b"], ids=["a"])


def test_the_error_of_refused_texts_claims_no_more_than_is_so(store) -> None:
    with pytest.raises(DocumentError) as raised:
        store.add_texts(["a"], [{"when": object()}], ids=["bad"])
    assert str(raised.value).startswith("1 of 1 texts were refused: text 0 ('bad'): the metadata 'when': ")


class Failing(DeterministicFakeEmbedding):
    """Embeddings that give no usable vector for "bad", and fail after ``calls`` calls."""

    calls: int = 1_000_000

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        self.calls -= 1
        if self.calls < 0:
            raise ConnectionError("the model does not answer")
        vectors = super().embed_documents(texts)
        return [
            [math.nan] * self.size if text == "bad" else vector for text, vector in zip(texts, vectors, strict=True)
        ]


def test_texts_without_ids_are_all_refused_before_any_is_stored(store) -> None:
    documents = [Document("fine"), Document("bad", metadata={"when": object()}), Document("named", id="named")]
    with pytest.raises(DocumentError) as raised:
        store.add_documents(documents)
    assert str(raised.value).startswith(
        "1 of 3 texts were refused; nothing was stored: text 1: the metadata 'when': object"
    )
    assert store.collection.find() == []
    documents[1].metadata = {}
    assert sorted(store.add_documents(documents)) == sorted(store.collection.find())


@pytest.mark.parametrize(
    ("ids", "kept", "message"),
    [
        (None, [], "no document without an id is stored: text 1: "),
        (["a", None, None], ["a"], "no document without an id is stored: text 1: "),
        ([None, "b", None], [], r"no document without an id is stored: text 1 \('b'\): "),
        (["a", "b", "c"], ["a", "c"], r"the others are stored: text 1 \('b'\): "),
    ],
)
def test_no_text_without_an_id_stays_beside_one_that_cannot_be_embedded(ids, kept, message) -> None:
    store = TwinvecVectorStore(Failing(size=16))
    with pytest.raises(DocumentError, match=f"1 of 3 texts were refused; {message}encoder 'Failing': the vector of"):
        store.add_texts(["fine", "bad", "good"], ids=ids)
    assert sorted(store.collection.find()) == kept


def test_no_text_without_an_id_stays_after_the_embeddings_failed() -> None:
    embeddings = Failing(size=4)
    store = TwinvecVectorStore(embeddings)
    texts = [f"text {number}" for number in range(3000)]
    embeddings.calls = 12
    with pytest.raises(ConnectionError) as raised:
        store.add_texts(texts)
    assert "committed before the error: 0 new" not in raised.value.__notes__[0]
    assert store.collection.count() == 0


@pytest.fixture
def server(monkeypatch):
    """A server to which every batch of ten documents is written by itself."""
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 10)
    with StandIn().running() as running:
        yield running


def on_server(server: StandIn) -> TwinvecVectorStore:
    client = QdrantClient(server.url, check_compatibility=False)
    return TwinvecVectorStore(DeterministicFakeEmbedding(size=4), client=client, wait_seconds=0.2)


def after_writes(number: int, *, once: bool) -> Callable[[str, str], Fault | None]:
    """Return a fault for requests that follow ``number`` writes of points: for the first of them, or for all."""
    left, met = [number], []

    def fault(method: str, path: str) -> Fault | None:
        left[0] -= method == "PUT" and "/points" in path
        if left[0] >= 0 or (once and met):
            return None
        met.append(path)
        return Fault.UNKNOWN if once else Fault.REFUSED

    return fault


def test_refused_texts_that_cannot_be_removed_are_named(monkeypatch) -> None:
    def gone(ids: list[str]) -> int:
        raise StoreError("the store is gone")

    store = TwinvecVectorStore(Failing(size=16))
    monkeypatch.setattr(store.collection, "delete", gone)
    with pytest.raises(DocumentError, match="1 of 3 texts were refused") as raised:
        store.add_texts(["fine", "bad", "good"])
    assert store.collection.count() == 2
    assert all(each in raised.value.__notes__[-1] for each in store.collection.find())


@pytest.mark.parametrize("texts", [["fine"], ["fine", "good"]])
def test_a_closed_store_has_stored_nothing_and_says_so(texts) -> None:
    store = TwinvecVectorStore(Failing(size=16))
    store.collection.close()
    with pytest.raises(StoreError, match="the collection has been closed") as raised:
        store.add_texts(texts)
    assert not hasattr(raised.value, "__notes__")


@pytest.mark.parametrize("ids", [None, [None, *map(str, range(1, 40))]])
def test_no_text_without_an_id_stays_after_the_store_failed(server, ids) -> None:
    store, texts = on_server(server), [f"text {number}" for number in range(40)]
    server.fault = after_writes(7, once=True)
    with pytest.raises(StoreError) as raised:
        store.add_texts(texts, ids=ids)
    assert "committed before the error: 20 new" in raised.value.__notes__[0]
    assert len(raised.value.__notes__) == 1
    assert sorted(store.collection.find()) == sorted(map(str, range(1, 20)) if ids else [])
    store.add_texts(texts, ids=ids)
    assert store.collection.count() == 40


def test_the_ids_of_texts_that_a_lost_store_may_hold_are_in_the_error(server) -> None:
    store, texts = on_server(server), [f"text {number}" for number in range(40)]
    server.fault = after_writes(7, once=False)
    with pytest.raises(StoreUnavailableError) as raised:
        store.add_texts(texts)
    note = raised.value.__notes__[-1]
    named = note.rpartition(": ")[2].split(", ")
    assert note.startswith("documents may be stored under generated ids and could not be removed (")
    assert len(named) == 40
    server.fault = lambda method, path: None
    stored = store.collection.find()
    assert len(stored) >= 20
    assert set(stored) <= set(named)
    store.delete(named)
    store.add_texts(texts)
    assert store.collection.count() == 40


def test_texts_are_prepared_once_and_warned_of_once(store, caplog) -> None:
    store.add_texts(["ราคาของปั๊มคือเท่าไหร่", "ราคาของวาล์วคือเท่าไหร่"])
    assert [each.message[:27] for each in caplog.records if "words" in each.message] == ["2 chunks consist mostly of "]


@pytest.mark.parametrize("method", ["from_texts", "from_documents"])
def test_a_store_that_could_not_be_filled_is_closed(method, tmp_path) -> None:
    make = getattr(TwinvecVectorStore, method)
    given = ["bad", "fine"] if method == "from_texts" else [Document("bad"), Document("fine")]
    with pytest.raises(DocumentError, match="1 of 2 texts were refused"):
        make(given, Failing(size=4), path=tmp_path)
    drop_collection("langchain", tmp_path, wait_seconds=0)  # nobody has it open


def test_an_open_collection_stays_open_after_it_could_not_be_filled() -> None:
    store = TwinvecVectorStore(Failing(size=4))
    with pytest.raises(DocumentError):
        TwinvecVectorStore.from_texts(["bad"], Failing(size=4), collection=store.collection)
    assert store.add_texts(["fine"]) == store.collection.find()


def test_a_refused_text_without_a_usable_id_is_named_by_its_place(store) -> None:
    with pytest.raises(DocumentError, match=r"2 of 4 texts .*: text 2: the id must be .*; text 3: the id must be "):
        store.add_texts(["twice", "twice", "a", "b"], ids=["same", "same", 7.5, ""])


@pytest.mark.parametrize(
    ("documents", "named"),
    [
        (Document("a"), "expected a list of documents, got Document"),
        ({"page_content": "a"}, "expected a list of documents, got dict"),
        ("a", "expected a list of documents, got str"),
        (None, "expected a list of documents, got NoneType"),
        ([Document("a"), {"page_content": "a"}], r"item 1: expected a Document\(.*got dict"),
        (["a"], "item 0: .*, got str; add_texts takes strings"),
    ],
)
async def test_what_is_not_a_list_of_documents_is_named(store, embeddings, documents, named) -> None:
    kind = TwinvecVectorStore
    with pytest.raises(DocumentError, match=f"^documents: {named}"):
        store.add_documents(documents)
    with pytest.raises(DocumentError, match=f"^documents: {named}"):
        await store.aadd_documents(documents)
    with pytest.raises(DocumentError, match=f"^documents: {named}"):
        kind.from_documents(documents, embeddings)
    with pytest.raises(DocumentError, match=f"^documents: {named}"):
        await kind.afrom_documents(documents, embeddings)
    assert store.collection.find() == []


def test_documents_of_a_generator_are_added(store) -> None:
    assert store.add_documents(Document(key, id=key) for key in ("a", "b")) == ["a", "b"]
    assert sorted(store.collection.find()) == ["a", "b"]


@pytest.mark.parametrize("client", [None, QdrantClient(":memory:")])
def test_a_store_that_is_pickled_or_copied_says_what_to_do(embeddings, client) -> None:
    store = TwinvecVectorStore(embeddings, client=client)
    for copied in (pickle.dumps, copy.deepcopy):
        with pytest.raises(ConfigurationError, match=r"cannot be pickled or copied.* path or url, and open it again"):
            copied(store)
    assert copy.copy(store).collection is store.collection


@pytest.mark.parametrize("threshold", ["0.5", math.nan])
async def test_a_threshold_that_is_no_number_is_named(filled, threshold) -> None:
    wrong = {"score_threshold": threshold}
    vector = [1.0] * 384
    for search in (
        partial(filled.similarity_search, "a"),
        partial(filled.similarity_search_by_vector, vector),
        partial(filled.max_marginal_relevance_search, "a"),
        partial(filled.similarity_search_with_relevance_scores, "a"),
    ):
        with pytest.raises(ConfigurationError, match=f"^score_threshold must be a number, got {threshold!r}"):
            search(**wrong)
    with pytest.raises(ConfigurationError, match=r"^score_threshold must be a number"):
        await filled.asimilarity_search_with_relevance_scores("a", **wrong)


def test_metadata_that_is_no_dict_is_refused_by_its_type(store) -> None:
    with pytest.raises(DocumentError, match=r"text 0 \('bad'\): the metadata must be names with values, got str"):
        store.add_texts(["a"], ["name"], ids=["bad"])


@pytest.mark.parametrize(
    ("method", "arguments", "name"),
    [
        ("similarity_search", {"query": "a", "k": 0}, "k"),
        ("similarity_search_by_vector", {"embedding": [1.0], "k": True}, "k"),
        ("max_marginal_relevance_search", {"query": "a", "k": 2.5}, "k"),
        ("max_marginal_relevance_search", {"query": "a", "fetch_k": 0}, "fetch_k"),
    ],
)
def test_a_wrong_number_is_named_as_the_caller_wrote_it(store, method, arguments, name) -> None:
    with pytest.raises(ConfigurationError, match=f"^{name} must be a whole number from 1 "):
        getattr(store, method)(**arguments)


@pytest.mark.parametrize("method", ["similarity_search", "max_marginal_relevance_search", "add_texts"])
def test_unknown_arguments_are_named(store, method) -> None:
    with pytest.raises(ConfigurationError, match="tpyo"):
        getattr(store, method)("text", tpyo=1)


def test_deleting_without_ids_removes_all(store, documents) -> None:
    store.add_documents(documents)
    store.delete(["pay.md", "gone"])
    assert store.collection.count() == 3
    store.delete()
    assert store.collection.count() == 0


def test_a_blank_query_finds_nothing_and_a_blank_text_is_kept(store) -> None:
    store.add_texts(["", "words"], ids=["empty", "full"])
    assert store.similarity_search(" ") == []
    assert [document.id for document in store.get_by_ids(["empty", "full"])] == ["empty", "full"]
    assert [document.id for document in store.similarity_search("words")] == ["full"]


@pytest.mark.parametrize("query", ["", " \n"])
async def test_a_blank_query_with_a_filter_lists_what_satisfies_it(filled, query) -> None:
    """``SelfQueryRetriever`` asks so for "all pages of the team hr"."""
    later = {"rank": {"gte": 1}}
    wanted = sorted([*TEXTS][1:])
    for mode in ("dense", "sparse", "hybrid"):
        found = filled.similarity_search_with_score(query, 10, later, mode)
        assert [(document.id, score) for document, score in found] == [(key, 0.0) for key in wanted]
        scored = filled.similarity_search_with_relevance_scores(query, 10, filter=later, mode=mode)
        assert [(document.id, score) for document, score in scored] == [(key, 0.0) for key in wanted]
    assert [document.id for document in filled.similarity_search(query, 1, later, offset=1)] == wanted[1:2]
    assert [document.id for document in filled.max_marginal_relevance_search(query, 10, filter=later)] == wanted
    assert [document.id for document in await filled.asimilarity_search(query, 10, filter=later)] == wanted
    assert filled.similarity_search(query, filter={}) == filled.similarity_search(query, filter={"rank": 9}) == []


def test_a_store_is_bound_to_its_embeddings(embeddings, documents, tmp_path) -> None:
    store = TwinvecVectorStore(embeddings, path=tmp_path)
    store.add_documents(documents)
    store.close()
    with pytest.raises(SpaceMismatchError, match="DeterministicFakeEmbedding"):
        TwinvecVectorStore(DeterministicFakeEmbedding(size=384), path=tmp_path)
    again = TwinvecVectorStore(embeddings, path=tmp_path)
    assert again.similarity_search(QUESTION, 1) == [documents[0]]
    again.close()


def test_foreign_embeddings_are_known_by_their_vectors(tmp_path) -> None:
    TwinvecVectorStore(DeterministicFakeEmbedding(size=16), path=tmp_path).close()
    TwinvecVectorStore(DeterministicFakeEmbedding(size=16), path=tmp_path).close()
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(DeterministicFakeEmbedding(size=17), path=tmp_path)
    with pytest.raises(SpaceMismatchError):
        TwinvecVectorStore(FakeEmbeddings(size=16), path=tmp_path)


def test_an_open_collection_may_be_given(encoder, embeddings, documents, tmp_path) -> None:
    with Collection.open("whole", tmp_path / "a", encoder=encoder, chunking=False) as collection:
        store = TwinvecVectorStore(embeddings, collection=collection)
        store.add_documents(documents)
        assert collection.count() == len(documents)
        with pytest.raises(ConfigurationError, match="path"):
            TwinvecVectorStore(embeddings, collection=collection, path=tmp_path)
    with (
        Collection.open("cut", tmp_path / "b", encoder=encoder) as collection,
        pytest.raises(ConfigurationError, match="chunks"),
    ):
        TwinvecVectorStore(embeddings, collection=collection)
    with pytest.raises(ConfigurationError, match="embeddings"):
        TwinvecVectorStore()


def test_from_documents_takes_the_arguments_of_the_class(embeddings, documents, tmp_path) -> None:
    store = TwinvecVectorStore.from_documents(documents, embeddings, collection_name="handbook", path=tmp_path)
    assert store.similarity_search(QUESTION, 1) == [documents[0]]
    assert store.embeddings is embeddings
    assert store.collection.name == "handbook"
    store.close()


def test_our_embeddings_work_in_langchains_own_store(embeddings, filled) -> None:
    client = QdrantClient(":memory:")
    client.create_collection("theirs", models.VectorParams(size=384, distance=models.Distance.COSINE))
    theirs = QdrantVectorStore(client, "theirs", embeddings)
    theirs.add_texts(list(TEXTS.values()))
    found = theirs.similarity_search_with_score(QUESTION, 3)
    expected = filled.similarity_search_with_score(QUESTION, 3)
    assert [document.page_content for document, _ in found] == [document.page_content for document, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], abs=1e-5)
