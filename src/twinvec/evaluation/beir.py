"""Retrieval sets: folders in the BEIR layout (Thakur et al. 2021), and pseudo-queries made from documents.

A folder has corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.statistics import SEED
from twinvec.evaluation.tsv import parse_integer, read_table
from twinvec.retrieval.documents import Document, as_document
from twinvec.support.checks import check_data, check_flags, file_path, integer, is_integer, path_text, shown, string
from twinvec.support.extras import import_extra
from twinvec.support.lines import read_jsonl, text_field
from twinvec.text import check_text, is_list

Qrels = Mapping[str, Mapping[str, int]]
"""Query id -> document id -> relevance; a document that is not listed is not relevant."""

PASSAGE = (60, 240)
"""Smallest and largest number of characters of a passage that becomes a pseudo-query."""

REST = 100
"""Smallest number of characters that a document keeps when a passage is taken out."""

HIGHEST = 1_000_000
"""Largest relevance of a judgement. trec_eval allocates eight bytes for each relevance from 0 to the largest one."""

_LAYOUT = "the BEIR layout is a folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv"


@dataclass(frozen=True, slots=True)
class BeirSet:
    """Documents, the judged queries of one split, and their judgements.

    ``documents`` may be empty if a collection holds the documents. A set that is made by hand gets the same checks as
    the files of ``load_beir``.

    Raises:
        InputError: an id is not a string or is used twice, a query is not a string, a relevance is not a whole number
            or is above ``HIGHEST``, a judgement names an unknown document or query, or no judgement is above 0.
    """

    name: str
    documents: list[Document]
    queries: dict[str, str]
    qrels: dict[str, dict[str, int]]

    def __post_init__(self) -> None:
        string(self.name, "name")
        object.__setattr__(self, "documents", _checked_documents(self.name, self.documents))
        if not isinstance(self.queries, Mapping):
            raise InputError(
                f"{self.name}: queries: expected a mapping by query ids, got {type(self.queries).__name__}"
            )
        for query, text in self.queries.items():
            _check_id(self.name, "query", query)
            check_text(text, f"{self.name}: query {query!r}")
        check_judgements(self.name, self.qrels, {document.id for document in self.documents})
        for query in self.qrels:
            if self.queries and query not in self.queries:
                raise InputError(f"{self.name}: the judged query {query!r} is not among the queries")
        if self.qrels and not _any_relevant(self.qrels):
            raise InputError(f"{self.name}: no judgement is above 0, so no document is relevant")


def check_set(data: object) -> None:
    """Raise InputError unless ``data`` is a ``BeirSet`` that has queries."""
    check_data(data, BeirSet, "data", "a BeirSet(...), as load_beir returns it")
    assert isinstance(data, BeirSet)
    if not data.queries:
        raise InputError(f"{data.name}: no queries; give a mapping of query ids to texts")


def _checked_documents(name: str, documents: Iterable[Document]) -> list[Document]:
    """Return documents as a list; raise InputError for other values, or if two documents have the same id."""
    if not is_list(documents):
        raise InputError(f"{name}: documents: expected a list of documents, got {shown(documents)}")
    checked, ids = list(documents), set[str]()
    for position, document in enumerate(checked):
        if not isinstance(document, Document):
            raise InputError(
                f"{name}: document {position}: expected a Document(id, text), got {shown(document)}; "
                "twinvec.retrieval.documents.as_documents converts documents in other forms"
            )
        _check_id(name, "document", document.id)
        if document.id in ids:
            raise InputError(f"{name}: document {position}: the id {document.id!r} is used twice")
        ids.add(document.id)
    return checked


def _check_id(name: str, what: str, given: object) -> None:
    if not isinstance(given, str):
        raise InputError(f"{name}: the id of a {what} must be a string, got {shown(given)}; write str(id)")


def check_judgements(name: str, qrels: object, ids: Container[str] = ()) -> None:
    """Raise InputError if judgements are malformed, or judge a document outside ``ids``; empty ``ids`` allow all."""
    if not isinstance(qrels, Mapping):
        raise InputError(f"{name}: qrels: expected a mapping by query ids, got {type(qrels).__name__}")
    for query, judged in qrels.items():
        _check_id(name, "query", query)
        _check_judged(name, query, judged, ids)


def _check_judged(name: str, query: str, judged: object, ids: Container[str]) -> None:
    """Check the judgements of one query, as ``check_judgements`` does."""
    place = f"{name}: the judgements of query {query!r}"
    if not isinstance(judged, Mapping):
        raise InputError(f"{place}: expected a mapping of document ids to relevances, got {shown(judged)}")
    for document, relevance in judged.items():
        _check_id(place, "document", document)
        if ids and document not in ids:
            raise InputError(f"{place}: the document {document!r} is not among the documents")
        if not is_integer(relevance):
            raise InputError(
                f"{place}: the relevance of {document!r} must be a whole number, such as 1, got {relevance!r}"
            )
        _check_relevance(relevance, f"{place}: document {document!r}")


def _check_relevance(relevance: int, place: str) -> None:
    if relevance > HIGHEST:
        raise InputError(f"{place}: the relevance {relevance} is above {HIGHEST:,}")


def _any_relevant(qrels: Qrels) -> bool:
    return any(relevance > 0 for judged in qrels.values() for relevance in judged.values())


def load_beir(folder: str | Path, split: str = "test", *, corpus_optional: bool = False) -> BeirSet:
    """Read a retrieval set and check that its files agree.

    Args:
        folder: Folder with corpus.jsonl, queries.jsonl and qrels/SPLIT.tsv.
        split: The judgements to read.
        corpus_optional: Whether corpus.jsonl may be missing, because a collection holds the documents.

    Raises:
        InputError: a file is missing, empty or malformed; an id is used twice; a judged query is blank; a judgement
            names an unknown id, or is above ``HIGHEST``; or no judgement is above 0. The message names file and line.
    """
    check_flags(corpus_optional=corpus_optional)
    folder = file_path(folder, "folder")
    qrels_path = folder / "qrels" / f"{path_text(split, 'split')}.tsv"
    if not qrels_path.is_file():
        splits = ", ".join(sorted(path.stem for path in folder.glob("qrels/*.tsv")))
        raise InputError(f"{qrels_path}: missing; " + (f"the folder has the splits {splits}" if splits else _LAYOUT))
    corpus = folder / "corpus.jsonl"
    documents = None if corpus_optional and not corpus.exists() else _read_documents(corpus)
    places = _read_queries(folder / "queries.jsonl")
    qrels = _read_qrels(qrels_path, places, documents)
    queries: dict[str, str] = {}
    for query in qrels:
        place, queries[query] = places[query]
        if not queries[query].strip():
            raise InputError(f"{place}: the text of the judged query {query!r} is blank")
    return BeirSet(folder.resolve().name, list((documents or {}).values()), queries, qrels)


def pseudo_queries(documents: Sequence[Document], count: int = 200, least: int = 10) -> BeirSet:
    """Take one passage out of each of up to ``count`` documents, as a query that must find the rest of its document.

    This is the inverse cloze task (Lee, Chang and Toutanova 2019). Passages share more words with their document than
    people's questions do. They can compare ways of searching these documents, but cannot measure how well people's
    questions are answered. Raises InputError if fewer than ``least`` documents are long enough to spare a passage.
    """
    documents = _checked_documents("documents", documents)
    count, least = integer(count, "count"), integer(least, "least")
    package = import_extra("semantic_text_splitter", "eval", "taking passages out of documents")
    splitter = package.TextSplitter(PASSAGE)
    random = np.random.default_rng(SEED)
    queries: dict[str, str] = {}
    kept = []
    for document in documents:
        if len(queries) < count and len(document.text) >= PASSAGE[1] + REST:
            passages = [(at, text) for at, text in splitter.chunk_indices(document.text) if len(text) >= PASSAGE[0]]
            if passages:
                at, text = passages[random.integers(len(passages))]
                queries[document.id] = text
                left = f"{document.text[:at]} {document.text[at + len(text) :]}".strip()
                document = replace(document, text=left)
        kept.append(document)
    if len(queries) < least:
        raise InputError(
            f"only {len(queries)} of {len(documents):,} documents are long enough ({PASSAGE[1] + REST} characters) for "
            f"a passage to be taken out as a query; give {least} such documents, or judged queries (--ir)"
        )
    numbered = {f"passage of {name}": text for name, text in queries.items()}
    return BeirSet("pseudo-queries", kept, numbered, {f"passage of {name}": {name: 1} for name in queries})


def _read_documents(path: Path) -> dict[str, Document]:
    documents: dict[str, Document] = {}
    _check_there(path, "; twinvec evaluate --collection reads the documents from a collection instead")
    for place, row in read_jsonl(path):
        try:
            document = as_document(row, len(documents))
        except InputError as error:
            raise InputError(f"{place}: {error}") from error
        if document.id in documents:
            raise InputError(f"{place}: the id {document.id!r} is used twice")
        documents[document.id] = document
    return documents


def _read_queries(path: Path) -> dict[str, tuple[str, str]]:
    """Return query id -> (file and line, text)."""
    queries: dict[str, tuple[str, str]] = {}
    _check_there(path)
    for place, row in read_jsonl(path):
        number = row.get("_id")  # an id may be a whole number, as in the corpus
        identity = str(number) if is_integer(number) else text_field(row, "_id", place)
        if identity in queries:
            raise InputError(f"{place}: the id {identity!r} is used twice")
        queries[identity] = place, text_field(row, "text", place)
    return queries


def _check_there(path: Path, more: str = "") -> None:
    if not path.exists():
        raise InputError(f"{path}: missing; {_LAYOUT}{more}")


def _read_qrels(path: Path, queries: Container[str], documents: Container[str] | None) -> dict[str, dict[str, int]]:
    qrels: dict[str, dict[str, int]] = {}
    for place, (query, document, score) in read_table(path, ("query-id", "corpus-id", "score")):
        if query not in queries:
            raise InputError(f"{place}: the query {query!r} is not in queries.jsonl")
        if documents is not None and document not in documents:
            raise InputError(f"{place}: the document {document!r} is not in corpus.jsonl")
        relevance = parse_integer(score, place)
        _check_relevance(relevance, place)
        if qrels.setdefault(query, {}).setdefault(document, relevance) != relevance:
            raise InputError(
                f"{place}: query {query!r} and document {document!r} are judged twice, with different scores"
            )
    if not _any_relevant(qrels):
        raise InputError(f"{path}: no judgement is above 0, so no document is relevant")
    return qrels
