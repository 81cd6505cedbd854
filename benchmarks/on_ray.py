"""Encoding on Ray: two workers against one, Ray against a plain process, spilled objects and the memory of the driver.

    python benchmarks/on_ray.py [--passages 20000] [--scaling 4000] [--rounds 3] [--documents 200000]
        [--output benchmarks/RAY.md]

Each measurement runs in a separate process, on a cluster of two CPUs on this machine. The time includes loading the
model, but not the start of the cluster: a small dataset without twinvec is read and written first. There are two
comparisons on the same passages: two workers against one worker, each with one thread, and two workers against a plain
process with all cores. Both sides take turns: the other side begins and ends. Each run of two workers is compared
with the mean time of the runs before and after it, because the speed of a machine changes. The table has the median of
these ratios, and the smallest and largest one. Then 10,000 and ``--documents`` documents of one word are
read from Parquet, encoded and written. The table has the largest memory of the driver, and the bytes that the object
store has spilled to disk. An option of ``0`` leaves its measurement out.

This file is not named ``ray.py``, because such a module would hide the package.
"""

from __future__ import annotations

import argparse
import itertools
import json
import logging
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from encoding import KINDS, documentation, make_texts, processor

FEW = 10_000
FILES = 8


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=20_000, help="passages to compare Ray with a plain process")
    parser.add_argument("--scaling", type=int, default=4000, help="number of passages to compare two workers with one")
    parser.add_argument("--rounds", type=int, default=3, help="runs of two workers in each comparison")
    parser.add_argument("--documents", type=int, default=200_000, help="documents to measure the memory of the driver")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    parser.add_argument("--measure", nargs=3, metavar=("TEXTS", "WORKERS", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(options.measure[0], int(options.measure[1]), options.measure[2])))
        return
    words = documentation()
    with tempfile.TemporaryDirectory() as folder:
        text = report(Path(folder), words, options)
    print(text)
    if options.output:
        options.output.write_text(text, encoding="utf-8")


def report(folder: Path, words: list[str], options: argparse.Namespace) -> str:
    """Measure everything; return the tables."""
    passages = make_texts(words, max(options.passages, options.scaling), *KINDS["passages"])
    one, two = "one worker of one thread", "two workers of one thread"
    compared = [(options.scaling, one, 1, two), (options.passages, "a plain process, all cores", 0, f"Ray, {two}")]
    lines = [
        "# Ray: results\n",
        f"{processor()}. Command: `python benchmarks/on_ray.py {' '.join(sys.argv[1:])}`.\n",
        "| passages | encoded by | texts/s | encoded by | texts/s | ratio | smallest and largest |",
        "| ---: | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for count, before, workers, after in compared:
        if count:
            texts = files_of(folder / f"{count}", passages[:count])
            seconds = [run(texts, side)["seconds"] for side in [*[workers, 2] * options.rounds, workers]]
            lines.append(_row(count, before, after, seconds))
    if options.documents:
        lines += _memory(folder, make_texts(words, options.documents, 1, 1))
    return "\n".join(lines) + "\n"


def _memory(folder: Path, texts: list[str]) -> list[str]:
    lines = [
        "",
        "| documents of one word | largest memory of the driver, MB | spilled, MB | seconds |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for count in (FEW, len(texts)):
        each = run(files_of(folder / f"words-{count}", texts[:count]), 2)
        lines.append(
            f"| {count:,} | {each['memory'] / 2**20:.0f} | {each['spilled'] / 2**20:.0f} | {each['seconds']:.0f} |"
        )
    return lines


def _row(texts: int, before: str, after: str, seconds: list[float]) -> str:
    """Return the row of a comparison. The seconds of both sides take turns, as they were measured."""
    firsts, seconds_of_two = seconds[::2], seconds[1::2]
    ratios = [mean(around) / two for around, two in zip(itertools.pairwise(firsts), seconds_of_two, strict=True)]
    return (
        f"| {texts:,} | {before} | {texts / median(firsts):.0f} | {after} | {texts / median(seconds_of_two):.0f} | "
        f"{median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
    )


def files_of(folder: Path, texts: list[str]) -> Path:
    """Write texts to a folder of Parquet files."""
    folder.mkdir(exist_ok=True)
    size = -(-len(texts) // FILES)
    for number, start in enumerate(range(0, len(texts), size)):
        pq.write_table(pa.table({"text": texts[start : start + size]}), folder / f"{number}.parquet")
    return folder


def run(texts: Path, workers: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--measure", str(texts), str(workers), folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(texts: str, workers: int, folder: str) -> dict[str, Any]:
    """Encode a folder of texts with Ray workers, or in this process for 0 workers; return what was measured."""
    if not workers:
        started = time.perf_counter()
        encode_alone(texts, folder)
        return {"seconds": time.perf_counter() - started, "memory": peak(), "spilled": 0}
    import ray

    import twinvec_ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    rows = ray.data.range(1000).repartition(8).map_batches(lambda batch: batch)
    rows.write_parquet(f"{folder}/first")  # starts Ray's workers
    time.sleep(5)  # Ray replaces idle workers in the background
    started = time.perf_counter()
    encoded = twinvec_ray.encode(twinvec_ray.read(texts), num_workers=workers)
    twinvec_ray.write(encoded, f"{folder}/vectors.parquet")
    seconds = time.perf_counter() - started
    spilled = spilled_bytes(ray.get_runtime_context().gcs_address)
    return {"seconds": seconds, "memory": peak(), "spilled": spilled}


def spilled_bytes(address: str) -> int:
    """Return the bytes that the object store of a cluster has spilled to disk so far."""
    from ray._private import internal_api

    api: Any = internal_api  # untyped
    return int(api.get_memory_info_reply(api.get_state_from_address(address)).store_stats.spilled_bytes_total)


def encode_alone(texts: str, folder: str) -> None:
    """Encode as Ray does, file by file, in this process."""
    from twinvec import Encoder
    from twinvec_ray.encoding import vector_array

    encoder = Encoder("default")
    for path in sorted(Path(texts).iterdir()):
        table = pq.read_table(path)
        vectors = encoder.encode(table.column("text").to_pylist())
        pq.write_table(table.append_column("vector", vector_array(vectors)), Path(folder) / path.name)


def peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
