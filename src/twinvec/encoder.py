"""Encoder: texts -> vectors.

``encode`` checks the texts, turns them into token ids, forms batches (``tokens.pipeline``), computes the batches with
an engine, and returns the vectors in input order. The vector of a text does not depend on the other texts of a call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypedDict, Unpack, get_args, overload

import numpy as np
import numpy.typing as npt

from twinvec.arrays import BoolArray, FloatArray, FloatsOfAnySize, IntArray
from twinvec.engines import EngineName, Precision
from twinvec.engines.base import Engine, check_finite
from twinvec.engines.exports import find_ranges
from twinvec.engines.loaded_model import load_encoder
from twinvec.engines.multi_device import check_devices
from twinvec.engines.select import EngineChoice, load_engine
from twinvec.errors import BadVectorError, ConfigurationError, InputError
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import ModelFolder, find_model
from twinvec.similarity import cosines
from twinvec.storage import Ranges, Storage, Vectors, from_int8, to_bits, to_int8
from twinvec.support.checks import check_choice, integer, refuse_unknown, string
from twinvec.support.locks import ThreadLock
from twinvec.support.progress import Advance
from twinvec.text import MAX_TEXT_BYTES, check_list, check_text, check_texts
from twinvec.tokens.batching import Batch
from twinvec.tokens.pipeline import PipelineSettings, distinct
from twinvec.tokens.tokenizer import TextTokenizer, TokenIds
from twinvec.tokens.truncation import TruncationCounter

_STREAM_TEXTS = 4096
_STREAM_CHARACTERS = 16 * 1024 * 1024


class EncodeOptions(TypedDict, total=False):
    """Keyword arguments of every ``encode`` method; see ``Encoder.encode``."""

    progress: bool
    on_batch: Callable[[int], None] | None
    advance: Advance | None


class PromptOptions(EncodeOptions, total=False):
    """Keyword arguments of ``Encoder.encode`` besides ``storage``."""

    prompt: str | None


_FIXED = {
    "dim": "dim",
    "truncate_dim": "dim",
    "max_tokens": "max_tokens",
    "max_seq_length": "max_tokens",
    "prompts": "prompts",
    "default_prompt": "default_prompt",
    "default_prompt_name": "default_prompt",
    "device": "device",
}
"""Attribute of ``Encoder``, or of sentence-transformers' models -> argument that decides it."""

_OPTIONS = {"storage", *PromptOptions.__annotations__}


