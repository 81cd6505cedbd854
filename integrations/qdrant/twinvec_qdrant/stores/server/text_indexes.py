"""The text indexes of a server's collection, without which a server searches words in another way.

For a path without a text index, servers up to 1.19 look for the text as a part of the stored one, in the same case. The
client's local mode and the embedded engine find words without an index.
"""

from __future__ import annotations

from qdrant_client import models

from twinvec.errors import FilterError
from twinvec_qdrant.stores.conditions import Conditions
from twinvec_qdrant.stores.field_tests import HasText, field_tests_of
from twinvec_qdrant.stores.server.requests import Requests, is_local


class TextIndexes:
    """The paths of a collection with a text index, read when a filter first needs one."""

    def __init__(self, requests: Requests) -> None:
        self._requests = requests
        self._local = is_local(requests.client)
        self._known: set[tuple[str, bool]] = set()  # path, and whether the index serves phrases

    def unknown(self, conditions: Conditions) -> list[tuple[str, bool]]:
        """Return the paths that the conditions search words at, and whether phrases, where no index is known."""
        texts = [each for each in field_tests_of(conditions) if isinstance(each, HasText)]
        return [] if self._local else sorted({(each.path, each.phrase) for each in texts} - self._known)

    def check(self, conditions: Conditions) -> None:
        """Raise ``FilterError`` if the conditions search words where the server has no index of them."""
        if not self.unknown(conditions):
            return
        schema = self._requests.call(self._requests.client.get_collection).payload_schema
        self._known = {each for path, info in schema.items() for each in _served(path, info)}
        for path, phrase in self.unknown(conditions):
            key = path.removeprefix("metadata.").replace("[]", "").replace('"', "")
            raise FilterError(
                f"{self._requests.location}: filter {key!r}: {'phrase' if phrase else 'text'} needs a text index of "
                f"the key on a server; add it by payload_indexes={{{key!r}: 'text'}}, or by "
                f"twinvec reindex --payload-index {key}:text"
            )


def _served(path: str, info: models.PayloadIndexInfo) -> set[tuple[str, bool]]:
    if info.data_type != models.PayloadSchemaType.TEXT:
        return set()
    return {(path, False), (path, bool(getattr(info.params, "phrase_matching", None)))}
