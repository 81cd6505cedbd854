"""The machines, hours, memory, disk and network that a collection of a given size needs, from the measured tables.

    python benchmarks/plan.py [--chunks 1e6 1e8 1e9] [--days 1] [--copies 2] [--dim 384] [--text-bytes 1000]
        [--cores 16] [--node-memory 64] [--output benchmarks/PLAN.md]

The program measures nothing. It multiplies figures of three tables, so the plan changes with the tables: the texts
encoded per second in RESULTS.md and, on a GPU, in GPU.md; the bytes on disk and the time to build an index in
QDRANT.md. Three figures are not measured. The memory of vectors and graph follows from their sizes, and the bytes sent
from the protocol. The number of terms of a text is estimated.

Pass the figures of your own texts: ``--text-bytes`` is the mean size of a chunk, and ``--rate`` the number of texts
that one of your cores encodes per second (``twinvec encode`` shows it).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from pathlib import Path

TABLES = Path(__file__).parent

SIZES = (1e6, 1e8, 1e9)
ENGINES = ("float32", "int8")
IN_MEMORY = {"none": 1.0, "int8": 1 / 4, "turbo": 1 / 8, "binary": 1 / 32}
"""Share of a vector that lies in memory: the whole vector, or its quantised copy if the vector is on the disk."""

MEASURED_CORES = 2
MEASURED_DIM = 384
EDGES = 2 * 16 * 1.03
"""Links of a point: 2 m on the lowest layer of HNSW with m = 16, and those of the layers above it."""

LINK_BYTES = 4
ID_BYTES = 50
"""The id, its version and its place, which a server keeps in memory too (estimated)."""

TERM_BYTES, TEXT_BYTES_OF_A_TERM = 16, 11
"""Size of a term in the sparse vector and in its index, and bytes of text for each distinct term (estimated)."""

FLOAT_BYTES = 4
SPARE = 1.3
"""Factor of memory for searches, for segments that are merged, and for growth."""

GIB, HOUR = 2**30, 3600.0


@dataclass(frozen=True)
class Measured:
    """Figures from the tables. All rates are those of one core, except ``gpu``.

    Attributes:
        texts: Passages that one core encodes per second, by precision.
        gpu: Passages that one GPU encodes per second in float16.
        indexed: Vectors that one core adds to an index per second.
        disk: Bytes on the disk for each chunk, without the index's small copies.
    """

    texts: dict[str, float]
    gpu: float
    indexed: float
    disk: float


def measured() -> Measured:
    """Read the tables."""
    encoding, gpu = ((TABLES / name).read_text().split("## Passages")[1] for name in ("RESULTS.md", "GPU.md"))
    collections = (TABLES / "QDRANT.md").read_text()
    texts = {each: float(row(encoding, f"| twinvec, openvino, cpu, {each} |")[1]) for each in ENGINES}
    largest = row(collections, "| 200,000 | embedded, none |")
    return Measured(
        {each: rate / MEASURED_CORES for each, rate in texts.items()},
        float(row(gpu, "| twinvec, torch, cuda, float16 |")[1]),
        200_000 / float(largest[2]) / MEASURED_CORES,
        float(largest[6].replace(",", "")),
    )


def row(table: str, start: str) -> list[str]:
    """Return the cells of the row with the given beginning."""
    line = next(each for each in table.splitlines() if each.startswith(start))
    return [each.strip() for each in line.strip("|").split("|")]


def plan(options: argparse.Namespace) -> str:
    """Return the plan as Markdown."""
    known = measured()
    rates = {each: options.rate or rate for each, rate in known.texts.items()}
    about = (
        "Computed by `python benchmarks/plan.py` from [RESULTS.md](RESULTS.md), [GPU.md](GPU.md) and "
        f"[QDRANT.md](QDRANT.md): vectors of {options.dim} dimensions, chunks of {options.text_bytes:,.0f} bytes, "
        f"{options.copies} copies of every shard. One core encodes {rates['float32']:.0f} passages a second in "
        f"float32, and {rates['int8']:.0f} in int8. One H200 encodes {known.gpu:,.0f} passages a second in float16, "
        "while 16 cores of its machine tokenise."
    )
    sections = [
        "# Sizes",
        about,
        "## Encoding and indexing",
        encoding(options, rates, known),
        "## Memory of the servers, all copies together",
        memory(options),
        "## Disk and network",
        storage(options, known),
    ]
    return "\n\n".join(sections) + "\n"


def encoding(options: argparse.Namespace, rates: dict[str, float], known: Measured) -> str:
    """Return the table of core hours for encoding and indexing."""
    lines = [
        f"| chunks | core hours, float32 | core hours, int8 | workers of {options.cores} cores to encode in "
        f"{options.days:g} day{'' if options.days == 1 else 's'}, float32 | int8 | hours of one GPU, float16 "
        "| core hours of the index, each copy |",
        "| ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for chunks in options.chunks:
        hours = {each: chunks / rate / HOUR for each, rate in rates.items()}
        workers = {each: math.ceil(taken / (24 * options.days * options.cores)) for each, taken in hours.items()}
        index = chunks / known.indexed / HOUR
        lines.append(
            f"| {chunks:,.0f} | {hours['float32']:,.0f} | {hours['int8']:,.0f} | {workers['float32']:,} | "
            f"{workers['int8']:,} | {chunks / known.gpu / HOUR:,.2f} | {index:,.1f} |"
        )
    return "\n".join(lines)


def memory(options: argparse.Namespace) -> str:
    """Return the table of memory, by quantisation, and the number of nodes that hold it."""
    lines = [
        f"| chunks | quantisation | vectors lie | GiB | nodes of {options.node_memory:g} GiB |",
        "| ---: | --- | --- | ---: | ---: |",
    ]
    for chunks in options.chunks:
        for quantization, share in IN_MEMORY.items():
            point = options.dim * FLOAT_BYTES * share + EDGES * LINK_BYTES + ID_BYTES
            needed = options.copies * chunks * point * SPARE / GIB
            place = "in memory" if quantization == "none" else "on the disk"
            nodes = max(options.copies, math.ceil(needed / options.node_memory))
            lines.append(f"| {chunks:,.0f} | {quantization} | {place} | {needed:,.1f} | {nodes:,} |")
    return "\n".join(lines)


def storage(options: argparse.Namespace, known: Measured) -> str:
    """Return the table of bytes on disk and over the network."""
    lines = [
        "| chunks | disk GiB, all copies | with int8 | sent to the servers over gRPC, GiB | over REST, GiB | "
        "vectors as float32 Parquet, GiB |",
        "| ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    others = known.disk - MEASURED_DIM * FLOAT_BYTES  # payload, record, words and graph
    words = TERM_BYTES * options.text_bytes / TEXT_BYTES_OF_A_TERM
    point = others + options.dim * FLOAT_BYTES + options.text_bytes + words
    digits = 11  # a float32 as text, with its comma
    for chunks in options.chunks:
        sent = {
            "grpc": options.dim * FLOAT_BYTES + options.text_bytes + words,
            "rest": options.dim * digits + options.text_bytes + 2 * words,
        }
        cells = [
            options.copies * point,
            options.copies * (point + options.dim),
            sent["grpc"],
            sent["rest"],
            options.dim * FLOAT_BYTES,
        ]
        lines.append(f"| {chunks:,.0f} | " + " | ".join(f"{chunks * each / GIB:,.1f}" for each in cells) + " |")
    return "\n".join(lines)


def parsed(arguments: list[str] | None = None) -> argparse.Namespace:
    """Return the options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=float, nargs="+", default=SIZES)
    parser.add_argument("--days", type=float, default=1.0, help="days in which all chunks are to be encoded")
    parser.add_argument("--copies", type=int, default=2, help="number of copies of every shard")
    parser.add_argument("--dim", type=int, default=MEASURED_DIM)
    parser.add_argument("--text-bytes", type=float, default=1000.0, help="mean size of a chunk")
    parser.add_argument("--cores", type=int, default=16, help="number of cores of a machine that encodes")
    parser.add_argument("--node-memory", type=float, default=64.0, help="memory of a server's node, in GiB")
    parser.add_argument("--rate", type=float, help="texts that one core encodes per second, if you have measured yours")
    parser.add_argument("--output", type=Path, help="also write the plan to this file")
    return parser.parse_args(arguments)


def main() -> None:
    options = parsed()
    text = plan(options)
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
