"""Awaited queries through the adapters: 50 at once compared with one batch of 50, and the delay of the event loop.

The program also runs ``benchmarks/awaited_searches.py``: many awaited searches of an embedded collection.

    python benchmarks/integrations.py [--queries 50] [--rounds 11] [--output FILE]

Ours: ``TwinvecEmbeddings`` and ``TwinvecEmbedding``. Peers, if installed, on the same model folder:
``HuggingFaceEmbeddings`` of langchain-huggingface and ``HuggingFaceEmbedding`` of llama-index-embeddings-huggingface.
They require other versions of packages than this project pins, but also run with the pinned versions:

    pip install --no-deps --target PEERS langchain-huggingface llama-index-embeddings-huggingface
    PYTHONPATH=PEERS python benchmarks/integrations.py
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from awaited_searches import Ticker
from langchain_twinvec import TwinvecEmbeddings
from llama_index.embeddings.twinvec import TwinvecEmbedding
from twinvec.models.finding import find_model

PACKAGES = (
    "twinvec",
    "langchain-core",
    "llama-index-core",
    "langchain-huggingface",
    "llama-index-embeddings-huggingface",
    "sentence-transformers",
    "torch",
    "openvino",
)


@dataclass(slots=True)
class Contender:
    """An embedding class with two calls, and the seconds that its rounds took."""

    name: str
    batch: Callable[[list[str]], Any]
    ask: Callable[[str], Awaitable[list[float]]]
    batches: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--burst", type=int, default=200)
    parser.add_argument("--output", type=Path, default=Path(__file__).with_name("INTEGRATIONS.md"))
    options = parser.parse_args()
    model = str(find_model("default").path)
    queries = [f"question {i}: how do I ask for {i} days of holiday in week {i % 52}?" for i in range(options.queries)]
    bursts = searched_at_once(options.burst)
    found = contenders(model)
    idle = measure(found, queries, options.rounds)
    options.output.write_text(
        report(found, idle, queries, cosine_errors(found, model, queries), options.rounds)
        + bursts_table(bursts, options.burst),
        "utf-8",
    )
    print(options.output.read_text("utf-8"))


def contenders(model: str) -> list[Contender]:
    """Return our classes, and the peers that can be imported."""
    ours = TwinvecEmbeddings(model=model)
    node = TwinvecEmbedding(model)
    found = [
        Contender("TwinvecEmbeddings", ours.embed_documents, ours.aembed_query),
        Contender("TwinvecEmbedding", node.get_text_embedding_batch, node.aget_query_embedding),
    ]
    if find_spec("langchain_huggingface"):
        theirs = import_module("langchain_huggingface").HuggingFaceEmbeddings(model_name=model)
        found.append(Contender("HuggingFaceEmbeddings", theirs.embed_documents, theirs.aembed_query))
    if find_spec("llama_index.embeddings.huggingface"):
        other = import_module("llama_index.embeddings.huggingface").HuggingFaceEmbedding(model)
        found.append(Contender("HuggingFaceEmbedding", other.get_text_embedding_batch, other.aget_query_embedding))
    return found


def measure(found: list[Contender], queries: list[str], rounds: int) -> list[float]:
    """Measure all classes in turn in each round, so that other load on the machine affects all alike.

    Returns:
        The largest delay of an idle event loop in each round, which the machine itself causes.
    """
    idle = []
    for contender in found:
        contender.batch(queries)
        asyncio.run(at_once(contender, queries[:2]))
    for _ in range(rounds):
        idle.append(asyncio.run(idle_delay()))
        for contender in found:
            started = time.perf_counter()
            contender.batch(queries)
            contender.batches.append(time.perf_counter() - started)
            seconds, worst = asyncio.run(at_once(contender, queries))
            contender.together.append(seconds)
            contender.delays.append(worst)
    return idle


async def at_once(contender: Contender, queries: list[str]) -> tuple[float, float]:
    """Return the seconds until every query has its vector, and the largest delay of the ticker until then."""
    ticker = Ticker()
    running = asyncio.create_task(ticker.run())
    await asyncio.sleep(0)
    started = time.perf_counter()
    await asyncio.gather(*(contender.ask(query) for query in queries))
    seconds = time.perf_counter() - started
    running.cancel()
    return seconds, ticker.worst


def searched_at_once(count: int) -> list[dict[str, Any]]:
    """Measure bursts of searches in a separate process, and return them."""
    command = [sys.executable, str(Path(__file__).with_name("awaited_searches.py")), "--count", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def bursts_table(bursts: list[dict[str, Any]], count: int) -> str:
    """Return the table of the bursts."""

    def figures(name: str, *, frozen: bool) -> str:
        return ", ".join(f"{1000 * each[name]:.0f}" for each in bursts if each["frozen"] == frozen)

    rows = "\n".join(
        f"| {kind} | {figures('late', frozen=frozen)} | {figures('collecting', frozen=frozen)} |"
        for kind, frozen in (("as it is", False), ("after `gc.freeze()`", True))
    )
    return f"""
