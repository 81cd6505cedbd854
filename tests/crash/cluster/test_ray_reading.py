"""Processes of a Ray cluster parse files, and some die of them: the collection is that of a single process."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import ray

import models
import office_files
import ray_clusters
from crash.cluster import ray_ingests
from twinvec_qdrant import Collection, IngestReport, Root
from twinvec_qdrant.cli.options import SOME_FAILED
from twinvec_ray import ingest
from words import sentences

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

DEADLY = Path(__file__).with_name("deadly")
FILES = 40


@pytest.fixture(scope="module")
def deaths(tmp_path_factory):
    """A cluster of two CPUs, whose workers die of the files that are marked, and the folder for their notes of it."""
    notes = tmp_path_factory.mktemp("deaths")
    variables = {**ray_clusters.environment(DEADLY), "TWINVEC_DEATHS": str(notes)}
    started = ray_clusters.start_cluster(2, variables=variables)
    ray.init(started.address, log_to_driver=False)
    yield notes
    ray_clusters.end_cluster(started)


@pytest.fixture
def folder(tmp_path):
    """Many office files, some of which are broken or empty, with texts and records between them."""
    folder = tmp_path / "folder"
    folder.mkdir()
    writers = {
        "docx": lambda path, text: office_files.write_docx(path, [text]),
        "html": lambda path, text: path.write_text(f"<h1>Tea</h1><p>{text}</p>"),
        "pdf": lambda path, text: office_files.write_pdf(path, [[text], [text[::-1]]]),
        "eml": lambda path, text: office_files.write_eml(path, text=text, **{"from": "a@example.org"}),
        "xlsx": lambda path, text: office_files.write_xlsx(path, [text.split()]),
        "md": lambda path, text: path.write_text(f"---\ntitle: {path.name}\n---\n{text}"),
    }
    texts = [text.encode("ascii", "ignore").decode() for text in sentences(FILES, seed=3)]
    for row, text in enumerate(texts):
        suffix = list(writers)[row % len(writers)]
        writers[suffix](folder / f"{row:02}.{suffix}", text)
    rows = [{"id": f"r{row}", "text": text} for row, text in enumerate(sentences(20, seed=4))]
    (folder / "07-records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "11-broken.pptx").write_text("not of PowerPoint")
    office_files.write_pdf(folder / "12-scan.pdf", [[]])
    return folder


def read(server, name: str, folder: Path) -> IngestReport:
    place = {"url": server.url, "encoder": ray_ingests.encoder()}
    return ingest(Root(str(folder)), name, source="files", prune=True, **place)


def alone(server, name: str, folder: Path) -> IngestReport:
    with ray_ingests.opened(server, name) as collection:
        return collection.ingest(Root(str(folder)), source="files", prune=True)


def check(server, name: str, wanted: str) -> None:
    found, expected = ray_ingests.points(server, name), ray_ingests.points(server, wanted)
    assert found.keys() == expected.keys()
    for key, (payload, vectors) in expected.items():
        assert found[key][0] == payload
        assert found[key][1] == pytest.approx(vectors, abs=1e-5)


def test_the_collection_is_that_of_one_process(deaths, server, folder):
    before = set(deaths.iterdir())
    wanted = alone(server, "alone", folder)
    report = read(server, "spread", folder)
    ray_ingests.check_report(report, wanted)
    assert (report.new, report.failed, report.empty) == (FILES + 20, 1, 1)
    check(server, "spread", "alone")
    again = read(server, "spread", folder)
    assert (again.unchanged, again.new, again.updated, again.deleted) == (FILES + 20, 0, 0, 0)
    assert set(deaths.iterdir()) == before


def test_a_worker_is_killed_while_it_parses(deaths, server, folder):
    (folder / "19.html").write_text("<p>deadly once: first</p>")
    wanted = alone(server, "once-alone", folder)
    report = read(server, "once", folder)
    assert len(list(deaths.glob("first-*"))) == 1
    ray_ingests.check_report(report, wanted)
    check(server, "once", "once-alone")


def test_a_file_that_every_worker_dies_of_fails_alone(deaths, server, folder):
    before = alone(server, "always-alone", folder)
    alone(server, "always", folder)
    (folder / "19.html").write_text("<p>deadly: always</p>")
    (folder / "21-new.html").write_text("<p>deadly: new</p>")
    report = read(server, "always", folder)
    assert len(list(deaths.glob("always-*"))) == len(list(deaths.glob("new-*"))) == 4
    reasons = dict(report.failures)
    assert {reasons.pop("19.html"), reasons.pop("21-new.html")} == {"every process that read the file died"}
    assert reasons == dict(before.failures)
    assert (report.unchanged, report.deleted, report.failed) == (before.new - 1, 0, before.failed + 2)
    check(server, "always", "always-alone")  # the older version of the first one stays


def test_a_folder_of_a_store_is_filled_too(deaths, folder, tmp_path):
    """With an embedded store, the workers parse and encode, and this process cuts and writes."""
    (folder / "21-new.html").write_text("<p>deadly: embedded</p>")
    place = {"path": tmp_path / "store", "encoder": ray_ingests.encoder()}
    report = ingest(Root(str(folder)), "docs", **place)
    assert ("21-new.html", "every process that read the file died") in report.failures
    assert (report.new, report.failed) == (FILES + 20, 2)
    with Collection.open("docs", **place) as collection:
        assert collection.verify().sound
        (folder / "21-new.html").unlink()
        again = collection.ingest(Root(str(folder)))
        assert (again.unchanged, again.new, again.updated) == (FILES + 20, 0, 0)


def test_processes_that_die_add_nothing_to_the_output_of_a_command(deaths, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "black.md").write_text("black tea")
    (folder / "green.html").write_text("<p>deadly: told</p>")
    place = ["-c", "docs", "--path", tmp_path / "store", "--model", models.export(tmp_path)]
    address = ray.get_runtime_context().gcs_address
    command = [sys.executable, "-m", "twinvec", "ingest", folder, *place, "--json", "--ray", address]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert len(list(deaths.glob("told-*"))) == 4
    told = json.loads(done.stdout)
    assert (done.returncode, told["new"], told["failed"]) == (SOME_FAILED, 1, 1)
