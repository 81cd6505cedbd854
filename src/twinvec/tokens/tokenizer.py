"""Texts -> token ids, with the Rust tokenizer of the model's folder.

Ids are ragged: one flat array with offsets, from which batches are cut. Truncated inputs are counted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from twinvec.arrays import BoolArray
from twinvec.errors import ModelIntegrityError, UnsupportedModelError
from twinvec.interrupts import raise_of_handler
from twinvec.models.integrity import optional_json, read_object
from twinvec.support.extras import import_extra
from twinvec.support.slicing import sliced_by_weight
from twinvec.tokens.batching import Batch
from twinvec.tokens.scripts import letters_by_script, spelled_scripts

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

_TEXTS_AT_ONCE = 1024
_CHARACTERS_AT_ONCE = 4 * 1024 * 1024  # characters tokenised at once: all their tokens are in memory before truncation
_WORD = re.compile(r"[^\W\d_]+")
_WORD_PIECE = ("BertTokenizer", "DistilBertTokenizer", "MPNetTokenizer")
_CLASSES = {
    "bert": "BertTokenizer",
    "distilbert": "DistilBertTokenizer",
    "mpnet": "MPNetTokenizer",
    "roberta": "RobertaTokenizer",
}
"""Classes of tokenizers by backbone, for models that name none."""
_SEGMENTING = ("BertJapaneseTokenizer", "PhobertTokenizer")
"""Classes of tokenizers whose Python code first separates the words, which a ``tokenizer.json`` cannot do."""
_VOCABULARIES = ("vocab.txt", "vocab.json", "sentencepiece.bpe.model", "spiece.model")


@dataclass(frozen=True, slots=True)
class TokenIds:
    """Ragged token ids of n texts: text i has ``ids[offsets[i]:offsets[i + 1]]``.

    ``types`` has the segment of each id, or is None. ``truncated`` says which texts are truncated, shape (n,).
    """

    ids: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    types: npt.NDArray[np.int8] | None
    truncated: BoolArray

    @property
    def lengths(self) -> npt.NDArray[np.int64]:
        """Number of tokens of each text, shape (n,)."""
        return np.diff(self.offsets)

    def batch(self, indices: npt.NDArray[np.int64], pad_id: int, prompt_tokens: int = 0) -> Batch:
        """Pad the texts at ``indices`` to the longest of them."""
        lengths = self.lengths[indices]
        shape = (len(indices), max(int(lengths.max()), 1))
        mask_BT = np.arange(shape[1]) < lengths[:, None]
        where = np.repeat(self.offsets[indices] - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        ids_BT = np.full(shape, pad_id, dtype=np.int64)
        ids_BT[mask_BT] = self.ids[where]
        types_BT = None
        if self.types is not None:
            types_BT = np.zeros(shape, dtype=np.int64)
            types_BT[mask_BT] = self.types[where]
        return Batch(ids_BT, mask_BT.astype(np.int64), types_BT, prompt_tokens)


class TextTokenizer:
    """The tokenizer of a model folder; threads may share it.

    Inputs are truncated to ``max_tokens``, special tokens included, at the side ``cut_side`` ("left" or "right").
    ``lower_case`` lower-cases them first (sentence-transformers' ``do_lower_case``). The model has embeddings for the
    ids below ``model_ids``; None means that this number is unknown. ``has_segments`` says whether the model is told
    which tokens of a pair belong to its second text.
    """

    def __init__(
        self, folder: Path, max_tokens: int, *, lower_case: bool = False, model_ids: int | None = None
    ) -> None:
        self.max_tokens = max_tokens
        self._folder = folder
        self._model_ids = model_ids
        self._whole = _load(folder, lower_case)
        self._truncating = self.for_chunking()
        settings = optional_json(folder / "tokenizer_config.json")
        self.cut_side = "left" if settings.get("truncation_side") == "left" else "right"
        self._truncating.enable_truncation(max_tokens, direction=self.cut_side)
        self.has_segments = _has_segments(settings)
        self.pad_id = _pad_id(folder, settings, self._whole)
        self._unknown_id = _unknown_id(settings, self._whole)

    def encode(self, texts: Sequence[str]) -> TokenIds:
        """Return token ids with special tokens, truncated to ``max_tokens``.

        Raise ModelIntegrityError for a token without an embedding.
        """
        return self._encode(texts, with_types=False)

    def encode_pairs(self, pairs: Sequence[tuple[str, str]]) -> TokenIds:
        """Return token ids of pairs, and with ``has_segments`` their segments; the longer text is truncated first.

        Raise ModelIntegrityError for a token without an embedding.
        """
        return self._encode(pairs, with_types=self.has_segments)

    def count(self, texts: Sequence[str | tuple[str, str]]) -> npt.NDArray[np.int64]:
        """Count the tokens of each text or pair before truncation, special tokens included: shape (n,)."""
        counts = [len(encoding) for part in _parts(texts) for encoding in self._whole.encode_batch_fast(part)]
        return np.array(counts, dtype=np.int64)

    def count_unknown(self, texts: Sequence[str]) -> npt.NDArray[np.int64]:
        """Count the tokens of each text, as ``count`` does, and its characters in unknown words: shape (n, 2).

        A word is unknown if its token is the unknown token, or if the vocabulary only spells its script
        (``tokens.scripts``).
        """
        counts: list[tuple[int, int]] = []
        for part in _parts(texts):
            found = self._whole.encode_batch_fast(part)
            with_unknown = [row for row, encoding in enumerate(found) if self._unknown_id in encoding.ids]
            placed = self._whole.encode_batch([part[row] for row in with_unknown])
            unknown = {
                row: self._unknown_characters(part[row], each) for row, each in zip(with_unknown, placed, strict=True)
            }
            counts += [
                (len(encoding), unknown.get(row, 0) + self._spelled_characters(part[row]))
                for row, encoding in enumerate(found)
            ]
        return np.array(counts, dtype=np.int64).reshape(-1, 2)

    def unknown(self, texts: Sequence[str]) -> list[bool]:
        """Return for each text whether most of it is words that the model does not know."""
        counts = zip(texts, self.count_unknown(texts).tolist(), strict=True)
        return [is_mostly_unknown(text, unknown) for text, (_, unknown) in counts]

    def count_continued(self, texts: Sequence[str]) -> tuple[int, int]:
        """Count the words that are split into two or more tokens ("continued words", Rust et al. 2021), and all words.

        Only lowercase words are counted: names and identifiers are split in every language.
        """
        words = Counter(word for text in texts for word in _WORD.findall(text) if word.islower())
        counts = zip(words.values(), self._whole.encode_batch_fast(list(words), add_special_tokens=False), strict=True)
        return sum(number for number, encoding in counts if len(encoding) > 1), words.total()

    def _unknown_characters(self, text: str, encoding: Encoding) -> int:
        """Count the characters in unknown tokens, except for characters that ``_spelled_characters`` counts."""
        places = zip(encoding.ids, encoding.offsets, strict=True)
        unknown = [text[start:end] for each, (start, end) in places if each == self._unknown_id]
        return sum(len(each) - self._spelled_characters(each) for each in unknown)

    def _spelled_characters(self, text: str) -> int:
        return sum(number for script, number in letters_by_script(text).items() if script in self._spelled)

    @cached_property
    def _spelled(self) -> frozenset[str]:
        """The scripts that the vocabulary only spells."""
        ids = range(self._whole.get_vocab_size(with_added_tokens=False))
        return spelled_scripts(self._whole.decode_batch([[each] for each in ids]))

    def spans(self, texts: Sequence[str]) -> list[npt.NDArray[np.int64]]:
        """Return start and end of each token of ``encode`` in its text: (tokens, 2); (0, 0) for special tokens."""
        return [
            np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            for part in _parts(texts)
            for encoding in self._truncating.encode_batch(part)
        ]

    def identity(self, probes: Sequence[str]) -> str:
        """Return the hex digest of vocabulary, ids of ``probes``, padding id and truncation side."""
        ids = [encoding.ids for encoding in self._whole.encode_batch(list(probes))]
        vocabulary = sorted(self._whole.get_vocab(with_added_tokens=True).items())
        return hashlib.sha256(json.dumps([vocabulary, ids, self.pad_id, self.cut_side]).encode()).hexdigest()

    @property
    def pad_token(self) -> str | None:
        """The padding token's text."""
        return self._whole.id_to_token(self.pad_id)

    def save(self, path: Path) -> None:
        """Write the tokenizer, without truncation and padding, as one file (``tokenizer.json``)."""
        path.write_text(self._whole.to_str(), encoding="utf-8")

    def for_chunking(self) -> Tokenizer:
        """Return a copy of the Rust tokenizer that does not truncate, for a chunker."""
        from tokenizers import Tokenizer

        return Tokenizer.from_str(self._whole.to_str())

    def _encode(self, inputs: Sequence[Any], *, with_types: bool) -> TokenIds:
        ids: list[npt.NDArray[np.int32]] = []
        types: list[npt.NDArray[np.int8]] = []
        truncated: list[bool] = []
        for part in _parts(inputs):
            for encoding in self._truncating.encode_batch_fast(part):
                ids.append(np.array(encoding.ids, dtype=np.int32))
                truncated.append(bool(encoding.overflowing))
                if with_types:
                    types.append(np.array(encoding.type_ids, dtype=np.int8))
        flat = np.concatenate(ids) if ids else np.empty(0, dtype=np.int32)
        self._check_ids(flat)
        return TokenIds(
            flat,
            np.cumsum([0, *map(len, ids)], dtype=np.int64),
            np.concatenate(types) if types else None,
            np.array(truncated, dtype=np.bool_),
        )

    def _check_ids(self, ids: npt.NDArray[np.int32]) -> None:
        """Raise ModelIntegrityError for an id without an embedding; OpenVINO would compute with wrong values."""
        highest = int(ids.max(initial=0))
        if self._model_ids is not None and highest >= self._model_ids:
            raise ModelIntegrityError(
                f"{self._folder}: the tokenizer gives the id {highest} to {self._whole.id_to_token(highest)!r}, but "
                f"the model has embeddings only for ids below {self._model_ids} (vocab_size in config.json); use "
                "tokenizer and weights of the same model"
            )


def is_mostly_unknown(text: str, unknown: int) -> bool:
    """Return whether most characters of a text are in unknown words; ``unknown`` counts these characters."""
    return bool(unknown) and 2 * unknown > sum(map(len, text.split()))


def _parts(inputs: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield lists of texts or pairs, each small enough for one call."""

    def characters(text: str | tuple[str, str]) -> int:
        return len(text) if isinstance(text, str) else sum(map(len, text))

    return sliced_by_weight(inputs, characters, most=_TEXTS_AT_ONCE, heaviest=_CHARACTERS_AT_ONCE)


def _load(folder: Path, lower_case: bool) -> Tokenizer:
    from tokenizers import Tokenizer, normalizers

    path = folder / "tokenizer.json"
    if path.is_file():
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # tokenizers raises bare Exception
            raise_of_handler(error)
            raise ModelIntegrityError(f"{path}: cannot be read as a tokenizer: {error}") from error
        _apply_settings(folder, tokenizer)
    else:
        tokenizer = _convert(folder)
    if lower_case:
        steps = [normalizers.Lowercase(), tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([step for step in steps if step is not None])
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def _apply_settings(folder: Path, tokenizer: Tokenizer) -> None:
    """Let ``tokenizer_config.json`` override ``tokenizer.json``, as transformers does."""
    from tokenizers import normalizers, pre_tokenizers

    path = folder / "tokenizer_config.json"
    settings, config = optional_json(path), optional_json(folder / "config.json")
    stated = settings.get("tokenizer_class") or config.get("tokenizer_class")
    kind = str(stated or _CLASSES.get(str(config.get("model_type")))).removesuffix("Fast")
    if kind in _SEGMENTING:
        raise UnsupportedModelError(
            f"{folder}: {kind} is not supported, since its words are separated in Python, and not by tokenizer.json"
        )
    if kind in _WORD_PIECE and isinstance(tokenizer.normalizer, normalizers.BertNormalizer):
        tokenizer.normalizer = normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=_switch(settings, "tokenize_chinese_chars", True, path),
            strip_accents=None
            if settings.get("strip_accents") is None
            else _switch(settings, "strip_accents", True, path),
            lowercase=_switch(settings, "do_lower_case", True, path),
        )
    elif kind == "RobertaTokenizer" and isinstance(tokenizer.pre_tokenizer, pre_tokenizers.ByteLevel):
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(
            add_prefix_space=_switch(settings, "add_prefix_space", False, path)
        )


def _switch(settings: dict[str, Any], key: str, default: bool, path: Path) -> bool:
    value = settings.get(key, default)
    if not isinstance(value, bool):
        raise ModelIntegrityError(f"{path}: {key} is {value!r}, expected true or false")
    return value


def _convert(folder: Path) -> Tokenizer:
    """Let transformers convert the vocabulary of an old folder that has no ``tokenizer.json``."""
    found = [name for name in _VOCABULARIES if (folder / name).is_file()]
    if not found:
        raise ModelIntegrityError(f"{folder / 'tokenizer.json'}: missing, and there is no vocabulary to make it from")
    if found[0].endswith(".model") and find_spec("sentencepiece") is None:
        raise ModelIntegrityError(
            f"{folder / 'tokenizer.json'}: missing; making it from {found[0]} needs the package 'sentencepiece': "
            "pip install sentencepiece protobuf"
        )
    purpose = f"{folder / 'tokenizer.json'} is missing; making it from the vocabulary"
    AutoTokenizer = import_extra("transformers", "torch", purpose).AutoTokenizer
    try:
        converted = AutoTokenizer.from_pretrained(folder, local_files_only=True, trust_remote_code=False)
    except Exception as error:  # a damaged vocabulary raises errors of many types
        raise_of_handler(error)
        raise ModelIntegrityError(f"{folder / 'tokenizer.json'}: missing, and cannot be made: {error}") from error
    tokenizer: Tokenizer | None = getattr(converted, "backend_tokenizer", None)
    if tokenizer is None:
        raise UnsupportedModelError(
            f"{folder}: {type(converted).__name__} is not supported, since it is written in Python; expected a "
            "tokenizer that tokenizer.json can hold"
        )
    return tokenizer


def _has_segments(settings: dict[str, Any]) -> bool:
    """Return whether transformers gives segments to pairs, given the settings of ``tokenizer_config.json``.

    The names of the inputs decide. Without them, the class does: transformers 5 calls a tokenizer that belongs to no
    model "TokenizersBackend" and gives it no segments. (Earlier versions called it "PreTrainedTokenizerFast" and gave
    it segments.)
    """
    names = settings.get("model_input_names")
    if isinstance(names, list):
        return "token_type_ids" in names
    return bool(settings.get("tokenizer_class") != "TokenizersBackend")


def _pad_id(folder: Path, settings: dict[str, Any], tokenizer: Tokenizer) -> int:
    found = _id_of(settings.get("pad_token"), tokenizer)
    if found is None:
        found = read_object(folder / "config.json").get("pad_token_id")
    return 0 if found is None else int(found)


def _unknown_id(settings: dict[str, Any], tokenizer: Tokenizer) -> int | None:
    """Return the id of the unknown token; None for a vocabulary of bytes, which lacks no character."""
    model = tokenizer.model
    return _id_of(model.unk_token if hasattr(model, "unk_token") else settings.get("unk_token"), tokenizer)


def _id_of(token: Any, tokenizer: Tokenizer) -> int | None:
    """Return the id of a token that the settings give by its text, or by an object with its text."""
    if isinstance(token, dict):
        token = token.get("content")
    return tokenizer.token_to_id(token) if isinstance(token, str) else None
