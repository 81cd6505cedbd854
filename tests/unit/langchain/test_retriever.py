"""TwinvecRetriever: the core's hits as documents, with scores, filters, reranking and tracing parameters."""

from __future__ import annotations

import asyncio
import copy
import pickle
from importlib import import_module

import pytest
from langchain_core.callbacks import BaseCallbackHandler
from langchain_core.documents import Document
from langchain_core.embeddings import DeterministicFakeEmbedding
from langchain_core.load import dumps, loads
from pydantic import ValidationError
from qdrant_client import models

from handbook import PAGES, QUESTION
from langchain_twinvec import TwinvecReranker, TwinvecRetriever, TwinvecVectorStore
from twinvec import Encoder, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.errors import ConfigurationError, FilterError
from twinvec_qdrant import Collection

DOCUMENTS = PAGES[:3]


@pytest.fixture(scope="module")
def index(encoder: Encoder) -> MemoryIndex:
    return MemoryIndex(encoder, DOCUMENTS)


def test_documents_are_the_hits_of_the_core(index) -> None:
    documents = TwinvecRetriever(retriever=index, k=2).invoke(QUESTION)
    hits = index.search(QUESTION, 2)
    assert [document.id for document in documents] == [hit.id for hit in hits] == ["leave.md", "overtime.md"]
    for document, hit in zip(documents, hits, strict=True):
        assert document.page_content == hit.text
        assert document.metadata == {
            "team": "hr",
            "relevance_score": hit.score,
            "twinvec_scores": dict(hit.scores),
        }


def test_a_call_may_say_how_many_which_and_how(index) -> None:
    retriever = TwinvecRetriever(retriever=index, filter={"team": "hr"}, search_kwargs={"mode": "dense"})
    assert len(retriever.invoke(QUESTION)) == 2
    assert len(retriever.invoke(QUESTION, k=1)) == 1
    (found,) = retriever.invoke(QUESTION, filter={"id": "overtime.md"})
    assert found.id == "overtime.md"
    assert list(found.metadata["twinvec_scores"]) == ["dense"]
    (found, *_) = retriever.invoke("overtime", mode="sparse")
    assert list(found.metadata["twinvec_scores"]) == ["sparse"]


def test_an_argument_that_the_search_does_not_take_is_named(index, maxsim) -> None:
    for reranker in (None, maxsim):
        retriever = TwinvecRetriever(retriever=index, reranker=reranker)
        with pytest.raises(ConfigurationError, match=r"^unknown arguments: filtre, limit$"):
            retriever.invoke(QUESTION, filtre={"team": "hr"}, limit=3)
        assert retriever.invoke(QUESTION, weights=(1.0, 0.0))
    with pytest.raises(ConfigurationError, match=r"^unknown arguments: mod$"):
        TwinvecRetriever(retriever=index, search_kwargs={"mod": "dense"}).invoke(QUESTION)
    reranking = RetrieveRerank(index, maxsim)
    assert TwinvecRetriever(retriever=reranking).invoke(QUESTION, mode="sparse")


def test_a_reranker_brings_the_options_of_retrieve_rerank(index, encoder) -> None:
    class Plain:
        def search(self, query, limit=10, *, filter=None):
            return index.search(query, limit, filter=filter)

    reranker = MaxSimReranker(encoder)
    expected = [hit.id for hit in RetrieveRerank(Plain(), reranker).search(QUESTION, 2, offset=1)]
    options = {"offset": 1, "min_relevance": None, "passages": False}
    for retriever in (Plain(), index):
        documents = TwinvecRetriever(retriever=retriever, reranker=reranker, k=2, search_kwargs=options).invoke(
            QUESTION
        )
        assert [document.id for document in documents] == expected
    with pytest.raises(ConfigurationError, match=r"^unknown arguments: offset$"):
        TwinvecRetriever(retriever=Plain(), search_kwargs={"offset": 1}).invoke(QUESTION)


def test_reranking_gives_what_retrieve_rerank_gives(index, encoder) -> None:
    reranker = MaxSimReranker(encoder)
    documents = TwinvecRetriever(retriever=index, reranker=reranker, k=2, candidates=3).invoke(QUESTION)
    expected = RetrieveRerank(index, reranker, 3).search(QUESTION, 2)
    assert [document.id for document in documents] == [hit.id for hit in expected]
    assert documents[0].metadata["twinvec_scores"] == dict(expected[0].scores)
    assert documents[0].metadata["relevance_score"] == expected[0].score


async def test_awaiting_gives_the_same(index) -> None:
    retriever = TwinvecRetriever(retriever=index)
    assert await retriever.ainvoke(QUESTION, k=2) == retriever.invoke(QUESTION, k=2)
    many = await asyncio.gather(*(retriever.ainvoke(QUESTION, k=1) for _ in range(8)))
    assert [found[0].id for found in many] == ["leave.md"] * 8


def test_chunks_of_a_collection_carry_their_place(encoder, tmp_path) -> None:
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        collection.ingest(DOCUMENTS)
        (document,) = TwinvecRetriever(retriever=collection, k=1).invoke(QUESTION)
        assert document.id == "leave.md"
        assert {"source": "leave.md", "position": 0, "team": "hr"}.items() <= document.metadata.items()


