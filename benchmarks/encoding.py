"""Encoding against sentence-transformers: texts a second, in alternating rounds in one process.

    python benchmarks/encoding.py [--texts 400] [--rounds 3] [--output benchmarks/RESULTS.md]

Texts are made from the documentation of the Python standard library, in four kinds: short queries, passages, mixed and
long ones. Every contender encodes the same texts, one after another within a round; the ratio is the median over the
rounds of (its rate / the rate of the peer in that round), so that what else the machine does hits all alike. CPU time
is given beside it, since on a busy machine it tells more.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import platform
import random
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "json", "logging", "unittest", "urllib")
KINDS = {"short queries": (3, 10), "passages": (60, 140), "mixed": (3, 140), "long": (200, 400)}
PEER = "SentenceTransformer.encode"


@dataclass
class Contender:
    """One way to encode, with what was measured of it."""

    name: str
    encode: Callable[[list[str]], Any]
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    cosines: tuple[float, float] = (1.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=400, help="texts of each kind; long ones are a quarter of that")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="default")
    parser.add_argument("--output", type=Path, help="write the tables to this file too")
    options = parser.parse_args()
    words = documentation()
    parts = [describe_machine(options)]
    contenders = load(options.model)
    for kind, (least, most) in KINDS.items():
        count = options.texts // 4 if kind == "long" else options.texts
        texts = make_texts(words, count, least, most)
        parts.append(compare(kind, texts, contenders, options.rounds))
        print(parts[-1], flush=True)
    parts.append(latency(contenders, make_texts(words, options.texts // 2, 3, 10)))
    parts.append(f"Peak memory of the process, all contenders loaded: {peak_gigabytes():.2f} GB.\n")
    print("\n".join(parts[-2:]))
    if options.output:
        options.output.write_text("\n".join(parts), encoding="utf-8")


def load(model: str) -> list[Contender]:
    """The peer first."""
    from sentence_transformers import SentenceTransformer

    from twinvec import Encoder
    from twinvec.models import find_model

    peer = SentenceTransformer(str(find_model(model).path), device="cpu")
    contenders = [Contender(PEER, lambda texts: peer.encode(texts))]
    encoders = [Encoder(model, engine="torch", device="cpu"), Encoder(model, engine="openvino")]
    contenders += [Contender(f"twinvec, {encoder.engine.name}", encoder.encode) for encoder in encoders]
    return contenders


def compare(kind: str, texts: list[str], contenders: list[Contender], rounds: int) -> str:
    """Measure and give a table."""
    peer = contenders[0]
    expected = np.asarray(peer.encode(texts), dtype=np.float64)
    for contender in contenders:
        contender.rates, contender.cpu = [], []
        found = np.asarray(contender.encode(texts), dtype=np.float64)
        products = (expected * found).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(found, axis=1)
        contender.cosines = (float(products.mean()), float(products.min()))
    for turn in range(rounds):
        for contender in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
            start, cpu = time.perf_counter(), time.process_time()
            contender.encode(texts)
            contender.rates.append(len(texts) / (time.perf_counter() - start))
            contender.cpu.append(time.process_time() - cpu)
    lengths = [len(text.split()) for text in texts]
    rows = [
        f"| {each.name} | {median(each.rates):.0f} | {ratio(each.rates, peer.rates):.2f} "
        f"| {ratio(peer.cpu, each.cpu):.2f} | {each.cosines[0]:.6f} / {each.cosines[1]:.6f} |"
        for each in contenders
    ]
    return "\n".join(
        [
            f"## {kind.capitalize()}: {len(texts)} texts of {min(lengths)} to {max(lengths)} words\n",
            "| | texts/s | ratio | ratio in CPU time | cosine, mean / worst |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def latency(contenders: list[Contender], queries: list[str]) -> str:
    """One short query at a time, tokenising included."""
    rows = []
    for contender in contenders:
        contender.encode(queries[:1])
        taken = []
        for query in queries:
            start = time.perf_counter()
            contender.encode([query])
            taken.append(1000 * (time.perf_counter() - start))
        rows.append(f"| {contender.name} | {median(taken):.1f} | {np.percentile(taken, 99):.1f} |")
    return "\n".join(["## One short query\n", "| | median ms | 99th percentile ms |", "|---|---|---|", *rows, ""])


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Median over the rounds of the quotient."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


def documentation() -> list[str]:
    """The words of the docstrings of some standard packages, in order."""
    texts = []
    for package in PACKAGES:
        root = importlib.import_module(package)
        for info in pkgutil.iter_modules(root.__path__, f"{package}."):
            if info.name.rpartition(".")[2].startswith(("_", "main", "windows")):
                continue
            module = importlib.import_module(info.name)
            members = [value for _, value in inspect.getmembers(module) if inspect.isclass(value)]
            texts += [inspect.getdoc(value) or "" for value in [module, *members]]
    return " ".join(dict.fromkeys(texts)).split()


def make_texts(words: list[str], count: int, least: int, most: int) -> list[str]:
    """Slices of the documentation, of lengths spread evenly on a logarithmic scale, in random order."""
    rng = random.Random(most)
    sizes = np.geomspace(least, most, count).astype(int)
    texts = []
    for size in sizes:
        start = rng.randrange(len(words) - most)
        texts.append(" ".join(words[start : start + size]))
    rng.shuffle(texts)
    return texts


def describe_machine(options: argparse.Namespace) -> str:
    """Machine, versions and command, for the head of the report."""
    names = ("sentence-transformers", "transformers", "torch", "tokenizers", "openvino", "numpy")
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return "\n".join(
        [
            "# Encoding: results\n",
            f"{processor()}, {cores()} cores, {platform.system()}, Python {platform.python_version()}; {versions}.",
            f"Peak of float32 matrix products on one core: {peak_gflops():.0f} GFLOP/s.",
            f"Command: `python benchmarks/encoding.py {' '.join(sys.argv[1:])}`; {options.rounds} rounds, model "
            f"`{options.model}`. The ratio is to {PEER}; above 1 is faster.\n",
        ]
    )


def processor() -> str:
    """Name of the processor with the vector instructions that matter."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    lines = path.read_text().splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    known = [flag for flag in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8") if flag in flags]
    return f"{name} ({', '.join(known)})"


def cores() -> int:
    from twinvec.engines.openvino import available_cores

    return available_cores()


def peak_gflops() -> float:
    """Best of five products of 1024 x 1024 matrices, by the CPU time of one thread."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    a, b = torch.randn(1024, 1024), torch.randn(1024, 1024)
    best = 0.0
    for _ in range(5):
        start = time.process_time()
        for _ in range(5):
            a @ b
        best = max(best, 5 * 2 * 1024**3 / (time.process_time() - start) / 1e9)
    torch.set_num_threads(threads)
    return best


def peak_gigabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


if __name__ == "__main__":
    main()
