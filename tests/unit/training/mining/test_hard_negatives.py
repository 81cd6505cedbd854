"""Hard negatives: by rank, by margin, denied by a cross-encoder, and a run that goes on where it was cut off."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from small_disks import largest_file
from twinvec import CrossEncoderReranker, Encoder, Hit, MemoryIndex
from twinvec.errors import ConfigurationError, InputError
from twinvec.support.locks import exclusive_lock
from twinvec.training.mining import hard_negatives, known_positives
from twinvec.training.mining.dense_index import DenseIndex
from twinvec.training.mining.hard_negatives import (
    MiningJob,
    MiningOptions,
    ProbabilityScorer,
    mine_file,
    mine_negatives,
)
from twinvec.training.mining.known_positives import KnownPositives, contains_either_way
from twinvec.training.mining.pair_file import PairFile

PAIRS = [
    ("how do I list files", "ls lists files"),
    ("how do I list files", "LS  lists  files"),
    ("how do I list files", "find lists files in all folders"),
    ("how do I copy files", "cp copies files"),
    ("how do I remove files", "rm removes files"),
    ("what is the weather", "rain is expected in the north"),
    ("rm removes files", "what rm does"),
]


class Fixed:
    """A retriever that finds the same texts for every query; scores fall by 0.1 from 1."""

    def __init__(self, *texts):
        self.texts = texts
        self.asked = []

    def search(self, query, limit=10, filter=None):
        self.asked.append(query)
        return [Hit(str(n), text, 1 - n / 10) for n, text in enumerate(self.texts)][:limit]


def mined(pairs, retriever, **options):
    return [
        each.negatives for each in mine_negatives(pairs, retriever, KnownPositives(PAIRS), MiningOptions(**options))
    ]


def test_positives_of_any_pair_and_the_anchor_itself_are_no_negatives():
    found = Fixed("ls  LISTS files", "cp copies files", "find lists files in all folders", "How do I list files", "x")
    assert mined(PAIRS[:1], found) == [["cp copies files", "x"]]


def test_ranks_count_after_the_positives_are_taken_out():
    found = Fixed("ls lists files", "a", "b", "find lists files in all folders", "c", "d", "e")
    assert mined(PAIRS[:1], found, first_rank=2, last_rank=4) == [["b", "c", "d"]]
    assert mined(PAIRS[:1], found, first_rank=2, last_rank=4, negatives=1) == [["b"]]


def test_a_positive_that_is_not_the_best_chunk_of_its_document_is_looked_up_among_all_chunks():
    asked = []

    def find_chunks(queries, limit):
        asked.append(queries)
        return [Fixed("x", "cp copies files", "y", "z").search(query, limit) for query in queries]

    pairs = [("how do I list files", "ls lists files"), ("how do I copy files", "cp copies files")]
    found = Fixed("ls lists files", "x", "y", "z")  # 1.0, 0.9, 0.8, 0.7; the second positive has 0.9 among the chunks
    both = list(
        mine_negatives(pairs, found, KnownPositives(PAIRS), MiningOptions(margin=0.15), find_chunks=find_chunks)
    )
    assert [each.negatives for each in both] == [["y", "z"], ["z"]]
    assert [each.found for each in both] == [True, True]
    assert asked == [["how do I copy files"]]
    alone = list(mine_negatives(pairs, found, KnownPositives(PAIRS), MiningOptions(margin=0.15)))
    assert [each.found for each in alone] == [True, False]


def test_the_same_text_is_taken_once():
    assert mined(PAIRS[:1], Fixed("a", "b", "a")) == [["a", "b"]]


def test_a_margin_below_the_positive():
    found = Fixed("a", "ls lists files", "b", "c", "d")  # 1.0, 0.9, 0.8, 0.7, 0.6
    assert mined(PAIRS[:1], found, margin=0.15) == [["c", "d"]]
    assert mined(PAIRS[:1], found, margin=-0.2) == [["a", "b", "c", "d"]]
    assert mined(PAIRS[:1], Fixed("a", "b"), margin=0.1) == [[]], "its positive is not among the hits"


def test_a_margin_is_one_of_cosines_where_hits_have_them():
    class Fusing(Fixed):
        def search(self, query, limit=10, filter=None):
            hits = super().search(query, limit)
            return [replace(hit, score=9 - 5 * n, scores={"dense": hit.score}) for n, hit in enumerate(hits)]

    found = Fusing("a", "ls lists files", "b", "c", "d")  # cosines 1.0, 0.9, 0.8, 0.7, 0.6; fused 9, 4, -1, -6, -11
    assert mined(PAIRS[:1], found, margin=0.15) == [["c", "d"]]
    assert mined(PAIRS[:1], found, margin=-0.2) == [["a", "b", "c", "d"]]


GUIDE = "Copying. cp copies files and keeps their names. With -r it copies folders too."
COPYING = [("how do I copy files", GUIDE), ("how do I copy files", "tar"), ("how do I list files", "ls")]


@pytest.mark.parametrize(
    "text",
    [
        "cp copies files and keeps their names.",
        "CP  copies files and\nkeeps their names.",
        f"Manual of the shell. {GUIDE} It is old.",
        "tar packs files",
        "copying",
    ],
)
def test_a_part_of_a_positive_or_what_holds_one_is_no_negative(text):
    [found] = mine_negatives(COPYING[:1], Fixed(text, "x"), KnownPositives(COPYING))
    assert found.negatives == ["x"]
    assert mined([("how do I list files", "ls")], Fixed(text, "x")) == [[text, "x"]], "for another anchor it is one"


def test_a_short_text_within_a_word_is_another_text():
    [found] = mine_negatives(COPYING[:1], Fixed("opying", "a star", "il"), KnownPositives(COPYING))
    assert found.negatives == ["opying", "a star", "il"]


def test_a_chunk_is_judged_without_its_heading():
    hits = [Hit("1", "Shell > Files\n\nWith -r it copies folders too.", 1.0, payload={"heading": "Shell > Files"})]
    hits.append(Hit("2", "Shell > Files\n\nmv moves.", 0.9, payload={"heading": "Shell > Files"}))
    [found] = mine_negatives(COPYING[:1], Found(hits), KnownPositives(COPYING))
    assert found.negatives == ["mv moves."], "a positive without a heading has negatives without one"
    assert found.found


def test_the_negatives_of_a_chunk_with_its_heading_have_theirs():
    hits = [Hit(text, text, 1.0, payload={"heading": "Shell > Files"}) for text in ("ls lists.", *HEADED)]
    pairs = [("how do I copy", HEADED[0]), ("how do I copy", "cp copies.")]
    found = mine_negatives(pairs, Found(hits), KnownPositives(pairs))
    assert [each.negatives for each in found] == [["ls lists.", HEADED[1]], ["ls lists.", "mv moves."]]


HEADED = ["Shell > Files\n\ncp copies.", "Shell > Files\n\nmv moves."]


class Found(Fixed):
    """Finds the given hits."""

    def search(self, query, limit=10, filter=None):
        return self.texts[0][:limit]


def test_a_margin_counts_from_the_best_part_of_the_positive_or_from_the_whole():
    part, other = "cp copies files and keeps their names.", "With -r it copies folders too."
    apart = Fixed("a", part, "b", other, "c")  # 1.0, 0.9, 0.8, 0.7, 0.6
    [found] = mine_negatives(COPYING[:1], apart, KnownPositives(COPYING), MiningOptions(margin=0.15))
    assert (found.negatives, found.found) == (["c"], True)
    whole = Fixed(part, "a", GUIDE, "b", "c")
    [found] = mine_negatives(COPYING[:1], whole, KnownPositives(COPYING), MiningOptions(margin=0.15))
    assert (found.negatives, found.found) == (["c"], True)
    [found] = mine_negatives(COPYING[1:2], apart, KnownPositives(COPYING), MiningOptions(margin=0.15))
    assert (found.negatives, found.found) == ([], False), "a part of another positive of the anchor"


def test_each_anchor_is_searched_once():
    found = Fixed("a")
    assert len(mined(PAIRS, found)) == len(PAIRS)
    assert sorted(found.asked) == sorted({anchor for anchor, _ in PAIRS})


def test_the_positives_of_an_anchor_are_not_compared_with_each_other(monkeypatch):
    """10,000 positives of one anchor would need 100 million comparisons in each window."""
    pairs = [("anchor", f"positive {row} of the anchor") for row in range(200)]
    others = [f"another text {row}" for row in range(20)]
    compared = []

    def counted(variants, positive):
        compared.append(variants)
        return contains_either_way(variants, positive)

    for module in (known_positives, hard_negatives):
        monkeypatch.setattr(module, "contains_either_way", counted)
    found = Fixed(*(positive for _, positive in pairs), *others)
    mined = list(mine_negatives(pairs, found, KnownPositives(pairs), MiningOptions(negatives=20)))
    assert [each.negatives for each in mined] == [others] * len(pairs)
    assert len(compared) == len(others) * len(pairs)


def test_arguments_of_another_type_are_named(source, tmp_path):
    for value in (5, "x", None, [1], Fixed):
        with pytest.raises(ConfigurationError, match="retriever: expected a retriever, such as"):
            mine_file(MiningJob(source, tmp_path / "mined.jsonl"), value)
        with pytest.raises(ConfigurationError, match=r"job: expected MiningJob\(...\), got"):
            mine_file(value, Fixed())
        with pytest.raises(ConfigurationError, match=r"known: expected KnownPositives\(...\), got"):
            next(mine_negatives(PAIRS, Fixed(), value))
        if value is not None:
            with pytest.raises(ConfigurationError, match="find_chunks: expected a function, got"):
                next(mine_negatives(PAIRS, Fixed(), KnownPositives(PAIRS), find_chunks=value))


def test_a_cross_encoder_strikes_out_what_it_believes(tiny_cross_encoder):
    scorer = CrossEncoderReranker(tiny_cross_encoder("bert"))
    texts = ["cp copies files", "rm removes files", "rain is expected in the north"]
    scores = scorer.score([(PAIRS[0][0], text) for text in texts]).tolist()
    limit = sorted(scores)[1]
    kept = [text for text, score in zip(texts, scores, strict=True) if score <= limit]
    options = MiningOptions(denoise_above=limit)
    [found] = mine_negatives(PAIRS[:1], Fixed(*texts), KnownPositives(PAIRS), options, scorer=scorer)
    assert found.negatives == kept
    assert 0 < len(kept) < 3


def test_a_memory_index_will_do(tiny_model):
    index = MemoryIndex(Encoder(tiny_model("bert")), [positive for _, positive in PAIRS])
    [texts] = mined(PAIRS[3:4], index, last_rank=3)
    assert len(texts) == 3
    assert "cp copies files" not in texts


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"negatives": 0}, "negatives must be at least 1, got 0"),
        ({"first_rank": 0}, "first_rank <= last_rank, got first_rank 0 and last_rank 50"),
        ({"first_rank": 5, "last_rank": 4}, "first_rank <= last_rank, got first_rank 5 and last_rank 4"),
        ({"first_rank": "1"}, "first_rank must be a whole number, got '1'"),
        ({"last_rank": None}, "last_rank must be a whole number, got None"),
        ({"margin": float("nan")}, "margin must be a finite number, got nan"),
        ({"margin": "0.1"}, "margin must be a number, got '0.1'"),
        ({"denoise_above": None}, "denoise_above must be a number, got None"),
        ({"denoise_above": float("inf")}, "denoise_above must be a finite number, got inf"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    with pytest.raises(ConfigurationError, match=message):
        MiningOptions(**options)


def test_a_cross_encoder_that_gives_logits_denoises_by_probabilities(tiny_cross_encoder):
    pairs = [(anchor, text) for anchor, _ in PAIRS[2:5] for _, text in PAIRS]
    logits = CrossEncoderReranker(tiny_cross_encoder("bert", activation_fn=torch.nn.Identity())).score(pairs)
    expected = torch.from_numpy(logits).sigmoid().tolist()
    assert logits.min() < 0
    for options in ({"activation_fn": torch.nn.Identity()}, {}):
        found = ProbabilityScorer(str(tiny_cross_encoder("bert", **options))).score(pairs)
        assert found.tolist() == pytest.approx(expected, abs=1e-5)


def test_a_cross_encoder_that_gives_probabilities_has_logits_too(tiny_cross_encoder):
    pairs = [(anchor, text) for anchor, _ in PAIRS[2:5] for _, text in PAIRS]
    expected = CrossEncoderReranker(tiny_cross_encoder("bert", activation_fn=torch.nn.Identity())).score(pairs)
    for options in ({"activation_fn": torch.nn.Identity()}, {}):
        model = str(tiny_cross_encoder("bert", **options))
        assert CrossEncoderReranker(model).logits(pairs).tolist() == pytest.approx(expected.tolist(), abs=1e-5)
        assert ProbabilityScorer(model).logits(pairs).tolist() == pytest.approx(expected.tolist(), abs=1e-5)


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"anchor": a, "positive": p, "more": 1}) + "\n" for a, p in PAIRS))
    return path


def test_rows_are_written_with_their_negatives(source, tmp_path):
    report = mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Fixed("cp copies files", "x"))
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [(row["anchor"], row["positive"]) for row in rows] == PAIRS
    assert rows[0]["negatives"] == ["cp copies files", "x"]
    assert rows[3]["negatives"] == ["x"]
    assert (report.rows, report.negatives, report.without, report.unfound) == (7, 13, 0, 6)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl", "rows.jsonl"]


def test_other_fields_of_a_row_stay(tmp_path):
    rows = [
        {"id": 7, "anchor": "a", "positive": "b", "negatives": ["old"], "more": {"x": [1.5, None]}, "name": "Łódź"},
        {"anchor": "c", "positive": "d", "broken": "\ud800"},
    ]
    source, output = tmp_path / "pairs.jsonl", tmp_path / "rows.jsonl"
    source.write_text("\n\n".join(map(json.dumps, rows)) + "\n\n")
    mine_file(MiningJob(source, output), Fixed("x"))
    found = [json.loads(line) for line in output.read_text().splitlines()]
    assert found == [row | {"negatives": ["x"]} for row in rows]
    assert "Łódź" in output.read_text()


def test_the_pairs_are_not_overwritten(source, tmp_path):
    before = source.read_bytes()
    (tmp_path / "soft.jsonl").symlink_to(source)
    (tmp_path / "hard.jsonl").hardlink_to(source)
    (tmp_path / "rows.jsonl.partial").hardlink_to(source)
    for name in ("pairs.jsonl", "soft.jsonl", "hard.jsonl", "rows.jsonl"):
        with pytest.raises(ConfigurationError, match=r"would overwrite the input .*; name another file"):
            mine_file(MiningJob(source, tmp_path / name), Fixed("x"))
    assert source.read_bytes() == before


def test_a_finished_output_is_not_overwritten(source, tmp_path):
    """As ``questions`` keeps its own: the rows may have cost hours, or may have been edited."""
    output, found = tmp_path / "rows.jsonl", Fixed("x")
    output.write_text("edited\n")
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl: exists already; remove it, or name another"):
        mine_file(MiningJob(source, output), found)
    assert not found.asked
    assert output.read_text() == "edited\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl", "rows.jsonl"]


def test_a_run_that_was_killed_when_its_output_was_complete_ends_at_the_next_call(source, tmp_path, monkeypatch):
    output, unlink = tmp_path / "rows.jsonl", Path.unlink

    def die_at_partial(path, *options, **named):
        if path.suffix == ".partial":
            raise RuntimeError("killed")
        return unlink(path, *options, **named)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", die_at_partial)
        with pytest.raises(RuntimeError, match="killed"):
            mine_file(MiningJob(source, output), Fixed("x"))
    first = output.read_bytes()
    assert mine_file(MiningJob(source, output), Fixed("x")).rows == len(PAIRS)
    assert output.read_bytes() == first
    assert sorted(path.name for path in tmp_path.iterdir()) == ["pairs.jsonl", "rows.jsonl"]


def test_an_output_that_cannot_be_is_refused_before_any_work(source, tmp_path):
    found = Fixed("x")
    for output, message in (
        (tmp_path, "is a folder"),
        (Path(), "is a folder"),
        (Path("/dev/null"), "is a device"),
        (source / "rows.jsonl", "the folder cannot be made"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            mine_file(MiningJob(source, output), found)
    assert not found.asked
    mine_file(MiningJob(source, tmp_path / "new" / "folder" / "rows.jsonl"), found)
    assert found.asked


def test_two_runs_do_not_write_the_same_file(source, tmp_path, tiny_model):
    class Second(Fixed):
        """Begins another run while the first one searches."""

        def search(self, query, limit=10, filter=None):
            with pytest.raises(ConfigurationError, match=r"rows\.jsonl: another process is mining into it"):
                mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Fixed("a"))
            return super().search(query, limit, filter)

    assert mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Second("a")).rows == len(PAIRS)
    assert not (tmp_path / "rows.jsonl.lock").exists()
    with (
        exclusive_lock(tmp_path / "vectors.lock", ""),
        pytest.raises(ConfigurationError, match=r"vectors\.npy: another process is encoding into it"),
    ):
        DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")


def test_a_margin_that_cannot_be_kept_is_told(source, tmp_path, caplog):
    report = mine_file(
        MiningJob(source, tmp_path / "1.jsonl", MiningOptions(margin=0.1)), Fixed("cp copies files", "x")
    )
    assert (report.rows, report.without, report.unfound) == (7, 6, 6)
    assert "6 of 7 rows have no negatives, because their positive was not among the hits" in caplog.text
    assert "(--last-rank), mine without a margin, or search a collection that holds" in caplog.text
    caplog.clear()
    positives = [positive for _, positive in PAIRS]
    mine_file(MiningJob(source, tmp_path / "2.jsonl"), Fixed(*positives, "x"))
    mine_file(MiningJob(source, tmp_path / "3.jsonl", MiningOptions(margin=0.1)), Fixed(*positives, "x"))
    assert not caplog.text


ANSWER = "To renew a passport, bring the old one, a photo and the fee to the town hall on any weekday before noon."
CUT_ELSEWHERE = "Fees are listed below. " + ANSWER.replace(", ", " \N{EN DASH} ")[:-13]
OTHER = "To renew a library card, bring the old one and the fee to the library on any day."


def test_a_chunk_of_mostly_the_words_of_a_positive_that_is_not_found_is_no_negative():
    pairs = [("passports", ANSWER)]

    def found(*texts, **options):
        [row] = mine_negatives(pairs, Fixed(*texts), KnownPositives(pairs), MiningOptions(**options))
        return row.negatives

    assert found(CUT_ELSEWHERE, OTHER, "x") == [OTHER, "x"]
    assert found(CUT_ELSEWHERE, OTHER, "x", first_rank=2) == ["x"], "it takes no rank"
    assert found(ANSWER[20:70] + " and more", OTHER) == [OTHER], "a chunk that is shorter than the positive"
    assert found(CUT_ELSEWHERE, ANSWER, OTHER) == [CUT_ELSEWHERE, OTHER], "the positive is found"
    assert found("x", "", "a b c d", OTHER) == ["x", "", "a b c d", OTHER]


def test_positives_that_are_not_found_in_a_collection_are_told(source, tmp_path, caplog, tiny_model):
    mine_file(MiningJob(source, tmp_path / "1.jsonl"), Fixed("cp copies files", "x"))
    assert "the positives of 6 of 7 rows were not among the hits" in caplog.text
    assert "Split the positives as the collection splits" in caplog.text
    caplog.clear()
    index = DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    assert mine_file(MiningJob(source, tmp_path / "2.jsonl", MiningOptions(last_rank=1)), index).unfound
    assert not caplog.text, "the positives themselves were searched"
    mine_file(MiningJob(source, tmp_path / "3.jsonl", MiningOptions(last_rank=1, margin=0.1)), index)
    assert caplog.text.endswith("Raise the last rank (--last-rank), or mine without a margin\n")


def test_ranks_beyond_all_candidates_are_told(source, tmp_path, caplog):
    report = mine_file(MiningJob(source, tmp_path / "rows.jsonl", MiningOptions(first_rank=3)), Fixed("x", "y"))
    assert (report.negatives, report.without) == (0, 7)
    assert "no row has a negative: ranks 3 to 50 hold only positives or nothing" in caplog.text
    assert caplog.text.endswith("Lower the first rank (--first-rank), or raise the last rank (--last-rank)\n")


def test_a_cross_encoder_that_rejects_all_hits_is_told(source, tmp_path, caplog):
    scorer = SimpleNamespace(score=lambda pairs: np.ones(len(pairs)))
    job = MiningJob(source, tmp_path / "rows.jsonl", MiningOptions(margin=-1.0), scorer=scorer)
    positives = [positive for _, positive in PAIRS]
    assert mine_file(job, Fixed(*positives, "x")).negatives == 0
    assert "or nothing, or the margin or the cross-encoder rejects all other hits. Lower" in caplog.text
    assert caplog.text.endswith(
        ", or lower the margin (--margin), or raise the probability that it lets pass (--denoise-above)\n"
    )


def test_a_file_without_pairs_is_refused(tmp_path):
    (tmp_path / "pairs.jsonl").write_bytes(b"\n \n")
    with pytest.raises(InputError, match=r"pairs\.jsonl: has no pairs"):
        mine_file(MiningJob(tmp_path / "pairs.jsonl", tmp_path / "rows.jsonl"), Fixed("x"))
    assert not (tmp_path / "rows.jsonl").exists()


def test_a_pair_is_looked_up_by_its_number(source):
    pairs = PairFile(source)
    assert [pairs[index] for index in range(len(pairs))] == list(pairs) == PAIRS
    assert [(row["anchor"], row["positive"]) for row in pairs.rows(5)] == PAIRS[5:]
    assert not list(pairs.rows(7))


def lengths(pairs):
    """A teacher to whom longer texts are better."""
    return np.array([len(text) / 4 - len(query) for query, text in pairs], dtype=np.float32)


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_teacher_scores_the_positive_and_each_negative(source, tmp_path, caplog):
    source.write_text(source.read_text().replace('"more": 1', '"more": 1, "scores": [9, 9]', 1))
    found = Fixed("cp copies files", "x", "yy")
    mine_file(MiningJob(source, tmp_path / "rows.jsonl", teacher=lengths), found)
    warning = "whose scores are not those of the new negatives"
    assert warning not in caplog.text
    mine_file(MiningJob(source, tmp_path / "plain.jsonl"), found)
    assert warning in caplog.text
    expected = rows_of(tmp_path / "plain.jsonl")
    assert {len(row["negatives"]) for row in expected} == {2, 3}
    for row in expected:
        row["scores"] = [len(text) / 4 - len(row["anchor"]) for text in [row["positive"], *row["negatives"]]]
    assert rows_of(tmp_path / "rows.jsonl") == expected


def test_rows_without_negatives_have_no_place_among_scored_ones(source, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec.training.mining.hard_negatives._WINDOW", 2)
    reports = [
        mine_file(MiningJob(source, tmp_path / name, teacher=teacher), Fixed("cp copies files"))
        for name, teacher in (("plain.jsonl", None), ("rows.jsonl", lengths))
    ]
    assert reports[0] == reports[1]
    assert (reports[0].rows, reports[0].without) == (7, 1)
    assert len(rows_of(tmp_path / "plain.jsonl")) == 7
    rows = rows_of(tmp_path / "rows.jsonl")
    assert [row["positive"] for row in rows] == [text for _, text in PAIRS if text != "cp copies files"]
    assert all(len(row["scores"]) == 2 for row in rows)


@pytest.mark.parametrize("scores", [[1.0], [[1.0]] * 14, [float("nan")] * 14])
def test_scores_that_are_none_are_refused(source, tmp_path, scores):
    job = MiningJob(source, tmp_path / "rows.jsonl", teacher=lambda pairs: scores)
    with pytest.raises(InputError, match=r"teacher: expected 14 finite scores, one for each pair, got"):
        mine_file(job, Fixed("x"))
    with pytest.raises(ConfigurationError, match=r"teacher: expected a function, such as"):
        mine_file(MiningJob(source, tmp_path / "new.jsonl", teacher="model"), Fixed("x"))


def test_scored_rows_and_others_are_not_mixed(source, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec.training.mining.hard_negatives._WINDOW", 2)
    plain, scored = (MiningJob(source, tmp_path / "rows.jsonl", teacher=teacher) for teacher in (None, lengths))
    for first, second in ((plain, scored), (scored, plain)):
        with pytest.raises(RuntimeError):
            mine_file(first, Dying("x"))
        with pytest.raises(ConfigurationError, match="belongs to other pairs or options"):
            mine_file(second, Fixed("x"))
        (tmp_path / "rows.jsonl.partial").unlink()


def test_a_scored_run_that_was_cut_off_goes_on_with_the_same_batches(source, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec.training.mining.hard_negatives._WINDOW", 2)
    batches = []

    def teacher(pairs):
        batches.append(pairs)
        return lengths(pairs)

    mine_file(MiningJob(source, tmp_path / "whole.jsonl", teacher=teacher), Fixed("x"))
    whole, batches[:] = batches[:], []
    with pytest.raises(RuntimeError):
        mine_file(MiningJob(source, tmp_path / "rows.jsonl", teacher=teacher), Dying("x"))
    mine_file(MiningJob(source, tmp_path / "rows.jsonl", teacher=teacher), Fixed("x"))
    assert batches == whole
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


class Dying(Fixed):
    """Fails at a query."""

    def search(self, query, limit=10, filter=None):
        if query == PAIRS[-1][0]:
            raise RuntimeError("the store is gone")
        return super().search(query, limit, filter)


@pytest.mark.parametrize("torn", [b"", b'{"anchor": "half a li'])
def test_a_run_that_was_cut_off_goes_on(source, tmp_path, monkeypatch, torn):
    monkeypatch.setattr("twinvec.training.mining.hard_negatives._WINDOW", 2)
    with pytest.raises(RuntimeError):
        mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Dying("x"))
    assert not (tmp_path / "rows.jsonl").exists()
    with (tmp_path / "rows.jsonl.partial").open("ab") as file:
        file.write(torn)
    again = Fixed("x")
    report = mine_file(MiningJob(source, tmp_path / "rows.jsonl"), again)
    assert report.rows == 7
    assert again.asked == [PAIRS[-1][0]]
    whole = mine_file(MiningJob(source, tmp_path / "whole.jsonl"), Fixed("x"))
    assert whole == report
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_windows_are_the_same_in_a_run_that_was_cut_off(source, tmp_path, monkeypatch):
    """A row's hits may depend on the others of its window, so a window that is half done is done again."""
    monkeypatch.setattr("twinvec.training.mining.hard_negatives._WINDOW", 4)

    class ByWindow(Fixed):
        def search_many(self, queries, limit=10):
            self.asked.append(list(queries))
            return [[Hit("1", f"found beside {' and '.join(queries)}, {limit} deep", 1.0)] for _ in queries]

    whole = ByWindow()
    mine_file(MiningJob(source, tmp_path / "whole.jsonl"), whole)
    with pytest.raises(RuntimeError):
        mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Dying("x"))
    header = (tmp_path / "rows.jsonl.partial").read_bytes().splitlines(keepends=True)[0]
    rows = (tmp_path / "whole.jsonl").read_text().splitlines()
    written = [json.dumps({"found": False, "row": json.loads(row)}) + "\n" for row in rows[:6]]
    (tmp_path / "rows.jsonl.partial").write_bytes(header + "".join(written).encode())
    again = ByWindow()
    mine_file(MiningJob(source, tmp_path / "rows.jsonl"), again)
    assert again.asked == whole.asked[1:]
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_a_file_without_room_for_more_names_its_path_and_is_continued(source, tmp_path):
    job, texts = MiningJob(source, tmp_path / "rows.jsonl"), ["x" * 999]
    told = "a file exceeds the size that the process .* run the same command again"
    with pytest.raises(ConfigurationError, match=rf"rows\.jsonl: {told}"), largest_file(3000):
        mine_file(job, Fixed(*texts))
    mine_file(job, Fixed(*texts))
    mine_file(MiningJob(source, tmp_path / "whole.jsonl"), Fixed(*texts))
    assert (tmp_path / "rows.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


def test_vectors_without_room_name_their_path_and_are_continued(source, tmp_path, tiny_model):
    encoder, path = Encoder(tiny_model("bert")), tmp_path / "vectors.npy"
    told = "a file exceeds the size that the process .* run the same command again"
    with pytest.raises(ConfigurationError, match=rf"vectors\.npy: {told}"), largest_file(300):
        DenseIndex(encoder, source, path)
    assert len(DenseIndex(encoder, source, path).search("ls", 2)) == 2


def test_the_rest_of_another_job_is_refused(source, tmp_path):
    with pytest.raises(RuntimeError):
        mine_file(MiningJob(source, tmp_path / "rows.jsonl"), Dying("x"))
    with pytest.raises(ConfigurationError, match="belongs to other pairs or options"):
        mine_file(MiningJob(source, tmp_path / "rows.jsonl", MiningOptions(negatives=1)), Fixed("x"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (b"[1]", "expected a JSON object, got list"),
        (b"[" * 100_000, "not JSON"),
        (
            b'{"question": "a", "positive": "b"}',
            "no 'anchor' among the keys 'positive', 'question'; mining reads one JSON",
        ),
        (b'{"anchor": "a"}', "no 'positive' among the keys 'anchor'; mining reads one JSON object a line"),
        (b'{"anchor": "a", "positive": null}', "field 'positive': expected a text, got None"),
        (b'{"anchor": "a", "positive": " "}', "field 'positive': expected a text"),
        (b'{"anchor": "a", "positive": "\\ud800"}', "field 'positive': lone surrogate"),
        (b'{"anchor": "a", "pos', "not JSON"),
        (b'{"anchor": "a\xff", "positive": "b"}', "not JSON"),
    ],
)
def test_a_line_that_is_no_pair_is_named(tmp_path, line, message):
    path = tmp_path / "pairs.jsonl"
    path.write_bytes(b'{"anchor": "a", "positive": "b"}\n' + line + b"\n")
    with pytest.raises(InputError, match=r"pairs\.jsonl, row 2.*" + message):
        PairFile(path)


def test_a_last_rank_beyond_every_limit_is_the_last_hit(source, tmp_path, tiny_model):
    index = DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    assert mined(PAIRS, index, last_rank=2**31) == mined(PAIRS, index, last_rank=100)


def test_the_dense_index_is_exact_whatever_its_blocks(source, tmp_path, tiny_model, monkeypatch):
    encoder = Encoder(tiny_model("bert", normalize=False))
    exact = MemoryIndex(encoder, list(dict.fromkeys(p for _, p in PAIRS if not p.startswith("LS"))))
    anchors = list(dict.fromkeys(anchor for anchor, _ in PAIRS))
    for block in (1, 2, 100):
        monkeypatch.setattr("twinvec.training.mining.dense_index._BLOCK", block)
        index = DenseIndex(encoder, source, tmp_path / f"{block}.npy")
        assert len(index) == 6
        for limit in (1, 3, 50):
            found = index.search_many(anchors, limit)
            expected = exact.search_many(anchors, limit, mode="dense")
            for hits, wanted in zip(found, expected, strict=True):
                assert [hit.text for hit in hits] == [hit.text for hit in wanted]
                assert [hit.score for hit in hits] == pytest.approx([hit.score for hit in wanted], abs=1e-5)


def test_vectors_that_are_there_are_not_computed_again(source, tmp_path, tiny_model):
    DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    written = (tmp_path / "vectors.npy").stat().st_mtime_ns
    DenseIndex(Encoder(tiny_model("bert")), source, tmp_path / "vectors.npy")
    assert (tmp_path / "vectors.npy").stat().st_mtime_ns == written
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".jsonl", ".npy"]


