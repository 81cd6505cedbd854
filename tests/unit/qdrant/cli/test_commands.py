"""The commands of collections, on real files and the embedded store."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys

import pytest

from cases import slow
from stand_in import Fault, StandIn
from twinvec import Encoder, encoder
from twinvec.errors import SpaceMismatchError
from twinvec.export.model import export_model
from twinvec_qdrant import Collection

NOTES = {
    "tea.md": "# Tea\n\nGreen tea is brewed at 80 degrees.\n\n# Coffee\n\nEspresso needs nine bars of pressure.\n",
    "tax.txt": "The tax return is due at the end of July.",
    "bikes/chain.txt": "Oil the chain of a bicycle after riding in the rain.",
}


@pytest.fixture
def folder(tmp_path):
    for name, text in NOTES.items():
        path = tmp_path / "notes" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "notes"


@pytest.fixture
def tiny(tiny_model):
    """Options of ``ingest`` for a model that is loaded in no time; later commands find it in the collection."""
    return ("--model", tiny_model("bert"))


@pytest.fixture(scope="module")
def exported(tiny_model, tmp_path_factory):
    """The same model exported, which a process of its own loads without torch."""
    return export_model(tiny_model("bert"), tmp_path_factory.mktemp("exported") / "model").folder


def figures(done, code=0):
    assert done.code == code, done.err
    return json.loads(done.out)


def test_a_folder_again_and_again(twinvec, folder, place, tiny):
    report = figures(twinvec("ingest", folder, *place, *tiny, "--json"))
    assert report == {
        **dict.fromkeys(("updated", "unchanged", "deleted", "failed", "truncated", "unknown", "empty"), 0),
        "new": 3,
        "chunks": 4,
        "encoded": 4,
        "failures": [],
        "empties": [],
        "warnings": [],
        "roots": ["notes"],
    }
    again = figures(twinvec("ingest", folder, *place, *tiny, "--json"))
    assert (again["new"], again["unchanged"], again["encoded"]) == (0, 3, 0)
    (folder / "tax.txt").write_text("The tax return is due at the end of August.")
    (folder / "tea.md").unlink()
    kept = figures(twinvec("ingest", folder, *place, *tiny, "--json"))
    assert (kept["updated"], kept["unchanged"], kept["deleted"]) == (1, 1, 0)
    pruned = figures(twinvec("ingest", folder, *place, *tiny, "--prune", "--json"))
    assert (pruned["unchanged"], pruned["deleted"]) == (2, 1)
    info = figures(twinvec("info", *place, "--json"))
    assert (info["points"], info["sources"], info["model"]) == (2, 2, str(tiny[1]))


def test_documents_are_listed(twinvec, folder, place, tiny, monkeypatch):
    twinvec("ingest", folder, *place, *tiny)
    (folder / "plan.md").write_text("---\ntitle: The plan\n---\n\nNext year.\n")
    twinvec("ingest", folder / "plan.md", *place, "--source", "plans")
    listed = twinvec("documents", *place, "--json")
    assert list(map(json.loads, listed.out.splitlines())) == [
        {"id": "bikes/chain.txt", "title": "", "source": "notes", "chunks": 1, "complete": True},
        {"id": "plans:plan.md", "title": "The plan", "source": "plans", "chunks": 1, "complete": True},
        {"id": "tax.txt", "title": "", "source": "notes", "chunks": 1, "complete": True},
        {"id": "tea.md", "title": "", "source": "notes", "chunks": 2, "complete": True},
    ]
    shown = twinvec("documents", *place, "t*", "plans:plan.md", "--limit", "2")
    assert [line.split() for line in shown.out.splitlines() if "." in line] == [
        ["plans:plan.md", "The", "plan", "plans", "1"],
        ["tax.txt", "notes", "1"],
    ]
    monkeypatch.setattr("twinvec_qdrant.cli.documents._ROWS", 3)
    shown = twinvec("documents", *place).out
    assert (shown.count("chunks"), shown.count(".md")) == (2, 2)
    for chosen in (("x*",), ("--filter", "lang=de")):
        assert "no documents with these options" in twinvec("documents", *place, *chosen).out
    unknown = twinvec("documents", *place, "--source", "note")
    assert unknown.code == 1
    assert "its sources are 'notes', 'plans'" in unknown.err
    with Collection.open("notes", place[-1]) as opened:
        opened.delete(opened.find())
    assert twinvec("documents", *place).out == "no documents in notes\n"
    assert twinvec("documents", *place, "--json").out == ""


def test_models_compute_in_the_given_precision(twinvec, folder, place, tiny, tiny_model, tmp_path, monkeypatch):
    load, loaded = encoder.load_engine, []

    def spied(choice, model):
        loaded.append(choice.precision)
        return load(choice, model)

    monkeypatch.setattr(encoder, "load_engine", spied)
    store = ("--path", tmp_path / "store")
    commands = (
        ("ingest", folder, *place, *tiny, "--precision", "float16"),
        ("ingest", folder, *place, *tiny, "--precision", "bfloat16"),
        ("update", *store, "--precision", "float16"),
        ("search", "tax", *place, "--precision", "bfloat16"),
        ("search", "tax", *store, "--precision", "float16"),
        ("migrate", *place, "--to", tiny_model("roberta"), "--precision", "bfloat16"),
    )
    for row, command in enumerate(commands):
        (folder / "tax.txt").write_text(f"The tax return is due on the {row}th of July.")
        loaded.clear()
        assert twinvec(*command).code == 0
        assert set(loaded) == {command[-1]}, command
    (folder / "tax.txt").write_text("The tax return is due at the end of August.")
    loaded.clear()
    monkeypatch.setenv("TWINVEC_PRECISION", "float16")
    assert twinvec("update", *store).code == 0
    assert set(loaded) == {"float16"}


def test_a_new_collection_has_the_given_dimensions_and_keeps_them(twinvec, folder, place, tiny, monkeypatch):
    ingest = ("ingest", folder, *place)
    assert figures(twinvec(*ingest, *tiny, "--dim", 8, "--dry-run", "--json"))["new"] == 3
    assert "the model's 32, got 33" in twinvec(*ingest, *tiny, "--dim", 33).err
    assert figures(twinvec(*ingest, *tiny, "--dim", 8, "--json"))["new"] == 3
    for again in ((), ("--dim", 8), (*tiny, "--dim", 8)):
        assert figures(twinvec(*ingest, *again, "--json"))["unchanged"] == 3
    assert figures(twinvec("info", *place, "--json"))["dim"] == 8
    other = twinvec(*ingest, *tiny, "--dim", 16)
    assert (other.code, "the encoder is" in other.err) == (1, True)
    with pytest.raises(SpaceMismatchError):
        Collection.open("notes", place[-1], encoder=Encoder(tiny[1], dim=16))
    for variables in ({}, {"TWINVEC_MODEL": str(tiny[1])}):
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        refused = twinvec(*ingest, "--dim", 16)
        assert (refused.code, "notes' have 8 dimensions, not 16: leave --dim out" in refused.err) == (1, True)
        assert f"twinvec migrate -c notes --path {place[-1]} --to MODEL --dim 16" in refused.err
        assert figures(twinvec(*ingest, "--dim", 8, "--json"))["unchanged"] == 3
    assert figures(twinvec("search", "tax", *place, "--json"))["hits"][0]["id"] == "tax.txt"


def test_a_collection_migrates_to_other_dimensions_of_its_model(twinvec, folder, place, tiny):
    assert twinvec("ingest", folder, *place, *tiny).code == 0
    migrate, model = ("migrate", *place), tiny[1]
    assert twinvec(*migrate, "--drop-others", "--dim", 8).code == 2
    assert "the model's 32, got 33" in twinvec(*migrate, "--to", model, "--dim", 33).err
    done = twinvec(*migrate, "--to", model, "--dim", 8)
    assert (done.code, "(8 dimensions)" in done.out) == (0, True)
    assert figures(twinvec("info", *place, "--json"))["dim"] == 8
    assert figures(twinvec(*migrate, "--to", model, "--json"))["encoded"] == 0  # the old vectors are still there
    assert figures(twinvec("info", *place, "--json"))["dim"] == 32


def test_a_first_ingest_can_be_foreseen(twinvec, folder, place, tmp_path, tiny):
    options = ("--chunk-tokens", 64, "--tenant-key", "path", "--prune")
    foreseen = figures(twinvec("ingest", folder, *place, *tiny, *options, "--dry-run", "--json"))
    assert "3 new" in twinvec("ingest", folder, *place, *tiny, *options, "--dry-run").out
    assert not (tmp_path / "store").exists()
    assert figures(twinvec("ingest", folder, *place, *tiny, *options, "--json")) == foreseen
    again = figures(twinvec("ingest", folder, *place, *tiny, *options, "--dry-run", "--json"))
    assert (again["new"], again["unchanged"]) == (0, 3)


def test_a_dry_run_says_what_would_be_done(twinvec, folder, place, tiny):
    foreseen = twinvec("ingest", folder, *place, *tiny, "--dry-run").out
    assert re.search(r"chunks that would be written +4\n", foreseen)
    assert re.search(r"texts that would be encoded +4\n", foreseen)
    assert "chunks written" not in foreseen
    assert "chunks written" in twinvec("ingest", folder, *place, *tiny).out


def test_a_folder_without_documents_makes_no_collection(twinvec, folder, place, tmp_path, tiny):
    empty = tmp_path / "empty"
    (empty / ".hidden").mkdir(parents=True)
    (empty / ".hidden" / "note.md").write_text("hidden")
    done = twinvec("ingest", empty, *place, *tiny, "--include", "*.md", "--exclude", "drafts/")
    assert done.code == 0
    assert f"no documents found in {empty}; looked for files that match *.md, and skipped hidden files" in done.err
    assert "(to read them, name them in a pattern: --include '.github/**'), lock files" in done.err
    assert "files that match drafts/" in done.err
    assert "is empty" not in done.err
    assert not (tmp_path / "store").exists()
    for name, text in (("rows.jsonl", ""), ("rows.csv", "id,text\n"), ("rows.jsonl", "\n\n")):
        (empty / name).write_text(text)
        alone = twinvec("ingest", empty / name, *place, *tiny)
        assert f"no documents found in {empty / name}\n" in alone.err
        assert figures(twinvec("ingest", empty, *place, *tiny, "--json"))["new"] == 0
    assert not (tmp_path / "store").exists()
    (empty / "rows.jsonl").write_text('{"id": "a", "text": "one"}')
    several = twinvec("ingest", folder, empty, *place, *tiny)
    assert several.code == 0
    assert "4 new" in several.out
    assert several.err == ""


@pytest.mark.usefixtures("clock")
def test_what_was_done_before_an_error_is_told(twinvec, tmp_path, monkeypatch, tiny):
    monkeypatch.setattr("twinvec_qdrant.ingest.planned.BATCH_CHUNKS", 2)
    rows = [{"id": str(row), "text": f"note {row}"} for row in range(9)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    with StandIn().running() as server:
        written = []

        def fault(method, path):
            if method == "PUT" and path.partition("?")[0].endswith("/points"):
                written.append(path)
            return Fault.BUSY if len(written) > 10 else None

        server.fault = fault
        for form in ((), ("--json",)):
            written.clear()
            name = f"notes{len(form)}"
            done = twinvec("ingest", tmp_path / "rows.jsonl", "--collection", name, "--url", server.url, *tiny, *form)
            assert done.code == 1
            assert "503" in done.err
            committed = int(re.search(r"committed before the error: (\d+) new", done.err)[1])
            assert 0 < committed < len(rows)
            if form:
                assert json.loads(done.out)["new"] == committed
            else:
                assert done.out == ""


@pytest.mark.slow
def test_a_server_may_take_longer_to_come_back(twinvec, tmp_path, monkeypatch, clock, tiny):
    monkeypatch.setattr("twinvec_qdrant.stores.server.retrying._GROWING", lambda state: 3600.0)
    (tmp_path / "rows.jsonl").write_text(json.dumps({"id": "a", "text": "tea"}))
    with StandIn().running() as server:
        back = [clock.now + 3600]
        server.fault = lambda method, path: Fault.BUSY if clock.now < back[0] else None
        command = ("ingest", tmp_path / "rows.jsonl", "--collection", "notes", "--url", server.url, *tiny)
        assert twinvec(*command).code == 1
        assert twinvec(*command, "--wait", 4000).code == 0
        notes = ("--collection", "notes")
        for other in (
            ("push", *notes, "--to-path", tmp_path / "copy"),
            ("search", "tea", *notes),
            ("info", *notes),
            ("verify", *notes),
            ("collections",),
            ("drop", "notes", "--yes"),
        ):
            back[0] = clock.now + 3600
            assert twinvec(*other, "--url", server.url).code == 1
            assert twinvec(*other, "--url", server.url, "--wait", 4000).code == 0


def test_an_empty_source_prunes_only_where_that_is_said(twinvec, folder, place, tmp_path, tiny):
    twinvec("ingest", folder, *place, *tiny)
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.jsonl").touch()
    same = ("--source", "notes", "--prune")
    for source in ("empty", "empty.jsonl"):
        done = twinvec("ingest", tmp_path / source, *place, *tiny, *same)
        assert done.code == 1
        assert "--allow-empty" in done.err
    assert figures(twinvec("info", *place, "--json"))["sources"] == 3
    emptied = twinvec("ingest", tmp_path / "empty", *place, *tiny, *same, "--allow-empty", "--json")
    assert figures(emptied)["deleted"] == 3


@pytest.mark.slow
def test_search_for_people_and_programs(twinvec, folder, place):
    twinvec("ingest", folder, *place)
    assert figures(twinvec("info", *place, "--json"))["model"] == "default"
    one = figures(twinvec("search", "hot drinks", *place, "--limit", 2, "--json"))
    assert list(one) == ["hits"]
    assert one["hits"][0]["id"] == "tea.md"
    assert set(one["hits"][0]) == {"id", "text", "score", "scores", "payload", "relevance", "passage"}
    assert set(one["hits"][0]["passage"]) == {"text", "start", "end", "matches"}
    assert set(one["hits"][0]["scores"]) == {"dense", "sparse", "fused"}
    two = figures(twinvec("search", "hot drinks", "cycling", *place, "--rerank", "maxsim", "--json"))
    assert [each["query"] for each in two["results"]] == ["hot drinks", "cycling"]
    assert two["results"][1]["hits"][0]["id"] == "bikes/chain.txt"
    assert "maxsim" in two["results"][1]["hits"][0]["scores"]
    shown = twinvec("search", "cycling", *place, "--rerank", "maxsim").out
    for part in ("1.  bikes/chain.txt", "    line 1\n", "    Oil the chain of a bicycle after riding", "reranked in"):
        assert part in shown
    assert "dense" not in shown
    explained = twinvec("search", "cycling", *place, "--rerank", "maxsim", "--explain").out
    for stage in ("dense ", "sparse ", "fused ", "maxsim ", "score "):
        assert stage in explained


@pytest.mark.parametrize(("mode", "stages"), [("dense", {"dense"}), ("sparse", {"sparse"})])
def test_modes_and_chunks(twinvec, folder, place, mode, stages, tiny):
    twinvec("ingest", folder, *place, *tiny)
    hits = figures(twinvec("search", "tea espresso", *place, "--mode", mode, "--chunks", "--json"))["hits"]
    assert {"tea.md#0", "tea.md#1"} <= {hit["id"] for hit in hits}
    assert set(hits[0]["scores"]) == stages


def test_a_cross_encoder_reranks(twinvec, folder, place, tiny_cross_encoder, tiny):
    twinvec("ingest", folder, *place, *tiny)
    hits = figures(twinvec("search", "tea", *place, "--rerank", tiny_cross_encoder("bert"), "--json"))["hits"]
    assert set(hits[0]["scores"]) == {"dense", "sparse", "fused", "cross-encoder"}


@pytest.mark.slow
def test_filters(twinvec, place, tmp_path, tiny):
    rows = [{"id": str(year), "text": "a year of rain", "year": year, "lang": lang} for year, lang in
            ((2019, "en"), (2020, "de"), (2021, "en"), (2022, "fr"))]  # fmt: skip
    (tmp_path / "years.jsonl").write_text("\n".join(map(json.dumps, rows)))
    twinvec("ingest", tmp_path / "years.jsonl", *place, *tiny)

    def found(*conditions):
        options = [part for condition in conditions for part in ("--filter", condition)]
        return {hit["id"] for hit in figures(twinvec("search", "rain", *place, *options, "--json"))["hits"]}

    assert found("year>=2020", "year<2022") == {"2020", "2021"}
    assert found("lang=en", "lang=fr") == {"2019", "2021", "2022"}
    assert found("lang = en", "year > 2019") == {"2021"}
    assert found("year=2022") == {"2022"}
    assert found('year="2022"') == set(), "a quoted value is a text"
    assert found('lang="=en"', "lang=" + "[" * 5000) == set()
    assert found("lang!=en") == found("lang != en") == {"2020", "2022"}
    assert found("lang!=en", "lang!=fr", "year>=2000") == {"2020"}
    assert found('{"or": [{"lang": "en"}, {"year": {"gt": 2021}}]}', "year>2019") == {"2021", "2022"}
    assert found(' {"not": {"lang": "en"}}') == {"2020", "2022"}
    for wrong in ("year", "=3", "year~3", "year>=soon", "year>=1e999", "year=1e999", "{", "{}", '{"or": 3, "$or": 3}',
                  "{" * 5000, '{"lang": ' * 9999):  # fmt: skip
        done = twinvec("search", "rain", *place, "--filter", wrong)
        assert done.code in (1, 2)
        assert "filter" in done.err
        assert "unexpected" not in done.err
    meant = {
        "year==2020": "year=2020",
        "year=>2020": "year>=2020",
        "year =< 2021": "year<=2021",
        "lang==en": "lang=en",
        "lang!==en": "lang!=en",
    }
    for wrong, right in meant.items():
        done = twinvec("search", "rain", *place, "--filter", wrong)
        assert done.code == 2
        assert f"write {right}," in " ".join(done.err.replace("│", " ").split())
    assert twinvec("search", "rain", *place, "--filter", "year=1", "--filter", "year>0").code == 2


@pytest.mark.slow
def test_pages_and_tenants(twinvec, place, tmp_path, tiny):
    rows = [{"id": f"{owner}{row}", "text": f"note {row} on tea", "owner": owner} for owner in "ab" for row in range(3)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    assert twinvec("ingest", tmp_path / "rows.jsonl", *place, *tiny, "--tenant-key", "owner").code == 0
    done = twinvec("search", "tea", *place)
    assert done.code == 1
    assert "--filter owner=" in done.err
    search = ("search", "tea", *place, "--filter", "owner=a", "--json")
    for more in ((), ("--rerank", "maxsim")):
        whole = [hit["id"] for hit in figures(twinvec(*search, *more))["hits"]]
        assert sorted(whole) == ["a0", "a1", "a2"]
        assert [hit["id"] for hit in figures(twinvec(*search, *more, "--limit", 1, "--offset", 1))["hits"]] == whole[
            1:2
        ]


def test_json_lines_from_standard_input(twinvec, place, monkeypatch, tiny):
    stream = io.TextIOWrapper(io.BytesIO(b'{"id": "a", "text": "one"}\n{"id": "b"}\n{"id": "c", "text": "two"}\n'))
    monkeypatch.setattr(sys, "stdin", stream)
    report = figures(twinvec("ingest", "-", *place, *tiny, "--json"), code=3)
    assert (report["new"], report["failed"]) == (2, 1)
    assert report["failures"] == [["line 2", "no 'text' among the keys ['id']; expected a string"]]


@pytest.mark.parametrize("given", [b"not json\n", slow(b'{"id": "a", "text": ""}\n'), slow(b"")])
def test_an_ingest_without_documents_says_that_the_collection_is_there(twinvec, place, monkeypatch, tiny, given):
    for more in (["--dry-run"], [], ["--json"]):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
        done = twinvec("ingest", "-", *place, *tiny, *more)
        assert done.code == (given == b"not json\n")
        told = "the collection 'notes' exists, and is empty"
        assert (told in done.err) == (more != ["--dry-run"])
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b'{"id": "a", "text": "tea"}\n'), encoding="utf-8"))
    assert "is there" not in twinvec("ingest", "-", *place, *tiny).err
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given), encoding="utf-8"))
    assert "is there" not in twinvec("ingest", "-", *place, *tiny).err


def test_failures_are_listed_and_nothing_but_failures_is_an_error(twinvec, folder, place, tiny):
    (folder / "image.bin").write_bytes(bytes(range(256)))
    done = twinvec("ingest", folder, *place, *tiny)
    assert done.code == 3
    assert "3 new" in done.out
    assert "1 failed" in done.out
    assert "failed: image.bin: " in done.err
    assert twinvec("ingest", folder / "image.bin", "--collection", "other", *place[2:], *tiny).code == 1


@pytest.mark.slow
def test_a_terminal_shows_how_far_an_ingest_is_and_what_failed(on_terminal, folder, place, exported):
    (folder / "image.bin").write_bytes(bytes(range(256)))
    shown = on_terminal(120, "ingest", folder, *place, "--model", exported, code=3)
    assert re.search(r"Ingesting[^\r]*4/4 documents[^\r]*1 failed", shown)
    assert "3 new" in shown
    narrow = on_terminal(80, "ingest", folder, *place, "--model", exported, code=3)
    assert "failed: image.bin: a binary file (it holds NUL bytes) of a format that cannot be\r\n  converted" in narrow


def test_empty_documents_are_named(twinvec, folder, place, tiny):
    for number in range(11):
        (folder / f"void{number:02}.md").touch()
    for command in (("ingest", folder, *tiny), ("update",)):
        done = twinvec(*command, *place)
        assert done.code == 0
        assert "11 empty" in done.out
        assert "empty: void09.md: holds no text\n" in done.err
        assert "void10.md" not in done.err
        assert "... and 1 more empty; --json lists all" in done.err


def test_a_rare_reason_is_shown_beside_many_of_another(twinvec, tmp_path, place, tiny):
    rows = tmp_path / "rows.jsonl"
    rows.write_text("{}\n" * 30 + '{"text": "tea", "id": ""}\n{"text": "tea", "id": "a"}\n', encoding="utf-8")
    done = twinvec("ingest", rows, *place, *tiny)
    assert done.code == 3
    failed = [line for line in done.err.splitlines() if line.startswith("failed: ")]
    assert len(failed) == 10
    assert [line.split()[1] for line in failed[:3]] == ["rows.jsonl:1:", "rows.jsonl:31:", "rows.jsonl:2:"]
    assert "... and 21 more failed" in done.err


ODD = "a\x1b]0;pwned\x07\x9b31m\u202e\nb"
ODD_SHOWN = r"a\x1b]0;pwned\x07\x9b31m\u202e\nb"


def odd_characters(text):
    return [each for each in text if each != "\n" and (not each.isprintable() or each in "\u202e\x9b")]


def test_names_with_control_characters_are_escaped(twinvec, folder, place, tmp_path, tiny):
    (folder / f"{ODD}.bin").write_bytes(bytes(256))
    (folder / f"{ODD}.md").touch()
    (folder / "rows.jsonl").write_text(json.dumps({"id": ODD, "text": " "}) + "\n{}\n")
    ingested = twinvec("ingest", folder, *place, *tiny)
    assert ingested.code == 3
    lines = ingested.err.splitlines()
    assert any(line.startswith(f"failed: {ODD_SHOWN}.bin: ") for line in lines)
    assert f"empty: {ODD_SHOWN}.md: holds no text" in lines
    assert f"empty: rows.jsonl/{ODD_SHOWN}: holds no text" in lines
    updated = twinvec("update", *place)
    assert f"empty: {ODD_SHOWN}.md: holds no text" in updated.err
    missing = twinvec("ingest", tmp_path / ODD, *place, *tiny)
    assert missing.err == f"twinvec: {tmp_path / ODD_SHOWN}: no such file or folder\n"
    (tmp_path / ODD).mkdir()
    nothing = twinvec("ingest", tmp_path / ODD, *place, *tiny)
    assert f"no documents found in {tmp_path / ODD_SHOWN}" in nothing.err
    for done in (ingested, updated, missing, nothing):
        assert odd_characters(done.out + done.err) == []


def test_json_has_the_names_as_they_are(twinvec, folder, place, tiny):
    (folder / f"{ODD}.bin").write_bytes(bytes(256))
    done = twinvec("ingest", folder, *place, *tiny, "--json")
    assert odd_characters(done.out) == []
    assert figures(done, code=3)["failures"][0][0] == f"{ODD}.bin"


@pytest.mark.slow
def test_a_terminal_gets_no_control_characters_of_names(on_terminal, folder, place, exported):
    (folder / f"{ODD}.bin").write_bytes(bytes(256))
    shown = on_terminal(300, "ingest", folder, *place, "--model", exported, code=3)
    assert f"failed: {ODD_SHOWN}.bin: " in shown
    assert "\x07" not in shown
    assert "\x1b]0" not in shown


def test_another_model_is_refused_with_both_names(twinvec, folder, place, tiny, tiny_model):
    twinvec("ingest", folder, *place, *tiny)
    model = tiny_model("bert", seed=1)
    for command in (("ingest", folder), ("search", "tea")):
        done = twinvec(*command, *place, "--model", model)
        assert done.code == 1
        assert str(model) in done.err
        assert str(tiny[1]) in done.err
    assert figures(twinvec("ingest", folder, *place, *tiny, "--json"))["unchanged"] == 3


def test_a_collection_of_another_model_is_searched_with_it(twinvec, folder, place, tiny_model):
    twinvec("ingest", folder, *place, "--model", tiny_model("bert"))
    assert figures(twinvec("info", *place, "--json"))["model"] == str(tiny_model("bert"))
    assert len(figures(twinvec("search", "tea", *place, "--json"))["hits"]) == 3


@pytest.mark.slow
def test_a_search_with_an_exported_model_loads_little(twinvec, folder, place, exported):
    twinvec("ingest", folder, *place, "--model", exported)
    program = (
        "import sys\n"
        "from twinvec.cli.app import main\n"
        "from twinvec.engines.openvino import OpenVinoRunner\n"
        "make, made = OpenVinoRunner.__init__, []\n"
        "OpenVinoRunner.__init__ = lambda self, *given: made.append(given) or make(self, *given)\n"
        "try: main(sys.argv[1:])\n"
        "except SystemExit as stop: assert not stop.code\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'qdrant_client', 'bm25s', 'scipy'}\n"
        "print('LOADED', sorted(heavy & set(sys.modules)), 'COMPILED', len(made))"
    )
    command = [sys.executable, "-c", program, "search", "oil the chain", *map(str, place)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)
    assert "bikes/chain.txt" in done.stdout
    assert "LOADED [] COMPILED 1" in done.stdout


@pytest.mark.parametrize("command", [("search", "tea"), ("info",)])
def test_a_missing_collection_is_named(twinvec, place, command, tmp_path):
    done = twinvec(*command, *place)
    assert done.code == 1
    assert "notes" in done.err
    assert not (tmp_path / "store").exists(), "looking must not make a store"


@pytest.mark.parametrize(
    "arguments",
    [
        ("search", "tea", "--collection", "n", "--path", "x", "--url", "http://localhost:1"),
        ("search", "--collection", "n"),
        ("search", " \n", "--collection", "n"),
        ("search", "tea", "--collection", "n", "--files", "--json"),
        ("search", "tea", "--collection", "n", "--limit"),
        ("ingest", ".", "--collection", "n", "--no-chunking", "--overlap", "3"),
        ("ingest", ".", "--collection", "n", "--language", "klingon"),
        ("ingest", ".", "--collection", "n", "--cluster", "nodes=2"),
        ("ingest", ".", "--collection", "n", "--payload-index", "team:words"),
        ("reindex", "--collection", "n", "--cluster", "shards=none"),
        ("adopt", "--url", "http://localhost:1", "--collection", "n", "--layout", "langchain", "--language", "klingon"),
        ("evaluate", "default"),
        ("evaluate", "default", "--ir", "no-folder", "--measures", "best@10"),
        ("compare", "default", "bm25", "-o", "report"),
        ("export", "default", "-o", "made", "--precision", "int8"),
        ("export", "default", "-o", "made", "--dim", "8"),
        ("export", "default", "-o", "made", "--calibrate", "a.txt", "--calibrate-collection", "n"),
        ("export", "default", "-o", "made", "--calibrate", "a.txt", "--field", "body"),
        ("encode", "a.txt", "-o", "a.npy", "--field", "body"),
    ],
)
def test_wrong_usage(twinvec, arguments, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert twinvec(*arguments).code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("search", "tea", "--limit", "ten"), "'--limit': 'ten' should be a valid integer"),
        (("search", "tea", "--limit", "0"), "'--limit': '0' should be greater than or equal to 1"),
        (("search", "tea", "--limit", "10001"), "'--limit': '10001' should be less than or equal to 10000"),
        (("search", "tea", "--offset", "10001"), "'--offset': '10001' should be less than or equal to 10000"),
        (("search", "tea", "--candidates", "10001"), "'--candidates': '10001' should be less than or equal to 10000"),
        (
            ("export", "default", "-o", "made", "--calibrate-collection", "n", "--field", "body"),
            "--field names the key of the text in a .jsonl file; leave it out for other texts",
        ),
        (("search", "tea", "--min-relevance", "high"), "'--min-relevance': 'high' should be a valid number"),
        (("search", "tea", "--mode", "fuzzy"), "'fuzzy' is not one of 'hybrid', 'dense', 'sparse'."),
        (("search", "-varroa mites"), "comes last, after --: twinvec search -- '-varroa mites'"),
        (("show", "-7.md"), "comes last, after --: twinvec show -- -7.md"),
        (("collections", "-7"), "No such option: -7"),
        (("search", "tea", "--limt", "3"), "No such option: --limt (Possible options: --limit, --wait)"),
    ],
)
def test_wrong_usage_is_said_in_plain_words(twinvec, arguments, told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = twinvec(*arguments)
    shown = " ".join(done.err.replace("│", " ").split())
    assert done.code == 2
    assert f"{told} ╰" in shown


@pytest.mark.parametrize(
    "command",
    [
        ("search", "tea"),
        ("search", "tea", "-c", "n"),
        ("ingest", ".", "-c", "n"),
        ("info", "-c", "n"),
        ("show", "tea.md"),
        ("collections",),
        ("drop", "n", "--yes"),
        ("serve",),
    ],
)
def test_a_file_in_the_place_of_a_store_is_named(twinvec, tmp_path, command, tiny):
    file = tmp_path / "notes.md"
    file.write_text("tea")
    model = tiny if command[0] in ("ingest", "serve") else ()
    done = twinvec(*command, *model, "--path", file)
    assert (done.code, done.err) == (1, f"twinvec: {file}: is a file; name the folder of the store\n")


def test_an_empty_list_names_the_store(twinvec, tmp_path):
    missing = tmp_path / "typo"
    assert twinvec("collections", "--path", tmp_path).out == f"no collections in {tmp_path}\n"
    assert twinvec("collections", "--path", missing).out == f"no collections in {missing}, which does not exist\n"


def test_a_missing_source_makes_no_collection(twinvec, place, tmp_path):
    done = twinvec("ingest", tmp_path / "nowhere", *place)
    assert done.code == 1
    assert "nowhere" in done.err
    assert twinvec("info", *place).code == 1


def test_chunking_is_recorded_and_checked(twinvec, folder, place, tiny):
    assert twinvec("ingest", folder, *place, *tiny, "--no-chunking").code == 0
    assert figures(twinvec("info", *place, "--json"))["points"] == 3
    done = twinvec("ingest", folder, *place, *tiny, "--chunk-tokens", 64)
    assert done.code == 1
    assert "chunk" in done.err


@pytest.mark.parametrize("name", ["a/b c", "..", " a", "a\tb", "a" * 201])
def test_a_new_collection_has_a_name_that_can_be_served(twinvec, folder, tmp_path, tiny, name):
    for more in ((), ("--dry-run",)):
        done = twinvec("ingest", folder, "--path", tmp_path / "store", "-c", name, *tiny, *more)
        assert (done.code, done.out) == (2, "")
        said = re.sub(r"[\s│]", "", done.err)  # the box around it folds lines
        assert re.sub(r"\s", "", f"{name!r} cannot be the name of a new collection") in said
    assert not list((tmp_path / "store").glob("*"))


def test_a_collection_that_has_another_name_already_keeps_it(twinvec, folder, tmp_path, tiny):
    name = "a/b c"
    Collection.open(name, tmp_path / "store", encoder=Encoder(tiny[1])).close()
    figures(twinvec("ingest", folder, "--path", tmp_path / "store", "-c", name, *tiny, "--json"))
    assert figures(twinvec("info", "--path", tmp_path / "store", "-c", name, "--json"))["sources"] == 3
