"""TwinvecRetriever for LlamaIndex: the core's hits as nodes, under fusion and a query engine."""

from __future__ import annotations

import asyncio

import pytest
from llama_index.core.llms import MockLLM
from llama_index.core.query_engine import RetrieverQueryEngine
from llama_index.core.response_synthesizers import get_response_synthesizer
from llama_index.core.retrievers import QueryFusionRetriever
from llama_index.core.schema import IndexNode, TextNode
from llama_index.core.vector_stores.types import MetadataFilter, MetadataFilters

from handbook import PAGES, QUESTION
from llama_index.embeddings.twinvec import TwinvecEmbedding
from llama_index.postprocessor.twinvec_rerank import TwinvecRerank
from llama_index.retrievers.twinvec import TwinvecRetriever
from llama_index.vector_stores.twinvec import TwinvecVectorStore
from twinvec import Encoder, MaxSimReranker, MemoryIndex, RetrieveRerank
from twinvec.errors import ConfigurationError, FilterError
from twinvec_qdrant import Collection
from words import WordEncoder


@pytest.fixture(scope="module")
def index(encoder: Encoder) -> MemoryIndex:
    return MemoryIndex(encoder, PAGES)


@pytest.fixture
def collection(encoder, tmp_path):
    with Collection.open("docs", tmp_path, encoder=encoder) as collection:
        collection.ingest(PAGES)
        yield collection


def ids_and_scores(nodes) -> list[tuple[str, float]]:
    return [(node.node_id, node.score) for node in nodes]


def test_nodes_are_the_hits_of_a_collection(collection) -> None:
    nodes = TwinvecRetriever(collection, similarity_top_k=3).retrieve(QUESTION)
    hits = collection.search(QUESTION, 3)
    assert ids_and_scores(nodes) == [(hit.id, hit.score) for hit in hits]
    node, hit = nodes[0].node, hits[0]
    assert (node.node_id, node.text, node.ref_doc_id) == ("leave.md", PAGES[0]["text"], "leave.md")
    assert node.metadata == dict(hit.payload)
    assert [each.scores for each in nodes] == [dict(hit.scores) for hit in hits]
    assert list(nodes[0].scores) == ["dense", "sparse", "fused"]
    assert [each.relevance for each in nodes] == [hit.relevance for hit in hits]


def test_filter_options_and_reranking_reach_the_core(index, encoder) -> None:
    found = TwinvecRetriever(index, similarity_top_k=9, filter={"team": "it"}, search_options={"mode": "dense"})
    assert {node.node_id for node in found.retrieve(QUESTION)} == {"vpn.md", "pay.md"}
    assert list(found.retrieve(QUESTION)[0].scores) == ["dense"]
    reranker = MaxSimReranker(encoder)
    reranked = TwinvecRetriever(index, reranker=reranker, similarity_top_k=2, candidates=3).retrieve(QUESTION)
    expected = RetrieveRerank(index, reranker, 3).search(QUESTION, 2)
    assert ids_and_scores(reranked) == [(hit.id, hit.score) for hit in expected]
    with pytest.raises(ConfigurationError, match="similarity_top_k"):
        TwinvecRetriever(index, similarity_top_k=0)


def test_metadata_filters_are_taken_as_by_the_store(index) -> None:
    for condition, found in (("and", {"vpn.md", "pay.md"}), ("not", {"leave.md"})):
        filters = MetadataFilters(filters=[MetadataFilter(key="team", value="it")], condition=condition)
        nodes = TwinvecRetriever(index, similarity_top_k=9, filter=filters).retrieve(QUESTION)
        assert {node.node_id for node in nodes} >= found
        assert {node.metadata["team"] == "it" for node in nodes} == {condition == "and"}
    with pytest.raises(FilterError, match="'is_empty'"):
        TwinvecRetriever(index, filter=MetadataFilters(filters=[MetadataFilter(key="team", value=None)]))


async def test_awaiting_gives_the_same(index) -> None:
    retriever = TwinvecRetriever(index)
    expected = ids_and_scores(retriever.retrieve(QUESTION))
    many = await asyncio.gather(*(retriever.aretrieve(QUESTION) for _ in range(8)))
    assert [ids_and_scores(found) for found in many] == [expected] * 8


