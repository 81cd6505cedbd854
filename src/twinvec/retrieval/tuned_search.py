"""How a collection is searched, as ``tuning`` chose it: a setting, kept in its notes, and a search that goes by it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from twinvec.retrieval.base import Hit, Mode, Reranker
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.retrieve_rerank import RetrieveRerank

NOTES = "twinvec.search"
"""Namespace of the collection's notes in which the choice is kept."""

_KEY = "setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """How to search.

    Attributes:
        mode: The first stage.
        words: Weight of words beside vectors, which weigh 1; of hybrid search.
        mix: Weight of MaxSim behind it; 0 for none.
        candidates: How many hits MaxSim looks at.
    """

    mode: Mode
    words: float = 1.0
    mix: float = 0.0
    candidates: int = 0

    @property
    def single(self) -> bool:
        """Whether it is one stage alone."""
        return self.mode != "hybrid" and not self.mix

    @property
    def first_stage(self) -> dict[str, Any]:
        """Options of the search for the first stage."""
        weights = {"weights": (1.0, self.words)} if self.mode == "hybrid" else {}
        return {"mode": self.mode, **weights}

    def __str__(self) -> str:
        words = f", words x {self.words:g}" if self.words != 1 else ""
        maxsim = f", maxsim {self.mix:g} over {self.candidates}" if self.mix else ""
        return f"{self.mode}{words}{maxsim}"


def save(collection: Any, setting: Setting, measure: str) -> None:
    """Keep the choice, and what it was made by, with the collection, in its notes."""
    collection.notes(NOTES).put({_KEY: {**asdict(setting), "measure": measure}})


def saved(collection: Any) -> Setting | None:
    """The choice that was kept with the collection."""
    for key, fields in collection.notes(NOTES).find():
        if key == _KEY:
            return Setting(fields["mode"], float(fields["words"]), float(fields["mix"]), int(fields["candidates"]))
    return None


class TunedSearch:
    """A retriever that searches a collection by the choice kept with it; hybrid, where there is none.

    Args:
        collection: With ``notes``, ``maxsim`` and a search with modes, such as ``twinvec_qdrant.Collection``.

    Attributes:
        setting: The choice.
        reranker: What comes behind the first stage, or None.

    Raises:
        ConfigurationError: the choice asks for MaxSim, which the collection's encoder does not offer.
    """

    def __init__(self, collection: Any) -> None:
        self.setting = saved(collection) or Setting("hybrid")
        self.reranker: Reranker | None = None
        self._retriever: Any = collection
        if self.setting.mix:
            self.reranker = collection.maxsim(mix=self.setting.mix)
            self._retriever = RetrieveRerank(collection, self.reranker, self.setting.candidates)

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """As the collection's ``search``."""
        hits: list[Hit] = self._retriever.search(query, limit, filter=filter, **self.setting.first_stage)
        return hits

    def search_many(self, queries: Sequence[str], limit: int = 10, filter: Filter | None = None) -> list[list[Hit]]:
        """``search`` for many queries at once."""
        found: list[list[Hit]] = self._retriever.search_many(queries, limit, filter=filter, **self.setting.first_stage)
        return found
