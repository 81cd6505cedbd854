"""``--ray``: its address, and what runs where the distribution is installed, or is not."""

from __future__ import annotations

import fcntl
import json
from contextlib import contextmanager
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from twinvec.errors import ConfigurationError
from twinvec.support import runners
from twinvec.support.runners import with_address
from twinvec_qdrant.cli import ingest
from twinvec_qdrant.serving import process as serving


@pytest.mark.parametrize(
    ("given", "stated"),
    [
        (["ingest", "docs", "--ray"], ["ingest", "docs", "--ray="]),
        (["ingest", "--ray", "docs", "-c", "x"], ["ingest", "--ray=", "docs", "-c", "x"]),
        (["ingest", "--ray", "head:6379", "docs"], ["ingest", "--ray", "head:6379", "docs"]),
        (["encode", "--ray", "ray://head:10001", "x"], ["encode", "--ray", "ray://head:10001", "x"]),
        (["ingest", "--ray", "--json", "docs"], ["ingest", "--ray=", "--json", "docs"]),
        (["ingest", "--ray=auto", "docs"], ["ingest", "--ray=auto", "docs"]),
        (["search", "--", "--ray"], ["search", "--", "--ray"]),
        (["ingest", "--ray", "--", "head:6379"], ["ingest", "--ray=", "--", "head:6379"]),
    ],
)
def test_an_address_is_optional(given, stated):
    assert with_address(given) == stated


class Fake:
    """Says what it was asked for."""

    asked: ClassVar[list[Any]] = []

    def __init__(self, address):
        self.asked.append(address)

    def encode(self, *arguments, **options):
        self.asked.append((arguments, options))
        return {"model": "default", "space": "s", "texts": 3000, "columns": 384}

    @contextmanager
    def helpers(self, place):
        self.asked.append(dict(place))
        yield None


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(runners, "entry_points", lambda **_: [SimpleNamespace(load=lambda: Fake)])
    monkeypatch.setattr(Fake, "asked", [])
    return Fake


@pytest.mark.parametrize("command", [("encode", "a.txt", "-o", "b.parquet"), ("ingest", "docs", "-c", "notes")])
def test_without_the_distribution_an_error_says_what_installs_it(twinvec, monkeypatch, tmp_path, command):
    (tmp_path / "docs").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runners, "entry_points", lambda **_: [])
    done = twinvec(*command, "--ray")
    assert done.code == 1
    assert "--ray is in the package 'twinvec-ray': pip install" in done.err


def test_encode_gives_the_runner_its_options(twinvec, fake):
    done = twinvec("encode", "s3://bucket/texts", "-o", "s3://bucket/v.parquet", "--ray", "--field", "body", "--json")
    assert done.code == 0, done.err
    address, (places, options) = fake.asked
    assert (address, places) == ("", ("s3://bucket/texts", "s3://bucket/v.parquet"))
    assert (options["field"], options["use_gpu"], options["model"]) == ("body", False, "default")
    shown = json.loads(done.out)
    assert {key: shown[key] for key in ("output", "texts", "columns")} == {
        "output": "s3://bucket/v.parquet",
        "texts": 3000,
        "columns": 384,
    }
    assert not options["progress"]
    done = twinvec("encode", "a.txt", "-o", "v.parquet", "--ray")
    assert "v.parquet: 3,000 vectors of 384 numbers, " in done.out
    assert fake.asked[-1][1]["progress"]
    done = twinvec("encode", "a.txt", "-o", "v.parquet", "--ray", "--device", "cuda:1")
    assert (done.code, "give --device cpu or --device cuda" in done.err) == (2, True)


def test_a_folder_of_vectors_needs_ray(twinvec, tmp_path):
    (tmp_path / "a.txt").write_text("a text\n")
    done = twinvec("encode", tmp_path / "a.txt", "-o", tmp_path / "v.parquet")
    assert done.code == 2
    assert "without --ray, vectors are written to a file NAME.npy" in " ".join(done.err.replace("│", " ").split())
    assert not (tmp_path / "v.parquet").exists()


def test_ingest_gives_the_runner_the_place(twinvec, fake, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("a text")
    arguments = ("-c", "notes", "--path", tmp_path / "store", "--ray", "head:6379", "--dry-run", "--json")
    done = twinvec("ingest", tmp_path / "docs", *arguments)
    assert done.code == 0, done.err
    assert fake.asked[0] == "head:6379"
    assert fake.asked[1]["name"] == "notes"


@pytest.mark.parametrize("command", [("encode", "-o", "v.parquet"), ("ingest", "-c", "notes")])
def test_a_host_without_a_port_is_no_file_to_read(twinvec, fake, monkeypatch, tmp_path, command):
    monkeypatch.chdir(tmp_path)
    done = twinvec(*command, "--ray", "head-1.example", "texts.jsonl")
    assert done.code == 1
    assert "there is no file or folder 'head-1.example'" in done.err
    assert "the address of a cluster has a port, such as head-1.example:6379" in done.err
    assert not fake.asked


def test_what_is_a_file_is_read(twinvec, fake, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "head").write_text("a text")
    assert twinvec("ingest", "-c", "notes", "--path", "store", "--json", "--ray", "head").code == 0
    assert fake.asked[0] == ""


def test_a_store_that_a_process_serves_is_told_before_a_cluster_is_started(twinvec, fake, tmp_path):
    (tmp_path / "docs").mkdir()
    served = serving.ServingProcess("http://127.0.0.1:6380", 4321, "2026-01-01T00:00:00Z", "another", "secret")
    held = tmp_path / "store" / serving.SERVING_FILE
    held.parent.mkdir()
    with held.open("w+") as file:
        json.dump(asdict(served), file)
        file.flush()
        fcntl.flock(file, fcntl.LOCK_EX)
        done = twinvec("ingest", tmp_path / "docs", "-c", "notes", "--path", tmp_path / "store", "--ray")
    assert done.code == 1
    for said in ("served by process 4321 at http://127.0.0.1:6380", "leave --ray out to send the documents"):
        assert said in done.err
    assert not fake.asked


@pytest.mark.parametrize(("options", "waits"), [((), 120), (("--wait", "300"), 300)])
def test_who_leads_waits_for_a_busy_server_as_long_as_the_workers(twinvec, fake, monkeypatch, tmp_path, options, waits):
    led = []

    def opened(place, *_, **__):
        led.append(place.wait)
        raise ConfigurationError("that is enough")

    (tmp_path / "docs").mkdir()
    monkeypatch.setattr(ingest, "_opened", opened)
    done = twinvec("ingest", tmp_path / "docs", "-c", "notes", "--url", "http://127.0.0.1:1", "--ray", *options)
    assert "that is enough" in done.err
    assert led == [waits]
    assert fake.asked[1]["wait_seconds"] == waits
