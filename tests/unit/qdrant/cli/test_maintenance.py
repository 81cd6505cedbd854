"""The commands of maintenance, and the dry run of ingest."""

from __future__ import annotations

import json
import re
import shutil

import pytest

from twinvec_qdrant import Collection
from twinvec_qdrant.records.schema import record_id
from twinvec_qdrant.stores.conditions import field_is


@pytest.fixture
def tiny(tiny_model):
    """The model of the notes, which is loaded in no time."""
    return str(tiny_model("distilbert"))


@pytest.fixture
def notes(twinvec, tmp_path, place, tiny):
    """A file of notes, taken in."""
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": f"n{row}", "text": f"note {row} about tea"}) + "\n" for row in range(4)))
    foretold = twinvec("ingest", path, *place, "--model", tiny, "--dry-run", "--json")
    assert json.loads(foretold.out)["new"] == 4
    assert not (tmp_path / "store").exists()
    assert twinvec("ingest", path, *place, "--model", tiny).code == 0
    return path


@pytest.mark.slow
def test_verify_finds_and_repairs(twinvec, notes, tiny, place, tmp_path):
    done = twinvec("verify", *place, "--json")
    assert (done.code, json.loads(done.out)["sound"]) == (0, True)
    with Collection.open("notes", tmp_path / "store") as collection:
        lost = next(collection._backend.scroll([field_is("kind", "chunk"), field_is("source", "n2")]))
        collection._backend.delete([lost.id])
    done = twinvec("verify", *place)
    assert done.code == 1
    assert "n2" in done.err
    assert twinvec("verify", *place, "--repair").code == 0
    foretold = twinvec("ingest", notes, *place, "--model", tiny, "--dry-run", "--json")
    assert json.loads(foretold.out)["updated"] == 1
    assert json.loads(twinvec("ingest", notes, *place, "--model", tiny, "--json").out)["updated"] == 1
    assert twinvec("verify", *place).code == 0


@pytest.mark.slow
def test_a_repair_tells_of_lost_sources_and_ends_with_1_where_documents_left_no_trace(twinvec, notes, place, tmp_path):
    (page,) = (tmp_path / "store").rglob("payload_storage/page_0.dat")
    content = page.read_bytes()
    page.write_bytes(content.replace(b'"twinvec.roots"', b"x" * 15))
    done = twinvec("verify", *place, "--repair")
    assert done.code == 0
    assert "perhaps the list of its sources" in done.err
    done = twinvec("update", *place)
    assert done.code == 0
    ingest = f"run twinvec ingest SOURCE -c notes --path {tmp_path / 'store'}"
    assert f"notes: no source is recorded, so nothing is updated; {ingest}" in done.err
    (page,) = (tmp_path / "store").rglob("payload_storage/page_0.dat")
    page.write_bytes(bytes(len(page.read_bytes())))
    done = twinvec("verify", *place, "--repair", "--json")
    assert (done.code, json.loads(done.out)["lost"]) == (1, 4)


@pytest.mark.slow
def test_verify_names_a_document_whose_record_is_lost(twinvec, notes, tiny, place, tmp_path):
    with Collection.open("notes", tmp_path / "store") as collection:
        collection._backend.delete([record_id("n2")])
    done = twinvec("verify", *place)
    named, hint = done.err.splitlines()
    assert (done.code, named) == (1, "n2: has chunks but no record, so searches do not show it")
    assert "--repair" in hint, "an ingest alone finds nothing changed"
    assert twinvec("verify", *place, "--repair").err.splitlines() == [f"{named}; ingest it again"]
    assert twinvec("verify", *place).code == 1, "until it has been"
    assert json.loads(twinvec("ingest", notes, *place, "--model", tiny, "--json").out)["updated"] == 1
    assert twinvec("verify", *place).code == 0


