"""BM25: one analysis of text, an index in memory, and sparse vectors for a store.

``BM25Index`` computes BM25 as Lucene does (Robertson and Zaragoza 2009; Kamphuis et al. 2020, table 1, "Lucene
(accurate)", without the constant factor k1 + 1, as in Lucene since version 8). In a store that multiplies by inverse
document frequency (Qdrant's ``Modifier.IDF``), the dot product of ``query_vector`` and ``document_vector`` is the same
score. Only the index imports bm25s itself, because that import loads scipy and takes longer than a search.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import chain, groupby
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import Stemmer
from tokenizers import Regex, normalizers

from twinvec.errors import ConfigurationError

if TYPE_CHECKING:
    import bm25s

K1 = 1.5
B = 0.75

# Python's \w lacks the vowel signs of the Indic scripts; tokenizers' \w follows Unicode and has them.
_WORDS = normalizers.Sequence(
    [
        normalizers.NFKC(),
        normalizers.BertNormalizer(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True),
        normalizers.Replace(Regex(r"\W+"), " "),
    ]
)
# A single Latin letter is dropped: it is an initial or the rest of "it's", and makes results worse. A digit ("type 2
# diabetes"), a Greek letter and a Chinese character stay. Each Chinese character is a word, as in Lucene's
# StandardAnalyzer.
_TERM = re.compile(r"\S{2,}|[0-9]|[^\x00-\x7f]")

# ``_WORDS`` is slow. For ASCII, two byte tables do the same. Other text goes through it piece by piece, cut at white
# space, because none of its steps looks across a space; the words of a piece are cached, because most pieces recur.
_ASCII_WORDS = bytes(code if chr(code).isalnum() or code == ord("_") else ord(" ") for code in range(128)).lower()
_ASCII_WORDS += bytes(range(128, 256))
_ASCII_CONTROLS = bytes(code for code in (*range(32), 127) if chr(code) not in "\t\n\r")
_PIECE = re.compile(r"[^ \t\n\r]+")
_REMEMBERED_LENGTH = 64  # characters; longer words hardly occur again
_REMEMBERED_STEMS = 2**17


class Analyzer:
    """Turn text into stemmed terms; raise ConfigurationError for a ``language`` without a Snowball stemmer.

    Text is lowercased and normalised (NFKC), and split into words of any script. Stop words are dropped if bm25s has a
    list for the language. Except for Chinese, scripts without spaces are not split into words.
    """

    def __init__(self, language: str = "english") -> None:
        if language not in Stemmer.algorithms():
            raise ConfigurationError(f"no stemmer for {language!r}; there are {', '.join(Stemmer.algorithms())}")
        self.language = language

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text, in order and with repetitions."""
        words = [_words(text) for text in texts]
        known = _known_stems(self.language)
        distinct = set().union(*words) - _stop_words(self.language)
        unknown = [word for word in distinct if word not in known]
        stemmer = Stemmer.Stemmer(self.language)  # not shared: it is not safe between threads
        stems = dict(zip(unknown, stemmer.stemWords(unknown), strict=True))
        if len(known) < _REMEMBERED_STEMS:
            known.update((word, stem) for word, stem in stems.items() if len(word) <= _REMEMBERED_LENGTH)
        stems.update((word, known[word]) for word in distinct - stems.keys())
        return [[stem for stem in map(stems.get, each) if stem is not None] for each in words]


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, in order, without single Latin letters."""
    if text.isascii():
        return _ascii_words(text)
    words: list[str] = []
    for is_ascii, pieces in groupby(_PIECE.findall(text), str.isascii):
        if is_ascii:
            words += _ascii_words(" ".join(pieces))
        else:
            for piece in pieces:
                words += _known_words(piece) if len(piece) <= _REMEMBERED_LENGTH else _normalized_words(piece)
    return words


def _ascii_words(text: str) -> list[str]:
    words = text.encode("ascii").translate(_ASCII_WORDS, _ASCII_CONTROLS).decode("ascii").split()
    return [word for word in words if len(word) > 1 or word.isdecimal()]


def _normalized_words(text: str) -> list[str]:
    return _TERM.findall(_WORDS.normalize_str(text))


_known_words = lru_cache(maxsize=65536)(_normalized_words)


@cache
def _known_stems(language: str) -> dict[str, str]:
    """Return the cache of stems by word, which takes new words until it is full."""
    return {}


@cache
def _stop_words(language: str) -> frozenset[str]:
    """Load a language's stop words from bm25s's module ``stopwords``, without an import of bm25s."""
    package = find_spec("bm25s")
    spec = package and PathFinder.find_spec("stopwords", package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    lists = module_from_spec(spec)
    spec.loader.exec_module(lists)
    name = "STOPWORDS_EN" if language == "english" else f"STOPWORDS_{language.upper()}"
    return frozenset(getattr(lists, name, ()))


class BM25Index:
    """BM25 scores of documents in memory, from the terms of each by one ``Analyzer``."""

    def __init__(self, terms: Sequence[list[str]]) -> None:
        self._size = len(terms)
        self._index: bm25s.BM25 | None = None
        if any(terms):  # bm25s cannot index a corpus without a single term
            import bm25s

            self._index = bm25s.BM25(k1=K1, b=B, method="lucene")
            self._index.index(list(terms), show_progress=False)

    def scores(self, terms: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return every document's score for a query's terms: shape (n,), 0 for documents that share no term."""
        if self._index is None or not terms:
            return np.zeros(self._size, dtype=np.float32)
        scores: npt.NDArray[np.float32] = self._index.get_scores(list(terms))
        return scores


