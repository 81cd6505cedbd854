"""Tuning: the best way to search a collection, chosen on judged queries or pseudo-queries.

A setting is a mode, the weight of sparse against dense scores in hybrid search, and optionally feedback or MaxSim
reranking. The choice is plain hybrid search, unless another setting passes two tests. Its gain, query by query, must be
larger than chance explains among so many settings (``statistics.assured_gains``). The same way of choosing must gain in
cross-validation, on queries that were left out of the choice.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from twinvec.encoder import Encoder
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet, check_set, pseudo_queries
from twinvec.evaluation.ir import as_run, check_answers_held, check_finds, without_own
from twinvec.evaluation.measures import cutoff, measure_run
from twinvec.evaluation.reranking import rerank_all
from twinvec.evaluation.serving import timed_searches
from twinvec.evaluation.statistics import (
    FOLDS,
    RESAMPLES,
    SEED,
    PairedTest,
    Values,
    assured_gains,
    check_resamples,
    paired_test,
)
from twinvec.rerankers.maxsim import MaxSimReranker, mixed_scores
from twinvec.retrieval.base import Hit, Retriever
from twinvec.retrieval.memory_index import MemoryIndex
from twinvec.retrieval.retrieve_rerank import RetrieveRerank, search_many, without_passages
from twinvec.retrieval.tuned_search import Setting
from twinvec.support.checks import check_methods
from twinvec.support.progress import progress_bar
from twinvec.tokens.truncation import unreported_truncations

logger = logging.getLogger(__name__)

# the settings to try: weights of sparse scores; numbers of hits to rerank and weights of MaxSim; numbers of first hits
WORDS = (0.25, 0.5, 1.0, 2.0, 4.0)
CANDIDATE_COUNTS = (20, 50, 100)
MIXES = (0.25, 0.5, 0.75)
FEEDBACK_COUNTS = (2, 5)
FEEDBACK_WORDS = (0.5, 1.0, 2.0)
"""Sparse weights to try with feedback. Feedback is not tried with MaxSim: both together gain no more than one alone."""

PSEUDO_DOCUMENTS = 2000
PLAIN = Setting("hybrid")

_TIMED = 10  # searches that are timed for each setting
_AT_ONCE = 32  # queries whose hits are in memory together: each query has some 1,500

OnProgress = Callable[[int, int], None]
"""Function that gets the number of finished queries, and the number of all."""

_Found = dict[Setting, dict[str, list[Hit]]]
"""First stage -> query id -> hits."""


@dataclass(frozen=True)
class Tuning:
    """The chosen setting and its gain.

    Attributes:
        measure: The measure that the setting was chosen by.
        expected: The mean measure in cross-validation, on queries that were left out of the choice.
        single: The better one of dense and sparse search alone.
        gain: Gain of ``expected`` over ``single``: difference, interval, p.
        figures: Setting -> its mean over all queries.
        pseudo: Whether the queries are pseudo-queries.
        gain_over_plain: Gain of ``expected`` over plain hybrid search; this gain decides the choice.
        milliseconds: Median time of a search: "plain" for plain hybrid search, "chosen" for the setting.
    """

    setting: Setting
    measure: str
    expected: float
    single: Setting
    gain: PairedTest
    figures: Mapping[Setting, float]
    queries: int
    pseudo: bool
    gain_over_plain: PairedTest
    milliseconds: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return all values in the form of JSON; the keys of ``figures`` are the settings in words."""
        return {**asdict(replace(self, figures={})), "figures": {str(each): v for each, v in self.figures.items()}}