@pytest.mark.slow
def test_migrate_there_and_back(twinvec, notes, tiny, place, tiny_model):
    other = tiny_model("bert")
    done = twinvec("migrate", *place, "--to", other, "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out) == {"model": str(other), "encoded": 4, "truncated": 0, "switched": True}
    assert json.loads(twinvec("info", *place, "--json").out)["migrated_from"] == tiny
    assert json.loads(twinvec("search", "tea", *place, "--json").out)["hits"]
    assert tiny in "".join(twinvec("migrate", *place, "--to", tiny).out.split())
    assert json.loads(twinvec("migrate", *place, "--drop-others", "--json").out) == {"dropped": [str(other)]}
    assert twinvec("migrate", *place, "--to", tiny).code == 1
    assert twinvec("migrate", *place).code == 2


def test_an_export_takes_the_place_of_the_model(twinvec, notes, tiny, place, tmp_path):
    fast = tmp_path / "models" / "fast"
    shutil.copytree(tiny, fast)  # the same space under another name, as an export has it
    done = twinvec("migrate", *place, "--to", fast)
    assert (done.code, done.err) == (0, "")
    assert f"notes now has {fast}" in done.out
    assert json.loads(twinvec("info", *place, "--json").out)["model"] == str(fast)
    report = json.loads(twinvec("migrate", *place, "--to", tiny, "--json").out)
    assert report == {"model": str(tiny), "encoded": 0, "truncated": 0, "switched": True}
    assert twinvec("migrate", *place, "--to", tiny).code == 1


@pytest.mark.slow
def test_a_model_that_finds_worse_does_not_come_in_force(twinvec, notes, place, tiny_model, tmp_path):
    judged = tmp_path / "judged"
    (judged / "qrels").mkdir(parents=True)
    topics = ("brewing green tea", "the dog barks", "a train to Paris", "copy a file", "rye bread", "stars at night")
    texts = {f"d{row}": text for row, text in enumerate(topics)}
    lines = {name: json.dumps({"_id": name, "title": "", "text": text}) for name, text in texts.items()}
    (judged / "corpus.jsonl").write_text("\n".join(lines.values()))
    asked = (
        "how hot is the water",
        "noise of an animal",
        "railway to France",
        "duplicate data",
        "baked flour",
        "galaxies",
    )
    queries = {f"q{row}": text for row, text in enumerate(asked)}
    (judged / "queries.jsonl").write_text(
        "\n".join(json.dumps({"_id": name, "text": text}) for name, text in queries.items())
    )
    rows = "".join(f"q{row}\td{row}\t1\n" for row in range(len(topics)))
    (judged / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    place = ("--collection", "judged", "--path", tmp_path / "store")
    assert twinvec("ingest", judged / "corpus.jsonl", *place).code == 0
    worse = ("migrate", *place, "--to", tiny_model("bert"), "--ir", judged)
    done = twinvec(*worse, "--json")
    assert done.code == 1, done.err
    report = json.loads(done.out)
    assert report["switched"] is False
    assert report["ndcg@10_before"] > report["ndcg@10_after"]
    assert report["ndcg@10_difference_interval"][1] < 0
    (judged / "corpus.jsonl").unlink()  # the collection holds the documents
    done = twinvec(*worse)
    assert "is worse" in done.out
    low, high = report["ndcg@10_difference_interval"]
    difference = report["ndcg@10_after"] - report["ndcg@10_before"]
    assert f"ndcg@10 difference           {difference:+.2f} ({low:+.2f} to {high:+.2f})" in re.sub(
        r"difference +", "difference           ", done.out
    )
    (judged / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\nq1\tnowhere\t1\n")
    done = twinvec(*worse)
    assert (done.code, "holds none of the 1 relevant documents, such as 'nowhere'" in done.err) == (1, True)
    assert json.loads(twinvec("info", *place, "--json").out)["model"] == "default"
    assert twinvec("migrate", *place, "--drop-others").code == 0
    report = json.loads(twinvec("migrate", *place, "--drop-others", "--json").out)
    assert report == {"dropped": []}
    assert twinvec("migrate", *place, "--quantization", "int8", "--ir", judged).code == 2


@pytest.mark.slow
def test_another_quantisation(twinvec, notes, tiny, place):
    done = twinvec("migrate", *place, "--quantization", "int8", "--json")
    assert done.code == 0, done.err
    assert json.loads(done.out)["recall"] == 1.0
    assert json.loads(twinvec("info", *place, "--json").out)["index"]["quantization"] == "int8"
    assert "int8" in twinvec("migrate", *place, "--quantization", "int8").out
    assert twinvec("ingest", notes, *place, "--model", tiny, "--quantization", "binary").code == 1
    assert twinvec("migrate", *place, "--quantization", "int8", "--to", tiny).code == 2


def test_reindex_changes_how_documents_are_cut(twinvec, tmp_path, place, tiny):
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "fees.txt").write_text("It was raised again in May. Nobody objected to that. " * 3)
    (folder / "fees.py").write_text("def raised():\n    return 'in May'\n\n\ndef lowered():\n    return 'never'\n" * 3)
    assert twinvec("ingest", folder, *place, "--model", tiny, "--chunk-tokens", "16").code == 0

    def chunking() -> dict:
        return json.loads(twinvec("info", *place, "--json").out)["chunking"]

    assert chunking()["code"]
    done = twinvec("reindex", *place, "--surroundings", "12", "--no-cut-code", "--no-pages")
    assert "twinvec update" in done.out
    assert chunking() == {
        "enabled": True,
        "max_tokens": 16,
        "overlap": 0,
        "code": [],
        "pages": False,
        "surroundings": 12,
    }
    for what in ("updated", "unchanged"):
        (report,) = json.loads(twinvec("update", *place, "--json").out)["collections"]
        assert report[what] == 2
    assert "update" not in twinvec("reindex", *place).out
    twinvec("reindex", *place, "--surroundings", "0", "--cut-code")
    assert "surroundings" not in chunking()
    assert "python" in chunking()["code"]
    refused = twinvec("ingest", folder, *place, "--model", tiny, "--chunk-tokens", "16", "--surroundings", "12")
    assert (refused.code, "with 12 tokens of the text around them" in refused.err) == (1, True)
    assert twinvec("ingest", folder, *place, "--no-chunking", "--surroundings", "12").code == 2


@pytest.mark.slow
def test_reindex_keeps_or_changes_the_quantization(twinvec, notes, place):
    def quantization():
        return json.loads(twinvec("info", *place, "--json").out)["index"]["quantization"]

    assert json.loads(twinvec("reindex", *place, "--json").out)["recall"] == 1.0
    assert quantization() == "none"
    assert json.loads(twinvec("reindex", *place, "--quantization", "int8", "--json").out)["recall"] == 1.0
    assert quantization() == "int8"
    assert "int8" in (shown := twinvec("reindex", *place).out)
    assert quantization() == "int8", "no option keeps the quantization"
    assert "erased from the files" in shown
    assert "erased" not in twinvec("reindex", *place, "--payload-index", "team:keyword").out


@pytest.mark.slow
@pytest.mark.parametrize(("command", "label"), [("reindex", "Reindexing"), ("verify", "Verifying")])
def test_long_maintenance_shows_its_time_on_a_terminal(twinvec, notes, place, monkeypatch, command, label):
    assert twinvec(command, *place).err == "", "no bar goes to a log file"
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert label in twinvec(command, *place).err
    assert twinvec(command, *place, "--json").err == ""


@pytest.mark.slow
def test_a_collection_is_pushed(twinvec, notes, tiny, place, tmp_path):
    other = ("--collection", "copy", "--path", tmp_path / "other")
    push = ("push", *place, "--to-path", tmp_path / "other", "--to-collection", "copy")
    assert json.loads(twinvec(*push, "--json").out)["copied"] == 4
    assert "unchanged" in twinvec(*push).out
    found = [json.loads(twinvec("search", "note 2", *each, "--json").out)["hits"][0]["id"] for each in (place, other)]
    assert found[0] == found[1]
    assert twinvec("push", *place).code == 2
    (tmp_path / "none.jsonl").touch()
    emptied = ("--source", notes.name, "--prune", "--allow-empty")
    assert twinvec("ingest", tmp_path / "none.jsonl", *place, "--model", tiny, *emptied).code == 0
    done = twinvec(*push, "--prune")
    assert (done.code, "--allow-empty" in done.err) == (1, True)
    assert json.loads(twinvec(*push, "--prune", "--allow-empty", "--json").out)["deleted"] == 4


@pytest.mark.slow
def test_collections_are_listed_and_dropped(twinvec, notes, tiny, place, tmp_path):
    store = ("--path", tmp_path / "store")
    twinvec("ingest", notes, "--collection", "more notes", *store, "--model", tiny)
    listed = json.loads(twinvec("collections", *store, "--json").out)["collections"]
    assert listed == [{"name": name, "model": tiny, "dim": 32, "adopting": False} for name in ("more notes", "notes")]
    assert "more notes" in twinvec("collections", *store).out
    with Collection.open("notes", tmp_path / "store"):
        done = twinvec("drop", "notes", *store, "--yes")
        assert done.code == 1
        assert "open" in done.err
    assert twinvec("drop", *store, "--yes").code == 2, "no name"
    assert twinvec("drop", "notes", "--collection", "notes", *store, "--yes").code == 2, "two names"
    assert twinvec("drop", "nots", *store, "--yes").code == 1
    assert json.loads(twinvec("drop", "notes", *store, "--yes", "--json").out) == {"dropped": "notes"}
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["more%20notes"]
    assert twinvec("info", *place).code == 1
    assert twinvec("ingest", notes, *place, "--model", tiny).code == 0
    assert json.loads(twinvec("drop", "--collection", "notes", *store, "--yes", "--json").out) == {"dropped": "notes"}
    assert twinvec("info", *place).code == 1
