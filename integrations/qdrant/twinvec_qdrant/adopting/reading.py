"""Reading a framework's point as a document of twinvec, and the fields that make the point a chunk of twinvec.

LangChain's ``QdrantVectorStore`` keeps the text under one payload key and the metadata under another. The class of
LlamaIndex keeps the whole node as JSON under ``_node_content``, and the metadata once more at the top level; nodes of
older versions have their text under a payload key. LlamaIndex embeds a node's text together with its metadata, joined
by the node's templates. The document's text is this joined text, as in twinvec's own adapter for LlamaIndex.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from twinvec.errors import ConfigurationError, DocumentError
from twinvec.retrieval.documents import Document, as_document, json_payload
from twinvec.support.checks import check_choice
from twinvec_qdrant.framework_layout import HIDDEN_KEYS, Layout, LayoutName
from twinvec_qdrant.records.schema import LLAMA_INDEX_KEYS, canonical, digest

KIND_FIELDS: Mapping[str, frozenset[str]] = {
    "chunk": frozenset({"source", "position", "text", "content", "revision", "metadata"}),
    "record": frozenset({"source", "version", "revision", "chunks"}),
    "intent": frozenset({"sources", "revisions"}),
    "note": frozenset({"namespace", "key"}),
    "model": frozenset({"vector"}),
    "dates": frozenset({"key"}),
}
"""The values of ``kind`` in twinvec's own points, and the fields that all points of the kind have."""

ADDED_FIELDS = frozenset({"kind", "source", "position", "heading", "text", "content", "revision", "metadata"})
"""The fields that an adoption adds to a point."""

ADOPTED = "adopted "
"""Prefix of the revision of an adopted point."""

ELSEWHERE = "copy its documents into a new collection (into=, twinvec adopt --to-collection)"
"""Advice for a collection that cannot be adopted in place, at the end of errors."""

_NODE = "_node_content"
_RARE_FIELDS = frozenset({"embedded", "key", HIDDEN_KEYS})  # fields that twinvec gives only some of its chunks


def layout_of(name: LayoutName, text_key: str | None, metadata_key: str | None) -> Layout:
    """Return the layout ``name`` with these payload keys, or with the default keys of the framework's class."""
    check_choice(name, LayoutName, "layout")
    if name == "llama_index":
        if metadata_key is not None:
            raise ConfigurationError("LlamaIndex keeps metadata at the top level: leave metadata_key out")
        return Layout(name=name, text_key=text_key or "text")
    return Layout(
        name=name, text_key=text_key or "page_content", metadata_key=metadata_key or "metadata", embeds_metadata=False
    )


def is_ours(payload: Mapping[str, Any]) -> bool:
    """Return whether twinvec has written the point, or adopted it."""
    fields = KIND_FIELDS.get(kind) if isinstance(kind := payload.get("kind"), str) else None
    return fields is not None and payload.keys() >= fields


def is_adopted(payload: Mapping[str, Any]) -> bool:
    """Return whether the point has the fields that an adoption adds."""
    return is_ours(payload) and payload["kind"] == "chunk" and str(payload["revision"]).startswith(ADOPTED)


def is_theirs(payload: Mapping[str, Any]) -> bool:
    """Return whether the framework has written the point, which may be adopted already."""
    return not is_ours(payload) or is_adopted(payload)


def document_of(layout: Layout, key: str, payload: Mapping[str, Any]) -> Document:
    """Return the document in a point of the framework; raise ``DocumentError`` if twinvec cannot store it."""
    if is_adopted(payload):
        added = ADDED_FIELDS - _layout_keys(layout, payload)
        payload = {name: value for name, value in payload.items() if name not in added}
    read = _of_llama_index if layout.metadata_key is None else _of_langchain
    text, held = read(layout, payload)
    if text is None or text == "":
        raise DocumentError("it has no text")
    if not isinstance(text, str):
        raise DocumentError(f"its text is {type(text).__name__}, not a string")
    if not text.strip():
        raise DocumentError("its text is blank")
    if not isinstance(held, Mapping):
        raise DocumentError(f"its {layout.metadata_key!r} is {type(held).__name__}, not a mapping")
    document = as_document(Document(key, text, payload=held), 0)
    return Document(key, text, payload=json_payload(document))


