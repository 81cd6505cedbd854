"""Commands on a store that ``twinvec serve`` has: they print what they print on a store of their own."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.client import HTTPConnection
from itertools import count

import pytest

pytest.importorskip("twinvec_serve")

import models
from twinvec.errors import StoreUnavailableError
from twinvec_qdrant import IngestReport, Root
from twinvec_qdrant.cli.served.ingesting import ServedCollection
from unit.serve.processes import serving

pytestmark = pytest.mark.slow

KEY, READER = "a-write-key-0123456789", "a-read-key-0123456789"
GUIDE = """# Guide

## Certificates

A certificate is renewed two weeks ahead, at the desk.

## Prices

Pumps cost 100.
"""
NOT_LOADED = ("numpy", "torch", "openvino", "onnxruntime", "tokenizers", "qdrant_client", "qdrant_edge", "httpx")
SLOW_TO_LOAD = ("pydantic", "importlib.metadata", "importlib.abc", "sentencex", "twinvec.retrieval.filters.parsing")
"""Modules that a search of a served store has no use for, and that took half of its time."""


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, exported, so that a server with it starts without torch."""
    return models.export(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def folder(tiny, tmp_path_factory):
    """A folder with documents, and a store with the collections "docs" and "rows"."""
    folder = tmp_path_factory.mktemp("served")
    (folder / "docs").mkdir()
    (folder / "docs" / "guide.md").write_text(GUIDE)
    (folder / "docs" / "fees.md").write_text("# Fees\n\nLate fees are charged after thirty days.\n")
    rows = [{"id": f"r{row}", "text": f"Row {row} of certificates.", "year": 2020 + row} for row in range(5)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for source, name in (("docs", "docs"), ("rows.jsonl", "rows")):
        done = twinvec(
            folder, "ingest", source, "-c", name, "--model", str(tiny), "--path", "store", "--describe", "=all of it"
        )
        assert done.returncode == 0, done.stderr
    return folder


def twinvec(folder, *arguments, **environment):
    """Run a command in a folder."""
    command = [sys.executable, "-m", "twinvec", *map(str, arguments)]
    given = {"env": os.environ | environment, "cwd": folder, "capture_output": True, "text": True}
    given["stdin"] = subprocess.DEVNULL  # nobody answers
    return subprocess.run(command, check=False, **given)


def without_times(text):
    return re.sub(r"(found|reranked) in [\d,]+ ms|seconds +[\d.,]+ *", "TIME", text)


SEARCHES = [
    ("certificate", "-c", "docs"),
    ("certificate", "-c", "docs", "--json"),
    ("certificate", "-c", "docs", "--files"),
    ("certificate", "fees", "-c", "docs", "--explain"),
    ("certificate", "fees", "-c", "docs", "--json", "--mode", "sparse"),
    ("certificate", "-c", "docs", "--rerank", "maxsim", "--full"),
    ("certificate", "-c", "rows", "--filter", "year>=2022", "--limit", "2", "--offset", "1"),
    ("row", "-c", "rows", "--chunks", "--json"),
    ("row -certificate", "-c", "rows"),
    ('"row 3"', "-c", "rows", "--json"),
    ("certificate", "--json"),
    ("certificate", "--words", "desk", "--answer", "A certificate is renewed."),
    ("ราคา", "-c", "docs", "--json"),
    ("guide.md", "-c", "docs"),
    ("r3", "fees.md"),
    ("r3", "fees.md", "--json"),
]
OTHERS = [
    ("info", "-c", "docs"),
    ("info", "-c", "rows", "--json"),
    ("collections",),
    ("collections", "--json"),
    ("documents", "-c", "rows"),
    ("documents", "-c", "docs", "--json", "--source", "docs", "guide*", "fees.md"),
    ("documents", "-c", "rows", "--json", "--filter", "year>=2022", "--limit", "2"),
    ("documents", "-c", "rows", "none*"),
    ("get", "guide.md", "fees.md", "-c", "docs"),
    ("get", "r1", "r3", "-c", "rows", "--json"),
    ("show", "guide.md", "-c", "docs"),
    ("show", "r2#0"),
    ("delete", "r1", "-c", "rows", "--dry-run"),
    ("delete", "--filter", "year>=2022", "-c", "rows", "--dry-run", "--json"),
    ("delete", "--source", "rows.jsonl", "-c", "rows", "--dry-run"),
]
WRONG = [
    ("search", "a", "-c", "none"),
    ("search", "a", "-c", "rows", "--min-relevance", ".5"),
    ("info", "-c", "none"),
    ("documents", "-c", "none"),
    ("get", "guide.mm", "-c", "docs", "--path", "store", "--json"),
    ("show", "fee.md"),
    ("show", "fees.md", "-c", "none"),
    ("delete", "r77", "-c", "rows", "--dry-run"),
]


def test_commands_print_the_same(tiny, folder, twinvec_here):
    """Terminal, --json and exit codes, with and without a process that has the store."""
    asked = [("search", *each) for each in SEARCHES] + OTHERS
    before = [twinvec_here(folder, *each, "--path", "store") for each in asked]
    failed = [twinvec_here(folder, *each, "--path", "store") for each in WRONG]
    with serving(folder, tiny):
        for arguments, expected in zip(asked, before, strict=True):
            done = twinvec(folder, *arguments, "--path", "store")
            assert (done.returncode, done.stderr) == (0, expected.err), arguments
            assert without_times(done.stdout) == without_times(expected.out), arguments
        for arguments, expected in zip(WRONG, failed, strict=True):
            done = twinvec(folder, *arguments, "--path", "store")
            assert done.returncode == 1, arguments
            assert done.stderr.startswith("twinvec: ")
            if "none" in arguments or arguments[0] == "search":
                assert (expected.code, expected.out) == (1, done.stdout), arguments
            else:
                assert (done.stdout, done.stderr) == (expected.out, expected.err), arguments
        misused = twinvec(folder, "search", "a", "-c", "docs", "--filter", '{"year": {"foo": 1}}', "--path", "store")
        assert (misused.returncode, misused.stdout) == (2, "")
        assert any(each.out.count("certificate") for each in before)
        assert any("twinvec show r3 --path store" in each.err for each in before)


def test_a_search_of_a_store_with_a_damaged_collection_prints_the_same(tiny, folder, tmp_path):
    shutil.copytree(folder / "store", tmp_path / "store")
    (tmp_path / "store" / "docs" / "collection.json").write_text("{")
    command = ("search", "certificate", "--json", "--path", "store")
    expected = twinvec(tmp_path, *command)
    assert list(json.loads(expected.stdout)["failed"]) == ["docs"]
    assert {each["collection"] for each in json.loads(expected.stdout)["hits"]} == {"rows"}
    with serving(tmp_path, tiny):
        done = twinvec(tmp_path, *command)
    assert (done.returncode, json.loads(done.stdout)) == (expected.returncode, json.loads(expected.stdout))


def test_a_search_of_a_served_store_loads_no_model_and_no_client(tiny, folder):
    program = (
        "import sys\nfrom twinvec.cli.app import main\n"
        f"try: main(['search', 'certificate', '-c', 'docs', '--path', 'store', *sys.argv[1:]])\n"
        "except SystemExit as stop: assert not stop.code\n"
        f"print([name for name in {(*NOT_LOADED, *SLOW_TO_LOAD)!r} if name in sys.modules], file=sys.stderr)"
    )
    (folder / "pyproject.toml").write_text('[project]\nname = "of a user"\n')  # has no settings of twinvec
    with serving(folder, tiny):
        for options in ([], ["--json"], ["--files"], ["--rerank", "maxsim"], ["--mode", "dense"], ["--filter", "a!=1"]):
            command = [sys.executable, "-c", program, *options]
            done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
            assert "certificate" in done.stdout or "guide.md" in done.stdout
            assert done.stderr == "[]\n", options


def test_an_ingest_goes_through_the_process(tiny, folder, tmp_path):
    """New, changed, unchanged, empty and failed documents; the source is registered as without a process."""
    shutil.copytree(folder / "docs", tmp_path / "docs")
    (tmp_path / "docs" / "empty.md").write_text("")
    (tmp_path / "docs" / "rows.jsonl").write_text('{"id": "r1", "text": "a row"}\n{"text": "no id"}\n')
    with serving(tmp_path, tiny) as server:
        ingest = ("ingest", "docs", "-c", "docs", "--path", "store")
        trial = twinvec(tmp_path, *ingest, "--dry-run", "--json", "--model", tiny)
        assert json.loads(trial.stdout)["new"] == 3
        assert json.loads(twinvec(tmp_path, "collections", "--path", "store", "--json").stdout) == {"collections": []}
        done = twinvec(tmp_path, *ingest, "--json", "--chunk-tokens", "20", "--model", tiny)
        report = json.loads(done.stdout)
        assert done.returncode == 3, done.stderr
        assert (report["new"], report["empty"], report["failed"], report["roots"]) == (3, 1, 1, ["docs"])
        assert report["failures"][0][0] == "rows.jsonl:2"
        (tmp_path / "docs" / "fees.md").write_text("# Fees\n\nFees are charged after ten days.\n")
        shown = twinvec(tmp_path, *ingest)
        assert "0 new, 1 updated, 2 unchanged, 0 deleted, 1 failed" in shown.stdout
        assert "failed: rows.jsonl:2" in shown.stderr
        (tmp_path / "docs" / "rows.jsonl").write_text("no JSON\n")
        hidden = twinvec(tmp_path, *ingest, "--prune", "--json")
        (warning,) = json.loads(hidden.stdout)["warnings"]
        assert warning == "not pruned: 1 missing document, which 1 failure may hide: rows.jsonl/r1"
        assert warning in hidden.stderr
        (tmp_path / "docs" / "rows.jsonl").unlink()
        pruned = json.loads(twinvec(tmp_path, *ingest, "--prune", "--json").stdout)
        assert (pruned["deleted"], pruned["unchanged"]) == (1, 2)
        disk = tmp_path / "docs" / "disk"
        disk.mkdir()
        for row in range(10):
            (disk / f"{row}.md").write_text(f"Document {row}.")
        assert json.loads(twinvec(tmp_path, *ingest, "--json").stdout)["new"] == 10
        disk.rename(tmp_path / "away")
        disk.mkdir()
        kept = json.loads(twinvec(tmp_path, *ingest, "--prune", "--json").stdout)
        assert (kept["deleted"], "disk/ (10)" in kept["warnings"][0]) == (0, True)
        assert json.loads(twinvec(tmp_path, *ingest, "--prune", "--allow-empty", "--json").stdout)["deleted"] == 10
        others = (("update",), ("search", "tea"), ("tune", "-c", "docs"))
        for command in (ingest, *((*each, "--path", "store") for each in others)):
            refused = twinvec(tmp_path, *command, "--precision", "bfloat16")
            assert refused.returncode == 1
            assert "start that process again with twinvec serve --precision" in " ".join(refused.stderr.split())
        assert twinvec(tmp_path, *ingest, TWINVEC_PRECISION="bfloat16").returncode == 0
        for command in (ingest, ("migrate", "-c", "docs", "--path", "store", "--to", tiny)):
            refused = twinvec(tmp_path, *command, "--dim", "8")
            assert refused.returncode == 1
            assert "leave --dim out, or stop that process first" in " ".join(refused.stderr.split())
        other = twinvec(tmp_path, *ingest, "--overlap", "3")
        assert other.returncode == 1
        assert "leave chunking out" in other.stderr
        wrong = twinvec(tmp_path, "ingest", "docs", "-c", "new", "--path", "store", "--model", "another/model")
        assert wrong.returncode == 1
        assert "unknown model 'another/model'" in wrong.stderr
        assert server.stop(signal.SIGTERM) == 0
    info = json.loads(twinvec(tmp_path, "info", "-c", "docs", "--path", "store", "--json").stdout)
    assert info["roots"] == [{"name": "docs", "location": str(tmp_path / "docs"), "documents": 2}]
    updated = twinvec(tmp_path, "update", "-c", "docs", "--path", "store", "--json")
    assert json.loads(updated.stdout)["collections"][0]["unchanged"] == 2, updated.stderr


def test_an_update_goes_through_the_process(tiny, folder, tmp_path):
    shutil.copytree(folder / "docs", tmp_path / "docs")
    (tmp_path / "docs" / "draft.txt").write_text("A draft.")
    (tmp_path / "rows.jsonl").write_text('{"id": "r1", "text": "a row"}\n')
    with serving(tmp_path, tiny):
        ingest = ("ingest", "docs", "-c", "docs", "--path", "store", "--include", "*.md")
        assert twinvec(tmp_path, *ingest).returncode == 0
        assert twinvec(tmp_path, "ingest", "rows.jsonl", "-c", "rows", "--path", "store").returncode == 0
        (tmp_path / "docs" / "fees.md").unlink()
        (tmp_path / "docs" / "new.md").write_text("# New\n\nA new page.\n")
        done = twinvec(tmp_path, "update", "--path", "store", "--json")
        reports = {each["name"]: each for each in json.loads(done.stdout)["collections"]}
        assert done.returncode == 0, done.stderr
        counts = {name: (each["new"], each["unchanged"], each["deleted"]) for name, each in reports.items()}
        assert counts == {"docs": (1, 1, 1), "rows": (0, 1, 0)}, "the draft is left out, as it was before"
        for each in ("guide.md", "new.md"):
            (tmp_path / "docs" / each).unlink()
        emptied = twinvec(tmp_path, "update", "-c", "docs", "--path", "store")
        assert emptied.returncode == 1
        assert "not updated: docs: the ingest got no documents" in emptied.stderr
        missing = twinvec(tmp_path, "update", "-c", "none", "--path", "store")
        assert missing.returncode == 1
        assert "no collection 'none'" in missing.stderr


def test_a_watch_goes_on_while_a_process_serves_the_store_and_after_it(tiny, folder, tmp_path):
    shutil.copytree(folder / "docs", tmp_path / "docs")
    watch = [sys.executable, "-m", "twinvec", "update", "-c", "docs", "--path", "store", "--watch", "--json"]
    with serving(tmp_path, tiny) as server:
        assert twinvec(tmp_path, "ingest", "docs", "-c", "docs", "--path", "store").returncode == 0
        watching = subprocess.Popen(watch, cwd=tmp_path, env=os.environ.copy(), text=True, stdout=subprocess.PIPE)
        try:
            assert json.loads(watching.stdout.readline())["unchanged"] == 2
            (tmp_path / "docs" / "served.md").write_text("served")
            assert json.loads(watching.stdout.readline())["new"] == 1
            assert server.stop(signal.SIGTERM) == 0
            (tmp_path / "docs" / "alone.md").write_text("alone")
            assert json.loads(watching.stdout.readline())["new"] == 1
            with serving(tmp_path, tiny):
                (tmp_path / "docs" / "again.md").write_text("again")
                assert json.loads(watching.stdout.readline())["new"] == 1
                watching.terminate()
                assert watching.wait(60) == 0
        finally:
            watching.kill()
            watching.wait()
            watching.stdout.close()


def test_a_collection_is_verified_by_the_process(tiny, folder, tmp_path):
    shutil.copytree(folder / "docs", tmp_path / "docs")
    place = ("-c", "docs", "--path", "store")
    with serving(tmp_path, tiny) as server:
        assert twinvec(tmp_path, "ingest", "docs", *place).returncode == 0
        done = twinvec(tmp_path, "verify", *place, "--json")
        assert done.returncode == 0, done.stderr
        by_process = json.loads(done.stdout)
        assert (by_process["sources"], by_process["chunks"], by_process["sound"]) == (2, 3, True)
        refused = twinvec(tmp_path, "push", *place, "--to-path", "other")
        assert refused.returncode == 1
        assert f"process {server.process.pid} at {server.address}" in refused.stderr
        assert "for all else, stop that process first" in refused.stderr
        repaired = twinvec(tmp_path, "verify", *place, "--repair", "--json")
        assert (repaired.returncode, json.loads(repaired.stdout)) == (0, by_process | {"repaired": True})
        missing = twinvec(tmp_path, "verify", "-c", "none", "--path", "store")
        assert "no collection 'none'" in missing.stderr
        assert server.stop(signal.SIGTERM) == 0
    assert json.loads(twinvec(tmp_path, "verify", *place, "--json").stdout) == by_process


def test_an_ingest_that_the_process_refuses_is_an_error(tiny, folder, tmp_path):
    shutil.copytree(folder / "docs", tmp_path / "docs")
    (tmp_path / "empty").mkdir()
    with serving(tmp_path, tiny):
        ingest = ("-c", "docs", "--path", "store", "--source", "docs", "--prune")
        assert twinvec(tmp_path, "ingest", "docs", *ingest).returncode == 0
        done = twinvec(tmp_path, "ingest", "empty", *ingest)
        assert done.returncode == 1
        assert "the ingest got no documents" in done.stderr
        nothing = twinvec(tmp_path, "ingest", "empty", "-c", "others", "--path", "store")
        assert nothing.returncode == 0
        assert "no documents found in empty; looked for all files" in nothing.stderr
        listed = json.loads(twinvec(tmp_path, "collections", "--path", "store", "--json").stdout)["collections"]
        assert [each["name"] for each in listed] == ["docs"]


def test_a_store_without_collections_and_a_name_that_cannot_be_are_told_as_without_the_process(
    tiny, folder, tmp_path, twinvec_here
):
    (tmp_path / "store").mkdir()
    commands = [
        ("search", "a", "--path", "store"),
        ("ingest", folder / "rows.jsonl", "-c", "a/b", "--path", "store"),
    ]
    expected = [twinvec_here(tmp_path, *each) for each in commands]
    assert [each.code for each in expected] == [1, 2]
    with serving(tmp_path, tiny):
        for command, other in zip(commands, expected, strict=True):
            done = twinvec(tmp_path, *command)
            assert (done.returncode, done.stdout) == (other.code, other.out)
            assert " ".join(done.stderr.split()) == " ".join(other.err.split())


def test_an_ingest_whose_process_dies_says_what_stays(tiny, tmp_path):
    rows = 3000
    lines = "".join(json.dumps({"id": f"r{row}", "text": f"row {row}"}) + "\n" for row in range(rows))
    place = ("-c", "rows", "--path", "store")
    with serving(tmp_path, tiny) as server:
        command = [sys.executable, "-m", "twinvec", "ingest", "-", *place, "--json"]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:
            process.stdin.write(lines)
            process.stdin.flush()
            assert any(documents_of(server, "rows") for _ in range(100_000)), "nothing was stored"
            server.stop(signal.SIGKILL)
            output, errors = process.communicate(lines)
        assert process.returncode == 1
    assert f"process {server.process.pid} at {server.address}" in errors
    assert "documents that the process has stored are kept; run the same command again to ingest the rest" in errors
    told, stored = json.loads(output), json.loads(twinvec(tmp_path, "info", *place, "--json").stdout)["sources"]
    assert told["new"] <= stored
    assert 0 < stored < 2 * rows
    assert "Traceback" not in errors


def test_the_report_of_a_lost_process_has_what_it_had_committed(folder):
    class Lost:
        def get(self, path):
            return {"sources": 0}

        def stream(self, path, lines, on_event):
            on_event("progress", {"done": 2, "report": {"new": 1, "failed": 1, "chunks": 3}})
            raise StoreUnavailableError("the connection failed")

    report = IngestReport(new=4)  # of another source
    with pytest.raises(StoreUnavailableError):
        ServedCollection(Lost(), "docs").ingest(
            Root(str(folder / "docs")), report=report, source=None, progress=False, allow_all_failed=True
        )
    assert report == IngestReport(new=5, failed=1, chunks=3)


@pytest.mark.parametrize(
    ("info", "is_new"),
    [({"sources": 0}, True), ({"sources": 3}, False), *[({"sources": 3, "reading": n}, n > 1) for n in range(1, 9)]],
)
def test_files_are_read_as_the_collection_asks(tmp_path, info, is_new):
    """A collection that records nothing and has documents is one of an older version."""
    text, sent = f"![A pot](data:image/png;base64,{'A' * 120})", []

    class Client:
        def get(self, path):
            return info

        def stream(self, path, lines, on_event):
            sent.extend(lines)

    (tmp_path / "tea.md").write_text(text)
    root = Root(str(tmp_path / "tea.md"))
    ServedCollection(Client(), "docs").ingest(
        root, report=IngestReport(), source=None, progress=False, allow_all_failed=True
    )
    assert sent[1]["document"]["text"] == ("![A pot](data:image/png;base64...)" if is_new else text)


@contextmanager
def interruptible(folder, *arguments):
    """Start a command that the test may interrupt."""
    command = [sys.executable, "-m", "twinvec", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, cwd=folder, text=True, **pipes) as process:
        try:
            yield process
        except BaseException:
            process.kill()  # a failed test does not wait for it
            raise


def test_an_ingest_that_waits_for_another_says_so(tiny, folder, tmp_path):
    shutil.copytree(folder / "docs", tmp_path / "docs")
    place = ("-c", "docs", "--path", "store")
    with serving(tmp_path, tiny) as server:
        assert twinvec(tmp_path, "ingest", "docs", *place).returncode == 0
        before = HTTPConnection(server.address.removeprefix("http://"), timeout=120)
        before.putrequest("POST", "/v1/collections/docs/documents")
        for header in ("Content-Type: application/x-ndjson", "Accept: text/event-stream", "Transfer-Encoding: chunked"):
            before.putheader(*header.split(": "))
        before.endheaders()
        answer = before.getresponse()  # the ingest has begun, and waits for documents
        (tmp_path / "docs" / "new.md").write_text("# New\n\nA new page.\n")
        with interruptible(tmp_path, "ingest", "docs", *place) as process:
            told = process.stderr.readline()
            assert "the process that serves the store finishes other ingests first" in told
            before.send(b"0\r\n\r\n")
            answer.read()
            before.close()
            process.communicate(timeout=120)
        assert process.returncode == 0
        assert documents_of(server, "docs") == 3


def test_an_ingest_that_is_interrupted_while_it_reads_says_what_stays(tiny, tmp_path):
    with serving(tmp_path, tiny) as server:
        with interruptible(tmp_path, "ingest", "-", "-c", "rows", "--path", "store") as process:
            process.stdin.write(
                "".join(json.dumps({"id": f"r{row}", "text": f"row {row}"}) + "\n" for row in range(3000))
            )
            process.stdin.flush()
            assert any(documents_of(server, "rows") for _ in range(100_000)), "nothing was stored"
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=120)
        assert process.returncode == 130
        assert (
            "the process that serves the store keeps stored documents, and may not have received the others" in errors
        )


def test_an_ingest_that_is_interrupted_when_all_is_sent_goes_on(folder, capsys):
    class Interrupted:
        def get(self, path):
            return {"sources": 0}

        def stream(self, path, lines, on_event):
            on_event("progress", {"done": 1, "received": True})
            raise KeyboardInterrupt

    collection = ServedCollection(Interrupted(), "docs")
    report = IngestReport()
    with pytest.raises(KeyboardInterrupt):
        collection.ingest(Root(str(folder / "docs")), report=report, source=None, progress=False, allow_all_failed=True)
    told = "the process that serves the store has received all documents of this source, and goes on to ingest them"
    assert capsys.readouterr().err == f"twinvec: {told}\n"


def documents_of(server, name):
    """Return how many documents a collection has, if it is there."""
    import httpx

    return httpx.get(f"{server.address}/v1/collections/{name}", timeout=120).json().get("sources", 0)


def test_documents_are_deleted_by_the_process(tiny, tmp_path):
    rows = [{"id": f"row-{row}", "text": f"Row {row}.", "year": 2020 + row} for row in range(6)]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)))
    place = ("-c", "rows", "--path", "store")
    with serving(tmp_path, tiny) as server:
        assert twinvec(tmp_path, "ingest", "rows.jsonl", *place, "--model", tiny).returncode == 0
        gone = twinvec(tmp_path, "delete", "row-1", "row-9", *place)
        assert (gone.returncode, gone.stdout) == (1, "deleted 1 document\n")
        assert "no document 'row-9'; the nearest: 'row-" in gone.stderr
        unanswered = twinvec(tmp_path, "delete", "--filter", "year>=2024", *place)
        assert unanswered.returncode == 1
        assert "Delete 2 documents from 'rows'?" in unanswered.stderr
        command = [sys.executable, "-m", "twinvec", "delete", "--filter", "year=2020", *place]
        answered = subprocess.run(command, input="y\n", cwd=tmp_path, capture_output=True, text=True, check=True)
        assert answered.stdout.strip() == "deleted 1 document"
        assert "row-0" in answered.stderr
        by_filter = twinvec(tmp_path, "delete", "--filter", "year>=2024", *place, "--yes", "--json")
        assert json.loads(by_filter.stdout) == {"deleted": 2, "documents": ["row-4", "row-5"], "missing": []}
        assert server.stop(signal.SIGTERM) == 0
    left = json.loads(twinvec(tmp_path, "get", *(f"row-{row}" for row in range(6)), *place, "--json").stdout)
    assert [each["id"] for each in left["documents"]] == ["row-2", "row-3"]
    assert left["missing"] == ["row-0", "row-1", "row-4", "row-5"]


