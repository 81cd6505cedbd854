"""``--ray``: its address, and what runs where the distribution is installed, or is not."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from twinvec.support import runners
from twinvec.support.runners import with_address


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
    done = twinvec("encode", "a.txt", "-o", "v.parquet", "--ray", "--device", "cuda:1")
    assert "--device is cpu or cuda" in done.err


def test_a_folder_of_vectors_needs_ray(twinvec, tmp_path):
    (tmp_path / "a.txt").write_text("a text\n")
    done = twinvec("encode", tmp_path / "a.txt", "-o", tmp_path / "v.parquet")
    assert done.code == 1
    assert "without --ray, vectors are written to a file NAME.npy" in done.err
    assert not (tmp_path / "v.parquet").exists()


def test_ingest_gives_the_runner_the_place(twinvec, fake, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "a.txt").write_text("a text")
    arguments = ("-c", "notes", "--path", tmp_path / "store", "--ray", "head:6379", "--dry-run", "--json")
    done = twinvec("ingest", tmp_path / "docs", *arguments)
    assert done.code == 0, done.err
    assert fake.asked[0] == "head:6379"
    assert fake.asked[1]["name"] == "notes"
