"""A framework's collection: its store, the vectors to adopt, and the check that a model has given these vectors.

A sample of the points shows whether the model fits. Frameworks encode a document with the model's prompt for documents
or without it, and a node with its metadata or without. If the model gives the stored vectors with another prompt, they
are of another space, and the error names this prompt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from twinvec.arrays import FloatArray, row_cosines
from twinvec.errors import CollectionNotFoundError, ConfigurationError, InputError, SpaceMismatchError
from twinvec.retrieval.base import SpaceEncoder
from twinvec.retrieval.documents import Document
from twinvec_qdrant.adopting.reading import ELSEWHERE, added_fields, document_of, is_theirs
from twinvec_qdrant.encoders import document_vectors
from twinvec_qdrant.framework_layout import Layout
from twinvec_qdrant.opening_store import StorePlace, find_store
from twinvec_qdrant.records.description import SAME_VECTOR_COSINE
from twinvec_qdrant.report import AdoptReport
from twinvec_qdrant.serving.names import check_name
from twinvec_qdrant.stores.base import Store
from twinvec_qdrant.stores.conditions import Conditions
from twinvec_qdrant.stores.points import UNNAMED, Point
from twinvec_qdrant.stores.server.backend import ServerBackend
from twinvec_qdrant.stores.server.clients import local_client
from twinvec_qdrant.stores.server.store import ServerStore
from twinvec_qdrant.stores.server.structure import Shape

if TYPE_CHECKING:
    from twinvec.encoder import Encoder

# the names that the frameworks' classes give dense vectors by default
_NAMES: Mapping[str, tuple[str, ...]] = {"langchain": (UNNAMED,), "llama_index": ("text-dense", UNNAMED)}

_SAMPLE = 32  # most points to compare
_LOOKED_AT = 8 * _SAMPLE  # most points to read for the sample
_CLEARLY = 0.002  # a prompt agrees clearly better if its mean cosine is higher by this much


@contextmanager
def opened(name: str, place: StorePlace, local_path: str | Path | None) -> Iterator[ServerBackend]:
    """Open the collection until the end of the block; raise ``CollectionNotFoundError`` if it does not exist."""
    with ExitStack() as stack:
        store: Store
        if local_path is None:
            store = find_store(name, place)
        else:
            check_name(name)
            client = stack.enter_context(closing(local_client(local_path)))
            waits = place.wait_seconds
            store = ServerStore(name, client, str(local_path), owned=False, wait_seconds=waits, async_client=None)
        stack.enter_context(closing(store))
        assert isinstance(store, ServerStore)
        if store.peek() is None:
            raise CollectionNotFoundError(f"no collection {name!r} {store.neighbours()}")
        store.check_version()
        yield store.open()


def chosen_vector(shape: Shape, layout: Layout, given: str | None, location: str) -> str:
    """Return the name of the dense vectors: the given name, or the name that the framework's class uses."""
    names = [each for each in (*_NAMES[layout.name], *shape.dense) if each in shape.dense]
    named = ", ".join(map(repr, shape.dense)) or "none"
    if given is not None and given not in shape.dense:
        raise ConfigurationError(f"{location}: has no dense vectors named {given!r}; it has {named}")
    if given is None and not names:
        raise ConfigurationError(f"{location}: has no dense vectors, which a collection of twinvec needs")
    if given is None and names[0] not in _NAMES[layout.name] and len(names) > 1:
        raise ConfigurationError(f"{location}: has the vectors {named}: name one (vector_name=, --vector-name)")
    chosen = names[0] if given is None else given
    if shape.dense[chosen].is_multivector:
        raise ConfigurationError(f"{location}: {chosen!r} has several vectors for each point: name other vectors")
    return chosen


