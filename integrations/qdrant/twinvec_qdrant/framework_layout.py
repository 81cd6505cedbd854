"""The layout of a collection that was a framework's own, and still serves the framework's class (``adopting``).

The points of such a collection keep their ids and their payloads, to which ``adopting`` adds ours. Points that are
written later get the keys of the layout too, as far as they are not keys of ours, so that the framework's class reads
them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

LayoutName = Literal["langchain", "llama_index"]
"""The frameworks whose collections can be adopted."""

HIDDEN_KEYS = "_hidden_keys"
"""The field of a chunk that has the document's ``HiddenKeys``; a rare name, since metadata may be at the same level."""

CHUNK_FIELDS = frozenset(
    {"kind", "source", "position", "heading", "title", "text", "content", "embedded", "key", "revision", "metadata"}
) | {HIDDEN_KEYS}
"""The fields of a chunk's payload that are ours."""


class Layout(BaseModel):
    """Where the class of a framework keeps what a point holds."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    name: LayoutName
    text_key: str
    """Key of the text."""
    metadata_key: str | None = None
    """Key of the metadata; None if its keys stand at the top level."""
    embeds_metadata: bool = True
    """Whether the vectors are those of texts with their metadata (LlamaIndex)."""

    def foreign(self, text: str, payload: Mapping[str, Any]) -> dict[str, Any]:
        """Return what a new point holds for the framework's class, besides our own fields."""
        held = dict(payload) if self.metadata_key is None else {self.text_key: text, self.metadata_key: dict(payload)}
        return {key: value for key, value in held.items() if key not in CHUNK_FIELDS}
