"""Relevance: how likely a hit answers the query, from 0 to 1, from the hit's own scores and a calibration.

A cosine says little by itself: the same cosine can mean "near" for one model and "far" for another. A ``Calibration``
says where the cosines of a collection lie, between two landmarks:

- ``unrelated``: the cosine of a question with the best chunk of a collection that does not answer it.
- ``near``: the cosine of a sentence with the chunk that it was taken from.

The place of a cosine is (cosine - unrelated) / (near - unrelated): 0 at the first landmark, 1 at the second. Words are
measured by their coverage: the BM25 score divided by the weight of the query's terms, the sum of their inverse document
frequencies. A term that no text of the collection contains has the largest weight, so a question about another subject
has a low coverage, although texts share common words with it. Relevance is the logistic function of a weighted sum of
place and coverage. Its weights come from a logistic regression on sets of questions, each searched in its own set and
in the others. The less the model has learnt of a collection's language, the more words decide (``share_learnt``).

Relevance depends on no other hit and on no rank, so it can be compared between queries and collections. A search by
vectors alone or by words alone has other weights, and the same scale of relevance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:
    from twinvec.arrays import ScoreArray

Cosine = TypeVar("Cosine", float, "ScoreArray")

DEFAULT_MIN_RELEVANCE = 0.5
"""Smallest relevance of a relevant hit; ``benchmarks/RETRIEVAL.md`` measures which hits it keeps and leaves out."""

PLACE = 10.0
"""Difference in log-odds between the two landmarks of the cosine."""

COVERAGE = 14.0
"""Log-odds that full coverage adds in a hybrid search; a typical right hit has a coverage of 0.2 to 0.7."""

_HYBRID, _DENSE, _SPARSE = -4.8, -3.6, -3.0  # per mode: log-odds of a hit at landmark 0 without coverage
_COVERAGE_ALONE = 16.0  # log-odds that full coverage adds in a sparse search
_RISE_COUNTS = 1.3
"""How fast ``share_learnt`` falls with the rise of landmark 0 above the model's own (``benchmarks/languages.py``)."""

UNMEASURED_WORDS = 0.7
"""Weight of words in a collection whose average number of terms is not known."""

_DIFFERENT_TERMS = 21.0  # number of different terms of a text for which words have the weight 1
_SHARE_DIFFERENT = 0.84  # share of different terms in 25 terms of prose, for texts whose different terms are uncounted
_LEAST_WORDS, _MOST_WORDS = 0.6, 2.5  # limits of the weight of words, for texts that a model reads whole
_MOST_UNMEASURED = 2.0  # limit of an unmeasured weight, because questions and answers may have few words in common
_LONG = 250.0  # terms beyond which the weight grows again, because many models read 256 tokens only

UNLEARNT = 0.2
"""``Calibration.learnt`` for a language other than English, if the model has landmarks and nothing is measured."""

MOST_CONTINUED = 0.37
"""Largest proportion of words that a model with landmarks splits (``continued_words``) in texts that it has learnt.

The default model splits 0.02 to 0.32 of the words of English prose and source code, and 0.38 to 0.84 of the words of 14
other languages in Latin letters.
"""

_DIGITS = 4
_LARGEST = 30.0  # limit of log-odds; its logistic function is 1 in all digits that matter


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scale of a collection's scores. Missing landmarks are those of the model, if these are known.

    Attributes:
        version: Version of the method of measuring.
        chunks: Number of chunks at the last measurement of the collection; 0 if it was never measured.
        unrelated: Landmark 0 of the cosine.
        near: Landmark 1 of the cosine.
        words: Weight of words in a hybrid search (``retrieval.fusion``), relative to that for texts of 21 different
            terms.
        unknown_texts: Whether most texts of the collection consist mostly of words that the model does not know.
        learnt: How much the model has learnt of the collection's language, from 0 to 1. None, as in calibrations of
            older versions, means that ``share_learnt`` computes it from the landmarks.
    """

    version: Literal[1] = 1
    chunks: int = 0
    unrelated: float | None = None
    near: float | None = None
    words: float = UNMEASURED_WORDS
    unknown_texts: bool = False
    learnt: float | None = None

    def __post_init__(self) -> None:
        """Raise ValueError unless ``unrelated`` is below ``near``."""
        if self.unrelated is not None and self.near is not None and not self.unrelated < self.near:
            raise ValueError(f"unrelated must be below near, got {self.unrelated} and {self.near}")

    @property
    def landmarks(self) -> tuple[float, float] | None:
        """Both landmarks, or None."""
        return None if self.unrelated is None or self.near is None else (self.unrelated, self.near)

    def place(self, cosine: Cosine) -> Cosine:
        """Map cosines to the scale of the landmarks: ``unrelated`` is 0, ``near`` is 1.

        Other values may be below 0 or above 1. Both landmarks must be known.
        """
        assert self.landmarks is not None
        unrelated, near = self.landmarks
        return (cosine - unrelated) / (near - unrelated)


DEFAULT_SPACE = "3a865ba6c823d33492604578b239256887ca1da75f9dd3910079c46e741248cd"
"""Id of the default model's vector space. Its exports and copies have the same space, but other names."""