@pytest.mark.parametrize("torn", [0, 1, 20, 128, 300])
def test_an_encoding_that_was_cut_off_goes_on(source, tmp_path, tiny_model, monkeypatch, torn):
    monkeypatch.setattr("twinvec.training.mining.dense_index._WINDOW", 2)
    encoder = Encoder(tiny_model("bert"))
    whole = tmp_path / "whole.npy"
    DenseIndex(encoder, source, whole)
    assert np.load(whole).shape == (6, encoder.dim)
    vectors, partial = tmp_path / "vectors.npy", tmp_path / "vectors.npy.partial"
    partial.write_bytes(whole.read_bytes()[: whole.stat().st_size - torn])
    encoded = []

    def encode_document(texts):
        encoded.extend(texts)
        return Encoder.encode_document(encoder, texts)

    monkeypatch.setattr(encoder, "encode_document", encode_document)
    DenseIndex(encoder, source, vectors)
    assert len(encoded) == {0: 0, 1: 2, 20: 2, 128: 2, 300: 4}[torn]
    assert vectors.read_bytes() == whole.read_bytes()
    assert not partial.exists()


def test_an_encoding_of_other_texts_is_not_gone_on_with(source, tmp_path, tiny_model):
    partial = tmp_path / "vectors.npy.partial"
    np.save(tmp_path / "other.npy", np.ones((5000, 32), dtype=np.float32))
    (tmp_path / "other.npy").replace(partial)
    encoder = Encoder(tiny_model("bert"))
    DenseIndex(encoder, source, tmp_path / "vectors.npy")
    DenseIndex(encoder, source, tmp_path / "whole.npy")
    assert (tmp_path / "vectors.npy").read_bytes() == (tmp_path / "whole.npy").read_bytes()


def test_an_empty_file_has_nothing_to_search(tmp_path, tiny_model):
    (tmp_path / "pairs.jsonl").write_bytes(b"")
    with pytest.raises(InputError, match="has no pairs"):
        DenseIndex(Encoder(tiny_model("bert")), tmp_path / "pairs.jsonl", tmp_path / "vectors.npy")
