"""The report of a training run, and the model card: data, objective, settings, results, and the curves as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twinvec.training.run.config import TrainConfig

_CURVES = "training.png"
Scores = dict[str, float]
"""Measure -> score x 100."""


@dataclass(frozen=True, slots=True)
class TrainReport:
    """What a run did.

    Attributes:
        steps: Steps of the whole run, including those before it was resumed.
        rows: Rows of all datasets.
        before: Scores x 100 of the model before training.
        after: Scores x 100 of the saved model.
        best_step: The step whose weights were kept: the best by score, or the last if nothing is measured.
        loss: Mean loss over the last ``log_every`` steps (over all steps if fewer).
        seconds: Training time of this process.
    """

    folder: str
    steps: int
    rows: int
    before: Scores
    after: Scores
    best_step: int
    loss: float | None
    seconds: float


def write_card(
    folder: Path, config: TrainConfig, sources: Sequence[Any], report: TrainReport, history: list[dict[str, Any]]
) -> None:
    """Write ``README.md`` and ``training.png`` into the model's folder; ``history`` is the trainer's log."""
    _draw(folder / _CURVES, history)
    schedule = config.schedule
    lines = [
        "---",
        "library_name: sentence-transformers",
        f"pipeline_tag: {'sentence-similarity' if config.kind == 'bi-encoder' else 'text-ranking'}",
        "tags: [sentence-transformers, twinvec]",
        "---",
        "",
        f"# {Path(report.folder).name}",
        "",
        f"A {config.kind} trained with twinvec from `{Path(config.model).name}`.",
        "",
        "## Data",
        "",
        "| dataset | rows |",
        "|---|---|",
        *(f"| {_cell(source.name)} | {len(source):,} |" for source in sources),
        "",
        "## Objective and settings",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in _settings(config)),
        f"| steps | {report.steps:,} (kept: {report.best_step:,}) |",
        f"| learning rate | {schedule.learning_rate:g}, {schedule.decay}, warm-up {schedule.warmup:g} |",
        f"| precision, seed | {schedule.precision}, {schedule.seed} |",
        "",
    ]
    if report.after:
        lines += ["## Results (x 100)", "", "| measure | before | after |", "|---|---|---|"]
        lines += [f"| {name} | {report.before[name]:.2f} | {score:.2f} |" for name, score in report.after.items()]
        lines.append("")
    lines += [f"![Loss and scores]({_CURVES})", ""]
    (folder / "README.md").write_text("\n".join(lines), encoding="utf-8")


def _settings(config: TrainConfig) -> list[tuple[str, Any]]:
    objective = config.objective.model_dump(exclude_none=True)
    settings = [("objective", objective.pop("name")), *objective.items(), ("batch", config.batches.size)]
    if config.matryoshka:
        settings.append(("matryoshka", ", ".join(map(str, config.matryoshka))))
    if config.lora is not None:
        settings.append(("lora rank", config.lora.rank))
    return [(name.replace("_", " "), value) for name, value in settings]


def _cell(value: object) -> str:
    """Return a value as a table cell; a concatenation such as ``u,v,|u-v|`` contains bars."""
    return str(value).replace("|", r"\|")


def _draw(path: Path, history: list[dict[str, Any]]) -> None:
    from matplotlib.figure import Figure

    losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
    names = sorted({name for entry in history for name in entry if name.startswith("eval_") and "." in name})
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.plot(*zip(*losses, strict=True) if losses else ([], []))
    left.set(title="Loss", xlabel="step")
    for name in names:
        points = [(entry["step"], entry[name]) for entry in history if name in entry]
        right.plot(*zip(*points, strict=True), marker="o", label=name.removeprefix("eval_"))
    right.set(title="Scores x 100", xlabel="step")
    if names:
        right.legend()
    figure.savefig(path, dpi=110)