class ForeignCollection:
    """The collection of a framework; ``layout`` names the payload keys of its points, and ``vector`` their vectors."""

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

        Unless the layout is ``known`` to fit, the sample decides whether texts were embedded with their metadata. The
        sample has only points that can be adopted, and with ``in_place``, only points that can be adopted in place.
        """
        looked_at = islice(self.backend.scroll(among), _LOOKED_AT)
        points = [each for each in looked_at if is_theirs(each.payload)]
        layouts = [self.layout]
        if self.layout.embeds_metadata and not known:
            layouts.append(self.layout.model_copy(update={"embeds_metadata": False}))
        documents, why = self._documents(points, layouts, in_place=in_place)
        if points and not documents and not known:
            raise ConfigurationError(
                f"{self.backend.location}: none of the first {len(points)} points can be adopted with the layout "
                f"{self.layout.name!r} and the text under {self.layout.text_key!r} (point {why}). Name the right "
                "layout, or the right keys (text_key=, --text-key, metadata_key=, --metadata-key), or else "
                f"{ELSEWHERE}"
            )
        vectors = self.backend.retrieve(list(documents), [], self.vector)
        sample = [key for key, point in vectors.items() if point.dense is not None][:_SAMPLE]
        if not sample:
            if documents:
                raise ConfigurationError(
                    f"{self.backend.location}: none of the first {len(documents)} points has a vector named "
                    f"{self.vector!r}; name the vectors (vector_name=, --vector-name)"
                )
            return
        stored_ND = np.stack([np.asarray(vectors[key].dense, dtype=np.float32) for key in sample])
        ways = {str(row): [documents[key][row].text for key in sample] for row in range(len(layouts))}
        best, cosines = _check_sample(self.backend.location, encoder, stored_ND, ways)
        self.layout = layouts[int(best)]
        report.compared, report.lowest_cosine = len(sample), float(cosines.min())

    def _documents(
        self, points: Sequence[Point], layouts: Sequence[Layout], *, in_place: bool
    ) -> tuple[dict[str, list[Document]], str]:
        """Return the documents of each readable point, one for each layout, by the point's id.

        Also return why the first unreadable point cannot be read; "" if every point is readable.
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


def _check_sample(
    location: str, encoder: SpaceEncoder, stored_ND: FloatArray, ways: Mapping[str, Sequence[str]]
) -> tuple[str, FloatArray]:
    """Return the name in ``ways`` (name -> texts) whose texts give the stored vectors, and the cosines.

    Raise ``SpaceMismatchError`` if no way gives the stored vectors of all points, or if a prompt other than the
    document prompt agrees better.
    """
    if stored_ND.shape[1] != encoder.dim:
        raise SpaceMismatchError(
            f"{location}: its vectors have {stored_ND.shape[1]} dimensions; {encoder.name!r} gives {encoder.dim}"
        )
    cosines = {way: row_cosines(stored_ND, document_vectors(encoder, texts)) for way, texts in ways.items()}
    best = max(cosines, key=lambda way: float(cosines[way].mean()))
    prompt, at = _better_prompt(encoder, stored_ND, ways[best], float(cosines[best].mean()))
    if prompt is None and cosines[best].min() >= SAME_VECTOR_COSINE:
        return best, cosines[best]
    raise SpaceMismatchError(_explained(location, encoder, cosines[best], prompt, at))


def _better_prompt(
    encoder: SpaceEncoder, stored_ND: FloatArray, texts: Sequence[str], reached: float
) -> tuple[str | None, float]:
    """Return the text of a prompt that agrees clearly better than the document prompt, or None, and its mean cosine."""
    from twinvec.encoder import Encoder

    if not isinstance(encoder, Encoder) or not encoder.prompts:
        return None, reached
    prompts = {text: name for name, text in encoder.prompts.items()} | {"": ""}
    prompts.pop(encoder.document_prompt, None)
    means = {text: _mean(encoder, stored_ND, texts, name) for text, name in prompts.items()}
    best = max(means, key=lambda text: means[text], default=None)
    if best is None or means[best] < reached + _CLEARLY:
        return None, reached
    return best, means[best]


def _mean(encoder: Encoder, stored_ND: FloatArray, texts: Sequence[str], prompt: str) -> float:
    now_ND = np.asarray(encoder.encode(list(texts), prompt=prompt), dtype=np.float32)
    return float(row_cosines(stored_ND, now_ND).mean())


def _explained(location: str, encoder: SpaceEncoder, cosines: FloatArray, prompt: str | None, at: float) -> str:
    same = int((cosines >= SAME_VECTOR_COSINE).sum())
    found = (
        f"{location}: {encoder.name!r} does not give the vectors that are stored: of {len(cosines)} texts, {same} have "
        f"a cosine of at least {SAME_VECTOR_COSINE} (lowest {cosines.min():.4f}, mean {cosines.mean():.4f})"
    )
    if prompt is None:
        return f"{found}. Name the model that made the stored vectors, with the same revision and settings"
    said = f"with the prompt {prompt!r}" if prompt else "without a prompt"
    return (
        f"{found}; {said}, the mean is {at:.4f}. The documents were encoded {said}: adopt with this prompt for "
        f"documents (--document-prompt {prompt!r}, in Python Encoder(model, prompts={{...}}))"
    )
