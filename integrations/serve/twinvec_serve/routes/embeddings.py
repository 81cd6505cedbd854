"""The routes of embeddings, compatible with OpenAI's API."""

from __future__ import annotations

import base64
from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Depends, Request, Response
from pydantic import BaseModel, Field, WithJsonSchema, field_validator

from twinvec_serve.errors import ErrorAnswer, UnknownModel
from twinvec_serve.models.embedding import Encoded
from twinvec_serve.routes.answers import TRUNCATED
from twinvec_serve.routes.checks import as_texts, check_sizes
from twinvec_serve.routes.presence import WhileConnected
from twinvec_serve.safety.keys import reads
from twinvec_serve.services import Served, Services
from twinvec_serve.typos import TypoCheckedRequest

router = APIRouter(prefix="/v1", tags=["models"], dependencies=[Depends(reads)])

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "The request is not valid; the message says why."},
    404: {"model": ErrorAnswer, "description": "No model has the name; the message lists the existing names."},
    429: {"model": ErrorAnswer, "description": "The queue is full; Retry-After says when to try again."},
}
_TRUNCATED = {"schema": {"type": "integer"}, "description": "Number of texts that were truncated."}
ANSWERS: dict[int | str, dict[str, Any]] = {**ERRORS, 200: {"headers": {TRUNCATED: _TRUNCATED}}}
"""The answers of routes that call a model: their errors, and the header that counts truncated texts."""

_TEXTS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}, "minItems": 1}]}


class EmbeddingsRequest(TypoCheckedRequest):
    """Texts to embed. Unknown fields are ignored, but a misspelt known field is an error."""

    alike = 0.8  # dimension, inputType and modle are typos; input_text, encoding and dims are not
    without_effect = frozenset(("user",))

    input: Annotated[list[str], WithJsonSchema(_TEXTS)] = Field(
        description="One text, or a list of texts.", min_length=1, fail_fast=True
    )
    model: str | None = Field(default=None, description="Name of the model; default: the server's first.")
    encoding_format: Literal["float", "base64"] | None = Field(
        default=None, description='How vectors are written: "float" (default), or "base64" of little-endian float32.'
    )
    dimensions: int | None = Field(
        default=None, ge=1, description="Truncate vectors to the first dimensions; they are normalised again."
    )
    input_type: Literal["query", "document"] | None = Field(
        default=None,
        description="Whether the texts are documents (default) or queries: the model has a prompt for each.",
    )
    user: str | None = Field(default=None, description="Ignored.")

    @field_validator("input", mode="before")
    @classmethod
    def _as_list(cls, value: Any) -> Any:
        if isinstance(value, list) and value and isinstance(value[0], (int, list)):
            raise ValueError(
                "token ids are not supported, send texts; in langchain-openai, set "
                "OpenAIEmbeddings(check_embedding_ctx_length=False)"
            )
        return as_texts(value)


class Embedding(BaseModel):
    """The vector of one text."""

    object: Literal["embedding"] = Field(description='Always "embedding".')
    index: int = Field(description="Index of the text in the request.")
    embedding: list[float] | str = Field(description='The vector: numbers, or base64 for encoding_format "base64".')


class EmbeddingsUsage(BaseModel):
    """Numbers of tokens of a request."""

    prompt_tokens: int = Field(description="Tokens that the model has read, special tokens and prompts included.")
    total_tokens: int = Field(description="The same number as prompt_tokens.")


class EmbeddingsAnswer(BaseModel):
    """The vectors of the texts, in their order."""

    object: Literal["list"] = Field(description='Always "list".')
    data: list[Embedding] = Field(description="One vector for each text.")
    model: str = Field(description="Name of the model.")
    usage: EmbeddingsUsage = Field(description="Numbers of tokens of the request.")


class ServedModel(BaseModel):
    """A model of the server."""

    id: str = Field(description="Name by which requests use the model.")
    object: Literal["model"] = Field(default="model", description='Always "model".')
    created: int = Field(description="When the server loaded the model, in seconds since 1970.")
    owned_by: str = Field(default="twinvec", description='Always "twinvec".')
    type: Literal["embedding", "reranking"] = Field(description="Task of the model.")
    dimensions: int | None = Field(default=None, description="Size of the vectors.")
    max_tokens: int | None = Field(
        default=None, description="Longest text, or for a cross-encoder longest pair, in tokens; the rest is truncated."
    )


class ModelsAnswer(BaseModel):
    """The models of the server."""

    object: Literal["list"] = Field(default="list", description='Always "list".')
    data: list[ServedModel] = Field(description="Models that embed, the default one first, then rerankers.")


@router.post("/embeddings", response_model=EmbeddingsAnswer, responses=ANSWERS, summary="Embed texts")
async def embed(request: Request, body: EmbeddingsRequest, served: Served) -> Response:
    """Return the vectors of one text or of several, as OpenAI does."""
    check_sizes(body.input, served.settings, "input")
    name = body.model if body.model is not None else served.models.default
    kind = body.input_type or "document"
    async with WhileConnected(request):
        encoded = await served.models.encode(name, body.input, kind=kind, dimensions=body.dimensions)
    content = _written(name, encoded, body.encoding_format == "base64")
    return Response(content, headers={TRUNCATED: str(encoded.truncated)}, media_type="application/json")


@router.get("/models", responses={}, summary="List the models")
async def list_models(served: Served) -> ModelsAnswer:
    """Return the models that embed, and the rerankers."""
    names = [*served.models.names, *served.models.reranker_names]
    return ModelsAnswer(data=[_described(served, name) for name in names])


@router.get("/models/{name:path}", responses={404: ERRORS[404]}, summary="Describe a model")
async def describe_model(name: str, served: Served) -> ServedModel:
    """Return one model, by its name."""
    return _described(served, name)


def _described(served: Services, name: str) -> ServedModel:
    models = served.models
    if name in models.names:
        encoder = models.encoder(name)
        return ServedModel(
            id=name, created=models.loaded_at, type="embedding", dimensions=encoder.dim, max_tokens=encoder.max_tokens
        )
    if name in models.reranker_names:
        longest = models.max_pair_tokens(name)
        return ServedModel(id=name, created=models.loaded_at, type="reranking", max_tokens=longest)
    raise UnknownModel(name, [*models.names, *models.reranker_names])


def _written(name: str, encoded: Encoded, as_base64: bool) -> bytes:
    """Return the JSON of an ``EmbeddingsAnswer``. Numbers have the fewest digits that keep the float32."""
    vectors_ND = encoded.vectors_ND
    rows = [base64.b64encode(row_D).decode() for row_D in vectors_ND.astype("<f4")] if as_base64 else list(vectors_ND)
    answer = {
        "object": "list",
        "data": [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)],
        "model": name,
        "usage": {"prompt_tokens": encoded.tokens, "total_tokens": encoded.tokens},
    }
    return orjson.dumps(answer, option=orjson.OPT_SERIALIZE_NUMPY)
