"""TwinvecEmbeddings: a twinvec encoder as LangChain's ``Embeddings``.

The class accepts the fields of ``HuggingFaceEmbeddings`` and returns the same vectors; it refuses values that it does
not support.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, field_serializer

from twinvec import Encoder
from twinvec.adapters.embeddings import QueryDocumentEmbedder, open_encoder
from twinvec.adapters.sentence_transformers import encode_options, loading_options
from twinvec.errors import ConfigurationError


class TwinvecEmbeddings(BaseModel, Embeddings):
    """Embeddings of a sentence-transformers model, computed by twinvec.

    Queries and documents get the model's prompts for them. Awaited calls do not block the event loop; calls that wait
    at the same time are encoded together.

        embeddings = TwinvecEmbeddings(model="default")
        vector = embeddings.embed_query("How do I get time off?")

    Raises:
        pydantic.ValidationError: a field is unknown or its value is invalid.
        ModelError: the model is not found, damaged or not supported.
    """

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        populate_by_name=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,  # model_kwargs may hold a token
    )

    model_name: str = Field(default="default", alias="model")
    """``"default"``, a folder in the sentence-transformers format, ``"org/name"`` or ``"org/name@commit"``."""
    encoder: Encoder | None = Field(default=None, exclude=True, repr=False)
    """An open encoder, instead of a model's name and the settings below."""
    engine: str = "auto"
    """The engine, as for ``twinvec.Encoder``."""
    precision: str = "auto"
    """Precision of the computation, as for ``twinvec.Encoder``."""
    device: str | None = None
    """``"cpu"``, ``"cuda"``, ... (default: a GPU if there is one)."""
    dimensions: int | None = None
    """Truncate vectors to this many leading dimensions (for Matryoshka models)."""
    max_tokens: int | None = None
    """Truncate longer texts to this many tokens (default: the model's limit)."""
    query_prompt: str | None = None
    """Prompt before queries (default: the model's); ``""`` means that queries get no prompt."""
    document_prompt: str | None = None
    """Prompt before documents (default: the model's); ``""`` means that documents get no prompt."""
    normalize: bool = False
    """Scale every vector to length 1, even if the model does not."""
    show_progress: bool = False
    """Show progress for documents: a bar on a terminal, a line a minute elsewhere."""
    cache_folder: str | None = None
    """Folder of hub models (default: the hub's cache)."""
    multi_process: Literal[False] = False
    """A field of ``HuggingFaceEmbeddings``; several processes are not supported."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict, repr=False)
    """As in ``HuggingFaceEmbeddings``: device, revision, token, local_files_only, truncate_dim, prompts,
    default_prompt_name, backend, and ``model_kwargs`` with a dtype."""
    encode_kwargs: dict[str, Any] = Field(default_factory=dict)
    """As in ``HuggingFaceEmbeddings``: normalize_embeddings, prompt, prompt_name, truncate_dim, device. ``batch_size``
    has no effect, since a token budget limits batches."""
    query_encode_kwargs: dict[str, Any] = Field(default_factory=dict)
    """Replaces ``encode_kwargs`` for queries."""

    _sides: QueryDocumentEmbedder = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the encoder."""
        queries, documents = self._encode_options()
        settings = self._settings(queries, documents)
        if self.encoder is None:
            self.encoder = open_encoder(self.model_name, **settings)
        elif settings or "model_name" in self.model_fields_set:
            raise ConfigurationError(
                f"an encoder is given; leave these out, and set them when you open the encoder: "
                f"{', '.join(settings) or 'model'}"
            )
        else:
            self._describe(self.encoder)
        normalize = [self.normalize or bool(each.get("normalize_embeddings")) for each in (queries, documents)]
        progress = self.show_progress or bool(documents.get("show_progress_bar"))
        self._sides = QueryDocumentEmbedder(self.encoder, normalize=(normalize[0], normalize[1]), progress=progress)

    @field_serializer("model_kwargs")
    def _without_token(self, model_kwargs: dict[str, Any]) -> dict[str, Any]:
        """Leave the token out of saved settings; a loaded model needs it again."""
        return {name: value for name, value in model_kwargs.items() if name not in ("token", "use_auth_token")}

    def _describe(self, encoder: Encoder) -> None:
        """Set the fields to the model, dimensions, limit and prompts of the encoder, so that saved fields describe it.

        A default prompt is left out: the vectors of queries and documents do not depend on it.
        """
        self.model_name = encoder.name
        self.dimensions, self.max_tokens = (encoder.overrides.get(name) for name in ("dim", "max_tokens"))
        if "prompts" in encoder.overrides:
            self.model_kwargs = {"prompts": encoder.overrides["prompts"]}

    def _encode_options(self) -> tuple[dict[str, Any], dict[str, Any]]:
        documents = encode_options(self.encode_kwargs, "encode_kwargs: ")
        queries = encode_options(self.query_encode_kwargs or self.encode_kwargs, "query_encode_kwargs: ")
        if documents.get("truncate_dim") != queries.get("truncate_dim"):
            raise ConfigurationError("truncate_dim must be the same for documents and queries")
        if len({each["device"] for each in (documents, queries) if "device" in each}) > 1:
            raise ConfigurationError("device must be the same for documents and queries")
        return queries, documents

    def _settings(self, queries: dict[str, Any], documents: dict[str, Any]) -> dict[str, Any]:
        """Return the fields as arguments of ``open_encoder``."""
        sides = {"query": queries, "document": documents}
        common = self.model_kwargs.get("default_prompt_name")
        names = {side: name for side, each in sides.items() if (name := each.get("prompt_name", common)) is not None}
        fields = {
            "engine": None if self.engine == "auto" else self.engine,
            "precision": None if self.precision == "auto" else self.precision,
            "device": self.device or documents.get("device") or queries.get("device"),
            "dim": documents.get("truncate_dim") if self.dimensions is None else self.dimensions,
            "max_tokens": self.max_tokens,
            "cache_folder": self.cache_folder,
            "query_prompt": queries.get("prompt") if self.query_prompt is None else self.query_prompt,
            "document_prompt": documents.get("prompt") if self.document_prompt is None else self.document_prompt,
            "prompt_names": names or None,
        }
        options = loading_options(self.model_kwargs, "model_kwargs: ")
        return options | {name: value for name, value in fields.items() if value is not None}

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return one vector for each text, in order, with the prompt for documents.

        Raises:
            TextError: a text is invalid (not a string, too long, or with a lone surrogate); the error names its index.
        """
        return self._sides.documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query, with the prompt for queries; errors are as for ``embed_documents``."""
        return self._sides.query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """``embed_documents``, awaitable."""
        return await self._sides.adocuments(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """``embed_query``, awaitable; queries that wait at the same time share a batch."""
        return await self._sides.aquery(text)
