"""Awaited queries through the adapters: 50 at once against one batch of 50, and how long the event loop stands still.

    python benchmarks/integrations.py [--queries 50] [--rounds 10]

Ours: ``TwinvecEmbeddings`` and ``TwinvecEmbedding``. Peers, each where it is installed: ``HuggingFaceEmbeddings`` of
langchain-huggingface and ``HuggingFaceEmbedding`` of llama-index-embeddings-huggingface, on the same model folder.
"one batch" is the blocking call with all texts; "at once" awaits one call a query together; "worst delay" is the
largest lateness of a task that wants to run every millisecond meanwhile; "cosine" the least one with the vectors of
sentence-transformers, over the queries and over 100 longer texts. Times are the least of the rounds, so that what else
the machine does weighs little.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from langchain_twinvec import TwinvecEmbeddings
from llama_index.embeddings.twinvec import TwinvecEmbedding
from twinvec.models import find_model

TICK_SECONDS = 0.001


@dataclass(frozen=True, slots=True)
class Contender:
    """An embedding class behind the same two calls."""

    name: str
    batch: Callable[[list[str]], Any]
    ask: Callable[[str], Awaitable[list[float]]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    model = str(find_model("default").path)
    queries = [f"question {i}: how do I ask for {i} days of holiday in week {i % 52}?" for i in range(options.queries)]
    texts = [" ".join(f"line {i} of passage {n}\n" for i in range(20)) for n in range(100)]
    expected = reference(model, queries + texts)
    print(f"{os.cpu_count()} cores, {len(queries)} queries, {options.rounds} rounds\n")
    print("| class | one batch, ms | at once, ms | worst delay, ms | 1 - cosine |\n|---|---|---|---|---|")
    for contender in contenders(model):
        contender.batch(queries)
        batch = min(timed(contender.batch, queries) for _ in range(options.rounds))
        rounds = [asyncio.run(at_once(contender, queries)) for _ in range(options.rounds)]
        together = min(seconds for seconds, _ in rounds)
        delay = min(worst for _, worst in rounds)
        vectors = np.asarray(contender.batch(queries + texts), dtype=np.float64)
        off = 1 - float((vectors * expected).sum(axis=1).min())
        print(
            f"| {contender.name} | {1000 * batch:.0f} | {1000 * together:.0f} | {1000 * delay:.1f} | {off:.1e} |",
            flush=True,
        )


def contenders(model: str) -> list[Contender]:
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


def reference(model: str, texts: list[str]) -> np.ndarray[Any, np.dtype[np.float64]]:
    from sentence_transformers import SentenceTransformer

    return np.asarray(SentenceTransformer(model, device="cpu").encode(texts), dtype=np.float64)


def timed(batch: Callable[[list[str]], Any], texts: list[str]) -> float:
    started = time.perf_counter()
    batch(texts)
    return time.perf_counter() - started


async def at_once(contender: Contender, queries: list[str]) -> tuple[float, float]:
    """Seconds until every query has its vector, and the worst delay of the ticker meanwhile."""
    worst = 0.0

    async def tick() -> None:
        nonlocal worst
        while True:
            before = time.perf_counter()
            await asyncio.sleep(TICK_SECONDS)
            worst = max(worst, time.perf_counter() - before - TICK_SECONDS)

    ticker = asyncio.create_task(tick())
    await asyncio.sleep(0)
    started = time.perf_counter()
    await asyncio.gather(*(contender.ask(query) for query in queries))
    seconds = time.perf_counter() - started
    ticker.cancel()
    return seconds, worst


if __name__ == "__main__":
    main()
