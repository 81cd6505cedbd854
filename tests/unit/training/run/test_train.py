"""Whole runs, small: from a configuration to a model that works, for every kind and objective."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from cases import slow
from models import LONGEST, build, build_cross_encoder, give_tokenizer
from twinvec import CrossEncoderReranker, Encoder
from twinvec.errors import (
    ConfigurationError,
    DocumentError,
    MissingExtraError,
    ModelIntegrityError,
    UnsupportedModelError,
)
from twinvec.models.integrity import read_json
from twinvec.training.objectives import cosine_regression
from twinvec.training.run import model_card
from twinvec.training.run.building import with_prompts
from twinvec.training.run.config import TrainConfig, check_config
from twinvec.training.run.model_card import TrainReport, write_card
from twinvec.training.run.softmax_head import PairClassifier
from twinvec.training.run.train import train

TOPICS = ("files", "dogs", "rain", "money", "music", "bread", "stars", "doors")
PAIRS = [
    {"anchor": f"how do {topic} work, part {n}", "positive": f"all about {topic} {n}"}
    for n in range(4)
    for topic in TOPICS
]
SCORED = [
    {"sentence1": f"{one} {n}", "sentence2": f"{other} again", "score": 5.0 if one == other else 1.0}
    for n, (one, other) in enumerate([*pairwise(TOPICS), *((topic, topic) for topic in TOPICS)])
]
SCORED_TO_1 = [row | {"score": row["score"] / 5} for row in SCORED]
FAST = {"steps": 4, "learning_rate": 1e-3, "log_every": 1}


@pytest.fixture
def run(tmp_path, tiny_model):
    """``run(rows, **settings)``: train the tiny model on rows and give the report."""

    def start(rows, folder="model", **settings):
        (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        values = {
            "model": str(tiny_model("bert")),
            "data": [{"path": "rows.jsonl"}],
            "batches": {"size": 8},
            "schedule": FAST,
            "device": "cpu",
            **settings,
        }
        return train(check_config(values, tmp_path, "run.yaml"), tmp_path / folder)

    return start


def weights(folder):
    return (folder / "model.safetensors").read_bytes()


QUERY, DOCUMENT = "look for this: ", "a text: "
PREFIXED = [{"anchor": QUERY + row["anchor"], "positive": DOCUMENT + row["positive"]} for row in PAIRS]


@pytest.mark.parametrize("configured", [False, slow(True)], ids=["the model's own", "configured"])
def test_texts_are_trained_and_measured_behind_the_prompts_of_their_role(run, tmp_path, configured):
    prompts = {"query": QUERY, "document": DOCUMENT}
    prompted = build(tmp_path / "prompted", "bert", prompts={} if configured else prompts)
    plain = build(tmp_path / "plain", "bert")
    for name, rows in (("dev", PAIRS), ("prefixed", PREFIXED)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = {"objective": {"name": "info_nce"}, "evaluation": {"pairs": "dev.jsonl"}}
    chosen = {"prompts": prompts} if configured else {}
    report = run(PAIRS, "one", model=str(prompted), **settings, **chosen)
    without = run(PAIRS, "three", model=str(plain), **settings)
    expected = run(PREFIXED, "two", model=str(plain), **{**settings, "evaluation": {"pairs": "prefixed.jsonl"}})
    assert (report.before, report.after) == (expected.before, expected.after)
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    assert weights(tmp_path / "one") != weights(tmp_path / "three")
    assert report.before != without.before
    assert Encoder(tmp_path / "one").prompts == prompts


def test_symmetric_texts_are_trained_behind_the_default_prompt(run, tmp_path):
    rows = [{**row, "score": (row["score"] - 1) / 4} for row in SCORED]
    prefixed = [{**row, **{side: QUERY + row[side] for side in ("sentence1", "sentence2")}} for row in rows]
    default = build(tmp_path / "default", "bert", prompts={"any": QUERY, "query": "q: "}, default_prompt="any")
    for folder, part, model in (("one", rows, default), ("two", prefixed, build(tmp_path / "plain", "bert"))):
        run(part, folder, model=str(model), objective={"name": "cosine_regression"})
    assert weights(tmp_path / "one") == weights(tmp_path / "two")
    run(rows, "three", model=str(default), objective={"name": "cosine_regression"}, prompts={"query": "q: "})
    assert Encoder(tmp_path / "three").prompts == {"query": "q: ", "document": ""}
    assert weights(tmp_path / "three") != weights(tmp_path / "one")


def labelled(names):
    return [
        {"sentence1": row["anchor"], "sentence2": row["positive"], "label": names[n % len(names)]}
        for n, row in enumerate(PAIRS)
    ]


@pytest.mark.slow
def test_a_run_gives_a_model_that_both_libraries_read_alike(run, tmp_path, drawn):
    from sentence_transformers import SentenceTransformer

    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:8]))
    report = run(
        PAIRS,
        objective={"name": "info_nce", "symmetric": True},
        schedule={**FAST, "steps": 120},
        evaluation={"pairs": "dev.jsonl", "every": 40},
        max_tokens=20,
    )
    folder = tmp_path / "model"
    assert (report.steps, report.rows) == (120, 32)
    assert report.after["pairs.mrr@10"] > report.before["pairs.mrr@10"]
    assert report.best_step in (40, 80, 120)
    encoder = Encoder(folder)
    assert encoder.max_tokens == 20
    texts = [row["anchor"] for row in PAIRS]
    theirs = SentenceTransformer(str(folder), device="cpu").encode(texts)
    np.testing.assert_allclose(encoder.encode(texts), theirs, atol=1e-5)
    assert not (folder / "checkpoints").exists()
    assert (folder / "training.png").stat().st_size > 1000
    card = (folder / "README.md").read_text()
    for part in (
        "| rows | 32 |",
        "| steps | 120; the model is that of ",
        "| objective | info_nce |",
        "| symmetric | True |",
        "| pairs.mrr@10 |",
    ):
        assert part in card
    assert read_json(folder / "twinvec.json")["trained_with"].startswith("twinvec ")
    assert run_usage(card, folder) == 2


def test_the_card_names_the_current_folder(tmp_path, monkeypatch):
    (tmp_path / "base").mkdir()
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    settings = {"model": "../base", "objective": {"name": "info_nce"}, "data": [{"path": "rows.jsonl"}]}
    report = TrainReport(
        folder=".", steps=1, rows=1, before={}, after={}, best_step=1, loss=None, seconds=0.0, rows_drawn=1
    )
    write_card(Path("."), TrainConfig.model_validate(settings), [], report, [])
    card = (tmp_path / "mine" / "README.md").read_text()
    assert "\n# mine\n\nA bi-encoder trained with twinvec from `base`.\n" in card
    assert card.count('("mine")') == 2


def run_usage(card, folder):
    """Run the card's snippets beside the model's folder; return how many there are."""
    snippets = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    with contextlib.chdir(folder.parent):
        for snippet in snippets:
            exec(snippet, {})
    return len(snippets)


@pytest.mark.parametrize(
    ("rows", "reason"),
    [
        (PAIRS[:1], "there is one row"),
        ([{"anchor": "the same", "positive": row["positive"]} for row in PAIRS], "all rows have the same anchor"),
        ([{"anchor": row["anchor"], "positive": "The  SAME"[n % 2 :]} for n, row in enumerate(PAIRS)], None),
        ([{"anchor": row["anchor"], "positive": "the same"} for row in PAIRS], "all rows have the same positive"),
        ([row | {"negatives": ["no answer"]} for row in PAIRS[:1]], None),
    ],
    ids=["one row", "one anchor", "two positives", "one positive", "a negative"],
)
def test_info_nce_needs_texts_to_tell_apart(run, tmp_path, rows, reason):
    if reason is None:
        assert run(rows, objective={"name": "info_nce"}).loss > 0.01
        return
    with pytest.raises(ConfigurationError, match=rf"data: info_nce .*, but {reason}; add rows"):
        run(rows, objective={"name": "info_nce"})
    assert not (tmp_path / "model" / "checkpoints" / "config.json").exists()


@pytest.mark.parametrize(
    ("rows", "other", "reason"),
    [
        ([row | {"positive": "yes"} for row in PAIRS[:8]], PAIRS, "all rows have the same positive"),
        (PAIRS[:1], PAIRS[1:2], "there is one row"),
    ],
    ids=["one positive", "one row"],
)
def test_each_dataset_of_its_own_batches_needs_texts_to_tell_apart(run, tmp_path, rows, other, reason):
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in other))
    data = [{"path": "other.jsonl"}, {"path": "rows.jsonl"}]
    name = "other" if len(other) == 1 else "rows"
    with pytest.raises(ConfigurationError, match=rf"data, '{name}': info_nce .*, but {reason}; add rows"):
        run(rows, objective={"name": "info_nce"}, data=data)
    batches = {"size": 8, "datasets": 2}
    assert run(rows, objective={"name": "info_nce"}, data=data, batches=batches).loss > 0.01


def test_equal_anchors_teach_where_equal_texts_count(run):
    rows = [{"anchor": "the same", "positive": row["positive"]} for row in PAIRS[:8]]
    batches = {"size": 8, "unique_texts": False}
    assert run(rows, objective={"name": "info_nce", "mask_texts": False}, batches=batches).loss > 1


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_texts_that_training_truncates_are_told_once(run, caplog, kind):
    rows = [row | {"negatives": ["nothing"]} for row in PAIRS[:16]]
    objective = {"name": "info_nce" if kind == "bi-encoder" else "binary"}
    run(rows, "whole", kind=kind, objective=objective)
    assert "truncated" not in caplog.text
    for row in rows[:12]:
        row["positive"] += " and so on" * 40
    run(rows, "truncated", kind=kind, objective=objective)
    told = [each.getMessage() for each in caplog.records if "truncated" in each.getMessage()]
    assert len(told) == 1
    assert re.match(r"\d of \d+ (texts|pairs) of a batch exceed the 66-token limit of the model and are", told[0])


def test_a_text_that_just_fits_is_not_truncated(tiny_model, caplog):
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(tiny_model("bert")), device="cpu")
    preprocess = with_prompts(model)
    model.max_seq_length = len(model.tokenizer("just fits")["input_ids"])
    preprocess(["just fits", "x"], "anchor")
    assert "truncated" not in caplog.text
    preprocess(["just fits", "just fits not"], "anchor")
    assert "1 of 2 texts of a batch exceed the" in caplog.text


def test_a_model_that_lower_cases_does_so_in_both_libraries(run, tmp_path):
    from sentence_transformers import SentenceTransformer

    built = build(tmp_path / "lower", "roberta", lower_case=True)
    run(PAIRS, model=str(built), objective={"name": "info_nce"})
    texts = ["HOW do Files Work", "how do files work"]
    ours = Encoder(tmp_path / "model", engine="torch").encode(texts)
    theirs = SentenceTransformer(str(tmp_path / "model"), device="cpu").encode(texts)
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    np.testing.assert_allclose(ours[0], ours[1], atol=1e-5)


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_a_model_is_trained_on_the_tokens_that_it_is_served_with(run, tmp_path, kind):
    """Without a class in the settings, transformers gives BERT a tokenizer of words, whatever tokenizer.json says."""
    from sentence_transformers import CrossEncoder, SentenceTransformer

    bi_encoder = kind == "bi-encoder"
    base = (build if bi_encoder else build_cross_encoder)(tmp_path / "base", "bert")
    give_tokenizer(base, "xlm-roberta", None)
    pairs = [("how do files work", "all about files"), ("Größe", "日本語の文章")]
    texts = [text for pair in pairs for text in pair]
    own = (Encoder if bi_encoder else CrossEncoderReranker)(base).tokenizer
    library = SentenceTransformer if bi_encoder else CrossEncoder
    assert library(str(base), device="cpu").tokenizer(texts)["input_ids"] != ids_of(own, texts)
    objective = {"name": "info_nce" if bi_encoder else "graded"}
    run(PAIRS if bi_encoder else SCORED_TO_1, kind=kind, model=str(base), objective=objective)
    trained = library(str(tmp_path / "model"), device="cpu")
    assert trained.tokenizer(texts)["input_ids"] == ids_of(own, texts)
    if bi_encoder:
        found, expected = Encoder(tmp_path / "model").encode(texts), trained.encode(texts)
    else:
        found, expected = CrossEncoderReranker(tmp_path / "model").score(pairs), trained.predict(pairs)
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("own", ["PreTrainedTokenizerFast", "TokenizersBackend"])
def test_a_cross_encoder_is_trained_with_the_segments_that_it_is_served_with(run, tmp_path, own):
    """transformers 5 leaves out the segments for both classes; earlier versions gave them for the first."""
    from sentence_transformers import CrossEncoder

    base = build_cross_encoder(tmp_path / "base", "bert")
    path = base / "tokenizer_config.json"
    path.write_text(json.dumps(read_json(path) | {"tokenizer_class": own}))
    run(SCORED_TO_1, kind="cross-encoder", model=str(base), objective={"name": "graded"})
    trained, pairs = CrossEncoder(str(tmp_path / "model"), device="cpu"), [("how do files work", "all about files")]
    assert ("token_type_ids" in trained.preprocess(pairs)) == (own == "PreTrainedTokenizerFast")
    np.testing.assert_allclose(CrossEncoderReranker(tmp_path / "model").score(pairs), trained.predict(pairs), atol=1e-5)


def ids_of(tokenizer, texts):
    return [each.ids for each in tokenizer.for_chunking().encode_batch(texts)]


@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_what_could_not_be_served_is_not_trained(run, tmp_path, kind):
    """sentence-transformers can train this backbone. Neither ``Encoder`` nor a reranker supports it."""
    built = build(tmp_path / "other", "bert")
    config = read_json(built / "config.json")
    (built / "config.json").write_text(json.dumps(config | {"model_type": "deberta-v2"}))
    objective = {"name": "info_nce" if kind == "bi-encoder" else "graded"}
    with pytest.raises(UnsupportedModelError, match="backbone 'deberta-v2' is not supported"):
        run(PAIRS if kind == "bi-encoder" else SCORED_TO_1, kind=kind, model=str(built), objective=objective)


def test_a_cross_encoder_whose_scores_could_not_be_served_is_not_trained_further(run, tmp_path):
    built = build_cross_encoder(tmp_path / "tanh", "bert", activation_fn=torch.nn.Tanh())
    with pytest.raises(UnsupportedModelError, match=r"activation '.*Tanh' is not supported"):
        run(SCORED_TO_1, kind="cross-encoder", model=str(built), objective={"name": "graded"})


def test_files_to_measure_on_may_have_other_columns(run, tmp_path):
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:8]))
    other = [{"question": row["anchor"], "answer": row["positive"]} for row in PAIRS[:8]]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in other))
    (tmp_path / "sts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SCORED))
    lines = ["a\tb\tgold", *(f"{row['sentence1']}\t{row['sentence2']}\t{row['score']}" for row in SCORED)]
    (tmp_path / "other.tsv").write_text("\n".join(lines) + "\n")
    objective = {"name": "info_nce"}
    columns = {"anchor": "question", "positive": "answer", "sentence1": "a", "sentence2": "b", "score": "gold"}
    plain = run(PAIRS, "plain", objective=objective, evaluation={"pairs": "dev.jsonl", "sts": "sts.jsonl"})
    evaluation = {"pairs": "other.jsonl", "sts": "other.tsv", "columns": columns}
    named = run(PAIRS, "named", objective=objective, evaluation=evaluation)
    assert set(plain.before) == {"pairs.mrr@10", "pairs.accuracy@1", "sts.spearman", "sts.pearson"}
    assert (named.before, named.after) == (plain.before, plain.after)


@pytest.mark.parametrize("rate", [1e-3, 0.5])
def test_a_model_that_became_worse_is_told(run, tmp_path, caplog, rate):
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    evaluation = {"pairs": "dev.jsonl", "every": 2}
    report = run(PAIRS, **BI_ENCODER, evaluation=evaluation, schedule={**FAST, "learning_rate": rate})
    before, after = (scores["pairs.mrr@10"] for scores in (report.before, report.after))
    told = [each.getMessage() for each in caplog.records if "worse" in each.getMessage()]
    assert len(told) == (after < before) == (rate == 0.5)
    assert all(f"pairs.mrr@10 fell from {before:.2f} to {after:.2f}; try a lower" in message for message in told)


def test_the_card_says_which_step_the_model_is_of():
    report = TrainReport("mine", 1500, 40, {}, {}, 1000, 0.5, 1.0)
    assert model_card.kept_step(report) == "the model is that of step 1,000, which scored best"
    assert model_card.kept_step(replace(report, best_step=1500)) == "the model is that of the last step"


def test_the_picture_of_a_short_run_shows_its_points(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda self, *_, **__: drawn.append(self))
    report = TrainReport("mine", 15, 40, {"pairs.mrr@10": 60.0}, {"pairs.mrr@10": 80.0}, 10, 0.5, 1.0)
    history = [
        {"step": 10, "loss": 0.5},
        {"step": 10, "eval_pairs.mrr@10": 80.0},
        {"step": 15, "eval_pairs.mrr@10": 70.0},
    ]
    model_card._draw(tmp_path / "training.png", history, report)
    model_card._draw(tmp_path / "training.png", history[:1], report)  # measured before and after only
    loss, score = drawn[0].axes[0].lines[0], drawn[0].axes[1].lines[0]
    assert (loss.get_marker(), score.get_marker()) == ("o", "o"), "a single point is seen"
    assert [list(score.get_xdata()), list(score.get_ydata())] == [[0, 10, 15], [60.0, 80.0, 70.0]]
    assert list(drawn[1].axes[1].lines[0].get_xdata()) == [0, 10]
    for axes in drawn[0].axes:
        assert axes.get_xlim()[0] <= 0 < 15 <= axes.get_xlim()[1], "both sides have the same steps"


def test_scores_are_of_cosines_whatever_a_model_calls_its_similarity(run, tmp_path, tiny_model):
    base = shutil.copytree(tiny_model("bert"), tmp_path / "base")
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    settings = {"objective": {"name": "info_nce"}, "evaluation": {"pairs": "dev.jsonl", "every": 2}}
    expected = run(PAIRS, "cosine", model=str(base), **settings)
    described = read_json(base / "config_sentence_transformers.json")
    (base / "config_sentence_transformers.json").write_text(json.dumps({**described, "similarity_fn_name": "dot"}))
    found = run(PAIRS, "dot", model=str(base), **settings)
    assert (found.before, found.after) == (expected.before, expected.after)


def test_a_finished_run_is_left_alone_and_another_is_refused(run, tmp_path):
    first = run(PAIRS, objective={"name": "info_nce"})
    written = (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns
    assert run(PAIRS, objective={"name": "info_nce"}) == first
    assert (tmp_path / "model" / "model.safetensors").stat().st_mtime_ns == written
    moved = (tmp_path / "model").rename(tmp_path / "moved")
    assert run(PAIRS, "moved", objective={"name": "info_nce"}).folder == str(moved)
    moved.rename(tmp_path / "model")
    with pytest.raises(ConfigurationError, match=r"configuration: objective\.scale was 20\.0 and is 5\.0; choose"):
        run(PAIRS, objective={"name": "info_nce", "scale": 5})
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl \(data\.0\.path\) has changed since; choose another"):
        run(PAIRS[1:], objective={"name": "info_nce"})


def test_folders_may_be_of_type_str(tmp_path, tiny_model):
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:4]))
    values = {"model": str(tiny_model("bert")), "data": [{"path": "rows.jsonl"}], "objective": {"name": "info_nce"}}
    config = check_config({**values, "schedule": {"steps": 1}, "device": "cpu"}, str(tmp_path), "mine")
    assert train(config, str(tmp_path / "model")).folder == str(tmp_path / "model")
    with pytest.raises(ConfigurationError, match="folder has a lone surrogate"):
        train(config, tmp_path / os.fsdecode(b"not UTF-8: \xff"))


def test_settings_that_do_not_fit_the_model_do_not_claim_the_folder(run):
    with pytest.raises(ConfigurationError, match="matryoshka: 64 is more than the model's 32 dimensions"):
        run(PAIRS, objective={"name": "info_nce"}, matryoshka=[64])
    assert run(PAIRS, objective={"name": "info_nce"}, matryoshka=[16]).steps


def test_the_same_seed_gives_the_same_weights(run, tmp_path):
    for folder, seed in (("one", 1), ("two", 1), ("three", 2)):
        run(PAIRS, folder, objective={"name": "info_nce"}, schedule={**FAST, "seed": seed})
    one, two, three = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("one", "two", "three"))
    assert one == two
    assert one != three


BI_ENCODER = {"objective": {"name": "info_nce"}}
CROSS_ENCODER = {"kind": "cross-encoder", "objective": {"name": "binary"}}


@pytest.mark.parametrize("package", ["accelerate", "matplotlib"])
def test_a_missing_package_is_noticed_before_anything_is_done(run, tmp_path, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingExtraError, match=package):
        run(PAIRS, objective={"name": "info_nce"})
    assert not (tmp_path / "model").exists()


OBJECTIVES = {
    "hard negatives, ragged": (
        {"name": "info_nce"},
        [{**row, "negatives": ["about nothing", "about something"][: n % 3]} for n, row in enumerate(PAIRS)],
    ),
    "triplet": ({"name": "triplet"}, [{**row, "negative": "about nothing"} for row in PAIRS]),
    "contrastive": ({"name": "contrastive"}, labelled([0, 1])),
    "online contrastive": ({"name": "online_contrastive", "distance": "euclidean"}, labelled([0, 1])),
    "margins, ragged": (
        {"name": "margin_mse", "scale": 3},
        [
            {**row, "negatives": ["about nothing", "about something"][: 1 + n % 2], "scores": [3, 1, 2][: 2 + n % 2]}
            for n, row in enumerate(PAIRS)
        ],
    ),
    "regression": ({"name": "cosine_regression"}, [{**row, "score": (row["score"] - 1) / 4} for row in SCORED]),
}


@pytest.mark.parametrize("case", OBJECTIVES)
def test_every_objective_changes_the_model(run, tmp_path, tiny_model, case):
    objective, rows = OBJECTIVES[case]
    report = run(rows, objective=objective)
    assert math.isfinite(report.loss)
    assert Encoder(tmp_path / "model").space != Encoder(tiny_model("bert")).space


def test_a_model_learns_the_margins_of_a_teacher(run, tmp_path):
    rows = [{**row, "negatives": ["about nothing"], "scores": [n % 2, 0.5]} for n, row in enumerate(PAIRS)]
    settings = {"objective": {"name": "margin_mse"}, "schedule": {"steps": 60, "learning_rate": 3e-3}}
    run(rows, **settings)
    encoder = Encoder(tmp_path / "model")
    positives, nothing = encoder.encode([row["positive"] for row in rows]), encoder.encode("about nothing")
    anchors = encoder.encode([row["anchor"] for row in rows])
    margins = (anchors * (positives - nothing)).sum(axis=1)
    expected = [row["scores"][0] - row["scores"][1] for row in rows]
    assert np.corrcoef(margins, expected)[0, 1] > 0.9


@pytest.mark.parametrize(("objective", "is_told"), [({}, True), ({"similarity": "dot"}, True), ({"scale": 4.5}, False)])
def test_margins_that_vectors_of_length_1_cannot_have_are_told(run, caplog, objective, is_told):
    rows = [{**row, "negatives": ["about nothing"], "scores": [8, -1]} for row in PAIRS]
    run(rows, objective={"name": "margin_mse", **objective}, schedule={"steps": 1})
    message = (
        "objective.scale: the teacher's margins are up to 9, but those of vectors of length 1 at most 2 * scale (2); "
        "try a scale of about 9"
    )
    assert (message in caplog.text) is is_told


def test_softmax_needs_labels_to_tell_apart(run):
    with pytest.raises(ConfigurationError, match="data: all labels are 'same'"):
        run(labelled(["same"]), objective={"name": "softmax"})


@pytest.mark.parametrize("objective", ["contrastive", "online_contrastive"])
@pytest.mark.parametrize("label", [0, 1])
def test_contrastive_needs_pairs_of_both_labels(run, tmp_path, objective, label):
    data = [{"path": "other.jsonl"}, {"path": "rows.jsonl"}]
    (tmp_path / "other.jsonl").write_text("".join(json.dumps(row) + "\n" for row in labelled([label])))
    with pytest.raises(ConfigurationError, match=f"data: all labels are {label}, but {objective} needs pairs of both"):
        run(labelled([label]), objective={"name": objective}, data=data)
    assert not (tmp_path / "model" / "checkpoints" / "config.json").exists()
    report = run(labelled([1 - label]), objective={"name": objective}, data=data)
    assert math.isfinite(report.loss), "together the datasets have both"


def test_the_softmax_head_is_saved_and_labels_pairs(run, tmp_path):
    rows = labelled(["early", "late"])  # in PAIRS every second row has one of four topics
    run(rows, objective={"name": "softmax"}, schedule={"steps": 40, "learning_rate": 3e-3})
    folder = tmp_path / "model"
    assert r"| concatenation | u,v,\|u-v\| |" in (folder / "README.md").read_text()
    classifier = PairClassifier(Encoder(folder), folder)
    assert classifier.labels == ["early", "late"]
    found = classifier.label([(row["sentence1"], row["sentence2"]) for row in rows])
    right = sum(label == row["label"] for label, row in zip(found, rows, strict=True))
    assert right > 0.9 * len(rows)
    encoder, weights = Encoder(folder), folder / "softmax_head.safetensors"
    assert PairClassifier(encoder, str(folder)).labels == classifier.labels
    weights.write_bytes(weights.read_bytes()[:-1] + b"\1")
    with pytest.raises(ModelIntegrityError, match="changed or damaged"):
        PairClassifier(encoder, folder)
    (folder / "twinvec.json").unlink()
    for file, rubbish in (("softmax_head.safetensors", "rubbish"), ("softmax_head.json", '{"concatenation": "u"}')):
        (folder / file).write_text(rubbish)
        with pytest.raises(ModelIntegrityError, match=file):
            PairClassifier(encoder, folder)


def test_a_model_that_truncates_its_vectors_gets_a_head_of_their_size(run, tmp_path):
    short = build(tmp_path / "short", "bert", truncate_dim=8)
    run(labelled(["early", "late"]), objective={"name": "softmax"}, model=str(short))
    folder = tmp_path / "model"
    encoder = Encoder(folder)
    assert encoder.dim == 8
    assert PairClassifier(encoder, folder).label([("a", "b")])[0] in ("early", "late")


def test_prompts_that_training_does_not_use_are_told(run, tmp_path, caplog):
    default = build(tmp_path / "default", "bert", prompts={"any": QUERY}, default_prompt="any")
    settings = {"model": str(default), "objective": {"name": "info_nce"}}
    run(PAIRS, "one", prompts={"query": QUERY, "document": DOCUMENT, "any": QUERY}, **settings)
    assert "prompts" not in caplog.text
    run(PAIRS, "two", prompts={"querry": QUERY, "passage": DOCUMENT}, **settings)
    assert "prompts: training does not use 'passage', 'querry'; it uses 'query', 'document'" in caplog.text
    assert Encoder(tmp_path / "two").prompts["passage"] == DOCUMENT


@pytest.mark.parametrize("objective", ["cosine_regression", "softmax"])
def test_prompts_that_an_objective_does_not_put_before_its_sentences_are_told(run, tmp_path, caplog, objective):
    rows = [{**row, "label": n % 2} for n, row in enumerate(SCORED_TO_1)]
    default = build(tmp_path / "default", "bert", prompts={"any": QUERY}, default_prompt="any")
    settings = {"model": str(default), "schedule": {"steps": 1}, "objective": {"name": objective}}
    run(rows, "one", prompts={"any": QUERY, "query": ""}, **settings)
    assert "prompts" not in caplog.text
    run(rows, "two", prompts={"query": QUERY, "document": DOCUMENT}, **settings)
    told = f"prompts: training does not use 'document', 'query'; {objective} puts only the model's default prompt"
    assert told in caplog.text


def test_datasets_share_the_numbers_of_labels(run, tmp_path, caplog):
    (tmp_path / "more.jsonl").write_text(json.dumps({"sentence1": "a", "sentence2": "b", "label": "alpha"}) + "\n")
    run(labelled(["beta"]), objective={"name": "softmax"}, data=[{"path": "rows.jsonl"}, {"path": "more.jsonl"}])
    assert read_json(tmp_path / "model" / "softmax_head.json")["labels"] == ["alpha", "beta"]
    classes = read_json(tmp_path / "model" / "training.json")["report"]["classes"]
    assert classes == {"alpha": 1, "beta": len(PAIRS)}
    assert f"softmax learns 2 classes: 'alpha' 1, 'beta' {len(PAIRS)}" in caplog.text
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"| class | rows |\n|---|---|\n| alpha | 1 |\n| beta | {len(PAIRS)} |\n\n" in card


def test_pooling_can_be_another_than_the_models(run, tmp_path):
    run(PAIRS, objective={"name": "info_nce"}, pooling="cls")
    assert read_json(tmp_path / "model" / "1_Pooling" / "config.json")["pooling_mode"] == "cls"


def test_another_pooling_keeps_what_it_does_with_prompts(run, tmp_path):
    base = build(tmp_path / "base", "bert", include_prompt=False)
    run(PAIRS, model=str(base), objective={"name": "info_nce"}, pooling="max", schedule={"steps": 1})
    assert read_json(tmp_path / "model" / "1_Pooling" / "config.json")["include_prompt"] is False


def test_a_pooling_of_another_size_does_not_go_with_a_dense_layer(run, tmp_path):
    base = str(build(tmp_path / "base", "bert", pooling=("mean", "cls"), dense=[(8, "Tanh")]))
    with pytest.raises(
        ConfigurationError, match="pooling: 'cls' gives 32 values, but the model's dense layer takes the 64"
    ):
        run(PAIRS, model=base, objective={"name": "info_nce"}, pooling="cls")


@pytest.mark.slow
def test_matryoshka_trains_leading_dimensions(run, tmp_path):
    rows = [{"sentence1": row["anchor"], "sentence2": row["positive"], "score": 0.0} for row in PAIRS]
    settings = {"objective": {"name": "cosine_regression"}, "schedule": {"steps": 40, "learning_rate": 3e-3}}
    run(rows, "whole", **settings)
    run(rows, "leading", **settings, matryoshka=[2])

    def error(folder):
        encoder = Encoder(tmp_path / folder, dim=2)
        arms = (torch.from_numpy(encoder.encode([row[role] for row in rows])) for role in ("sentence1", "sentence2"))
        return cosine_regression(*arms, torch.zeros(len(rows))).item()

    assert error("leading") < 0.5 * error("whole")


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("kind", ["bi-encoder", "cross-encoder"])
def test_a_model_with_weights_in_half_precision_is_trained_in_float32(run, tmp_path, kind, dtype):
    if kind == "bi-encoder":
        base, objective, rows = build(tmp_path / "base", "bert", dense=[(8, "Tanh")]), "info_nce", PAIRS
    else:
        base, objective, rows = build_cross_encoder(tmp_path / "base", "bert"), "graded", SCORED
    for weights in base.rglob("*.safetensors"):
        save_file({name: value.to(dtype) for name, value in load_file(weights).items()}, weights)
    config = read_json(base / "config.json") | {"dtype": str(dtype).removeprefix("torch.")}
    (base / "config.json").write_text(json.dumps(config))
    data = [{"path": "rows.jsonl"} | ({"score_range": [0, 5]} if objective == "graded" else {})]
    schedule = {"steps": 1, "learning_rate": 1e-6, "warmup": 0}
    run(rows, kind=kind, model=str(base), objective={"name": objective}, data=data, schedule=schedule)
    for weights in base.rglob("*.safetensors"):
        before, after = load_file(weights), load_file(tmp_path / "model" / weights.relative_to(base))
        assert {value.dtype for value in after.values()} == {torch.float32}
        assert any((value != before[name]).any() for name, value in after.items()), "half precision has no such step"
    assert read_json(tmp_path / "model" / "config.json")["dtype"] == "float32"


def test_adapters_are_trained_alone_and_merged(run, tmp_path, tiny_model):
    pytest.importorskip("peft")
    run(PAIRS, objective={"name": "info_nce"}, lora={"rank": 2})
    before = load_file(tiny_model("bert") / "model.safetensors")
    after = load_file(tmp_path / "model" / "model.safetensors")
    assert before.keys() == after.keys()
    changed = {name for name in before if not np.array_equal(before[name], after[name])}
    assert changed
    assert all(name.endswith(("query.weight", "value.weight")) for name in changed)
    Encoder(tmp_path / "model").encode("a text")


@pytest.mark.slow
def test_a_cross_encoder_learns_from_negatives_and_reranks(run, tmp_path, tiny_cross_encoder):
    rows = [{**row, "negatives": [f"nothing of the kind {n}"]} for n, row in enumerate(PAIRS)]
    report = run(
        rows,
        kind="cross-encoder",
        model=str(tiny_cross_encoder("bert")),
        objective={"name": "binary"},
        schedule={"steps": 80, "learning_rate": 3e-3},
    )
    assert report.rows == 2 * len(rows)
    reranker = CrossEncoderReranker(tmp_path / "model")
    scores = reranker.score([(row["anchor"], text) for row in rows for text in (row["positive"], row["negatives"][0])])
    assert scores[0::2].mean() > scores[1::2].mean() + 0.2
    assert run_usage((tmp_path / "model" / "README.md").read_text(), tmp_path / "model") == 2


@pytest.mark.slow
def test_the_best_cross_encoder_ranks_positives_above_negatives(run, tmp_path, tiny_cross_encoder):
    rows = [{**row, "negatives": [f"nothing of the kind {n}"]} for n, row in enumerate(PAIRS)]
    dev = [*rows, {**PAIRS[0], "negatives": [PAIRS[0]["positive"], "nothing"]}, {"anchor": "alone", "positive": "b"}]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in dev))
    report = run(
        rows,
        model=str(tiny_cross_encoder("bert")),
        **CROSS_ENCODER,
        schedule={"steps": 60, "learning_rate": 3e-3},
        evaluation={"pairs": "dev.jsonl", "every": 20, "patience": 5},
    )
    scores = CrossEncoderReranker(tmp_path / "model")
    best = [scores.score([(row["anchor"], text) for text in (row["positive"], *row["negatives"])]) for row in rows]
    first = dev[0]["anchor"], (dev[0]["positive"], dev[0]["negatives"][0], "nothing")
    best[0] = scores.score([(first[0], text) for text in first[1]])
    expected = np.mean([1 / (1 + (part[1:] > part[0]).sum()) for part in best])
    assert report.after["pairs.mrr@10"] == pytest.approx(100 * expected, abs=1e-3)
    assert report.before["pairs.mrr@10"] < report.after["pairs.mrr@10"]
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    with pytest.raises(DocumentError, match=r"dev\.jsonl: has no negatives to rank the positives against"):
        run(rows, "other", **CROSS_ENCODER, evaluation={"pairs": "dev.jsonl"})


def test_a_cross_encoder_learns_scores_from_a_bare_encoder(run, tmp_path, tiny_model):
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in SCORED))
    report = run(
        SCORED,
        kind="cross-encoder",
        objective={"name": "graded"},
        data=[{"path": "rows.jsonl", "score_range": [1, 5]}],
        evaluation={"sts": "dev.jsonl", "every": 2},
    )
    assert set(report.after) == {"sts.spearman", "sts.pearson"}
    assert CrossEncoderReranker(tmp_path / "model").score([("a", "b")]).shape == (1,)


@pytest.mark.parametrize("objective", ["graded", "binary"])
def test_a_cross_encoder_learns_from_several_datasets(run, tmp_path, objective):
    """Each batch is of one dataset and asks the others for none of their rows."""
    rows = SCORED_TO_1 if objective == "graded" else [{**row, "negatives": ["nothing"]} for row in PAIRS]
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:8]))
    data = [{"path": "rows.jsonl"}, {"path": "more.jsonl"}]
    report = run(rows, kind="cross-encoder", objective={"name": objective}, data=data)
    assert report.rows == (len(rows) + 8) * (1 if objective == "graded" else 2)


def test_a_cross_encoder_needs_negatives(run, monkeypatch):
    monkeypatch.setattr("twinvec.training.run.building.CrossEncoder", None)  # noticed before a model is loaded
    with pytest.raises(DocumentError, match=r"rows\.jsonl: has no negatives"):
        run(PAIRS, kind="cross-encoder", objective={"name": "binary"})


def test_several_datasets_in_a_batch_with_weights(run, tmp_path):
    (tmp_path / "more.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:5]))
    data = [{"path": "rows.jsonl", "weight": 1}, {"path": "more.jsonl", "weight": 3}]
    assert run(PAIRS, objective={"name": "info_nce"}, data=data, batches={"size": 8, "datasets": 2}).rows == 37
    with pytest.raises(ConfigurationError, match="two datasets are called 'rows'"):
        run(PAIRS, "other", objective={"name": "info_nce"}, data=[{"path": "rows.jsonl"}] * 2)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_tokens": 600}, "max_tokens is 600, but the model has 66 positions"),
        ({"matryoshka": [64]}, "64 is more than the model's 32 dimensions"),
        ({"lora": {"targets": ["query", "nowhere"]}}, "lora.targets: the model has no layer 'nowhere'"),
        ({"lora": {"targets": ["LayerNorm"]}}, "lora: .* not supported"),
    ],
)
def test_what_the_model_cannot_do_is_refused(run, settings, message):
    with pytest.raises(ConfigurationError, match=message):
        run(PAIRS, objective={"name": "info_nce"}, **settings)


@pytest.mark.parametrize("settings", [BI_ENCODER, CROSS_ENCODER], ids=["bi-encoder", "cross-encoder"])
def test_a_limit_below_that_of_the_base_is_told(run, tmp_path, tiny_model, settings, caplog):
    model, rows = str(tiny_model("bert")), [{**row, "negatives": ["nothing"]} for row in PAIRS]
    message = "the trained model will truncate texts to 20 tokens"
    run(rows, "short", model=model, max_tokens=20, **settings, schedule={"steps": 1})
    assert f"{message}; its base model, {model}, reads {LONGEST['bert']} tokens" in caplog.text
    assert "\n| max tokens | 20 |\n" in (tmp_path / "short" / "README.md").read_text()
    caplog.clear()
    run(rows, "long", model=model, max_tokens=LONGEST["bert"], **settings, schedule={"steps": 1})
    assert "its base" not in caplog.text


LONG = [{**row, "positive": row["positive"] + " and so on" * 40, "negatives": ["nothing"]} for row in PAIRS]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
@pytest.mark.parametrize("settings", [BI_ENCODER, CROSS_ENCODER], ids=["bi-encoder", "cross-encoder"])
def test_texts_may_be_as_long_as_the_model_has_positions(run, tmp_path, tiny_model, kind, settings):
    longest, model = LONGEST[kind], str(tiny_model(kind))
    for wanted in (longest, None):
        run(LONG, f"{wanted}", model=model, max_tokens=wanted, **settings, schedule={"steps": 1})
        found = (Encoder if settings is BI_ENCODER else CrossEncoderReranker)(tmp_path / f"{wanted}")
        assert found.max_tokens == longest
    with pytest.raises(ConfigurationError, match=f"max_tokens is {longest + 1}, but the model has {longest} positions"):
        run(LONG, "longer", model=model, max_tokens=longest + 1, **settings)


@pytest.mark.parametrize("labels", [2, 3])
def test_a_classifier_of_other_labels_gets_a_head_of_its_own(run, tmp_path, labels):
    base = build_cross_encoder(tmp_path / "base", "bert", labels=labels)
    run(LONG, model=str(base), **CROSS_ENCODER)
    scores = CrossEncoderReranker(tmp_path / "model").score([("a", "b"), ("how", "so")])
    assert ((scores > 0) & (scores < 1)).all()


def test_training_stops_early_without_a_gain(run, tmp_path):
    (tmp_path / "dev.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    report = run(
        PAIRS,
        objective={"name": "info_nce"},
        schedule={"steps": 50, "learning_rate": 1e-12},
        evaluation={"pairs": "dev.jsonl", "every": 1, "patience": 2},
    )
    assert report.steps < 10
