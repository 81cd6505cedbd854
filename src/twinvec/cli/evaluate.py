"""The commands ``evaluate``, ``compare`` and ``tune``: options in, tables or JSON out.

Everything heavy is imported inside a command, so that ``twinvec --help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinvec.cli import similar as similarity_commands
from twinvec.cli.options import SYSTEM_HELP, AsJson, Place, Split, TaskOptions, Url, takes_tasks
from twinvec.cli.terminal import fits, show, show_json, table

if TYPE_CHECKING:
    from rich.table import Table

    from twinvec.evaluation.ir import IrResult
    from twinvec.evaluation.report.figure_tables import FigureTable
    from twinvec.evaluation.serving import Kept
    from twinvec.evaluation.suite import Tasks
    from twinvec.evaluation.tuning.search_settings import Tuning
    from twinvec.retrieval.base import Mode

_SETTINGS_SHOWN = 10


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    app.command("evaluate")(evaluate_command)
    app.command("compare")(compare_command)
    app.command("tune")(tune_command)
    similarity_commands.register(app)


@takes_tasks
def evaluate_command(
    tasks: TaskOptions,
    model: Annotated[str | None, typer.Argument(metavar="MODEL", help=SYSTEM_HELP)] = None,
    runs: Annotated[Path | None, typer.Option(help="Write the hits of each retrieval set here, as TREC runs.")] = None,
    forms: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.png",
            help="Also measure vectors kept in fewer bytes, and draw quality against memory. The index of a collection "
            "is built anew for each form, and at the end as it was.",
        ),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ask this collection, which holds the documents of each --ir.")
    ] = None,
    path: Place = None,
    url: Url = None,
    mode: Annotated[
        Literal["hybrid", "dense", "sparse"] | None,
        typer.Option(help="How to search the collection; as tune has chosen for it, or hybrid, unless given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Measure a model, or a collection as it answers: figures x 100, with 95% intervals.

    \b
    twinvec evaluate default --sts stsb/test.tsv --sts sick/ --ir scifact/
    twinvec evaluate --collection articles --ir articles-judged/
    """
    from twinvec.evaluation.measures import write_run
    from twinvec.evaluation.suite import evaluate

    if model is None and collection is None:
        raise typer.BadParameter("give a MODEL, or a --collection")
    if forms is not None and not tasks.ir:
        raise typer.BadParameter("--forms measures retrieval: give --ir")
    data = tasks.load()
    if forms is not None:
        from twinvec.evaluation.report.plots import import_matplotlib

        import_matplotlib()
    if collection is not None:
        figures, found = _evaluate_collection(collection, path, url, model, mode, data, forms)
    else:
        result = evaluate(str(model), data, progress=True)
        figures, found = result.as_json(), {**result.ir, **result.questions}
        if forms is not None:
            figures["forms"] = _evaluate_forms(str(model), data, forms)
    if runs is not None:
        for name, each in found.items():
            write_run(each.run, runs / f"{name.replace('/', '-')}.trec")
    if as_json:
        show_json(figures)
    else:
        _show(figures)


@takes_tasks
def compare_command(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Two or more, as for evaluate.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for report.md, report.html and the plots.")],
    tasks: TaskOptions,
    as_json: AsJson = False,
) -> None:
    """Compare models on the same data: tables, paired tests, plots, and where they differ most.

    \b
    twinvec compare default ./my-model bm25 -o report --ir scifact/
    """
    from twinvec.evaluation.report.comparison import compare, write_report

    comparison = compare(models, tasks.load(), progress=True)
    written = write_report(comparison, output)
    if as_json:
        show_json({**comparison.as_json(), "files": [str(path) for path in written]})
    else:
        typer.echo("\n".join(str(path) for path in written))


