"""The commands ``evaluate``, ``compare`` and ``tune``: options in, tables or JSON out.

Everything heavy is imported inside a command, so that ``twinvec --help`` stays quick.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from twinvec.evaluation import similarity_commands
from twinvec.terminal import show, show_json, table

if TYPE_CHECKING:
    from twinvec.evaluation.ir import IrResult
    from twinvec.evaluation.suite import Tasks
    from twinvec.retrieval import Mode

_Files = list[Path]
_SYSTEM = "default, a folder, org/name, or a baseline: glove:FILE, mean:MODEL, cls:MODEL, bm25."
Sts = Annotated[
    _Files | None, typer.Option(help="Scored pairs: score, sentence1, sentence2; a folder counts as one set.")
]
Ir = Annotated[_Files | None, typer.Option(help="A retrieval set in the BEIR layout.")]
Split = Annotated[str, typer.Option(help="Which judgements of the retrieval sets: qrels/SPLIT.tsv.")]
Questions = Annotated[_Files | None, typer.Option(help="Questions and answers: anchor, positive (.jsonl or .tsv).")]
Nli = Annotated[_Files | None, typer.Option(help="Inference: label, premise, hypothesis.")]
NliTrain = Annotated[
    Path | None,
    typer.Option(help="Where the head for inference is fitted; else the model's own head, or 5-fold on each file."),
]
Pairs = Annotated[_Files | None, typer.Option(help="Labelled pairs: label (0 or 1), sentence1, sentence2.")]
Triplets = Annotated[_Files | None, typer.Option(help="Triplets: anchor, positive, negative (.jsonl or .tsv).")]
Winogender = Annotated[Path | None, typer.Option(help="Gender bias: the folder of Winogender.")]
Winobias = Annotated[Path | None, typer.Option(help="Gender bias: the folder of WinoBias.")]
Measures = Annotated[
    str, typer.Option(help="Ranking measures, parted by commas: ndcg@k, mrr@k, map@k, recall@k, precision@k.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
_SETTINGS_SHOWN = 10
_MEASURES = "ndcg@10,mrr@10,map@100,recall@10,recall@100,precision@10"


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    app.command("evaluate")(evaluate_command)
    app.command("compare")(compare_command)
    app.command("tune")(tune_command)
    similarity_commands.register(app)


def evaluate_command(
    model: Annotated[str | None, typer.Argument(metavar="[MODEL]", help=_SYSTEM)] = None,
    sts: Sts = None,
    ir: Ir = None,
    split: Split = "test",
    questions: Questions = None,
    nli: Nli = None,
    nli_train: NliTrain = None,
    pairs: Pairs = None,
    triplets: Triplets = None,
    winogender: Winogender = None,
    winobias: Winobias = None,
    measures: Measures = _MEASURES,
    runs: Annotated[Path | None, typer.Option(help="Write the hits of each retrieval set here, as TREC runs.")] = None,
    forms: Annotated[
        Path | None,
        typer.Option(metavar="FILE.png", help="Also measure vectors kept in fewer bytes; draw quality against cost."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Ask this collection, which holds the documents of each --ir.")
    ] = None,
    path: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the collection's store.")] = None,
    url: Annotated[str | None, typer.Option(help="Server of the collection, in place of a folder.")] = None,
    mode: Annotated[
        Literal["hybrid", "dense", "sparse"], typer.Option(help="How to search the collection.")
    ] = "hybrid",
    as_json: AsJson = False,
) -> None:
    """Measure a model, or a collection as it answers: figures x 100, with 95% intervals.

    \b
    twinvec evaluate default --sts stsb/test.tsv --sts sick/ --ir scifact/
    twinvec evaluate --collection articles --ir articles-judged/
    """
    from twinvec.evaluation.measures import write_run
    from twinvec.evaluation.suite import evaluate

    tasks = _tasks(sts, ir, split, questions, nli, nli_train, pairs, triplets, winogender, winobias, measures)
    if collection is not None:
        figures, found = _evaluate_collection(collection, path, url, model, mode, tasks)
    elif model is not None:
        result = evaluate(model, tasks, progress=True)
        figures, found = result.as_json(), {**result.ir, **result.questions}
        if forms is not None:
            figures["forms"] = _evaluate_forms(model, tasks, forms)
    else:
        raise typer.BadParameter("give a MODEL, or a --collection")
    if runs is not None:
        for name, each in found.items():
            write_run(each.run, runs / f"{name.replace('/', '-')}.trec")
    if as_json:
        show_json(figures)
    else:
        _show(figures)


def compare_command(
    models: Annotated[list[str], typer.Argument(metavar="MODEL...", help="Two or more, as for evaluate.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder for report.md, report.html and the plots.")],
    sts: Sts = None,
    ir: Ir = None,
    split: Split = "test",
    questions: Questions = None,
    nli: Nli = None,
    nli_train: NliTrain = None,
    pairs: Pairs = None,
    triplets: Triplets = None,
    winogender: Winogender = None,
    winobias: Winobias = None,
    measures: Measures = _MEASURES,
    as_json: AsJson = False,
) -> None:
    """Compare models on the same data: tables, paired tests, plots, and where they differ most.

    \b
    twinvec compare default ./my-model bm25 -o report --ir scifact/
    """
    from twinvec.evaluation.report import compare, write_report

    tasks = _tasks(sts, ir, split, questions, nli, nli_train, pairs, triplets, winogender, winobias, measures)
    comparison = compare(models, tasks, progress=True)
    written = write_report(comparison, output)
    if as_json:
        show_json({**comparison.as_json(), "files": [str(path) for path in written]})
    else:
        typer.echo("\n".join(str(path) for path in written))


def tune_command(
    collection: Annotated[str, typer.Option(metavar="NAME", help="The collection.")],
    path: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of its store.")] = None,
    url: Annotated[str | None, typer.Option(help="Its server, in place of a folder.")] = None,
    ir: Annotated[
        Path | None, typer.Option(help="Judged queries in the BEIR layout; passages of the documents unless given.")
    ] = None,
    split: Split = "test",
    measure: Annotated[str, typer.Option(help="What to choose by: ndcg@k, mrr@k, map@k, recall@k.")] = "ndcg@10",
    as_json: AsJson = False,
) -> None:
    """Choose how a collection is searched, and keep the choice with it.

    Modes and MaxSim reranking are compared on judged queries, or on passages taken out of the collection's documents.
    What the choice is worth is told by cross-validation.

    \b
    twinvec tune --collection articles --ir articles-judged/
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.beir import load_beir
    from twinvec.evaluation.tuning import save, tune, tune_by_documents
    from twinvec.stored import open_collection

    data = load_beir(ir, split) if ir is not None else None
    with open_collection(collection, path, url=url) as opened:
        if data is None:
            found = tune_by_documents(opened, measure=measure)
        else:
            encoder = opened.encoder if isinstance(opened.encoder, Encoder) else None
            found = tune(opened, data, encoder=encoder, measure=measure)
        save(opened, found)
    if as_json:
        show_json({"collection": collection, **found.as_json()})
        return
    lines = table(f"{collection}, {found.queries:,} queries", "setting", measure, numbers=(measure,))
    for setting, figure in sorted(found.figures.items(), key=lambda each: -each[1])[:_SETTINGS_SHOWN]:
        lines.add_row(str(setting), f"{figure:.2f}")
    gain = found.gain
    show(
        lines,
        f"chosen: {found.setting}; expected {found.expected:.2f}, {gain.difference:+.2f} over {found.single} "
        f"({gain.interval.low:+.2f} to {gain.interval.high:+.2f}, p {gain.p_value:.2f})",
    )


