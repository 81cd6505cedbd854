"""The models and rerankers of a server, by the names that requests use."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from twinvec import CrossEncoderReranker, Encoder, MaxSimReranker
from twinvec.errors import ConfigurationError
from twinvec.retrieval.base import Reranker
from twinvec.text import check_text, check_texts
from twinvec_serve.errors import UnknownModel
from twinvec_serve.models.batching import Computed
from twinvec_serve.models.embedding import CountingEncoder, EmbeddingModel, Encoded, Kind
from twinvec_serve.models.reranking import RerankingModel
from twinvec_serve.models.waiting_room import WaitingRoom
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.settings import MAXSIM, ServeSettings


class ServedModels:
    """Loads models when the server starts, and computes embeddings and relevance in threads.

    ``loaded_at`` is the time at which the models were loaded, in seconds since 1970; 0 while they are not loaded. The
    constructor raises ConfigurationError if two of the models and rerankers have the same name. Every method that takes
    a name raises UnknownModel if no model has the name.
    """

    def __init__(self, settings: ServeSettings, metrics: Metrics) -> None:
        _check_names(settings)
        self._settings = settings
        self._metrics = metrics
        self._room = WaitingRoom(settings.queue_size, settings.queue_texts, metrics)
        self._models: dict[str, EmbeddingModel] = {}
        self._rerankers: dict[str, RerankingModel] = {}
        self.loaded_at = 0

    @property
    def names(self) -> list[str]:
        """Names of the models that embed, the default one first."""
        return list(self._settings.models)

    @property
    def reranker_names(self) -> list[str]:
        """Names of the rerankers: the cross-encoders, then "maxsim". The first is the default."""
        return [*self._settings.rerankers, MAXSIM]

    @property
    def default(self) -> str:
        """Name of the embedding model for requests that name no model."""
        return self.names[0]

    async def start(self) -> None:
        """Load all models."""
        await asyncio.to_thread(self._load)

    async def stop(self) -> None:
        """Finish the batches under way, and release the models."""
        await asyncio.to_thread(self._close)

    def encoder(self, name: str) -> Encoder:
        """Return the encoder that is served under a name."""
        return self._embedding(name).encoder

    def served_name(self, model: str) -> str:
        """Return the name under which a model is served; ``model`` is this name or the name of the model itself."""
        served = self._settings.models
        if model in served:
            return model
        for name, each in served.items():
            if model in (each, self.encoder(name).name):
                return name
        raise UnknownModel(model, self.names)

    def reranker(self, name: str) -> Reranker:
        """Return the reranker that a search names; "maxsim" compares token states of the default model."""
        return self._reranking(name, param="rerank").reranker

    def max_pair_tokens(self, name: str) -> int:
        """Return the longest pair, or for "maxsim" the longest text, that a reranker reads, in tokens."""
        return self._reranking(name).max_tokens

    async def encode(
        self, name: str, texts: Sequence[str], *, kind: Kind = "document", dimensions: int | None = None
    ) -> Encoded:
        """Return the vectors of texts, truncated to ``dimensions`` and then normalised again if the model normalises.

        Raise TextError, which names the text's index, if a text is invalid, RequestError if the model has
        fewer dimensions, and Overloaded if too many requests wait.
        """
        model = self._embedding(name)
        checked = check_texts(texts)
        with self._room.place(len(checked)):
            encoded = await model.encode(checked, kind, dimensions)
        self._metrics.tokens(name, encoded.tokens)
        return encoded

    async def rerank(self, name: str, query: str, texts: Sequence[str]) -> Computed[float]:
        """Return the relevance of each text, from 0 to 1; errors as for ``encode``."""
        model = self._reranking(name)
        query, checked = check_text(query, "query"), check_texts(texts)
        with self._room.place(len(checked)):
            reranked = await model.score(query, checked)
        self._metrics.tokens(name, reranked.tokens)
        return reranked

    def _load(self) -> None:
        precision = self._settings.precision
        for name, model in self._settings.models.items():
            encoder = CountingEncoder(model, name, self._metrics, precision=precision)
            self._models[name] = EmbeddingModel(encoder, self._room, self._metrics)
        for name, model in self._settings.rerankers.items():
            reranker = CrossEncoderReranker(model, precision=precision)
            self._rerankers[name] = RerankingModel(reranker, self._room, self._metrics)
        maxsim = MaxSimReranker(self._models[self.default].encoder)
        self._rerankers[MAXSIM] = RerankingModel(maxsim, self._room, self._metrics)
        self._metrics.build(self._models[self.default].encoder.engine.name)
        self.loaded_at = int(time.time())

    def _close(self) -> None:
        for model in self._models.values():
            model.close()
        for reranker in self._rerankers.values():
            reranker.close()
        self._models, self._rerankers = {}, {}

    def _embedding(self, name: str) -> EmbeddingModel:
        if name not in self._models:
            raise UnknownModel(name, self.names)
        return self._models[name]

    def _reranking(self, name: str, *, param: str = "model") -> RerankingModel:
        if name not in self._rerankers:
            raise UnknownModel(name, self.reranker_names, kind="reranker", param=param)
        return self._rerankers[name]


def _check_names(settings: ServeSettings) -> None:
    if MAXSIM in settings.models or MAXSIM in settings.rerankers:
        raise ConfigurationError(
            f"{MAXSIM!r} is the name of the reranker that every server has: leave it out, or give the model another "
            "name, as in MODEL=OTHER"
        )
    if twice := settings.models.keys() & settings.rerankers.keys():
        name = min(twice)
        raise ConfigurationError(
            f"a model and a reranker have the name {name!r}; give one of them another name, as in "
            f"{settings.rerankers[name]}=OTHER"
        )
