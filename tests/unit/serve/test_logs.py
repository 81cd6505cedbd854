"""The log with JSON objects: every line of the process, from its start to its end, also when it fails."""

from __future__ import annotations

import json
import logging
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest

from twinvec_serve.observing.logs import JsonFormatter
from unit.serve.processes import command, serving
from unit.serve.test_safety import KEY


def objects(log: str) -> list[dict[str, Any]]:
    """Read a log of JSON objects; each has the common fields."""
    found = [json.loads(line) for line in log.splitlines()]
    for each in found:
        assert {"time", "level", "logger", "message"} <= each.keys()
        assert each["time"].endswith("Z")
        assert abs(datetime.now(UTC) - datetime.fromisoformat(each["time"])) < timedelta(hours=1)
    return found


def test_a_traceback_is_one_field_of_one_line():
    try:
        raise ValueError("a message\nof two lines\x1b[2J")
    except ValueError:
        record = logging.LogRecord("twinvec_serve", logging.ERROR, "file", 1, "failed: %s", ("why",), sys.exc_info())
    line = JsonFormatter().format(record)
    (found,) = objects(line)
    assert (found["level"], found["message"]) == ("error", "failed: why")
    assert found["traceback"].startswith("Traceback")
    assert "\x1b" not in line
    assert "request_id" not in found


@pytest.mark.slow
@pytest.mark.parametrize("options", [["--log-format", "json"], []])
def test_every_line_is_an_object_and_requests_have_fields(tmp_path, tiny, options):
    environment = {"TWINVEC_API_KEY": KEY} | ({} if options else {"TWINVEC_SERVE_LOG_FORMAT": "json"})
    with serving(tmp_path, tiny, *options, "--log-requests", errors=subprocess.PIPE, **environment) as server:
        head = {"Authorization": f"Bearer {KEY}", "X-Request-Id": "a-b.7"}
        with httpx.Client(base_url=server.address, headers=head, timeout=120) as client:
            client.post("/v1/embeddings?x=a-question", json={"input": "a secret"})
            client.post("/v1/collections", json={"name": "docs"})
            client.post("/v1/collections/docs/documents", json=[{"id": "1", "text": "a\u2028text " * 500}])
            (tmp_path / "store" / "docs").rename(tmp_path / "docs")
            assert client.post("/v1/collections/docs/search", json={"query": "text"}).status_code >= 404
        assert server.stop(signal.SIGTERM) == 0
        assert server.process.stdout.read() == ""
        log = server.process.stderr.read()
    found = objects(log)
    said = [each["message"] for each in found]
    assert any("has no collections yet" in each for each in said)
    ready = next(each for each in found if each["message"].startswith("ready at"))
    assert (ready["level"], ready["address"], ready["models"]) == ("info", server.address, ["tiny"])
    assert any("stopping once" in each for each in said)
    requests = [each for each in found if each["logger"].endswith("observing.requests")]
    first = requests[0]
    assert (first["method"], first["route"], first["status"]) == ("POST", "/v1/embeddings", 200)
    assert (first["request_id"], first["level"]) == ("a-b.7", "info")
    assert first["duration_ms"] > 0
    assert len(requests) == 4
    for secret in (KEY, "a secret", "a-question"):
        assert secret not in log


@pytest.mark.slow
def test_a_start_that_fails_is_one_object(tmp_path, tiny):
    def said(*options: str) -> dict[str, Any]:
        given = command(tmp_path, tiny, "--log-format", "json", *options)
        done = subprocess.run(given, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)
        assert (done.returncode, done.stdout) == (1, "")
        (only,) = objects(done.stderr)
        assert only["level"] == "critical"
        return only

    assert "the server has no key" in said("--host", "0.0.0.0")["message"]
    assert "the file of keys cannot be read" in said("--api-key-file", "none")["message"]
    assert "nowhere" in said("--model", "./nowhere=x")["message"]
