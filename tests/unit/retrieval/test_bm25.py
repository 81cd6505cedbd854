"""BM25: the index in memory, and the vectors for stores."""

import math
import zlib
from collections import Counter

import numpy as np
import pytest

from twinvec.retrieval import bm25 as lexical
from twinvec.retrieval.analysis import Analyzer
from twinvec.retrieval.bm25 import BM25Index, TermCounts, document_vector, document_vectors, query_vector, term_id

TEXTS = [
    "Hybrid search fuses the scores of vectors and words; words are found by an inverted index.",
    "An inverted index lists for each word the documents that hold it.",
    "Vectors of sentences are near each other when the sentences mean the same.",
    "",
    "The cat sat on the mat. The mat was flat, the cat was fat, the cat sat again.",
    "Words, words, words.",
]
QUERIES = ["inverted index of words", "words words and vectors", "cat", "zebra", "the"]


def test_scores_of_a_worked_example() -> None:
    index = BM25Index([["a", "b"], ["a", "a", "c", "d"]])
    # a is in both documents: idf = ln(1 + 0.5 / 2.5); mean length 3
    idf = math.log(1 + 0.5 / 2.5)
    first = idf * 1 / (1 + 1.5 * (0.25 + 0.75 * 2 / 3))
    second = idf * 2 / (2 + 1.5 * (0.25 + 0.75 * 4 / 3))
    assert index.scores(["a"]) == pytest.approx([first, second], rel=1e-5)
    assert index.scores(["a", "a"]) == pytest.approx([2 * first, 2 * second], rel=1e-5)


@pytest.mark.parametrize("documents", [[], [[]], [[], []]])
def test_an_index_without_terms_scores_zero(documents: list[list[str]]) -> None:
    assert BM25Index(documents).scores(["cat"]).tolist() == [0.0] * len(documents)


def test_unknown_terms_and_empty_queries_score_zero() -> None:
    index = BM25Index([["cat"], ["dog"]])
    assert index.scores(["zebra"]).tolist() == [0, 0]
    assert index.scores([]).tolist() == [0, 0]


def test_vectors_times_idf_give_the_scores_of_the_index() -> None:
    documents = Analyzer().terms(TEXTS)
    average = sum(map(len, documents)) / len(documents)
    vectors = [dict(zip(*map(np.ndarray.tolist, document_vector(each, average)), strict=True)) for each in documents]
    holding = {term: sum(term in vector for vector in vectors) for vector in vectors for term in vector}
    idf = {term: math.log(1 + (len(TEXTS) - n + 0.5) / (n + 0.5)) for term, n in holding.items()}
    index = BM25Index(documents)
    seen = 0.0
    for query in Analyzer().terms(QUERIES):
        asked = dict(zip(*map(np.ndarray.tolist, query_vector(query)), strict=True))
        products = [sum(w * idf[t] * vector[t] for t, w in asked.items() if t in vector) for vector in vectors]
        assert products == pytest.approx(index.scores(query).tolist(), rel=1e-5)
        seen += sum(products)
    assert seen > 0


def test_vectors_are_sorted_without_repeats_and_fit_a_store() -> None:
    ids, values = document_vector([f"term{n}" for n in range(1000)], 10.0)
    assert ids.tolist() == sorted(set(ids.tolist()))
    assert ids.min() >= 0
    assert ids.max() < 2**32
    assert values.dtype == np.float32
    assert (values > 0).all()


def test_an_empty_text_has_an_empty_vector() -> None:
    assert [part.size for part in document_vector([], 0.0)] == [0, 0]
    assert [part.size for part in query_vector([])] == [0, 0]


def test_an_unknown_average_takes_the_document_as_average() -> None:
    assert document_vector(["cat"], 0)[1] == pytest.approx([1 / 2.5])


def test_terms_of_one_id_share_its_dimension(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lexical, "term_id", lambda term: 7)
    ids, values = query_vector(["cat", "dog", "dog"])
    assert (ids.tolist(), values.tolist()) == ([7], [3.0])


def test_ids_of_terms_are_the_same_in_every_process() -> None:
    assert term_id("cat") == 1787499195  # stored vectors rely on it


@pytest.mark.parametrize("average", [0.0, 3.7])
@pytest.mark.parametrize("shared", [False, True])
def test_vectors_of_many_documents_are_those_of_each(average: float, shared: bool, monkeypatch) -> None:
    if shared:  # every third term has the dimension of another
        monkeypatch.setattr(lexical, "term_id", lambda term: zlib.crc32(term.encode()) % 7 + 2**32 - 7)
    documents = [*Analyzer().terms(TEXTS), [], ["a"] * 5, ["a", "b"] * 3]
    for batch in (documents, [], [[]]):
        together = document_vectors(batch, average)
        one_by_one = [document_vector(each, average) for each in batch]
        assert len(together) == len(batch)
        for found, expected in zip(together, one_by_one, strict=True):
            for numbers, wanted in zip(found, expected, strict=True):
                assert numbers.dtype == wanted.dtype
                assert numbers.tolist() == wanted.tolist()


def test_the_weight_of_a_query_is_the_score_of_a_text_that_repeats_its_terms_without_end():
    texts = [["tax", "year"], ["tax", "form"], *[["tax"]] * 5, ["tax"] * 10_000]
    counts = TermCounts(8, Counter(term for each in texts for term in set(each)))
    alone = math.log1p(0.5 / 8.5)
    assert BM25Index(texts).scores(["tax"])[-1] == pytest.approx(alone, rel=0.01)
    assert counts.weight(["year", "form", "year"]) == pytest.approx(3 * math.log1p(7.5 / 1.5))
    assert counts.weight(["penguin"]) == pytest.approx(math.log1p(8.5 / 0.5)), "a term of no text"
    assert counts.weight(["tax"]) == counts.weight(["penguin"]) / 2 > alone, "a term of all texts"
    assert counts.weight([]) == 0


def test_terms_that_are_not_counted_have_a_medium_weight():
    counts = TermCounts(5000, {"tax": 700}, str.isalpha)
    absent, uncounted, common = (counts.weight([term]) for term in ("penguin", "4711", "tax"))
    assert absent > uncounted > common == pytest.approx(2, abs=0.1)
    assert TermCounts(5000, {}).weight(["4711"]) == absent
    assert TermCounts(4, {}, str.isalpha).weight(["4711"]) == TermCounts(4, {}).weight(["4711"]), "at most the largest"
