"""TwinvecEmbeddings: a twinvec encoder as LangChain's ``Embeddings``.

Takes the fields of ``HuggingFaceEmbeddings`` too, with the same vectors; what cannot be honoured is refused.
"""

from __future__ import annotations

from typing import Any, Literal

from langchain_core.embeddings import Embeddings
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from twinvec import Encoder
from twinvec.adapters.embeddings import QueryDocumentEmbedder
from twinvec.adapters.opening import Prompt, open_encoder
from twinvec.adapters.sentence_transformers import encode_options, loading_options
from twinvec.errors import ConfigurationError


class TwinvecEmbeddings(BaseModel, Embeddings):
    """Embeddings of a sentence-transformers model, run by twinvec.

    Queries and documents get the model's prompts for them, where it has any. Awaited calls do not block the event
    loop, and those that wait at the same time are encoded together.

        embeddings = TwinvecEmbeddings(model="default")
        vector = embeddings.embed_query("How do I get time off?")

    Raises:
        pydantic.ValidationError: a field is unknown, or its value cannot work.
        ModelError: the model is not found, damaged or not supported.
    """

    model_config = ConfigDict(
        extra="forbid",
        protected_namespaces=(),
        populate_by_name=True,
        arbitrary_types_allowed=True,
        hide_input_in_errors=True,  # there may be a token in model_kwargs
    )

    model_name: str = Field(default="default", alias="model")
    """``"default"``, a folder in the sentence-transformers format, or ``"org/name"`` or ``"org/name@commit"``."""
    encoder: Encoder | None = Field(default=None, exclude=True, repr=False)
    """An encoder that is open already, in place of a model's name and the settings below."""
    engine: str = "auto"
    """What computes, as for ``twinvec.Encoder``."""
    precision: str = "auto"
    """Of the computation, as for ``twinvec.Encoder``."""
    device: str | None = None
    """``"cpu"``, ``"cuda"``, ...; a GPU is taken where there is one unless given."""
    dimensions: int | None = None
    """Keep this many leading dimensions (Matryoshka models)."""
    max_tokens: int | None = None
    """Cut longer texts here, in place of the model's own limit."""
    query_prompt: str | None = None
    """Put before queries, in place of the model's own prompt; ``""`` for none."""
    document_prompt: str | None = None
    """Put before documents, in place of the model's own prompt; ``""`` for none."""
    normalize: bool = False
    """Give every vector the length 1, also where the model does not."""
    show_progress: bool = False
    """Show a progress bar for documents, on a terminal."""
    cache_folder: str | None = None
    """Where hub models are kept, in place of the hub's own cache."""
    multi_process: Literal[False] = False
    """As in ``HuggingFaceEmbeddings``; several processes are not supported."""
    model_kwargs: dict[str, Any] = Field(default_factory=dict, repr=False)
    """As in ``HuggingFaceEmbeddings``: device, revision, token, local_files_only, truncate_dim, prompts,
    default_prompt_name, backend, and the dtype in its own ``model_kwargs``."""
    encode_kwargs: dict[str, Any] = Field(default_factory=dict)
    """As in ``HuggingFaceEmbeddings``: normalize_embeddings, prompt, prompt_name, truncate_dim, device; ``batch_size``
    is taken and not needed, since batches are made under a token budget."""
    query_encode_kwargs: dict[str, Any] = Field(default_factory=dict)
    """As ``encode_kwargs``, and in place of them, for queries."""

    _sides: QueryDocumentEmbedder = PrivateAttr()

    def model_post_init(self, context: Any, /) -> None:
        """Open the encoder."""
        documents = encode_options(self.encode_kwargs, "encode_kwargs: ")
        queries = documents
        if self.query_encode_kwargs:
            queries = encode_options(self.query_encode_kwargs, "query_encode_kwargs: ")
        if documents.get("truncate_dim") != queries.get("truncate_dim"):
            raise ConfigurationError("truncate_dim must be the same for documents and queries")
        if len({each["device"] for each in (documents, queries) if "device" in each}) > 1:
            raise ConfigurationError("device must be the same for documents and queries")
        common = self.model_kwargs.get("default_prompt_name")
        settings = {
            "engine": None if self.engine == "auto" else self.engine,
            "precision": None if self.precision == "auto" else self.precision,
            "device": self.device or documents.get("device") or queries.get("device"),
            "dim": documents.get("truncate_dim") if self.dimensions is None else self.dimensions,
            "max_tokens": self.max_tokens,
            "cache_folder": self.cache_folder,
            "query_prompt": _prompt(queries, self.query_prompt, common),
            "document_prompt": _prompt(documents, self.document_prompt, common),
        }
        given = loading_options(self.model_kwargs, "model_kwargs: ")
        given |= {name: value for name, value in settings.items() if value is not None}
        if self.encoder is None:
            self.encoder = open_encoder(self.model_name, **given)
        elif given or "model_name" in self.model_fields_set:
            raise ConfigurationError(f"an encoder is given; set these there: {', '.join(given) or 'model'}")
        normalize = [self.normalize or bool(each.get("normalize_embeddings")) for each in (queries, documents)]
        progress = self.show_progress or bool(documents.get("show_progress_bar"))
        self._sides = QueryDocumentEmbedder(self.encoder, normalize=(normalize[0], normalize[1]), progress=progress)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """One vector a text, in order; with the model's prompt for documents.

        Raises:
            TextError: a text is refused by the input gate; named by its index.
        """
        return self._sides.documents(texts)

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query; with the model's prompt for queries.

        Raises:
            TextError: the text is refused by the input gate.
        """
        return self._sides.query(text)

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        """``embed_documents`` without blocking the event loop."""
        return await self._sides.adocuments(texts)

    async def aembed_query(self, text: str) -> list[float]:
        """``embed_query`` without blocking the event loop; queries that wait at the same time share a batch."""
        return await self._sides.aquery(text)


def _prompt(options: dict[str, Any], text: str | None, common: str | None) -> Prompt | None:
    """The prompt of one side, where the model's own for it is not wanted; ``common`` names one for both."""
    if text is None:
        text = options.get("prompt")
    if text is not None:
        return Prompt(text)
    name = options.get("prompt_name", common)
    return None if name is None else Prompt(name=name)
