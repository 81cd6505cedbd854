"""What a collection is asked: the hits, and what their collection knows of them."""

from __future__ import annotations

import json

import pytest

from twinvec import Hit
from twinvec.errors import ConfigurationError, FilterError
from twinvec_qdrant import Asked, Collection, delete_documents, joined_answers, search_as_asked, stored_documents
from twinvec_qdrant.asking import FoundHit, _all_relevant
from twinvec_qdrant.records.commits import Catalog
from twinvec_qdrant.settings import MOST_HITS
from words import WordEncoder

LONG = " ".join(f"certificate {row}." for row in range(40))


@pytest.mark.parametrize("chunking", [False, None])
@pytest.mark.parametrize("id", ["tls", "tls#renewal", "tls#3"])
@pytest.mark.parametrize("chunks", [False, True])
def test_the_source_of_a_hit_is_the_id_of_its_document(tmp_path, chunking, id, chunks):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(max_tokens=16), chunking=chunking) as opened:
        opened.ingest([(id, LONG)])
        (answer,) = search_as_asked(opened, ["certificate 7"], Asked("sparse", chunks=chunks))
    assert (len(answer.hits) > 1) == (chunks and chunking is None)
    for found in answer.hits:
        assert found.source == id
        assert FoundHit.of_fields(json.loads(json.dumps(found.as_fields())), chunks=chunks) == found


class Ranked:
    """A collection of 20,000 hits, of which the first ones are relevant; ``depth`` counts the hits that are ranked."""

    def __init__(self, relevant):
        self.relevant, self.depth = relevant, 0

    def search(self, query, limit, *, offset):
        self.depth += offset + limit
        ranks = range(offset, min(offset + limit, 20_000))
        return [Hit(str(rank), "", 0.0, relevance=float(rank < self.relevant)) for rank in ranks]


@pytest.mark.parametrize("relevant", [0, 1, 100, 250, 9_999, 20_000])
def test_all_relevant_hits_are_found_without_ranking_them_again_and_again(relevant):
    opened, most = Ranked(relevant), min(relevant, MOST_HITS)
    assert [hit.id for hit in _all_relevant(opened, "fees", 0.5, {})] == [str(rank) for rank in range(most)]
    assert opened.depth <= 5 * (most + 100)


NAMES = [
    ("guide/install.md", "guide/install.md"),
    (" guide/install.md ", "guide/install.md"),
    ("install.md", None),  # the folders of an id are part of it
    ("INV-2024-0042", "INV-2024-0042.pdf"),
    ("INV-2024-0042.pdf", "INV-2024-0042.pdf"),
    ("INV-2024-0043", None),
    ("plan", "plan"),
    ("fees", None),  # a word, and not what is left of fees.md
    ("annual report.pdf", "annual report.pdf"),
    ("annual report", None),
    ("re\u0301sume\u0301.md", "r\u00e9sum\u00e9.md"),
    ("march.md", "minutes:march.md"),
    ("minutes:march.md", "minutes:march.md"),
]


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """A collection whose ids occur in no text."""
    with Collection.open("notes", tmp_path_factory.mktemp("named"), encoder=WordEncoder(), chunking=False) as opened:
        ids = ("guide/install.md", "INV-2024-0042.pdf", "plan", "fees.md", "annual report.pdf", "r\u00e9sum\u00e9.md")
        opened.ingest([{"id": each, "text": f"text {row}", "row": row} for row, each in enumerate(ids)], source="docs")
        opened.ingest([{"id": "march.md", "text": "a text", "row": 9}], source="minutes")
        yield opened


@pytest.mark.parametrize(("query", "expected"), NAMES)
def test_a_query_that_is_an_id_names_its_document(named, query, expected):
    (answer,) = search_as_asked(named, [query], Asked())
    assert answer.named == (() if expected is None else (expected,))


def test_a_filter_decides_which_documents_a_query_names(named):
    """The hint tells nobody that another tenant has a document of this id."""
    for row, expected in ((0, ("guide/install.md",)), (1, ())):
        (answer,) = search_as_asked(named, ["guide/install.md"], Asked(filter={"row": row}))
        assert answer.named == expected
    (answer,) = search_as_asked(named, ['"guide/install.md"'], Asked())
    assert answer.named == ("guide/install.md",), "quotes are syntax"


