"""TwinvecReranker and TwinvecCrossEncoder: copies in the core's order, with the scores of all stages."""

from __future__ import annotations

import pytest
from langchain_core.documents import Document
from pydantic import ValidationError
from sentence_transformers import CrossEncoder

from handbook import CANDIDATES, QUESTION
from langchain_twinvec import TwinvecCrossEncoder, TwinvecReranker, TwinvecRetriever
from twinvec import CrossEncoderReranker, Hit, MemoryIndex
from twinvec.errors import ConfigurationError, DocumentError, ModelNotFoundError, TextError


@pytest.fixture
def documents() -> list[Document]:
    return [Document(text, id=f"d{rank}", metadata={"rank": rank}) for rank, text in enumerate(CANDIDATES)]


def test_documents_come_in_the_order_of_the_core_as_copies_with_scores(maxsim, documents) -> None:
    before = [document.model_dump() for document in documents]
    best = TwinvecReranker(reranker=maxsim, top_n=2).compress_documents(documents, QUESTION)
    expected = maxsim.rerank(QUESTION, [Hit(f"d{rank}", text, 0.0) for rank, text in enumerate(CANDIDATES)], 2)
    assert [document.id for document in best] == [hit.id for hit in expected]
    assert best[0].id == "d1"
    assert best[0].metadata["rank"] == 1
    assert [document.metadata["relevance_score"] for document in best] == [hit.score for hit in expected]
    assert [document.metadata["twinvec_scores"] for document in best] == [dict(hit.scores) for hit in expected]
    assert list(best[0].metadata["twinvec_scores"]) == ["maxsim"]
    assert [document.model_dump() for document in documents] == before


async def test_awaiting_gives_the_same(maxsim, documents) -> None:
    reranker = TwinvecReranker(reranker=maxsim)
    assert await reranker.acompress_documents(documents, QUESTION) == reranker.compress_documents(documents, QUESTION)


def test_documents_without_ids_and_the_same_document_twice_are_told_apart(maxsim) -> None:
    documents = [
        Document(CANDIDATES[1], metadata={"n": 1}),
        Document(CANDIDATES[0]),
        Document(CANDIDATES[1], metadata={"n": 2}),
    ]
    best = TwinvecReranker(reranker=maxsim, top_n=None).compress_documents(documents, QUESTION)
    assert sorted(document.metadata.get("n", 0) for document in best) == [0, 1, 2]
    assert TwinvecReranker(reranker=maxsim).compress_documents([], QUESTION) == []


def test_scores_of_the_stages_before_are_kept(encoder, maxsim) -> None:
    retriever = TwinvecRetriever(retriever=MemoryIndex(encoder, CANDIDATES), k=3)
    best = TwinvecReranker(reranker=maxsim).compress_documents(retriever.invoke(QUESTION), QUESTION)
    assert list(best[0].metadata["twinvec_scores"]) == ["dense", "sparse", "fused", "maxsim"]


def test_a_document_of_another_retriever_is_not_last_for_want_of_a_score(maxsim) -> None:
    scored = ((CANDIDATES[0], 6.0), (CANDIDATES[2], 5.0))
    documents = [Document(text, metadata={"relevance_score": score}) for text, score in scored]
    documents.append(Document(CANDIDATES[1]))
    best = TwinvecReranker(reranker=maxsim).compress_documents(documents, QUESTION)
    assert [document.page_content for document in best].index(CANDIDATES[1]) < 2


@pytest.mark.slow
def test_a_model_is_opened_by_name(tiny_cross_encoder, documents) -> None:
    folder = str(tiny_cross_encoder("bert"))
    best = TwinvecReranker(model=folder, top_n=3).compress_documents(documents, QUESTION)
    expected = CrossEncoderReranker(folder).rerank(QUESTION, [Hit(d.id, d.page_content, 0.0) for d in documents])
    assert [document.id for document in best] == [hit.id for hit in expected]
    (best,) = TwinvecReranker(top_n=1).compress_documents(documents, QUESTION)
    assert best.id == "d1"


def test_bad_settings_and_texts_are_named(maxsim, documents, tmp_path) -> None:
    with pytest.raises(ValidationError, match="top_n"):
        TwinvecReranker(reranker=maxsim, top_n=0)
    with pytest.raises((ConfigurationError, ValidationError), match=r"reranker: expected a reranker, .*, got 3"):
        TwinvecReranker(reranker=3)
    with pytest.raises(ModelNotFoundError, match="nowhere"):
        TwinvecReranker(model=str(tmp_path / "nowhere"))
    with pytest.raises(TextError):
        TwinvecReranker(reranker=maxsim).compress_documents(documents, "lone \ud800 surrogate")


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        (None, "expected a list of documents, got NoneType"),
        ("text", "expected a list of documents, got str"),
        (Document("text"), "expected a list of documents, got Document"),
        (["text"], r"item 0: expected a Document\(.*\), got str$"),
    ],
)
def test_what_is_not_a_list_of_documents_is_named(maxsim, wrong, named) -> None:
    with pytest.raises(DocumentError, match=named):
        TwinvecReranker(reranker=maxsim).compress_documents(wrong, QUESTION)


def test_the_cross_encoder_gives_the_scores_of_sentence_transformers(tiny_cross_encoder) -> None:
    folder = str(tiny_cross_encoder("bert"))
    pairs = [(QUESTION, text) for text in CANDIDATES]
    scores = TwinvecCrossEncoder(model=folder).score(pairs)
    assert {type(score) for score in scores} == {float}
    assert scores == pytest.approx(CrossEncoder(folder, device="cpu").predict(pairs).tolist(), abs=1e-5)
    assert TwinvecCrossEncoder(model_name=folder).score([]) == []