def tune_command(
    collection: Annotated[str, typer.Option(metavar="NAME", help="The collection.")],
    path: Place = None,
    url: Url = None,
    ir: Annotated[
        Path | None, typer.Option(help="Judged queries in the BEIR layout; passages of the documents unless given.")
    ] = None,
    split: Split = "test",
    measure: Annotated[str, typer.Option(help="What to choose by: ndcg@k, mrr@k, map@k, recall@k.")] = "ndcg@10",
    as_json: AsJson = False,
) -> None:
    """Choose how a collection is searched, and keep the choice with it.

    Compares searching by vectors, by words, and by both with several weights, each alone and with MaxSim behind it, on
    queries whose answers are known: judged ones (--ir), or else passages cut out of the collection's own documents.
    What the choice gains is told by cross-validation: on queries that had no say in it.

    \b
    twinvec tune --collection articles --ir articles-judged/
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.measures import import_ir_measures
    from twinvec.evaluation.tuning.search_settings import tune, tune_by_documents
    from twinvec.retrieval.open_collection import open_collection
    from twinvec.retrieval.tuned_search import save

    import_ir_measures()
    data = load_beir(ir, split) if ir is not None else None
    with open_collection(collection, path, url=url) as opened:
        if data is None:
            found = tune_by_documents(opened, measure=measure, progress=True)
        else:
            encoder = opened.encoder if isinstance(opened.encoder, Encoder) else None
            found = tune(opened, data, encoder=encoder, measure=measure, progress=True)
        save(opened, found.setting, measure)
    if as_json:
        show_json({"collection": collection, **found.as_json()})
    else:
        _show_tuning(collection, found)


def _show_tuning(collection: str, found: Tuning) -> None:
    from twinvec.evaluation.tuning.search_settings import PLAIN

    title = f"{collection}: the best of {len(found.figures)} ways to search it"
    lines = table(title, "way", found.measure, numbers=(found.measure,))
    ranked = sorted(found.figures, key=lambda each: -found.figures[each])
    plain = [each for each in ranked if not each.mix and each.words == 1]
    for setting in dict.fromkeys([*ranked[:_SETTINGS_SHOWN], found.setting, *plain]):
        name = f"{setting} (chosen)" if setting == found.setting else str(setting)
        lines.add_row(name, f"{found.figures[setting]:.2f}")
    queries = f"{found.queries:,} judged queries"
    if found.pseudo:
        queries = (
            f"{found.queries:,} passages, each cut out of a document of the collection, whose rest had to be found; "
            "people ask otherwise, so give judged queries (--ir) where there are some"
        )
    reason = "nothing beats it" if found.setting == PLAIN else f"it beats {PLAIN}"
    gain = found.gain
    show(
        lines,
        f"measured on {queries}",
        f"chosen: {found.setting}; query by query {reason} beyond chance",
        f"gain over {found.single}, the best single stage: {gain.difference:+.2f} ({gain.interval.low:+.2f} to "
        f"{gain.interval.high:+.2f}, p {gain.p_value:.2f}), on queries that had no say in the choice",
        f"kept with the collection: twinvec search --collection {collection} goes by it",
    )


def _evaluate_collection(
    name: str, path: Path | None, url: str | None, model: str | None, mode: Mode | None, tasks: Tasks, plot: Path | None
) -> tuple[dict[str, Any], dict[str, IrResult]]:
    """Figures as JSON has them, and the results of each set."""
    from twinvec.encoder import Encoder
    from twinvec.evaluation.reranking import find_reranker
    from twinvec.evaluation.serving import evaluate_collection, evaluate_indexes, evaluate_reranked
    from twinvec.retrieval.open_collection import open_collection
    from twinvec.retrieval.tuned_search import Setting, TunedSearch

    if not tasks.ir or tasks.needs_vectors or tasks.questions:
        raise typer.BadParameter("a collection is measured on retrieval sets, and on nothing else: give --ir")
    with open_collection(name, path, url=url, encoder=None if model is None else Encoder(model)) as opened:
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
            each: evaluate_collection(opened, data, measures=tasks.measures, **options)
            for each, data in tasks.ir.items()
        }
        figures["ir"] = {each: result.as_json() for each, result in found.items()}
        if reranker is not None:
            figures["reranked"] = {
                each: evaluate_reranked(opened, reranker, before, candidates=candidates, **options).as_json()
                for each, before in found.items()
            }
        if plot is not None:
            kept = {
                each: evaluate_indexes(opened, data, measures=tasks.measures, **options)
                for each, data in tasks.ir.items()
            }
            figures["forms"] = _drawn(kept, plot)
    return figures, found


def _evaluate_forms(model: str, tasks: Tasks, plot: Path) -> dict[str, Any]:
    from twinvec.evaluation.models.baselines import load_model
    from twinvec.evaluation.serving import evaluate_forms

    loaded = load_model(model)
    found = {
        name: evaluate_forms(loaded, data, measures=tasks.measures, progress=True) for name, data in tasks.ir.items()
    }
    return _drawn(found, plot)


def _drawn(found: Mapping[str, Sequence[Kept]], plot: Path) -> dict[str, dict[str, Any]]:
    """The figures of all forms, as JSON has them, after they have been drawn."""
    from twinvec.evaluation.report.plots import costs

    costs(found, plot)
    return {name: {each.form: each.figures for each in kept} for name, kept in found.items()}


def _show(figures: Mapping[str, Any]) -> None:
    from twinvec.evaluation.report.figure_tables import figure_tables, form_tables

    system = f"{figures['collection']}, {figures['setting']}" if "collection" in figures else figures["model"]
    for each in (*figure_tables([figures]), *form_tables(figures)):
        lying = _laid_out(each, system)
        show(lying if fits(lying) else _laid_out(each.turned(), system))


def _laid_out(figures: FigureTable, system: str) -> Table:
    columns = [column.replace(" ", "\n") for column in figures.columns]  # many figures, few columns of a terminal
    lines = table(f"{figures.title}: {system}", *columns, numbers=tuple(columns[1:]))
    lines.columns[0].no_wrap = True
    for row in figures.rows:
        lines.add_row(*row)
    return lines
