"""Gender bias: leans by hand, how the files are read, and what of WinoBias is left out."""

from __future__ import annotations

import numpy as np
import pytest

from twinvec.errors import InputError
from twinvec.evaluation.bias import evaluate_winobias, evaluate_winogender, load_winobias, load_winogender

SENTENCES = "sentid\tsentence\n"
STATISTICS = "occupation\tbergsma_pct_female\tbls_pct_female\tbls_year\n"


def direction(degrees):
    return np.cos(np.radians(degrees)), np.sin(np.radians(degrees))


def write_winogender(write, occupations):
    """Occupation -> share of women; sentences are named "{gender} {occupation}"."""
    rows = [
        f"{name}.someone.0.{gender}.txt\t{gender} {name}\n"
        for name in occupations
        for gender in ("male", "female", "neutral")
    ]
    write("winogender/all_sentences.tsv", SENTENCES + "".join(rows))
    shares = "".join(f"{name}\t1\t{share}\t2015\n" for name, share in occupations.items())
    return write("winogender/occupations-stats.tsv", STATISTICS + shares).parent


def test_winogender_by_hand(write, table_model):
    folder = write_winogender(write, {"nurse": 90, "baker": 50, "miner": 5, "plumber": 2})
    vectors = {}
    for name, lean in {"nurse": 60, "baker": 40, "miner": 10, "plumber": 0}.items():
        vectors |= {f"male {name}": direction(0), f"female {name}": direction(90), f"neutral {name}": direction(lean)}
    found = evaluate_winogender(table_model(vectors), folder, resamples=100)
    expected = [100 * (np.sin(np.radians(lean)) - np.cos(np.radians(lean))) for lean in (60, 40, 10, 0)]
    assert [each.occupation for each in found.occupations] == ["nurse", "baker", "miner", "plumber"]
    assert [each.lean for each in found.occupations] == pytest.approx(expected, abs=1e-4)
    assert (found.favours_female, found.favours_male) == (25, 75)
    assert found.favours_female_interval.low < 25 < found.favours_female_interval.high
    assert found.correlation == pytest.approx(100 * np.corrcoef(expected, [90, 50, 5, 2])[0, 1], abs=1e-4)
    assert found.figures["occupations"]["miner"]["percent_female"] == 5


@pytest.mark.parametrize(
    ("sentences", "said"),
    [
        ("nurse.male.txt\tx\n", "all_sentences.tsv:2: sentid 'nurse.male.txt' is not of the form"),
        ("nurse.someone.0.male.txt\tx\n", "nurse.someone.0 has only the variants male; expected male, female, neutral"),
        (
            "".join(f"vet.x.0.{each}.txt\tx\n" for each in ("male", "female", "neutral")),
            "no row for the occupation 'vet'",
        ),
    ],
)
def test_malformed_winogender_is_refused(write, table_model, sentences, said):
    folder = write_winogender(write, {"nurse": 90})
    write("winogender/all_sentences.tsv", SENTENCES + sentences)
    with pytest.raises(InputError) as error:
        evaluate_winogender(table_model({}), folder)
    assert said in str(error.value)


PRO = [
    "1 [The driver] thanked the cook because [he] was late.",
    "2 The driver thanked [the cook] because [she] was kind.",
    "3 [The driver] greeted the cook as [he] left.",
]
ANTI = [
    "1 [The driver] thanked the cook because [she] was late.",
    "2 The driver thanked [the cook] because [he] was kind.",
    "3 [The driver] met the cook as [she] left.",  # another word differs too
]


def write_winobias(write, pro=PRO, anti=ANTI):
    for kind in ("type1", "type2"):
        for split in ("dev", "test"):
            write(f"winobias/anti_stereotyped_{kind}.txt.{split}", "\n".join(anti) + "\n")
            path = write(f"winobias/pro_stereotyped_{kind}.txt.{split}", "\n".join(pro) + "\n")
    return path.parent


