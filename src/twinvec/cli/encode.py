"""The commands ``twinvec encode`` and ``twinvec similarity``."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from twinvec.cli.options import AsJson, Dim, Model, PrecisionOption, Ray, TextField, check_field, wrong_usage
from twinvec.engines import EngineName
from twinvec.engines.select import EngineChoice
from twinvec.storage import Storage
from twinvec.support.runners import place_of, ray_runner


def encode_command(
    ctx: typer.Context,
    source: Annotated[
        Path, typer.Argument(metavar="INPUT", help="Texts: one text a line (.txt), or one object a line (.jsonl).")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", metavar="FILE.npy", help="File for the vectors; with --ray, a folder NAME.parquet."
        ),
    ],
    model: Model = "default",
    prompt: Annotated[str | None, typer.Option(help="Name of the model's prompt, such as query or document.")] = None,
    field: TextField = "text",
    storage: Annotated[
        Storage | None, typer.Option(help="Number format of the stored vectors. Default: float32.")
    ] = None,
    dim: Dim = None,
    engine: Annotated[EngineName, typer.Option(help="Engine that computes the vectors.")] = "auto",
    precision: PrecisionOption = "auto",
    devices: Annotated[
        list[str] | None,
        typer.Option(
            "--device", help="cpu, cuda, cuda:1 or mps; repeat for several devices. Default: a GPU, else cpu."
        ),
    ] = None,
    ray: Ray = None,
    as_json: AsJson = False,
) -> None:
    """Encode the texts of a file into an array.

    The array has one row for each line, in order. Memory stays bounded for a file of any length. The array file appears
    when it is complete. With --ray, INPUT may also be Parquet or a URL such as s3://bucket/texts, and the output is a
    folder of Parquet files with the rows and their vectors.

    \b
    twinvec encode texts.txt -o vectors.npy
    twinvec encode asked.jsonl -o asked.npy --field question --prompt query
    twinvec encode texts.txt -o vectors.npy --device cuda:0 --device cuda:1
    """
    from twinvec.cli.terminal import show_json
    from twinvec.encoder import Encoder
    from twinvec.vector_files import encode_file

    if ray is not None:
        options = {"model": model, "field": field, "prompt": prompt, "storage": storage, "dim": dim}
        options |= {"engine": engine, "precision": precision}
        _encode_on(ray_runner(ray), source, output, devices, options, as_json=as_json)
        return
    if output.suffix.lower() not in ("", ".npy"):
        raise typer.BadParameter(
            f"{output}: without --ray, vectors are written to a file NAME.npy, a NumPy array; with --ray, to a folder "
            "NAME.parquet"
        )
    check_field(ctx, source)
    single = devices[0] if devices and len(devices) == 1 else None  # a single device computes in this process
    several = None if single else devices or None
    with wrong_usage():
        EngineChoice(engine, single, precision, several)  # refuses unknown devices
    encoder = Encoder(model, engine=engine, precision=precision, device=single, devices=several, dim=dim)
    start = time.perf_counter()
    shape = encode_file(encoder, source, output, field=field, prompt=prompt, storage=storage, progress=not as_json)
    seconds = time.perf_counter() - start
    if as_json:
        fields = {"texts": shape[0], "columns": shape[1], "truncated": encoder.truncated, "seconds": round(seconds, 3)}
        show_json({"output": str(output), "model": encoder.name, "space": encoder.space, **fields})
    else:
        cut = f", {encoder.truncated:,} texts truncated to {encoder.max_tokens} tokens" if encoder.truncated else ""
        typer.echo(f"{output}: {shape[0]:,} vectors of {shape[1]} numbers, {shape[0] / seconds:,.0f} texts/s{cut}")


def _encode_on(
    runner: Any, source: Path, output: Path, devices: list[str] | None, options: dict[str, Any], *, as_json: bool
) -> None:
    from twinvec.cli.terminal import show_json

    if devices and (len(devices) > 1 or devices[0] not in ("cpu", "cuda")):
        raise typer.BadParameter(
            "with --ray, give --device cpu or --device cuda, once; the cluster uses all of its devices"
        )
    start = time.perf_counter()
    done = runner.encode(
        place_of(source), place_of(output), use_gpu=devices == ["cuda"], progress=not as_json, **options
    )
    seconds = time.perf_counter() - start
    if as_json:
        show_json({"output": place_of(output), **done, "seconds": round(seconds, 3)})
    else:
        shape = f"{done['texts']:,} vectors of {done['columns']} numbers"
        typer.echo(f"{place_of(output)}: {shape}, {done['texts'] / seconds:,.0f} texts/s")


def similarity_command(
    first: Annotated[str, typer.Argument(metavar="TEXT", help="The text to compare.")],
    others: Annotated[list[str], typer.Argument(metavar="OTHER", help="Texts to compare with TEXT.")],
    model: Model = "default",
    precision: PrecisionOption = "auto",
    as_json: AsJson = False,
) -> None:
    """Compare one text with others by cosine similarity.

    \b
    twinvec similarity "a dog runs" "a puppy is running" "stocks fell"
    """
    from twinvec.cli.terminal import show, show_json, table
    from twinvec.encoder import Encoder

    encoder = Encoder(model, precision=precision)
    vectors_ND = encoder.encode([first, *others])
    cosines = encoder.similarity(vectors_ND[0], vectors_ND[1:])[0].tolist()
    scored = list(zip(others, cosines, strict=True))
    if as_json:
        show_json({"text": first, "similarities": [{"text": text, "score": score} for text, score in scored]})
        return
    lines = table(first, "cosine", "text", numbers=("cosine",))
    for text, score in scored:
        lines.add_row(f"{score:.4f}", text)
    show(lines)
