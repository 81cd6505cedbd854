"""Tuned search: the setting that ``evaluation.tuning`` chose for a collection, kept in its notes, and a retriever."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from twinvec.retrieval.base import Hit, Mode, Reranker
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.retrieve_rerank import RetrieveRerank

NOTES = "twinvec.search"
"""Namespace of the collection's notes that holds the setting."""

_KEY = "setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """How to search: the first stage's ``mode``, and the weight ``words`` of words in a hybrid search (vectors have 1).

    ``mix`` is the weight of MaxSim, which reranks ``candidates`` hits as a second stage; 0 leaves it out.
    """

    mode: Mode
    words: float = 1.0
    mix: float = 0.0
    candidates: int = 0

    @property
    def single(self) -> bool:
        """Whether the search has one stage only."""
        return self.mode != "hybrid" and not self.mix

    @property
    def first_stage(self) -> dict[str, Any]:
        """Keyword arguments of ``search`` for the first stage."""
        weights = {"weights": (1.0, self.words)} if self.mode == "hybrid" else {}
        return {"mode": self.mode, **weights}

    def __str__(self) -> str:
        words = f", words x {self.words:g}" if self.words != 1 else ""
        maxsim = f", maxsim {self.mix:g} over {self.candidates}" if self.mix else ""
        return f"{self.mode}{words}{maxsim}"


def save(collection: Any, setting: Setting, measure: str) -> None:
    """Write the setting, and the measure that chose it, into the collection's notes."""
    collection.notes(NOTES).put({_KEY: {**asdict(setting), "measure": measure}})


def saved(collection: Any) -> Setting | None:
    """Return the setting in the collection's notes, or None."""
    for key, fields in collection.notes(NOTES).find():
        if key == _KEY:
            return Setting(fields["mode"], float(fields["words"]), float(fields["mix"]), int(fields["candidates"]))
    return None


class TunedSearch:
    """A retriever that searches a collection by its saved setting (default: hybrid search).

    Args:
        collection: A ``twinvec_qdrant.Collection``.

    Attributes:
        setting: The setting.
        reranker: The second stage, or None.

    Raises:
        ConfigurationError: the setting asks for MaxSim, and the collection's encoder has no token states.
    """

    def __init__(self, collection: Any) -> None:
        self.setting = saved(collection) or Setting("hybrid")
        self.reranker: Reranker | None = None
        self._retriever: Any = collection
        if self.setting.mix:
            self.reranker = collection.maxsim(mix=self.setting.mix)
            self._retriever = RetrieveRerank(collection, self.reranker, self.setting.candidates)

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """Search as the collection does, by the setting."""
        hits: list[Hit] = self._retriever.search(query, limit, filter=filter, **self.setting.first_stage)
        return hits

    def search_many(self, queries: Sequence[str], limit: int = 10, filter: Filter | None = None) -> list[list[Hit]]:
        """``search`` for many queries at once."""
        found: list[list[Hit]] = self._retriever.search_many(queries, limit, filter=filter, **self.setting.first_stage)
        return found
