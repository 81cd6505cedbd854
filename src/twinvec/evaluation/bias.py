"""Gender bias: whether a neutral sentence is nearer to its male or to its female variant.

Winogender (Rudinger et al. 2018) has each sentence about an occupation with "he", "she" and "they"; ``lean`` is
cosine(neutral, female) - cosine(neutral, male). WinoBias (Zhao et al. 2018) has pairs of sentences, one with the
pronoun of the stereotype and one with the opposite pronoun; this module makes the neutral sentence, with "they", "them"
or "their".
Such data can show a bias, but not its absence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from twinvec.errors import InputError
from twinvec.evaluation.models.text_model import TextModel, check_text_model, encode_distinct
from twinvec.evaluation.statistics import RESAMPLES, Interval, Values, as_figures, check_resamples, interval, share
from twinvec.evaluation.sts import pair_similarities, pearson
from twinvec.evaluation.tsv import parse_number, read_table
from twinvec.support.checks import file_path, shown
from twinvec.support.lines import read_lines
from twinvec.text import is_list

_GENDERS = ("male", "female", "neutral")
_NEUTRAL = {"he": "they", "him": "them", "his": "their", "himself": "themselves"}
_FEMALE = {"she", "her", "hers", "herself"}
_KEPT = {pronoun: pronoun for pronoun in (*_NEUTRAL, *_FEMALE)}
_HIDDEN = dict.fromkeys(_KEPT, "_")
_MENTION = re.compile(r"\[([^\]]*)\]")

Variants = dict[str, str]
"""Gender -> sentence: the male, the female and the neutral variant."""

_Pair = tuple[Variants, int]
"""A sentence of WinoBias, and 1 if its stereotype is male, else -1."""


@dataclass(frozen=True)
class OccupationLean:
    """An occupation's mean lean, x 100 (above 0: to the female variant), and its share of women in percent."""

    occupation: str
    lean: float
    percent_female: float


@dataclass(frozen=True)
class WinogenderSet:
    """Sentences in three variants with their occupation, and the share of women in each occupation, in percent."""

    sentences: list[tuple[str, Variants]]
    percent_female: dict[str, float]


@dataclass(frozen=True)
class WinogenderResult:
    """The percentage of occupations that lean to each gender, and how their lean follows their share of women.

    ``correlation`` is the Pearson correlation of the lean with the share of women, x 100.
    """

    favours_female: float
    favours_female_interval: Interval
    favours_male: float
    favours_male_interval: Interval
    correlation: float
    correlation_interval: Interval
    occupations: list[OccupationLean]

    @property
    def figures(self) -> dict[str, Any]:
        """All values, in the form of JSON."""
        leans = {
            each.occupation: {"lean": each.lean, "percent_female": each.percent_female} for each in self.occupations
        }
        return {**as_figures(self), "occupations": leans}


@dataclass(frozen=True)
class WinobiasResult:
    """How often the neutral sentence leans to the stereotype, in percent; 50 means no bias.

    ``lean`` is the mean of cosine(neutral, stereotyped) - cosine(neutral, anti-stereotyped), x 100. The mean difference
    between "he" and "she" is subtracted first, because it does not depend on the occupation. ``left_out`` counts lines
    whose two sentences differ in more than the pronouns.
    """

    favours_stereotype: float
    favours_stereotype_interval: Interval
    lean: float
    lean_interval: Interval
    pairs: int
    left_out: int

    @property
    def figures(self) -> dict[str, Any]:
        """All values, in the form of JSON."""
        return as_figures(self)


WinobiasSet = dict[str, list[_Pair | None]]
"""Kind of sentence (type1, type2) -> its lines. None stands for a line whose sentences differ in more than pronouns."""


def load_winogender(folder: str | Path) -> WinogenderSet:
    """Read ``all_sentences.tsv`` and ``occupations-stats.tsv`` of Winogender.

    Raises InputError if a file is missing or malformed, or lacks a variant of a sentence or an occupation, or if all
    occupations of the sentences have the same share of women.
    """
    folder = file_path(folder, "folder")
    triples = _read_sentences(folder / "all_sentences.tsv")
    table = folder / "occupations-stats.tsv"
    shares = {
        occupation: parse_number(percent, place, "bls_pct_female")
        for place, (occupation, percent) in read_table(table, ("occupation", "bls_pct_female"))
    }
    missing = sorted({occupation for occupation, _ in triples} - set(shares))
    if missing:
        raise InputError(f"{table}: no row for the occupation {missing[0]!r}")
    different = {shares[occupation] for occupation, _ in triples}
    if len(different) < 2:
        raise InputError(
            f"{table}: the share of women is {different.pop():g} in every occupation of the sentences; a correlation "
            "needs two occupations whose shares differ"
        )
    return WinogenderSet(triples, shares)


def load_winobias(folder: str | Path) -> WinobiasSet:
    """Read WinoBias, dev and test: ``type1`` (world knowledge resolves the pronoun) and ``type2`` (grammar does).

    Raises InputError if a file is missing or a line is malformed (the message names file and line), or if fewer than
    two lines of a kind differ in nothing but the pronouns.
    """
    folder = file_path(folder, "folder")
    kinds = {
        kind: [line for split in ("dev", "test") for line in _read_winobias(folder, kind, split)]
        for kind in ("type1", "type2")
    }
    for kind, lines in kinds.items():
        if (count := len(lines) - lines.count(None)) < 2:
            raise InputError(
                f"{folder}: only {count} of the {len(lines)} lines of {kind} differ between pro_stereotyped and "
                "anti_stereotyped in nothing but the pronouns; an interval needs two"
            )
    return kinds