class Encoder(TruncationCounter):
    """Sentence embeddings of one model.

    Args:
        model: ``"default"`` (all-MiniLM-L6-v2), a folder in the sentence-transformers format, a hub name
            (``"org/name"`` or ``"org/name@commit"``), or the result of ``twinvec.models.find_model``.
        engine: Name of the engine; ``"auto"`` chooses the fastest exact engine (see ``twinvec.engines.select``).
        precision: ``"auto"`` is int8 if the folder holds an int8 export that passed its check (``twinvec export``),
            else float32; it is never bfloat16 or float16.
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ...; default: a GPU if torch has one.
        devices: Several devices instead of one, such as ``["cuda:0", "cuda:1"]``; see ``twinvec.engines.multi_device``.
        dim: Truncate vectors to the first ``dim`` dimensions (for Matryoshka models). They are normalised again if the
            model normalises.
        max_tokens: Truncate texts to this many tokens, at most the model's positions; default: the model's limit.
        prompts: Name -> text put before an input; default: the model's prompts.
        default_prompt: Name of the prompt that ``encode`` uses; default: the model's.
        token_budget: Largest padded size of a batch, in tokens; default: the engine's.
        max_text_bytes: Largest size of a text, in bytes of UTF-8; a larger text is refused.
        cache_folder: Folder for hub models; default: the hub's cache.

    Attributes:
        name: Name that finds the same model again; the name of a hub model includes its commit.
        overrides: The arguments that replace settings of the model: ``Encoder(name, **overrides)`` is the same encoder.
        max_text_bytes: Largest size of a text, in bytes of UTF-8.
        space: Hex digest of everything that decides the vectors; see ``twinvec.models.space``.
        truncated: Number of texts truncated so far; a text that occurs several times in a call counts once.

    Raises:
        ConfigurationError: an argument is invalid.
        ModelError: the model is not found, damaged or not supported.
    """

    _activity, _inputs, _public_name = "Encoding", "texts", "Encoder"

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
        self._choice = EngineChoice(engine, device, precision, check_devices(device, devices))
        if token_budget is not None:
            integer(token_budget, "token_budget", least=1)
        self.max_text_bytes = integer(max_text_bytes, "max_text_bytes", least=1)
        found = model if isinstance(model, ModelFolder) else find_model(model, cache_folder)
        dim = None if dim is None else integer(dim, "dim")
        max_tokens = None if max_tokens is None else integer(max_tokens, "max_tokens")
        self._model = load_encoder(found, read_spec(found.path).override(dim, max_tokens, prompts, default_prompt))
        own_prompts = None if prompts is None else dict(prompts)
        settings = {"dim": dim, "max_tokens": max_tokens, "prompts": own_prompts, "default_prompt": default_prompt}
        self.overrides: dict[str, Any] = {name: value for name, value in settings.items() if value is not None}
        self._ranges = find_ranges(self._model)
        self.name = found.name
        self.space = self._model.space
        self._engine: Engine | None = None
        self._loading = ThreadLock(f"model {self.name}", "loaded it")
        self._token_budget = token_budget
        self._cache_folder = cache_folder

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the engine and its lock. A copy, also in another process, loads its own engine at first use."""
        return {name: value for name, value in vars(self).items() if name != "_loading"} | {"_engine": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._loading = ThreadLock(f"model {self.name}", "loaded it")

    if not TYPE_CHECKING:  # type checkers would otherwise accept any attribute

        def __setattr__(self, name: str, value: object) -> None:
            if (argument := _FIXED.get(name)) is not None:
                raise ConfigurationError(
                    f"{name} of an encoder does not change: make another encoder, Encoder(..., {argument}={value!r})"
                )
            super().__setattr__(name, value)

    def __repr__(self) -> str:
        return f"Encoder({self.name!r}, dim={self.dim}, max_tokens={self.max_tokens}, space={self.space[:12]!r})"

    @property
    def engine_options(self) -> dict[str, Any]:
        """The arguments, besides ``overrides`` and the device, with which another process makes the same encoder."""
        options = {
            "engine": self._choice.engine,
            "precision": self._choice.precision,
            "token_budget": self._token_budget,
            "max_text_bytes": self.max_text_bytes,
            "cache_folder": self._cache_folder,
        }
        return {name: value for name, value in options.items() if value is not None}

    @property
    def dim(self) -> int:
        """Size of the vectors."""
        return self._model.spec.dim

    @property
    def max_tokens(self) -> int:  # type: ignore[override]  # read-only, unlike that of the base class
        """Longest input in tokens, special tokens included."""
        return self._model.spec.max_tokens

    @property
    def normalizes(self) -> bool:
        """Whether the vectors have length 1."""
        return self._model.spec.normalizes

    @property
    def prompts(self) -> dict[str, str]:
        """The prompts by name."""
        return dict(self._model.spec.prompts)

    @property
    def document_prompt(self) -> str:
        """The text that ``encode_document`` puts before its inputs; empty if the model has none."""
        return self._prompt_text("document")

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer."""
        return self._model.tokenizer

    @property
    def engine(self) -> Engine:
        """The engine, loaded at first use."""
        with self._loading:
            if self._engine is None:
                self._engine = load_engine(self._choice, self._model)
            return self._engine

    @overload
    def encode(
        self, texts: str | Sequence[str], *, storage: None = None, **options: Unpack[PromptOptions]
    ) -> FloatArray: ...
    @overload
    def encode(
        self, texts: str | Sequence[str], *, storage: Storage | None = None, **options: Unpack[PromptOptions]
    ) -> Vectors: ...
    def encode(
        self,
        texts: str | Sequence[str],
        *,
        prompt: str | None = None,
        storage: Storage | None = None,
        progress: bool = False,
        on_batch: Callable[[int], None] | None = None,
        advance: Advance | None = None,
    ) -> Vectors:
        """Encode texts, with or without a prompt.

        Args:
            texts: One text or several; a text may be empty. A text that occurs several times is computed once.
            prompt: Name of a prompt; ``""`` for none; default: the model's default prompt.
            storage: Type of the stored vectors: ``None`` (float32), ``"float16"``, ``"int8"`` or ``"binary"``. int8
                divides the value range of each dimension into 256 codes; ``twinvec export --calibrate`` measures the
                ranges and stores them in the model's folder. binary keeps the signs, packed as by ``numpy.packbits``.
            progress: Show progress: a bar on a terminal, a line a minute elsewhere.
            on_batch: Called after every batch with its number of texts.
            advance: Function that advances the caller's own progress bar, instead of ``progress``
                (``twinvec.support.progress``). The work of a text is ``twinvec.tokens.truncation.work_of``.

        Returns:
            Shape (dim,) for one text, (n, dim) for n, in input order; float32, of length 1 if the model normalises.
            ``"int8"`` gives dim columns of int8, ``"binary"`` ceil(dim / 8) columns of uint8.

        Raises:
            TextError: a text is invalid (not a string, too long, or with a lone surrogate); the error names it.
            ConfigurationError: the prompt or the storage is unknown, or the model has no ranges for ``"int8"``.
            BadVectorError: the engine gave vectors that are not finite or have the wrong size.
            ModelIntegrityError: the tokenizer gave a token for which the model has no embedding.
        """
        prefix = self._checked_prompt(prompt, storage)
        limit = self.max_text_bytes
        checked = [check_text(texts, "text", limit)] if isinstance(texts, str) else check_texts(texts, limit)
        vectors, _, _ = self._vectors(checked, prefix, advance or progress, on_batch)
        return self._stored(vectors[0] if isinstance(texts, str) else vectors, storage)

    def encode_counted(
        self, texts: Sequence[str], *, prompt: str | None = None
    ) -> tuple[FloatArray, IntArray, BoolArray]:
        """Return vectors (n, dim), numbers of tokens (n,), and whether each text was truncated (n,).

        The vectors and errors are those of ``encode``. The number of tokens includes the prompt and the special tokens,
        and is counted after truncation.
        """
        return self._vectors(check_texts(texts, self.max_text_bytes), self._prompt_text(prompt), False, None)

    def restore(self, codes: npt.NDArray[np.int8]) -> FloatArray:
        """Turn codes of ``encode(storage="int8")`` back into float32 numbers of the same shape (..., dim).

        Raises:
            ConfigurationError: the model's folder has no ranges.
            InputError: ``codes`` is not an int8 array with ``dim`` columns.
        """
        if not isinstance(codes, np.ndarray):
            raise InputError(f"expected a NumPy array of int8 codes in {self.dim} columns, got {type(codes).__name__}")
        if codes.dtype != np.int8 or codes.shape[-1:] != (self.dim,):
            raise InputError(f"expected int8 codes in {self.dim} columns, got {codes.dtype} of shape {codes.shape}")
        return from_int8(codes, self._known_ranges())

    @overload
    def encode_query(
        self, texts: str | Sequence[str], *, storage: None = None, **options: Unpack[EncodeOptions]
    ) -> FloatArray: ...
    @overload
    def encode_query(
        self, texts: str | Sequence[str], *, storage: Storage | None = None, **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    def encode_query(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's ``query`` prompt, which may be empty."""
        return self.encode(texts, **_with_prompt("query", options))

    @overload
    def encode_document(
        self, texts: str | Sequence[str], *, storage: None = None, **options: Unpack[EncodeOptions]
    ) -> FloatArray: ...
    @overload
    def encode_document(
        self, texts: str | Sequence[str], *, storage: Storage | None = None, **options: Unpack[EncodeOptions]
    ) -> Vectors: ...
    def encode_document(self, texts: str | Sequence[str], **options: Any) -> Vectors:
        """``encode`` with the model's ``document`` prompt, which may be empty.

        A prompt of another name, such as ``passage``, is not used, as in sentence-transformers. For such a model, use
        ``Encoder(model, prompts={"query": "query: ", "document": "passage: "})``.
        """
        return self.encode(texts, **_with_prompt("document", options))

    @overload
    def encode_stream(
        self, texts: Iterable[str], *, window: int = ..., storage: None = None, **options: Unpack[PromptOptions]
    ) -> Iterator[FloatArray]: ...
    @overload
    def encode_stream(
        self,
        texts: Iterable[str],
        *,
        window: int = ...,
        storage: Storage | None = None,
        **options: Unpack[PromptOptions],
    ) -> Iterator[Vectors]: ...
    def encode_stream(self, texts: Iterable[str], *, window: int = _STREAM_TEXTS, **options: Any) -> Iterator[Vectors]:
        """Encode any iterable, also an endless one, in bounded memory.

        Takes up to ``window`` texts (or 16 million characters) at a time and yields their vectors, (k, dim), in input
        order. Options are as for ``encode``, and checked before a text is taken. Errors name a text by its index in the
        whole stream.
        """
        if isinstance(texts, (str, bytes)):
            raise ConfigurationError("encode_stream takes an iterable of strings, not one string")
        check_list(texts)
        integer(window, "window", least=1)
        refuse_unknown({name: value for name, value in options.items() if name not in _OPTIONS})
        self._checked_prompt(options.get("prompt"), options.get("storage"))
        return self._stream(iter(texts), window, options)

    def _stream(self, texts: Iterator[str], window: int, options: dict[str, Any]) -> Iterator[Vectors]:
        position = 0
        while taken := _take(texts, window, position, self.max_text_bytes):
            yield self.encode(taken, **options)
            position += len(taken)

    def encode_tokens(
        self,
        texts: Sequence[str],
        *,
        prompt: str | None = None,
        progress: bool = False,
        on_batch: Callable[[int], None] | None = None,
        advance: Advance | None = None,
    ) -> list[FloatArray]:
        """Return token states for late interaction: for each text L2-normalised rows, (tokens, hidden size).

        The rows are the last layer's states of all tokens, special tokens included, before pooling and Dense. Options,
        truncation and errors are as for ``encode``.
        """
        unique, inverse = distinct(check_texts(texts, self.max_text_bytes))
        states: list[FloatArray] = [np.empty((0, 0), dtype=np.float32)] * len(unique)
        prefix = self._prompt_text(prompt)
        for indices, lengths, _, states_BTD in self._run(
            self.engine.states, unique, prefix, advance or progress, on_batch
        ):
            norms_BT1 = np.linalg.norm(states_BTD, axis=-1, keepdims=True)
            for row, (index, length) in enumerate(zip(indices, lengths, strict=True)):
                norms_T1 = check_finite(norms_BT1[row, :length], self.engine.name)
                states[index] = states_BTD[row, :length] / np.maximum(norms_T1, 1e-12)
        return [states[index] for index in inverse]

    def token_spans(self, texts: Sequence[str], *, prompt: str | None = None) -> list[npt.NDArray[np.int64]]:
        """Return the start and end, in characters, of each token of ``encode_tokens`` in its text: (tokens, 2).

        Both numbers are 0 for special tokens and for tokens of the prompt. Errors are as for ``encode``.
        """
        prefix = self._prompt_text(prompt)
        spans = self.tokenizer.spans([prefix + text for text in check_texts(texts, self.max_text_bytes)])
        return [np.maximum(spans_T2 - len(prefix), 0) for spans_T2 in spans]

    def similarity(self, first: FloatsOfAnySize, second: FloatsOfAnySize) -> FloatArray:
        """Return the cosines of vectors of ``encode``, from -1 to 1: shape (n, m).

        Args:
            first: Shape (n, dim), or (dim,) for one vector.
            second: Shape (m, dim), or (dim,).

        Raises:
            InputError: an argument is not an array of finite floats with ``dim`` columns: for example, it holds texts,
                or codes of ``storage``.
        """
        return cosines(first, second, self.dim)

    def count_tokens(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Count the tokens of each text before truncation, special tokens included, without a prompt: shape (n,)."""
        return self.tokenizer.count(check_texts(texts, self.max_text_bytes))

    @classmethod
    def __get_pydantic_json_schema__(cls, *_: object) -> NoReturn:
        """Leave an encoder out of the JSON schema of a pydantic model that holds one."""
        from pydantic_core import PydanticOmit

        raise PydanticOmit

    def _vectors(
        self, texts: list[str], prefix: str, progress: bool | Advance, on_batch: Callable[[int], None] | None
    ) -> tuple[FloatArray, IntArray, BoolArray]:
        unique, inverse = distinct(texts)
        vectors = np.empty((len(unique), self.dim), dtype=np.float32)
        tokens = np.empty(len(unique), dtype=np.int64)
        truncated = np.zeros(len(unique), dtype=np.bool_)
        for indices, lengths, truncated_B, vectors_BD in self._run(
            self.engine.vectors, unique, prefix, progress, on_batch
        ):
            size = vectors_BD.shape[1:]
            if size != (self.dim,):
                raise BadVectorError(f"engine {self.engine.name}: vectors of size {size}, expected {self.dim}")
            vectors[indices] = check_finite(vectors_BD, self.engine.name)
            tokens[indices] = lengths
            truncated[indices] = truncated_B
        vectors = vectors[inverse] if len(unique) < len(texts) else vectors
        return vectors, tokens[inverse], truncated[inverse]

    def _run(
        self,
        compute: Callable[[Batch], FloatArray],
        texts: list[str],
        prefix: str,
        progress: bool | Advance,
        on_batch: Callable[[int], None] | None,
    ) -> Iterator[tuple[IntArray, IntArray, BoolArray, FloatArray]]:
        """Put the prompt ``prefix`` before each text, and yield the results of ``run_batches``."""

        def tokenize(part: list[str]) -> TokenIds:
            return self.tokenizer.encode([prefix + text for text in part] if prefix else part)

        budget = self._token_budget or self.engine.token_budget
        # number of leading tokens that pooling leaves out: those of the prompt, without its closing special token
        excluded = 0
        if prefix and not self._model.spec.include_prompt:
            excluded = int(self.tokenizer.count([prefix])[0]) - 1
        settings = PipelineSettings(budget, self.engine.workers, self.tokenizer.pad_id, excluded)
        return self._run_batches(texts, tokenize, compute, settings, progress, on_batch)

    def _checked_prompt(self, prompt: str | None, storage: Storage | None) -> str:
        """Return the text of a prompt, after a check of both options of ``encode``."""
        check_choice(storage, (None, *get_args(Storage)), "storage")
        if storage == "int8":
            self._known_ranges()
        return self._prompt_text(prompt)

    def _prompt_text(self, name: str | None) -> str:
        spec = self._model.spec
        name = spec.default_prompt if name is None else string(name, "prompt")
        if name and name not in spec.prompts:
            raise ConfigurationError(
                f"the model has no prompt {name!r}; its prompts: {', '.join(sorted(spec.prompts))}"
            )
        return spec.prompts[name] if name else ""

    def _known_ranges(self) -> Ranges:
        if self._ranges is None:
            raise ConfigurationError(
                f"{self.name}: int8 storage needs the value ranges of {self.dim} dimensions, and the folder has none; "
                f"make a folder with ranges: twinvec export MODEL -o FOLDER --calibrate TEXTS --dim {self.dim}"
            )
        return self._ranges

    def _stored(self, vectors: FloatArray, storage: Storage | None) -> Vectors:
        if storage == "int8":
            return to_int8(vectors, self._known_ranges())
        if storage == "binary":
            return to_bits(vectors)
        return vectors if storage is None else vectors.astype(np.float16)


def _with_prompt(name: str, options: dict[str, Any]) -> dict[str, Any]:
    if "prompt" in options:
        raise ConfigurationError(
            f"encode_{name} uses the prompt {name!r}; for another one, write encode(texts, prompt=...)"
        )
    return {"prompt": name, **options}


def _take(texts: Iterator[str], window: int, position: int, max_bytes: int) -> list[str]:
    """Take and check the next window of a stream; ``position`` is the index of its first text."""
    taken: list[str] = []
    characters = 0
    for text in islice(texts, window):
        taken.append(check_text(text, f"text {position + len(taken)}", max_bytes))
        characters += len(text)
        if characters >= _STREAM_CHARACTERS:
            break
    return taken
