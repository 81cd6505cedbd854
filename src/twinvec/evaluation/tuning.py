"""Tuning: how a collection is searched best, chosen on queries whose answers are known.

A setting is a mode, and MaxSim behind it over so many candidates with so much weight, or nothing. The queries are
judged ones, or, where there are none, pseudo-queries: a passage taken out of a document, which has to be found by what
is left of it (the inverse cloze task: Lee, Chang and Toutanova 2019), in an index of its own.

What the choice is worth is told by cross-validation, on queries that had no say in it; where it is not worth more than
the better of searching by vectors alone and by words alone, that one is chosen. So a choice made from few queries, or
from queries that tell nothing, does no harm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twinvec.documents import Document
from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError, InputError, MissingExtraError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import as_run, search_all, without_own
from twinvec.evaluation.measures import cutoff, measure_run
from twinvec.evaluation.statistics import RESAMPLES, PairedTest, Values, paired_test
from twinvec.filters import Filter
from twinvec.reranker import MaxSimReranker, mixed_scores
from twinvec.retrieval import Hit, MemoryIndex, Mode, Retriever, RetrieveRerank

FOLDS = 5
CANDIDATES = (20, 50, 100)
MIXES = (0.25, 0.5, 0.75)
PSEUDO_DOCUMENTS = 2000
PSEUDO_QUERIES = 200
NOTES = "twinvec.search"
"""Namespace of the collection's notes in which the choice is kept."""

_KEY = "setting"
_PASSAGE = (60, 240)  # characters of a pseudo-query
_REST = 100  # characters that have to be left of its document
_SEED = 20190827


@dataclass(frozen=True, slots=True)
class Setting:
    """How to search.

    Attributes:
        mode: The first stage.
        mix: Weight of MaxSim behind it; 0 for none.
        candidates: How many hits MaxSim looks at.
    """

    mode: Mode
    mix: float = 0.0
    candidates: int = 0

    @property
    def single(self) -> bool:
        """Whether it is one stage alone."""
        return self.mode != "hybrid" and not self.mix

    def __str__(self) -> str:
        return f"{self.mode}, maxsim {self.mix:g} over {self.candidates}" if self.mix else self.mode


@dataclass(frozen=True)
class Tuning:
    """What was chosen, and what it is worth.

    Attributes:
        setting: The choice.
        measure: What it was chosen by.
        expected: The figure of settings chosen in this way, on queries that had no say in the choice.
        single: The better one of the single stages.
        gain: Of ``expected`` over ``single``: difference, interval, p.
        figures: Setting -> its mean over all queries.
        queries: How many there were.
        pseudo: Whether they were taken out of the documents.
    """

    setting: Setting
    measure: str
    expected: float
    single: Setting
    gain: PairedTest
    figures: Mapping[Setting, float]
    queries: int
    pseudo: bool

    def as_json(self) -> dict[str, Any]:
        """Everything, as JSON has it; settings by their names in ``figures``."""
        return {**asdict(replace(self, figures={})), "figures": {str(each): v for each, v in self.figures.items()}}


def tune(
    retriever: Retriever,
    data: BeirSet,
    *,
    encoder: Encoder | None = None,
    measure: str = "ndcg@10",
    resamples: int = RESAMPLES,
    pseudo: bool = False,
) -> Tuning:
    """Choose a setting for a retriever with modes that holds the set's documents under their ids.

    Args:
        retriever: A collection, or a ``MemoryIndex``.
        data: The judged queries.
        encoder: For MaxSim; unless given, settings with it are not tried.
        measure: As in ``twinvec.evaluation.measures``.
        resamples: For the interval of the gain.
        pseudo: Noted in the result.

    Raises:
        InputError: fewer than ten queries.
    """
    if len(data.qrels) < 2 * FOLDS:
        raise InputError(f"{data.name}: {len(data.qrels)} judged queries; choosing needs at least {2 * FOLDS}")
    values = _measured(retriever, data, encoder, measure)
    single = _best({setting: each for setting, each in values.items() if setting.single})
    expected, setting = _cross_validated(values), _best(values)
    if expected.mean() <= values[single].mean():
        expected, setting = values[single], single
    return Tuning(
        setting,
        measure,
        float(expected.mean()),
        single,
        paired_test(values[single], expected, resamples=resamples),
        {setting: float(each.mean()) for setting, each in values.items()},
        len(expected),
        pseudo,
    )


def tune_by_documents(collection: Any, *, measure: str = "ndcg@10", resamples: int = RESAMPLES) -> Tuning:
    """``tune`` without judgements: on passages taken out of a sample of the collection's documents.

    Args:
        collection: With ``encoder``, ``find`` and ``get``, such as ``twinvec_qdrant.Collection``.
        measure: As for ``tune``.
        resamples: As for ``tune``.

    Raises:
        InputError: too few documents are long enough to spare a passage.
    """
    ids = sorted(collection.find())
    chosen = np.random.default_rng(_SEED).permutation(len(ids))[:PSEUDO_DOCUMENTS]
    data = pseudo_queries(collection.get([ids[row] for row in chosen]))
    encoder = collection.encoder
    index = MemoryIndex(encoder, data.documents)
    tokens = encoder if isinstance(encoder, Encoder) else None
    return tune(index, data, encoder=tokens, measure=measure, resamples=resamples, pseudo=True)