def test_keys_come_from_the_same_places(tiny, folder, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text(f"\ufeff# of the tests\nread {READER}\nwrite {KEY}\n")
    search = ("search", "certificate", "-c", "docs", "--path", "store")
    ingest = ("ingest", "docs", "-c", "docs", "--path", "store")
    with serving(folder, tiny, "--api-key-file", str(keys)):
        refused = twinvec(folder, *search)
        assert refused.returncode == 1
        assert "TWINVEC_API_KEY" in refused.stderr
        for environment in (
            {"TWINVEC_API_KEY": KEY},
            {"TWINVEC_READ_API_KEY": READER},
            {"TWINVEC_SERVE_API_KEY_FILE": str(keys)},
        ):
            assert twinvec(folder, *search, **environment).returncode == 0
        assert twinvec(folder, *ingest, TWINVEC_API_KEY=KEY).returncode == 0
        assert twinvec(folder, *ingest, TWINVEC_SERVE_API_KEY_FILE=str(keys)).returncode == 0
        for variable in ("TWINVEC_API_KEY", "TWINVEC_READ_API_KEY"):
            refused = twinvec(folder, *ingest, **{variable: READER})
            assert refused.returncode == 1
            assert "the key may not write; use a write key" in refused.stderr
            assert READER not in refused.stdout + refused.stderr


def test_a_killed_process_misleads_nobody(tiny, folder):
    with serving(folder, tiny) as server:
        server.stop(signal.SIGKILL)
    done = twinvec(folder, "search", "certificate", "-c", "docs", "--path", "store", "--files")
    assert (done.returncode, done.stderr) == (0, "")
    assert "docs/guide.md" in done.stdout


def test_searches_during_an_ingest_of_thousands_of_chunks(tiny, tmp_path):
    """8 clients search while one ingests; no search fails, and everything acknowledged is found."""
    import httpx

    documents = 3000
    (tmp_path / "rows.jsonl").write_text(
        "\n".join(
            json.dumps({"id": f"r{row}", "text": f"row {row} " + "word " * (row % 40)}) for row in range(documents)
        )
    )
    with serving(tmp_path, tiny) as server, httpx.Client(base_url=server.address, timeout=120) as client:
        assert client.post("/v1/collections", json={"name": "rows", "chunking": False}).status_code == 201
        client.post("/v1/collections/rows/documents", json=[{"id": "first", "text": "row first"}])
        done, statuses = threading.Event(), []

        def search():
            with httpx.Client(base_url=server.address, timeout=120) as own:
                for turn in count():
                    if turn > 2 and done.is_set():
                        return
                    answer = own.post("/v1/collections/rows/search", json={"query": "row first", "limit": 3})
                    statuses.append((answer.status_code, len(answer.json().get("results", [{"hits": []}])[0]["hits"])))

        threads = [threading.Thread(target=search) for _ in range(8)]
        for each in threads:
            each.start()
        ingested = twinvec(
            tmp_path, "ingest", "rows.jsonl", "-c", "rows", "--path", "store", "--source", "rows", "--json"
        )
        done.set()
        for each in threads:
            each.join()
        assert json.loads(ingested.stdout)["new"] == documents, ingested.stderr
        assert {status for status, _ in statuses} == {200}
        assert min(found for _, found in statuses) >= 1
        assert client.get("/v1/collections/rows").json()["points"] == documents + 1
