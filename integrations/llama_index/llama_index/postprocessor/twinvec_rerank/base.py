"""TwinvecRerank: twinvec's rerankers as a LlamaIndex postprocessor."""

from __future__ import annotations

from typing import Any

from llama_index.core.bridge.pydantic import Field, PrivateAttr
from llama_index.core.callbacks import CallbackManager, CBEventType, EventPayload
from llama_index.core.instrumentation.events.rerank import ReRankEndEvent, ReRankStartEvent
from llama_index.core.postprocessor.types import BaseNodePostprocessor
from llama_index.core.schema import MetadataMode, NodeWithScore, QueryBundle
from llama_index_instrumentation import get_dispatcher

from llama_index.vector_stores.twinvec.nodes import ScoredNode
from twinvec import Encoder, Hit
from twinvec.adapters.earlier_scores import completed
from twinvec.engines.select import check_device
from twinvec.errors import ConfigurationError
from twinvec.rerankers.open import open_reranker
from twinvec.retrieval.base import Reranker
from twinvec.support.checks import check_methods, check_settings

dispatcher = get_dispatcher(__name__)


class TwinvecRerank(BaseNodePostprocessor):
    """Reranks nodes by comparing the embedded text of each with the query; the caller's nodes stay unchanged.

    A node of the result has the score of each stage by name (``node.scores``), including the stages of
    ``TwinvecRetriever``.

        postprocessor = TwinvecRerank(top_n=3)
        best = postprocessor.postprocess_nodes(nodes, query_str="How do I get time off?")

    Args:
        top_n: Largest number of nodes to keep.
        model: ``"maxsim"`` (late interaction over the encoder's token states), or a cross-encoder's folder or hub name.
        device: ``"cpu"``, ``"cuda"``, ... (default: a GPU if torch has one).
        keep_retrieval_score: Keep the earlier score as ``retrieval_score`` in the metadata of the copy. Texts to embed,
            and texts for a language model, do not contain it.
        encoder_name: Model that computes the token states for "maxsim"; it should be the model that embedded the nodes.
        encoder: An open encoder, instead of ``encoder_name``.
        reranker: An open reranker, instead of ``model``.

    Raises:
        ConfigurationError: the device, the encoder or the reranker is invalid.
        ModelError: the model is not found, damaged or not supported.
    """

    model: str = Field(description="maxsim, or the folder or hub name of a cross-encoder.")
    top_n: int = Field(description="Number of nodes to keep.", ge=1)
    device: str | None = Field(description="Device of the computation.")
    encoder_name: str = Field(description="Model that computes the token states for maxsim.")
    keep_retrieval_score: bool = Field(description="Whether to keep the earlier score in the metadata.")

    _reranker: Reranker = PrivateAttr()

    def __init__(
        self,
        top_n: int = 2,
        model: str = "maxsim",
        *,
        device: str | None = None,
        keep_retrieval_score: bool = False,
        callback_manager: CallbackManager | None = None,
        encoder_name: str = "default",
        encoder: Encoder | None = None,
        reranker: Reranker | None = None,
    ) -> None:
        check_device(device)
        check_settings(encoder, Encoder, "encoder")
        if reranker is not None:
            check_methods(reranker, ("rerank",), "reranker", "a reranker, such as MaxSimReranker(...)")
        settings: dict[str, Any] = {
            "model": model if reranker is None else getattr(reranker, "name", type(reranker).__name__),
            "top_n": top_n,
            "device": device,
            "encoder_name": encoder_name if encoder is None else encoder.name,
            "keep_retrieval_score": keep_retrieval_score,
            "callback_manager": callback_manager or CallbackManager([]),
        }
        super().__init__(**settings)
        if encoder is None and reranker is None and model == "maxsim":
            encoder = Encoder(encoder_name, device=device)
        self._reranker = reranker or open_reranker(model, encoder=encoder, device=device)

    @classmethod
    def class_name(cls) -> str:
        """Return the name in serialised settings."""
        return "TwinvecRerank"

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: QueryBundle | None = None
    ) -> list[NodeWithScore]:
        if query_bundle is None:
            raise ConfigurationError("reranking needs the query: pass query_bundle or query_str")
        dispatcher.event(ReRankStartEvent(query=query_bundle, nodes=nodes, top_n=self.top_n, model_name=self.model))
        payload: dict[str, Any] = {
            EventPayload.NODES: nodes,
            EventPayload.MODEL_NAME: self.model,
            EventPayload.QUERY_STR: query_bundle.query_str,
            EventPayload.TOP_K: self.top_n,
        }
        with self.callback_manager.event(CBEventType.RERANKING, payload=payload) as event:
            best = self._reranked(nodes, query_bundle.query_str)
            event.on_end(payload={EventPayload.NODES: best})
        dispatcher.event(ReRankEndEvent(nodes=best))
        return best

    def _reranked(self, nodes: list[NodeWithScore], query: str) -> list[NodeWithScore]:
        if not nodes:
            return []
        before = completed([node.score for node in nodes])
        hits = [_hit(node, position, before[position]) for position, node in enumerate(nodes)]
        best = self._reranker.rerank(query, hits, limit=self.top_n)
        return [self._rescored(nodes[hit.payload["position"]], hit) for hit in best]

    def _rescored(self, scored: NodeWithScore, hit: Hit) -> ScoredNode:
        node = scored.node
        if self.keep_retrieval_score:
            hidden = "retrieval_score"
            node = node.model_copy(
                update={
                    "metadata": {**node.metadata, hidden: scored.score},
                    "excluded_embed_metadata_keys": [*node.excluded_embed_metadata_keys, hidden],
                    "excluded_llm_metadata_keys": [*node.excluded_llm_metadata_keys, hidden],
                }
            )
        return ScoredNode(node=node, score=hit.score, scores=dict(hit.scores), relevance=hit.relevance)


def _hit(scored: NodeWithScore, position: int, score: float) -> Hit:
    """Return a hit with the node's embedded text, its ``score`` and the scores of the earlier stages."""
    scores = dict(scored.scores) if isinstance(scored, ScoredNode) else {}
    relevance = scored.relevance if isinstance(scored, ScoredNode) else None
    text = scored.get_content(MetadataMode.EMBED)
    return Hit(scored.node_id, text, score, scores, {"position": position}, relevance=relevance)
