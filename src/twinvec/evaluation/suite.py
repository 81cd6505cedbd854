"""Several tasks at once: load the data first, then measure one system after another on the same items.

A system is named: a model, a baseline (``baselines``), ``bm25``, or ``run:FILE``, the hits of another tool as a TREC
run. The last two take part in retrieval only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

import numpy as np

from twinvec.encoder import Encoder
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.bias import (
    WinobiasResult,
    WinobiasSet,
    WinogenderResult,
    WinogenderSet,
    evaluate_winobias,
    evaluate_winogender,
    load_winobias,
    load_winogender,
)
from twinvec.evaluation.ir import IrResult, bm25_index, evaluate_ir, evaluate_retriever, measure_ir
from twinvec.evaluation.measures import MEASURES, cutoff, import_ir_measures, read_run
from twinvec.evaluation.models.baselines import load_model
from twinvec.evaluation.models.text_model import TextModel
from twinvec.evaluation.nli import NliResult, NliSet, PairLabeller, evaluate_nli, load_nli
from twinvec.evaluation.pairs import (
    LabelledPairs,
    Triplets,
    evaluate_pairs,
    evaluate_triplets,
    load_labelled_pairs,
    load_questions,
    load_triplets,
)
from twinvec.evaluation.reranking import Reranked, find_reranker, rerank_result
from twinvec.evaluation.statistics import RESAMPLES, Interval
from twinvec.evaluation.sts import StsResult, StsSet, evaluate_sts, load_sts
from twinvec.models.finding import find_model

BM25 = "bm25"
RUN = "run:"
QUESTION_MEASURES = ("precision@1", "mrr@10", "ndcg@10", "recall@10")


class _Named(Protocol):
    @property
    def name(self) -> str: ...


Data = TypeVar("Data", bound=_Named)


@dataclass(frozen=True)
class Tasks:
    """What to measure on, read and checked; every set under a name of its own.

    Attributes:
        measures: Of the retrieval sets.
        rerank: Reranker behind the retrieval sets, by name; see ``twinvec.rerankers.open.open_reranker``.
        candidates: How many hits it looks at.
    """

    sts: dict[str, StsSet] = field(default_factory=dict)
    ir: dict[str, BeirSet] = field(default_factory=dict)
    questions: dict[str, BeirSet] = field(default_factory=dict)
    nli: dict[str, NliSet] = field(default_factory=dict)
    nli_train: NliSet | None = None
    pairs: dict[str, LabelledPairs] = field(default_factory=dict)
    triplets: dict[str, Triplets] = field(default_factory=dict)
    winogender: WinogenderSet | None = None
    winobias: WinobiasSet | None = None
    measures: tuple[str, ...] = MEASURES
    rerank: str | None = None
    candidates: int = 100

    @property
    def depth(self) -> int:
        """How many hits the reranker needs; 0 without one."""
        return self.candidates if self.rerank else 0

    @property
    def empty(self) -> bool:
        """Whether there is nothing to measure on."""
        return not (self.needs_vectors or self.ir or self.questions)

    @property
    def needs_vectors(self) -> bool:
        """Whether some task cannot be done by words alone."""
        return bool(self.sts or self.nli or self.pairs or self.triplets or self.winogender or self.winobias)


def load_tasks(
    *,
    sts: Iterable[Path] = (),
    ir: Iterable[Path] = (),
    split: str = "test",
    questions: Iterable[Path] = (),
    nli: Iterable[Path] = (),
    nli_train: Path | None = None,
    pairs: Iterable[Path] = (),
    triplets: Iterable[Path] = (),
    winogender: Path | None = None,
    winobias: Path | None = None,
    measures: Sequence[str] = MEASURES,
    rerank: str | None = None,
    candidates: int = 100,
) -> Tasks:
    """Read all files before anything is encoded.

    Raises:
        InputError: a file is at fault; the message names file and line.
        ConfigurationError: no measure, or an unknown one.
        MissingExtraError: retrieval is to be measured, and ir-measures is not installed.
    """
    if not measures:
        raise ConfigurationError(f"no measure is named; the usual ones: {', '.join(MEASURES)}")
    for measure in measures:
        cutoff(measure)
    tasks = Tasks(
        sts=_named(sts, load_sts),
        ir=_named(ir, lambda path: load_beir(path, split)),
        questions=_named(questions, load_questions),
        nli=_named(nli, load_nli),
        nli_train=load_nli(nli_train) if nli_train else None,
        pairs=_named(pairs, load_labelled_pairs),
        triplets=_named(triplets, load_triplets),
        winogender=load_winogender(winogender) if winogender else None,
        winobias=load_winobias(winobias) if winobias else None,
        measures=tuple(dict.fromkeys(measures)),
        rerank=rerank,
        candidates=candidates,
    )
    if tasks.ir or tasks.questions:
        import_ir_measures()
    return tasks


@dataclass(frozen=True)
class Evaluation:
    """All results of one system."""

    system: str
    sts: dict[str, StsResult] = field(default_factory=dict)
    ir: dict[str, IrResult] = field(default_factory=dict)
    reranked: dict[str, Reranked] = field(default_factory=dict)
    questions: dict[str, IrResult] = field(default_factory=dict)
    nli: dict[str, NliResult] = field(default_factory=dict)
    pairs: dict[str, dict[str, Any]] = field(default_factory=dict)
    triplets: dict[str, dict[str, Any]] = field(default_factory=dict)
    winogender: WinogenderResult | None = None
    winobias: dict[str, WinobiasResult] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The figures: section -> data -> measure, and under ``mean`` the means of sections with several sets."""
        sections: dict[str, dict[str, dict[str, Any]]] = {
            "sts": {name: _with_interval(r.figures, "spearman", r.interval) for name, r in self.sts.items()},
            "ir": {name: result.as_json() for name, result in self.ir.items()},
            "reranked": {name: result.as_json() for name, result in self.reranked.items()},
            "questions": {name: result.as_json() for name, result in self.questions.items()},
            "nli": {name: _with_interval(r.figures, "accuracy", r.interval) for name, r in self.nli.items()},
            "pairs": dict(self.pairs),
            "triplets": dict(self.triplets),
        }
        if self.winogender is not None or self.winobias:
            sections["bias"] = {f"winobias/{kind}": result.figures for kind, result in self.winobias.items()}
            if self.winogender is not None:
                sections["bias"]["winogender"] = self.winogender.figures
        means = {
            section: {
                measure: float(np.mean([figures[measure] for figures in results.values()]))
                for measure, value in next(iter(results.values())).items()
                if isinstance(value, float) and measure != "p_value"
            }
            for section, results in sections.items()
            if len(results) > 1 and section != "bias"
        }
        filled = {section: results for section, results in sections.items() if results}
        return {"model": self.system, **filled, **({"mean": means} if means else {})}


