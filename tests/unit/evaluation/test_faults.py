"""What is wrong with a file is said by file and line, through the commands: exit code 1, and no traceback."""

from __future__ import annotations

import gzip
import sys

import pytest

from twinvec.evaluation.tsv import read_table
from twinvec.installation import install_line

STS = "score\tsentence1\tsentence2\n5\ta\tb\n0\tc\td\n"
NLI = "label\tpremise\thypothesis\nyes\ta\tb\nno\tc\td\n"
LABELLED = "label\tsentence1\tsentence2\n1\ta\tb\n0\tc\td\n"
TRIPLETS = "anchor\tpositive\tnegative\na\tb\tc\n"
QUESTIONS = "anchor\tpositive\na\tb\n"


def refused(done, said):
    assert (done.code, done.out) == (1, "")
    assert "Traceback" not in done.err
    assert "unexpected" not in done.err
    assert said in done.err


@pytest.mark.parametrize(
    ("option", "content", "said"),
    [
        ("--sts", STS + "high\ta\tb\n", "f.tsv:4: score 'high' is not a number"),
        ("--sts", STS + "nan\ta\tb\n", "f.tsv:4: score 'nan' is not a number"),
        ("--sts", STS + "inf\ta\tb\n", "f.tsv:4: score 'inf' is not a number"),
        ("--sts", STS + "1_0\ta\tb\n", "f.tsv:4: score '1_0' is not a number"),
        ("--sts", STS + "4\ta\n", "f.tsv:4: 2 fields, expected 3: score, sentence1, sentence2"),
        ("--sts", STS + "4\ta\tb\tc\n", "f.tsv:4: 4 fields, expected 3"),
        ("--sts", STS.replace("sentence2", "second"), "f.tsv:1: no column 'sentence2' among 'score', 'sentence1'"),
        ("--sts", "5\ta\tb\n", "f.tsv:1: no column 'score' among '5', 'a', 'b'; the first line names the columns: "),
        ("--sts", STS.replace("0\tc", "5\tc"), "f.tsv: all 2 scores are 5"),
        ("--sts", STS.encode("utf-16"), "f.tsv:1: not UTF-8"),
        ("--sts", STS.encode() + b"3\t\xff\tb\n", "f.tsv:4: not UTF-8"),
        ("--sts", gzip.compress(STS.encode(), mtime=0), "f.tsv: compressed by gzip; decompress it first"),
        ("--nli", NLI + " \ta\tb\n", "f.tsv:4: the label is empty"),
        ("--nli", NLI.replace("no", "yes"), "f.tsv: every label is 'yes'; at least two different labels are needed"),
        ("--pairs", LABELLED + "2\ta\tb\n", "f.tsv:4: label '2' is neither 0 nor 1"),
        ("--pairs", LABELLED.replace("0\tc", "1\tc"), "f.tsv: every label is 1"),
        ("--triplets", TRIPLETS + "a\tb\n", "f.tsv:3: 2 fields, expected 3"),
        ("--questions", QUESTIONS + "a\n", "f.tsv:3: 1 fields, expected 2"),
    ],
)
def test_a_malformed_table(twinvec, tmp_path, option, content, said):
    path = tmp_path / "f.tsv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    refused(twinvec("evaluate", "default", option, path), said)


@pytest.mark.parametrize("option", ["--sts", "--nli", "--pairs", "--triplets", "--questions"])
def test_an_empty_table(twinvec, write, option):
    refused(twinvec("evaluate", "default", option, write("f.tsv", "")), "f.tsv: the file is empty; expected a header")
    refused(twinvec("evaluate", "default", option, write("g.tsv", "\n\n")), "g.tsv: the file is empty")


@pytest.mark.parametrize(
    "option", ["--sts", "--ir", "--nli", "--pairs", "--triplets", "--questions", "--winogender", "--winobias"]
)
def test_a_missing_file(twinvec, tmp_path, option):
    """Before the model is looked for, let alone anything encoded."""
    refused(twinvec("evaluate", tmp_path / "no-model", option, tmp_path / "none"), str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("package", "arguments"),
    [
        ("ir_measures", ["evaluate", "MODEL", "--ir", "BEIR"]),
        ("ir_measures", ["tune", "--collection", "MODEL"]),
        ("matplotlib", ["evaluate", "MODEL", "--ir", "BEIR", "--forms", "costs.png"]),
        ("matplotlib", ["compare", "MODEL", "bm25", "-o", "report", "--ir", "BEIR"]),
        ("matplotlib", ["cluster", "BEIR/queries.jsonl", "--model", "MODEL", "--map", "map.png"]),
        ("sklearn", ["cluster", "BEIR/queries.jsonl", "--model", "MODEL"]),
    ],
)
def test_a_missing_package_is_named_before_any_work(twinvec, beir, tmp_path, monkeypatch, package, arguments):
    """There is no such model: the search for it would fail first."""
    for loaded in (name for name in list(sys.modules) if name.split(".")[0] == package):
        monkeypatch.setitem(sys.modules, loaded, None)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.chdir(tmp_path)
    done = twinvec(*(each.replace("BEIR", str(beir)).replace("MODEL", "./no-model") for each in arguments))
    names = {"ir_measures": "ir-measures", "sklearn": "scikit-learn"}
    refused(done, f"needs the package '{names.get(package, package)}': {install_line('twinvec', 'eval')}")


