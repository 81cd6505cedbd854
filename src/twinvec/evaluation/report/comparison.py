"""Comparison of systems on the same tasks: paired tests against the first system, and a report with plots."""

from __future__ import annotations

import html
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markdown_it import MarkdownIt

from twinvec.engines import Precision
from twinvec.errors import ConfigurationError
from twinvec.evaluation.ir import IrResult
from twinvec.evaluation.report import plots
from twinvec.evaluation.report.figure_tables import figure_tables, shown_p_value
from twinvec.evaluation.reranking import gain
from twinvec.evaluation.statistics import RESAMPLES, PairedTest, Values, paired_test
from twinvec.evaluation.sts import StsResult, compare_sts
from twinvec.evaluation.suite import SystemResults, Tasks, prepare
from twinvec.support.atomic import atomic_write
from twinvec.support.checks import as_list, check_data, check_output_folder, file_path, string

_EXAMPLES = 5
_DRAWN = ("sts", "ir", "reranked", "questions", "nli", "pairs", "triplets")
_AGREED = "None: they agree on all.\n"
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2129; max-width: 62rem; margin: 2.5rem auto; padding: 0 1.25rem }
h1 { font-size: 1.7rem } h2 { font-size: 1.25rem; margin-top: 2.4rem; border-bottom: 1px solid #dde1e7 }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; display: block; overflow-x: auto }
img { max-width: 100% }
th, td { padding: .35rem .7rem; border-bottom: 1px solid #e6e9ee; text-align: left; vertical-align: top }
th { background: #f4f6f9; font-weight: 600 } td { font-variant-numeric: tabular-nums }
td[style*="right"] { white-space: nowrap }
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """A paired test of ``system`` against the first system, on one set."""

    section: str
    data: str
    measure: str
    system: str
    test: PairedTest


@dataclass(frozen=True)
class Comparison:
    """The results of all systems, and paired tests of the other systems against the first, set by set."""

    evaluations: list[SystemResults]
    differences: list[Difference]

    def as_json(self) -> dict[str, Any]:
        """Return the figures by system, and the tests."""
        return {
            "models": [evaluation.as_json() for evaluation in self.evaluations],
            "differences": [asdict(difference) for difference in self.differences],
        }


def compare(
    systems: Sequence[str],
    tasks: Tasks,
    *,
    precision: Precision = "auto",
    dim: int | None = None,
    resamples: int = RESAMPLES,
    progress: bool = False,
) -> Comparison:
    """Measure two or more different systems, and test each further system against the first.

    All models compute in ``precision``, and truncate their vectors to ``dim`` dimensions, as ``prepare`` describes.
    Raises ConfigurationError for fewer than two systems, or if two are equal. Errors of ``prepare`` are raised before
    any measurement.
    """
    systems = [string(each, f"systems[{row}]") for row, each in enumerate(as_list(systems, "systems", "names"))]
    if len(systems) < 2 or len(set(systems)) < len(systems):
        raise ConfigurationError(f"a comparison needs two or more different models, got {', '.join(systems) or 'none'}")
    plots.import_matplotlib()  # fails before the long work if it is missing: the report has plots
    options: dict[str, Any] = {"precision": precision, "dim": dim, "resamples": resamples, "progress": progress}
    waiting = [prepare(system, tasks, **options) for system in systems]
    evaluations = [measure() for measure in waiting]
    first = evaluations[0]
    tests = [test for other in evaluations[1:] for test in _tests(first, other, resamples)]
    return Comparison(evaluations, tests)


def write_report(comparison: Comparison, folder: str | Path) -> list[Path]:
    """Write report.md, report.html and the plots into ``folder``; return the paths written.

    Raises InputError if ``comparison`` is not a ``Comparison``, and ConfigurationError if the folder cannot be made or
    written.
    """
    check_data(comparison, Comparison, "comparison", "a Comparison(...), as compare returns it")
    folder = file_path(folder, "folder")
    check_output_folder(folder)
    pictures = _draw(comparison, folder)
    text = "\n".join(_markdown(comparison, pictures)) + "\n"
    title = "Comparison of " + ", ".join(evaluation.system for evaluation in comparison.evaluations)
    body = MarkdownIt("commonmark", {"html": False}).enable("table").render(text)
    page = (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style></head>\n<body>\n{body}</body></html>\n"
    )
    written = [folder / "report.md", folder / "report.html"]
    for path, content in zip(written, (text, page), strict=True):
        atomic_write(path, content)
    return written + pictures


def _tests(first: SystemResults, other: SystemResults, resamples: int) -> Iterator[Difference]:
    tests: dict[str, Callable[..., PairedTest | None]] = {
        "sts": compare_sts,
        "ir": gain,
        "reranked": lambda one, two, **options: gain(one.result, two.result, **options),
        "questions": gain,
        "nli": lambda one, two, **options: paired_test(one.correct, two.correct, **options),
    }
    figures = other.as_json()
    for section, test in tests.items():
        mine, theirs = getattr(first, section), getattr(other, section)
        for name in (name for name in theirs if name in mine):
            found = test(mine[name], theirs[name], resamples=resamples)
            if found is not None:
                yield Difference(section, name, next(iter(figures[section][name])), other.system, found)


def _markdown(comparison: Comparison, pictures: list[Path]) -> Iterator[str]:
    systems = [evaluation.system for evaluation in comparison.evaluations]
    yield "# Comparison of " + ", ".join(map(_escaped, systems))
    yield "\nFigures are x 100. Intervals, in brackets, cover 95%: by bootstrap over rows or queries.\n"
    names = {path.name for path in pictures}
    if "figures.png" in names:
        yield "![Figures with intervals](figures.png)\n"
    if comparison.differences:
        yield f"## Differences from {_escaped(systems[0])}\n"
        yield from _tested(comparison.differences)
    if "differences.png" in names:
        yield "![Differences item by item](differences.png)\n"
    for table in figure_tables([evaluation.as_json() for evaluation in comparison.evaluations]):
        yield f"## {table.title}\n"
        yield from _rows(table.columns, table.rows, texts=2)
    if "occupations.png" in names:
        yield "## Gender and occupation\n\n![Lean of occupations](occupations.png)\n"
    yield from _examples(*comparison.evaluations[:2])


def _tested(differences: Sequence[Difference]) -> Iterator[str]:
    yield (
        "If an interval contains 0, these data do not show which of the two models is better. p is the share of random "
        "swaps of outputs that give a difference this large (approximate randomisation).\n"
    )
    yield from _rows(
        ("data", "measure", "model", "difference", "95% interval", "p"),
        (
            (
                f"{d.data}, reranked" if d.section == "reranked" else d.data,
                d.measure,
                d.system,
                f"{d.test.difference:+.2f}",
                f"{d.test.interval.low:+.2f} to {d.test.interval.high:+.2f}",
                shown_p_value(d.test.p_value),
            )
            for d in differences
        ),
        texts=3,
    )


def _examples(first: SystemResults, second: SystemResults) -> Iterator[str]:
    systems = (first.system, second.system)
    title = f"on which {_escaped(first.system)} and {_escaped(second.system)} differ most\n"
    for name in (name for name in first.sts if name in second.sts):
        yield f"## {name}: pairs {title}"
        yield "Places are percentiles: 100 is the most similar pair of the set.\n"
        yield from _sts_examples(first.sts[name], second.sts[name], *systems)
    for name, one, two in _searched(first, second):
        yield f"## {name}: queries {title}"
        yield from _ir_examples(one, two, *systems)


def _sts_examples(first: StsResult, second: StsResult, *systems: str) -> Iterator[str]:
    from scipy.stats import rankdata

    count = len(first.data.gold)
    gold, one, two = (
        100 * rankdata(values) / count
        for values in (first.data.gold, first.similarities["cosine"], second.similarities["cosine"])
    )
    rows = [
        (first.data.first[row], first.data.second[row], f"{gold[row]:.0f}", f"{one[row]:.0f}", f"{two[row]:.0f}")
        for row in _most_different(one, two)
    ]
    yield from _rows(("first", "second", "people", *systems), rows, texts=2) if rows else (_AGREED,)


def _ir_examples(first: IrResult, second: IrResult, *systems: str) -> Iterator[str]:
    measure = first.measured.main
    one, two = first.measured.per_query[measure], second.measured.per_query[measure]
    texts = {document.id: document.full_text for document in first.data.documents}
    rows = []
    for row in _most_different(one, two):
        query = first.measured.queries[row]
        row_cells = [first.data.queries[query]]
        for result, value in ((first, one[row]), (second, two[row])):
            best = next(iter(result.run.get(query, {})), None)
            judged = first.data.qrels[query].get(best, 0) if best else 0
            text = textwrap.shorten(texts[best], 140, placeholder="…") if best in texts else "nothing found"
            row_cells.append(f"{value:.0f}: {text} ({'relevant' if judged > 0 else 'not relevant'})")
        rows.append(row_cells)
    header = ("query", *(f"{measure} and first hit of {system}" for system in systems))
    yield from _rows(header, rows, texts=3) if rows else (_AGREED,)


def _most_different(one: Values, two: Values) -> list[int]:
    """Return the rows that differ most, largest first, without rows that are equal after rounding."""
    apart = np.abs(one - two)
    order = np.argsort(-apart, kind="stable")[:_EXAMPLES]
    return [int(row) for row in order if apart[row] >= 0.5]


def _draw(comparison: Comparison, folder: Path) -> list[Path]:
    drawn = []
    groups: dict[str, dict[str, tuple[float, Sequence[float] | None]]] = {}
    for evaluation in comparison.evaluations:
        sections = evaluation.as_json()
        for section in _DRAWN:
            for name, figures in sections.get(section, {}).items():
                measure = next(iter(figures))
                data = f"{name}, reranked" if section == "reranked" else name
                group = groups.setdefault(f"{data}\n{measure.replace('_', ' ')}", {})
                group[evaluation.system] = (figures[measure], figures.get(f"{measure}_interval"))
    if groups:
        drawn.append(folder / "figures.png")
        plots.bars(groups, drawn[-1])
    first, second = comparison.evaluations[:2]
    measured = [(name, one.measured, two.measured) for name, one, two in _searched(first, second)]
    samples = {f"{name} {one.main}": two.per_query[one.main] - one.per_query[one.main] for name, one, two in measured}
    if samples:
        drawn.append(folder / "differences.png")
        plots.differences(samples, first.system, second.system, drawn[-1])
    leaning = {each.system: each.winogender for each in comparison.evaluations if each.winogender is not None}
    if leaning:
        drawn.append(folder / "occupations.png")
        plots.occupations(leaning, drawn[-1])
    return drawn


def _searched(first: SystemResults, second: SystemResults) -> list[tuple[str, IrResult, IrResult]]:
    """Return (name, first system's result, second system's result) for each set that both systems have searched."""
    one, two = {**first.ir, **first.questions}, {**second.ir, **second.questions}
    return [(name, one[name], two[name]) for name in one if name in two]


def _rows(header: Sequence[str], rows: Any, *, texts: int) -> Iterator[str]:
    """Yield the lines of a table; all columns but the first ``texts`` hold numbers, aligned right."""
    yield "| " + " | ".join(map(_escaped, header)) + " |"
    yield "|" + " --- |" * texts + " ---: |" * (len(header) - texts)
    for row in rows:
        yield "| " + " | ".join(_escaped(str(cell)) for cell in row) + " |"
    yield ""


def _escaped(text: str) -> str:
    return re.sub(r"([\\`*_\[\]<>|&#~])", r"\\\1", " ".join(text.split()))
