"""The languages of a collection's chunks, as py3langid identifies them (Lui and Baldwin 2012)."""

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
_CHARACTERS_READ = 1000  # number of characters of each text that are read
_LEAST_SHARE = 0.1  # if no language has more than half of the texts, a language counts from this share of them on


def languages_of(texts: Iterable[str]) -> list[str]:
    """Return the ISO 639-1 codes of the languages of the texts, the most frequent one first.

    The most frequent language is returned alone if more than half of the texts are in it, or if it is English.
    Otherwise, every language of at least a tenth of the texts is returned. If there are fewer than two languages, or if
    the languages of most texts are not recognised, English is returned. Only the languages in ``QUESTIONS`` are
    recognised; a text in another language may be taken for one in a similar language.
    """
    languages = Counter(_identifier().classify(text[:_CHARACTERS_READ])[0] for text in texts)
    known = [(language, count) for language, count in languages.most_common() if language in QUESTIONS]
    first, number = known[0] if known else (ENGLISH, 0)
    if first == ENGLISH or 2 * number > languages.total():
        return [first]
    frequent = [language for language, count in known if count >= _LEAST_SHARE * languages.total()]
    are_recognised = 2 * sum(count for _, count in known) > languages.total()
    return frequent if are_recognised and len(frequent) > 1 else [ENGLISH]


def language_hint(language: str, stemmed: str, *, learnt_english: bool) -> str | None:
    """Return advice for a collection whose texts are in ``language``; None if its stemmer and its model fit.

    ``stemmed`` is the language of the stemmer. ``learnt_english`` says that the model has learnt English only.
    """
    name = NAMES[language]
    if language == ENGLISH:
        return None
    hints = []
    if stemmed == NAMES[ENGLISH].lower() and name.lower() in Stemmer.algorithms():
        hints.append(
            f"the words are stemmed as English; a new collection with --language {name.lower()} stems them right"
        )
    if learnt_english:
        hints.append(
            f"the model has learnt English only, so searches by vectors find less; choose a model that reads {name} "
            "(twinvec migrate --to MODEL)"
        )
    return f"most of the texts are in {name}: {'. Also, '.join(hints)}" if hints else None


@cache
def _identifier() -> LanguageIdentifier:
    # imported here, because the import takes a second and only a measurement needs it
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    identifier = LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True, min_confidence=_LEAST_CONFIDENCE)
    identifier.set_languages(list(QUESTIONS))
    return identifier
