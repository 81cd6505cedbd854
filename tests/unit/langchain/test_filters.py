"""The filters that TwinvecVectorStore takes, and the translator for ``SelfQueryRetriever``."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from langchain_core.structured_query import Comparator, Comparison, Operation, Operator, StructuredQuery
from qdrant_client import QdrantClient, models

from cases import slow
from langchain_twinvec import TwinvecTranslator, TwinvecVectorStore
from twinvec.errors import FilterError
from twinvec_qdrant import Collection
from words import WordEncoder

METADATA = {
    "a": {"team": "hr", "year": 2019, "id": "x", "tags": ["new"], "day": "2024-05-01", "title": "red fox"},
    "b": {"team": "it", "year": 2020, "id": "y", "tags": ["old"], "day": "2024-06-01", "title": "blue dog"},
    "c": {"team": "hr", "year": 2021, "title": "a red dog"},
}


@pytest.fixture(scope="module", params=["embedded", slow("client")])
def store(request, tmp_path_factory):
    place = (
        {"path": tmp_path_factory.mktemp("store")}
        if request.param == "embedded"
        else {"client": QdrantClient(":memory:")}
    )
    with Collection.open("notes", encoder=WordEncoder(), chunking=False, **place) as collection:
        store = TwinvecVectorStore(collection=collection)
        store.add_documents([Document(f"note {key}", id=key, metadata=each) for key, each in METADATA.items()])
        yield store


def found(store: TwinvecVectorStore, filter) -> set[str]:
    vector = store.collection.encoder.encode_query(["note"])[0].tolist()
    answers = [
        {each.id for each in documents}
        for documents in (
            store.similarity_search("note", 9, filter=filter),
            store.similarity_search("note", 9, filter=filter, mode="hybrid"),
            store.similarity_search_by_vector(vector, 9, filter=filter),
            store.max_marginal_relevance_search("note", 9, filter=filter),
            store.max_marginal_relevance_search_by_vector(vector, 9, filter=filter),
            [each for each, _ in store.similarity_search_with_relevance_scores("note", 9, filter=filter)],
        )
    ]
    assert all(each == answers[0] for each in answers), answers
    return answers[0]


HR = models.FieldCondition(key="metadata.team", match=models.MatchValue(value="hr"))


@pytest.mark.parametrize(
    ("filter", "expected"),
    [
        (models.Filter(must=[HR]), "ac"),
        (models.Filter(must_not=[HR]), "b"),
        (models.Filter(must=[HR, models.FieldCondition(key="metadata.year", range=models.Range(gt=2019))]), "c"),
        ({"metadata.team": "hr"}, "ac"),
        ({"team": "hr", "metadata.year": {"lt": 2021}}, "a"),
        ({"metadata.id": "y"}, "b"),
        ({".id": {"in": ["x", "y"]}}, "ab"),
        ({".id": {"exists": True}}, "ab"),
        ({"id": "c"}, "c"),
    ],
)
def test_every_search_takes_every_form(store, filter, expected) -> None:
    assert found(store, filter) == set(expected)


def test_a_key_named_id_gets_an_index_like_any_other(store) -> None:
    indexes = store.collection.info().get("payload_indexes")  # a client in memory has none
    assert indexes is None or indexes[".id"] == "keyword"


def test_what_is_no_filter_is_refused(store) -> None:
    with pytest.raises(FilterError, match="got str"):
        store.similarity_search("note", filter="team = hr")


def compare(comparator: str, attribute: str, value) -> Comparison:
    return Comparison(comparator=Comparator(comparator), attribute=attribute, value=value)


def combine(operator: str, *arguments) -> Operation:
    return Operation(operator=Operator(operator), arguments=list(arguments))


@pytest.mark.parametrize(
    ("directive", "expected"),
    [
        (compare("eq", "team", "hr"), "ac"),
        (compare("ne", "team", "hr"), "b"),
        (compare("gt", "year", 2019), "bc"),
        (compare("gte", "year", 2020), "bc"),
        (compare("lt", "year", 2020), "a"),
        (compare("lte", "year", 2020), "ab"),
        (compare("gt", "year", "2019"), "bc"),
        (compare("lte", "day", "2024-05-01"), "a"),
        (compare("eq", "day", {"date": "2024-05-01", "type": "date"}), "a"),
        (compare("gt", "day", {"date": "2024-05-01", "type": "date"}), "b"),
        (compare("lt", "day", {"datetime": "2024-05-01T12:00:00+00:00", "type": "datetime"}), "a"),
        (compare("in", "year", [2019, 2021]), "ac"),
        (compare("nin", "year", [2019, 2021]), "b"),
        (compare("contain", "tags", "new"), "a"),
        (compare("contain", "title", "red"), "ac"),
        (compare("like", "title", "%dog%"), "bc"),
        (compare("eq", "id", "x"), "a"),
        (compare("eq", "metadata.team", "it"), "b"),
        (combine("and", compare("eq", "team", "hr"), compare("gt", "year", 2019)), "c"),
        (combine("or", compare("eq", "team", "it"), compare("gt", "year", 2020)), "bc"),
        (combine("not", compare("eq", "team", "it")), "ac"),
        (combine("not", compare("eq", "team", "it"), compare("eq", "year", 2019)), "c"),
        (combine("and", combine("not", compare("eq", "team", "it")), compare("lt", "year", 2021)), "a"),
    ],
)
def test_a_structured_query_finds_what_it_says(store, directive, expected) -> None:
    query, arguments = TwinvecTranslator().visit_structured_query(StructuredQuery(query="note", filter=directive))
    assert query == "note"
    assert {each.id for each in store.similarity_search(query, 9, **arguments)} == set(expected)


def test_every_comparator_of_langchain_is_supported() -> None:
    assert set(TwinvecTranslator.allowed_comparators) == set(Comparator)
    assert set(TwinvecTranslator.allowed_operators) == set(Operator)


def test_a_limit_becomes_k_and_a_broken_date_is_named() -> None:
    translator = TwinvecTranslator()
    assert translator.visit_structured_query(StructuredQuery(query="q", filter=None, limit=3)) == ("q", {"k": 3})
    with pytest.raises(FilterError, match="ISO 8601"):
        translator.visit_comparison(compare("eq", "day", {"date": "yesterday", "type": "date"}))
