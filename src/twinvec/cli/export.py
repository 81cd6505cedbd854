"""The command ``twinvec export``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

_COLLECTION_TEXTS = 5000


def register(app: typer.Typer) -> None:
    """Add the command to ``twinvec``."""
    app.command("export")(export_command)


def export_command(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="default, a folder, or org/name[@commit] on the hub.")],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="The folder to make, or to add to.")],
    engine: Annotated[
        Literal["openvino", "onnx"], typer.Option(help="What the graph is for; FastEmbed reads onnx too.")
    ] = "openvino",
    precision: Annotated[
        Literal["float32", "int8"], typer.Option(help="int8 is several times faster and nearly as good.")
    ] = "float32",
    calibrate: Annotated[
        Path | None, typer.Option(metavar="TEXTS", help="Your own texts, one a line (.txt) or objects (.jsonl).")
    ] = None,
    field: Annotated[str, typer.Option(help="Where the text stands in an object of a .jsonl file.")] = "text",
    calibrate_collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Take the texts of this collection instead.")
    ] = None,
    dims: Annotated[
        list[int] | None,
        typer.Option("--dim", min=1, help="For int8 storage of vectors that are cut to so many dimensions, too."),
    ] = None,
    path: Annotated[Path | None, typer.Option(metavar="DIR", help="Folder of the collection's store.")] = None,
    url: Annotated[str | None, typer.Option(help="Server of the collection, in place of a folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")] = False,
) -> None:
    """Make a folder that computes without torch: the model with its graph, in float32 or int8.

    int8 is calibrated on a sample of your texts and measured on others of them; one that loses too much is
    kept, but used only where --precision int8 asks for it. From texts come also the ranges that
    int8 storage of vectors needs.

    \b
    twinvec export default -o models/fast --precision int8 --calibrate texts.txt
    twinvec export default -o models/onnx --engine onnx
    twinvec export models/mine -o models/mine --calibrate-collection docs --precision int8
    """
    from dataclasses import asdict

    from twinvec.cli.terminal import properties, show, show_json
    from twinvec.errors import ConfigurationError
    from twinvec.export.model import export_model
    from twinvec.support.lines import read_texts
    from twinvec.tokens.truncation import unreported_truncations

    if calibrate is not None and calibrate_collection is not None:
        raise ConfigurationError("--calibrate and --calibrate-collection exclude each other")
    texts = None if calibrate is None else read_texts(calibrate, field)
    if calibrate_collection is not None:
        texts = _texts_of(calibrate_collection, path, url)
    with unreported_truncations():  # of copies of the model in temporary folders, on a sample of the texts
        report = export_model(model, output, engine=engine, precision=precision, calibrate=texts, dims=dims or ())
    if as_json:
        show_json(asdict(report) | {"folder": str(report.folder), "graph": str(report.graph)})
        return
    lines = {name.replace("_", " "): f"{value:.6g}" for name, value in report.quality.items()}
    if report.precision == "int8":
        lines["texts"] = f"{report.calibrated_on:,} calibrated on, {report.measured_on:,} measured on"
        lines["used unasked"] = "yes" if report.passed else "no: too far from float32; --precision int8 uses it"
    show(f"{report.folder}: {engine}, {precision}", properties(lines))


def _texts_of(name: str, path: Path | None, url: str | None) -> Iterator[str]:
    """The texts of a collection's chunks, an even sample of them where there are many."""
    import random

    from twinvec.retrieval.open_collection import open_collection

    with open_collection(name, path, url=url) as collection:
        ids = sorted(collection.find())
        chosen = ids if len(ids) <= _COLLECTION_TEXTS else random.Random(0).sample(ids, _COLLECTION_TEXTS)
        for document in collection.get(chosen):
            yield document.text
