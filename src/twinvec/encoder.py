"""Encoder: texts -> vectors.

Composes the input gate, the tokenizer, batches under a token budget and an engine. What a text's vector is does
not depend on what else is in the call: texts are sorted and batched for speed, and put back in order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from twinvec.arrays import FloatArray
from twinvec.engines.base import Engine
from twinvec.engines.exports import find_ranges
from twinvec.engines.multi_device import ProcessesEngine, check_devices
from twinvec.engines.select import EngineChoice, EngineName, Precision, load_engine
from twinvec.errors import BadVectorError, ConfigurationError, InputError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import ModelFolder, find_model
from twinvec.models.space import SPACE_PROBES, fingerprint, network_digest
from twinvec.storage import Ranges, Storage, Vectors, from_int8, to_bits, to_int8
from twinvec.support.checks import check_choice, integer
from twinvec.support.progress import progress_bar
from twinvec.text import MAX_TEXT_BYTES, check_text, check_texts
from twinvec.tokens.batching import Batch
from twinvec.tokens.pipeline import run_batches
from twinvec.tokens.tokenizer import TextTokenizer, TokenIds
from twinvec.tokens.truncation import TruncationCounter

_STREAM_TEXTS = 4096
_STREAM_CHARACTERS = 16 * 1024 * 1024


class Encoder(TruncationCounter):
    """Sentence embeddings of one model.

    Args:
        model: ``"default"`` (all-MiniLM-L6-v2), a folder in the sentence-transformers format, a hub name,
            ``"org/name"`` or ``"org/name@commit"``, or what ``twinvec.models.finding.find_model`` has found.
        engine: What computes: ``"auto"`` takes the fastest that is exact; see ``twinvec.engines.select``.
        precision: Of the computation; ``"auto"`` is float32, or int8 where the folder holds an int8 export that
            passed its check (``twinvec export``); bfloat16 and float16 never unless asked for.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ...; a GPU is taken where there is one unless given.
        devices: In place of one device: each computes in a process of its own, as in
            ``devices=["cuda:0", "cuda:1"]``; see ``twinvec.engines.multi_device``.
        dim: Keep this many leading dimensions (Matryoshka models), normalised again where the model normalises.
        max_tokens: Cut longer texts here, in place of the model's own limit; at most as many as it has positions.
        prompts: Name -> text put before an input, in place of the model's own.
        default_prompt: Name of the prompt for ``encode``, in place of the model's own.
        token_budget: Largest padded size of a batch, in tokens; the engine's own unless given.
        max_text_bytes: Larger texts are refused.
        cache_folder: Where hub models are kept, in place of the hub's own cache.

    Attributes:
        name: The name that finds the same model again; hub models carry their commit.
        overrides: The arguments given in place of the model's own settings: with ``name``, the same encoder again.
        dim: Size of the vectors.
        max_tokens: Longest input in tokens, special tokens included.
        space: Hex digest of all that decides the vectors; see ``twinvec.models.space``.
        truncated: How many texts this encoder has cut so far; one that comes several times in a call counts once.

    Raises:
        ConfigurationError: an argument that cannot work.
        ModelError: the model is not found, damaged or not supported.
    """

    def __init__(
        self,
        model: str | Path | ModelFolder = "default",
        *,
        engine: EngineName = "auto",
        precision: Precision = "auto",
        device: str | None = None,
        devices: Sequence[str] | None = None,
        dim: int | None = None,
        max_tokens: int | None = None,
        prompts: dict[str, str] | None = None,
        default_prompt: str | None = None,
        token_budget: int | None = None,
        max_text_bytes: int = MAX_TEXT_BYTES,
        cache_folder: str | Path | None = None,
    ) -> None:
        self._wanted = EngineChoice(engine, device, precision)
        self._devices = check_devices(device, devices)
        if token_budget is not None:
            integer(token_budget, "token_budget", least=1)
        found = model if isinstance(model, ModelFolder) else find_model(model, cache_folder)
        self.name = found.name
        dim = None if dim is None else integer(dim, "dim")
        max_tokens = None if max_tokens is None else integer(max_tokens, "max_tokens")
        settings = {"dim": dim, "max_tokens": max_tokens, "prompts": prompts, "default_prompt": default_prompt}
        self.overrides: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        self._spec = read_spec(found.path).override(dim, max_tokens, prompts, default_prompt)
        self.dim = self._spec.dim
        self.max_tokens = self._spec.max_tokens
        with ThreadPoolExecutor(1) as beside:  # hashing leaves the interpreter to others
            network = beside.submit(network_digest, self._spec)
            self._tokenizer = TextTokenizer(self._spec.folder, self.max_tokens, lower_case=self._spec.lower_case)
            identity = self._tokenizer.identity(SPACE_PROBES)
        self._network = network.result()
        self.space = fingerprint(self._spec, identity, self._network)
        self._ranges = find_ranges(found.path, self._network, self.dim)
        self._root = found.path
        self._engine: Engine | None = None
        self._loading = threading.Lock()
        self._token_budget = token_budget
        self._max_text_bytes = max_text_bytes

    def __getstate__(self) -> dict[str, Any]:
        """Without the engine and its lock: a copy, in another process too, loads its own when first used."""
        return {name: value for name, value in vars(self).items() if name != "_loading"} | {"_engine": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._loading = threading.Lock()

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, dim={self.dim}, max_tokens={self.max_tokens}, space={self.space[:12]!r})"

    @property
    def normalizes(self) -> bool:
        """Whether the vectors have length 1."""
        return self._spec.normalizes

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts by name."""
        return dict(self._spec.prompts)

    @property
    def document_prompt(self) -> str:
        """The text that ``encode_document`` puts before its inputs; empty where the model has none."""
        return self._prompt_text("document")

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer."""
        return self._tokenizer

    @property
    def engine(self) -> Engine:
        """The engine, loaded when first used."""
        with self._loading:
            if self._engine is None:
                self._engine = self._load() if self._devices is None else ProcessesEngine(self._load, self._devices)
            return self._engine

    def _load(self, device: str | None = None) -> Engine:
        """The engine for a device, the one that was asked for unless given."""
        wanted = self._wanted if device is None else replace(self._wanted, device=device)
        return load_engine(wanted, self._root, self._spec, self._tokenizer, self._network)

    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        storage: Storage | None = None,
        progress: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> Vectors:
        """Encode texts as they are, or behind a prompt.

        Args:
            texts: One text or several; the empty text and blanks are encoded too. A text that comes several times
                is computed once.
            prompt: The name of a prompt, or ``""`` for none; the model's default prompt unless given.
            storage: How vectors are kept: ``None`` float32, ``"float16"``, ``"int8"``, one of 256 steps between the
                smallest and the largest value of each dimension, or ``"binary"``, the signs packed into bits, eight a
                byte, as ``numpy.packbits`` does. Those values come from the model's folder, where ``twinvec export
                --calibrate`` puts them, never from the texts of the call; ``restore`` turns codes back into numbers.
            progress: Show a progress bar on a terminal.
            on_batch: Called after every batch with the number of texts that it finished.

        Returns:
            Shape (dim,) for one text, (n, dim) for n, in their order; float32 and of length 1 where the model
            normalises. ``"int8"`` has columns of int8, ``"binary"`` ceil(dim / 8) columns of uint8.

        Raises:
            TextError: a text is refused by the input gate; named by its index.
            ConfigurationError: an unknown prompt or storage, or ``"int8"`` of a model without calibrated ranges.
            BadVectorError: the engine gave something else than finite vectors.
        """
        self._check_storage(storage)
        prefix = self._prompt_text(prompt)
        if isinstance(texts, str):
            check_text(texts, "text", self._max_text_bytes)
            vectors = self._encode([texts], prefix, progress, on_batch)[0]
        else:
            vectors = self._encode(check_texts(texts, self._max_text_bytes), prefix, progress, on_batch)
        return self._stored(vectors, storage)

    def restore(self, codes: npt.NDArray[np.int8]) -> FloatArray:
        """The numbers that codes of ``encode(storage="int8")`` stand for: float32 of the same shape (..., dim).

        Raises:
            ConfigurationError: the model has no calibrated ranges.
            InputError: ``codes`` is no array of int8 with ``dim`` columns.
        """
        if not isinstance(codes, np.ndarray):
            raise InputError(f"expected int8 codes in {self.dim} columns of an array, got {type(codes).__name__}")
        if codes.dtype != np.int8 or codes.shape[-1:] != (self.dim,):
            raise InputError(f"expected int8 codes in {self.dim} columns, got {codes.dtype} of shape {codes.shape}")
        return from_int8(codes, self._calibrated())

    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's ``query`` prompt, where it has one."""
        return self.encode(texts, prompt="query", **options)

    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's ``document`` prompt, where it has one.

        A prompt under another name, such as ``passage``, is used by that name only, as in sentence-transformers;
        ``Encoder(model, prompts={"query": "query: ", "document": "passage: "})`` makes it the documents'.
        """
        return self.encode(texts, prompt="document", **options)

    def encode_stream(self, texts: Iterable[str], *, window: int = _STREAM_TEXTS, **options: Any) -> Iterator[Vectors]:
        """Encode any iterable, also an endless one, in bounded memory.

        Takes up to ``window`` texts (or 16 million characters) at a time and yields their vectors, (k, dim), in
        input order. Options are those of ``encode``. Errors name a text by its place in the whole stream.
        """
        if isinstance(texts, (str, bytes)):
            raise ConfigurationError("encode_stream takes an iterable of strings, not one string")
        if window < 1:
            raise ConfigurationError(f"window must be at least 1, got {window}")
        return self._stream(iter(texts), window, options)

    def encode_tokens(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        progress: bool = False,
        on_batch: Callable[[int], None] | None = None,
    ) -> list[FloatArray]:
        """Token states for late interaction: for each text (tokens, hidden size), L2-normalised rows.

        The last layer's states, special tokens included; no pooling, no Dense. Options (there is no
        ``storage``), truncation and errors are those of ``encode``.
        """
        unique, inverse = _unique(check_texts(texts, self._max_text_bytes))
        states: list[FloatArray] = [np.empty((0, 0), dtype=np.float32)] * len(unique)
        prefix = self._prompt_text(prompt)
        for indices, lengths, states_BTD in self._run(self.engine.states, unique, prefix, progress, on_batch):
            norms_BT1 = np.linalg.norm(states_BTD, axis=-1, keepdims=True)
            for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
                self._require_finite(norms_BT1[row, :length])
                states[index] = states_BTD[row, :length] / np.maximum(norms_BT1[row, :length], 1e-12)
        return [states[index] for index in inverse]

    def count_tokens(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Tokens of each text before any cut, special tokens included, without a prompt: shape (n,)."""
        return self._tokenizer.count(check_texts(texts, self._max_text_bytes))

    def _encode(
        self,
        texts: list[str],
        prefix: str,
        progress: bool,
        on_batch: Callable[[int], None] | None,
    ) -> FloatArray:
        unique, inverse = _unique(texts)
        vectors = np.empty((len(unique), self.dim), dtype=np.float32)
        for indices, _, vectors_BD in self._run(self.engine.vectors, unique, prefix, progress, on_batch):
            vectors[indices] = self._checked(vectors_BD)
        return vectors if len(unique) == len(texts) else vectors[inverse]

    def _run(
        self,
        compute: Callable[[Batch], FloatArray],
        texts: list[str],
        prefix: str,
        progress: bool,
        on_batch: Callable[[int], None] | None,
    ) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], FloatArray]]:
        """What ``run_batches`` yields, with progress and the count of what was cut."""

        def tokenize(part: list[str]) -> TokenIds:
            return self._tokenizer.encode([prefix + text for text in part] if prefix else part)

        with (
            self._counting_cuts(tokenize, len(texts), "texts") as counted,
            progress_bar("Encoding", len(texts), "texts", shown=progress) as advance,
        ):
            batches = run_batches(
                texts,
                counted,
                compute,
                token_budget=self._token_budget or self.engine.token_budget,
                workers=self.engine.workers,
                pad_id=self._tokenizer.pad_id,
                prompt_tokens=self._prompt_tokens(prefix),
            )
            for indices, lengths, result in batches:
                yield indices, lengths, result
                advance(len(indices))
                if on_batch is not None:
                    on_batch(len(indices))

    def _prompt_tokens(self, prefix: str) -> int:
        """Leading tokens that pooling leaves out: those of the prompt, without the closing special token."""
        if not prefix or self._spec.include_prompt:
            return 0
        return int(self._tokenizer.count([prefix])[0]) - 1

    def _prompt_text(self, name: str | None) -> str:
        if name is None:
            name = self._spec.default_prompt or ""
        if name and name not in self._spec.prompts:
            known = ", ".join(sorted(self._spec.prompts)) or "none"
            raise ConfigurationError(f"the model has no prompt {name!r}; its prompts: {known}")
        return self._spec.prompts[name] if name else ""

    def _checked(self, vectors_BD: FloatArray) -> FloatArray:
        if vectors_BD.shape[1:] != (self.dim,):
            raise BadVectorError(
                f"engine {self.engine.name}: vectors of size {vectors_BD.shape[1:]}, expected {self.dim}"
            )
        self._require_finite(vectors_BD)
        return vectors_BD

    def _require_finite(self, values: FloatArray) -> None:
        if not np.isfinite(values).all():
            raise BadVectorError(f"engine {self.engine.name}: a vector is not finite")

    def _check_storage(self, storage: Storage | None) -> None:
        check_choice(storage, (None, *get_args(Storage)), "storage")
        if storage == "int8":
            self._calibrated()

    def _calibrated(self) -> Ranges:
        if self._ranges is None:
            raise ConfigurationError(
                f"{self.name}: no ranges of its {self.dim} dimensions are known, which int8 storage needs; make a "
                f"folder that has them: twinvec export MODEL -o FOLDER --calibrate TEXTS --dim {self.dim}"
            )
        return self._ranges

    def _stored(self, vectors: FloatArray, storage: Storage | None) -> Vectors:
        if storage == "int8":
            return to_int8(vectors, self._calibrated())
        if storage == "binary":
            return to_bits(vectors)
        return vectors if storage is None else vectors.astype(np.float16)

    def _stream(self, texts: Iterator[str], window: int, options: dict[str, Any]) -> Iterator[Vectors]:
        position = 0
        while taken := _take(texts, window, position, self._max_text_bytes):
            yield self.encode(taken, **options)
            position += len(taken)


def _take(texts: Iterator[str], window: int, position: int, max_bytes: int) -> list[str]:
    taken: list[str] = []
    characters = 0
    for text in islice(texts, window):
        taken.append(check_text(text, f"text {position + len(taken)}", max_bytes))
        characters += len(text)
        if characters >= _STREAM_CHARACTERS:
            break
    return taken


def _unique(texts: list[str]) -> tuple[list[str], npt.NDArray[np.int64]]:
    """The distinct texts, and for each text the index of its own among them."""
    first: dict[str, int] = {}
    inverse = np.fromiter((first.setdefault(text, len(first)) for text in texts), dtype=np.int64, count=len(texts))
    return list(first), inverse
