"""The commands ``twinvec train`` and ``twinvec mine``."""

from __future__ import annotations

import logging
import math
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twinvec.cli.options import (
    MODEL_HELP,
    WAIT_SECONDS,
    AsJson,
    GrpcPort,
    PrecisionOption,
    StorePath,
    StoreUrl,
    Wait,
    check_store,
    collection_option,
    is_flag,
    open_collection,
    wrong_usage,
)
from twinvec.cli.terminal import show_json
from twinvec.errors import ModelError
from twinvec.support.checks import check_input_file

if TYPE_CHECKING:
    from twinvec.encoder import Encoder
    from twinvec.training.mining.hard_negatives import MiningJob, MiningReport
    from twinvec.training.run.config import TrainConfig
    from twinvec.training.run.model_card import TrainReport


def train(
    config: Annotated[
        Path,
        typer.Argument(metavar="CONFIG.yaml", help="YAML file with model, data, objective and schedule: see docs."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder for the model.")],
    as_json: AsJson = False,
) -> None:
    """Train a model, or resume a run that was interrupted.

    \b
    twinvec train examples/train_pairs.yaml -o models/mine
    """
    from twinvec.training.data.classes import classes_shown
    from twinvec.training.losses.distributed import is_main_process
    from twinvec.training.run.config import FieldError, read_config
    from twinvec.training.run.model_card import batch_rows, unit_of

    check_input_file(config)
    if not is_main_process():
        logging.getLogger("twinvec").setLevel(logging.ERROR)  # the main process logs the same warnings
    checked = read_config(config)
    try:
        with redirect_stdout(sys.stderr):
            report = _train(checked, output)
    except (FieldError, ModelError) as error:
        raise type(error)(f"{config}: {error}") from error
    if not is_main_process():
        return
    if as_json:
        show_json(asdict(report))
        return
    done = f"{report.steps} steps over {report.rows:,} {unit_of(checked)} in {report.seconds:,.0f} s"
    typer.echo(f"{report.folder}: {done}")
    classes = classes_shown(report.classes) if report.classes else ""
    for line in filter(None, (classes, batch_rows(checked, report), _kept_line(checked, report))):
        typer.echo(f"  {line}")
    for name, score in report.after.items():
        typer.echo(f"  {name}: {report.before[name]:.2f} -> {score:.2f}")


def _train(config: TrainConfig, output: Path) -> TrainReport:
    """Train, and let wandb report now what it would print to stdout when the process ends."""
    from twinvec.training.run.train import train as run

    report = run(config, output)
    if "wandb" in config.schedule.report_to:
        import_module("wandb").finish()
    return report


def _kept_line(config: TrainConfig, report: TrainReport) -> str:
    """Return a line that names the step whose weights the model has, and an early stop.

    Return "" if nothing was measured during the training.
    """
    from twinvec.training.run.model_card import kept_step

    measured = config.evaluation
    if measured is None or measured.every is None:
        return ""
    waited = measured.patience is not None and report.steps - report.best_step == measured.patience * measured.every
    planned = config.schedule.steps or math.ceil(config.schedule.epochs * -(-report.rows // config.batches.size))
    patience = "stopped early (patience); " if waited and report.steps < planned else ""
    return f"{patience}{kept_step(report)}"


def mine(
    ctx: typer.Context,
    pairs: Annotated[Path, typer.Argument(metavar="PAIRS.jsonl", help="JSON lines with 'anchor' and 'positive'.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="ROWS.jsonl", help="File for the rows with 'negatives' added; must not be PAIRS."
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            envvar="TWINVEC_MODEL",
            help=f"{MODEL_HELP} If not given: the model of --collection, or 'default'.",
            show_default=False,
        ),
    ] = None,
    collection: Annotated[
        str | None, collection_option(help="Search this collection. Default: search the positives of all rows.")
    ] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    grpc_port: GrpcPort = None,
    negatives: Annotated[int, typer.Option(min=1, help="Largest number of negatives for each row.")] = 4,
    first_rank: Annotated[
        int, typer.Option(min=1, help="Rank of the first hit that may become a negative; positives are not counted.")
    ] = 1,
    last_rank: Annotated[int, typer.Option(min=1, help="Rank of the last hit that may become a negative.")] = 50,
    margin: Annotated[
        float | None,
        typer.Option(help="Smallest margin by which the positive's cosine must exceed a negative's. Default: none."),
    ] = None,
    denoise: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Cross-encoder that removes relevant hits from the negatives.")
    ] = None,
    denoise_above: Annotated[
        float | None, typer.Option(help="With --denoise: largest probability with which a hit is kept. Default: 0.1.")
    ] = None,
    scores: Annotated[
        bool,
        typer.Option(
            "--scores",
            help="With --denoise: add the cross-encoder's 'scores' of positive and negatives, for the objective "
            "margin_mse. Rows without negatives are left out.",
        ),
    ] = False,
    precision: PrecisionOption = "auto",
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Mine hard negatives for pairs, or resume a run that was interrupted.

    A hard negative is a text that the search finds for an anchor and that no row names as a positive of that anchor.
    Other fields of a row stay as they are.

    \b
    twinvec mine pairs.jsonl -o rows.jsonl --first-rank 3 --last-rank 30
    twinvec mine pairs.jsonl -o rows.jsonl --collection docs --margin 0.05
    """
    from twinvec.encoder import Encoder
    from twinvec.training.mining.hard_negatives import MiningJob, MiningOptions, ProbabilityScorer
    from twinvec.training.mining.output_file import check_output

    if collection is None and any(is_flag(ctx, name) for name in ("path", "url", "grpc_port")):
        raise typer.BadParameter("give --collection with --path, --url and --grpc-port")
    if collection is not None and not is_flag(ctx, "model"):
        model = None
    check_store(path, url)
    if denoise is None and denoise_above is not None:
        raise typer.BadParameter("--denoise-above needs --denoise")
    if denoise is None and scores:
        raise typer.BadParameter("--scores needs --denoise")
    check_input_file(pairs)
    above = {} if denoise_above is None else {"denoise_above": denoise_above}
    with wrong_usage():
        options = MiningOptions(negatives, first_rank, last_rank, margin, **above)
    check_output(pairs, output)
    scorer = None if denoise is None else ProbabilityScorer(denoise)
    teacher = scorer.logits if scorer is not None and scores else None
    job = MiningJob(pairs, output, options, scorer=scorer, teacher=teacher)
    if collection is not None:
        opening = {"model": model, "precision": precision, "wait": wait, "grpc_port": grpc_port}
        report = _mine_collection(job, collection, path, url, progress=not as_json, **opening)
    else:
        report = _mine_positives(job, Encoder(model or "default", precision=precision), progress=not as_json)
    if as_json:
        show_json(asdict(report))
        return
    unfound = f"; the positives of {report.unfound:,} rows are not among the hits" if report.unfound else ""
    without = f"{report.without:,} rows have none{' and are left out' if scores and report.without else ''}"
    typer.echo(f"{output}: {report.negatives:,} negatives for {report.rows:,} rows; {without}{unfound}")


def _mine_collection(
    job: MiningJob, name: str, path: Path | None, url: str | None, *, progress: bool, **opening: Any
) -> MiningReport:
    """Search a collection for negatives; ``opening`` has options of ``open_collection``."""
    from twinvec.training.mining.hard_negatives import mine_file, reserve_output
    from twinvec.training.mining.output_file import remove_other_vectors

    with open_collection(name, path, url=url, **opening) as opened:
        identity = f"collection {name}, {url or (path or Path('.twinvec')).resolve()}, {opened.encoder.space}"
        job = _identified(job, identity)
        reserve_output(job)
        remove_other_vectors(job.output)
        find_chunks = partial(opened.search_many, group=False, passages=False)
        return mine_file(job, opened, find_chunks=find_chunks, progress=progress)


def _mine_positives(job: MiningJob, encoder: Encoder, *, progress: bool) -> MiningReport:
    """Search the positives of all rows for negatives; their vectors stay on disk until the run is complete."""
    from twinvec.training.mining.dense_index import DenseIndex
    from twinvec.training.mining.hard_negatives import mine_file, reserve_output
    from twinvec.training.mining.output_file import remove_other_vectors, vectors_path

    job = _identified(job, encoder.space)
    reserve_output(job)
    vectors = vectors_path(job.output, job.source, encoder.space)
    remove_other_vectors(job.output, vectors)
    report = mine_file(job, DenseIndex(encoder, job.source, vectors, progress=progress), progress=progress)
    vectors.unlink(missing_ok=True)
    return report


def _identified(job: MiningJob, retriever: str) -> MiningJob:
    """Return the job with its identity, which the output file records: the retriever and, if any, the scorer."""
    from twinvec.training.mining.hard_negatives import ProbabilityScorer

    suffix = f", {job.scorer.identity}" if isinstance(job.scorer, ProbabilityScorer) else ""
    return replace(job, identity=f"{retriever}{suffix}")
