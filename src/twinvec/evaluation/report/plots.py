"""Plots as PNG files, drawn by matplotlib without a display."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.arrays import FloatArray, IntArray
from twinvec.errors import InputError
from twinvec.evaluation.bias import WinogenderResult
from twinvec.evaluation.serving import StorageVariant
from twinvec.evaluation.statistics import Values
from twinvec.support.atomic import replaced
from twinvec.support.extras import import_extra

COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7a5195", "#6b6b6b")
"""Colours that colour-blind people can tell apart: Okabe and Ito 2008 without the light yellow, and two more."""

_GREY = "#b9bec6"
_INK = "#222222"
_NAMED_CLUSTERS = 20


def bars(groups: Mapping[str, Mapping[str, tuple[float, Sequence[float] | None]]], path: Path) -> None:
    """Draw a group of bars for each set, with a bar for each system.

    ``groups`` is set -> system -> (figure, bounds of its interval or None).
    """
    systems = dict.fromkeys(system for group in groups.values() for system in group)
    colors = dict(zip(systems, cycle(COLORS), strict=False))
    lines = sum(len(group) for group in groups.values()) + len(groups)
    figure, (axes,) = _canvas(8.0, 1.0 + 0.2 * lines)
    position, ticks = 0.0, []
    for group in groups.values():
        ticks.append(position + (len(group) - 1) / 2)
        for system, (value, bounds) in group.items():
            axes.barh(position, value, height=0.84, color=colors[system])
            if bounds:
                axes.plot(bounds, [position, position], color=_INK, linewidth=1)
            axes.text(max([value, *(bounds or ())]) + 0.8, position, f"{value:.2f}", va="center", fontsize=8)
            position += 1
        position += 1
    axes.set_yticks(ticks, list(groups))
    axes.invert_yaxis()
    axes.margins(y=0.01)
    axes.set_xlim(right=axes.get_xlim()[1] * 1.08)  # leaves room for the numbers
    axes.set_xlabel("figure x 100; lines are 95% intervals", fontsize=9)
    handles = [axes.barh(0, 0, color=color) for color in colors.values()]
    axes.legend(handles, list(colors), loc="lower left", bbox_to_anchor=(0, 1), ncols=4, frameon=False, fontsize=8)
    _save(figure, path)


def differences(samples: Mapping[str, Values], first: str, second: str, path: Path) -> None:
    """Draw for each set the sorted differences of all items: the second system minus the first."""
    figure, grid = _canvas(8.0, 1.9 * len(samples), rows=len(samples))
    for axes, (name, values) in zip(grid, samples.items(), strict=True):
        ordered = np.sort(values)[::-1]
        places = np.linspace(0, 100, len(ordered))
        axes.fill_between(places, ordered, 0, where=ordered > 0, color=COLORS[1], step="mid", linewidth=0)
        axes.fill_between(places, ordered, 0, where=ordered < 0, color=COLORS[0], step="mid", linewidth=0)
        axes.axhline(0, color=_INK, linewidth=0.8)
        better, worse = np.mean(values > 0), np.mean(values < 0)
        axes.set_title(
            f"{name}, {len(values):,} queries: {second} better on {better:.0%}, {first} on {worse:.0%}, "
            f"equal on {1 - better - worse:.0%}",
            fontsize=9,
            loc="left",
        )
        axes.set_ylabel(f"{second}\nminus {first}", fontsize=8)
        axes.set_xlim(0, 100)
        low, high = axes.get_ylim()
        axes.set_ylim(min(low, -1), max(high, 1))  # so that a tiny difference looks tiny
    grid[-1].set_xlabel("queries in percent, ordered by the difference", fontsize=9)
    _save(figure, path)


def occupations(results: Mapping[str, WinogenderResult], path: Path) -> None:
    """Draw the lean of every occupation of Winogender against its share of women, a panel for each system."""
    figure, grid = _canvas(4.2 * len(results), 3.8, columns=len(results))
    for axes, (system, result) in zip(grid, results.items(), strict=True):
        percent = np.array([each.percent_female for each in result.occupations])
        lean = np.array([each.lean for each in result.occupations])
        axes.axhline(0, color=_INK, linewidth=0.8)
        axes.scatter(percent, lean, s=18, color=np.where(lean > 0, COLORS[1], COLORS[0]))
        for row in (row for row in np.argsort(-np.abs(lean))[:4] if lean[row]):
            name = result.occupations[row].occupation
            axes.annotate(name, (percent[row], lean[row]), (3, 3), textcoords="offset points", fontsize=7)
        axes.set_title(f"{system}: correlation {result.correlation / 100:.2f}", fontsize=9, loc="left")
        axes.set_xlabel("women in the occupation, percent", fontsize=9)
        axes.set_xlim(-4, 118)  # leaves room for names
        axes.margins(y=0.08)
    grid[0].set_ylabel("lean to male (below 0) or female (above 0)\ncosine x 100", fontsize=9)
    _save(figure, path)


def costs(sets: Mapping[str, Sequence[StorageVariant]], path: Path) -> None:
    """Draw quality against bytes per vector: a panel for each set, a numbered point for each storage variant."""
    figure, grid = _canvas(9.5, 3.8 * len(sets), rows=len(sets))
    for axes, (name, kept) in zip(grid, sets.items(), strict=True):
        measure = next(iter(kept[0].figures))
        for row, each in enumerate(kept):
            value = each.figures[measure]
            waited = f", {each.figures['ms_p50']:.1f} ms" if "ms_p50" in each.figures else ""
            label = f"{row + 1}  {each.form}: {value:.1f}{waited}"
            axes.scatter(each.bytes, value, s=42, color=COLORS[row % len(COLORS)], label=label, zorder=3)
            _number(axes, row + 1, (each.bytes, value), (0, 6 if row % 2 else -14), ha="center")
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.minorticks_off()
        axes.grid(axis="y", color="#e6e9ee", zorder=0)
        axes.margins(x=0.12, y=0.25)
        low, high = axes.get_ylim()
        middle = (low + high) / 2
        axes.set_ylim(min(low, middle - 2), max(high, middle + 2))  # so that a small difference looks small
        axes.set_title(f"{name}: quality against memory", fontsize=9, loc="left")
        axes.set_ylabel(f"{measure} x 100", fontsize=9)
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=8, labelspacing=0.8)
    grid[-1].set_xlabel("bytes a vector, on a logarithmic scale", fontsize=9)
    _save(figure, path)


def cluster_map(vectors: FloatArray, labels: IntArray, names: Mapping[int, str], path: Path) -> None:
    """Draw a 2-D map of vectors, (N, D), by t-SNE (van der Maaten and Hinton 2008); the largest clusters are named.

    ``labels``, (N,), is -1 for a vector without a cluster. Raises InputError if there are fewer than three vectors.
    """
    if len(vectors) < 3:
        raise InputError(f"a map needs at least three texts, got {len(vectors)}")
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(vectors) - 1) / 3)
    points = TSNE(metric="cosine", init="random", perplexity=perplexity, random_state=0).fit_transform(vectors)
    figure, (axes,) = _canvas(12.0, 7.0)
    alone = labels < 0
    axes.scatter(*points[alone].T, s=8, color=_GREY, linewidth=0)
    for label, name in names.items():
        members = points[labels == label]
        color = COLORS[label % len(COLORS)]
        short = textwrap.fill(textwrap.shorten(name, 90, placeholder=" …"), 48)
        listed = f"{label + 1}  {short} ({len(members)})" if label < _NAMED_CLUSTERS else None
        axes.scatter(*members.T, s=16, color=color, linewidth=0, label=listed)
        if listed is not None:
            middle = members[np.linalg.norm(members - np.median(members, axis=0), axis=1).argmin()]
            _number(axes, label + 1, middle, (4, 4))
    axes.set_xticks([])
    axes.set_yticks([])
    axes.spines[:].set_visible(False)
    named = f", the {_NAMED_CLUSTERS} largest named" if len(names) > _NAMED_CLUSTERS else ""
    title = f"{len(points):,} texts, {len(names):,} clusters{named}, {int(alone.sum()):,} alone (grey)"
    axes.set_title(title, fontsize=10, loc="left")
    if names:
        axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7, labelspacing=0.9)
    _save(figure, path)


def _number(axes: Any, number: int, point: Any, offset: tuple[int, int], **options: Any) -> None:
    from matplotlib.patheffects import withStroke

    halo = withStroke(linewidth=2.5, foreground="white")
    options |= {"fontsize": 8, "fontweight": "bold", "color": _INK, "path_effects": [halo]}
    axes.annotate(str(number), point, xytext=offset, textcoords="offset points", **options)


def import_matplotlib() -> Any:
    """Import matplotlib.figure; errors are those of ``import_extra``. Call this function before long work."""
    return import_extra("matplotlib.figure", "eval", "drawing a plot")


def _canvas(width: float, height: float, *, rows: int = 1, columns: int = 1) -> tuple[Any, Any]:
    figure = import_matplotlib().Figure(figsize=(width, height), dpi=150, layout="constrained")
    grid = np.atleast_1d(figure.subplots(rows, columns, sharey=columns > 1))
    for axes in grid:
        axes.spines[["top", "right"]].set_visible(False)
        axes.tick_params(labelsize=8)
    return figure, grid


def _save(figure: Any, path: Path) -> None:
    from matplotlib.text import Text

    for text in figure.findobj(Text):  # the names of systems and data may have dollar signs, which enclose formulas
        text.set_parse_math(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replaced(path) as partial:
        figure.savefig(partial, format="png")
