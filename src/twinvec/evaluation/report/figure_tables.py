"""Figures laid out in tables, for the terminal and for reports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

RERANKED = "Retrieval, reranked"
"""The title of tables with the figures after reranking."""

_TITLES = {"sts": "STS", "ir": "Retrieval", "reranked": RERANKED, "nli": "NLI"}
_SECTIONS = ("sts", "ir", "reranked", "questions", "nli", "pairs", "triplets", "bias")


@dataclass(frozen=True, slots=True)
class FigureTable:
    """A title, the names of the columns, and rows of cells."""

    title: str
    columns: list[str]
    rows: list[list[str]]

    def turned(self) -> FigureTable:
        """Return the table with rows and columns exchanged, for a narrow screen."""
        names, *figures = zip(self.columns, *self.rows, strict=True)
        return FigureTable(self.title, list(names), [list(each) for each in figures])


def figure_tables(systems: Sequence[Mapping[str, Any]]) -> Iterator[FigureTable]:
    """Yield tables of the ``SystemResults.as_json`` of each system; sets with the same measures share a table."""
    for section in _SECTIONS:
        sets = list(dict.fromkeys(name for system in systems for name in system.get(section, {})))
        groups: dict[tuple[str, ...], list[tuple[str, Mapping[str, Any], Mapping[str, Any]]]] = {}
        for name in sets:
            for system in systems:
                if (found := system.get(section, {}).get(name)) is not None:
                    groups.setdefault(_measures(found), []).append((name, system, found))
        for system in systems:
            if (mean := system.get("mean", {}).get(section)) is not None:
                next(iter(groups.values())).append(("mean", system, mean))
        for measures, rows in groups.items():
            named = ["model"] if len(systems) > 1 else []
            yield FigureTable(
                _TITLES.get(section, section.capitalize()),
                ["data", *named, *(measure.replace("_", " ") for measure in measures)],
                [
                    [name, *([system["model"]] if named else []), *(_cell(figures, measure) for measure in measures)]
                    for name, system, figures in rows
                ],
            )


def form_tables(system: Mapping[str, Any]) -> Iterator[FigureTable]:
    """Yield a table of the forms of storage for each set, from the results of ``evaluate --forms``."""
    for name, forms in system.get("forms", {}).items():
        measures = _measures(next(iter(forms.values())))
        rows = [[form, *(_cell(figures, measure) for measure in measures)] for form, figures in forms.items()]
        yield FigureTable(f"{name}, kept as", ["form", *(measure.replace("_", " ") for measure in measures)], rows)


def _measures(figures: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(
        name for name, value in figures.items() if not name.endswith("_interval") and not isinstance(value, Mapping)
    )


def _cell(figures: Mapping[str, Any], measure: str) -> str:
    value = figures.get(measure)
    if not isinstance(value, float):
        return "" if value is None else f"{value:,}"
    if measure == "p_value":
        return shown_p_value(value)
    bounds = figures.get(f"{measure}_interval")
    return f"{value:.2f}" + (f" ({bounds[0]:.1f} to {bounds[1]:.1f})" if bounds else "")


def shown_p_value(value: float) -> str:
    """Format a p-value: two decimals, or "< 0.01", because 0.00 would claim certainty."""
    return "< 0.01" if value < 0.01 else f"{value:.2f}"
