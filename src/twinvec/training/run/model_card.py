"""The report of a training run, and its model card: data, objective, settings, results, and a plot of the curves."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twinvec.training.run.config import TrainConfig

_CURVES = "training.png"
_CLASSES = 50  # largest number of classes in the table
_MARKED = 50  # largest number of points with markers; more would hide the curve
_LEAST_SCALE = 2.0  # smallest range of the plot of scores x 100: a small difference looks small
_TEXTS = '"How do I renew a certificate?", ["Run the tool with --renew.", "Lunch is at noon."]'
_USAGE = {
    "bi-encoder": f"""\
```python
from twinvec import Encoder

encoder = Encoder("{{0}}")  # the folder of this model
query, documents = {_TEXTS}
print(encoder.encode_document(documents) @ encoder.encode_query(query))
```

With sentence-transformers:

```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{{0}}")
query, documents = {_TEXTS}
print(model.similarity(model.encode_query(query), model.encode_document(documents)))
```
""",
    "cross-encoder": f"""\
```python
from twinvec import CrossEncoderReranker

reranker = CrossEncoderReranker("{{0}}")  # the folder of this model
query, documents = {_TEXTS}
print(reranker.score([(query, document) for document in documents]))
```

With sentence-transformers:

```python
from sentence_transformers import CrossEncoder

model = CrossEncoder("{{0}}")
query, documents = {_TEXTS}
print(model.rank(query, documents))
```
""",
}
"""Kind of model -> how to use its folder."""
Scores = dict[str, float]
"""Measure -> score x 100."""


@dataclass(frozen=True, slots=True)
class TrainReport:
    """The results of a training run.

    Attributes:
        steps: Steps of the whole run, including those before it was resumed.
        rows: Rows of all datasets; for a cross-encoder, pairs: one for each positive and each negative of a row.
        before: Scores x 100 of the model before training.
        after: Scores x 100 of the saved model.
        best_step: The step whose weights were kept: the best by score, or the last if nothing is measured.
        loss: Mean loss at the end of the loss curve: over its last ``log_every`` steps (over all steps if fewer). The
            curve has a point every ``log_every`` steps, so later steps do not count.
        seconds: Training time of the whole run, measurements and checkpoints included. A resumed run adds the time up
            to its checkpoint (versions up to 0.2 did not record this time).
        rows_drawn: Rows (or pairs) of all batches together; a row counts each time that it was drawn. None if the run
            began with a version that did not count them.
        classes: For softmax, label -> number of rows; empty for other objectives.
    """

    folder: str
    steps: int
    rows: int
    before: Scores
    after: Scores
    best_step: int
    loss: float | None
    seconds: float
    rows_drawn: int | None = field(default=None, kw_only=True)
    classes: dict[str, int] = field(default_factory=dict, kw_only=True)


def unit_of(config: TrainConfig) -> str:
    """Return the unit of ``TrainReport.rows``."""
    return "pairs" if config.kind == "cross-encoder" else "rows"


def figures_by_step(history: list[dict[str, Any]]) -> list[dict[str, float | None]]:
    """Return the entries of the trainer's log that have a loss or scores.

    Each entry has its step; an entry with a loss also has the learning rate and the norm of the gradient. None stands
    for a number that is not finite, because JSON has no such numbers.
    """
    logged = [entry for entry in history if any(name == "loss" or name.startswith("eval_") for name in entry)]
    return [
        {name.removeprefix("eval_"): value if math.isfinite(value) else None for name, value in entry.items()}
        for entry in logged
    ]


def write_card(
    folder: Path, config: TrainConfig, sources: Sequence[Any], report: TrainReport, history: list[dict[str, Any]]
) -> None:
    """Write ``README.md`` and ``training.png`` into the model's folder; ``history`` is the trainer's log."""
    _draw(folder / _CURVES, history, report)
    schedule, name = config.schedule, _name(report.folder)
    lines = [
        "---",
        "library_name: sentence-transformers",
        f"pipeline_tag: {'sentence-similarity' if config.kind == 'bi-encoder' else 'text-ranking'}",
        "tags: [sentence-transformers, twinvec]",
        "---",
        "",
        f"# {name}",
        "",
        f"A {config.kind} trained with twinvec from `{_name(config.model)}`.",
        "",
        "## Usage",
        "",
        _USAGE[config.kind].format(name),
        "## Data",
        "",
        f"| dataset | {unit_of(config)} |",
        "|---|---|",
        *(f"| {_cell(source.name)} | {len(source):,} |" for source in sources),
        "",
        *_class_lines(report.classes),
        "## Objective and settings",
        "",
        "| setting | value |",
        "|---|---|",
        *(f"| {name} | {_cell(value)} |" for name, value in _settings(config)),
        f"| steps | {'; '.join(filter(None, [f'{report.steps:,}', kept_step(report), batch_rows(config, report)]))} |",
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


def _name(folder: str) -> str:
    """Return the last part of a folder's path, which for "." is the name of the current folder."""
    return os.path.basename(os.path.abspath(folder))


