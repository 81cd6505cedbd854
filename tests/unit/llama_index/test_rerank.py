"""TwinvecRerank: nodes in the core's order, the given ones untouched, events told."""

from __future__ import annotations

import pytest
from llama_index.core.schema import Document, NodeWithScore, QueryBundle, TextNode
from pydantic import ValidationError

from cases import slow
from handbook import CANDIDATES, QUESTION
from llama_index.postprocessor.twinvec_rerank import TwinvecRerank
from llama_index.retrievers.twinvec import TwinvecRetriever
from twinvec import CrossEncoderReranker, Encoder, Hit
from twinvec.errors import ConfigurationError, ModelNotFoundError
from twinvec_qdrant import Collection


@pytest.fixture
def nodes() -> list[NodeWithScore]:
    scores = (0.3, 0.2, None)
    return [
        NodeWithScore(node=TextNode(text=text, id_=f"n{rank}", metadata={"lang": "en"}), score=score)
        for rank, (text, score) in enumerate(zip(CANDIDATES, scores, strict=True))
    ]


def test_nodes_come_in_the_order_of_the_core_and_the_given_ones_stay(maxsim, nodes) -> None:
    before = [node.model_dump() for node in nodes]
    best = TwinvecRerank(top_n=2, reranker=maxsim).postprocess_nodes(nodes, query_str=QUESTION)
    scores = (0.3, 0.2, 0.25)  # the node without a score gets the mean
    hits = [Hit(node.node_id, node.node.get_content("embed"), score) for node, score in zip(nodes, scores, strict=True)]
    expected = maxsim.rerank(QUESTION, hits, 2)
    assert [(node.node_id, node.score) for node in best] == [(hit.id, hit.score) for hit in expected]
    assert [node.model_dump() for node in nodes] == before


def test_the_score_before_may_be_kept_out_of_sight_of_models(maxsim, nodes) -> None:
    best = TwinvecRerank(top_n=3, reranker=maxsim, keep_retrieval_score=True).postprocess_nodes(
        nodes, query_str=QUESTION
    )
    assert {node.node_id: node.metadata["retrieval_score"] for node in best} == {"n0": 0.3, "n1": 0.2, "n2": None}
    for mode in ("embed", "llm"):
        assert "retrieval_score" not in best[0].node.get_content(mode)
    assert "retrieval_score" not in nodes[1].metadata


def test_a_neighbour_of_a_hit_is_not_last_for_want_of_a_score(maxsim) -> None:
    scored = ((CANDIDATES[0], 6), (CANDIDATES[2], 5))
    hits = [NodeWithScore(node=TextNode(text=text), score=score) for text, score in scored]
    neighbour = NodeWithScore(node=TextNode(text=CANDIDATES[1]))
    best = TwinvecRerank(top_n=3, reranker=maxsim).postprocess_nodes([*hits, neighbour], query_str=QUESTION)
    assert [node.node_id for node in best].index(neighbour.node_id) < 2


async def test_awaiting_gives_the_same(maxsim, nodes) -> None:
    rerank = TwinvecRerank(top_n=3, reranker=maxsim)
    bundle = QueryBundle(QUESTION)
    assert await rerank.apostprocess_nodes(nodes, bundle) == rerank.postprocess_nodes(nodes, bundle)


def test_a_model_is_opened_by_name_and_read_back(tiny_cross_encoder, nodes) -> None:
    folder = str(tiny_cross_encoder("bert"))
    rerank = TwinvecRerank(3, folder, device="cpu")
    best = rerank.postprocess_nodes(nodes, query_str=QUESTION)
    hits = [Hit(node.node_id, node.node.get_content("embed"), 0.0) for node in nodes]
    assert [node.node_id for node in best] == [hit.id for hit in CrossEncoderReranker(folder).rerank(QUESTION, hits)]
    again = TwinvecRerank.from_dict(rerank.to_dict())
    assert again.to_dict() == rerank.to_dict()
    assert again.postprocess_nodes(nodes, query_str=QUESTION) == best


@pytest.mark.slow
def test_late_interaction_is_read_back_with_its_encoder(tiny_model, nodes) -> None:
    encoder = Encoder(tiny_model("bert"))
    rerank = TwinvecRerank(3, encoder=encoder)
    again = TwinvecRerank.from_dict(rerank.to_dict())
    assert again.to_dict() == rerank.to_dict()
    best = again.postprocess_nodes(nodes, query_str=QUESTION)
    assert best == rerank.postprocess_nodes(nodes, query_str=QUESTION)
    assert best != TwinvecRerank(3).postprocess_nodes(nodes, query_str=QUESTION)


def test_nothing_in_gives_nothing_and_bad_settings_are_named(maxsim, nodes, tmp_path) -> None:
    assert TwinvecRerank(reranker=maxsim).postprocess_nodes([], query_str=QUESTION) == []
    with pytest.raises(ConfigurationError, match="query"):
        TwinvecRerank(reranker=maxsim).postprocess_nodes(nodes)
    with pytest.raises(ValidationError, match="top_n"):
        TwinvecRerank(0, reranker=maxsim)
    with pytest.raises(ConfigurationError, match=r"reranker: expected a reranker, .*, got 3"):
        TwinvecRerank(reranker=3)
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        TwinvecRerank(model=str(tmp_path / "nowhere"))


def test_instrumentation_hears_of_start_and_end(maxsim, nodes, heard) -> None:
    best = TwinvecRerank(top_n=1, reranker=maxsim).postprocess_nodes(nodes, query_str=QUESTION)
    assert [event.class_name() for event in heard] == ["ReRankStartEvent", "ReRankEndEvent"]
    assert heard[0].top_n == 1
    assert heard[1].nodes == best


@pytest.mark.parametrize("late_interaction", [slow(False), True])
def test_nodes_of_a_collection_have_the_scores_of_its_own_reranker(encoder, tmp_path, late_interaction) -> None:
    filler = "The committee met in the old hall and spoke about the weather and the songs of the valley. " * 9
    metadata = {"path": "/srv/handbook/a/long/path/of/folders/" * 4, "created": "2026-11-27", "owner": "office"}
    with Collection.open("docs", tmp_path, encoder=encoder, late_interaction=late_interaction) as collection:
        collection.ingest(
            [
                {
                    "id": "vpn.md",
                    "text": f"# Network\n\n{filler}\n\n## VPN\n\n{filler} The VPN client needs the token.",
                },
                {"id": "bread", "title": "Bread", "text": f"{filler} Bread is baked in the cellar."},
                {"id": "phones", "text": "Phones are handed out by the office."},
            ]
        )
        collection.ingest([Document(text=f"{filler} Tokens are given to the client.", id_="token", metadata=metadata)])
        query = "What does the VPN client need?"
        hits = collection.search(query, 9, group=False)
        assert len(hits) > 4
        for reranker in (collection.maxsim(), None):
            postprocessor = TwinvecRerank(9, encoder=encoder, reranker=reranker)
            nodes = TwinvecRetriever(collection, similarity_top_k=9, search_options={"group": False}).retrieve(query)
            best = postprocessor.postprocess_nodes(nodes, query_str=query)
            expected = postprocessor._reranker.rerank(query, hits)
            assert [(each.node_id, each.score) for each in best] == [(hit.id, hit.score) for hit in expected]
            assert [each.scores for each in best] == [dict(hit.scores) for hit in expected]
            assert [each.relevance for each in best] == [hit.relevance for hit in expected]
            assert list(best[0].scores) == ["dense", "sparse", "fused", "maxsim"]
