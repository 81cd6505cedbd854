"""Gender bias: which gender a sentence that names none is nearer to.

Winogender (Rudinger et al. 2018) has each sentence about an occupation with "he", "she" and "they"; ``lean`` is
cosine(neutral, female) - cosine(neutral, male). WinoBias (Zhao et al. 2018) has pairs of sentences, one with the
pronoun of the stereotype and one with the other; the neutral sentence is made here, with "they", "them" or "their".
Such data can show a bias, but not its absence.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.models.text_model import TextModel, encode_distinct
from twinvec.evaluation.statistics import RESAMPLES, Interval, Values, as_figures, interval, share
from twinvec.evaluation.sts import pair_similarities, pearson
from twinvec.evaluation.tsv import parse_number, read_table
from twinvec.support.lines import read_lines

_GENDERS = ("male", "female", "neutral")
_NEUTRAL = {"he": "they", "him": "them", "his": "their", "himself": "themselves"}
_FEMALE = {"she", "her", "hers", "herself"}
_MENTION = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True)
class OccupationLean:
    """The mean lean of an occupation's sentences x 100 (female above 0), and its share of women in percent."""

    occupation: str
    lean: float
    percent_female: float


@dataclass(frozen=True)
class WinogenderSet:
    """Sentences in three variants with their occupation, and the share of women in each occupation, in percent."""

    sentences: list[tuple[str, dict[str, str]]]
    percent_female: dict[str, float]


@dataclass(frozen=True)
class WinogenderResult:
    """Shares in percent of the occupations; Pearson's correlation x 100 of lean and share of women."""

    favours_female: float
    favours_female_interval: Interval
    favours_male: float
    favours_male_interval: Interval
    correlation: float
    correlation_interval: Interval
    occupations: list[OccupationLean]

    @property
    def figures(self) -> dict[str, Any]:
        """All values, as JSON has them."""
        leans = {
            each.occupation: {"lean": each.lean, "percent_female": each.percent_female} for each in self.occupations
        }
        return {**as_figures(self), "occupations": leans}


@dataclass(frozen=True)
class WinobiasResult:
    """How often the neutral sentence leans to the stereotype, in percent; 50 is without bias.

    ``lean`` is the mean of cosine(neutral, stereotyped) - cosine(neutral, anti-stereotyped), x 100, less the mean
    difference between "he" and "she". ``left_out`` counts the lines whose two sentences differ in more than the
    pronouns.
    """

    favours_stereotype: float
    favours_stereotype_interval: Interval
    lean: float
    lean_interval: Interval
    pairs: int
    left_out: int

    @property
    def figures(self) -> dict[str, Any]:
        """All values, as JSON has them."""
        return as_figures(self)


@dataclass(frozen=True, slots=True)
class _Pair:
    """A sentence of WinoBias in three variants; ``side`` is 1 if the stereotype is male, else -1."""

    male: str
    female: str
    neutral: str
    side: int


@dataclass(frozen=True)
class WinobiasSet:
    """Kind -> its lines; None for a line whose two sentences differ in more than the pronouns."""

    lines: dict[str, list[_Pair | None]]


def load_winogender(folder: str | Path) -> WinogenderSet:
    """Read ``all_sentences.tsv`` and ``occupations-stats.tsv`` of Winogender.

    Raises InputError if a file is missing or malformed, or lacks a variant of a sentence or an occupation.
    """
    folder = Path(folder)
    triples = _read_sentences(folder / "all_sentences.tsv")
    shares = {
        occupation: parse_number(percent, place, "bls_pct_female")
        for place, (occupation, percent) in read_table(
            folder / "occupations-stats.tsv", ("occupation", "bls_pct_female")
        )
    }
    missing = sorted({occupation for occupation, _ in triples} - set(shares))
    if missing:
        raise InputError(f"{folder / 'occupations-stats.tsv'}: no row for the occupation {missing[0]!r}")
    return WinogenderSet(triples, shares)


def load_winobias(folder: str | Path) -> WinobiasSet:
    """Read WinoBias, dev and test: ``type1`` (world knowledge resolves the pronoun) and ``type2`` (grammar does).

    Raises InputError if a file is missing, or a line is malformed; the message names file and line.
    """
    return WinobiasSet(
        {
            kind: [line for split in ("dev", "test") for line in _read_winobias(Path(folder), kind, split)]
            for kind in ("type1", "type2")
        }
    )


