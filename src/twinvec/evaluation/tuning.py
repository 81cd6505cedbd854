"""Tuning: the best way to search a collection, chosen on judged queries or pseudo-queries.

A setting is a mode, the weight of words against vectors in hybrid search, and optionally MaxSim reranking. Plain hybrid
search stays the choice unless other settings beat it beyond chance, query by query: the best mean among many settings
is mostly luck. Cross-validation tells what the choice is worth on other queries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from twinvec.encoder import Encoder
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet
from twinvec.evaluation.ir import as_run, check_finds, search_all, without_own
from twinvec.evaluation.measures import cutoff, measure_run
from twinvec.evaluation.reranking import rerank_all
from twinvec.evaluation.statistics import FOLDS, RESAMPLES, SEED, PairedTest, Values, paired_test
from twinvec.rerankers.maxsim import MaxSimReranker, mixed_scores
from twinvec.retrieval.base import Hit, Retriever
from twinvec.retrieval.documents import Document
from twinvec.retrieval.memory_index import MemoryIndex
from twinvec.retrieval.tuned_search import Setting
from twinvec.support.extras import import_extra
from twinvec.support.progress import progress_bar
from twinvec.tokens.truncation import unreported_truncations

WORDS = (0.25, 0.5, 1.0, 2.0, 4.0)
CANDIDATE_COUNTS = (20, 50, 100)
MIXES = (0.25, 0.5, 0.75)
PSEUDO_DOCUMENTS = 2000
PASSAGE = (60, 240)
"""Smallest and largest number of characters of a passage."""

REST = 100
"""Smallest number of characters that must remain of its document."""

PLAIN = Setting("hybrid")

ASSURED = 1.645
"""Standard errors by which a mean gain must exceed 0: chance alone reaches them once in 20 times.

Chosen by 10 to 40 queries of cisi and nl2bash and measured on the others, the best mean lost up to 12 points nDCG@10 to
the better single stage, and this choice at most 2; see ``benchmarks/TUNING.md``.
"""


@dataclass(frozen=True)
class Tuning:
    """The chosen setting, and what it is worth.

    Attributes:
        measure: The measure that the setting was chosen by.
        expected: The figure of settings chosen in this way, on queries that did not take part in the choice.
        single: The better one of the single stages.
        gain: Gain of ``expected`` over ``single``: difference, interval, p.
        figures: Setting -> its mean over all queries.
        pseudo: Whether the queries are pseudo-queries.
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
) -> Tuning:
    """Choose a setting for a retriever that has modes and holds the set's documents under their ids.

    Args:
        retriever: A collection, or a ``MemoryIndex``.
        data: The judged queries.
        encoder: Encoder for MaxSim; default: settings with MaxSim are not tried.
        measure: As in ``twinvec.evaluation.measures``.
        resamples: Number of resamples for the interval of the gain.
        progress: Show progress bars on a terminal.

    Raises:
        InputError: there are fewer than ten queries, or the retriever finds none of the set's documents.
        ConfigurationError: the measure is unknown.
    """
    measured = measure_settings(retriever, data, encoder, measure, progress=progress)
    return tuned(measured, measure, resamples=resamples)


def tuned(measured: dict[Setting, Values], measure: str, *, resamples: int = RESAMPLES, pseudo: bool = False) -> Tuning:
    """Choose a setting by measured queries; pseudo-queries cannot choose among all settings (``by_passages``)."""
    values = by_passages(measured) if pseudo else measured
    singles = {setting: each for setting, each in measured.items() if setting.single}
    single = max(singles, key=lambda each: float(singles[each].mean()))
    expected = _cross_validated(values)
    return Tuning(
        choose(values),
        measure,
        float(expected.mean()),
        single,
        paired_test(singles[single], expected, resamples=resamples),
        {setting: float(each.mean()) for setting, each in (values | singles).items()},
        len(expected),
        pseudo,
    )


def tune_by_documents(
    collection: Any, *, measure: str = "ndcg@10", resamples: int = RESAMPLES, progress: bool = False
) -> Tuning:
    """``tune`` without judgements, on passages from a sample of the documents of a ``twinvec_qdrant.Collection``.

    Raises InputError if too few documents are long enough to spare a passage.
    """
    cutoff(measure)
    ids = sorted(collection.find())
    chosen = np.random.default_rng(SEED).permutation(len(ids))[:PSEUDO_DOCUMENTS]
    data = pseudo_queries(collection.get([ids[row] for row in chosen]), least=2 * FOLDS)
    encoder = collection.encoder
    index = MemoryIndex(encoder)
    with unreported_truncations():  # expected: a search compares the beginnings of long documents
        index.add(data.documents, progress=progress)
    tokens = encoder if isinstance(encoder, Encoder) else None
    measured = measure_settings(index, data, tokens, measure, progress=progress)
    return tuned(measured, measure, resamples=resamples, pseudo=True)


