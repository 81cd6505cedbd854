"""``twinvec train`` and ``twinvec mine``, as a user runs them."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from deaths import Died
from twinvec import CrossEncoderReranker
from twinvec.cli.app import build_app
from twinvec.errors import ConfigurationError, InputError, UnsupportedModelError
from twinvec.support.locks import exclusive_lock
from twinvec.training.mining.output_file import remove_other_vectors
from twinvec.training.mining.pair_file import PairFile

PAIRS = [
    {"anchor": f"question {n} about {topic}", "positive": f"{topic} {n}"} for n in range(6) for topic in ("a", "b")
]


@pytest.fixture
def twinvec():
    """``twinvec(*arguments)``: what the command prints on stdout."""

    def run(*arguments):
        result = CliRunner().invoke(build_app(), list(map(str, arguments)), catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return result.stdout

    return run


@pytest.fixture
def folder(tmp_path, tiny_model):
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS))
    config = {
        "model": str(tiny_model("bert")),
        "objective": {"name": "info_nce"},
        "data": [{"path": "pairs.jsonl"}],
        "batches": {"size": 4},
        "schedule": {"steps": 2},
        "evaluation": {"pairs": "pairs.jsonl"},
        "device": "cpu",
    }
    (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
    return tmp_path


def test_train_prints_scores_before_and_after(twinvec, folder):
    printed = twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert "2 steps over 12 rows" in printed
    assert "pairs.mrr@10: " in printed
    assert (folder / "model" / "model.safetensors").is_file()
    report = json.loads(twinvec("train", folder / "run.yaml", "-o", folder / "model", "--json"))
    assert report["steps"] == 2
    assert report["folder"] == str(folder / "model")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"matryoshka": [64]}, r"matryoshka: 64 is more than the model's 32 dimensions"),
        ({"max_tokens": 5000}, r"max_tokens is 5000, but the model has 66 positions"),
        ({"lora": {"targets": ["nowhere"]}}, r"lora.targets: the model has no layer 'nowhere'"),
        ({"data": [{"path": "pairs.jsonl"}] * 2}, r"data: two datasets are called 'pairs'"),
        ({"evaluation": {"sts": "same.jsonl"}}, r"evaluation\.sts: .*same\.jsonl: sts\.spearman is not a number"),
    ],
)
def test_what_does_not_fit_the_model_or_the_data_is_named_by_file_and_field(folder, settings, message):
    rows = [{"sentence1": row["anchor"], "sentence2": row["positive"], "score": 1} for row in PAIRS]
    (folder / "same.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = yaml.safe_load((folder / "run.yaml").read_text()) | settings
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigurationError, match=rf"run\.yaml: {message}"):
        train(folder)


def test_a_cross_encoder_to_train_as_an_encoder_is_named_by_file_and_field(folder, tiny_cross_encoder):
    config = yaml.safe_load((folder / "run.yaml").read_text()) | {"model": str(tiny_cross_encoder("bert"))}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    with pytest.raises(UnsupportedModelError, match=r"run\.yaml: model: .* the model is a cross-encoder"):
        train(folder)


def train(folder):
    arguments = ["train", str(folder / "run.yaml"), "-o", str(folder / "model")]
    return CliRunner().invoke(build_app(), arguments, catch_exceptions=False)


@pytest.mark.parametrize(
    ("evaluation", "schedule", "end"),
    [
        ({}, {"steps": 2}, ""),
        ({"every": 1}, {"steps": 2, "learning_rate": 1e-12}, "the model is that of step 1, which scored best"),
        (
            {"every": 1, "patience": 2},
            {"steps": 9, "learning_rate": 1e-12},
            "stopped early (patience); the model is that of step 1, which scored best",
        ),
        (
            {"every": 1, "patience": 1},
            {"steps": 2, "learning_rate": 1e-12},
            "the model is that of step 1, which scored best",
        ),
        (
            {"every": 1, "patience": 1},
            {"epochs": 0.5, "learning_rate": 1e-12},
            "the model is that of step 1, which scored best",
        ),
    ],
    ids=["before and after", "on the way", "patience", "patience at the last step", "patience at the end of epochs"],
)
def test_train_says_why_it_ended_and_which_step_is_the_model(twinvec, folder, evaluation, schedule, end):
    config = yaml.safe_load((folder / "run.yaml").read_text())
    config |= {"schedule": schedule, "evaluation": {"pairs": "pairs.jsonl", **evaluation}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    first, second = twinvec("train", folder / "run.yaml", "-o", folder / "model").splitlines()[:2]
    assert re.fullmatch(rf".*/model: {3 if 'patience' in end else 2} steps over 12 rows in \d+ s", first)
    assert second == f"  {end}" if end else second.startswith("  pairs.")


def test_batches_that_were_far_below_their_size_are_in_the_summary(twinvec, folder):
    few = [{**row, "positive": f"{n % 3}"} for n, row in enumerate(PAIRS)]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in few))
    config = yaml.safe_load((folder / "run.yaml").read_text()) | {"batches": {"size": 8}, "evaluation": None}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    printed = twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert printed.splitlines()[1:] == ["  a batch had 3.0 of 8 rows, on average"]
    assert "; a batch had 3.0 of 8 rows, on average |" in (folder / "model" / "README.md").read_text()
    assert json.loads(twinvec("train", folder / "run.yaml", "-o", folder / "model", "--json"))["rows_drawn"] == 6


def test_the_classes_of_softmax_are_in_the_summary(twinvec, folder):
    rows = [
        {"sentence1": row["anchor"], "sentence2": row["positive"], "label": n % 2} for n, row in enumerate(PAIRS * 2)
    ]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    config = yaml.safe_load((folder / "run.yaml").read_text()) | {"objective": {"name": "softmax"}, "evaluation": None}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    printed = twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert printed.splitlines()[1:] == ["  2 classes: '0' 12, '1' 12"]
    report = json.loads(twinvec("train", folder / "run.yaml", "-o", folder / "model", "--json"))
    assert report["classes"] == {"0": 12, "1": 12}


def test_a_cross_encoder_counts_pairs(twinvec, folder, tiny_cross_encoder):
    (folder / "rows.jsonl").write_text("".join(json.dumps(row | {"negatives": ["x", "y"]}) + "\n" for row in PAIRS))
    config = yaml.safe_load((folder / "run.yaml").read_text())
    other = {"model": str(tiny_cross_encoder("bert")), "kind": "cross-encoder", "objective": {"name": "binary"}}
    (folder / "run.yaml").write_text(
        yaml.safe_dump(config | other | {"data": [{"path": "rows.jsonl"}]} | {"evaluation": None})
    )
    assert "2 steps over 36 pairs in " in twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert "| dataset | pairs |\n|---|---|\n| rows | 36 |" in (folder / "model" / "README.md").read_text()


def test_warnings_come_from_one_process(twinvec, folder, caplog, monkeypatch):
    logger = logging.getLogger("twinvec")
    level = logger.level
    try:
        for rank, warnings in (("0", 0), ("1", 0), ("0", 1)):
            monkeypatch.setenv("RANK", rank)
            caplog.clear()
            twinvec("train", folder / "run.yaml", "-o", folder / "model")
            assert sum("has finished already" in record.message for record in caplog.records) == warnings
            logger.setLevel(level)
    finally:
        logger.setLevel(level)


def test_what_train_prints_as_json_is_json_alone(twinvec, folder):
    report = json.loads(twinvec("train", folder / "run.yaml", "-o", folder / "model", "--json"))
    assert set(report["before"]) == set(report["after"]) == {"pairs.mrr@10", "pairs.accuracy@1"}


@pytest.mark.slow
def test_what_libraries_print_is_not_on_standard_output(folder):
    """With this variable, transformers prints a line when it is imported."""
    command = [sys.executable, "-m", "twinvec", "train", folder / "run.yaml", "-o", folder / "model", "--json"]
    done = subprocess.run(command, env={**os.environ, "WANDB_MODE": "offline"}, capture_output=True, text=True)
    assert "offline" in done.stderr
    assert json.loads(done.stdout)["steps"] == 2


def test_a_folder_in_use_is_refused_before_the_libraries_are_imported(folder, monkeypatch):
    imported = []
    monkeypatch.setattr("twinvec.training.run.train.import_extra", lambda package, *_: imported.append(package))
    (folder / "model").mkdir()
    with (
        exclusive_lock(folder / "model" / "training.lock", "busy"),
        pytest.raises(ConfigurationError, match="another process is training into it"),
    ):
        CliRunner().invoke(
            build_app(), ["train", str(folder / "run.yaml"), "-o", str(folder / "model")], catch_exceptions=False
        )
    assert imported == []


def test_mine_writes_rows_that_train_takes(twinvec, folder, tiny_model, tiny_cross_encoder):
    rows = folder / "rows.jsonl"
    options = ("--model", tiny_model("bert"), "--negatives", 2, "--denoise", tiny_cross_encoder("bert"))
    report = json.loads(twinvec("mine", folder / "pairs.jsonl", "-o", rows, *options, "--denoise-above", 1, "--json"))
    assert report == {"rows": 12, "negatives": 24, "without": 0, "unfound": 0}
    assert len(rows.read_text().splitlines()) == 12
    config = yaml.safe_load((folder / "run.yaml").read_text()) | {"data": [{"path": "rows.jsonl"}]}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert not list(folder.glob("*.npy")), "vectors are of no use when mining is done"


def test_mine_writes_the_scores_from_which_train_distils(twinvec, folder, tiny_model, tiny_cross_encoder, caplog):
    teacher = tiny_cross_encoder("bert")
    options = ("--model", tiny_model("bert"), "--negatives", 2, "--denoise", teacher)
    given = ("mine", folder / "pairs.jsonl", "-o")
    twinvec(*given, folder / "plain.jsonl", *options, "--denoise-above", 1)
    twinvec(*given, folder / "scored.jsonl", *options, "--denoise-above", 1, "--scores")
    plain, rows = (
        [json.loads(line) for line in (folder / name).read_text().splitlines()]
        for name in ("plain.jsonl", "scored.jsonl")
    )
    assert [{name: row[name] for name in row if name != "scores"} for row in rows] == plain
    reranker = CrossEncoderReranker(teacher)
    for row in rows:
        logits = reranker.logits([(row["anchor"], text) for text in [row["positive"], *row["negatives"]]])
        assert row["scores"] == pytest.approx(logits.tolist(), abs=1e-5)
    config = yaml.safe_load((folder / "run.yaml").read_text())
    config |= {"data": [{"path": "scored.jsonl"}], "objective": {"name": "margin_mse", "scale": 10}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    assert "2 steps over 12 rows" in twinvec("train", folder / "run.yaml", "-o", folder / "model")
    assert "objective.scale" not in caplog.text


def test_train_takes_scored_rows_although_denoising_leaves_some_without_negatives(
    twinvec, folder, tiny_model, tiny_cross_encoder
):
    teacher = tiny_cross_encoder("bert")
    pairs = [(row["anchor"], other["positive"]) for row in PAIRS for other in PAIRS if row is not other]
    relevance = CrossEncoderReranker(teacher).relevance_counted(pairs)[0]
    least = sorted(relevance.reshape(len(PAIRS), -1).min(axis=1).tolist())
    above = (least[5] + least[6]) / 2  # half of the anchors have a text that is below
    options = ("--model", tiny_model("bert"), "--denoise", teacher, "--denoise-above", above, "--scores")
    said = twinvec("mine", folder / "pairs.jsonl", "-o", folder / "scored.jsonl", *options)
    assert "for 12 rows; 6 rows have none and are left out" in said
    config = yaml.safe_load((folder / "run.yaml").read_text())
    config |= {"data": [{"path": "scored.jsonl"}], "objective": {"name": "margin_mse"}}
    (folder / "run.yaml").write_text(yaml.safe_dump(config))
    assert "2 steps over 6 rows" in twinvec("train", folder / "run.yaml", "-o", folder / "model")


def test_mine_searches_a_collection(twinvec, folder, tiny_model):
    qdrant = pytest.importorskip("twinvec_qdrant")
    from twinvec import Encoder

    encoder = Encoder(tiny_model("bert"))
    with qdrant.Collection.open("texts", path=folder / "store", encoder=encoder) as collection:
        collection.ingest([{"id": str(n), "text": row["positive"]} for n, row in enumerate(PAIRS)])
    rows = folder / "rows.jsonl"
    twinvec("mine", folder / "pairs.jsonl", "-o", rows, "--collection", "texts", "--path", folder / "store")
    found = [json.loads(line) for line in rows.read_text().splitlines()]
    assert all(len(row["negatives"]) == 4 and row["positive"] not in row["negatives"] for row in found)
    (folder / "pairs.jsonl").write_text('{"anchor": "where is it", "positive": "nowhere in the collection"}\n')
    rows.unlink()
    said = twinvec("mine", folder / "pairs.jsonl", "-o", rows, "--collection", "texts", "--path", folder / "store")
    assert "4 negatives for 1 rows; 0 rows have none; the positives of 1 rows are not among the hits" in said


TOPICS = ("files", "dogs", "rain", "money", "music")


@pytest.fixture
def chunked(tmp_path, tiny_model):
    """Documents in chunks in ``store``, and pairs of a question with a whole document."""
    qdrant = pytest.importorskip("twinvec_qdrant")
    from twinvec import Encoder

    texts = {each: " ".join(f"Part {n} is about {each} and what is in it." for n in range(12)) for each in TOPICS}
    with qdrant.Collection.open("docs", path=tmp_path / "store", encoder=Encoder(tiny_model("bert"))) as collection:
        collection.ingest([{"id": each, "title": f"All of {each}", "text": text} for each, text in texts.items()])
        assert collection.count() > 3 * len(TOPICS)
    rows = [{"id": n, "anchor": f"what is in {each}", "positive": text} for n, (each, text) in enumerate(texts.items())]
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


@pytest.mark.parametrize("margin", [(), ("--margin", "-2")])
def test_mine_judges_chunks_by_the_documents_they_are_of(twinvec, chunked, margin):
    rows = chunked / "rows.jsonl"
    options = ("--collection", "docs", "--path", chunked / "store", "--json", *margin)
    report = json.loads(twinvec("mine", chunked / "questions.jsonl", "-o", rows, *options))
    assert report == {"rows": 5, "negatives": 20, "without": 0, "unfound": 0}
    for number, row in enumerate(map(json.loads, rows.read_text().splitlines())):
        assert row["id"] == number
        bodies = row["negatives"]
        assert not any("All of" in body for body in bodies), "the positives have no heading"
        assert len({body.split()[4] for body in bodies}) == 4
        assert not any(body in row["positive"] for body in bodies)


def test_mine_finds_a_positive_that_is_not_the_best_chunk_of_its_document(twinvec, chunked, caplog):
    from twinvec_qdrant import Collection

    rows = chunked / "rows.jsonl"
    with Collection.open("docs", path=chunked / "store") as collection:
        pairs = [
            (f"what is in {each}", collection.search(each, group=False, filter={"source": each})) for each in TOPICS
        ]
    asked = [{"anchor": anchor, "positive": hit.text} for anchor, hits in pairs for hit in hits]
    assert len(asked) > 3 * len(TOPICS)
    (chunked / "questions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in asked))
    options = ("--collection", "docs", "--path", chunked / "store", "--json")
    report = json.loads(twinvec("mine", chunked / "questions.jsonl", "-o", rows, *options))
    assert report == {"rows": len(asked), "negatives": 4 * len(asked), "without": 0, "unfound": 0}
    assert "not among the hits" not in caplog.text
    for row in map(json.loads, rows.read_text().splitlines()):
        assert all(text.startswith("All of ") for text in (row["positive"], *row["negatives"]))
        assert len({text.split()[2] for text in (row["positive"], *row["negatives"])}) == 5


@pytest.mark.slow
def test_mine_does_not_go_on_in_another_store(twinvec, chunked, monkeypatch):
    def die(*_, **__):
        raise RuntimeError("killed")

    arguments = ("mine", chunked / "questions.jsonl", "-o", chunked / "rows.jsonl", "--collection", "docs", "--path")
    with monkeypatch.context() as patched:
        patched.setattr("twinvec.training.mining.output_file.MinedFile.finish", die)
        with pytest.raises(RuntimeError, match="killed"):
            twinvec(*arguments, chunked / "store")
    shutil.copytree(chunked / "store", chunked / "other")
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl\.partial: belongs to .* another model or collection"):
        twinvec(*arguments, chunked / "other")
    twinvec(*arguments, chunked / "store")


def test_mine_does_not_go_on_with_another_model(twinvec, folder, tiny_model, monkeypatch):
    def die(*_):
        raise RuntimeError("killed")

    rows = folder / "rows.jsonl"
    arguments = ("mine", folder / "pairs.jsonl", "-o", rows, "--model")
    with monkeypatch.context() as patched:
        patched.setattr("twinvec.Encoder.encode_document", die)
        with pytest.raises(RuntimeError, match="killed"):
            twinvec(*arguments, tiny_model("bert"))
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl\.partial: belongs to .* another model"):
        twinvec(*arguments, tiny_model("roberta"))
    (folder / "rows.jsonl.partial").unlink()  # as the version before left the folder
    twinvec(*arguments, tiny_model("bert"))
    assert len(rows.read_text().splitlines()) == len(PAIRS)
    assert not list(folder.glob("*.partial"))


@pytest.fixture
def cut_off(twinvec, folder, tiny_model, monkeypatch):
    """``cut_off()``: mine, die at the first text to encode, and start over; return the vectors that are left."""

    def die(*_):
        raise RuntimeError("killed")

    def run():
        with monkeypatch.context() as patched:
            patched.setattr("twinvec.Encoder.encode_document", die)
            with pytest.raises(RuntimeError, match="killed"):
                twinvec("mine", folder / "pairs.jsonl", "-o", folder / "rows.jsonl", "--model", tiny_model("bert"))
        (folder / "rows.jsonl.partial").unlink()  # as the message asks
        left = next(folder.glob("rows.jsonl.*.npy.partial"))
        left.with_suffix("").with_suffix(".lock").touch()  # as a killed process leaves it
        return left

    return run


@pytest.mark.parametrize("into", ["the positives", "a collection"])
def test_starting_over_leaves_nothing_of_the_run_before(twinvec, folder, tiny_model, cut_off, into):
    left = cut_off()
    for name in ("rows.jsonl.0123456789abcdef.npy", "rows.jsonl.notes.npy", "other.jsonl.0123456789abcdef.npy"):
        (folder / name).touch()
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in PAIRS[:8]))
    where = ("--model", tiny_model("bert"))
    if into == "a collection":
        qdrant = pytest.importorskip("twinvec_qdrant")
        from twinvec import Encoder

        with qdrant.Collection.open("texts", path=folder / "store", encoder=Encoder(tiny_model("bert"))) as collection:
            collection.ingest([{"id": str(n), "text": row["positive"]} for n, row in enumerate(PAIRS)])
        where = ("--collection", "texts", "--path", folder / "store")
    twinvec("mine", folder / "pairs.jsonl", "-o", folder / "rows.jsonl", *where)
    assert not left.exists()
    kept = {path.name for path in folder.iterdir() if path.suffix in (".npy", ".lock", ".partial")}
    assert kept == {"rows.jsonl.notes.npy", "other.jsonl.0123456789abcdef.npy"}


def test_a_kill_after_the_output_was_complete_leaves_no_vectors(twinvec, folder, tiny_model, monkeypatch):
    def killed(path, **options):
        if path.suffix == ".npy":
            raise Died
        unlink(path, **options)

    arguments = ("mine", folder / "pairs.jsonl", "-o", folder / "rows.jsonl", "--model", tiny_model("bert"))
    before, unlink = set(folder.iterdir()), Path.unlink
    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", killed)
        with pytest.raises(Died):
            twinvec(*arguments)
    (folder / "rows.jsonl.lock").touch()  # left if the kill came a moment earlier
    mined = (folder / "rows.jsonl").read_bytes()
    with pytest.raises(ConfigurationError, match=r"rows\.jsonl: exists already"):
        twinvec(*arguments)
    assert set(folder.iterdir()) - before == {folder / "rows.jsonl"}
    assert (folder / "rows.jsonl").read_bytes() == mined


def test_vectors_that_another_process_encodes_stay(folder, cut_off):
    left = cut_off()
    with exclusive_lock(left.with_suffix("").with_suffix(".lock"), "in use"):
        remove_other_vectors(folder / "rows.jsonl")
    assert left.exists()
    remove_other_vectors(folder / "rows.jsonl", left.with_suffix(""))
    assert left.exists()
    remove_other_vectors(folder / "rows.jsonl")
    assert not left.exists()


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".parquet"])
def test_mine_says_what_it_reads(folder, tiny_model, suffix):
    (folder / f"pairs{suffix}").write_text("anchor,positive\na,b\n")
    arguments = ["mine", folder / f"pairs{suffix}", "-o", folder / "rows.jsonl", "--model", tiny_model("bert")]
    with pytest.raises(
        InputError, match=rf"pairs{suffix}: is a table; mining reads one JSON object a line, with 'anchor'"
    ):
        CliRunner().invoke(build_app(), list(map(str, arguments)), catch_exceptions=False)
    assert not list(folder.glob("rows.jsonl*"))
    (folder / "pairs.txt").write_text("anchor,positive\na,b\n")
    with pytest.raises(InputError, match=r"pairs\.txt, row 1: not JSON: .*; mining reads one JSON object a line"):
        PairFile(folder / "pairs.txt")


def test_pairs_that_cannot_be_read_leave_nothing_behind(twinvec, folder, tiny_model):
    arguments = ("mine", folder / "pairs.jsonl", "-o", folder / "rows.jsonl", "--model", tiny_model("bert"))
    good = (folder / "pairs.jsonl").read_text()
    (folder / "pairs.jsonl").write_text(good + '{"anchor": "a"}\n')
    with pytest.raises(InputError, match="row 13"):
        twinvec(*arguments)
    (folder / "pairs.jsonl").write_text(good)
    twinvec(*arguments)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--path", "store"), "give --collection"),
        (("--url", "http://localhost:1"), "give --collection"),
        (("--collection", "a", "--path", "store", "--url", "http://localhost:1"), "not both"),
        (("--denoise-above", "0.2"), "needs --denoise"),
        (("--scores",), "needs --denoise"),
        (("--negatives", "0"), "--negatives"),
        (("--first-rank", "9", "--last-rank", "3"), "1 <= first_rank <= last_rank"),
    ],
)
def test_mine_refuses_options_that_would_not_be_heard(folder, options, message):
    arguments = ["mine", str(folder / "pairs.jsonl"), "-o", str(folder / "rows.jsonl"), *options]
    result = CliRunner().invoke(build_app(), arguments)
    assert result.exit_code == 2
    assert message in result.output


def test_mine_refuses_before_it_encodes(folder, tiny_model, monkeypatch):
    def encode(*_, **__):
        raise AssertionError("nothing was to be encoded")

    monkeypatch.setattr("twinvec.Encoder.encode_document", encode)
    (folder / "rows.jsonl.partial").write_text('{"job": "another"}\n')
    for output, message in (("pairs.jsonl", "would overwrite"), (".", "is a folder"), ("rows.jsonl", "belongs to")):
        arguments = ["mine", folder / "pairs.jsonl", "-o", folder / output, "--model", tiny_model("bert")]
        with pytest.raises(ConfigurationError, match=message):
            CliRunner().invoke(build_app(), list(map(str, arguments)), catch_exceptions=False)


@pytest.mark.parametrize(
    "arguments", [("train", "lost.yaml", "-o", "model"), ("mine", "lost.jsonl", "-o", "rows.jsonl")]
)
def test_a_file_that_does_not_exist_is_named(arguments):
    with pytest.raises(ConfigurationError, match=r"lost\.\w+: no such file"):
        CliRunner().invoke(build_app(), list(arguments), catch_exceptions=False)


@pytest.mark.parametrize("arguments", [("train", ".", "-o", "model"), ("mine", ".", "-o", "rows.jsonl")])
def test_a_folder_in_place_of_a_file_is_called_a_folder(arguments):
    with pytest.raises(ConfigurationError, match=r"^\.: is a folder; name a file$"):
        CliRunner().invoke(build_app(), list(arguments), catch_exceptions=False)
