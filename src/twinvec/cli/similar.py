"""The commands ``twinvec pairs`` and ``twinvec cluster``."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Annotated, Literal

import typer

from twinvec.cli.options import AsJson, Model, PrecisionOption, wrong_usage
from twinvec.cli.terminal import show, show_json, table

Source = Annotated[
    Path, typer.Argument(metavar="INPUT", help="One text a line (.txt), or objects with 'text' (.jsonl).")
]
_THRESHOLD = 0.7
_SHOWN_CHARACTERS = 70  # of each text in a table


def pairs_command(
    source: Source,
    model: Model = "default",
    limit: Annotated[int, typer.Option(min=1, help="Number of pairs.")] = 20,
    threshold: Annotated[float | None, typer.Option(help="Only pairs with at least this cosine.")] = None,
    precision: PrecisionOption = "auto",
    as_json: AsJson = False,
) -> None:
    """Find the most similar pairs of texts. The search is exact: it compares all distinct texts.

    \b
    twinvec pairs questions.txt --limit 50
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.tsv import read_nonblank_texts
    from twinvec.similarity import check_cosine, most_similar_pairs
    from twinvec.support.progress import progress_bar

    with wrong_usage():
        check_cosine(threshold)
    texts = list(dict.fromkeys(read_nonblank_texts(source)))
    vectors = Encoder(model, precision=precision).encode(texts, progress=True)
    with progress_bar("Comparing", None, ""):
        scores, rows = most_similar_pairs(vectors, limit, threshold=threshold)
    found = [(float(score), texts[a], texts[b]) for score, (a, b) in zip(scores, rows.tolist(), strict=True)]
    if as_json:
        pairs = [{"score": score, "first": first, "second": second} for score, first, second in found]
        show_json({"texts": len(texts), "pairs": pairs})
        return
    lines = table(f"{len(texts):,} distinct texts", "cosine", "first", "second", numbers=("cosine",))
    for score, first, second in found:
        lines.add_row(f"{score:.4f}", _shown(first, _SHOWN_CHARACTERS), _shown(second, _SHOWN_CHARACTERS))
    show(lines)


def cluster_command(
    source: Source,
    model: Model = "default",
    method: Annotated[Literal["density", "kmeans", "agglomerative"], typer.Option(help="Algorithm.")] = "density",
    clusters: Annotated[int | None, typer.Option(min=1, help="Number of clusters (kmeans, agglomerative).")] = None,
    threshold: Annotated[
        float | None,
        typer.Option(help=f"Smallest cosine in a cluster (density, agglomerative). Default: {_THRESHOLD}."),
    ] = None,
    min_size: Annotated[int, typer.Option(min=1, help="Smallest number of texts in a cluster (density).")] = 3,
    map_file: Annotated[Path | None, typer.Option("--map", help="Draw a 2-D map into this PNG file.")] = None,
    precision: PrecisionOption = "auto",
    as_json: AsJson = False,
) -> None:
    """Group similar texts. The most typical text of a cluster names it.

    \b
    twinvec cluster questions.txt --threshold 0.7 --map questions.png
    """
    from twinvec.encoder import Encoder
    from twinvec.evaluation.report.plots import cluster_map, import_matplotlib
    from twinvec.evaluation.tsv import read_nonblank_texts
    from twinvec.similarity import check_clustering, cluster, medoids
    from twinvec.support.checks import check_output_file, check_overwrites
    from twinvec.support.progress import progress_bar

    if method == "kmeans" and clusters is None:
        raise typer.BadParameter("kmeans needs the number of clusters, such as --clusters 20")
    if threshold is None and clusters is None:
        threshold = _THRESHOLD
    with wrong_usage():
        check_clustering(method, clusters, threshold)
    if map_file is not None:
        import_matplotlib()
        check_output_file(map_file)
        check_overwrites(map_file, source)
    texts = list(dict.fromkeys(read_nonblank_texts(source)))
    check_clustering(method, clusters, threshold, len(texts))
    vectors = Encoder(model, precision=precision).encode(texts, progress=True)
    with progress_bar("Clustering", None, ""):
        labels = cluster(vectors, method, clusters=clusters, threshold=threshold, min_size=min_size)
    typical = {label: texts[row] for label, row in medoids(vectors, labels).items()}
    if map_file is not None:
        with progress_bar("Drawing", None, ""):
            cluster_map(vectors, labels, typical, map_file)
    members: dict[int, list[str]] = {label: [] for label in (*typical, -1)}
    for text, label in zip(texts, labels.tolist(), strict=True):
        members[label].append(text)
    alone = members.pop(-1)
    if as_json:
        groups = [{"typical": typical[label], "texts": members[label]} for label in typical]
        show_json({"clusters": groups, "alone": alone})
        return
    counted = "1 cluster" if len(typical) == 1 else f"{len(typical):,} clusters"
    title = f"{counted}, {len(alone):,} of {len(texts):,} texts alone"
    if not typical:
        typer.echo(title)
        return
    lines = table(title, "texts", "most typical", numbers=("texts",))
    for label, text in typical.items():
        lines.add_row(f"{len(members[label]):,}", _shown(text, 2 * _SHOWN_CHARACTERS))
    show(lines)


def _shown(text: str, length: int) -> str:
    """Return the first ``length`` printable characters of a text, in one line."""
    return textwrap.shorten("".join(c if c.isprintable() else " " for c in text), length, placeholder=" …")