SparseVector = tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]
"""Term ids, ascending, and their values."""


def document_vector(terms: Sequence[str], average_length: float) -> SparseVector:
    """Return a document's saturated term frequencies: tf / (tf + k1 (1 - b + b length / average)).

    If ``average_length``, in terms, is 0 (unknown), the document counts as one of average length.
    """
    ids, counts = _counted(terms)
    norm = K1 * (1 - B + B * len(terms) / (average_length or len(terms) or 1))
    return _merged(ids, counts / (counts + norm))


def document_vectors(terms: Sequence[Sequence[str]], average_length: float) -> list[SparseVector]:
    """Return ``document_vector`` of each document, computed for all at once."""
    lengths = np.fromiter(map(len, terms), np.int64, len(terms))
    rows = np.repeat(np.arange(len(terms)), lengths)
    ids = np.fromiter(map(term_id, chain.from_iterable(terms)), np.int64, len(rows))
    places, counts = np.unique(rows << 32 | ids, return_counts=True)  # sorted by document, then by dimension
    if len(places) != sum([len(set(each)) for each in terms]):  # two terms of a document share a dimension
        return [document_vector(each, average_length) for each in terms]
    rows, ids = places >> 32, places & 0xFFFFFFFF
    norms = K1 * (1 - B + B * lengths / (average_length or np.maximum(lengths, 1)))
    weights = (counts / (counts + norms[rows])).astype(np.float32)
    ends = np.cumsum(np.bincount(rows, minlength=len(terms))).tolist()
    return [(ids[start:end], weights[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def query_vector(terms: Sequence[str]) -> SparseVector:
    """Return the counts of a query's terms."""
    return _merged(*_counted(terms))


def _counted(terms: Sequence[str]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Return the dimension of each distinct term, and how often it occurs."""
    counts = Counter(terms)
    ids = np.fromiter(map(term_id, counts), np.int64, len(counts))
    return ids, np.fromiter(counts.values(), np.float64, len(counts))


def _merged(ids: npt.NDArray[np.int64], weights: npt.NDArray[np.float64]) -> SparseVector:
    """Sort by dimension; terms with the same one share it, because stores refuse a repeated id."""
    order = np.argsort(ids, kind="stable")
    ids, weights = ids[order], weights[order]
    if (same := ids[1:] == ids[:-1]).any():
        first = np.flatnonzero(np.concatenate([[True], ~same]))
        ids, weights = ids[first], np.add.reduceat(weights, first)
    return ids, weights.astype(np.float32)


@lru_cache(maxsize=65536)
def term_id(term: str) -> int:
    """Return a term's dimension: 32 bits of its hash, the same in every process."""
    return int.from_bytes(hashlib.blake2b(term.encode("utf-8", "replace"), digest_size=4).digest(), "big")
