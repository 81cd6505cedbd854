"""Several tasks at once: load all data first, then measure each system on the same items.

A system is a model, a baseline or, for retrieval only, ``bm25`` or ``run:FILE``: a TREC run of another tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.correlation import import_scipy_stats
from twinvec.encoder import Encoder
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation import bias
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import IrResult, bm25_index, evaluate_ir, evaluate_retriever, measure_ir
from twinvec.evaluation.measures import MEASURES, deepest, import_ir_measures, read_run
from twinvec.evaluation.models.baselines import check_model, is_baseline, load_model
from twinvec.evaluation.models.text_model import TextModel
from twinvec.evaluation.nli import NliResult, NliSet, check_nli, evaluate_nli, load_nli
from twinvec.evaluation.pairs import (
    LabelledPairs,
    Triplets,
    evaluate_pairs,
    evaluate_triplets,
    import_sklearn_metrics,
    load_labelled_pairs,
    load_questions,
    load_triplets,
)
from twinvec.evaluation.reranking import Reranked, find_reranker, rerank_result
from twinvec.evaluation.statistics import RESAMPLES, check_resamples, with_interval
from twinvec.evaluation.sts import StsResult, StsSet, evaluate_sts, load_sts
from twinvec.models.finding import find_model
from twinvec.retrieval.base import Reranker, check_limit
from twinvec.support.checks import (
    as_list,
    check_choice,
    check_data,
    check_settings,
    file_path,
    integer,
    mapping,
    string,
)

BM25 = "bm25"
RUN = "run:"
QUESTION_MEASURES = ("precision@1", "mrr@10", "ndcg@10", "recall@10")

_SETS = {
    "sts": StsSet,
    "ir": BeirSet,
    "questions": BeirSet,
    "nli": NliSet,
    "pairs": LabelledPairs,
    "triplets": Triplets,
}
"""The fields of ``Tasks`` that hold sets by name, each with the class of its sets."""

_SINGLE_SETS = {"nli_train": NliSet, "winogender": bias.WinogenderSet}
"""The fields of ``Tasks`` that hold one set or None, each with the class of its set."""


@dataclass(frozen=True)
class Tasks:
    """The data to measure on, read and checked; ``measures``, ``rerank`` and ``candidates`` are for retrieval sets, and
    ``question_measures`` for questions.

    Raises InputError for data of a wrong type, and ConfigurationError for another wrong field.
    """

    sts: dict[str, StsSet] = field(default_factory=dict)
    ir: dict[str, BeirSet] = field(default_factory=dict)
    questions: dict[str, BeirSet] = field(default_factory=dict)
    nli: dict[str, NliSet] = field(default_factory=dict)
    nli_train: NliSet | None = None
    pairs: dict[str, LabelledPairs] = field(default_factory=dict)
    triplets: dict[str, Triplets] = field(default_factory=dict)
    winogender: bias.WinogenderSet | None = None
    winobias: bias.WinobiasSet | None = None
    measures: tuple[str, ...] = MEASURES
    question_measures: tuple[str, ...] = QUESTION_MEASURES
    rerank: str | None = None
    candidates: int = 100

    def __post_init__(self) -> None:
        for name, kind in _SETS.items():
            for key, data in mapping(getattr(self, name), name).items():
                check_data(data, kind, f"{name}: {key!r}", f"a {kind.__name__}(...)")
        for name, kind in _SINGLE_SETS.items():
            check_settings(getattr(self, name), kind, name)
        if self.winobias is not None:
            mapping(self.winobias, "winobias")
        for measures in (self.measures, self.question_measures):
            deepest(measures)  # raises for an unknown measure
        if self.rerank is not None:
            string(self.rerank, "rerank")
        check_limit(self.candidates, "candidates")

    @property
    def depth(self) -> int:
        """Number of hits that the reranker needs; 0 without a reranker."""
        return self.candidates if self.rerank else 0

    @property
    def needs_vectors(self) -> bool:
        """Whether a task needs vectors."""
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
    question_measures: Sequence[str] = QUESTION_MEASURES,
    rerank: str | None = None,
    candidates: int = Tasks.candidates,
    corpus_optional: bool = False,
) -> Tasks:
    """Read the files of all ``Tasks``; ``split`` and ``corpus_optional`` go to ``load_beir``.

    Raises InputError for an unusable file, ConfigurationError for another wrong argument, such as an unknown measure,
    and MissingExtraError for a package that is not installed.
    """
    wanted = as_list(measures, "measures", "measures")
    for_questions = as_list(question_measures, "question_measures", "measures")
    for names in (wanted, for_questions):
        deepest(names)  # raises for an unknown measure
    tasks = Tasks(
        sts=_named(sts, "sts", load_sts),
        ir=_named(ir, "ir", lambda path: load_beir(path, split, corpus_optional=corpus_optional)),
        questions=_named(questions, "questions", load_questions),
        nli=_named(nli, "nli", load_nli),
        nli_train=_single(nli_train, "nli_train", load_nli),
        pairs=_named(pairs, "pairs", load_labelled_pairs),
        triplets=_named(triplets, "triplets", load_triplets),
        winogender=_single(winogender, "winogender", bias.load_winogender),
        winobias=_single(winobias, "winobias", bias.load_winobias),
        measures=tuple(dict.fromkeys(wanted)),
        question_measures=tuple(dict.fromkeys(for_questions)),
        rerank=rerank,
        candidates=candidates,
    )
    import_scipy_stats()
    if tasks.ir or tasks.questions:
        import_ir_measures()
    if tasks.pairs:
        import_sklearn_metrics()
    return tasks


@dataclass(frozen=True)
class SystemResults:
    """All results of one system."""

    system: str
    sts: dict[str, StsResult] = field(default_factory=dict)
    ir: dict[str, IrResult] = field(default_factory=dict)
    reranked: dict[str, Reranked] = field(default_factory=dict)
    questions: dict[str, IrResult] = field(default_factory=dict)
    nli: dict[str, NliResult] = field(default_factory=dict)
    pairs: dict[str, dict[str, Any]] = field(default_factory=dict)
    triplets: dict[str, dict[str, Any]] = field(default_factory=dict)
    winogender: bias.WinogenderResult | None = None
    winobias: dict[str, bias.WinobiasResult] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return section -> data -> measure -> figure; "mean" has the means of each section with several sets."""
        sections: dict[str, dict[str, dict[str, Any]]] = {
            "sts": {name: with_interval(r.figures, r.interval) for name, r in self.sts.items()},
            "ir": {name: result.as_json() for name, result in self.ir.items()},
            "reranked": {name: result.as_json() for name, result in self.reranked.items()},
            "questions": {name: result.as_json() for name, result in self.questions.items()},
            "nli": {name: with_interval(r.figures, r.interval) for name, r in self.nli.items()},
            "pairs": self.pairs,
            "triplets": self.triplets,
        }
        sections["bias"] = {f"winobias/{kind}": result.figures for kind, result in self.winobias.items()}
        if self.winogender is not None:
            sections["bias"]["winogender"] = self.winogender.figures
        means = {
            section: _means(list(results.values()))
            for section, results in sections.items()
            if len(results) > 1 and section != "bias"
        }
        filled = {section: results for section, results in sections.items() if results}
        return {"model": self.system, **filled, **({"mean": means} if means else {})}


