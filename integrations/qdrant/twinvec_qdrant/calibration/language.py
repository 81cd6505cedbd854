"""The language of a collection: what most of its chunks are in, as py3langid tells it (Lui and Baldwin 2012)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cache
from typing import TYPE_CHECKING

import Stemmer

from twinvec_qdrant.calibration.questions import QUESTIONS

if TYPE_CHECKING:
    from py3langid.langid import LanguageIdentifier

ENGLISH = "en"
NAMES = {
    "ar": "Arabic",
    "cs": "Czech",
    "da": "Danish",
    "de": "German",
    "el": "Greek",
    "en": "English",
    "es": "Spanish",
    "fa": "Persian",
    "fi": "Finnish",
    "fr": "French",
    "he": "Hebrew",
    "hi": "Hindi",
    "hu": "Hungarian",
    "id": "Indonesian",
    "it": "Italian",
    "ja": "Japanese",
    "ko": "Korean",
    "nl": "Dutch",
    "no": "Norwegian",
    "pl": "Polish",
    "pt": "Portuguese",
    "ro": "Romanian",
    "ru": "Russian",
    "sv": "Swedish",
    "tr": "Turkish",
    "uk": "Ukrainian",
    "vi": "Vietnamese",
    "zh": "Chinese",
}
_LEAST_CONFIDENCE = 0.9
_CHARACTERS_READ = 1000  # of each text


def language_of(texts: Iterable[str]) -> str:
    """Return the ISO 639-1 code of the language that more than half of the texts are in; if there is none, English.

    Only languages that have questions are told apart. A text in another language counts for one much like it, if there
    is one.
    """
    languages = Counter(_identifier().classify(text[:_CHARACTERS_READ])[0] for text in texts)
    language, number = max(languages.items(), key=lambda item: item[1], default=(ENGLISH, 0))
    return language if language in QUESTIONS and 2 * number > languages.total() else ENGLISH


def language_hint(language: str, stemmed: str, *, learnt_english: bool) -> str | None:
    """Return what to do about a collection in this language whose words are stemmed as ``stemmed``; None if nothing."""
    name = NAMES[language]
    if language == ENGLISH or stemmed != NAMES[ENGLISH].lower() or name.lower() not in Stemmer.algorithms():
        return None
    hint = (
        f"most of its texts are in {name}, but its words are stemmed as English; a new collection with --language "
        f"{name.lower()} stems them as {name}"
    )
    model = f". Its model has learnt English; choose one that reads {name} (twinvec migrate --to MODEL)"
    return hint + model if learnt_english else hint


@cache
def _identifier() -> LanguageIdentifier:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier  # takes a second, and only a measurement needs it

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=_LEAST_CONFIDENCE)
    identifier.set_languages(list(QUESTIONS))
    return identifier