## Awaited searches

{count} searches awaited at once (`Collection.asearch`, 2,000 documents in an embedded collection), in a process of
their own (`benchmarks/awaited_searches.py`). They took {median(each["seconds"] for each in bursts):.2f} s (median).
Each number belongs to one burst, in order; the first burst starts the worker threads.

| process | loop late at worst, ms | longest garbage collection, ms |
|---|---|---|
{rows}

A full garbage collection holds the interpreter's lock, and takes longer the more modules an application has imported.
If the application calls `gc.freeze()` after its start, its garbage collections are short.
"""


async def idle_delay() -> float:
    """Return the largest delay of the ticker in 0.2 seconds in which nothing else runs."""
    ticker = Ticker()
    running = asyncio.create_task(ticker.run())
    await asyncio.sleep(0.2)
    running.cancel()
    return ticker.worst


def cosine_errors(found: list[Contender], model: str, queries: list[str]) -> list[float]:
    """Return 1 - the smallest cosine with sentence-transformers for each class, over the queries and 100 longer texts.

    The classes are those of ``found``, in the same order.
    """
    from sentence_transformers import SentenceTransformer

    texts = queries + [" ".join(f"line {i} of passage {n}\n" for i in range(20)) for n in range(100)]
    expected = np.asarray(SentenceTransformer(model, device="cpu").encode(texts), dtype=np.float64)
    vectors = (np.asarray(each.batch(texts), dtype=np.float64) for each in found)
    return [1 - float((each * expected).sum(axis=1).min()) for each in vectors]


def report(found: list[Contender], idle: list[float], queries: list[str], off: list[float], rounds: int) -> str:
    """Return the table with its explanation."""
    rows = "\n".join(
        f"| `{each.name}` | {1000 * median(each.batches):.0f} | {1000 * median(each.together):.0f} "
        f"| {median(now / batch for now, batch in zip(each.together, each.batches, strict=True)):.2f} "
        f"| {1000 * median(each.delays):.1f} | {1000 * max(each.delays):.1f} | {distance:.1e} |"
        for each, distance in zip(found, off, strict=True)
    )
    header = [
        "class",
        f"{len(queries)} texts in one call, ms",
        f"{len(queries)} awaited queries at once, ms",
        "ratio",
        "loop late, ms",
        "loop late at worst, ms",
        "1 - cosine",
    ]
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"
    return f"""# Awaited queries through LangChain and LlamaIndex

Written by `python benchmarks/integrations.py`. {machine}; Python {platform.python_version()}, {", ".join(versions())}.

| {" | ".join(header)} |
|{"---|" * len(header)}
{rows}

The figures are medians of {rounds} rounds, in which the classes take turns. "Loop late" is the largest delay in a round
of a task that asks to run every millisecond while the queries are awaited. In an idle loop this delay is
{1000 * median(idle):.1f} ms, {1000 * max(idle):.1f} at worst. "1 - cosine" compares with the vectors of
sentence-transformers, and is the largest value over the queries and 100 longer texts.
"""


def versions() -> list[str]:
    """Return name and version of the installed packages."""
    found = []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            continue
    return found


if __name__ == "__main__":
    main()