def test_a_collection_filled_by_the_vector_store_gives_its_nodes(encoder) -> None:
    store = TwinvecVectorStore(TwinvecEmbedding(encoder=encoder))
    stored = [TextNode(id_=each["id"], text=each["text"], metadata={"team": each["team"]}) for each in PAGES]
    stored.append(IndexNode(id_="summary", text="Everything about being away.", index_id="leave.md"))
    store.add(stored)
    nodes = TwinvecRetriever(store.client, similarity_top_k=5).retrieve(QUESTION)
    back = {node.node_id: node.node for node in nodes}
    assert back["leave.md"].metadata["team"] == "hr"
    assert back["leave.md"].text == PAGES[0]["text"]
    assert isinstance(back["summary"], IndexNode)


def test_query_fusion_takes_it_as_one_of_several(index) -> None:
    retrievers = [
        TwinvecRetriever(index, search_options={"mode": mode}, similarity_top_k=3) for mode in ("dense", "sparse")
    ]
    fusion = QueryFusionRetriever(
        retrievers, llm=MockLLM(), num_queries=1, similarity_top_k=3, mode="reciprocal_rerank", use_async=False
    )
    found = fusion.retrieve(QUESTION)
    assert found[0].node_id == "leave.md"
    assert len({node.node_id for node in found}) == len(found) == 3


async def test_query_fusion_awaits_it(index) -> None:
    retrievers = [TwinvecRetriever(index, similarity_top_k=2) for _ in range(2)]
    fusion = QueryFusionRetriever(retrievers, llm=MockLLM(), num_queries=1, similarity_top_k=2, mode="relative_score")
    assert [node.node_id for node in await fusion.aretrieve(QUESTION)] == [hit.id for hit in index.search(QUESTION, 2)]


def test_a_query_engine_reranks_and_answers(collection, encoder) -> None:
    engine = RetrieverQueryEngine(
        TwinvecRetriever(collection, similarity_top_k=4),
        get_response_synthesizer(llm=MockLLM()),
        node_postprocessors=[TwinvecRerank(1, encoder=encoder)],
    )
    response = engine.query(QUESTION)
    assert [node.node_id for node in response.source_nodes] == ["leave.md"]
    assert PAGES[0]["text"] in str(response)
    assert PAGES[2]["text"] not in str(response)


def test_a_vector_store_and_other_objects_are_no_retrievers(tmp_path) -> None:
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as collection:
        store = TwinvecVectorStore(collection=collection)
        with pytest.raises(ConfigurationError, match=r"store\.client"):
            TwinvecRetriever(store)
        with pytest.raises(ConfigurationError, match="got str"):
            TwinvecRetriever("handbook")
        with pytest.raises(ConfigurationError, match="candidates must be a whole number from 1 to"):
            TwinvecRetriever(collection, candidates=0)
        with pytest.raises(ConfigurationError, match="mode 'fuzzy'"):
            TwinvecRetriever(collection, search_options={"mode": "fuzzy"})
        assert TwinvecRetriever(store.client).retrieve("nothing") == []


@pytest.mark.parametrize("name", ["mod", "limit", "filter", "query"])
@pytest.mark.parametrize("reranked", [False, True])
def test_an_option_that_search_does_not_take_is_refused_with_those_that_it_takes(
    index, encoder, name, reranked
) -> None:
    reranker = MaxSimReranker(encoder) if reranked else None
    message = f"search_options: '{name}' is not one of mode, weights"
    with pytest.raises(ConfigurationError, match=message) as refused:
        TwinvecRetriever(index, reranker=reranker, search_options={name: "dense"})
    assert not {"limit", "filter", "query"} & set(str(refused.value).partition(" is not one of ")[2].split(", "))


def test_options_of_reranked_hits_and_of_retrievers_that_take_all_are_taken(index, encoder) -> None:
    class Bare:
        def search(self, query, limit=10, filter=None):
            return index.search(query, limit, filter=filter)

    class TakesAll(Bare):
        def search(self, query, limit=10, filter=None, **options):
            assert options == {"other": 1}
            return super().search(query, limit, filter)

    options = {"offset": 1, "min_relevance": 0.0}
    with pytest.raises(ConfigurationError, match="'offset' is not one of"):
        TwinvecRetriever(Bare(), search_options=options)
    reranked = TwinvecRetriever(Bare(), reranker=MaxSimReranker(encoder), search_options=options)
    assert len(reranked.retrieve(QUESTION)) == 2
    assert len(TwinvecRetriever(TakesAll(), search_options={"other": 1}).retrieve(QUESTION)) == 2