def pseudo_queries(documents: Sequence[Document], count: int = PSEUDO_QUERIES) -> BeirSet:
    """Take one passage each out of up to ``count`` documents; the rest of them stays to be found.

    Raises:
        MissingExtraError: the text splitter is missing.
    """
    try:
        from semantic_text_splitter import TextSplitter
    except ImportError as error:
        raise MissingExtraError("semantic-text-splitter", "eval", "taking passages out of documents") from error
    random = np.random.default_rng(_SEED)
    splitter = TextSplitter(_PASSAGE)
    queries: dict[str, str] = {}
    kept = []
    for document in documents:
        rest = document
        if len(queries) < count and len(document.text) >= _PASSAGE[1] + _REST:
            passages = [(at, text) for at, text in splitter.chunk_indices(document.text) if len(text) >= _PASSAGE[0]]
            if passages:
                at, text = passages[random.integers(len(passages))]
                left = f"{document.text[:at]} {document.text[at + len(text) :]}".strip()
                queries[document.id] = text
                rest = replace(document, text=left)
        kept.append(rest)
    numbered = {f"passage of {name}": text for name, text in queries.items()}
    return BeirSet("pseudo-queries", kept, numbered, {f"passage of {name}": {name: 1} for name in queries})


def save(collection: Any, tuning: Tuning) -> None:
    """Keep the choice with the collection, in its notes."""
    collection.notes(NOTES).put({_KEY: {**asdict(tuning.setting), "measure": tuning.measure}})


def saved(collection: Any) -> Setting | None:
    """The choice that was kept with the collection."""
    for key, fields in collection.notes(NOTES).find():
        if key == _KEY:
            return Setting(fields["mode"], float(fields["mix"]), int(fields["candidates"]))
    return None


class TunedSearch:
    """A retriever that searches a collection by the choice kept with it; hybrid, where there is none.

    Args:
        collection: As for ``tune_by_documents``.

    Attributes:
        setting: The choice.
        reranker: What comes behind the first stage, or None.

    Raises:
        ConfigurationError: the choice asks for MaxSim, which the collection's encoder does not offer.
    """

    def __init__(self, collection: Any) -> None:
        self.setting = saved(collection) or Setting("hybrid")
        self.reranker: MaxSimReranker | None = None
        self._retriever: Any = collection
        if self.setting.mix:
            if not isinstance(collection.encoder, Encoder):
                raise ConfigurationError(f"{collection.encoder!r} has no token states, which maxsim compares")
            self.reranker = MaxSimReranker(collection.encoder, mix=self.setting.mix)
            self._retriever = RetrieveRerank(collection, self.reranker, self.setting.candidates)

    def search(self, query: str, limit: int = 10, filter: Filter | None = None) -> list[Hit]:
        """As the collection's ``search``."""
        hits: list[Hit] = self._retriever.search(query, limit, filter=filter, mode=self.setting.mode)
        return hits

    def search_many(self, queries: Sequence[str], limit: int = 10, filter: Filter | None = None) -> list[list[Hit]]:
        """``search`` for many queries at once."""
        found: list[list[Hit]] = self._retriever.search_many(queries, limit, filter=filter, mode=self.setting.mode)
        return found


def _measured(retriever: Retriever, data: BeirSet, encoder: Encoder | None, measure: str) -> dict[Setting, Values]:
    """Setting -> the measure for each query. Each mode is searched once, and MaxSim computed once for its hits."""
    values: dict[Setting, Values] = {}
    modes: tuple[Mode, ...] = ("dense", "sparse", "hybrid")
    for mode in modes:
        found = search_all(retriever, data, max(CANDIDATES) + 1, mode=mode)
        values[Setting(mode)] = _values(found, data, measure)
        if encoder is None:
            continue
        reranked = MaxSimReranker(encoder, mix=1.0).rerank_many(list(data.queries.values()), list(found.values()))
        maxsim = {
            query: {hit.id: hit.scores[MaxSimReranker.stage] for hit in hits}
            for query, hits in zip(found, reranked, strict=True)
        }
        for candidates in CANDIDATES:
            for mix in MIXES:
                mixed = {query: _mixed(hits[:candidates], maxsim[query], mix) for query, hits in found.items()}
                values[Setting(mode, mix, candidates)] = _values(mixed, data, measure)
    return values


def _mixed(hits: Sequence[Hit], maxsim: Mapping[str, float], mix: float) -> list[Hit]:
    before = np.array([hit.score for hit in hits])
    scores = mixed_scores(before, np.array([maxsim[hit.id] for hit in hits]), mix)
    return [replace(hits[row], score=float(scores[row])) for row in np.argsort(-scores, kind="stable")]


def _values(found: Mapping[str, Sequence[Hit]], data: BeirSet, measure: str) -> Values:
    run = without_own(as_run(found), data, cutoff(measure))
    return measure_run(run, data.qrels, [measure]).per_query[measure]


def _best(values: Mapping[Setting, Values]) -> Setting:
    """The best mean; among equals the first, which is the plainest."""
    return max(values, key=lambda setting: float(values[setting].mean()))


def _cross_validated(values: Mapping[Setting, Values]) -> Values:
    """For each query the figure of the setting that is best on the other folds."""
    count = len(next(iter(values.values())))
    fold = np.random.default_rng(_SEED).permutation(count) % FOLDS
    expected = np.zeros(count)
    for each in range(FOLDS):
        setting = _best({setting: figures[fold != each] for setting, figures in values.items()})
        expected[fold == each] = values[setting][fold == each]
    return expected
