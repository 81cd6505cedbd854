"""The commands ``twinvec train`` and ``twinvec mine``. Everything heavy is imported when a command runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from twinvec.errors import ConfigurationError


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("train")(train)
    app.command("mine")(mine)


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="What to train on what; see docs/training.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train a model, or go on with a run that was cut off.

    Example: twinvec train examples/train_pairs.yaml -o models/mine
    """
    from twinvec.training.config import read_config
    from twinvec.training.gathering import is_first
    from twinvec.training.trainer import train as run

    if not config.is_file():
        raise ConfigurationError(f"{config}: no such file")
    report = run(read_config(config), output)
    if not is_first():
        return
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    typer.echo(f"{report.folder}: {report.steps} steps over {report.rows:,} rows in {report.seconds:,.0f} s")
    for name, score in report.after.items():
        typer.echo(f"  {name}: {report.before[name]:.2f} -> {score:.2f}")


def mine(
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS.jsonl", help="Rows with 'anchor' and 'positive'.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="ROWS.jsonl", help="Rows with 'negatives' added.")],
    model: Annotated[str, typer.Option(help="Finds the negatives among the positives of all rows.")] = "default",
    collection: Annotated[str | None, typer.Option(help="Find them in this collection instead.")] = None,
    path: Annotated[Path, typer.Option(help="Folder of the collection.")] = Path(".twinvec"),
    url: Annotated[str | None, typer.Option(help="Server of the collection, in place of a folder.")] = None,
    negatives: Annotated[int, typer.Option(help="Negatives a row, at most.")] = 4,
    first_rank: Annotated[int, typer.Option(help="Skip hits above this rank.")] = 1,
    last_rank: Annotated[int, typer.Option(help="Look no deeper than this.")] = 50,
    margin: Annotated[float | None, typer.Option(help="Least distance in score below the positive.")] = None,
    denoise: Annotated[str | None, typer.Option(metavar="MODEL", help="Cross-encoder that strikes out hits.")] = None,
    denoise_above: Annotated[float, typer.Option(help="Score from which it does.")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Find hard negatives for pairs, or go on with a run that was cut off.

    Example: twinvec mine pairs.jsonl -o rows.jsonl --negatives 2 --first-rank 3 --last-rank 30
    """
    from twinvec.training.mining import MiningOptions, file_digest, mine_file

    if not pairs.is_file():
        raise ConfigurationError(f"{pairs}: no such file")
    options = MiningOptions(negatives, first_rank, last_rank, margin, denoise_above)
    vectors: Path | None = None
    retriever: Any
    if collection is not None:
        from twinvec.stored import open_collection

        retriever = open_collection(collection, None if url is not None else path, url=url)
        identity = f"collection {collection}"
    else:
        from twinvec import Encoder
        from twinvec.training.dense_index import DenseIndex

        encoder = Encoder(model)
        identity = encoder.space
        vectors = output.with_name(f"{output.name}.{file_digest(pairs, identity)[:16]}.npy")
        retriever = DenseIndex(encoder, pairs, vectors, progress=not as_json)
    scorer = None
    if denoise is not None:
        from twinvec import CrossEncoderReranker

        scorer = CrossEncoderReranker(denoise)
        identity += f" {scorer.name}"
    report = mine_file(pairs, output, retriever, options, scorer=scorer, identity=identity, progress=not as_json)
    if vectors is not None:
        vectors.unlink()
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    typer.echo(f"{output}: {report.negatives:,} negatives for {report.rows:,} rows; {report.without:,} rows have none")
