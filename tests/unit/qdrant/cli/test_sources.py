"""Commands about the sources of a collection: several in one ingest, update, get and delete."""

from __future__ import annotations

import io
import json
import re
import shlex
import signal
import subprocess
import sys

import pytest

from twinvec_qdrant.cli.sources import roots_of
from twinvec_qdrant.ingest.reading.root import Root

USUAL = {"include": (), "exclude": ()}


@pytest.fixture
def tree(tmp_path, monkeypatch):
    """Two folders with a file of the same name, files of one folder, and records; the present folder."""
    work = tmp_path / "work"
    for name in ("guides/README.md", "minutes/README.md", "minutes/2024/may.md", "a.md", "b [1].md", ".hidden.md"):
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"tea in {name}")
    (work / "notes.jsonl").write_text('{"id": "1", "text": "milk"}\n')
    (work / "table.csv").write_text("key,words\nx,bread\n")
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def tiny(tiny_model):
    return ("--model", tiny_model("bert"))


@pytest.fixture
def filled(twinvec, tree, place, tiny):
    """A collection made from two folders."""
    assert twinvec("ingest", "guides", "minutes", *place, *tiny).code == 0
    return place


def figures(done, code=0):
    assert done.code == code, done.err
    return json.loads(done.out)


def counts(report):
    return tuple(report[name] for name in ("new", "updated", "unchanged", "deleted"))


def found(root: Root):
    return [each.id for each in root.read()]


def test_an_empty_argument_is_not_the_current_folder(twinvec, tree, place, tiny):
    """A script gives an empty source if its variable is not set."""
    done = twinvec("ingest", "guides", "", *place, *tiny)
    assert (done.code, "source is an empty text" in done.err) == (1, True)
    assert twinvec("info", *place).code == 1, "nothing was ingested"


def test_files_of_one_folder_are_one_source(tree):
    roots = roots_of(["a.md", "guides", "b [1].md", "notes.jsonl", ".hidden.md", "a.md"], USUAL)
    assert {name: found(root) for name, root in roots.items()} == {
        "work": ["a.md", "b [1].md"],
        "guides": ["README.md"],
        "notes.jsonl": ["1"],
        ".hidden.md": [".hidden.md"],
    }
    (tree / ".gitignore").write_text("*.md")  # files that are named are read
    (tree / "c.md").write_text("not named")
    assert found(roots["work"]) == ["a.md", "b [1].md"]


def test_one_file_is_a_source_of_its_own(tree):
    assert roots_of(["a.md"], USUAL) == {"a.md": Root("a.md")}


def test_a_pattern_that_the_shell_did_not_expand(tree):
    (pattern,) = roots_of(["*.md"], USUAL).values()
    assert found(pattern) == ["a.md", "b [1].md"]
    assert not pattern.follows(tree / "guides" / "README.md")
    (deep,) = roots_of(["minutes/**/*.md"], USUAL).values()
    assert found(deep) == ["2024/may.md", "README.md"]


def test_a_pattern_that_matches_nothing_is_refused(twinvec, tree, place, tiny):
    given = ("ingest", "a.md", "minutes/*.txt", *place, *tiny)
    done = twinvec(*given)
    assert done.code == 1
    assert "no file matches minutes/*.txt" in done.err
    assert counts(figures(twinvec(*given, "--allow-empty", "--json"))) == (1, 0, 0, 0)


def test_two_folders_of_one_name_are_ingested_one_by_one(twinvec, tree, place):
    (tree / "old" / "guides").mkdir(parents=True)
    done = twinvec("ingest", "guides", "old/guides", *place)
    assert done.code == 1
    assert "two of the sources are named 'guides'" in done.err


def test_several_sources_in_one_ingest(twinvec, tree, place, tiny):
    given = ("ingest", "guides", "minutes", "*.md", "notes.jsonl", *place)
    report = figures(twinvec(*given, *tiny, "--json"))
    assert counts(report) == (6, 0, 0, 0)
    assert report["roots"] == ["guides", "minutes", "work", "notes.jsonl"]
    (tree / "minutes" / "README.md").unlink()
    assert counts(figures(twinvec(*given, "--prune", "--json"))) == (0, 0, 5, 1)
    assert counts(figures(twinvec("ingest", "guides", *place, "--prune", "--json"))) == (0, 0, 1, 0)
    shown = twinvec("ingest", "guides", "minutes", *place).out
    assert "2 unchanged" in shown
    assert "guides, minutes" in shown


