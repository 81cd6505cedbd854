"""The baselines of the SBERT paper as models (Reimers and Gurevych 2019, table 1), through sentence-transformers.

``glove:FILE``   the average of static word vectors, read from a GloVe text file
``mean:MODEL``   the mean of an encoder's last token states, without the model's own pooling and head
``cls:MODEL``    the first token state of the encoder's last layer

For BM25 see ``twinvec.evaluation.ir.bm25_index``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from twinvec.arrays import FloatArray
from twinvec.encoder import Encoder
from twinvec.engines import Precision
from twinvec.errors import ConfigurationError, InputError
from twinvec.evaluation.models.text_model import TextModel
from twinvec.models.encoder_spec import read_spec
from twinvec.models.finding import find_model
from twinvec.support.checks import check_choice
from twinvec.support.extras import import_extra
from twinvec.support.lines import read_lines
from twinvec.text import check_texts


def load_model(name: str, precision: Precision = "auto", dim: int | None = None) -> TextModel:
    """Return the baseline for a name with a prefix such as "glove:", or the ``Encoder`` for any other name.

    The encoder computes in ``precision``, and truncates vectors to ``dim`` dimensions; a baseline ignores both.
    """
    match _parts(name):
        case "glove", path:
            return average_of_words(path)
        case ("mean" | "cls") as pooling, model:
            return untrained(model, pooling)
        case _:
            return Encoder(name, precision=precision, dim=dim)


def is_baseline(name: str) -> bool:
    """Return whether a name has the prefix of a baseline."""
    return bool(_parts(name)[0])


def check_model(name: str, dim: int | None = None) -> None:
    """Check that a model exists, and has ``dim`` dimensions if it is no baseline, without loading it.

    Errors are those of ``find_model`` and ``average_of_words``, and ConfigurationError if the model has fewer
    dimensions.
    """
    kind, rest = _parts(name)
    if kind == "glove":
        _check_head(Path(rest))
        return
    found = find_model(rest)
    if dim is not None and not kind:
        try:
            read_spec(found.path).override(dim, None, None, None)
        except ConfigurationError as error:
            raise ConfigurationError(f"{name}: {error}") from error


class Baseline:
    """A ``TextModel`` that pools the output of a module of sentence-transformers; it has no prompts."""

    def __init__(self, name: str, first: Any, pooling: str) -> None:
        pool = _modules().Pooling(first.get_embedding_dimension(), pooling)
        from sentence_transformers import SentenceTransformer

        self.name = name
        self._model = SentenceTransformer(modules=[first, pool])

    def encode(self, texts: Sequence[str], *, progress: bool = False) -> FloatArray:
        """Return the model's own vectors, not normalised: (n, dim), float32; zero for a text without a known word."""
        shown = progress and sys.stderr.isatty()
        vectors = self._model.encode(check_texts(texts), show_progress_bar=shown, convert_to_numpy=True)
        return np.asarray(vectors, dtype=np.float32)

    encode_query = encode
    encode_document = encode


def average_of_words(path: str | Path) -> Baseline:
    """Return a model that averages word vectors, without stop words, as sentence-transformers' GloVe models do.

    Each line of the file holds a word and its numbers. Raises InputError for any other file.
    """
    path = Path(path)
    _check_head(path)  # the reader of sentence-transformers skips malformed lines, and downloads a missing file
    try:
        words = _modules().WordEmbeddings.from_text_file(str(path))
    except ValueError as error:
        lines = enumerate(read_lines(path), 1)
        place = next((f"{path}:{number}" for number, line in lines if not _has_numbers(line.split())), path)
        raise InputError(f"{place}: no word vectors: {error}") from error
    return Baseline(f"glove:{path.name}", words.float(), "mean")  # the file is read as float64


def untrained(model: str | Path, pooling: Literal["mean", "cls"]) -> Baseline:
    """Return the pooled backbone of ``model`` before its training for sentences, or raise ModelError."""
    check_choice(pooling, ("mean", "cls"), "pooling")
    modules = _modules()
    from twinvec.engines.torch import quiet_transformers

    spec = read_spec(find_model(model).path)
    with quiet_transformers():
        transformer = modules.Transformer(
            str(spec.folder), max_seq_length=spec.max_tokens, model_kwargs={"use_safetensors": True}
        )
    return Baseline(f"{pooling}:{model}", transformer, pooling)


def _parts(name: str) -> tuple[str, str]:
    """Return the prefix of a baseline and the rest of its name; for another model, "" and its whole name."""
    kind, _, rest = name.partition(":")
    return (kind, rest) if kind in ("glove", "mean", "cls") and rest else ("", name)


def _check_head(path: Path) -> None:
    """Raise InputError unless the first lines of a file hold words and numbers."""
    head = [line.split() for line in islice(read_lines(path), 2)]
    if not head:
        raise InputError(f"{path}: the file is empty; expected a word and its numbers on each line")
    if len(head[-1]) < 2 or not _has_numbers(head[-1]):
        raise InputError(f"{path}:{len(head)}: expected a word and its numbers, separated by spaces")


def _has_numbers(fields: list[str]) -> bool:
    try:
        list(map(float, fields[1:]))
    except ValueError:
        return False
    return True


def _modules() -> Any:
    return import_extra("sentence_transformers.sentence_transformer.modules", "train", "a baseline model")