def evaluate(system: str, tasks: Tasks, *, resamples: int = RESAMPLES, progress: bool = False) -> Evaluation:
    """Measure one system on all tasks; BM25 on those that words can do.

    Raises:
        ConfigurationError: there is nothing to measure.
        ModelError: the model is not found, damaged or not supported.
    """
    if tasks.empty:
        raise ConfigurationError("nothing to evaluate on: give at least one file or folder, such as --sts FILE.tsv")
    if system == BM25:
        return _evaluate_words(tasks, resamples, progress)
    if system.startswith(RUN):
        return _evaluate_run(system, tasks, resamples, progress)
    model = load_model(system)
    options: dict[str, Any] = {"resamples": resamples, "progress": progress}
    ir = {
        name: evaluate_ir(model, data, measures=tasks.measures, depth=tasks.depth, **options)
        for name, data in tasks.ir.items()
    }
    return Evaluation(
        system,
        sts={name: evaluate_sts(model, data, **options) for name, data in tasks.sts.items()},
        ir=ir,
        reranked=_reranked(ir, tasks, model, resamples, progress),
        questions={
            name: evaluate_ir(model, data, measures=QUESTION_MEASURES, **options)
            for name, data in tasks.questions.items()
        },
        nli=_evaluate_nli(model, tasks, options) if tasks.nli else {},
        pairs={name: evaluate_pairs(model, data, **options) for name, data in tasks.pairs.items()},
        triplets={name: evaluate_triplets(model, data, progress=progress) for name, data in tasks.triplets.items()},
        **_measure_bias(model, tasks, resamples),
    )


