"""Encoding on Ray: two workers against one, Ray against plain processes, spilled objects and the memory of the driver.

    python benchmarks/on_ray.py [--passages 20000] [--scaling 4000] [--rounds 3] [--documents 200000]
        [--output benchmarks/RAY.md]

Each measurement runs in a separate process, on a cluster of two CPUs on this machine. The time includes loading the
model, but not the start of the cluster: a small dataset without twinvec is read and written first. There are three
comparisons:

- two workers against one worker, each with one thread;
- two plain processes against one, each with one thread: the ratio that this machine allows, without Ray. The processes
  get batches of the same size and have the same niceness as Ray's workers, so other programs slow both down alike;
- two workers against a plain process with all cores.

The runs of a comparison alternate between its two sides, and begin and end with the same side. Each run of the other
side is compared with the mean time of the runs before and after it, because the speed of a machine changes. The table
has the median of these ratios, and the smallest and largest one. A second table has the CPU time of all processes of
Ray in the runs of the first comparison. Then 10,000 and ``--documents`` documents of one word are read from Parquet,
encoded and written. The last table has the largest memory of the driver, and the bytes that the object store has
spilled to disk. An option of ``0`` leaves its measurements out.

This file is not named ``ray.py``, because such a module would hide the package.
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import logging
import multiprocessing
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from statistics import mean, median
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from encoding import KINDS, documentation, make_texts, processor

FEW = 10_000
FILES = 8
ONE, TWO = "ray-1", "ray-2"  # workers of one thread
PLAIN_ONE, PLAIN_TWO = "plain-1", "plain-2"  # processes of one thread
ALL_CORES = "all-cores"  # one process
NAMES = {
    ONE: "one worker of one thread",
    TWO: "two workers of one thread",
    PLAIN_ONE: "a plain process, one thread",
    PLAIN_TWO: "two plain processes, one thread each",
    ALL_CORES: "a plain process, all cores",
}
NICENESS = 15  # of Ray's workers
WORKERS, DRIVER, OTHERS = "workers", "driver", "others"
SAMPLE_SECONDS = 2.0

_encoder: Any = None  # of a plain process


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--passages", type=int, default=20_000, help="passages to compare Ray with a plain process")
    parser.add_argument("--scaling", type=int, default=4000, help="passages to compare two workers with one")
    parser.add_argument("--rounds", type=int, default=3, help="runs of two workers in each comparison")
    parser.add_argument("--documents", type=int, default=200_000, help="documents to measure the memory of the driver")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    parser.add_argument("--measure", nargs=3, metavar=("TEXTS", "SIDE", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measured(*options.measure)))
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
    compared = [
        (options.scaling, ONE, TWO),
        (options.scaling, PLAIN_ONE, PLAIN_TWO),
        (options.passages, ALL_CORES, TWO),
    ]
    lines = [
        "# Ray: results\n",
        f"{processor()}. Command: `python benchmarks/on_ray.py {' '.join(sys.argv[1:])}`.\n",
        "| passages | encoded by | texts/s | encoded by | texts/s | ratio | smallest and largest |",
        "| ---: | --- | ---: | --- | ---: | ---: | ---: |",
    ]
    used = []
    for count, before, after in compared:
        if count:
            texts = files_of(folder / f"{count}", passages[:count])
            runs = [run(texts, side) for side in [*[before, after] * options.rounds, before]]
            lines.append(_row(count, before, after, [each["seconds"] for each in runs]))
            if before == ONE:
                used = [_used(count, before, runs[::2]), _used(count, after, runs[1::2])]
    lines += _cpu(used)
    if options.documents:
        lines += _memory(folder, make_texts(words, options.documents, 1, 1))
    return "\n".join(lines) + "\n"


def _cpu(rows: list[str]) -> list[str]:
    """Return the table of CPU time; none without rows."""
    if not rows:
        return []
    return [
        "",
        "| CPU time on Ray | workers, s per 1,000 texts | driver, % of a core | Ray's other processes, % of a core |",
        "| --- | ---: | ---: | ---: |",
        *rows,
    ]


def _used(texts: int, side: str, runs: list[dict[str, Any]]) -> str:
    """Return the row of the CPU time of all processes in the runs of a side."""
    seconds = sum(each["seconds"] for each in runs)
    total = {kind: sum(each["cpu"].get(kind, 0.0) for each in runs) for kind in (WORKERS, DRIVER, OTHERS)}
    shares = " | ".join(f"{100 * total[kind] / seconds:.1f}" for kind in (DRIVER, OTHERS))
    return f"| {NAMES[side]} | {1000 * total[WORKERS] / (texts * len(runs)):.1f} | {shares} |"


def _memory(folder: Path, texts: list[str]) -> list[str]:
    lines = [
        "",
        "| documents of one word | largest memory of the driver, MB | spilled, MB | seconds |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for count in (FEW, len(texts)):
        each = run(files_of(folder / f"words-{count}", texts[:count]), TWO)
        lines.append(
            f"| {count:,} | {each['memory'] / 2**20:.0f} | {each['spilled'] / 2**20:.0f} | {each['seconds']:.0f} |"
        )
    return lines


def _row(texts: int, before: str, after: str, seconds: list[float]) -> str:
    """Return the row of a comparison. ``seconds`` alternates between both sides, in the order of the runs."""
    firsts, seconds_of_two = seconds[::2], seconds[1::2]
    ratios = [mean(around) / two for around, two in zip(itertools.pairwise(firsts), seconds_of_two, strict=True)]
    return (
        f"| {texts:,} | {NAMES[before]} | {texts / median(firsts):.0f} "
        f"| {'Ray, ' if before == ALL_CORES else ''}{NAMES[after]} | {texts / median(seconds_of_two):.0f} | "
        f"{median(ratios):.2f} | {min(ratios):.2f} to {max(ratios):.2f} |"
    )


def files_of(folder: Path, texts: list[str]) -> Path:
    """Write texts to a folder of Parquet files."""
    folder.mkdir(exist_ok=True)
    size = -(-len(texts) // FILES)
    for number, start in enumerate(range(0, len(texts), size)):
        pq.write_table(pa.table({"text": texts[start : start + size]}), folder / f"{number}.parquet")
    return folder


def run(texts: Path, side: str) -> dict[str, Any]:
    """Measure in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--measure", str(texts), side, folder]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def measured(texts: str, side: str, folder: str) -> dict[str, Any]:
    """Encode a folder of texts with the workers or processes of a side of ``NAMES``.

    Return the seconds, the largest memory of this process, the bytes that were spilled and, for Ray, the CPU seconds.
    """
    if side not in (ONE, TWO):
        started = time.perf_counter()
        if side == ALL_CORES:
            encode_alone(texts, folder)
        else:
            encode_in_processes(texts, 1 if side == PLAIN_ONE else 2, folder)
        return {"seconds": time.perf_counter() - started, "memory": peak(), "spilled": 0}
    import ray

    import twinvec_ray

    ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level=logging.ERROR)
    rows = ray.data.range(1000).repartition(8).map_batches(lambda batch: batch)
    rows.write_parquet(f"{folder}/first")  # starts Ray's workers
    time.sleep(5)  # Ray replaces idle workers in the background
    with cpu_times() as cpu:
        started = time.perf_counter()
        encoded = twinvec_ray.encode(twinvec_ray.read(texts), num_workers=1 if side == ONE else 2)
        twinvec_ray.write(encoded, f"{folder}/vectors.parquet")
        seconds = time.perf_counter() - started
    spilled = spilled_bytes(ray.get_runtime_context().gcs_address)
    return {"seconds": seconds, "memory": peak(), "spilled": spilled, "cpu": cpu}


