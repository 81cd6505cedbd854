"""Uploaded files: private, gone after their ingest, and gone after the next start if the server was killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import tempfile
import threading
from io import BytesIO

import httpx
import pytest
from fastapi.testclient import TestClient
from starlette.datastructures import UploadFile

from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections.uploads import UploadFolder, remove_leftovers, save_files
from unit.serve.processes import serving
from unit.serve.waiting import pause_until

ADDRESS = "http://127.0.0.1:6380"
FILES = [("files", ("notes/a.md", b"a confidential text"))]


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary files."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def uploaded() -> UploadFolder:
    folder = UploadFolder()
    asyncio.run(save_files([UploadFile(BytesIO(b"a text"), filename="notes/a.md")], folder.files))
    return folder


def test_files_are_for_their_user_only(temporary):
    folder = uploaded()
    file = folder.files / "notes" / "a.md"
    assert file.read_bytes() == b"a text"
    assert file.stat().st_mode & 0o777 == 0o600
    (outer,) = temporary.iterdir()
    assert outer.stat().st_mode & 0o777 == 0o700
    folder.remove()
    assert not list(temporary.iterdir())


def test_only_folders_whose_process_has_died_are_removed(temporary):
    folder = uploaded()
    for name in ("twinvec-upload-of-an-older-version", "another"):  # nobody knows whether they are used
        (temporary / name).mkdir()
    (temporary / "twinvec-upload-link").symlink_to(temporary / "another")
    (temporary / "another" / "held").touch()
    before = set(temporary.iterdir())
    remove_leftovers()
    assert set(temporary.iterdir()) == before
    folder._held.close()  # as a kill does it
    remove_leftovers()
    assert set(temporary.iterdir()) == before - {folder.path}


@pytest.mark.slow
def test_a_start_removes_what_a_killed_server_has_left(tmp_path, tiny):
    temporary = tmp_path / "temporary"
    temporary.mkdir()

    def ingest(address: str) -> None:
        large = [("files", (f"{number}.md", b"a confidential text\n\n" * 2000)) for number in range(200)]
        with pytest.raises(httpx.HTTPError):
            httpx.post(f"{address}/v1/collections/docs/documents", files=[*FILES, *large], timeout=120)

    with serving(tmp_path, tiny, TMPDIR=str(temporary)) as server:
        assert httpx.post(f"{server.address}/v1/collections", json={"name": "docs"}, timeout=120).status_code == 201
        asking = threading.Thread(target=ingest, args=(server.address,))
        asking.start()
        pause_until(lambda: not asking.is_alive() or list(temporary.glob("twinvec-upload-*/files/notes/a.md")))
        assert asking.is_alive()
        assert server.stop(signal.SIGKILL) == -signal.SIGKILL
        asking.join()
    assert list(temporary.glob("twinvec-upload-*"))
    with serving(tmp_path, tiny, errors=subprocess.PIPE, TMPDIR=str(temporary)) as server:
        assert not list(temporary.glob("twinvec-upload-*"))
        assert server.stop(signal.SIGTERM) == 0
        assert "a killed server has left" in server.process.stderr.read()


@pytest.mark.slow
def test_a_server_without_a_folder_for_temporary_files_does_all_but_take_files(tiny_model, tmp_path, monkeypatch):
    model = tiny_model("bert")
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "missing")])
    settings = ServeSettings(path=tmp_path / "store", models={"tiny": str(model)}, address=ADDRESS)
    with TestClient(create_app(settings), base_url=ADDRESS) as client:
        client.post("/v1/collections", json={"name": "notes"}).raise_for_status()
        documents = {"documents": [{"id": "a", "text": "a fox"}]}
        assert client.post("/v1/collections/notes/documents", json=documents).json()["new"] == 1
        assert client.get("/v1/collections/notes/backup").status_code == 200
        answer = client.post("/v1/collections/notes/documents", files=FILES)
        assert answer.status_code == 503
        assert "the server's folder for temporary files (TMPDIR)" in answer.json()["error"]["message"]


def test_a_missing_package_is_named_without_a_folder_of_the_server(tmp_path, tiny):
    """The client sees the package and the command that installs it; the folder of the server's code is not for it."""
    lacking = tmp_path / "lacking"
    lacking.mkdir()
    missing = "pypdfium2"
    (lacking / f"{missing}.py").write_text(f"raise ModuleNotFoundError('lacking', name='{missing}')")
    paths = os.pathsep.join([str(lacking), os.environ.get("PYTHONPATH", "")])
    with serving(tmp_path, tiny, PYTHONPATH=paths) as server:
        collections = f"{server.address}/v1/collections"
        assert httpx.post(collections, json={"name": "docs"}, timeout=120).status_code == 201
        files = [("files", ("a.pdf", b"%PDF-1.7"))]
        report = httpx.post(f"{collections}/docs/documents", files=files, timeout=120).json()
    reason = "reading .pdf files needs the package 'pypdfium2': pip install 'twinvec-qdrant[documents]'"
    assert report["failures"] == [["a.pdf", reason]]
