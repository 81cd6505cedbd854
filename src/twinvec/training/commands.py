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


def train(
    config: Annotated[Path, typer.Argument(metavar="CONFIG.yaml", help="What to train on what; see docs/training.md.")],
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the model goes.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Train a model, or go on with a run that was cut off.

    Example: twinvec train examples/train_pairs.yaml -o models/mine
    """
    from twinvec.training.config import read_config
    from twinvec.training.trainer import train as run

    if not config.is_file():
        raise ConfigurationError(f"{config}: no such file")
    report = run(read_config(config), output)
    if as_json:
        typer.echo(json.dumps(asdict(report)))
        return
    typer.echo(f"{report.folder}: {report.steps} steps over {report.rows:,} rows in {report.seconds:,.0f} s")
    for name, score in report.after.items():
        typer.echo(f"  {name}: {report.before[name]:.2f} -> {score:.2f}")