def test_tracing_learns_of_store_and_model(encoder, tmp_path) -> None:
    seen: list[dict] = []

    class Tracer(BaseCallbackHandler):
        def on_retriever_start(self, serialized, query, *, metadata=None, **kwargs):
            seen.append(metadata)

    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        TwinvecRetriever(retriever=collection).invoke(QUESTION, {"callbacks": [Tracer()]})
    assert seen[0]["ls_vector_store_provider"] == "Collection"
    assert seen[0]["ls_embedding_provider"] == "twinvec"
    assert seen[0]["ls_embedding_model"] == encoder.name


def test_bad_settings_are_named(index) -> None:
    with pytest.raises(ValidationError, match="k"):
        TwinvecRetriever(retriever=index, k=0)
    with pytest.raises(ValidationError, match="kandidates"):
        TwinvecRetriever(retriever=index, kandidates=5)
    with pytest.raises(FilterError, match="team"):
        TwinvecRetriever(retriever=index).invoke(QUESTION, filter={"team": {"like": "hr"}})


QUERIES = [QUESTION, "Holidays and overtime", "When may I take time off?"]


def unique(documents: list[Document]) -> list[Document]:
    """Drop equal documents as LangChain's ``MultiQueryRetriever`` does."""
    return [each for place, each in enumerate(documents) if each not in documents[:place]]


@pytest.mark.parametrize("reranked", [False, True])
def test_a_document_that_several_queries_find_is_one_document(index, maxsim, reranked) -> None:
    retriever = TwinvecRetriever(retriever=index, reranker=maxsim if reranked else None)
    found = [document for query in QUERIES for document in retriever.invoke(query)]
    assert len({document.metadata["relevance_score"] for document in found}) > len(DOCUMENTS)
    assert sorted(each.id for each in unique(found)) == sorted(page["id"] for page in DOCUMENTS)


def test_a_reranked_document_is_equal_to_itself_with_other_scores(maxsim) -> None:
    reranker = TwinvecReranker(reranker=maxsim, top_n=None)
    documents = [Document(page["text"], id=page["id"]) for page in DOCUMENTS]
    found = [each for query in QUERIES for each in reranker.compress_documents(documents, query)]
    assert len(unique(found)) == len(documents)
    assert all(each in documents and documents.count(each) == 1 for each in found), "also to the plain document"


def test_documents_with_another_text_id_or_metadata_differ(index) -> None:
    (found, *_) = TwinvecRetriever(retriever=index).invoke(QUESTION)
    for change in ({"page_content": "other"}, {"id": "other"}, {"metadata": {**found.metadata, "team": "other"}}):
        assert found.model_copy(update=change) != found
    assert found != "text"


def test_a_scored_document_is_saved_as_a_document(index) -> None:
    (found, *_) = TwinvecRetriever(retriever=index).invoke(QUESTION)
    again = loads(dumps(found), allowed_objects=[Document])
    assert type(again) is Document
    assert (again.id, again.metadata) == (found.id, found.metadata)


def test_a_scored_document_bears_the_name_of_a_class_that_others_know(index) -> None:
    """LangGraph's checkpoints name the class of what they hold; in strict mode a class of ours comes back as a dict."""
    (found, *_) = TwinvecRetriever(retriever=index).invoke(QUESTION)
    named = getattr(import_module(type(found).__module__), type(found).__name__)
    assert named is Document
    assert named.model_validate_json(found.model_dump_json()) == found
    for again in (pickle.loads(pickle.dumps(found)), copy.deepcopy(found)):
        assert again.metadata == found.metadata
        again.metadata["relevance_score"] = 0.0
        assert again == found, "also with other scores"


def test_a_vector_store_and_other_objects_are_no_retrievers(index) -> None:
    store = TwinvecVectorStore(DeterministicFakeEmbedding(size=16))
    with pytest.raises(ValidationError, match=r"store\.collection.*as_retriever"):
        TwinvecRetriever(retriever=store)
    with pytest.raises(ValidationError, match="got str"):
        TwinvecRetriever(retriever="handbook")
    assert TwinvecRetriever(retriever=store.collection).invoke("nothing") == []


def test_an_unknown_mode_and_filter_are_refused_at_once(index) -> None:
    with pytest.raises(ValidationError, match="mode 'fuzzy'"):
        TwinvecRetriever(retriever=index, search_kwargs={"mode": "fuzzy"})
    with pytest.raises(ValidationError, match="got str"):
        TwinvecRetriever(retriever=index, filter="team = hr")


def test_the_filter_of_a_call_is_added(index) -> None:
    retriever = TwinvecRetriever(retriever=index, filter={"metadata.team": "hr"})
    assert {each.id for each in retriever.invoke(QUESTION)} == {"leave.md", "overtime.md"}
    assert {each.id for each in retriever.invoke(QUESTION, filter={"id": ["leave.md", "vpn.md"]})} == {"leave.md"}
    assert retriever.invoke(QUESTION, filter={"team": "it"}) == []
    team = models.FieldCondition(key="metadata.team", match=models.MatchValue(value="it"))
    assert retriever.invoke(QUESTION, filter=models.Filter(must=[team])) == []
    assert len(retriever.invoke(QUESTION, filter=models.Filter(must_not=[team]))) == 2
