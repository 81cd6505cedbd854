"""Encoding and reranking against sentence-transformers and FastEmbed, in alternating rounds in one process.

    python benchmarks/encoding.py [--texts 240] [--rounds 3] [--output benchmarks/RESULTS.md]

The texts are slices of the documentation of the Python standard library, of four kinds: short queries, passages, mixed
and long texts. In every round all contenders encode the same texts in turn. The ratio is the median over the rounds of
(a contender's rate / the peer's rate in that round), so that other load on the machine affects all alike. The ratio of
CPU times is more reliable on a busy machine. The int8 export is calibrated on other texts of the same kind, or taken
from ``--export FOLDER``. FastEmbed, if installed, runs the graph of our onnx engine. The peer's own int8 is calibrated
on the same texts as ours; ``openvino_peer.py`` explains how to install it. Pairs are scored by a cross-encoder with the
model's backbone and a random head. ``int8.py`` measures the loss of quality by int8, and ``gpu.py`` measures on a GPU.
"""

from __future__ import annotations

import argparse
import atexit
import importlib
import inspect
import json
import os
import pkgutil
import platform
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt

from output import Output

IntArray = npt.NDArray[np.int64]

PACKAGES = ("asyncio", "collections", "concurrent", "email", "http", "json", "logging", "unittest", "urllib")
KINDS = {"short queries": (3, 10), "passages": (60, 140), "mixed": (3, 140), "long": (200, 400)}
PEER = "SentenceTransformer.encode"
CROSS_PEER = "CrossEncoder.predict"
CALIBRATION_TEXTS = 600
PAIR_QUERIES, PAIR_TEXTS = 8, 25