@pytest.mark.parametrize(
    ("file", "line", "said"),
    [
        ("qrels/test.tsv", "q1\tnowhere\t1", "qrels/test.tsv:6: the document 'nowhere' is not in corpus.jsonl"),
        ("qrels/test.tsv", "q9\tcats\t1", "qrels/test.tsv:6: the query 'q9' is not in queries.jsonl"),
        ("qrels/test.tsv", "q2\tdogs\t0.5", "qrels/test.tsv:6: score '0.5' is not a whole number"),
        ("qrels/test.tsv", "q2\tdogs\tNaN", "qrels/test.tsv:6: score 'NaN' is not a whole number"),
        ("qrels/test.tsv", "q2\tdogs", "qrels/test.tsv:6: 2 fields, expected 3"),
        ("corpus.jsonl", '{"_id": "cats", "text": "again"}', "corpus.jsonl:6: the id 'cats' is used twice"),
        ("corpus.jsonl", '{"_id": "x", "text": NaN}', "corpus.jsonl:6: document 'x': expected a string, got float"),
        ("corpus.jsonl", "[1, 2]", "corpus.jsonl:6: expected a JSON object, got list"),
        ("queries.jsonl", '{"_id": "q1", "text": "again"}', "queries.jsonl:4: the id 'q1' is used twice"),
        ("queries.jsonl", '{"_id": 7.5, "text": "what"}', "queries.jsonl:4: '_id': expected a string, got float"),
        ("queries.jsonl", '{"_id": "q7", "text"', "queries.jsonl:4: not JSON"),
    ],
)
@pytest.mark.parametrize("command", ["evaluate", "compare", "tune"])
def test_a_malformed_retrieval_set(twinvec, beir, tmp_path, command, file, line, said):
    with (beir / file).open("a") as opened:
        opened.write(line + "\n")
    arguments = {
        "evaluate": ["default"],
        "compare": ["default", "bm25", "-o", tmp_path / "report"],
        "tune": ["--collection", "c", "--path", tmp_path],
    }[command]
    refused(twinvec(command, *arguments, "--ir", beir), said)
    assert not (tmp_path / "report").exists()


def test_marks_and_line_ends_of_other_systems_are_no_fault(twinvec, tmp_path, beir):
    path = tmp_path / "f.tsv"
    path.write_bytes(b"\xef\xbb\xbf" + STS.replace("\n", "\r\n").encode())
    for file in (*beir.glob("*.jsonl"), *beir.glob("qrels/*.tsv")):
        file.write_bytes(b"\xef\xbb\xbf" + file.read_bytes().replace(b"\n", b"\r\n"))
    done = twinvec("evaluate", "bm25", "--ir", beir, "--json")
    assert (done.code, done.err) == (0, "")
    assert '"queries": 3' in done.out
    rows = [row for _, row in read_table(path, ("score", "sentence1", "sentence2"))]
    assert rows == [("5", "a", "b"), ("0", "c", "d")]


@pytest.mark.parametrize("command", ["pairs", "cluster"])
@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.txt", b"", "t.txt: the file is empty"),
        ("t.txt", b"fine\n\xff\n", "t.txt:2: not UTF-8"),
        ("t.jsonl", b'{"text": "fine"}\n{"body": "x"}\n', "t.jsonl:2: no 'text' among the keys 'body'"),
        ("t.jsonl", b'{"text": "fine"}\n{"text": 3}\n', "t.jsonl:2: 'text': expected a string, got int"),
    ],
)
def test_malformed_texts(twinvec, tmp_path, command, name, content, said):
    (tmp_path / name).write_bytes(content)
    refused(twinvec(command, tmp_path / name), said)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["pairs", "--threshold", 1.5], 2, "threshold must be a cosine from -1 to 1, got 1.5"),
        (["pairs", "--threshold", "nan"], 2, "threshold must be a cosine from -1 to 1, got nan"),
        (["cluster", "--method", "kmeans"], 2, "--clusters 20"),
        (
            ["cluster", "--method", "kmeans", "--clusters", 9],
            1,
            "clusters must lie between 1 and 2, the number of vectors, got 9",
        ),
        (["cluster", "--clusters", 2], 2, "density needs a threshold, such as 0.7, and finds the number of clusters"),
        (["cluster", "--threshold", 1], 2, "threshold must be a cosine from -1 to below 1, got 1.0"),
    ],
)
def test_settings_that_cannot_work(twinvec, write, arguments, code, said):
    command, *options = arguments
    done = twinvec(command, write("t.txt", "one\ntwo\n"), *options)
    assert done.code == code
    assert said in " ".join(done.err.replace("│", " ").split())


def test_too_many_clusters_are_found_before_a_model_is_loaded(twinvec, write):
    options = ["--method", "kmeans", "--clusters", 9, "--model", "./nowhere"]
    refused(twinvec("cluster", write("t.txt", "one\ntwo\n"), *options), "between 1 and 2, the number of vectors, got 9")


def test_an_unknown_measure(twinvec, beir):
    for measures in ("auc@10", "ndcg", ","):
        done = twinvec("evaluate", "default", "--ir", beir, "--measures", measures)
        assert (done.code, done.out, "ndcg@" in done.err) == (2, "", True)