def _class_lines(classes: dict[str, int]) -> list[str]:
    """Return a Markdown table of the first classes, as lines that end with an empty line; no lines without classes."""
    if not classes:
        return []
    rows = [f"| {_cell(label)} | {count:,} |" for label, count in list(classes.items())[:_CLASSES]]
    more = [f"| and {len(classes) - _CLASSES:,} more classes | |"] if len(classes) > _CLASSES else []
    return ["| class | rows |", "|---|---|", *rows, *more, ""]


def kept_step(report: TrainReport) -> str:
    """Return a clause that names the step whose weights the model has."""
    if report.best_step == report.steps:
        return "the model is that of the last step"
    return f"the model is that of step {report.best_step:,}, which scored best"


def batch_rows(config: TrainConfig, report: TrainReport) -> str:
    """Return a clause with the mean number of rows in a batch if batches were less than half full; otherwise ""."""
    if not report.steps or report.rows_drawn is None or report.rows_drawn / report.steps >= config.batches.size / 2:
        return ""
    return f"a batch had {report.rows_drawn / report.steps:,.1f} of {config.batches.size} {unit_of(config)}, on average"


def _settings(config: TrainConfig) -> list[tuple[str, Any]]:
    objective = config.objective.model_dump(exclude_none=True)
    settings = [("objective", objective.pop("name")), *objective.items(), ("batch", config.batches.size)]
    settings += [(name, value) for name in ("pooling", "max_tokens") if (value := getattr(config, name)) is not None]
    if config.matryoshka:
        settings.append(("matryoshka", ", ".join(map(str, config.matryoshka))))
    if config.lora is not None:
        settings.append(("lora rank", config.lora.rank))
    return [(name.replace("_", " "), value) for name, value in settings]


def _cell(value: object) -> str:
    """Return a value as a table cell; a concatenation such as ``u,v,|u-v|`` contains bars."""
    return str(value).replace("|", r"\|")


def _draw(path: Path, history: list[dict[str, Any]], report: TrainReport) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    losses = [(entry["step"], entry["loss"]) for entry in history if "loss" in entry]
    curves = {name: _score_points(name, history, report) for name in sorted(report.before)}
    figure = Figure(figsize=(9, 3.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    last = max((step for points in (losses, *curves.values()) for step, _ in points), default=1)
    _curve(left, losses)
    left.set(title="Loss", xlabel="step", ylim=(0, 1.1 * max((loss for _, loss in losses), default=1.0) or 1))
    for name, points in curves.items():
        _curve(right, points, label=name)
    right.set(title="Scores x 100 (step 0: before training)", xlabel="step")
    if curves:
        right.legend()
        low, high = right.get_ylim()
        middle = (low + high) / 2
        right.set_ylim(min(low, middle - _LEAST_SCALE / 2), max(high, middle + _LEAST_SCALE / 2))
    for axes in (left, right):
        axes.set_xlim(-0.03 * last, 1.03 * last)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True, min_n_ticks=1))
        axes.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=110)


def _score_points(name: str, history: list[dict[str, Any]], report: TrainReport) -> list[tuple[int, float]]:
    """Return pairs (step, score): before training (step 0), during training, and of the saved model."""
    points = {entry["step"]: entry[f"eval_{name}"] for entry in history if f"eval_{name}" in entry}
    return sorted({0: report.before[name], report.best_step: report.after[name], **points}.items())


def _curve(axes: Any, points: Sequence[tuple[float, float]], label: str | None = None) -> None:
    """Draw a curve; a few points get markers, so that a single point is visible."""
    marker = "o" if len(points) <= _MARKED else None
    axes.plot([step for step, _ in points], [value for _, value in points], marker=marker, markersize=4, label=label)