@dataclass
class Contender:
    """One way to encode or to score, and its measurements."""

    name: str
    run: Callable[[list[Any]], Any]
    rates: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    elsewhere: bool = False  # runs in another process, whose CPU time is unknown
    cosines: tuple[float, float] = (1.0, 1.0)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=240, help="texts of each kind; a quarter as many long texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="default")
    parser.add_argument("--export", type=Path, help="folder with an int8 export of the model; default: make an export")
    parser.add_argument(
        "--peer-python", type=Path, help="Python with sentence-transformers[openvino], to measure its int8, too"
    )
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    words = documentation()
    peak = peak_gflops()
    tell = Output(options.output)
    tell(describe_machine(options, peak))
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        export = options.export or make_export(options.model, root / "int8", words)
        makers = find_contenders(options.model, export, root / "onnx")
        contenders = [make() for make in makers]
        if options.peer_python:
            contenders.insert(1, openvino_peer(options.peer_python, options.model, root, calibration_texts(words)))
        cost = Cost(options.model, peak * cores())
        for kind, (least, most) in KINDS.items():
            count = options.texts // 4 if kind == "long" else options.texts
            tell(compare(kind, make_texts(words, count, least, most), contenders, options.rounds, cost))
        tell(latency(contenders, make_texts(words, options.texts // 2, 3, 10)))
        tell(rerank(options.model, root, words, options.rounds))
        tell(memory(makers, make_texts(words, options.texts, *KINDS["mixed"])))
    tell.write()


def make_export(model: str, folder: Path, words: list[str]) -> Path:
    """Make an int8 export, calibrated on mixed texts."""
    from twinvec.export.model import export_model

    export_model(model, folder, precision="int8", calibrate=calibration_texts(words))
    return folder


def calibration_texts(words: list[str]) -> list[str]:
    """Return mixed texts that differ from the measured ones."""
    return make_texts(words, CALIBRATION_TEXTS, *KINDS["mixed"], seed=1)


def find_contenders(model: str, export: Path, onnx: Path) -> list[Callable[[], Contender]]:
    """Return functions that load the contenders, the peer first; ``onnx`` is the folder for an ONNX export."""
    from twinvec import Encoder
    from twinvec.engines.openvino import has_bfloat16
    from twinvec.export.model import export_model
    from twinvec.models.finding import find_model

    graph = export_model(model, onnx, engine="onnx").graph
    makers: list[Callable[[], Contender]] = [partial(peer, str(find_model(model).path))]
    if find_spec("fastembed"):
        makers.append(partial(fastembed, graph, Encoder(model).dim))
    makers += [
        partial(ours, model, engine="torch", device="cpu"),
        partial(ours, model, engine="openvino", precision="float32"),
        partial(ours, onnx, engine="onnx", precision="float32"),
        partial(ours, export, engine="openvino", precision="int8"),
    ]
    if has_bfloat16():
        makers.append(partial(ours, model, engine="openvino", precision="bfloat16"))
    return makers


def peer(folder: str) -> Contender:
    """Return sentence-transformers with its defaults."""
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(folder, device="cpu")
    return Contender(PEER, lambda texts: model.encode(texts))


def ours(model: str | Path, **options: Any) -> Contender:
    """Return an ``Encoder``."""
    from twinvec import Encoder

    encoder = Encoder(model, **options)
    return Contender(f"twinvec, {encoder.engine.name}", encoder.encode)


def fastembed(graph: Path, dim: int) -> Contender:
    """Return FastEmbed with its defaults, over a graph that pools and normalises."""
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    name = "twinvec/benchmark"
    TextEmbedding.add_custom_model(
        name, PoolingType.DISABLED, normalization=False, sources=ModelSource(hf=name), dim=dim, model_file=graph.name
    )
    embedding = TextEmbedding(name, specific_model_path=str(graph.parent))
    return Contender("FastEmbed, the same ONNX graph", lambda texts: np.stack(list(embedding.embed(texts))))


def memory(makers: list[Callable[[], Contender]], texts: list[str]) -> str:
    """Measure the peak memory of a process that only loads a contender and encodes mixed texts."""
    rows = []
    for make in makers:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            name, gigabytes = pool.submit(run_alone, make, texts).result()
        rows.append(f"| {name} | {gigabytes:.2f} |")
    return "\n".join(["## Peak memory, of a process for each\n", "| | GB |", "|---|---|", *rows, ""])


def run_alone(make: Callable[[], Contender], texts: list[str]) -> tuple[str, float]:
    """Return a contender's name, and the peak memory of this process after encoding the texts."""
    contender = make()
    contender.run(texts)
    return contender.name, peak_gigabytes()


def openvino_peer(python: Path, model: str, work: Path, texts: list[str]) -> Contender:
    """Return sentence-transformers' OpenVINO int8, in a process of the other Python."""
    from twinvec.models.finding import find_model

    calibration = work / "calibration.json"
    calibration.write_text(json.dumps(texts), encoding="utf-8")
    command = [str(python), str(Path(__file__).with_name("openvino_peer.py")), str(find_model(model).path)]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    pipe = subprocess.PIPE
    process = subprocess.Popen([*command, str(calibration)], stdin=pipe, stdout=pipe, text=True, env=environment)
    atexit.register(process.kill)
    asked, answers = process.stdin, process.stdout
    assert asked is not None
    assert answers is not None
    if not answers.readline():
        raise SystemExit(f"{python} failed: see the output above; openvino_peer.py lists the packages that it needs")

    def run(texts: list[str]) -> Any:
        asked.write(json.dumps(texts) + "\n")
        asked.flush()
        return np.load(json.loads(answers.readline()))

    return Contender(f"{PEER}, OpenVINO int8", run, elsewhere=True)


class Cost:
    """The cost of texts: converts a rate to tokens per second, and to a share of the machine's peak."""

    def __init__(self, model: str, peak: float) -> None:
        from twinvec import Encoder
        from twinvec.models.encoder_spec import read_spec
        from twinvec.models.finding import find_model

        config = read_spec(find_model(model).path).config
        self._encoder = Encoder(model)
        self._peak = peak
        self._layers = int(config.get("num_hidden_layers") or config["n_layers"])
        self._hidden = int(config.get("hidden_size") or config["dim"])
        self._inner = int(config.get("intermediate_size") or config["hidden_dim"])

    def tokens(self, texts: list[str]) -> IntArray:
        """Return the number of tokens of each text after truncation."""
        return np.minimum(self._encoder.count_tokens(texts), self._encoder.max_tokens)

    def share(self, tokens: IntArray, seconds: float) -> float:
        """Return the rate as a share of the peak.

        It counts the products with matrices of weights (four in attention, two in the feed-forward part), and those of
        attention itself.
        """
        weights = 4 * self._hidden**2 + 2 * self._hidden * self._inner
        operations = 2 * self._layers * (weights * tokens + 2 * self._hidden * tokens**2).sum()
        return float(operations / seconds / 1e9 / self._peak)


def compare(kind: str, texts: list[str], contenders: list[Contender], rounds: int, cost: Cost) -> str:
    """Measure all contenders on one kind of texts; return a table."""
    peer = contenders[0]
    expected = np.asarray(peer.run(texts), dtype=np.float64)
    for contender in contenders:
        found = np.asarray(contender.run(texts), dtype=np.float64)
        products = (expected * found).sum(1) / np.linalg.norm(expected, axis=1) / np.linalg.norm(found, axis=1)
        contender.cosines = (float(products.mean()), float(products.min()))
    alternate(contenders, texts, rounds)
    tokens = cost.tokens(texts)
    rows = [
        f"| {each.name} | {median(each.rates):.0f} | {median(each.rates) * tokens.mean():.0f} "
        f"| {ratio(each.rates, peer.rates):.2f} | {'' if each.elsewhere else f'{ratio(peer.cpu, each.cpu):.2f}'} "
        f"| {100 * cost.share(tokens, len(texts) / median(each.rates)):.0f}% "
        f"| {each.cosines[0]:.6f} / {each.cosines[1]:.6f} |"
        for each in contenders
    ]
    return "\n".join(
        [
            f"## {kind.capitalize()}: {len(texts)} texts of {tokens.min()} to {tokens.max()} tokens\n",
            "| | texts/s | tokens/s | ratio | ratio in CPU time | of the peak | cosine, mean / worst |",
            "|---|---|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def alternate(contenders: list[Contender], inputs: list[Any], rounds: int) -> None:
    """Time the contenders in turn; each round begins with another contender."""
    for contender in contenders:
        contender.rates, contender.cpu = [], []
    for turn in range(rounds):
        for contender in contenders[turn % len(contenders) :] + contenders[: turn % len(contenders)]:
            start, cpu = time.perf_counter(), time.process_time()
            contender.run(inputs)
            contender.rates.append(len(inputs) / (time.perf_counter() - start))
            contender.cpu.append(time.process_time() - cpu)


def rerank(model: str, root: Path, words: list[str], rounds: int) -> str:
    """Measure the pairs per second of a cross-encoder: the model's backbone with a random head."""
    from sentence_transformers import CrossEncoder

    from twinvec import CrossEncoderReranker
    from twinvec.engines.openvino import has_bfloat16
    from twinvec.export.model import export_model

    folder = make_cross_encoder(model, root / "cross-encoder")
    export_model(folder, root / "cross-encoder-int8", precision="int8", calibrate=calibration_texts(words))
    peer = CrossEncoder(str(folder), device="cpu")
    contenders = [Contender(CROSS_PEER, lambda pairs: peer.predict(pairs))]
    rerankers = [
        CrossEncoderReranker(folder, engine="openvino", precision="float32"),
        CrossEncoderReranker(root / "cross-encoder-int8", precision="int8"),
    ]
    if has_bfloat16():
        rerankers.append(CrossEncoderReranker(folder, engine="openvino", precision="bfloat16"))
    contenders += [Contender(f"twinvec, {each.engine.name}", each.score) for each in rerankers]
    queries, texts = make_texts(words, PAIR_QUERIES, 3, 10), make_texts(words, PAIR_TEXTS, *KINDS["mixed"])
    return compare_scores(contenders, queries, texts, rounds)


def compare_scores(contenders: list[Contender], queries: list[str], texts: list[str], rounds: int) -> str:
    """Measure all contenders on the pairs of each query with each text; return a table."""
    from twinvec.export.quantization import top_overlap

    pairs = [(query, text) for query in queries for text in texts]
    shape = (len(queries), len(texts))
    expected = np.asarray(contenders[0].run(pairs)).reshape(shape)
    overlaps = [top_overlap(expected, np.asarray(each.run(pairs)).reshape(shape)) for each in contenders]
    alternate(contenders, pairs, rounds)
    rows = [
        f"| {each.name} | {median(each.rates):.0f} | {ratio(each.rates, contenders[0].rates):.2f} "
        f"| {ratio(contenders[0].cpu, each.cpu):.2f} | {overlap:.3f} |"
        for each, overlap in zip(contenders, overlaps, strict=True)
    ]
    return "\n".join(
        [
            f"## Reranking: {len(queries)} short queries with {len(texts)} mixed texts each\n",
            "| | pairs/s | ratio | ratio in CPU time | overlap of the top 10 |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


def make_cross_encoder(model: str, folder: Path) -> Path:
    """Save the model's backbone with a random head, in the format of sentence-transformers."""
    import torch
    from sentence_transformers import CrossEncoder

    from twinvec.models.encoder_spec import read_spec
    from twinvec.models.finding import find_model

    torch.manual_seed(0)
    made = CrossEncoder(str(read_spec(find_model(model).path).folder), num_labels=1, device="cpu")
    made.save_pretrained(str(folder), create_model_card=False)
    return folder


def latency(contenders: list[Contender], queries: list[str]) -> str:
    """Measure one short query at a time, including tokenising."""
    rows = []
    for contender in contenders:
        contender.run(queries[:1])
        taken = []
        for query in queries:
            start = time.perf_counter()
            contender.run([query])
            taken.append(1000 * (time.perf_counter() - start))
        rows.append(f"| {contender.name} | {median(taken):.1f} | {np.percentile(taken, 99):.1f} |")
    return "\n".join(["## One short query\n", "| | median ms | 99th percentile ms |", "|---|---|---|", *rows, ""])


def ratio(ours: list[float], theirs: list[float]) -> float:
    """Return the median over the rounds of the ratio of two measurements."""
    return median(mine / other for mine, other in zip(ours, theirs, strict=True))


def documentation() -> list[str]:
    """Return the words of the docstrings of some standard packages, in order."""
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


def make_texts(words: list[str], count: int, least: int, most: int, seed: int = 0) -> list[str]:
    """Return slices of the documentation in random order; their lengths are evenly spread on a logarithmic scale."""
    rng = random.Random(1000 * seed + most)
    sizes = np.geomspace(least, most, count).astype(int)
    texts = []
    for size in sizes:
        start = rng.randrange(len(words) - most)
        texts.append(" ".join(words[start : start + size]))
    rng.shuffle(texts)
    return texts


def describe_machine(options: argparse.Namespace, peak: float) -> str:
    """Return machine, versions and command for the head of the report."""
    names = ["sentence-transformers", "transformers", "torch", "tokenizers", "openvino", "onnxruntime", "nncf", "numpy"]
    names += ["fastembed"] if find_spec("fastembed") else []
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    arguments = " ".join(sys.argv[1:]).replace(str(options.peer_python), "ENV/bin/python")
    return "\n".join(
        [
            "# Encoding: results\n",
            f"{processor()}, {cores()} cores, {platform.system()}, Python {platform.python_version()}; {versions}.",
            f"Peak of float32 matrix products on one core: {peak:.0f} GFLOP/s.",
            f"Command: `python benchmarks/encoding.py {arguments}`; {options.rounds} rounds, model "
            f"`{options.model}`. The ratio is to {PEER}, or {CROSS_PEER}; above 1 is faster.\n",
        ]
    )


def processor() -> str:
    """Return the processor's name and its relevant vector instructions."""
    path = Path("/proc/cpuinfo")
    if not path.is_file():
        return platform.processor()
    lines = path.read_text().splitlines()
    name = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")
    flags = next((line for line in lines if line.startswith("flags")), "").split()
    known = [flag for flag in ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "amx_int8") if flag in flags]
    return f"{name} ({', '.join(known)})"


def cores() -> int:
    from twinvec.support.cpu import available_cores

    return available_cores()


def peak_gflops() -> float:
    """Return the best rate of five runs of 1024 x 1024 matrix products, by the CPU time of one thread."""
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
    """Return the peak memory of this process, without that of its parent, which ``getrusage`` would include."""
    status = Path("/proc/self/status")
    if status.is_file():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if "VmHWM" in line) / 1024**2
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


if __name__ == "__main__":
    main()