def added_fields(layout: Layout, document: Document, payload: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that make the point with this payload the only chunk of the document.

    Raise ``DocumentError`` if another application keeps something else in one of these fields.
    """
    lifted = LLAMA_INDEX_KEYS if layout.metadata_key is None else frozenset()
    own = {
        "kind": "chunk",
        "source": document.id,
        "position": 0,
        "heading": "",
        "text": document.text,
        "content": digest(document.text),
        "revision": ADOPTED + digest(document.id, document.text, canonical(document.payload)),
        "metadata": {key: value for key, value in document.payload.items() if key not in lifted},
    }
    if not is_adopted(payload):
        theirs = _layout_keys(layout, payload)
        taken = [name for name in own if payload.get(name) is not None]
        taken = [name for name in taken if name not in theirs or payload[name] != own[name]]
        taken += sorted(_RARE_FIELDS & payload.keys())
        if taken:
            named = ", ".join(map(repr, taken))
            raise DocumentError(f"its payload has {named}, which twinvec needs for its own fields")
    return {name: value for name, value in own.items() if name not in payload or payload[name] != value}


def _layout_keys(layout: Layout, payload: Mapping[str, Any]) -> frozenset[str]:
    """Return the payload keys under which the framework itself keeps this point's text and metadata."""
    if layout.metadata_key is not None:
        return frozenset({layout.text_key, layout.metadata_key})
    return frozenset() if _NODE in payload else frozenset({layout.text_key})


def _of_langchain(layout: Layout, payload: Mapping[str, Any]) -> tuple[Any, Any]:
    held = payload.get(layout.metadata_key or "")
    return payload.get(layout.text_key), {} if held is None else held


def _of_llama_index(layout: Layout, payload: Mapping[str, Any]) -> tuple[Any, Any]:
    text_key = layout.text_key
    if _NODE not in payload:
        return payload.get(text_key), {key: value for key, value in payload.items() if key != text_key}
    try:
        node = json.loads(payload[_NODE])
    except (TypeError, ValueError, RecursionError):
        raise DocumentError(f"its {_NODE} is not JSON") from None
    try:
        return _embedded(node) if layout.embeds_metadata else _text(node), dict(payload)
    except (AttributeError, TypeError):
        raise DocumentError(f"its {_NODE} is not a node of LlamaIndex") from None


def _text(node: Mapping[str, Any]) -> Any:
    resource = node.get("text_resource") or {}
    return node.get("text", resource.get("text"))


def _embedded(node: Mapping[str, Any]) -> Any:
    """Return the text of a node joined with the metadata that LlamaIndex embeds with it."""
    text, metadata = _text(node), node.get("metadata") or {}
    left_out = set(node.get("excluded_embed_metadata_keys") or ())
    pattern = node.get("metadata_template", "{key}: {value}")
    pairs = [_filled(pattern, key=key, value=str(value)) for key, value in metadata.items() if key not in left_out]
    separator = node.get("metadata_separator", node.get("metadata_seperator", "\n"))
    shown = str(separator).join(pairs)
    if node.get("class_name") == "TextNode":
        shown = shown.strip()
    if not shown or not isinstance(text, str):
        return text
    return _filled(node.get("text_template", "{metadata_str}\n\n{content}"), metadata_str=shown, content=text).strip()


def _filled(template: str, **values: str) -> str:
    """Fill in the fields ``{name}`` of a template; fields without a value, and attributes of fields, stay unchanged."""
    return re.sub(r"\{(\w+)\}", lambda found: values.get(found[1], found[0]), template)
