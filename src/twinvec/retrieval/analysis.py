"""Analysis: how a text becomes the terms that BM25 compares. A collection records the version of its analysis.

Version 1 lowercases a text and normalises it (NFKC), splits it into words of any script, drops stop words and stems the
rest. An identifier such as ``get_environment_variable`` or ``HTTPServer`` is one term. For English, the stop words are
the 33 of Lucene's ``EnglishAnalyzer``, so question words are terms.

Version 2 does the same, and

- folds accents of Latin and Greek letters, so "pokemon" finds "Pokémon". The marks of all other scripts stay: Cyrillic
  й and the vowel signs of the Indic scripts are letters, not accents.
- adds the parts of an identifier to its terms: "environment variable" finds ``getEnvironmentVariable``.
- drops words of an English query that only mark a question: "What is the NASUWT?" has one term (``query_terms``).
- counts a number or a code in a query, such as "4711" or "HNF4A", as three terms (``query_terms``). Vectors hardly tell
  one code from another, so words decide.

Version 3 does the same, and compares kana and Korean syllables by pairs of neighbours, as Lucene's ``CJKBigramFilter``
does: Japanese has no spaces between words, and Korean writes particles together with their nouns. "フィルター" finds
"フィルターを". A single kana between other characters is mostly a particle, so it is no term. An identifier such as
``try_acquire`` in a query counts as a code (``code_share``).

Version 4 does the same, and takes letters with dots between them for one word, as Lucene's ``ClassicFilter`` does:
"USA" finds "U.S.A.". The earlier versions drop such letters.

Version 5 does the same, and

- compares Thai, Lao, Khmer and Burmese by pairs of neighbours, since these have no spaces between words either. A
  neighbour is a letter with its marks.
- finds words that dots join whole and by their parts, as identifiers: "node.js" finds "Node.js" before texts about "a
  node of a JS file", and "3.11" does not find "3.12". ``retrieval.words.joined`` has the rules.
- takes "1,000" for "1000".
- finds "C++", "C#" and "F#", whose letters alone are no terms.
- counts a joined word in a query as three terms besides its parts. A joined word that has digits or is the whole query
  is a code (``code_share``): vectors hardly tell "3.11" from "3.12", and a query of "node.js" alone asks for this name.
  A number with commas is a quantity and not a code.

No version joins words at a hyphen. On public test sets, "COVID-19" as one more term changed the nDCG@10 of BM25 by -0.3
to 0.6 points, and cost hybrid search up to 1.3 points.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from itertools import chain, pairwise

import Stemmer
from tokenizers import Regex, normalizers

from twinvec.errors import ConfigurationError
from twinvec.retrieval.words import cutting, joined
from twinvec.retrieval.words.cutting import Word

NEWEST_ANALYSIS = 5
"""The version that new collections use."""

_LOWERCASE = normalizers.Lowercase()
_IDEOGRAPHS = normalizers.BertNormalizer(
    clean_text=False, handle_chinese_chars=True, strip_accents=False, lowercase=False
)
_UNACCENTED = normalizers.Sequence(
    [normalizers.NFD(), normalizers.Replace(Regex(r"(?<=[\p{Latin}\p{Greek}])\p{Mn}+"), ""), normalizers.NFC()]
)
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ŧ": "t", "ı": "i"}
    | {"ς": "σ"}
)

# A single Latin letter is dropped: it is an initial or the "s" of "it's", and makes results worse. A digit ("type 2
# diabetes"), a Greek letter and a Chinese character stay.
_TERM = re.compile(r"\S{2,}|[0-9]|[^\x00-\x7f]")

# Terms are remembered by word or piece: most recur.
_REMEMBERED_LENGTH = 64  # characters; longer words hardly occur again
_REMEMBERED = 2**17
_TEXTS_AT_ONCE = 4096
_COUNTED_LENGTHS = range(3, 33)  # in letters

# "getEnv", "HTTPServer" and "mRNA" have two parts; "RNAs" is a word. A part of one letter is dropped, as everywhere.
_WITH_UNDERSCORE = re.compile(r"\b\w*_\w*")  # without \b, a long word would take quadratic time
_UNDERSCORED = re.compile(r"[^_]+")
_HUMPS = re.compile(r"(?<=[a-z0-9])(?=[A-Z][A-Za-z0-9])|(?<=[A-Z])(?=[A-Z][a-z]{2})")

_NO_NAME = re.compile(r"^(?:v(?=[0-9])|www\.(?=.*\.))")  # "v1.18" is "1.18", and "www.example.com" is "example.com"

# The ranges suit normalised text, in which other characters replace half-width kana and single jamo.
_HIRAGANA, _KATAKANA, _HANGUL = "\u3041-\u3096\u309d-\u309f", "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff", "\uac00-\ud7a3"
_SYLLABLES = rf"[{_HIRAGANA}]+|[{_KATAKANA}]+|[{_HANGUL}]+"
_KANA = re.compile(rf"[{_HIRAGANA}{_KATAKANA}]")

_THAI, _LAO = "\u0e01-\u0e3a\u0e40-\u0e4e", "\u0e81-\u0ebd\u0ec0-\u0ece\u0edc-\u0edf"
_BURMESE, _KHMER = "\u1000-\u103f\u1050-\u108f\u109a-\u109f", "\u1780-\u17d3\u17d7\u17dc\u17dd"
_UNSPACED = f"{_THAI}{_LAO}{_BURMESE}{_KHMER}"
_PAIRED_BEFORE_5, _PAIRED = re.compile(_SYLLABLES), re.compile(rf"{_SYLLABLES}|[{_UNSPACED}]+")
_WITH_MARKS = re.compile(r".\W*")  # a letter with its marks, within a run that ``_PAIRED`` finds
_LETTERS_APART = re.compile(rf"[{_HIRAGANA}{_KATAKANA}]|[{_UNSPACED}](?:(?!\w)[{_UNSPACED}])*")

_CAPITALISED = re.compile(r"\b(?:[A-Z][a-z0-9]+|[a-z])[A-Z](?:[a-z0-9]+|[A-Z0-9]+)\b")

# Years and ordinals are no codes: texts about the same year need not be about the same thing.
_CODE = re.compile(r"(?=\D*\d)(?!(?:1[5-9]|20)\d\ds?$|\d+(?:st|nd|rd|th)$)\S{4,}")
_CODE_COUNTS = 3
_DIGIT = re.compile(r"\d")

ENGLISH = frozenset({"english", "porter"})
"""Names of the English stemmers. English words are folded before stemming; other stemmers need the accents."""

# "Who is ..." asks, but "WHO guidelines" does not; "can you ..." does, but "can opener" does not.
_ASKS = r"(?:what|which|whom|whose|when|where|why|how)"
_VERB = r"(?:do|does|did|is|are|was|were|am|can|could|shall|should|will|would|may|might|must|has|have|had)"
_PERSON = r"(?:i|you|we|he|she|it|they|one|me|my|your|our)"
_INTERROGATIVE = re.compile(rf"\b{_ASKS}\b", re.IGNORECASE)
_QUESTION = re.compile(
    rf"^\W*(?:{_ASKS}|who(?=\W+(?:{_VERB}|s)\b)|{_VERB}(?=\W+{_PERSON}\b))\b(?:\W+(?:{_ASKS}|{_VERB}|{_PERSON}|s)\b)*",
    re.IGNORECASE,
)


class Analyzer:
    """Turn text into stemmed terms.

    Stop words are dropped if bm25s has a list for the language. Raise ConfigurationError for a ``language`` without a
    Snowball stemmer, and for an unknown ``version`` of the analysis; see the module's docstring.
    """

    def __init__(self, language: str = "english", version: int = 1) -> None:
        if language not in Stemmer.algorithms():
            raise ConfigurationError(f"no stemmer for {language!r}; there are {', '.join(Stemmer.algorithms())}")
        if version not in range(1, NEWEST_ANALYSIS + 1):
            raise ConfigurationError(
                f"analysis of words: expected a version from 1 to {NEWEST_ANALYSIS}, got {version!r}; a later version "
                "of twinvec may know it"
            )
        self.language = language
        self.version = version
        self._paired = _PAIRED if version > 4 else _PAIRED_BEFORE_5

    def terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each text, in order and with repetitions."""
        found: list[list[str]] = []
        # in blocks, because the words of all texts would take more memory than their terms
        for first in range(0, len(texts), _TEXTS_AT_ONCE):
            block = texts[first : first + _TEXTS_AT_ONCE]
            words = list(map(self._cut, block))
            terms = self._terms_of(set().union(*words))
            found += [list(chain.from_iterable(map(terms.__getitem__, each))) for each in words]
        return found

    def query_terms(self, texts: Sequence[str]) -> list[list[str]]:
        """Return the terms of each query: from version 2 on, without English words that only mark a question.

        A query of such words alone keeps them. In a query, "JavaScript" and "iPhone" are names of one term, as in
        lower case. Numbers and codes occur three times; from version 5 on, joined words do, too, but not their parts.
        """
        if self.version == 1:
            return self.terms(texts)
        if self.version > 3:
            texts = list(map(joined.without_dots, texts))
        texts = [_CAPITALISED.sub(lambda word: word[0].lower(), text) for text in texts]
        asked = self.terms(texts)
        if self.language in ENGLISH:
            telling = self.terms([_without_question(text, self.masked(text)) for text in texts])
            asked = [some or every for some, every in zip(telling, asked, strict=True)]
        no_codes = [self._terms_of_joined(text).union(self._quantities(text)) for text in texts]
        return [
            [term for term in each for _ in range(_CODE_COUNTS if "." in term or _is_code(term, others) else 1)]
            for each, others in zip(asked, no_codes, strict=True)
        ]

    def code_share(self, query: str, query_terms: Sequence[str]) -> float:
        """Return the share of a query's terms, as ``query_terms`` returns them, that are numbers or codes.

        From version 3 on, all terms of identifiers with underscores are codes. From version 5 on, all terms of joined
        words with digits are codes, too, and all terms of a query that consists of joined words; numbers with commas
        are not.
        """
        if self.version == 1 or not query_terms:
            return 0.0
        identifiers = _WITH_UNDERSCORE.findall(query) if self.version > 2 else []
        if self.version > 4:
            names = joined.joined_words(query)
            is_name = set(chain.from_iterable(self.terms(names))).issuperset(query_terms)
            identifiers += names if is_name else filter(_DIGIT.search, names)
        named = set(chain.from_iterable(self.terms(identifiers)))
        quantities = self._quantities(query)
        return sum(1 for term in query_terms if term in named or _is_code(term, quantities)) / len(query_terms)

    def masked(self, text: str) -> str:
        """Return a text of the same length with underscores in place of joined words, which version 5 introduced."""
        return joined.masked(text) if self.version > 4 else text

    def spans(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Yield each term of a text with its start and end in the text, in characters."""
        words = list(self._placed(text))
        forms = [self._forms(word.text) for word in words]
        terms = self._stemmed({form for each in forms for form, _, _ in each})
        for word, each in zip(words, forms, strict=True):
            exact = word.end - word.start == len(word.text)
            for form, start, end in each:
                if form in terms:
                    yield (terms[form], *((word.start + start, word.start + end) if exact else (word.start, word.end)))

    def word_counts(self, written: Mapping[str, int]) -> Counter[str]:
        """Return lowercase word -> number of texts with it, from the counts of ``written_words``.

        Stop words and words with digits are left out, and ASCII words of less than 3 letters; Chinese characters and
        other short words of other letters count. A text that writes a word in two ways ("May", "may") counts twice.
        """
        counts: Counter[str] = Counter()
        for piece, count in written.items():
            if piece.isascii() and piece.isalpha() and piece[1:].islower():  # a shortcut for most words
                counts[piece.lower()] += count
                continue
            for form in self._forms_of(piece):
                counts[form] += count
        for form in [each for each in counts if not (is_counted(each) or is_short(each))]:
            del counts[form]
        for form in _stop_words(self.language):
            del counts[form]
        return counts

    def _cut(self, text: str) -> list[str]:
        """Return the pieces of a text; ``_split`` cuts a piece into words."""
        if self.version > 4:
            return joined.dotted_words(text)
        return cutting.words(joined.without_dots(text) if self.version > 3 else text)

    def _split(self, piece: str) -> list[str]:
        """Return the words of a piece."""
        return list(map(_composed, joined.split_dotted(piece))) if self.version > 4 else cutting.split(piece)

    def _placed(self, text: str) -> Iterator[Word]:
        """Return the words of a text in order, with their places."""
        if self.version > 4:
            return (word._replace(text=_composed(word.text)) for word in joined.placed_dotted_words(text))
        return joined.placed_acronyms(text) if self.version > 3 else cutting.placed_words(text, 0, len(text))

    def _terms_of_joined(self, query: str) -> set[str]:
        """Return the terms of the joined words of a query, and of their parts."""
        found = joined.joined_words(query) if self.version > 4 else []
        return set(chain.from_iterable(self.terms(found)))

    def _quantities(self, query: str) -> set[str]:
        """Return the terms of the numbers with commas of a query."""
        return set(joined.thousands(query)) if self.version > 4 else set()

    def _terms_of(self, words: set[str]) -> dict[str, tuple[str, ...]]:
        """Return the terms of each piece of ``_cut``; the dictionary may hold other words too."""
        known = _known_terms(self.language, self.version)
        unknown = words.difference(known)  # with known.keys(), ``difference`` would go through all known words
        plain = {word: word.lower() for word in unknown if word.isascii() and word.isalpha() and word[1:].islower()}
        others = {word: self._forms_of(word) for word in unknown - plain.keys()}
        terms = self._stemmed({*plain.values(), *chain.from_iterable(others.values())})
        found: dict[str, tuple[str, ...]] = {
            word: (terms[form],) if form in terms else () for word, form in plain.items()
        }
        found.update((word, tuple([terms[form] for form in each if form in terms])) for word, each in others.items())
        if len(known) < _REMEMBERED:
            known.update((word, each) for word, each in found.items() if len(word) <= _REMEMBERED_LENGTH)
        if found.keys() <= known.keys():
            return known
        return {word: found[word] if word in found else known[word] for word in words}

    def _forms_of(self, piece: str) -> list[str]:
        """Return the lowercase forms of all words of a piece of ``_cut``."""
        return [form for word in self._split(piece) for form, _, _ in self._forms(word)]

    def _forms(self, word: str) -> list[tuple[str, int, int]]:
        """Return the lowercase forms of a word that become terms, each with its start and end in the word."""
        if "." in word:
            return self._forms_of_joined(word)
        if self.version > 2 and not word.isascii() and self._paired.search(word):
            cuts = sorted({0, len(word), *(cut for run in self._paired.finditer(word) for cut in run.span())})
            return [form for start, end in pairwise(cuts) for form in self._forms_of_script(word, start, end)]
        return self._forms_of_word(word)

    def _forms_of_script(self, word: str, start: int, end: int) -> list[tuple[str, int, int]]:
        """Return the forms of a part of a word that is in one script, each with its start and end in the word."""
        if not self._paired.match(word, start):
            return [(form, start + first, start + last) for form, first, last in self._forms_of_word(word[start:end])]
        bounds = [*(each.start() for each in _WITH_MARKS.finditer(word, start, end)), end]
        if len(bounds) == 2:
            return [] if _KANA.match(word, start) else [(word[start:end], start, end)]
        return [(word[first:last], first, last) for first, last in zip(bounds, bounds[2:], strict=False)]

    def _forms_of_word(self, word: str) -> list[tuple[str, int, int]]:
        low = _lowercased(word)
        if self.version == 1:
            return [(low, 0, len(word))] if _TERM.fullmatch(low) else []
        whole, parts = _identifier(word)
        forms = [(whole, 0, len(word)), *((_lowercased(word[start:end]), start, end) for start, end in parts)]
        return [each for each in forms if _TERM.fullmatch(each[0])]

    def _forms_of_joined(self, word: str) -> list[tuple[str, int, int]]:
        """Return the forms of a joined word and of its parts, each with its start and end in the word."""
        forms, start = [(_NO_NAME.sub("", _lowercased(word.strip("_"))), 0, len(word))], 0
        for part in word.split("."):
            forms += [(form, start + first, start + last) for form, first, last in self._forms_of_word(part)]
            start += len(part) + 1
        return forms

    def _stemmed(self, forms: Iterable[str]) -> dict[str, str]:
        """Return the term of each form that is not a stop word."""
        kept = list(set(forms) - _stop_words(self.language))
        plain = self.version > 1 and self.language in ENGLISH
        # a new stemmer for each call, because stemmers are not safe between threads
        stemmer = Stemmer.Stemmer(self.language)
        stems = stemmer.stemWords([folded(each) for each in kept] if plain else kept)
        if self.version > 1 and not plain:
            stems = [folded(each) for each in stems]
        return dict(zip(kept, stems, strict=True))


def written_words(texts: Iterable[str]) -> Counter[str]:
    """Count the texts that hold each word in its original spelling; ``Analyzer.word_counts`` normalises the words."""
    return Counter(chain.from_iterable(set(cutting.words(text)) for text in texts))


def is_counted(word: str) -> bool:
    """Return whether every version of ``Analyzer.word_counts`` counts a lowercase word: 3 to 32 letters."""
    return len(word) in _COUNTED_LENGTHS and word.isalpha()


def is_short(word: str) -> bool:
    """Return whether a word is one of the short words that ``Analyzer.word_counts`` counts, such as 水 or на."""
    return len(word) < _COUNTED_LENGTHS.start and word.isalpha() and not word.isascii()


def folded(word: str) -> str:
    """Return a lowercase word in which plain letters replace accented Latin and Greek letters."""
    if word.isascii():
        return word
    return _UNACCENTED.normalize_str(word).translate(_LETTERS)


def with_characters_apart(text: str) -> str:
    """Return a text with a space on both sides of each letter of Chinese, kana, Thai, Lao, Khmer and Burmese."""
    return _LETTERS_APART.sub(r" \g<0> ", _IDEOGRAPHS.normalize_str(text))


def _lowercased(word: str) -> str:
    if word.isascii():
        return word.lower()
    return _LOWERCASE.normalize_str(word)


def _composed(word: str) -> str:
    """Return a word with the Thai and Lao vowel "am" as one character, which normalisation (NFKC) takes apart."""
    return word if word.isascii() else word.replace("\u0e4d\u0e32", "\u0e33").replace("\u0ecd\u0eb2", "\u0eb3")


def _identifier(word: str) -> tuple[str, list[tuple[int, int]]]:
    """Return a word in lower case without outer underscores, and start and end of its parts if it is an identifier."""
    if (word.isalnum() and word == word.lower()) or (word.isalpha() and (word[1:].islower() or word.isupper())):
        return _lowercased(word), []
    parts = []
    for part in _UNDERSCORED.finditer(word):
        cuts = [part.start(), *(part.start() + cut.start() for cut in _HUMPS.finditer(part[0])), part.end()]
        parts += list(pairwise(cuts))
    return _lowercased(word.strip("_")), parts if len(parts) > 1 else []


def different_terms(terms: Iterable[Iterable[str]]) -> list[int]:
    """Return the number of different terms of each text; a joined word counts by its parts only."""
    return [sum("." not in term for term in set(each)) for each in terms]


def _is_code(term: str, no_codes: Set[str]) -> bool:
    return bool(_CODE.match(term)) and term not in no_codes


def _without_question(query: str, masked: str) -> str:
    """Return an English query without a beginning such as "How do I", and without interrogatives.

    ``masked`` is the query as ``Analyzer.masked`` returns it, so that "will.i.am" and "who.int" ask nothing.
    """
    asking = _QUESTION.match(masked)
    kept, end = [], asking.end() if asking else 0
    for word in _INTERROGATIVE.finditer(masked, end):
        kept.append(query[end : word.start()])
        end = word.end()
    return " ".join([*kept, query[end:]])


@cache
def _known_terms(language: str, version: int) -> dict[str, tuple[str, ...]]:
    """Return the cache, word -> terms; new words are added until it is full."""
    return {}


def _stop_words(language: str) -> frozenset[str]:
    return stop_list("EN" if language == "english" else language.upper())


@cache
def stop_list(name: str) -> frozenset[str]:
    """Load a list of bm25s's module ``stopwords`` without importing bm25s; an unknown name gives an empty list."""
    package = find_spec("bm25s")
    spec = package and PathFinder.find_spec("stopwords", package.submodule_search_locations)
    assert spec is not None
    assert spec.loader is not None
    lists = module_from_spec(spec)
    spec.loader.exec_module(lists)
    return frozenset(getattr(lists, f"STOPWORDS_{name}", ()))
