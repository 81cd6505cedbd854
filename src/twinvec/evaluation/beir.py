"""Retrieval sets in the BEIR layout (Thakur et al. 2021): corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twinvec.errors import InputError
from twinvec.evaluation.tsv import parse_integer, read_table
from twinvec.retrieval.documents import Document, as_document
from twinvec.support.lines import read_jsonl, text_field

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> relevance; a document that is not listed is not relevant."""


@dataclass(frozen=True, slots=True)
class BeirSet:
    """Documents, the judged queries of one split, and their judgements."""

    name: str
    documents: list[Document]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]


def load_beir(folder: str | Path, split: str = "test") -> BeirSet:
    """Read a retrieval set and check that its files agree.

    Raises:
        InputError: a file is missing, empty or malformed, an id is used twice, or a judgement names an unknown id; the
            message names file and line.
    """
    folder = Path(folder)
    qrels_path = folder / "qrels" / f"{split}.tsv"
    if not qrels_path.is_file():
        splits = ", ".join(sorted(path.stem for path in folder.glob("qrels/*.tsv")))
        raise InputError(
            f"{qrels_path}: missing; " + (f"splits there: {splits}" if splits else "this is not a BEIR folder")
        )
    documents = _read_documents(folder / "corpus.jsonl")
    queries = _read_queries(folder / "queries.jsonl")
    qrels = _read_qrels(qrels_path, queries, documents)
    return BeirSet(folder.resolve().name, list(documents.values()), {query: queries[query] for query in qrels}, qrels)


def _read_documents(path: Path) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    for place, row in read_jsonl(path):
        try:
            document = as_document(row, len(documents))
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        if document.id in documents:
            raise InputError(f"{place}: the id {document.id!r} is used twice")
        documents[document.id] = document
    return documents


def _read_queries(path: Path) -> dict[str, str]:
    queries: dict[str, str] = {}
    for place, row in read_jsonl(path):
        identity = text_field(row, "_id", place)
        if identity in queries:
            raise InputError(f"{place}: the id {identity!r} is used twice")
        queries[identity] = text_field(row, "text", place)
    return queries


def _read_qrels(path: Path, queries: Mapping[str, str], documents: Mapping[str, Document]) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for place, (query, document, score) in read_table(path, ("query-id", "corpus-id", "score")):
        if query not in queries:
            raise InputError(f"{place}: the query {query!r} is not in queries.jsonl")
        if document not in documents:
            raise InputError(f"{place}: the document {document!r} is not in corpus.jsonl")
        relevance = parse_integer(score, place)
        if qrels.setdefault(query, {}).setdefault(document, relevance) != relevance:
            raise InputError(f"{place}: query {query!r} and document {document!r} are judged twice, differently")
    return qrels