def pseudo_queries(documents: Sequence[Document], count: int = 200, least: int = 10) -> BeirSet:
    """Take one passage out of each of up to ``count`` documents; the rest of each is to be found.

    This is the inverse cloze task (Lee, Chang and Toutanova 2019). Passages share more words with their document than
    people's questions do: they show which ways of searching work on these documents, not how well they serve people.
    Raises InputError if fewer than ``least`` documents are long enough to spare a passage.
    """
    package = import_extra("semantic_text_splitter", "eval", "taking passages out of documents")
    splitter = package.TextSplitter(PASSAGE)
    random = np.random.default_rng(SEED)
    queries: dict[str, str] = {}
    kept = []
    for document in documents:
        if len(queries) < count and len(document.text) >= PASSAGE[1] + REST:
            passages = [(at, text) for at, text in splitter.chunk_indices(document.text) if len(text) >= PASSAGE[0]]
            if passages:
                at, text = passages[random.integers(len(passages))]
                queries[document.id] = text
                left = f"{document.text[:at]} {document.text[at + len(text) :]}".strip()
                document = replace(document, text=left)
        kept.append(document)
    if len(queries) < least:
        raise InputError(
            f"only {len(queries)} of {len(documents):,} documents are long enough ({PASSAGE[1] + REST} characters) to "
            f"take a passage out and search for the rest; at least {least} are needed, or judged queries (--ir)"
        )
    numbered = {f"passage of {name}": text for name, text in queries.items()}
    return BeirSet("pseudo-queries", kept, numbered, {f"passage of {name}": {name: 1} for name in queries})


def measure_settings(
    retriever: Retriever, data: BeirSet, encoder: Encoder | None, measure: str, *, progress: bool = False
) -> dict[Setting, Values]:
    """Return setting -> the measure for each query.

    Raises InputError if there are fewer than ten queries or the retriever finds none of the set's documents.
    """
    cutoff(measure)
    if len(data.qrels) < 2 * FOLDS:
        raise InputError(f"{data.name}: {len(data.qrels)} judged queries; choosing needs at least {2 * FOLDS}")
    stages = [Setting("dense"), Setting("sparse"), *(Setting("hybrid", words) for words in WORDS)]
    stages.sort(key=lambda stage: stage.words != 1)  # among equal settings the plainest is chosen
    found: dict[Setting, dict[str, list[Hit]]] = {}
    with progress_bar("Searching", len(stages), "ways", shown=progress) as advance:
        for stage in stages:
            found[stage] = search_all(retriever, data, max(CANDIDATE_COUNTS) + 1, **stage.first_stage)
            advance(1)
    check_finds((hits for each in found.values() for hits in each.values()), data)
    values = {stage: _values(hits, data, measure) for stage, hits in found.items()}
    if encoder is None:
        return values
    maxsim = _maxsim(encoder, data, list(found.values()), progress)
    for stage in stages:
        for candidates in CANDIDATE_COUNTS:
            for mix in MIXES:
                mixed = {query: _mixed(hits[:candidates], maxsim[query], mix) for query, hits in found[stage].items()}
                values[replace(stage, mix=mix, candidates=candidates)] = _values(mixed, data, measure)
    return values


def _maxsim(
    encoder: Encoder, data: BeirSet, stages: Sequence[Mapping[str, Sequence[Hit]]], progress: bool
) -> dict[str, dict[str, float]]:
    """Return query id -> text -> its MaxSim, for the hits of all stages."""
    union = {
        query: list({hit.text: hit for found in stages for hit in found[query]}.values()) for query in data.queries
    }
    with unreported_truncations():  # expected: a search compares the beginnings of long documents
        reranked = rerank_all(MaxSimReranker(encoder, mix=1.0), data, union, progress=progress)
    return {query: {hit.text: hit.scores[MaxSimReranker.stage] for hit in hits} for query, hits in reranked.items()}


def _mixed(hits: Sequence[Hit], maxsim: Mapping[str, float], mix: float) -> list[Hit]:
    before = np.array([hit.score for hit in hits])
    scores = mixed_scores(before, np.array([maxsim[hit.text] for hit in hits]), mix)
    return [replace(hits[row], score=float(scores[row])) for row in np.argsort(-scores, kind="stable")]


def _values(found: Mapping[str, Sequence[Hit]], data: BeirSet, measure: str) -> Values:
    run = without_own(as_run(found), data, cutoff(measure))
    return measure_run(run, data.qrels, [measure]).per_query[measure]


def by_passages(values: Mapping[Setting, Values]) -> dict[Setting, Values]:
    """Return the settings that pseudo-queries may choose from.

    Passages share more words with their documents than questions do, so they cannot show that words weigh too little.
    """
    return {setting: each for setting, each in values.items() if setting.mode != "sparse" and setting.words <= 1}


def choose(values: Mapping[Setting, Values]) -> Setting:
    """Return the setting with the largest assured gain over plain hybrid search, else plain hybrid search.

    The assured gain is the mean gain less ``ASSURED`` standard errors. ``values`` holds the measure for each of two or
    more queries, also for ``PLAIN``.
    """

    def assured(setting: Setting) -> float:
        gains = values[setting] - values[PLAIN]
        return float(gains.mean() - ASSURED * gains.std(ddof=1) / np.sqrt(len(gains)))

    return max((PLAIN, *values), key=assured)


def _cross_validated(values: Mapping[Setting, Values]) -> Values:
    """Return for each query the figure of the setting that the other folds choose."""
    count = len(next(iter(values.values())))
    fold = np.random.default_rng(SEED).permutation(count) % FOLDS
    expected = np.zeros(count)
    for each in range(FOLDS):
        setting = choose({setting: figures[fold != each] for setting, figures in values.items()})
        expected[fold == each] = values[setting][fold == each]
    return expected
