"""Conversion between LlamaIndex's nodes and twinvec's documents and hits.

A node is stored under its own id, with its embedded text and a payload from which it is restored. The payload has the
layout of LlamaIndex's own vector stores (``_node_content``, ``_node_type``, ``ref_doc_id``, ...).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from twinvec import Document, Hit
from twinvec.adapters.metadata import plain_metadata
from twinvec.errors import DocumentError
from twinvec.retrieval.documents import HiddenKeys
from twinvec.text import is_list
from twinvec_qdrant import Failure

NO_DOCUMENT = "None"
"""The ``ref_doc_id`` of a node without a source document, in LlamaIndex's layout."""


def checked_nodes(nodes: object) -> list[BaseNode]:
    """Return nodes as a list; raise DocumentError unless they are a list of nodes."""
    if isinstance(nodes, (BaseNode, Mapping)) or not is_list(nodes):
        raise DocumentError(f"nodes: expected a list of nodes, got {type(nodes).__name__}")
    listed = list(cast("Iterable[BaseNode]", nodes))
    for index, node in enumerate(listed):
        if not isinstance(node, BaseNode):
            kind = type(node).__name__
            raise DocumentError(f"nodes: item {index}: expected a node such as TextNode(text=...), got {kind}")
    return listed


def stored(node: BaseNode) -> Document | Failure:
    """Return the document that stores a node, without its vector, or a Failure if its metadata cannot be stored."""
    text = node.get_content(metadata_mode=MetadataMode.EMBED)  # the text with the metadata that is embedded
    try:
        return Document(node.node_id, text, payload=node_to_metadata_dict(_plain(node)))
    except DocumentError as error:
        return Failure(node.node_id, str(error))


def _plain(node: BaseNode) -> BaseNode:
    """Return a copy of a node; its metadata and the metadata of its related nodes are plain JSON."""

    def plain(metadata: dict[str, Any]) -> dict[str, Any]:
        return plain_metadata(node.node_id, metadata)

    def related(info: RelatedNodeInfo) -> RelatedNodeInfo:
        return info.model_copy(update={"metadata": plain(info.metadata)})

    relationships = {
        kind: [related(each) for each in info] if isinstance(info, list) else related(info)
        for kind, info in node.relationships.items()
    }
    return node.model_copy(update={"metadata": plain(node.metadata), "relationships": relationships})


def node_of(document: Document) -> BaseNode:
    """Return the node that a document stores, or a new node if the document was not stored by LlamaIndex.

    A new node has the document's text, which was embedded, and its payload as metadata. All metadata is excluded from
    embedding, and the keys that the document hides are excluded from texts for a language model.
    """
    if "_node_content" in document.payload:
        return metadata_dict_to_node(dict(document.payload))
    hidden = document.hidden or HiddenKeys()
    return TextNode(
        id_=document.id,
        text=document.text,
        metadata=dict(document.payload),
        excluded_llm_metadata_keys=list(hidden.llm),
        excluded_embed_metadata_keys=list(dict.fromkeys([*hidden.embed, *document.payload])),
    )


class ScoredNode(NodeWithScore):
    """A node with the score of each stage, by the stage's name, and its relevance from 0 to 1 (None if unknown).

    The scores are not in the node's metadata, because LlamaIndex does not merge nodes whose metadata differ.
    """

    scores: dict[str, float] = Field(default_factory=dict)
    relevance: float | None = None


def scored_node(hit: Hit) -> ScoredNode:
    """Return a hit as a node with scores; a chunk names its source document as LlamaIndex's splitters do."""
    node = node_of(Document(hit.id, hit.text, payload=hit.payload, hidden=hit.hidden))
    source = hit.payload.get("source")
    known = (source, f"{source}#{hit.payload.get('position')}")
    if isinstance(source, str) and hit.id in known and NodeRelationship.SOURCE not in node.relationships:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    scores = {stage: float(score) for stage, score in hit.scores.items()}
    return ScoredNode(node=node, score=float(hit.score), scores=scores, relevance=hit.relevance)
