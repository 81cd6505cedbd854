"""The commands ``twinvec train`` and ``twinvec mine``. Everything heavy is imported when a command runs."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

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
    from twinvec.training.losses.distributed import is_first
    from twinvec.training.run.config import read_config
    from twinvec.training.run.train import train as run

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
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="ROWS.jsonl", help="The same rows with 'negatives'; another file.")
    ],
    model: Annotated[
        str | None,
        typer.Option(help="Searches: default, a folder, or org/name[@commit]; a collection's own unless given."),
    ] = None,
    collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Search this collection, not the positives of all rows.")
    ] = None,
    path: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of its store; ./.twinvec unless given.")
    ] = None,
    url: Annotated[str | None, typer.Option(help="Its server, in place of a folder.")] = None,
    negatives: Annotated[int, typer.Option(min=1, help="Negatives a row, at most.")] = 4,
    first_rank: Annotated[
        int, typer.Option(min=1, help="Skip hits above this rank, counted without the positives.")
    ] = 1,
    last_rank: Annotated[int, typer.Option(min=1, help="Look no deeper than this.")] = 50,
    margin: Annotated[
        float | None, typer.Option(help="Least distance in cosine below the row's positive; any unless given.")
    ] = None,
    denoise: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Cross-encoder that strikes out hits it believes.")
    ] = None,
    denoise_above: Annotated[
        float | None, typer.Option(help="Probability above which it does; 0.1 unless given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Find hard negatives for pairs, or go on with a run that was cut off.

    Negatives are what a search finds for an anchor that no row calls a positive of it. Other fields of a row stay.

    \b
    twinvec mine pairs.jsonl -o rows.jsonl --negatives 2 --first-rank 3 --last-rank 30
    twinvec mine pairs.jsonl -o rows.jsonl --collection docs --margin 0.05
    """
    from twinvec.encoder import Encoder
    from twinvec.training.mining.denoising import ProbabilityScorer
    from twinvec.training.mining.dense_index import DenseIndex
    from twinvec.training.mining.hard_negatives import MiningJob, MiningOptions, mine_file
    from twinvec.training.mining.output_file import check_output, file_digest

    if collection is None and (path is not None or url is not None):
        raise typer.BadParameter("--path and --url say where a collection is: give --collection")
    if path is not None and url is not None:
        raise typer.BadParameter("--path and --url exclude each other")
    if denoise is None and denoise_above is not None:
        raise typer.BadParameter("--denoise-above is for --denoise")
    if not pairs.is_file():
        raise ConfigurationError(f"{pairs}: no such file")
    above = {} if denoise_above is None else {"denoise_above": denoise_above}
    options = MiningOptions(negatives, first_rank, last_rank, margin, **above)
    check_output(pairs, output)
    scorer = None if denoise is None else ProbabilityScorer(denoise)
    denoised = "" if scorer is None else f", {scorer.identity}"
    show = not as_json
    if collection is not None:
        from twinvec.retrieval.open_collection import open_collection

        folder = path or Path(".twinvec")
        chosen = None if model is None else Encoder(model)
        with open_collection(collection, None if url else folder, url=url, encoder=chosen) as opened:
            identity = f"collection {collection}, {url or folder.resolve()}, {opened.encoder.space}{denoised}"
            report = mine_file(MiningJob(pairs, output, options, identity, scorer), opened, progress=show)
    else:
        encoder = Encoder(model or "default")
        identity = f"{encoder.space}{denoised}"
        job = MiningJob(pairs, output, options, identity, scorer)
        job.open()
        vectors = output.with_name(f"{output.name}.{file_digest(pairs, encoder.space)[:16]}.npy")
        index = DenseIndex(encoder, pairs, vectors, progress=show)
        report = mine_file(job, index, progress=show)
        vectors.unlink()
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    typer.echo(f"{output}: {report.negatives:,} negatives for {report.rows:,} rows; {report.without:,} rows have none")