def test_patterns_and_columns(twinvec, tree, place, tiny):
    options = ("--exclude", "guides/", "--include", "*.csv", "--include", "may.md")
    columns = ("--id-column", "key", "--text-column", "words")
    report = figures(twinvec("ingest", ".", *place, *tiny, *options, *columns, "--json"))
    assert (counts(report), report["roots"]) == ((2, 0, 0, 0), ["work"])
    got = figures(twinvec("get", "table.csv/x", "minutes/2024/may.md", *place, "--json"))
    assert [each["text"] for each in got["documents"]] == ["bread", "tea in minutes/2024/may.md"]
    assert counts(figures(twinvec("update", *place, "--json"))["collections"][0]) == (0, 0, 2, 0)  # as before


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("guides", "minutes", "--source", "both"), "need a single SOURCE"),
        (("guides", "minutes", "--describe", "both"), "need a single SOURCE"),
        (("guides", "--describe", "2024=old"), "has no '2024'"),
    ],
)
def test_wrong_usage(twinvec, tree, place, given, words):
    done = twinvec("ingest", *given, *place)
    assert done.code == 2
    assert words in " ".join(done.err.replace("│", " ").split())


def test_a_description_with_a_lone_surrogate_is_refused_before_the_store_is_opened(twinvec, tree, place, tmp_path):
    done = twinvec("ingest", "guides", "--describe", "all\udcff", *place)
    assert done.code == 1
    assert "--describe: lone surrogate U+DCFF at character 3" in done.err
    assert not (tmp_path / "store").exists()


def test_a_source_that_is_not_there_comes_before_everything(twinvec, tree, place, tmp_path):
    done = twinvec("ingest", "guides", "nowhere", *place)
    assert done.code == 1
    assert "nowhere: no such file or folder" in done.err
    assert not (tmp_path / "store").exists()


@pytest.mark.slow
def test_descriptions_are_shown(twinvec, filled):
    describe = ("--describe", "Minutes of the board", "--describe", "2024=Last year = best")
    assert twinvec("ingest", "minutes", *filled, *describe).code == 0
    hits = figures(twinvec("search", "tea in may", *filled, "--json"))["hits"]
    assert {hit["id"]: hit.get("described") for hit in hits} == {
        "README.md": None,
        "minutes:README.md": "Minutes of the board",
        "minutes:2024/may.md": "Last year = best",
    }
    chunks = figures(twinvec("search", "tea in may", *filled, "--chunks", "--json"))["hits"]
    assert {hit["id"]: hit.get("described") for hit in chunks}["minutes:2024/may.md#0"] == "Last year = best"
    assert re.search(r"minutes:README.md\n +[^\n]*Minutes of the board\n", twinvec("search", "tea", *filled).out)
    (_, minutes) = figures(twinvec("info", *filled, "--json"))["roots"]
    assert minutes["described"] == {"": "Minutes of the board", "2024": "Last year = best"}
    shown = twinvec("info", *filled).out
    assert "minutes: Minutes of the board (2 documents from" in shown
    assert "2024: Last year = best" in shown


def test_update_reads_the_hidden_files_that_a_pattern_names(twinvec, tree, place, tiny):
    (tree / "guides" / ".github" / "deep").mkdir(parents=True)
    (tree / "guides" / ".github" / "deep" / "a.md").write_text("tea")
    assert counts(figures(twinvec("ingest", "guides", *place, *tiny, "--include", ".github/**", "--json")))[0] == 1
    (tree / "guides" / ".github" / "b.md").write_text("coffee")
    (report,) = figures(twinvec("update", *place, "--json"))["collections"]
    assert counts(report) == (1, 0, 1, 0)


@pytest.mark.slow
def test_update_of_a_collection_and_of_all(twinvec, tree, filled, tiny, tmp_path):
    assert twinvec("ingest", "notes.jsonl", "--collection", "others", "--path", tmp_path / "store", *tiny).code == 0
    (tree / "minutes" / "README.md").write_text("coffee")
    (tree / "minutes" / "2024" / "may.md").unlink()
    (report,) = figures(twinvec("update", *filled, "--no-prune", "--json"))["collections"]
    assert (report["name"], counts(report)) == ("notes", (0, 1, 1, 0))
    reports = figures(twinvec("update", "--path", tmp_path / "store", "--json"))["collections"]
    assert {each["name"]: counts(each) for each in reports} == {"notes": (0, 0, 2, 1), "others": (0, 0, 1, 0)}
    shown = twinvec("update", *filled).out
    assert "notes: 0 new, 0 updated, 2 unchanged, 0 deleted, 0 failed, from guides, minutes" in shown


