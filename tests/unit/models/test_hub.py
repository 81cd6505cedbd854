"""Models of the hub: a stand-in here, asked by processes of their own, which read its address as they start."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import pty
import subprocess
import sys
import termios
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from http_servers import serving
from twinvec.errors import ModelNotFoundError
from twinvec.export.model import export_model
from twinvec.models.finding import find_model

COMMIT = "0123456789abcdef0123456789abcdef01234567"
PROGRAM = """
import json, sys
from twinvec import Encoder
from twinvec.errors import ModelError
from twinvec.models.finding import find_model
try:
    found = find_model("org/name", **json.loads(sys.argv[1]))
    encoder = Encoder(found.path, engine="onnx", precision="float32")
    print(found.name, encoder.encode("fox").tolist(), "torch" in sys.modules)
except ModelError as error:
    print(error)
"""


class Hub(BaseHTTPRequestHandler):
    """Serves the files of a folder as org/name; without one it refuses everybody."""

    folder: Path | None
    heard: list[tuple[str, str | None]]
    environment: dict[str, str]

    def do_GET(self):
        self.heard.append((self.path, self.headers.get("Authorization")))
        if self.folder is None:
            self.send_error(401)
        elif self.path.startswith("/api/models/org/name"):
            files = [path for path in self.folder.rglob("*") if path.is_file()]
            tree = [
                {"type": "file", "path": str(path.relative_to(self.folder)), "size": path.stat().st_size, "oid": "0"}
                for path in files
            ]
            described = {"id": "org/name", "sha": COMMIT, "siblings": [{"rfilename": each["path"]} for each in tree]}
            found = tree if "/tree/" in self.path else described
            self.answer(json.dumps(found).encode(), {"Content-Type": "application/json"})
        elif (asked := self.folder / self.path.partition(f"/resolve/{COMMIT}/")[2]).is_file():
            content = asked.read_bytes()
            self.answer(content, {"X-Repo-Commit": COMMIT, "ETag": f'"{hashlib.sha256(content).hexdigest()}"'})
        else:
            self.send_error(404)

    do_HEAD = do_GET

    def answer(self, content, headers):
        self.send_response(200)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *arguments):
        pass


@pytest.fixture
def hub():
    """The hub's handler, and what a program prints that asks for its model with some options."""
    handler = type("ThisHub", (Hub,), {"folder": None, "heard": []})
    with serving(ThreadingHTTPServer(("127.0.0.1", 0), handler)) as address:
        environment = {**os.environ, "HF_HUB_OFFLINE": "0", "HF_ENDPOINT": address}
        handler.environment = environment

        def ask(options: dict) -> str:
            command = [sys.executable, "-c", PROGRAM, json.dumps(options)]
            done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
            assert done.returncode == 0, done.stderr
            return done.stdout

        yield handler, ask


def test_a_hub_out_of_reach(tmp_path, monkeypatch):
    import huggingface_hub.constants

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(
        ModelNotFoundError, match=r"cannot get org/name at 0123 from the hub.* no folder 'org/name@0123'"
    ):
        find_model("org/name@0123", cache_folder=tmp_path)


@pytest.mark.slow
def test_the_token_that_is_given_is_sent_and_none_where_no_hub_is_to_be_asked(hub, tmp_path):
    handler, ask = hub
    asking = ("/api/models/org/name/revision/main", "Bearer hf_mine")
    for options, asked in (({"local_files_only": True}, False), ({"token": "hf_mine"}, True)):
        handler.heard.clear()
        printed = ask({"cache_folder": str(tmp_path), **options})
        assert "cannot get org/name from the hub" in printed
        assert "hf_mine" not in printed
        assert (asking in handler.heard, bool(handler.heard)) == (asked, asked), handler.heard


@pytest.mark.slow
def test_an_exported_model_comes_with_its_graph_and_then_needs_no_hub(hub, tiny_copy, tmp_path):
    handler, ask = hub
    handler.folder = tmp_path / "exported"
    graph = export_model(tiny_copy, handler.folder, engine="onnx").graph
    (handler.folder / "onnx" / "model_of_somebody_else.onnx").write_bytes(b"large")
    expected = [f"org/name@{COMMIT}", "False"]
    first = ask({"cache_folder": str(tmp_path / "cache")}).split()
    assert [first[0], first[-1]] == expected
    got = {path.rpartition(f"{COMMIT}/")[2] for path, _ in handler.heard}
    assert str(graph.relative_to(handler.folder)) in got
    assert "onnx/model_of_somebody_else.onnx" not in got
    handler.folder = None
    assert ask({"cache_folder": str(tmp_path / "cache"), "local_files_only": True}).split() == first


@pytest.mark.slow
@pytest.mark.parametrize("moment", [0, 3600])
def test_a_download_shows_bars_on_a_terminal_if_it_takes_more_than_a_moment(hub, tiny_copy, tmp_path, moment):
    handler, _ = hub
    handler.folder = tmp_path / "exported"
    export_model(tiny_copy, handler.folder, engine="onnx")
    program = f"""
import logging, os
os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"  # as the commands do
logging.basicConfig(format="%(message)s", level=logging.INFO)
logging.getLogger("httpx").disabled = True
from twinvec.models import finding
finding.MOMENT = {moment}
for _ in range(2):
    finding.find_model("org/name", cache_folder={str(tmp_path / "cache")!r})
"""
    terminal, end = pty.openpty()
    termios.tcsetwinsize(end, (24, 80))
    with os.fdopen(terminal, "rb", buffering=0) as shown:
        done = subprocess.run([sys.executable, "-c", program], env=handler.environment, stderr=end, timeout=120)
        os.close(end)
        printed = read_all(shown)
    assert done.returncode == 0, printed
    assert printed.count("downloading org/name from the hub") == 1, "the second time, it is in the cache"
    assert ("Fetching" in printed) == (moment == 0), printed


def read_all(terminal) -> str:
    """What was written to a terminal whose other end is closed."""
    parts = []
    with contextlib.suppress(OSError):  # Linux says so at the end
        while part := terminal.read(65_536):
            parts.append(part)
    return b"".join(parts).decode()


def test_a_graph_that_the_hub_does_not_have_is_named(hub, tiny_copy, tmp_path):
    handler, ask = hub
    handler.folder = tmp_path / "exported"
    graph = export_model(tiny_copy, handler.folder, engine="onnx").graph
    graph.unlink()
    assert f"{graph.name}: missing, though" in ask({"cache_folder": str(tmp_path / "cache")})
