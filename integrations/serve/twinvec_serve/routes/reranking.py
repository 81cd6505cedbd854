"""The routes of reranking, compatible with the APIs of Cohere and Jina.

One request model serves both APIs: unknown fields are ignored, and the answer has the fields of both APIs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal
from uuid import uuid4

from fastapi import APIRouter, Depends, Request, Response
from pydantic import AfterValidator, BaseModel, Field
from pydantic_core import to_json

from twinvec_serve.errors import RequestError
from twinvec_serve.json_texts import JsonRoute
from twinvec_serve.routes.answers import TRUNCATED
from twinvec_serve.routes.checks import check_not_empty, check_sizes, expecting
from twinvec_serve.routes.embeddings import ANSWERS
from twinvec_serve.routes.presence import WhileConnected
from twinvec_serve.safety.keys import reads
from twinvec_serve.services import Served, Services
from twinvec_serve.typos import TypoCheckedRequest

_TextOrObject = Annotated[
    str | dict[str, Any], expecting("a text or an object", lambda value: isinstance(value, str | dict))
]

router = APIRouter(route_class=JsonRoute, tags=["models"], dependencies=[Depends(reads)])


class RerankRequest(TypoCheckedRequest):
    """A query, and documents to order by how well they answer it.

    Unknown fields are ignored, but a misspelt known field is an error.
    """

    alike = 0.75  # top_m and top_k are typos (top_k would change the result); max_tokens_per_doc is not
    others = frozenset({"mode", "model_id"})

    query: Annotated[str, AfterValidator(check_not_empty)] = Field(description="The query: a question or key words.")
    documents: list[_TextOrObject] = Field(
        min_length=1,
        fail_fast=True,
        description='Texts, or objects whose field "text" is compared (or those of rank_fields).',
    )
    model: str | None = Field(
        default=None, description='Name of the reranker: "maxsim", or a cross-encoder; default: the server\'s first.'
    )
    top_n: int | None = Field(default=None, ge=1, description="How many results to return; default: all.")
    return_documents: bool | None = Field(default=None, description="Whether results have the documents; default: no.")
    rank_fields: list[str] | None = Field(
        default=None,
        min_length=1,
        fail_fast=True,
        description='Fields of objects to compare, in this order; default: "text".',
    )


class RerankResult(BaseModel):
    """How well one document answers the query."""

    index: int = Field(description="Index of the document in the request.")
    relevance_score: float = Field(description="Relevance from 0 to 1.")
    document: dict[str, Any] | None = Field(
        default=None, description='With return_documents: the document as it was sent; a text becomes the field "text".'
    )


class RerankUsage(BaseModel):
    """Numbers of tokens of a request."""

    total_tokens: int = Field(description="Tokens that the model has read.")
    prompt_tokens: int = Field(description="The same number as total_tokens.")


class RerankVersion(BaseModel):
    """The version of the API that a request has used."""

    version: str = Field(description='"1" or "2".')


class RerankMeta(BaseModel):
    """The field ``meta`` of Cohere's answers."""

    api_version: RerankVersion = Field(description="The version of the API that the request has used.")


class RerankAnswer(BaseModel):
    """The documents in the order of their relevance."""

    id: str = Field(description="An identifier of the answer.")
    object: Literal["list"] = Field(default="list", description='Always "list".')
    model: str = Field(description="Name of the reranker.")
    results: list[RerankResult] = Field(description="The results, most relevant first.")
    usage: RerankUsage = Field(description="Numbers of tokens of the request.")
    meta: RerankMeta = Field(description="The version of the API.")


@router.post("/v2/rerank", responses=ANSWERS, response_model_exclude_none=True, summary="Rerank as Cohere's API 2")
async def rerank_v2(request: Request, response: Response, body: RerankRequest, served: Served) -> RerankAnswer:
    """Return the documents in the order of their relevance to the query."""
    return await _rerank(request, response, body, served, "2")


@router.post(
    "/v1/rerank", responses=ANSWERS, response_model_exclude_none=True, summary="Rerank as Jina, and as Cohere's API 1"
)
async def rerank_v1(request: Request, response: Response, body: RerankRequest, served: Served) -> RerankAnswer:
    """Return the documents in the order of their relevance to the query."""
    return await _rerank(request, response, body, served, "1")


async def _rerank(
    request: Request, response: Response, body: RerankRequest, served: Services, version: str
) -> RerankAnswer:
    texts = [_text(document, index, body.rank_fields) for index, document in enumerate(body.documents)]
    check_sizes([body.query], served.settings, "query")
    check_sizes(texts, served.settings, "documents")
    wanted = body.documents if body.return_documents else []
    returned = [_returned(document, index) for index, document in enumerate(wanted)]
    name = body.model if body.model is not None else served.models.reranker_names[0]
    async with WhileConnected(request):
        scores, tokens, truncated = await served.models.rerank(name, body.query, texts)
    response.headers[TRUNCATED] = str(truncated)
    order = sorted(range(len(texts)), key=lambda index: -scores[index])[: body.top_n]
    results = [
        RerankResult(index=index, relevance_score=scores[index], document=returned[index] if returned else None)
        for index in order
    ]
    usage = RerankUsage(total_tokens=tokens, prompt_tokens=tokens)
    meta = RerankMeta(api_version=RerankVersion(version=version))
    return RerankAnswer(id=str(uuid4()), model=name, results=results, usage=usage, meta=meta)


def _text(document: str | dict[str, Any], index: int, fields: Sequence[str] | None) -> str:
    if isinstance(document, str):
        return document
    wanted = fields or ("text",)
    found = [document[field] for field in wanted if field in document]
    if not found or not all(isinstance(value, str) for value in found):
        raise RequestError(
            f"documents: document {index} is an object without texts in {', '.join(map(repr, wanted))}; "
            "send strings, objects with a text, or the names of their fields in rank_fields",
            param="documents",
            code="no_text",
        )
    return "\n".join(found)


def _returned(document: str | dict[str, Any], index: int) -> dict[str, Any]:
    if isinstance(document, str):
        return {"text": document}
    try:
        to_json([[[document]]]).decode()  # as deeply nested as in the answer
    except ValueError:
        raise RequestError(
            f"documents: document {index} cannot be returned: it has a lone surrogate, or is nested too deeply; "
            "correct it, or leave out return_documents",
            param="documents",
            code="unreturnable_document",
        ) from None
    return document