_NAMES = {DEFAULT_SPACE: "default"}

LEAST_MEASURED = 40
"""Least number of chunks to measure. A smaller collection uses the landmarks of its model, if these are known."""

MODELS = {"default": Calibration(unrelated=0.25, near=0.65)}
"""Landmarks of models, by name: the medians over many collections of ``MANY`` texts or more."""

MANY = 1000
_GROWTH = {"default": 0.037}
"""Growth of a model's landmark 0 with the natural logarithm of the number of texts, up to ``MANY`` texts.

The nearest of many unrelated texts is nearer than the nearest of a few (``benchmarks/small_collections.py``).
"""


STATES = {"default": Calibration(unrelated=0.34, near=0.66)}
"""Landmarks of MaxSim, by the name of the model: the scores of unrelated texts, and those of judged answers."""

_GROWTH_OF_STATES = {"default": 0.87}
"""Growth of MaxSim's landmark 0 with the landmark 0 of the cosine, over collections in several languages."""


def model_calibration(
    encoder: object, texts: int = MANY, terms: float = 0.0, different: float | None = None
) -> Calibration:
    """Return the recorded calibration of the encoder's model; the other arguments are as in ``known_calibration``."""
    return known_calibration(_model_of(encoder), texts, terms, different)


def known_name(model: str, space: str) -> str:
    """Return the name in ``MODELS`` of a model or of its space; ``model`` if neither is known."""
    return model if model in MODELS else _NAMES.get(space, model)


def usual_words(terms: float, different: float | None = None, most: float = _MOST_WORDS) -> float:
    """Return the usual weight of words for texts with an average of ``terms`` terms; 0 if the average is unknown.

    The vector of a short sentence holds all that the sentence says. The more a text says, the less of it is in its
    vector, and the more its words tell. A text that repeats its terms, such as source code, says less than prose of its
    length. The weight therefore follows the average number of ``different`` terms of a text (None: as in prose). It is
    at most ``most`` for texts that a model reads whole, and larger for longer texts.
    """
    if not terms:
        return UNMEASURED_WORDS
    said = _SHARE_DIFFERENT * terms if different is None else different
    read = min(max(said / _DIFFERENT_TERMS, _LEAST_WORDS), most)
    return round(max(read, _MOST_WORDS * terms / _LONG), _DIGITS)


def known_calibration(model: str, texts: int = MANY, terms: float = 0.0, different: float | None = None) -> Calibration:
    """Return the recorded calibration of the model with this name.

    Args:
        model: Name of the model.
        texts: Number of texts that are searched.
        terms: Average number of terms of a text; 0 if it is not known.
        different: Average number of different terms of a text; None if it is not known.
    """
    known = replace(MODELS.get(model, Calibration()), words=usual_words(terms, different, _MOST_UNMEASURED))
    if known.unrelated is None:
        return known
    fewer = math.log(MANY / min(max(texts, 1), MANY))
    return replace(known, unrelated=round(known.unrelated - _GROWTH.get(model, 0.0) * fewer, _DIGITS))


def completed(calibration: Calibration | None, known: Calibration) -> Calibration | None:
    """Return the calibration; if it lacks landmarks, with the landmarks and the weight of words of ``known``."""
    if calibration is None or calibration.landmarks is not None:
        return calibration
    return replace(calibration, unrelated=known.unrelated, near=known.near, words=known.words)


