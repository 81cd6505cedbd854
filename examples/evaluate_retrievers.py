"""Measure the retrievers of both frameworks on SciFact, over one collection.

    python examples/evaluate_retrievers.py --data DIR [--queries N] [--documents N] [--path FOLDER]

DIR holds ``ir/scifact`` in the BEIR layout. LangChain's vector store fills the collection, and both frameworks search
it. ``--queries`` uses the first N judged queries. ``--documents`` uses their relevant documents and the first N others.
With these options, the figures cannot be compared with published ones.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from langchain_core.documents import Document

from langchain_twinvec import TwinvecEmbeddings, TwinvecVectorStore
from langchain_twinvec import TwinvecRetriever as LangChainRetriever
from llama_index.retrievers.twinvec import TwinvecRetriever as LlamaIndexRetriever
from twinvec import Encoder, Hit, MaxSimReranker
from twinvec.errors import InputError
from twinvec.evaluation.beir import BeirSet, load_beir
from twinvec.evaluation.ir import as_run, measure_ir
from twinvec.retrieval import Mode, Reranker
from twinvec_qdrant import Collection

MEASURES = ("ndcg@10", "recall@100")
DEPTH = 101  # one more than the measures need, because a query's own document is left out
Ask = Callable[[str], list[Hit]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--data", type=Path, required=True, help="folder with ir/scifact")
    parser.add_argument("--queries", type=int, help="number of judged queries to use; default: all")
    parser.add_argument("--documents", type=int, help="number of irrelevant documents to use; default: all")
    parser.add_argument("--path", type=Path, help="folder of the collection; default: a temporary one")
    arguments = parser.parse_args()
    if arguments.queries is not None and arguments.queries < 1:
        parser.error("--queries must be at least 1")
    if arguments.documents is not None and arguments.documents < 0:
        parser.error("--documents must be at least 0")
    try:
        judged = load_beir(arguments.data / "ir" / "scifact")
    except InputError as error:
        parser.exit(2, f"{error}\n")
    data = part(judged, arguments.queries, arguments.documents)
    print(f"{data.name}: {len(data.queries)} queries, {len(data.documents)} documents")
    with tempfile.TemporaryDirectory() as temporary:
        encoder = Encoder("default")
        store = TwinvecVectorStore(
            TwinvecEmbeddings(encoder=encoder, show_progress=True), data.name, path=arguments.path or temporary
        )
        store.add_documents([Document(each.full_text, id=each.id) for each in data.documents])
        compare(store.collection, encoder, data)
        store.close()


def part(data: BeirSet, queries: int | None, documents: int | None) -> BeirSet:
    asked = dict(list(data.queries.items())[:queries])
    qrels = {query: data.qrels[query] for query in asked}
    relevant = {document for judged in qrels.values() for document in judged}
    kept = [each for each in data.documents if each.id in relevant]
    others = [each for each in data.documents if each.id not in relevant]
    return replace(data, documents=[*kept, *others[:documents]], queries=asked, qrels=qrels)


def compare(collection: Collection, encoder: Encoder, data: BeirSet) -> None:
    """Search with every system, and print its figures."""
    maxsim = MaxSimReranker(encoder)
    settings: list[tuple[str, Mode, Reranker | None]] = [
        ("dense", "dense", None),
        ("hybrid", "hybrid", None),
        ("hybrid, maxsim", "hybrid", maxsim),
    ]
    print(f"{'system':30}{'nDCG@10':>9}{'recall@100':>12}{'ms a query':>12}")
    for name, mode, reranker in settings:
        frameworks = {
            "LangChain": with_langchain(collection, mode, reranker),
            "LlamaIndex": with_llama_index(collection, mode, reranker),
        }
        for framework, ask in frameworks.items():
            started = time.perf_counter()
            found = {query: ask(text) for query, text in data.queries.items()}
            seconds = time.perf_counter() - started
            figures = measure_ir(as_run(found), data, measures=MEASURES).figures
            print(
                f"{framework + ', ' + name:30}{figures['ndcg@10']:9.1f}{figures['recall@100']:12.1f}"
                f"{1000 * seconds / len(found):12.1f}"
            )


def with_langchain(collection: Collection, mode: Mode, reranker: Reranker | None) -> Ask:
    retriever = LangChainRetriever(
        retriever=collection, reranker=reranker, k=DEPTH, candidates=DEPTH, search_kwargs={"mode": mode}
    )

    def ask(question: str) -> list[Hit]:
        documents = retriever.invoke(question)
        return [Hit(each.id or "", each.page_content, each.metadata["relevance_score"]) for each in documents]

    return ask


def with_llama_index(collection: Collection, mode: Mode, reranker: Reranker | None) -> Ask:
    retriever = LlamaIndexRetriever(
        collection,
        reranker=reranker,
        similarity_top_k=DEPTH,
        candidates=DEPTH,
        search_options={"mode": mode},
    )

    def ask(question: str) -> list[Hit]:
        return [Hit(each.node_id, each.text, each.score or 0.0) for each in retriever.retrieve(question)]

    return ask


if __name__ == "__main__":
    main()
