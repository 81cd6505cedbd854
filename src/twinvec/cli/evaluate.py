"""The commands ``twinvec evaluate`` and ``twinvec compare``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinvec.cli.options import (
    SYSTEM_HELP,
    WAIT_SECONDS,
    AsJson,
    Dim,
    GrpcPort,
    PrecisionOption,
    SearchTaskOptions,
    StorePath,
    StoreUrl,
    TaskOptions,
    Wait,
    collection_option,
    is_flag,
    open_collection,
    takes_tasks,
)
from twinvec.cli.terminal import fits, show, show_json, table

if TYPE_CHECKING:
    from rich.table import Table

    from twinvec.evaluation.ir import IrResult
    from twinvec.evaluation.models.text_model import TextModel
    from twinvec.evaluation.report.figure_tables import FigureTable
    from twinvec.evaluation.serving import StorageVariant
    from twinvec.evaluation.suite import Tasks
    from twinvec.retrieval.base import Mode


@takes_tasks
def evaluate_command(
    ctx: typer.Context,
    tasks: SearchTaskOptions,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=SYSTEM_HELP)] = None,
    runs: Annotated[
        Path | None, typer.Option(help="Folder for the hits of each retrieval set, as TREC runs: SET.MODEL.trec.")
    ] = None,
    forms: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Also measure smaller forms of storage, and plot quality against memory. The index of a collection "
            "is rebuilt for each form, and restored at the end.",
        ),
    ] = None,
    collection: Annotated[
        str | None, collection_option(help="Measure this collection, which holds the documents of --ir.")
    ] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    grpc_port: GrpcPort = None,
    mode: Annotated[
        Literal["hybrid", "dense", "sparse"] | None,
        typer.Option(
            envvar="TWINVEC_MODE",
            help="Search mode of the collection. Default: without --rerank, the setting that twinvec tune chose; else "
            "hybrid.",
            show_default=False,
        ),
    ] = None,
    dim: Dim = None,
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Measure a model or a collection. Figures are x 100, with 95% intervals.

    \b
    twinvec evaluate default --sts stsb/test.tsv --sts sick/ --ir scifact/
    twinvec evaluate ./my-model --dim 64 --ir scifact/
    twinvec evaluate --collection articles --ir articles-judged/
    """
    from twinvec.evaluation.measures import check_run_ids, run_tag, write_run
    from twinvec.evaluation.models.baselines import load_model
    from twinvec.evaluation.suite import computes, evaluate

    if model is None and collection is None:
        raise typer.BadParameter("give MODEL or --collection")
    if forms is not None and not tasks.ir:
        raise typer.BadParameter("--forms measures retrieval: give --ir")
    if collection is None and is_flag(ctx, "precision") and not computes(str(model)):
        raise typer.BadParameter(f"--precision is for models and collections: it has no effect on {model}")
    if dim is not None and (model is None or not computes(model)):
        raise typer.BadParameter(f"--dim is for models: it has no effect on {model or 'a collection without MODEL'}")
    if collection is None and not is_flag(ctx, "rerank"):
        tasks = replace(tasks, rerank=None)
    data = tasks.load(corpus_optional=collection is not None)
    _check_outputs(model if collection is None else None, data, runs, forms)
    if collection is not None:
        mode = "hybrid" if mode is None and tasks.rerank == "none" else mode  # as "twinvec search --rerank none"
        if not data.ir or data.needs_vectors or data.questions:
            raise typer.BadParameter("--collection is measured on retrieval sets only: give --ir")
        with open_collection(
            collection, path, url=url, model=model, dim=dim, precision=precision, wait=wait, grpc_port=grpc_port
        ) as opened:
            if runs is not None and not all(each.documents for each in data.ir.values()):
                check_run_ids(opened.find())
            figures, found, system = _evaluate_collection(opened, collection, mode, data, forms)
    else:
        result = evaluate(str(model), data, precision=precision, dim=dim, progress=True)
        figures, found, system = result.as_json(), {**result.ir, **result.questions}, (result.system,)
        if forms is not None:
            figures["forms"] = _evaluate_forms(load_model(str(model), precision, dim), data, forms)
    if as_json:
        show_json(figures)
    else:
        _show(figures)
    if runs is not None:
        tag = run_tag(*system)
        for name, each in found.items():
            write_run(each.run, runs / f"{name.replace('/', '--')}.{tag}.trec", tag)