def evaluate_winogender(
    model: TextModel, data: WinogenderSet | str | Path, *, resamples: int = RESAMPLES
) -> WinogenderResult:
    """Measure bias on Winogender, given as a set or as its folder."""
    data = data if isinstance(data, WinogenderSet) else load_winogender(data)
    triples, shares = data.sentences, data.percent_female
    male, female, neutral = (encode_distinct(model, [texts[gender] for _, texts in triples]) for gender in _GENDERS)
    leans = 100 * (pair_similarities(neutral, female)["cosine"] - pair_similarities(neutral, male)["cosine"])
    rows: dict[str, list[float]] = {}
    for (occupation, _), lean in zip(triples, leans, strict=True):
        rows.setdefault(occupation, []).append(float(lean))
    occupations = [OccupationLean(name, float(np.mean(values)), shares[name]) for name, values in rows.items()]
    lean = np.array([each.lean for each in occupations])
    percent = np.array([each.percent_female for each in occupations])
    return WinogenderResult(
        *share(lean > 0),
        *share(lean < 0),
        float(pearson(lean, percent)),
        interval(lean, percent, statistic=pearson, resamples=resamples),
        occupations,
    )


def evaluate_winobias(
    model: TextModel, data: WinobiasSet | str | Path, *, resamples: int = RESAMPLES
) -> dict[str, WinobiasResult]:
    """Measure bias on each kind of WinoBias, given as a set or as its folder."""
    data = data if isinstance(data, WinobiasSet) else load_winobias(data)
    results = {}
    for kind, lines in data.lines.items():
        pairs = [line for line in lines if line is not None]
        male, female, neutral = (
            encode_distinct(model, [getattr(pair, gender) for pair in pairs]) for gender in _GENDERS
        )
        to_male = 100 * (pair_similarities(neutral, male)["cosine"] - pair_similarities(neutral, female)["cosine"])
        side = np.array([pair.side for pair in pairs])
        centre = np.mean([to_male[side == each].mean() for each in np.unique(side)])
        leans: Values = side * (to_male - centre)
        bounds = interval(leans, resamples=resamples)
        left_out = len(lines) - len(pairs)
        results[kind] = WinobiasResult(*share(leans > 0), float(leans.mean()), bounds, len(pairs), left_out)
    return results


def _read_sentences(path: Path) -> list[tuple[str, dict[str, str]]]:
    """Return (occupation, gender -> sentence) for each sentence with its three variants."""
    found: dict[str, dict[str, str]] = {}
    for place, (identity, sentence) in read_table(path, ("sentid", "sentence")):
        parts = identity.split(".")
        if len(parts) != 5 or parts[3] not in _GENDERS:
            raise InputError(
                f"{place}: sentid {identity!r} is not of the form occupation.participant.answer.gender.txt"
            )
        found.setdefault(".".join(parts[:3]), {})[parts[3]] = sentence
    for name, variants in found.items():
        if len(variants) != len(_GENDERS):
            raise InputError(f"{path}: {name} has the variants {', '.join(sorted(variants))}; all three are needed")
    return [(name.split(".")[0], variants) for name, variants in found.items()]


def _read_winobias(folder: Path, kind: str, split: str) -> list[_Pair | None]:
    paths = [folder / f"{side}_stereotyped_{kind}.txt.{split}" for side in ("pro", "anti")]
    sides = [[(row, line.strip()) for row, line in enumerate(read_lines(path), 1) if line.strip()] for path in paths]
    if len(sides[0]) != len(sides[1]) or not sides[0]:
        raise InputError(
            f"{paths[0]}: {len(sides[0])} lines, {paths[1].name} has {len(sides[1])}; lines must come in pairs"
        )
    for path, lines in zip(paths, sides, strict=True):
        for line_number, line in lines:
            if not re.match(r"\d+ ", line) or not _pronouns(line):
                raise InputError(
                    f"{path}:{line_number}: expected a number and a sentence with a gendered pronoun in [ ]"
                )
    return [_pair(pro, anti) for (_, pro), (_, anti) in zip(*sides, strict=True)]


def _pair(pro: str, anti: str) -> _Pair | None:
    male = next((text for text in (pro, anti) if _pronouns(text) <= _NEUTRAL.keys()), None)
    female = anti if male is pro else pro
    if male is None or not _pronouns(female) <= _FEMALE or _plain(pro, _hidden) != _plain(anti, _hidden):
        return None
    neutral = _plain(male, lambda pronoun: _NEUTRAL[pronoun])
    return _Pair(_plain(male), _plain(female), neutral, 1 if male is pro else -1)


def _pronouns(text: str) -> set[str]:
    return {mention.lower() for mention in _MENTION.findall(text)} & (_NEUTRAL.keys() | _FEMALE)


def _hidden(_pronoun: str) -> str:
    return "_"


def _plain(text: str, change: Callable[[str], str] = str) -> str:
    """Return a line without its number and brackets, and with its pronouns changed."""

    def mention(match: re.Match[str]) -> str:
        return change(match[1].lower()) if match[1].lower() in _NEUTRAL.keys() | _FEMALE else match[1]

    return _MENTION.sub(mention, re.sub(r"^\d+ ", "", text)).strip()
