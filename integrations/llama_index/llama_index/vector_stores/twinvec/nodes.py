"""LlamaIndex nodes and what twinvec stores and finds, one as the other.

A node is stored under its own id: its text as it is embedded, and a payload in the layout of LlamaIndex's own vector
stores (``_node_content``, ``_node_type``, ``ref_doc_id``, ...), from which they and we build it again.
"""

from __future__ import annotations

from llama_index.core.bridge.pydantic import Field
from llama_index.core.schema import BaseNode, MetadataMode, NodeRelationship, NodeWithScore, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from twinvec import Document, Hit


def embedded_text(node: BaseNode) -> str:
    """The text of a node as LlamaIndex embeds it: with the metadata that is not excluded."""
    return node.get_content(metadata_mode=MetadataMode.EMBED)


def stored(node: BaseNode) -> Document:
    """What is stored of a node; its vector goes beside it."""
    return Document(node.node_id, embedded_text(node), payload=node_to_metadata_dict(node))


def node_of(document: Document) -> BaseNode:
    """The node that was stored; a node with text and payload where the document came another way."""
    if "_node_content" in document.payload:
        return metadata_dict_to_node(dict(document.payload))
    return TextNode(id_=document.id, text=document.text, metadata=dict(document.payload))


class ScoredNode(NodeWithScore):
    """A node with the scores of all stages it went through, by the stage's name.

    They are not in the node's metadata, since LlamaIndex takes two nodes with different metadata for two nodes: fusing
    the results of several retrievers or questions would not bring them together.
    """

    scores: dict[str, float] = Field(default_factory=dict)


def scored_node(hit: Hit) -> ScoredNode:
    """A hit as a node with its scores; a chunk names its source document as LlamaIndex's own splitters do."""
    node = node_of(Document(hit.id, hit.text, payload=hit.payload))
    source = hit.payload.get("source")
    known = (source, f"{source}#{hit.payload.get('position')}")
    if isinstance(source, str) and hit.id in known and NodeRelationship.SOURCE not in node.relationships:
        node.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=source)
    scores = {stage: float(score) for stage, score in hit.scores.items()}
    return ScoredNode(node=node, score=float(hit.score), scores=scores)
