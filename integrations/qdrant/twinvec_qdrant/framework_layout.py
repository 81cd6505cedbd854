"""The payload keys of LangChain's or LlamaIndex's Qdrant class in a collection that was adopted (``adopting``).

The points of an adopted collection keep their ids and payloads, and ``adopting`` adds the fields of twinvec. Points
that twinvec writes later also get the framework's keys, except those that are fields of twinvec too. The framework's
class can therefore read all points.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

LayoutName = Literal["langchain", "llama_index"]
"""The frameworks whose collections can be adopted."""

HIDDEN_KEYS = "_hidden_keys"
"""Field of a chunk that holds the document's ``HiddenKeys``; metadata is unlikely to have a key of this name."""

CHUNK_FIELDS = frozenset(
    {"kind", "source", "position", "heading", "title", "text", "content", "embedded", "key", "revision", "metadata"}
) | {HIDDEN_KEYS}
"""The fields of a chunk's payload that belong to twinvec."""


class Layout(BaseModel):
    """The payload keys under which a framework's class keeps text and metadata."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: LayoutName
    text_key: str
    """Key of the text."""
    metadata_key: str | None = None
    """Key of the metadata; None if the metadata is at the top level of the payload."""
    embeds_metadata: bool = True
    """Whether metadata was embedded together with the text (LlamaIndex)."""

    def foreign(self, text: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that the framework's class needs in a new point, besides the fields of twinvec."""
        held = dict(payload) if self.metadata_key is None else {self.text_key: text, self.metadata_key: dict(payload)}
        return {key: value for key, value in held.items() if key not in CHUNK_FIELDS}