def test_a_sentence_looks_up_no_id(named, monkeypatch):
    def never(*_):
        raise AssertionError("a request for an id")

    monkeypatch.setattr(named, "find", never)
    (answer,) = search_as_asked(named, ["how do I install the guide?"], Asked())
    assert answer.named == ()
    with pytest.raises(AssertionError):
        search_as_asked(named, ["guide/install.md"], Asked())


def test_the_best_hit_needs_no_hint(named):
    (answer,) = search_as_asked(named, ["plan"], Asked())
    best = FoundHit(Hit("plan", "text", 1.0), "plan")
    assert answer.named_elsewhere() == ("plan",)
    assert answer._replace(hits=[best, *answer.hits]).named_elsewhere() == ()
    other = answer._replace(named=("fees.md", "plan"))
    assert joined_answers({"a": answer, "b": other}, Asked()).named == ("plan", "fees.md")


def test_a_document_is_found_by_an_id_that_looks_the_same(tmp_path):
    composed, apart = "r\u00e9sum\u00e9.md", "re\u0301sume\u0301.md"
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([(apart, "a life in short"), ("other", "a note")])
        found = stored_documents(opened, [composed, "other", "none"])
        assert [each["id"] for each in found["documents"]] == ["other", apart]
        assert found["missing"] == ["none"]
        assert [each["id"] for each in stored_documents(opened, [composed, apart])["documents"]] == [apart]
        assert stored_documents(opened, [7])["missing"] == ["7"]
        opened.ingest([(composed, "another one")])
        assert [each["id"] for each in stored_documents(opened, [composed])["documents"]] == [composed]


def test_all_ids_are_read_once_for_all_missing_documents(named, monkeypatch):
    reads, sources = [], Catalog.sources
    monkeypatch.setattr(Catalog, "sources", lambda catalog: reads.append(catalog) or sources(catalog))
    found = stored_documents(named, ["plan", "plam", "fees.nd", *map(str, range(20))])
    assert (found["nearest"]["plam"], found["nearest"]["fees.nd"], len(found["nearest"])) == (["plan"], ["fees.md"], 10)
    assert len(reads) == 1
    stored_documents(named, ["plan"])
    stored_documents(named, ["plam"], nearest=False)
    assert len(reads) == 1


def test_a_filter_that_leaves_nothing_out_deletes_nothing(tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([{"id": each, "text": "a note", "row": each} for each in "abc"])
        for wanted in ({}, {"row": {"not_in": []}}, {"or": [{"row": "a"}, {"and": []}]}):
            for dry_run in (False, True):
                with pytest.raises(FilterError, match="every document satisfies the filter"):
                    delete_documents(opened, None, wanted, dry_run=dry_run)
        count = opened.count()
        for chosen in ((None, None), (["a"], {"row": ["b"]}), (None, {"row": ["b"]}, "one"), (["a"], None, "one")):
            with pytest.raises(ConfigurationError, match="give one of ids, filter and source"):
                delete_documents(opened, *chosen, dry_run=False)
        assert opened.count() == count
        assert delete_documents(opened, None, {"row": []}, dry_run=False)["deleted"] == 0
        assert delete_documents(opened, None, {"row": ["a"]}, dry_run=False)["deleted"] == 1
        assert opened.count() == 2


class Recording:
    """A reranker that keeps the order of the hits, and records the queries that it is given."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    def rerank(self, query, hits, limit=None):
        self.queries.append(query)
        return list(hits)[:limit]


def test_a_reranker_and_the_passages_compare_the_corrected_query(tmp_path):
    reranker = Recording()
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([("leave", "No one is at the office. Holiday requests go to the manager.")])
        asked = Asked(rerank=reranker, syntax=True)
        (answer, right) = search_as_asked(opened, ["holliday -beach", "holiday"], asked)
        (plain,) = search_as_asked(opened, ["holliday"], Asked())
        assert opened.corrected("holliday") == "holiday"
    assert reranker.queries == ["holiday", "holiday"]
    assert (answer.corrected, right.corrected, plain.corrected) == ("holiday", "", "holiday")
    for each in (answer, plain):
        (found,) = each.hits
        assert [found.hit.passage.text[start:end] for start, end in found.hit.passage.matches] == ["Holiday"]
    assert joined_answers({"a": answer, "b": plain}, Asked()).corrected == "holiday"
    assert joined_answers({"a": right, "b": plain}, Asked()).corrected == ""