def tune(
    retriever: Retriever,
    data: BeirSet,
    *,
    encoder: Encoder | None = None,
    measure: str = "ndcg@10",
    resamples: int = RESAMPLES,
    progress: bool = False,
    on_progress: OnProgress | None = None,
) -> Tuning:
    """Choose a setting for a retriever whose ``search`` has modes and finds the set's documents under their ids.

    Args:
        retriever: A collection, or a ``MemoryIndex``.
        data: The judged queries.
        encoder: Encoder for MaxSim; default: settings with MaxSim are not tried.
        measure: Name of the measure, as in ``twinvec.evaluation.measures``.
        resamples: Number of resamples for the interval of the gain.
        progress: Show progress: a bar on a terminal, a line a minute elsewhere.
        on_progress: Function that is called with the number of finished queries, and the number of all.

    Raises:
        InputError: there are fewer than ten queries, or the retriever finds none of the set's documents.
        ConfigurationError: the measure is unknown.
    """
    check_resamples(resamples)
    measured = measure_settings(retriever, data, encoder, measure, progress=progress, on_progress=on_progress)
    found = tuned(measured, measure, resamples=resamples)
    return replace(found, milliseconds=_milliseconds(retriever, found.setting, data, encoder))


def tuned(measured: dict[Setting, Values], measure: str, *, resamples: int = RESAMPLES, pseudo: bool = False) -> Tuning:
    """Choose among the measured settings; if ``pseudo``, only among those of ``by_passages``."""
    values = by_passages(measured) if pseudo else measured
    singles = {setting: each for setting, each in measured.items() if setting.single}
    single = max(singles, key=lambda each: float(singles[each].mean()))
    setting, expected = choose(values), cross_validated(values)
    return Tuning(
        setting=setting,
        measure=measure,
        expected=float(expected.mean()),
        single=single,
        gain=paired_test(singles[single], expected, resamples=resamples),
        figures={setting: float(each.mean()) for setting, each in (values | singles).items()},
        queries=len(expected),
        pseudo=pseudo,
        gain_over_plain=paired_test(values[PLAIN], expected, resamples=resamples),
    )


def tune_by_documents(
    collection: Any,
    *,
    measure: str = "ndcg@10",
    resamples: int = RESAMPLES,
    progress: bool = False,
    on_progress: OnProgress | None = None,
) -> Tuning:
    """``tune`` without judgements, on passages from a sample of the documents of a ``twinvec_qdrant.Collection``.

    Raises InputError if too few documents are long enough to spare a passage.
    """
    cutoff(measure)
    check_resamples(resamples)
    check_methods(collection, ("find", "get", "encoder"), "collection", "a collection, as Collection.open returns it")
    ids = sorted(collection.find())
    chosen = np.random.default_rng(SEED).permutation(len(ids))[:PSEUDO_DOCUMENTS]
    data = pseudo_queries(collection.get([ids[row] for row in chosen]), least=2 * FOLDS)
    encoder = collection.encoder
    index = MemoryIndex(encoder)
    with unreported_truncations():  # truncation is normal: a search compares the beginnings of long documents
        index.add(data.documents, progress=progress)
    measured = measure_settings(index, data, None, measure, progress=progress, on_progress=on_progress)
    found = tuned(measured, measure, resamples=resamples, pseudo=True)
    return replace(found, milliseconds=_milliseconds(collection, found.setting, data, None))


def tune_collection(
    collection: Any, data: BeirSet | None, *, warn: Callable[[str], None] = logger.warning, **options: Any
) -> Tuning:
    """``tune`` a ``twinvec_qdrant.Collection`` with its own encoder, or by ``tune_by_documents`` if ``data`` is None.

    ``warn`` is called with a message if the collection lacks relevant documents.
    """
    if data is None:
        return tune_by_documents(collection, **options)
    check_answers_held(collection, data, warn)
    encoder = collection.encoder if isinstance(collection.encoder, Encoder) else None
    return tune(collection, data, encoder=encoder, **options)