def test_update_tells_of_sources_that_are_gone(twinvec, tree, filled, tmp_path):
    (tree / "guides" / "README.md").unlink()
    done = twinvec("update", *filled)
    assert done.code == 3
    assert "not updated: guides: the ingest got no documents" in done.err
    assert "(twinvec ingest --prune --allow-empty)" in done.err, "update has no such option"
    named = f"-c notes --path {tmp_path / 'store'} --source guides"
    assert f"if it has moved, run twinvec ingest NEWPATH {named}; to remove it, run twinvec delete {named}" in done.err
    (tree / "minutes").rename(tree / "moved")
    assert twinvec("update", *filled).code == 1
    assert len(figures(twinvec("search", "tea", *filled, "--json"))["hits"]) == 3


def test_update_gives_no_advice_after_an_unexpected_error(twinvec, filled, monkeypatch):
    monkeypatch.setattr(Root, "read", lambda *_: 1 / 0)
    done = twinvec("update", *filled)
    assert done.code == 1
    assert "not updated: guides: unexpected ZeroDivisionError: division by zero" in done.err
    assert "if it has moved" not in done.err


def test_get_names_the_first_unknown_ids_and_counts_the_others(twinvec, filled):
    done = twinvec("get", *(f"READ{row}.md" for row in range(13)), *filled)
    assert done.code == 1
    lines = done.err.splitlines()
    assert len(lines) == 11
    assert all("the collection has no document 'READ" in line and "; the nearest: " in line for line in lines[:10])
    assert lines[10] == "twinvec: ... and 3 more unknown ids; --json lists all"


def test_show_says_where_it_has_looked(twinvec, tree, filled, tiny):
    done = twinvec("show", "REDME.md", *filled)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("twinvec: the collection 'notes' has no document 'REDME.md'; the nearest: 'README.md'")
    store = filled[2:]
    assert twinvec("show", "REDME.md", *store).err == done.err
    assert twinvec("ingest", "guides", "-c", "others", *store, *tiny).code == 0
    told = twinvec("show", "REDME.md", *store).err
    assert "none of the collections 'notes', 'others' (--collection chooses one) has a document 'REDME.md'" in told
    assert "the nearest: 'README.md'" in told
    assert told.count("'README.md'") == 1


def test_nearest_ids_are_looked_for_only_where_a_document_is_missing(twinvec, filled, monkeypatch):
    monkeypatch.setattr("twinvec_qdrant.Collection.find", lambda *given: pytest.fail("looked for ids"))
    for place in (filled, filled[2:]):
        done = twinvec("show", "README.md#0", *place)
        assert done.code == 0
        assert "tea in guides/README.md" in done.out


def test_get_prints_documents(twinvec, filled):
    done = twinvec("get", "minutes:README.md", "README.md", *filled)
    assert done.code == 0
    assert done.out == "minutes:README.md\n\ntea in minutes/README.md\n\nREADME.md\n\ntea in guides/README.md\n"
    missing = twinvec("get", "README.md", "none.md", *filled, "--json")
    report = figures(missing, code=1)
    assert ([each["id"] for each in report["documents"]], report["missing"]) == (["README.md"], ["none.md"])
    assert "the collection has no document 'none.md'" in missing.err


def test_delete_by_id(twinvec, filled):
    foreseen = figures(twinvec("delete", "README.md", "none.md", *filled, "--dry-run", "--json"), code=1)
    assert foreseen == {"deleted": 0, "documents": ["README.md"], "missing": ["none.md"]}
    done = twinvec("delete", "README.md", *filled)
    assert (done.code, done.out) == (0, "deleted 1 document\n")
    assert figures(twinvec("info", *filled, "--json"))["sources"] == 2


def test_delete_by_filter_asks_first(twinvec, filled, monkeypatch):
    where = ("--filter", "path=README.md")
    monkeypatch.setattr("typer.confirm", lambda *given, **options: pytest.fail("asked"))
    assert "would delete 2 documents" in twinvec("delete", *where, *filled, "--dry-run").out
    assert figures(twinvec("info", *filled, "--json"))["sources"] == 3
    report = figures(twinvec("delete", *where, *filled, "--yes", "--json"))
    assert report == {"deleted": 2, "documents": ["README.md", "minutes:README.md"], "missing": []}
    monkeypatch.undo()
    again = twinvec("delete", "--filter", "format=markdown", *filled)  # standard input is at its end
    assert again.code == 1
    assert figures(twinvec("info", *filled, "--json"))["sources"] == 1


