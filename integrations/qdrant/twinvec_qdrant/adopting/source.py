"""A framework's collection as it is found: where it is, which vectors are meant, and whether a model has given them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from twinvec.errors import CollectionNotFoundError, ConfigurationError, InputError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec_qdrant.adopting.reading import ELSEWHERE, added_fields, document_of, is_adopted, is_ours
from twinvec_qdrant.adopting.sample import SAMPLE, check_sample
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.opening_store import StorePlace, find_store
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.stores.conditions import Conditions
from twinvec_qdrant.stores.points import UNNAMED, Point
from twinvec_qdrant.stores.server.backend import ServerBackend
from twinvec_qdrant.stores.server.clients import local_client
from twinvec_qdrant.stores.server.store import ServerStore
from twinvec_qdrant.stores.server.structure import Shape

_NAMES: Mapping[str, tuple[str, ...]] = {"langchain": (UNNAMED,), "llama_index": ("text-dense", UNNAMED)}
"""The names that the frameworks' classes give dense vectors by default."""

_LOOKED_AT = 8 * SAMPLE  # points, to find a sample among them


@contextmanager
def found(name: str, place: StorePlace, local_path: str | Path | None) -> Iterator[ServerBackend]:
    """Open the collection until the end of the block; raise ``CollectionNotFoundError`` if it does not exist."""
    with ExitStack() as stack:
        if local_path is not None:
            place = replace(place, client=stack.enter_context(closing(local_client(local_path))))
        store = stack.enter_context(closing(find_store(name, place)))
        assert isinstance(store, ServerStore)
        if store.peek() is None:
            raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
        store.check_version()
        yield store.open()


def chosen_vector(shape: Shape, layout: Layout, given: str | None, location: str) -> str:
    """Return the name of the dense vectors: the given one, or that which the framework's class uses."""
    names = [each for each in (*_NAMES[layout.name], *shape.dense) if each in shape.dense]
    named = ", ".join(map(repr, shape.dense)) or "none"
    if given is not None and given not in shape.dense:
        raise ConfigurationError(f"{location}: has no dense vectors named {given!r}; it has {named}")
    if given is None and not names:
        raise ConfigurationError(f"{location}: has no dense vectors, which a collection of twinvec needs")
    if given is None and names[0] not in _NAMES[layout.name] and len(names) > 1:
        raise ConfigurationError(f"{location}: has the vectors {named}: say which (vector_name=, --vector-name)")
    chosen = names[0] if given is None else given
    if shape.dense[chosen].is_multivector:
        raise ConfigurationError(f"{location}: {chosen!r} has several vectors a point: name others")
    return chosen


class ForeignCollection:
    """The collection of a framework; ``layout`` says where its points keep what they hold, ``vector`` their vectors."""

    def __init__(self, backend: ServerBackend, shape: Shape, layout: Layout, vector: str) -> None:
        self.backend = backend
        self.shape = shape
        self.layout = layout
        self.vector = vector

    def check_vectors(
        self,
        encoder: SpaceEncoder,
        report: AdoptReport,
        among: Conditions = (),
        *,
        known: bool = False,
        in_place: bool = True,
    ) -> None:
        """Check on a sample that the encoder gives the stored vectors; errors are those of ``adopt_collection``.

        Unless the layout is ``known`` to fit, the sample decides whether texts were embedded with their metadata. Only
        points that can be adopted count, with ``in_place`` where they are.
        """
        looked_at = islice(self.backend.scroll(among), _LOOKED_AT)
        points = [each for each in looked_at if not is_ours(each.payload) or is_adopted(each.payload)]
        layouts = [self.layout]
        if self.layout.embeds_metadata and not known:
            layouts.append(self.layout.model_copy(update={"embeds_metadata": False}))
        documents, why = self._documents(points, layouts, in_place=in_place)
        if points and not documents and not known:
            raise ConfigurationError(
                f"{self.backend.location}: none of the first {len(points)} points can be adopted as one of "
                f"{self.layout.name!r} with its text under {self.layout.text_key!r} (point {why}). Is it another "
                f"layout, or has it other keys (text_key=, --text-key, metadata_key=, --metadata-key)? Else {ELSEWHERE}"
            )
        vectors = self.backend.retrieve(list(documents), [], self.vector)
        sample = [key for key, point in vectors.items() if point.dense is not None][:SAMPLE]
        if not sample:
            if documents:
                raise ConfigurationError(f"{self.backend.location}: none of {len(documents)} points has a vector")
            return
        stored_ND = np.stack([np.asarray(vectors[key].dense, dtype=np.float32) for key in sample])
        ways = {str(row): [documents[key][row].text for key in sample] for row in range(len(layouts))}
        best, cosines = check_sample(self.backend.location, encoder, stored_ND, ways)
        self.layout = layouts[int(best)]
        report.compared, report.lowest_cosine = len(sample), float(cosines.min())

    def _documents(
        self, points: Sequence[Point], layouts: Sequence[Layout], *, in_place: bool
    ) -> tuple[dict[str, list[Document]], str]:
        """Return the documents of each readable point, one for each layout, by the point's id.

        Also return why the first unreadable point cannot be read; "" if all can.
        """
        documents: dict[str, list[Document]] = {}
        why = ""
        for point in points:
            try:
                read = [document_of(layout, point.id, point.payload) for layout in layouts]
                if in_place:
                    added_fields(layouts[0], read[0], point.payload)
                documents[point.id] = read
            except InputError as error:
                why = why or f"{point.id}: {error}"
        return documents, why