def measure_settings(
    retriever: Retriever,
    data: BeirSet,
    encoder: Encoder | None,
    measure: str,
    *,
    progress: bool = False,
    on_progress: OnProgress | None = None,
) -> dict[Setting, Values]:
    """Return setting -> the measure for each query; arguments and errors are those of ``tune``."""
    check_methods(retriever, ("search",), "retriever", "a retriever, such as MemoryIndex(...) or a collection")
    check_set(data)
    if encoder is not None:
        check_methods(encoder, ("encode_tokens",), "encoder", "an Encoder(...)")
    if len(data.qrels) < 2 * FOLDS:
        raise InputError(
            f"{data.name}: {len(data.qrels)} judged queries; choosing a setting needs at least {2 * FOLDS}"
        )
    known, own = {document.id for document in data.documents}, list[Hit]()
    measured: list[dict[Setting, Values]] = []
    total = len(data.qrels)
    with progress_bar("Measuring", total, "queries", shown=progress) as advance:
        for start in range(0, total, _AT_ONCE):
            queries = list(data.qrels)[start : start + _AT_ONCE]
            found = _found(retriever, data, queries, max(*CANDIDATE_COUNTS, cutoff(measure)) + 1)
            own += [hit for each in found.values() for hits in each.values() for hit in hits if hit.id in known][:1]
            measured.append(_measured(found, data, encoder, measure))
            advance(len(queries))
            if on_progress is not None:
                on_progress(start + len(queries), total)
    check_finds([own], data)
    return {setting: np.concatenate([each[setting] for each in measured]) for setting in measured[0]}


def _found(retriever: Retriever, data: BeirSet, queries: Sequence[str], depth: int) -> _Found:
    """Return first stage -> query id -> hits, for these ids of queries."""
    search = getattr(retriever, "search_many", retriever.search)
    options, texts = without_passages(retriever), [data.queries[query] for query in queries]
    found: _Found = {}
    for stage in first_stages(feedback="feedback" in inspect.signature(search).parameters):
        hits = search_many(retriever, texts, depth, **options, **stage.first_stage)
        found[stage] = dict(zip(queries, hits, strict=True))
    return found


def _measured(found: _Found, data: BeirSet, encoder: Encoder | None, measure: str) -> dict[Setting, Values]:
    """Return setting -> the measure for each searched query; without an encoder, settings with MaxSim are left out."""
    values = {stage: _values(hits, data, measure) for stage, hits in found.items()}
    if encoder is None:
        return values
    reranked = {stage: hits for stage, hits in found.items() if not stage.feedback}
    maxsim = _maxsim(encoder, data, list(reranked.values()))
    for stage, lists in reranked.items():
        for candidates in CANDIDATE_COUNTS:
            for mix in MIXES:
                mixed = {query: _mixed(hits, candidates, maxsim[query], mix) for query, hits in lists.items()}
                values[replace(stage, mix=mix, candidates=candidates)] = _values(mixed, data, measure)
    return values


def first_stages(*, feedback: bool) -> list[Setting]:
    """Return all settings without MaxSim, the plainest first, because the first of equally good settings is chosen."""
    stages = [Setting("dense"), Setting("sparse"), *(Setting("hybrid", words) for words in WORDS)]
    if feedback:
        for count in FEEDBACK_COUNTS:
            stages.append(Setting("dense", feedback=count))
            stages += [Setting("hybrid", words, feedback=count) for words in FEEDBACK_WORDS]
    return sorted(stages, key=lambda stage: (stage.feedback, stage.words != 1))


def _milliseconds(retriever: Any, setting: Setting, data: BeirSet, encoder: Encoder | None) -> dict[str, float]:
    """Return the milliseconds of a search (median), with plain hybrid search and with the setting."""
    queries = [text for text in data.queries.values() if text.strip()][:_TIMED]
    found: dict[Setting, float] = {}
    for each in dict.fromkeys((PLAIN, setting)):
        stages = retriever
        if each.mix:
            own = getattr(retriever, "maxsim", None)  # a collection's own reranker, which may use stored token states
            assert encoder is not None
            reranker = MaxSimReranker(encoder, mix=each.mix) if own is None else own(mix=each.mix)
            stages = RetrieveRerank(retriever, reranker, each.candidates)
        with unreported_truncations():
            _, seconds = timed_searches(stages, queries, **each.first_stage)
        found[each] = 1000 * float(np.median(seconds))
    return {"plain": found[PLAIN], "chosen": found[setting]}