def _reranked(
    ir: dict[str, IrResult], tasks: Tasks, model: Any, resamples: int, progress: bool = False
) -> dict[str, Reranked]:
    if tasks.rerank is None or not ir:
        return {}
    reranker = find_reranker(tasks.rerank, model)
    return {
        name: rerank_result(result, reranker, candidates=tasks.candidates, resamples=resamples, progress=progress)
        for name, result in ir.items()
    }


def _evaluate_nli(model: TextModel, tasks: Tasks, options: dict[str, Any]) -> dict[str, NliResult]:
    head = _trained_head(model) if tasks.nli_train is None else None
    return {
        name: evaluate_nli(model, data, train=tasks.nli_train, head=head, **options) for name, data in tasks.nli.items()
    }


def _trained_head(model: TextModel) -> PairLabeller | None:
    """The head that a training for classification left in the model's folder."""
    if not isinstance(model, Encoder):
        return None
    folder = find_model(model.name).path
    if not (folder / "softmax_head.json").is_file():
        return None
    from twinvec.training.run.softmax_head import PairClassifier

    return PairClassifier(model, folder)


def _evaluate_words(tasks: Tasks, resamples: int, progress: bool) -> Evaluation:
    if not (tasks.ir or tasks.questions):
        raise ConfigurationError("bm25 looks at words, it has no vectors: it takes part in retrieval only")

    def searched(data: BeirSet, measures: tuple[str, ...]) -> IrResult:
        index = bm25_index(data.documents)
        return evaluate_retriever(index, data, measures=measures, depth=tasks.depth, resamples=resamples, mode="sparse")

    ir = {name: searched(data, tasks.measures) for name, data in tasks.ir.items()}
    return Evaluation(
        BM25,
        ir=ir,
        reranked=_reranked(ir, tasks, BM25, resamples, progress),
        questions={name: searched(data, QUESTION_MEASURES) for name, data in tasks.questions.items()},
    )


def _evaluate_run(system: str, tasks: Tasks, resamples: int, progress: bool) -> Evaluation:
    if len(tasks.ir) != 1:
        raise ConfigurationError(f"{system}: a run is of one retrieval set: give --ir once")
    ((name, data),) = tasks.ir.items()
    run = read_run(system.removeprefix(RUN))
    known = {document.id for document in data.documents}
    strange = next((each for hits in run.values() for each in hits if each not in known), None)
    if strange is not None:
        raise InputError(f"{system}: the document {strange!r} is not among those of {name}")
    ir = {name: measure_ir(run, data, measures=tasks.measures, depth=tasks.depth, resamples=resamples)}
    return Evaluation(system, ir=ir, reranked=_reranked(ir, tasks, system, resamples, progress))


def _measure_bias(model: TextModel, tasks: Tasks, resamples: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if tasks.winogender is not None:
        found["winogender"] = evaluate_winogender(model, tasks.winogender, resamples=resamples)
    if tasks.winobias is not None:
        found["winobias"] = evaluate_winobias(model, tasks.winobias, resamples=resamples)
    return found


def _named(paths: Iterable[Path], load: Callable[[Path], Data]) -> dict[str, Data]:
    """Data under its own name, or under its path where that name is taken."""
    found: dict[str, Data] = {}
    for path in paths:
        data = load(path)
        name = data.name if data.name not in found else str(path)
        found[name] = replace(data, name=name)  # type: ignore[type-var]
    return found


def _with_interval(figures: dict[str, float], measure: str, interval: Interval | None) -> dict[str, Any]:
    return {**figures, f"{measure}_interval": interval.bounds} if interval else dict(figures)