@contextmanager
def cpu_times() -> Iterator[dict[str, float]]:
    """Yield a dict which, after the block, has the CPU seconds of the workers, the driver and Ray's other processes.

    A process that ends in the block lacks the seconds since the last sample.
    """
    found: dict[str, float] = {}
    first, last, over = _cpu_now(), {}, threading.Event()

    def follow() -> None:
        while not over.wait(SAMPLE_SECONDS):
            last.update(_cpu_now())

    thread = threading.Thread(target=follow)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()
    last.update(_cpu_now())
    for key, (kind, seconds) in last.items():
        found[kind] = found.get(kind, 0.0) + seconds - first.get(key, (kind, 0.0))[1]


def _cpu_now() -> dict[tuple[int, float], tuple[str, float]]:
    """Return the kind and the CPU seconds of this process and of all that it has started, by id and start time."""
    psutil: Any = importlib.import_module("psutil")  # comes with Ray
    driver, found = psutil.Process(), {}
    for process in (driver, *driver.children(recursive=True)):
        try:
            command, used = " ".join(process.cmdline()), process.cpu_times()
            kind = DRIVER if process == driver else WORKERS if "BatchEncoder" in command else OTHERS
            found[process.pid, process.create_time()] = (kind, used.user + used.system)
        except psutil.Error:
            continue  # the process has ended
    return found


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


def encode_in_processes(texts: str, processes: int, folder: str) -> None:
    """Encode with processes of one thread, each with a model of its own, which take batches of the size of Ray's."""
    from twinvec_ray.encoding import BATCH_ROWS

    table = pa.concat_tables([pq.read_table(path) for path in sorted(Path(texts).iterdir())])
    batches = [table.slice(start, BATCH_ROWS) for start in range(0, len(table), BATCH_ROWS)]
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), initializer=_start) as pool:
        pq.write_table(pa.concat_tables(pool.map(_encode, batches)), Path(folder) / "vectors.parquet")


def _start() -> None:
    """Load the model of a plain process."""
    global _encoder
    from twinvec_ray.encoding import BatchEncoder
    from twinvec_ray.recipes import encoder_recipe

    os.nice(NICENESS)
    _encoder = BatchEncoder(encoder_recipe("default", {}), 1, "text", "vector", None, None)


def _encode(table: pa.Table) -> pa.Table:
    return _encoder(table)


def peak() -> int:
    """Return the largest memory of this process so far, in bytes."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


if __name__ == "__main__":
    main()