def relevance(
    scores: Mapping[str, float],
    weight: float,
    calibration: Calibration | None,
    *,
    terms: int = 0,
    unknown: bool = False,
    code_share: float = 0.0,
    learnt: float = 1.0,
) -> float | None:
    """Return the relevance of a hit from its scores "dense" and "sparse", of which one may be missing.

    The relevance is None without a calibration or a score, and for a cosine without landmarks. Words alone decide if
    the query or the collection consists mostly of words that the model does not know: dense scores then say nothing.
    Words decide in part if the query has codes, or if the model has hardly learnt the language. A query of one term is
    a search for this word: a cosine below landmark 0 then counts as landmark 0.

    Args:
        scores: Scores of the hit.
        weight: Weight of the query's terms (``TermCounts.weight``).
        calibration: Calibration of the collection.
        terms: Number of the query's terms.
        unknown: Whether the query consists mostly of words that the model does not know.
        code_share: Share of the query's terms that are numbers or codes.
        learnt: ``share_learnt`` of the collection.
    """
    if calibration is None:
        return None
    coverage = scores["sparse"] / weight if "sparse" in scores and weight else None
    by_words = _SPARSE + _COVERAGE_ALONE * (coverage or 0.0)
    if (unknown or calibration.unknown_texts) and "sparse" in scores:
        return logistic(by_words)
    if "dense" not in scores:
        return None if coverage is None else logistic(by_words)
    if calibration.landmarks is None:
        return None
    place = calibration.place(scores["dense"])
    if coverage is None:
        return logistic(_DENSE + PLACE * place)
    if terms == 1:
        place = max(place, 0.0)
    by_both = _HYBRID + PLACE * place + COVERAGE * coverage
    by_vectors_too = (1 - code_share) * learnt
    log_odds = by_vectors_too * by_both + (1 - by_vectors_too) * by_words
    return logistic(log_odds)


def share_learnt(calibration: Calibration | None, known: Calibration | None = None) -> float:
    """Return how much a model has learnt of the language of a collection, from 0 to 1; 1 if the landmarks are unknown.

    All texts in a language that the model has not learnt are near each other. Landmark 0 of such a collection therefore
    lies above landmark 0 of ``known``, the model's own calibration. A measured share (``Calibration.learnt``) is
    returned as it is.
    """
    if calibration is not None and calibration.learnt is not None:
        return calibration.learnt
    if calibration is None or calibration.unrelated is None or known is None or known.landmarks is None:
        return 1.0
    return min(max(1 - _RISE_COUNTS * known.place(calibration.unrelated), 0.0), 1.0)


def states_calibration(encoder: object, measured: Calibration | None = None) -> Calibration | None:
    """Return the landmarks of MaxSim for the encoder's model, or None if they are not known.

    ``measured`` is the calibration of a collection. In a language that the model has not learnt, all texts are near
    each other, by their vectors and by their token states. Both landmarks of such a collection are higher.
    """
    model = _model_of(encoder)
    known, by_vectors = STATES.get(model), MODELS.get(model, Calibration()).unrelated
    if known is None or known.landmarks is None or by_vectors is None:
        return known
    if measured is None or measured.unrelated is None or measured.unrelated <= by_vectors:
        return known
    unrelated, near = known.landmarks
    higher = unrelated + _GROWTH_OF_STATES[model] * (measured.unrelated - by_vectors)
    return Calibration(unrelated=higher, near=1 - (1 - near) * (1 - higher) / (1 - unrelated))


def relevance_by_states(before: float | None, maxsim: float, known: Calibration | None) -> float | None:
    """Return the relevance of a hit after late interaction: the mean of the log-odds before it and those by MaxSim.

    ``known`` has the landmarks of MaxSim (``states_calibration``). If ``before`` or ``known`` is None, ``before`` is
    returned.
    """
    if before is None or known is None:
        return before
    least = 10**-_DIGITS
    kept = min(max(before, least), 1 - least)
    return logistic((math.log(kept / (1 - kept)) + _DENSE + PLACE * known.place(maxsim)) / 2)


def _model_of(encoder: object) -> str:
    """Return the model's name for a look-up of landmarks; "" if the encoder changes the model's settings.

    The space of an encoder without ``overrides`` is not read, because the encoder may have to call its model to compute
    the space.
    """
    name = "" if getattr(encoder, "overrides", None) else str(getattr(encoder, "name", ""))
    return known_name(name, str(getattr(encoder, "space", ""))) if hasattr(encoder, "overrides") else name


def logistic(log_odds: float) -> float:
    """Return the probability of log-odds, rounded to four digits."""
    return round(1 / (1 + math.exp(-max(-_LARGEST, min(log_odds, _LARGEST)))), _DIGITS)