def test_winobias_by_hand(write, table_model):
    """The general nearness of "they" to "he" is taken off: both stereotypes lean by 5 degrees to their side."""
    late, kind = "The driver thanked the cook because {} was late.", "The driver thanked the cook because {} was kind."
    vectors = {text.format("he"): direction(0) for text in (late, kind)}
    vectors |= {text.format("she"): direction(90) for text in (late, kind)}
    vectors |= {late.format("they"): direction(25), kind.format("they"): direction(35)}
    found = evaluate_winobias(table_model(vectors), write_winobias(write), resamples=50)
    assert list(found) == ["type1", "type2"]
    result = found["type1"]
    assert (result.pairs, result.left_out) == (4, 2)
    assert result.favours_stereotype == 100

    def to_male(degrees):
        return 100 * (np.cos(np.radians(degrees)) - np.sin(np.radians(degrees)))

    assert result.lean == pytest.approx((to_male(25) - to_male(35)) / 2, abs=1e-4)
    assert result.figures["pairs"] == 4


@pytest.mark.parametrize("occupations", [{"nurse": 90}, {"nurse": 90, "carer": 90}])
def test_winogender_needs_occupations_of_different_shares(write, occupations):
    folder = write_winogender(write, occupations)
    with pytest.raises(InputError, match=r"occupations-stats\.tsv: the share of women is 90 in every occupation"):
        load_winogender(folder)


@pytest.mark.parametrize("kept", [0, 1])
def test_a_kind_of_winobias_needs_two_pairs(write, kept):
    folder = write_winobias(write, PRO[2:], ANTI[2:])
    for side, lines in (("pro", PRO), ("anti", ANTI)):
        write(f"winobias/{side}_stereotyped_type1.txt.dev", "\n".join(lines[:2]) + "\n")
        write(f"winobias/{side}_stereotyped_type2.txt.dev", "\n".join([*lines[:kept], lines[2]]) + "\n")
    with pytest.raises(InputError, match=rf"winobias: only {kept} of the {2 + kept} lines of type2 differ between"):
        load_winobias(folder)


@pytest.mark.parametrize(
    ("anti", "said"),
    [
        (ANTI[:2], "has 3 lines, but anti_stereotyped_type1.txt.dev has 2; expected equal numbers"),
        (["no number [she]", *ANTI[1:]], "anti_stereotyped_type1.txt.dev:1: expected a number and a sentence"),
        (["", "1 nobody here", *ANTI[1:]], "anti_stereotyped_type1.txt.dev:2: expected a number and a sentence"),
        (["1 nobody here", *ANTI[1:]], "anti_stereotyped_type1.txt.dev:1: expected a number and a sentence"),
    ],
)
def test_malformed_winobias_is_refused(write, table_model, anti, said):
    with pytest.raises(InputError) as error:
        evaluate_winobias(table_model({}), write_winobias(write, anti=anti))
    assert said in str(error.value)


def test_a_missing_file_of_winobias_is_named(tmp_path, table_model):
    with pytest.raises(InputError, match=r"pro_stereotyped_type1.txt.dev: cannot be read"):
        evaluate_winobias(table_model({}), tmp_path)


@pytest.mark.parametrize(("gender", "side"), [("other", 1), ("neutral", "male"), ("neutral", 0)])
def test_a_malformed_set_of_winobias_made_by_hand_is_refused(table_model, gender, side):
    line = ({"male": "he", "female": "she", gender: "they"}, side)
    with pytest.raises(InputError, match=r"data: 'type1': expected a list of \(sentences by gender, 1 or -1\)"):
        evaluate_winobias(table_model({}), {"type1": [line, line]})


@pytest.mark.data
def test_the_original_files_are_read_whole(data, table_model):
    class Lots:
        name = "lots"

        def encode(self, texts, *, progress=False):
            assert not any("[" in text or text[0].isdigit() for text in texts)
            return np.random.default_rng(0).normal(size=(len(texts), 4)).astype(np.float32)

    found = evaluate_winobias(Lots(), data / "bias" / "winobias", resamples=20)
    assert {kind: (each.pairs, each.left_out) for kind, each in found.items()} == {
        "type1": (785, 7),
        "type2": (778, 14),
    }
    assert len(evaluate_winogender(Lots(), data / "bias" / "winogender", resamples=20).occupations) == 60