def _tasks(
    sts: _Files | None,
    ir: _Files | None,
    split: str,
    questions: _Files | None,
    nli: _Files | None,
    nli_train: Path | None,
    pairs: _Files | None,
    triplets: _Files | None,
    winogender: Path | None,
    winobias: Path | None,
    measures: str,
) -> Tasks:
    from twinvec.evaluation.suite import load_tasks

    return load_tasks(
        sts=sts or (),
        ir=ir or (),
        split=split,
        questions=questions or (),
        nli=nli or (),
        nli_train=nli_train,
        pairs=pairs or (),
        triplets=triplets or (),
        winogender=winogender,
        winobias=winobias,
        measures=[name.strip().lower() for name in measures.split(",") if name.strip()],
    )


def _evaluate_collection(
    name: str, path: Path | None, url: str | None, model: str | None, mode: Mode, tasks: Tasks
) -> tuple[dict[str, Any], dict[str, IrResult]]:
    """Figures as JSON has them, and the results of each set."""
    from twinvec.encoder import Encoder
    from twinvec.evaluation.serving import evaluate_collection
    from twinvec.evaluation.suite import with_interval
    from twinvec.stored import open_collection

    if not tasks.ir or tasks.needs_vectors or tasks.questions:
        raise typer.BadParameter("a collection is measured on retrieval sets, and on nothing else: give --ir")
    with open_collection(name, path, url=url, encoder=None if model is None else Encoder(model)) as opened:
        found = {
            each: evaluate_collection(opened, data, mode=mode, measures=tasks.measures, progress=True)
            for each, data in tasks.ir.items()
        }
        served = {"model": opened.info()["model"], "collection": name, "mode": mode}
    return {**served, "ir": {each: with_interval(result) for each, result in found.items()}}, found


def _evaluate_forms(model: str, tasks: Tasks, plot: Path) -> dict[str, Any]:
    from twinvec.evaluation.baselines import load_model
    from twinvec.evaluation.plots import costs
    from twinvec.evaluation.serving import evaluate_forms

    if not tasks.ir:
        raise typer.BadParameter("--forms measures retrieval: give --ir")
    loaded = load_model(model)
    found = {
        name: evaluate_forms(loaded, data, measures=tasks.measures, progress=True) for name, data in tasks.ir.items()
    }
    costs(found, plot)
    return {name: {each.form: each.figures for each in kept} for name, kept in found.items()}


def _show(figures: Mapping[str, Any]) -> None:
    from twinvec.evaluation.layout import figure_tables, form_tables

    for each in (*figure_tables([figures]), *form_tables(figures)):
        columns = [column.replace(" ", "\n") for column in each.columns]  # many figures, few columns of a terminal
        title = f"{each.title}: {figures.get('collection', figures['model'])}"
        lines = table(title, *columns, numbers=tuple(columns[1:]))
        lines.columns[0].no_wrap = True
        for row in each.rows:
            lines.add_row(*row)
        show(lines)