def _maxsim(
    encoder: Encoder, data: BeirSet, stages: Sequence[Mapping[str, Sequence[Hit]]]
) -> dict[str, dict[str, float]]:
    """Return query id -> text -> its MaxSim, for the hits of all stages."""
    union = {query: list({hit.text: hit for found in stages for hit in found[query]}.values()) for query in stages[0]}
    with unreported_truncations():  # truncation is normal: a search compares the beginnings of long documents
        reranked = rerank_all(MaxSimReranker(encoder, mix=1.0), data, union)
    return {query: {hit.text: hit.scores[MaxSimReranker.stage] for hit in hits} for query, hits in reranked.items()}


def _mixed(found: Sequence[Hit], candidates: int, maxsim: Mapping[str, float], mix: float) -> list[Hit]:
    """Return the best ``candidates`` hits ordered by the mix of both scores, then the other hits in their order."""
    hits = found[:candidates]
    before = np.array([hit.score for hit in hits])
    scores = mixed_scores(before, np.array([maxsim[hit.text] for hit in hits]), mix)
    best = [replace(hits[row], score=float(scores[row])) for row in np.argsort(-scores, kind="stable")]
    return [*best, *found[candidates:]]


def _values(found: Mapping[str, Sequence[Hit]], data: BeirSet, measure: str) -> Values:
    run = without_own(as_run(found), data, cutoff(measure))
    return measure_run(run, {query: data.qrels[query] for query in found}, [measure]).per_query[measure]


def choose(values: Mapping[Setting, Values]) -> Setting:
    """Return the best setting if it beats plain hybrid search beyond chance, else plain hybrid search.

    The best setting has the largest assured gain (``assured_gains``). This gain must be positive, and the same way of
    choosing must gain on the left-out queries of a cross-validation (``cross_validated``). ``values`` has the measure
    of each setting, ``PLAIN`` included, for each of two or more queries.
    """
    setting = _best(values)
    if setting != PLAIN and float((cross_validated(values) - values[PLAIN]).mean()) <= 0:
        return PLAIN
    return setting


def cross_validated(values: Mapping[Setting, Values]) -> Values:
    """Return for each query the measure of the setting that is best on the other folds."""
    count = len(values[PLAIN])
    fold = np.random.default_rng(SEED).permutation(count) % FOLDS
    expected = np.zeros(count)
    for each in range(FOLDS):
        setting = _best({setting: figures[fold != each] for setting, figures in values.items()})
        expected[fold == each] = values[setting][fold == each]
    return expected


def by_passages(values: Mapping[Setting, Values]) -> dict[Setting, Values]:
    """Return the settings that pseudo-queries may choose from.

    Passages share more words with their documents than questions do. They cannot show that sparse scores weigh too
    little, nor the gain of MaxSim, which compares words in their contexts. Each passage has one answer, so passages
    cannot show the gain of feedback either.
    """
    return {
        setting: each
        for setting, each in values.items()
        if setting.mode != "sparse" and setting.words <= 1 and not setting.feedback and not setting.mix
    }


def _best(values: Mapping[Setting, Values]) -> Setting:
    """Return the setting with the largest assured gain, or plain hybrid search if none is positive."""
    settings = [setting for setting in values if setting != PLAIN]
    if not settings:
        return PLAIN
    gains_SN = np.stack([values[setting] - values[PLAIN] for setting in settings])
    assured_S = assured_gains(gains_SN)
    row = int(np.argmax(assured_S))
    return settings[row] if assured_S[row] > 0 else PLAIN
