"""The command ``twinvec export``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from twinvec.cli.options import (
    MODEL_HELP,
    WAIT_SECONDS,
    AsJson,
    GrpcPort,
    StorePath,
    StoreUrl,
    TextField,
    Wait,
    check_field,
    open_collection,
)

_COLLECTION_TEXTS = 5000


def export_command(
    ctx: typer.Context,
    model: Annotated[str, typer.Argument(metavar="MODEL", help=MODEL_HELP)],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FOLDER", help="Folder to create or to extend.")],
    engine: Annotated[
        Literal["openvino", "onnx"],
        typer.Option(help="Engine that runs the graph. FastEmbed can load the onnx export as well."),
    ] = "openvino",
    precision: Annotated[
        Literal["float32", "int8"], typer.Option(help="int8 is several times faster and nearly as accurate.")
    ] = "float32",
    calibrate: Annotated[
        Path | None,
        typer.Option(
            metavar="TEXTS", help="Texts for calibration: one text a line (.txt), or one object a line (.jsonl)."
        ),
    ] = None,
    field: TextField = "text",
    calibrate_collection: Annotated[
        str | None, typer.Option(metavar="NAME", help="Calibrate on the texts of this collection instead.")
    ] = None,
    dims: Annotated[
        list[int] | None,
        typer.Option("--dim", min=1, help="Prepare int8 storage of vectors truncated to N dimensions. Repeatable."),
    ] = None,
    path: StorePath = None,
    url: StoreUrl = None,
    grpc_port: GrpcPort = None,
    wait: Wait = WAIT_SECONDS,
    as_json: AsJson = False,
) -> None:
    """Export a model that runs without torch, in float32 or int8.

    The folder holds the model and its graph. An int8 graph is calibrated on one sample of your texts and measured
    on another. An int8 graph that loses too much accuracy is kept, but only --precision int8 uses it. The texts also
    give the value ranges that int8 storage of vectors needs.

    \b
    twinvec export default -o models/fast --precision int8 --calibrate texts.txt
    twinvec export default -o models/onnx --engine onnx
    twinvec export mine -o mine --calibrate-collection docs --precision int8
    """
    from dataclasses import asdict

    from twinvec.cli.terminal import properties, show, show_json
    from twinvec.export.model import export_model
    from twinvec.support.cpu import sums_bytes_exactly
    from twinvec.support.lines import read_texts
    from twinvec.tokens.truncation import unreported_truncations

    if calibrate is not None and calibrate_collection is not None:
        raise typer.BadParameter("give --calibrate or --calibrate-collection, not both")
    if calibrate is None and calibrate_collection is None and (precision == "int8" or dims):
        raise typer.BadParameter(
            "--precision int8 and --dim need texts of the kind that will be encoded: give --calibrate or "
            "--calibrate-collection"
        )
    check_field(ctx, calibrate)
    texts = None if calibrate is None else read_texts(calibrate, field)
    if calibrate_collection is not None:
        texts = _texts_of(calibrate_collection, path, url=url, wait=wait, grpc_port=grpc_port)
    with unreported_truncations():  # no warnings, which would name temporary copies of the model
        report = export_model(model, output, engine=engine, precision=precision, calibrate=texts, dims=dims or ())
    if as_json:
        show_json(asdict(report) | {"folder": str(report.folder), "graph": str(report.graph)})
        return
    lines = {name.replace("_", " "): f"{value:.6g}" for name, value in report.quality.items()}
    if report.precision == "int8":
        lines["texts"] = f"{report.calibrated_on:,} for calibration, {report.measured_on:,} for measurement"
        here = "" if sums_bytes_exactly() else "; slower than float32 here: neither VNNI nor AMX was found"
        used = "yes" if report.passed else "no: too far from float32; --precision int8 uses it"
        lines["used by default"] = used + here
    show(f"{report.folder}: {engine}, {precision}", properties(lines))


def _texts_of(name: str, path: Path | None, **opening: Any) -> Iterator[str]:
    """Yield the texts of a collection's documents; if there are more than ``_COLLECTION_TEXTS``, of a random sample.

    ``opening`` has options of ``open_collection``.
    """
    import random

    with open_collection(name, path, **opening) as collection:
        ids = sorted(collection.find())
        chosen = ids if len(ids) <= _COLLECTION_TEXTS else random.Random(0).sample(ids, _COLLECTION_TEXTS)
        for document in collection.get(chosen):
            yield document.text
