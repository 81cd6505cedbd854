"""The commands ``evaluate``, ``compare``, ``pairs`` and ``cluster``, as a user runs them."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from types import SimpleNamespace

import ir_measures
import pytest
from matplotlib.image import imread

from twinvec import encoder as encoders
from twinvec.cli import evaluate as commands
from twinvec.cli import options
from twinvec.errors import ConfigurationError
from twinvec.evaluation import serving
from twinvec.evaluation.beir import load_beir
from twinvec.evaluation.measures import MEASURES
from twinvec.evaluation.sts import evaluate_sts, load_sts
from twinvec_qdrant import Collection

STS = "score\tsentence1\tsentence2\n5\tA cat sleeps.\tThe cat is asleep.\n2\tA cat sleeps.\tA dog barks.\n0\tA\tBread\n"
TEXTS = ["A cat sleeps.", "The cat is asleep.", "A kitten is sleeping.", "Stocks fell sharply today.", "A cat sleeps."]


@pytest.fixture(scope="module")
def model(tiny_model):
    return tiny_model("bert")


def test_evaluate_prints_one_object_in_the_agreed_shape(twinvec, write, beir, model):
    sts = write("stsb/test.tsv", STS)
    done = twinvec("evaluate", model, "--sts", sts, "--ir", beir, "--json")
    assert (done.code, done.err) == (0, "")
    figures = json.loads(done.out)
    assert figures["model"] == str(model)
    assert {"spearman", "pearson", "spearman_dot", "pearson_manhattan", "rows"} < set(figures["sts"]["stsb/test"])
    assert set(MEASURES) < set(figures["ir"]["small"])
    assert -100 <= figures["sts"]["stsb/test"]["spearman"] <= 100
    low, high = figures["ir"]["small"]["ndcg@10_interval"]
    assert 0 <= low <= figures["ir"]["small"]["ndcg@10"] <= high <= 100


def test_evaluate_prints_tables_for_people(twinvec, write, beir, model):
    files = [write(f"{name}/test.tsv", STS) for name in ("one", "two")]
    done = twinvec("evaluate", model, "--sts", files[0], "--sts", files[1], "--ir", beir, "--measures", "ndcg@5")
    assert done.code == 0
    for part in ("STS:", "one/test", "two/test", "mean", "Retrieval:", "ndcg@5"):
        assert part in done.out


@pytest.mark.parametrize("system", ["bm25", "model"])
def test_questions_are_measured_by_the_given_measures(twinvec, write, model, system):
    questions = write("q.tsv", "anchor\tpositive\nwho is me\tme\nwhere is here\there\n")
    arguments = ["evaluate", model if system == "model" else system, "--questions", questions, "--json"]
    for more, expected in (
        ([], {"precision@1", "mrr@10", "ndcg@10", "recall@10"}),
        (["--measures", "recall@2,mrr@1"], {"recall@2", "mrr@1"}),
    ):
        [found] = json.loads(twinvec(*arguments, *more).out)["questions"].values()
        assert {name for name in found if "@" in name and "interval" not in name} == expected


@pytest.mark.slow
def test_every_kind_of_task_is_measured(twinvec, write, model):
    arguments = [
        ("--nli", "label\tpremise\thypothesis\n" + "".join(f"{'ab'[n % 2]}\tp {n}\th {n}\n" for n in range(20))),
        ("--pairs", "label\tsentence1\tsentence2\n1\ta cat\tthe cat\n0\ta cat\tthe moon\n"),
        ("--triplets", "anchor\tpositive\tnegative\na cat\tthe cat\tthe moon\n"),
        ("--questions", "anchor\tpositive\nwho\tme\nwhere\there\n"),
    ]
    given = [each for option, content in arguments for each in (option, write(f"{option[2:]}.tsv", content))]
    done = twinvec("evaluate", model, *given, "--json")
    figures = json.loads(done.out)
    assert set(figures) == {"model", "nli", "pairs", "triplets", "questions"}
    assert all(len(sets) == 1 for name, sets in figures.items() if name != "model")


def test_runs_are_written_for_other_tools(twinvec, beir, model, tmp_path):
    done = twinvec("evaluate", model, "--ir", beir, "--runs", tmp_path / "runs", "--json")
    (file,) = (tmp_path / "runs").iterdir()
    figures = json.loads(done.out)["ir"]["small"]
    qrels = [
        ir_measures.Qrel(query, document, int(score))
        for query, document, score in (line.split() for line in (beir / "qrels/test.tsv").read_text().split("\n")[1:-1])
    ]
    run = ir_measures.read_trec_run(str(file))
    by_hand = ir_measures.calc_aggregate([ir_measures.nDCG @ 10], qrels, run)
    assert figures["ndcg@10"] == pytest.approx(100 * by_hand[ir_measures.nDCG @ 10])
    assert json.loads(twinvec("evaluate", f"run:{file}", "--ir", beir, "--json").out)["ir"]["small"] == figures


def test_the_runs_of_one_folder_keep_their_systems_apart(twinvec, beir, store, tmp_path):
    runs = ("--ir", beir, "--runs", tmp_path / "runs")
    collection = ("--collection", "small", "--path", store)
    for arguments in (["bm25"], [*collection, "--mode", "dense"], [*collection, "--mode", "sparse"]):
        assert twinvec("evaluate", *arguments, *runs).code == 0
    files = {path.name.split(".", 1)[1]: path.read_text().splitlines() for path in (tmp_path / "runs").iterdir()}
    assert len(files) == 3
    assert "bm25.trec" in files
    for name, lines in files.items():
        assert {line.split()[5] + ".trec" for line in lines} == {name}


@pytest.mark.slow
def test_vectors_are_measured_in_fewer_bytes(twinvec, beir, model, tmp_path):
    done = twinvec("evaluate", model, "--ir", beir, "--forms", tmp_path / "costs.png", "--json")
    forms = json.loads(done.out)["forms"]["small"]
    assert forms["float32"]["bytes"] == 4 * forms["int8"]["bytes"]
    assert imread(tmp_path / "costs.png").shape[0] > 100
    assert "small, kept as" in twinvec("evaluate", model, "--ir", beir, "--forms", tmp_path / "costs.png").out


def test_outputs_are_checked_before_anything_is_encoded(twinvec, beir, make_beir, model, write, monkeypatch):
    monkeypatch.setattr("twinvec.Encoder.encode", lambda *_, **__: pytest.fail("texts are encoded"))
    file, folder = write("file", ""), beir
    spaced = make_beir("spaced", queries={"q 1": "moon"}, qrels={"q 1": {"moon": 1}})
    for arguments, said in (
        (["evaluate", model, "--ir", beir, "--runs", file], f"{file}: the folder cannot be made"),
        (["evaluate", model, "--ir", spaced, "--runs", folder], "a TREC run cannot hold the id 'q 1'"),
        (["evaluate", model, "--ir", beir, "--forms", folder], f"{folder}: is a folder; name a file"),
        (["compare", model, "bm25", "-o", file, "--ir", beir], f"{file}: the folder cannot be made"),
    ):
        done = twinvec(*arguments)
        assert (done.code, done.out) == (1, "")
        assert said in done.err


@pytest.fixture
def store(tmp_path, model, beir):
    from twinvec import Encoder
    from twinvec.evaluation.beir import load_beir

    with Collection.open("small", tmp_path / "store", encoder=Encoder(model)) as opened:
        opened.ingest(load_beir(beir).documents)
    return tmp_path / "store"


def test_a_collection_is_measured_as_it_answers(twinvec, beir, model, store):
    done = twinvec("evaluate", "--collection", "small", "--path", store, "--ir", beir, "--mode", "dense", "--json")
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert (figures["collection"], figures["mode"]) == ("small", "dense")
    served = figures["ir"]["small"]
    direct = json.loads(twinvec("evaluate", model, "--ir", beir, "--json").out)["ir"]["small"]
    assert {name: served[name] for name in MEASURES} == pytest.approx({name: direct[name] for name in MEASURES})
    assert served["neighbours@10"] == 100
    assert served["ms_p50"] > 0


def test_the_documents_of_a_collection_need_no_corpus(twinvec, beir, store, model, tmp_path):
    place = ("--collection", "small", "--path", store, "--ir", beir)
    with_corpus = json.loads(twinvec("evaluate", *place, "--json").out)["ir"]["small"]
    (beir / "corpus.jsonl").unlink()
    done = twinvec("evaluate", *place, "--rerank", "maxsim", "--runs", tmp_path / "runs", "--json")
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    assert {name: figures["ir"]["small"][name] for name in MEASURES} == {name: with_corpus[name] for name in MEASURES}
    assert figures["reranked"]["small"]["queries"] == 3
    refused = twinvec("evaluate", model, "--ir", beir)
    assert (refused.code, "corpus.jsonl: missing; the BEIR layout is" in refused.err) == (1, True)
    assert "twinvec evaluate --collection reads the documents from a collection" in refused.err
    with Collection.open("small", store) as opened:
        opened.ingest([("an id", "with a space")])
    assert "cannot hold the id 'an id'" in twinvec("evaluate", *place, "--runs", tmp_path / "runs").err
    with Collection.open("small", store) as opened:
        opened.delete(opened.find())
        opened.ingest([("x", "another document")])
    refused = twinvec("evaluate", *place)
    assert (refused.code, "holds none of the 4 relevant documents" in refused.err) == (1, True)


def test_judged_documents_that_a_collection_lacks_are_told(twinvec, beir, store, caplog):
    place = ("--collection", "small", "--path", store, "--ir", beir)
    assert twinvec("evaluate", *place, "--json").code == 0
    assert "lacks" not in caplog.text
    with Collection.open("small", store) as opened:
        opened.delete(["tides"])
    assert twinvec("evaluate", *place, "--json").code == 0
    assert "small: the collection lacks 1 of the 4 relevant documents, such as 'tides'; they count as" in caplog.text


def test_what_reranking_gains_is_told(twinvec, beir, model):
    done = twinvec("evaluate", model, "--ir", beir, "--rerank", "maxsim", "--candidates", 2, "--json")
    assert done.code == 0, done.err
    figures = json.loads(done.out)
    before, after = figures["ir"]["small"], figures["reranked"]["small"]
    assert after["gain"] == pytest.approx(after["ndcg@10"] - before["ndcg@10"])
    assert after["gain_interval"][0] <= after["gain"] <= after["gain_interval"][1]
    assert set(MEASURES) < set(after)
    assert after["recall@10"] == before["recall@10"] == 100  # the three hits behind two candidates are kept
    assert "Retrieval, reranked: " in twinvec("evaluate", model, "--ir", beir, "--rerank", "maxsim").out


def test_reranking_behind_words_and_behind_a_collection(twinvec, beir, model, store, tiny_cross_encoder):
    reranker = tiny_cross_encoder("bert")
    words = json.loads(twinvec("evaluate", "bm25", "--ir", beir, "--rerank", reranker, "--json").out)
    assert words["reranked"]["small"]["queries"] == 3
    place = ("--collection", "small", "--path", store, "--ir", beir)
    served = json.loads(twinvec("evaluate", *place, "--rerank", "maxsim", "--json").out)["reranked"]["small"]
    assert served["ms_p50"] > 0
    assert "p_value" in served
    refused = twinvec("evaluate", "bm25", "--ir", beir, "--rerank", "maxsim")
    assert refused.code == 1
    assert "maxsim compares token states, and bm25 has none" in refused.err


def test_the_reranker_of_the_settings_is_measured_with_a_collection(twinvec, beir, model, store, monkeypatch):
    monkeypatch.chdir(store.parent)
    (store.parent / "twinvec.toml").write_text("rerank = 'maxsim'\npath = 'store'\n")
    of_collection = ("--collection", "small", "--ir", beir, "--json")
    assert "small" in json.loads(twinvec("evaluate", *of_collection).out)["reranked"]
    assert "reranked" not in json.loads(twinvec("evaluate", *of_collection, "--rerank", "none").out)
    assert "reranked" not in json.loads(twinvec("evaluate", model, "--ir", beir, "--json").out)
    assert twinvec("evaluate", "bm25", "--ir", beir).code == 0


def test_no_column_is_lost_where_the_output_is_no_terminal(twinvec, write, model):
    figures = json.loads(twinvec("evaluate", model, "--sts", write("s.tsv", STS), "--json").out)["sts"]
    shown = twinvec("evaluate", model, "--sts", write("s.tsv", STS)).out
    (row,) = figures.values()
    for name, value in row.items():
        if not name.endswith("_interval"):
            assert f"{value:.2f}" in shown or f"{value:,}" in shown
    assert "…" not in shown


@pytest.mark.slow
def test_a_narrow_terminal_gets_the_measures_as_lines(on_terminal, beir):
    shown = on_terminal(50, "evaluate", "bm25", "--ir", beir)
    lines = dict(line.split(maxsplit=1) for line in shown.splitlines() if line.strip().count(" ") > 0)
    assert set(MEASURES) < set(lines)
    assert all(line.rstrip() == line[:50].rstrip() for line in shown.splitlines())


@pytest.mark.slow
def test_a_collection_is_measured_with_other_indexes(twinvec, beir, store, tmp_path, monkeypatch):
    few = {"float32": serving.INDEXES["float32"]}
    monkeypatch.setitem(serving.evaluate_indexes.__kwdefaults__, "indexes", few)
    place = ("--collection", "small", "--path", store, "--ir", beir)
    done = twinvec("evaluate", *place, "--forms", tmp_path / "costs.png", "--json")
    assert done.code == 0, done.err
    forms = json.loads(done.out)["forms"]["small"]
    assert list(forms) == ["float32"]
    assert forms["float32"]["neighbours@10"] == 100
    assert imread(tmp_path / "costs.png").shape[0] > 100


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--sts", "no.tsv"], "give MODEL or --collection"),
        (["--collection", "c"], "give --ir"),
        (["default", "--forms", "costs.png"], "give --ir"),
        (["default", "--rerank", "maxsim"], "--rerank reranks the hits of retrieval sets: give --ir"),
        (["default", "--nli-train", "no.tsv"], "--nli-train fits the head that --nli measures: give --nli"),
        (["bm25"], "nothing to evaluate on"),
        (
            ["bm25", "--ir", "BEIR", "--forms", "costs.png"],
            "--forms measures forms of vectors, and bm25 has no vectors",
        ),
    ],
)
def test_wrong_usage_is_2(twinvec, write, beir, arguments, said):
    files = {"no.tsv": str(write("s.tsv", STS)), "BEIR": str(beir)}
    arguments = [files.get(each, each) for each in arguments]
    if arguments[0] == "default":
        arguments += ["--sts", str(write("s.tsv", STS))]
    done = twinvec("evaluate", *arguments)
    assert done.code == 2
    assert said in " ".join(done.err.replace("│", " ").split())  # the panel of an error wraps its lines


def test_errors_name_file_and_line_and_leave_1(twinvec, write, model):
    bad = write("bad.tsv", STS + "many\ta\tb\n")
    done = twinvec("evaluate", model, "--sts", bad, "--json")
    assert (done.code, done.out) == (1, "")
    assert f"{bad}:5: score 'many' is not a number" in done.err


@pytest.mark.slow
def test_nothing_is_said_of_what_goes_on_within(beir):
    """In a process of its own: what libraries log is for their developers."""
    program = "from twinvec.cli.app import main; main()"
    command = [sys.executable, "-c", program, "evaluate", "bm25", "--ir", str(beir), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=True)
    assert done.stderr == ""
    assert json.loads(done.stdout)["model"] == "bm25"


def test_compare_writes_a_report(twinvec, write, model, tmp_path):
    sts = write("s/test.tsv", STS)
    done = twinvec("compare", model, f"cls:{model}", "-o", tmp_path / "report", "--sts", sts, "--json")
    figures = json.loads(done.out)
    assert [each["model"] for each in figures["models"]] == [str(model), f"cls:{model}"]
    assert (tmp_path / "report" / "report.html").stat().st_size > 1000
    assert str(tmp_path / "report" / "report.md") in figures["files"]


@pytest.mark.slow
def test_pairs_are_found_among_different_texts(twinvec, write):
    source = write("texts.txt", "\n".join(TEXTS) + "\n")
    figures = json.loads(twinvec("pairs", source, "--limit", 3, "--json").out)
    assert figures["texts"] == 4
    assert next((pair["first"], pair["second"]) for pair in figures["pairs"]) == (TEXTS[0], TEXTS[1])
    scores = [pair["score"] for pair in figures["pairs"]]
    assert scores == sorted(scores, reverse=True)
    assert len(json.loads(twinvec("pairs", source, "--threshold", 0.999, "--json").out)["pairs"]) == 0
    assert TEXTS[1] in twinvec("pairs", source).out


@pytest.mark.slow
def test_clusters_are_named_and_mapped(twinvec, write, tmp_path):
    source = write("texts.jsonl", "".join(json.dumps({"text": text}) + "\n" for text in TEXTS))
    options = ("--threshold", 0.5, "--min-size", 2, "--map", tmp_path / "map.png")
    figures = json.loads(twinvec("cluster", source, *options, "--json").out)
    assert [sorted(each["texts"]) for each in figures["clusters"]] == [sorted(TEXTS[:3])]
    assert figures["clusters"][0]["typical"] in TEXTS[:3]
    assert figures["alone"] == [TEXTS[3]]
    assert imread(tmp_path / "map.png").shape[0] > 100
    assert "1 cluster, 1 of 4 texts alone" in " ".join(twinvec("cluster", source, *options[:4]).out.split())
    assert twinvec("cluster", source, "--min-size", 4).out == "0 clusters, 4 of 4 texts alone\n"


def test_a_map_of_two_texts_is_refused(twinvec, write, tmp_path):
    source = write("texts.txt", "one\ntwo\n")
    done = twinvec("cluster", source, "--map", tmp_path / "map.png")
    assert done.code == 1
    assert "a map needs at least three texts, got 2" in done.err


def test_a_map_does_not_overwrite_the_texts(twinvec, write):
    source = write("texts.txt", "one\ntwo\nthree\n")
    done = twinvec("cluster", source, "--map", source)
    assert done.code == 1
    assert "would overwrite" in done.err
    assert source.read_text() == "one\ntwo\nthree\n"


def test_the_measures_offered_are_the_default_ones():
    assert inspect.signature(commands.evaluate_command).parameters["measures"].default.split(",") == list(MEASURES)


def test_commands_that_may_open_a_collection_wait_as_told(twinvec, tmp_path, beir, model, monkeypatch):
    waits = []

    def open_collection(name, path, *, wait_seconds, **_):
        waits.append(wait_seconds)
        raise ConfigurationError("seen")

    entry = SimpleNamespace(load=lambda: open_collection)
    monkeypatch.setattr(options, "entry_points", lambda group: [entry])
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({"anchor": "a drink", "positive": "tea and milk"}))
    commands = (
        ("evaluate", "--collection", "notes", "--ir", beir),
        ("mine", pairs, "-o", tmp_path / "rows.jsonl", "--collection", "notes"),
        ("export", model, "-o", tmp_path / "exported", "--calibrate-collection", "notes"),
    )
    for command in commands:
        waits.clear()
        done = twinvec(*command, "--wait", 2.5)
        assert (done.code, waits) == (1, [2.5]), done.err


@pytest.mark.parametrize("command", ["similarity", "pairs", "cluster", "mine", "compare"])
def test_a_command_that_encodes_computes_in_the_given_precision(twinvec, tmp_path, model, beir, monkeypatch, command):
    load, loaded = encoders.load_engine, []

    def spied(choice, model):
        loaded.append(choice.precision)
        return load(choice, model)

    monkeypatch.setattr(encoders, "load_engine", spied)
    source = tmp_path / "texts.txt"
    source.write_text("tea and milk\ntea\ncoffee\nmilk\n")
    (tmp_path / "pairs.jsonl").write_text(json.dumps({"anchor": "a drink", "positive": "tea and milk"}))
    arguments = {
        "similarity": ("tea", "milk", "--model", model),
        "pairs": (source, "--model", model),
        "cluster": (source, "--model", model),
        "mine": (tmp_path / "pairs.jsonl", "-o", tmp_path / "rows.jsonl", "--model", model),
        "compare": (model, "bm25", "-o", tmp_path / "report", "--ir", beir),
    }[command]
    monkeypatch.setenv("TWINVEC_PRECISION", "bfloat16")
    assert twinvec(command, *arguments).code == 0
    assert set(loaded) == {"bfloat16"}


def test_a_precision_of_systems_without_a_model_is_refused(twinvec, tmp_path, beir):
    refused = twinvec("compare", "bm25", "run:a.trec", "-o", tmp_path, "--ir", beir, "--precision", "float32")
    assert (
        refused.code,
        "it has no effect on bm25 and run:a.trec" in " ".join(refused.err.replace("│", " ").split()),
    ) == (2, True)


def test_a_model_is_measured_at_fewer_dimensions_and_named_with_them(twinvec, tmp_path, model, beir, write):
    sts = write("stsb/test.tsv", STS)
    given = ("--sts", sts, "--ir", beir, "--json")
    found = {dim: json.loads(twinvec("evaluate", model, *given, *dim).out) for dim in ((), ("--dim", 3))}
    (full, few), named = found.values(), f"{model} (3 dimensions)"
    assert (full["model"], few["model"]) == (str(model), named)
    expected = evaluate_sts(encoders.Encoder(model, dim=3), load_sts(sts))
    assert few["sts"]["stsb/test"]["spearman_dot"] == expected.figures["spearman_dot"]
    assert few["sts"] != full["sts"]
    for dim in ((), ("--dim", 3), ("--dim", 4)):
        assert twinvec("evaluate", model, "--ir", beir, "--runs", tmp_path / "runs", *dim).code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 3
    done = twinvec("compare", "bm25", model, f"mean:{model}", "-o", tmp_path, "--ir", beir, "--dim", 3, "--json")
    assert [each["model"] for each in json.loads(done.out)["models"]] == ["bm25", named, f"mean:{model}"]
    forms = twinvec("evaluate", model, "--ir", beir, "--dim", 4, "--forms", tmp_path / "forms.png", "--json")
    assert json.loads(forms.out)["forms"]["small"]["float32"]["bytes"] == 4 * 4


def test_dimensions_that_no_model_has_are_refused_before_anything_is_measured(
    twinvec, tmp_path, model, tiny_model, beir, monkeypatch
):
    wide = tiny_model("bert", pooling=("mean", "max"))
    monkeypatch.setattr(encoders, "load_engine", lambda *_: pytest.fail("a model was loaded"))
    place = ("--path", tmp_path / "store")
    for command, code, said in (
        (("evaluate", model, "--dim", 33), 1, f"{model}: dim must lie between 1 and the model's 32, got 33"),
        (("compare", wide, model, "-o", tmp_path, "--dim", 33), 1, f"{model}: dim must lie between 1 and the model's"),
        (("evaluate", "bm25", "--dim", 8), 2, "--dim is for models: it has no effect on bm25"),
        (("evaluate", "--collection", "notes", *place, "--dim", 8), 2, "has no effect on a collection without MODEL"),
        (("compare", "bm25", "run:a.trec", "-o", tmp_path, "--dim", 8), 2, "no effect on bm25 and run:a.trec"),
    ):
        refused = twinvec(*command, "--ir", beir)
        told = "".join(refused.err.replace("│", " ").split())
        assert (refused.code, said.replace(" ", "") in told) == (code, True), refused.err


def test_a_collection_is_measured_at_its_own_dimensions_only(twinvec, tmp_path, model, beir):
    with Collection.open("notes", tmp_path / "store", encoder=encoders.Encoder(model, dim=8)) as made:
        made.ingest([(each.id, each.text) for each in load_beir(beir).documents])
    measure = ("evaluate", model, "--collection", "notes", "--path", tmp_path / "store", "--ir", beir)
    assert twinvec(*measure, "--dim", 8).code == 0
    for wrong in ((), ("--dim", 4)):
        refused = twinvec(*measure, *wrong)
        assert (refused.code, "(8 dimensions" in refused.err) == (1, True)