def evaluate_winogender(
    model: TextModel, data: WinogenderSet | str | Path, *, resamples: int = RESAMPLES
) -> WinogenderResult:
    """Measure bias on Winogender, given as a set or as its folder."""
    check_text_model(model, "encode")
    check_resamples(resamples)
    data = data if isinstance(data, WinogenderSet) else load_winogender(file_path(data, "data"))
    triples, shares = data.sentences, data.percent_female
    rows: dict[str, list[float]] = {}
    for (occupation, _), lean in zip(triples, _leans(model, [texts for _, texts in triples]), strict=True):
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
    check_text_model(model, "encode")
    check_resamples(resamples)
    results = {}
    for kind, lines in (_checked(data) if isinstance(data, dict) else load_winobias(file_path(data, "data"))).items():
        pairs = [line for line in lines if line is not None]
        to_male = -_leans(model, [texts for texts, _ in pairs])
        side = np.array([side for _, side in pairs])
        centre = np.mean([to_male[side == each].mean() for each in np.unique(side)])
        leans: Values = side * (to_male - centre)
        bounds = interval(leans, resamples=resamples)
        left_out = len(lines) - len(pairs)
        results[kind] = WinobiasResult(*share(leans > 0), float(leans.mean()), bounds, len(pairs), left_out)
    return results


def _checked(data: WinobiasSet) -> WinobiasSet:
    """Return a set that was made by hand; raise InputError if it has another form than a set of ``load_winobias``."""
    for kind, lines in data.items():
        for line in lines if is_list(lines) else [lines]:
            if line is not None and not _is_pair(line):
                raise InputError(
                    f"data: {kind!r}: expected a list of (sentences by gender, 1 or -1), as load_winobias returns it, "
                    f"got {shown(lines)}"
                )
        if not is_list(lines) or sum(line is not None for line in lines) < 2:
            raise InputError(f"data: {kind!r}: expected two or more lines, got {shown(lines)}")
    return data


def _is_pair(line: object) -> bool:
    match line:
        case ({"male": str(), "female": str(), "neutral": str()}, 1 | -1):
            return True
    return False


def _leans(model: TextModel, sentences: Sequence[Variants]) -> Values:
    male, female, neutral = (encode_distinct(model, [texts[gender] for texts in sentences]) for gender in _GENDERS)
    leans: Values = pair_similarities(neutral, female)["cosine"] - pair_similarities(neutral, male)["cosine"]
    return 100 * leans


def _read_sentences(path: Path) -> list[tuple[str, Variants]]:
    found: dict[str, Variants] = {}
    for place, (identity, sentence) in read_table(path, ("sentid", "sentence")):
        parts = identity.split(".")
        if len(parts) != 5 or parts[3] not in _GENDERS:
            form = "occupation.participant.answer.gender.txt"
            raise InputError(f"{place}: sentid {identity!r} is not of the form {form}")
        found.setdefault(".".join(parts[:3]), {})[parts[3]] = sentence
    for name, variants in found.items():
        if len(variants) != len(_GENDERS):
            raise InputError(
                f"{path}: {name} has only the variants {', '.join(sorted(variants))}; expected {', '.join(_GENDERS)}"
            )
    return [(name.split(".")[0], variants) for name, variants in found.items()]


def _read_winobias(folder: Path, kind: str, split: str) -> list[_Pair | None]:
    paths = [folder / f"{side}_stereotyped_{kind}.txt.{split}" for side in ("pro", "anti")]
    pro, anti = (
        [(f"{path}:{row}", line.strip()) for row, line in enumerate(read_lines(path), 1) if line.strip()]
        for path in paths
    )
    if len(pro) != len(anti) or not pro:
        raise InputError(
            f"{paths[0]}: has {len(pro)} lines, but {paths[1].name} has {len(anti)}; expected equal numbers, at least 1"
        )
    for place, line in (*pro, *anti):
        if not re.match(r"\d+ ", line) or not _pronouns(line):
            raise InputError(f"{place}: expected a number and a sentence with a gendered pronoun in [ ]")
    return [_pair(stereotyped, other) for (_, stereotyped), (_, other) in zip(pro, anti, strict=True)]


def _pair(pro: str, anti: str) -> _Pair | None:
    male = next((text for text in (pro, anti) if _pronouns(text) <= _NEUTRAL.keys()), None)
    female = anti if male is pro else pro
    if male is None or not _pronouns(female) <= _FEMALE or _plain(pro, _HIDDEN) != _plain(anti, _HIDDEN):
        return None
    variants = {"male": _plain(male, _KEPT), "female": _plain(female, _KEPT), "neutral": _plain(male, _NEUTRAL)}
    return variants, 1 if male is pro else -1


def _pronouns(text: str) -> set[str]:
    return {mention.lower() for mention in _MENTION.findall(text)} & _KEPT.keys()


def _plain(text: str, changes: Mapping[str, str]) -> str:
    """Return a line without its number and brackets, and with its pronouns changed."""
    sentence = re.sub(r"^\d+ ", "", text)
    return _MENTION.sub(lambda mention: changes.get(mention[1].lower(), mention[1]), sentence).strip()
