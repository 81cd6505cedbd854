"""Commands: ``evaluate``, ``compare``, ``pairs`` and ``cluster``: options in, tables or JSON out.

Everything heavy is imported inside a command, so that ``twinvec --help`` stays quick.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from twinvec.evaluation.suite import Tasks

_Files = list[Path]
System = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="A model (default, a folder, org/name), or a baseline: glove:FILE, mean:MODEL, cls:MODEL, bm25.",
    ),
]
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
_MEASURES = "ndcg@10,mrr@10,map@100,recall@10,recall@100,precision@10"


def register(app: typer.Typer) -> None:
    """Add the commands to ``twinvec``."""
    app.command("evaluate")(evaluate_command)
    app.command("compare")(compare_command)
    app.command("pairs")(pairs_command)
    app.command("cluster")(cluster_command)


def evaluate_command(
    model: System,
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
    as_json: AsJson = False,
) -> None:
    """Measure a model: figures x 100, with 95% intervals.

    Example: twinvec evaluate default --sts stsb/test.tsv --sts sick/ --ir scifact/
    """
    from twinvec.evaluation.measures import write_run
    from twinvec.evaluation.suite import evaluate

    tasks = _tasks(sts, ir, split, questions, nli, nli_train, pairs, triplets, winogender, winobias, measures)
    result = evaluate(model, tasks, progress=True)
    if runs is not None:
        for name, each in {**result.ir, **result.questions}.items():
            write_run(each.run, runs / f"{name.replace('/', '-')}.trec")
    figures = result.as_json()
    if as_json:
        typer.echo(json.dumps(figures))
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

    Example: twinvec compare default ./my-model bm25 -o report --ir scifact/
    """
    from twinvec.evaluation.report import compare, write_report

    tasks = _tasks(sts, ir, split, questions, nli, nli_train, pairs, triplets, winogender, winobias, measures)
    comparison = compare(models, tasks, progress=True)
    written = write_report(comparison, output)
    if as_json:
        typer.echo(json.dumps({**comparison.as_json(), "files": [str(path) for path in written]}))
    else:
        typer.echo("\n".join(str(path) for path in written))


def pairs_command(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Texts: one a line (.txt), or 'text' in .jsonl.")],
    model: Annotated[str, typer.Option(help="The model.")] = "default",
    limit: Annotated[int, typer.Option(min=1, help="How many pairs.")] = 20,
    threshold: Annotated[float | None, typer.Option(help="Only pairs with at least this cosine.")] = None,
    as_json: AsJson = False,
) -> None:
    """Find the most similar pairs among texts: exact, over all pairs of different texts.

    Example: twinvec pairs questions.txt --limit 50
    """
    from twinvec.encoder import Encoder
    from twinvec.similarity import most_similar_pairs

    texts, vectors = _encoded(source, model, Encoder)
    scores, rows = most_similar_pairs(vectors, limit, threshold=threshold)
    found = [
        {"score": float(score), "first": texts[a], "second": texts[b]}
        for score, (a, b) in zip(scores, rows.tolist(), strict=True)
    ]
    if as_json:
        typer.echo(json.dumps({"texts": len(texts), "pairs": found}))
        return
    table = _table(f"{len(texts):,} different texts", "cosine", "first", "second")
    for each in found:
        table.add_row(f"{each['score']:.4f}", str(each["first"]), str(each["second"]))
    _print(table)


def cluster_command(
    source: Annotated[Path, typer.Argument(metavar="INPUT", help="Texts: one a line (.txt), or 'text' in .jsonl.")],
    model: Annotated[str, typer.Option(help="The model.")] = "default",
    method: Annotated[str, typer.Option(help="kmeans, agglomerative or density.")] = "density",
    clusters: Annotated[int | None, typer.Option(min=1, help="How many (kmeans, agglomerative).")] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Cosine of what belongs together (density, agglomerative).")
    ] = None,
    min_size: Annotated[int, typer.Option(min=1, help="Smallest cluster (density).")] = 3,
    map_file: Annotated[Path | None, typer.Option("--map", help="Draw a 2-D map to this PNG file.")] = None,
    as_json: AsJson = False,
) -> None:
    """Put similar texts together; each cluster is named by its most typical text.

    Example: twinvec cluster questions.txt --threshold 0.7 --map questions.png
    """
    from twinvec.encoder import Encoder
    from twinvec.similarity import cluster, medoids

    if threshold is None and clusters is None and method == "density":
        threshold = 0.7
    texts, vectors = _encoded(source, model, Encoder)
    labels = cluster(vectors, method, clusters=clusters, threshold=threshold, min_size=min_size)  # type: ignore[arg-type]
    typical = {label: texts[row] for label, row in medoids(vectors, labels).items()}
    if map_file is not None:
        from twinvec.evaluation.plots import cluster_map

        cluster_map(vectors, labels, typical, map_file)
    members = {label: [text for text, each in zip(texts, labels, strict=True) if each == label] for label in typical}
    alone = [text for text, each in zip(texts, labels, strict=True) if each < 0]
    if as_json:
        groups = [{"typical": typical[label], "texts": members[label]} for label in typical]
        typer.echo(json.dumps({"clusters": groups, "alone": alone}))
        return
    table = _table(f"{len(typical)} clusters, {len(alone)} of {len(texts)} texts alone", "texts", "most typical")
    for label, text in typical.items():
        table.add_row(str(len(members[label])), text)
    _print(table)


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


def _encoded(source: Path, model: str, encoder: Any) -> tuple[list[str], Any]:
    """The different texts of a file, in their order, and their vectors."""
    from twinvec.evaluation.tables import read_texts

    texts = list(dict.fromkeys(read_texts(source)))
    return texts, encoder(model).encode(texts, progress=True)


def _show(figures: Mapping[str, Any]) -> None:
    from twinvec.evaluation.layout import figure_tables

    for each in figure_tables([figures]):
        table = _table(f"{each.title}: {figures['model']}", *each.columns)
        for row in each.rows:
            table.add_row(*row)
        _print(table)


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table

    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD)
    for column in columns:
        table.add_column(column)
    return table


def _print(table: Table) -> None:
    from rich.console import Console

    Console(width=None if sys.stdout.isatty() else 200, markup=False, highlight=False).print(table)
