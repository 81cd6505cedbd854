"""Tuned search: a retriever that uses the setting which ``evaluation.tuning`` has stored in a collection's notes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from twinvec.retrieval.base import Hit, Mode, Reranker
from twinvec.retrieval.filters import Filter
from twinvec.retrieval.retrieve_rerank import RetrieveRerank

NOTES = "twinvec.search"
"""Namespace of the collection's notes that holds the setting."""

_KEY = "setting"


@dataclass(frozen=True, slots=True)
class Setting:
    """A setting of a search: the ``mode`` of the first stage, and the weight ``words`` of BM25 in a hybrid search.

    ``feedback`` is the number of first hits towards which the query's vector moves for a second search; 0 for none.
    ``mix`` is the weight of MaxSim, which reranks ``candidates`` hits as a second stage; 0 for none.
    """

    mode: Mode
    words: float = 1.0
    mix: float = 0.0
    candidates: int = 0
    feedback: int = field(default=0, kw_only=True)

    @property
    def single(self) -> bool:
        """Whether the search has one stage only."""
        return self.mode != "hybrid" and not self.mix and not self.feedback

    @property
    def first_stage(self) -> dict[str, Any]:
        """Keyword arguments of ``search`` for the first stage."""
        weights = {"weights": (1.0, self.words)} if self.mode == "hybrid" else {}
        feedback = {"feedback": self.feedback} if self.feedback else {}
        return {"mode": self.mode, **weights, **feedback}

    def __str__(self) -> str:
        words = f", words x {self.words:g}" if self.words != 1 else ""
        maxsim = f", maxsim {self.mix:g} over {self.candidates}" if self.mix else ""
        feedback = f", feedback of {self.feedback}" if self.feedback else ""
        return f"{self.mode}{words}{feedback}{maxsim}"


def save(collection: Any, setting: Setting, measure: str) -> None:
    """Write the setting, and the measure that chose it, into the collection's notes."""
    fields = asdict(setting)
    if not setting.feedback:  # left out, so that versions without feedback can read the setting
        del fields["feedback"]
    collection.notes(NOTES).put({_KEY: {**fields, "measure": measure}})


def saved(collection: Any) -> Setting | None:
    """Return the setting in the collection's notes, or None."""
    fields = collection.notes(NOTES).get([_KEY]).get(_KEY)
    if fields is None:
        return None
    mix, candidates, feedback = float(fields["mix"]), int(fields["candidates"]), int(fields.get("feedback", 0))
    return Setting(fields["mode"], float(fields["words"]), mix, candidates, feedback=feedback)


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

    def search(self, query: str, limit: int = 10, filter: Filter | None = None, **options: Any) -> list[Hit]:
        """Search the collection by the setting; ``options``, such as ``words``, go to the collection's ``search``."""
        hits: list[Hit] = self._retriever.search(query, limit, filter=filter, **self.setting.first_stage | options)
        return hits

    def search_many(
        self, queries: Sequence[str], limit: int = 10, filter: Filter | None = None, **options: Any
    ) -> list[list[Hit]]:
        """``search`` for many queries at once."""
        options = self.setting.first_stage | options
        found: list[list[Hit]] = self._retriever.search_many(queries, limit, filter=filter, **options)
        return found

    def with_passages(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """Return the hits of one query with the passages that answer it."""
        found: list[Hit] = self._retriever.with_passages(query, hits)
        return found