@takes_tasks
def compare_command(
    ctx: typer.Context,
    models: Annotated[list[str], typer.Argument(metavar="MODEL", help="Two or more models, as for evaluate.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for report.md, report.html and the plots.")],
    tasks: TaskOptions,
    dim: Dim = None,
    precision: PrecisionOption = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare models on the same data: tables, paired tests, plots, largest differences.

    \b
    twinvec compare default ./my-model bm25 -o report --ir scifact/
    """
    from twinvec.evaluation.report.comparison import compare, write_report
    from twinvec.evaluation.suite import computes
    from twinvec.support.checks import check_output_folder

    for option, given in (("--precision", is_flag(ctx, "precision")), ("--dim", dim is not None)):
        if given and not any(map(computes, models)):
            raise typer.BadParameter(f"{option} is for models: it has no effect on {' and '.join(models)}")
    data = tasks.load()
    check_output_folder(output)
    comparison = compare(models, data, precision=precision, dim=dim, progress=True)
    written = write_report(comparison, output)
    if as_json:
        show_json({**comparison.as_json(), "files": [str(path) for path in written]})
    else:
        typer.echo("\n".join(str(path) for path in written))


def _check_outputs(model: str | None, tasks: Tasks, runs: Path | None, plot: Path | None) -> None:
    """Check the options that would otherwise fail only after all measurements."""
    from twinvec.evaluation.measures import check_run_ids
    from twinvec.evaluation.report.plots import import_matplotlib
    from twinvec.evaluation.suite import has_vectors
    from twinvec.support.checks import check_output_file, check_output_folder

    if plot is not None:
        if model is not None and not has_vectors(model):
            raise typer.BadParameter(f"--forms measures forms of vectors, and {model} has no vectors")
        import_matplotlib()
        check_output_file(plot)
    if runs is not None:
        for data in (*tasks.ir.values(), *tasks.questions.values()):
            check_run_ids([*data.queries, *(document.id for document in data.documents)])
        check_output_folder(runs)


def _evaluate_collection(
    opened: Any, name: str, mode: Mode | None, tasks: Tasks, plot: Path | None
) -> tuple[dict[str, Any], dict[str, IrResult], tuple[str, ...]]:
    """Return the figures, the results of the first stage, and the parts of its run files' names."""
    from twinvec.evaluation.ir import check_answers_held
    from twinvec.evaluation.reranking import find_reranker
    from twinvec.evaluation.serving import evaluate_collection, evaluate_indexes, evaluate_reranked
    from twinvec.retrieval.tuned_search import Setting, TunedSearch

    for each in tasks.ir.values():
        check_answers_held(opened, each)
    setting, reranker, candidates = Setting(mode or "hybrid"), None, tasks.candidates
    if tasks.rerank is not None:
        reranker = opened.maxsim() if tasks.rerank == "maxsim" else find_reranker(tasks.rerank, opened.encoder)
    elif mode is None:
        tuned = TunedSearch(opened)
        setting, reranker, candidates = tuned.setting, tuned.reranker, tuned.setting.candidates
    figures: dict[str, Any] = {"model": opened.info()["model"], "collection": name, "mode": setting.mode}
    figures["setting"] = str(setting)
    options: dict[str, Any] = {**setting.first_stage, "progress": True}
    found = {
        each: evaluate_collection(opened, data, measures=tasks.measures, **options) for each, data in tasks.ir.items()
    }
    figures["ir"] = {each: result.as_json() for each, result in found.items()}
    if reranker is not None:
        figures["reranked"] = {
            each: evaluate_reranked(opened, reranker, before, candidates=candidates, **options).as_json()
            for each, before in found.items()
        }
    if plot is not None:
        kept = {
            each: evaluate_indexes(opened, data, measures=tasks.measures, **options) for each, data in tasks.ir.items()
        }
        figures["forms"] = _plotted(kept, plot)
    first_stage = Setting(setting.mode, setting.words, feedback=setting.feedback)
    return figures, found, (name, figures["model"], "-".join(str(first_stage).replace(",", "").split()))


def _evaluate_forms(model: TextModel, tasks: Tasks, plot: Path) -> dict[str, Any]:
    from twinvec.evaluation.serving import evaluate_forms

    found = {
        name: evaluate_forms(model, data, measures=tasks.measures, progress=True) for name, data in tasks.ir.items()
    }
    return _plotted(found, plot)


def _plotted(found: Mapping[str, Sequence[StorageVariant]], plot: Path) -> dict[str, dict[str, Any]]:
    from twinvec.evaluation.report.plots import costs

    costs(found, plot)
    return {name: {each.form: each.figures for each in kept} for name, kept in found.items()}


def _show(figures: Mapping[str, Any]) -> None:
    from twinvec.evaluation.report.figure_tables import RERANKED, figure_tables, form_tables

    setting = figures.get("setting", "")
    first_stage = setting.partition(", maxsim ")[0]  # the setting without its reranker
    for each in (*figure_tables([figures]), *form_tables(figures)):
        how = setting if each.title == RERANKED else first_stage
        subject = f"{figures['collection']}, {how}" if "collection" in figures else figures["model"]
        rows = _figure_table(each, subject)
        show(rows if fits(rows) else _figure_table(each.turned(), subject))


def _figure_table(figures: FigureTable, subject: str) -> Table:
    columns = [column.replace(" ", "\n") for column in figures.columns]  # so that many columns fit into a terminal
    lines = table(f"{figures.title}: {subject}", *columns, numbers=tuple(columns[1:]))
    lines.columns[0].no_wrap = True
    for row in figures.rows:
        lines.add_row(*row)
    return lines