def test_delete_needs_ids_or_a_filter(twinvec, filled):
    neither = twinvec("delete", *filled)
    assert neither.code == 2
    assert "give one of ID, --filter and --source" in neither.err
    for two in (("README.md", "--filter", "lang=en"), ("README.md", "--source", "guides")):
        both = twinvec("delete", *two, *filled)
        assert both.code == 2
        assert "give one of ID, --filter and --source" in both.err


def test_delete_a_source_asks_first(twinvec, filled, monkeypatch):
    source = ("--source", "guides")
    monkeypatch.setattr("typer.confirm", lambda *given, **options: pytest.fail("asked"))
    foreseen = twinvec("delete", *source, *filled, "--dry-run")
    assert (foreseen.out, foreseen.err) == ("would delete 1 document\n", "  README.md\n")
    unknown = twinvec("delete", "--source", "guide", *filled, "--yes")
    assert unknown.code == 1
    assert "there is no source 'guide'; its sources are 'guides', 'minutes'" in unknown.err
    assert twinvec("delete", *source, *filled, "--json").code == 2, "--json needs --yes"
    monkeypatch.undo()
    asked = twinvec("delete", *source, *filled)  # standard input is at its end
    assert asked.code == 1
    assert "Delete the source 'guides' and its 1 document from 'notes'?" in asked.err
    assert [each["name"] for each in figures(twinvec("info", *filled, "--json"))["roots"]] == ["guides", "minutes"]
    report = figures(twinvec("delete", *source, *filled, "--yes", "--json"))
    assert report == {"deleted": 1, "documents": ["README.md"], "missing": []}
    (left,) = figures(twinvec("info", *filled, "--json"))["roots"]
    assert (left["name"], left["documents"]) == ("minutes", 2)
    assert twinvec("update", *filled).code == 0
    assert twinvec("delete", "--source", "minutes", *filled, "--yes").code == 0
    assert "roots" not in figures(twinvec("info", *filled, "--json"))


def test_a_renamed_folder_is_taken_from_its_new_place_or_removed(twinvec, tree, filled):
    (tree / "guides").rename(tree / "handbook")
    assert twinvec("ingest", "handbook", *filled, "--prune").code == 0
    told = twinvec("update", *filled)
    assert told.code == 3
    moved, removed = re.findall(r"twinvec (?:ingest|delete) [^;\n]*", told.err)
    named = f"-c notes --path {filled[-1]} --source guides"
    assert (moved, removed) == (f"twinvec ingest NEWPATH {named}", f"twinvec delete {named}")
    assert twinvec(*shlex.split(removed)[1:], "--yes").code == 0
    assert twinvec("update", *filled).code == 0
    (tree / "minutes").rename(tree / "board")
    assert twinvec("update", *filled).code == 3
    assert twinvec("ingest", "board", "--source", "minutes", *filled).code == 0
    assert twinvec("update", *filled).code == 0


def test_a_first_ingest_that_stores_nothing_leaves_no_source(twinvec, tree, filled, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"not json\n"), encoding="utf-8"))
    assert twinvec("ingest", "-", *filled).code == 1
    assert [each["name"] for each in figures(twinvec("info", *filled, "--json"))["roots"]] == ["guides", "minutes"]
    for place in ("guides", "minutes"):
        for file in sorted((tree / place).rglob("*.md")):
            file.unlink()
        assert twinvec("ingest", place, *filled, "--prune", "--allow-empty").code == 0
    assert len(figures(twinvec("info", *filled, "--json"))["roots"]) == 2, "a source that had documents stays"


@pytest.mark.parametrize("command", [("delete", "--filter", "path=README.md"), ("drop",)])
def test_a_program_is_asked_nothing(twinvec, filled, monkeypatch, command):
    monkeypatch.setattr("typer.confirm", lambda *given, **options: pytest.fail("asked"))
    done = twinvec(*command, *filled, "--json")
    assert (done.code, done.out) == (2, "")
    assert "--json cannot ask for confirmation: add --yes" in done.err
    assert figures(twinvec("info", *filled, "--json"))["sources"] == 3


@pytest.mark.slow
def test_watching_ends_cleanly(filled, tree):
    program = "from twinvec.cli.app import main; main()"
    command = [sys.executable, "-c", program, "update", "--watch", "--json", *map(str, filled)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert counts(json.loads(process.stdout.readline())) == (0, 0, 3, 0)
        (tree.parent / "new.md").write_text("new")
        (tree.parent / "new.md").replace(tree / "guides" / "new.md")  # at once: the process never sees an empty file
        assert counts(json.loads(process.stdout.readline())) == (1, 0, 1, 0)
        process.send_signal(signal.SIGTERM)
        assert process.communicate(timeout=120) == ("", "")
        assert process.returncode == 0