def _means(results: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return the means of the measures that all results have; for example, a set with one judged query has no gain."""
    return {
        measure: float(np.mean([figures[measure] for figures in results]))
        for measure, value in results[0].items()
        if isinstance(value, float) and measure != "p_value" and all(measure in figures for figures in results)
    }


def evaluate(
    system: str,
    tasks: Tasks,
    *,
    precision: Precision = "auto",
    dim: int | None = None,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> SystemResults:
    """Measure a system on all tasks; errors are those of ``prepare``, and ModelError if the model does not load."""
    return prepare(system, tasks, precision=precision, dim=dim, resamples=resamples, progress=progress)()


def has_vectors(system: str) -> bool:
    """Return whether a system is a model, which has vectors, rather than BM25 or a run."""
    return system != BM25 and not system.startswith(RUN)


def computes(system: str) -> bool:
    """Return whether a system is a model that computes in a chosen precision, rather than BM25, a run or a baseline."""
    return has_vectors(system) and not is_baseline(system)


def prepare(
    system: str,
    tasks: Tasks,
    *,
    precision: Precision = "auto",
    dim: int | None = None,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> Callable[[], SystemResults]:
    """Check a system without loading its model; return the function that measures it on all tasks.

    A comparison prepares all systems before it measures the first. A model computes in ``precision``. With ``dim``, its
    vectors are truncated to this many dimensions, which its name in the results tells; a baseline keeps its own. The
    model's own inference head needs all dimensions, so with ``dim`` inference is cross-validated.

    Raises:
        ConfigurationError: an argument is of a wrong type, the system cannot do the tasks, its hits cannot be reranked,
            or its vectors have fewer than ``dim`` dimensions.
        InputError: ``tasks`` are no tasks, or the file of a run or of word vectors cannot be used.
        ModelError: the model does not exist or is damaged.
    """
    string(system, "system")
    check_data(tasks, Tasks, "tasks", "a Tasks(...), as load_tasks returns it")
    check_choice(precision, Precision, "precision")
    dim = None if dim is None else integer(dim, "dim")
    check_resamples(resamples)
    if not (tasks.needs_vectors or tasks.ir or tasks.questions):
        raise ConfigurationError("nothing to evaluate on: give at least one file or folder, such as --sts FILE.tsv")
    options: dict[str, Any] = {"resamples": resamples, "progress": progress}
    if has_vectors(system):
        check_model(system, dim)
        reranker = _find_reranker(tasks, system) if is_baseline(system) else None  # maxsim needs a loaded encoder
        loading = {"precision": precision, "dim": None if is_baseline(system) else dim}
        return partial(_evaluate_model, system, tasks, reranker, options, loading)
    if system == BM25:
        if not (tasks.ir or tasks.questions):
            raise ConfigurationError(
                "bm25 compares words and has no vectors: it can be measured on retrieval only (--ir, --questions)"
            )
        return partial(_evaluate_words, tasks, _find_reranker(tasks, system), options)
    run = _read_run(system, tasks)
    return partial(_evaluate_run, system, run, tasks, _find_reranker(tasks, system), options)


def _evaluate_model(
    system: str, tasks: Tasks, reranker: Reranker | None, options: dict[str, Any], loading: dict[str, Any]
) -> SystemResults:
    model, dim = load_model(system, **loading), loading["dim"]
    head = _trained_head(model) if tasks.nli and tasks.nli_train is None and dim is None else None
    for data in tasks.nli.values():
        check_nli(model, data, train=tasks.nli_train, head=head)
    reranker = reranker or _find_reranker(tasks, model)
    resamples, progress = options["resamples"], options["progress"]

    def each(measure: Callable[..., Any], sets: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        return {name: measure(model, data, **options, **more) for name, data in sets.items()}

    ir = each(evaluate_ir, tasks.ir, measures=tasks.measures, depth=tasks.depth)
    return SystemResults(
        system if dim is None else f"{system} ({dim} dimensions)",
        sts=each(evaluate_sts, tasks.sts),
        ir=ir,
        reranked=_reranked(ir, tasks, reranker, options),
        questions=each(evaluate_ir, tasks.questions, measures=tasks.question_measures),
        nli=each(evaluate_nli, tasks.nli, train=tasks.nli_train, head=head),
        pairs=each(evaluate_pairs, tasks.pairs),
        triplets={name: evaluate_triplets(model, data, progress=progress) for name, data in tasks.triplets.items()},
        winogender=bias.evaluate_winogender(model, tasks.winogender, resamples=resamples) if tasks.winogender else None,
        winobias=bias.evaluate_winobias(model, tasks.winobias, resamples=resamples) if tasks.winobias else {},
    )


def _find_reranker(tasks: Tasks, model: Any) -> Reranker | None:
    return find_reranker(tasks.rerank, model) if tasks.rerank is not None and tasks.ir else None


def _reranked(
    ir: dict[str, IrResult], tasks: Tasks, reranker: Reranker | None, options: dict[str, Any]
) -> dict[str, Reranked]:
    if reranker is None:
        return {}
    return {
        name: rerank_result(result, reranker, candidates=tasks.candidates, **options) for name, result in ir.items()
    }


def _trained_head(model: TextModel) -> Any:
    if isinstance(model, Encoder) and ((folder := find_model(model.name).path) / "softmax_head.json").is_file():
        from twinvec.training.run.softmax_head import PairClassifier

        return PairClassifier(model, folder)
    return None


def _evaluate_words(tasks: Tasks, reranker: Reranker | None, options: dict[str, Any]) -> SystemResults:
    def searched(data: BeirSet, measures: tuple[str, ...]) -> IrResult:
        index = bm25_index(data.documents)
        more = {"depth": tasks.depth, "resamples": options["resamples"]}
        return evaluate_retriever(index, data, measures=measures, mode="sparse", **more)

    ir = {name: searched(data, tasks.measures) for name, data in tasks.ir.items()}
    return SystemResults(
        BM25,
        ir=ir,
        reranked=_reranked(ir, tasks, reranker, options),
        questions={name: searched(data, tasks.question_measures) for name, data in tasks.questions.items()},
    )


def _read_run(system: str, tasks: Tasks) -> dict[str, dict[str, float]]:
    """Return the hits of a run for the judged queries."""
    if len(tasks.ir) != 1:
        raise ConfigurationError(f"{system}: a run belongs to one retrieval set; give --ir exactly once")
    ((name, data),) = tasks.ir.items()
    found = read_run(system.removeprefix(RUN))
    run = {query: hits for query, hits in found.items() if query in data.qrels}
    if not run:
        raise InputError(
            f"{system}: no query of the run, such as {next(iter(found))!r}, is judged in this split of {name}; give "
            "the set that was searched, and its --split"
        )
    known = {document.id for document in data.documents}
    unknown = next((each for hits in run.values() for each in hits if each not in known), None)
    if unknown is not None:
        raise InputError(f"{system}: the document {unknown!r} is not a document of {name}")
    return run


def _evaluate_run(
    system: str, run: dict[str, dict[str, float]], tasks: Tasks, reranker: Reranker | None, options: dict[str, Any]
) -> SystemResults:
    ((name, data),) = tasks.ir.items()
    result = measure_ir(run, data, measures=tasks.measures, depth=tasks.depth, resamples=options["resamples"])
    return SystemResults(system, ir={name: result}, reranked=_reranked({name: result}, tasks, reranker, options))


def _single(path: Path | None, argument: str, load: Callable[[Path], Any]) -> Any:
    """Load the data of a path; return None for None."""
    return None if path is None else load(file_path(path, argument))


def _named(paths: Iterable[Path], argument: str, load: Callable[[Path], Any]) -> dict[str, Any]:
    """Load the data of each path; the key is the name of the data, or the path if the name is taken."""
    given = as_list(paths, argument, "paths")
    files = [file_path(path, f"{argument}[{row}]") for row, path in enumerate(given)]
    found: dict[str, Any] = {}
    for path, file in zip(given, files, strict=True):
        data = load(file)
        name = data.name if data.name not in found else str(path)
        found[name] = replace(data, name=name)
    return found
