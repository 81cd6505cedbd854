"""The command ``twinvec serve``: its options; and the process: its start, its address, its end."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import re
import resource
import signal
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
import yaml
from fastapi import FastAPI
from mcp import Client, StdioServerParameters
from typer.testing import CliRunner

from twinvec.cli.app import build_app
from twinvec.errors import ConfigurationError, StoreUnavailableError
from twinvec_qdrant import Collection
from twinvec_serve import ServeSettings, process
from twinvec_serve.cli import _tell_ready
from twinvec_serve.process import _Server, address_of, listening
from twinvec_serve.safety.exposure import check_exposure
from unit.serve.processes import Server, command, serving
from unit.serve.test_safety import KEY, certificate

SLOW = pytest.mark.slow


@pytest.fixture
def settings(monkeypatch, tmp_path):
    """Run the command without a server, and return the settings that it would have."""
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TWINVEC_")]:
        monkeypatch.delenv(name)
    taken: list[ServeSettings] = []
    monkeypatch.setattr(process, "run", lambda settings, **_: taken.append(settings))

    def run(*options: str) -> ServeSettings:
        result = CliRunner().invoke(build_app(), ["serve", *options], catch_exceptions=False)
        assert result.exit_code == 0, result.output
        return taken[-1]

    return run


def test_the_defaults_are_those_of_the_settings(settings):
    assert settings() == ServeSettings()


def test_every_option_reaches_the_settings(settings, tmp_path):
    (tmp_path / "keys").write_text(f"read {KEY}\n")
    got = settings(
        *("--url", "http://qdrant:6333", "--model", "org/a@abc", "--model", "org/b=small", "--reranker", "org/c=cross"),
        *("--host", "::1", "--port", "7000", "--api-key-file", "keys", "--tls-cert", "c.pem", "--tls-key", "k.pem"),
        *("--behind-proxy", "--allow-origin", "https://a", "--allow-origin", "https://b", "--max-body-mb", "2"),
        *("--max-ingest-mb", "3", "--max-texts", "4", "--max-text-chars", "5", "--queue-size", "6"),
        *("--stop-seconds", "7", "--precision", "bfloat16"),
    )
    assert got.url == "http://qdrant:6333"
    assert got.models == {"org/a": "org/a@abc", "small": "org/b"}
    assert got.rerankers == {"cross": "org/c"}
    assert (got.host, got.port, got.behind_proxy) == ("::1", 7000, True)
    assert [each.get_secret_value() for each in got.read_keys] == [KEY]
    assert (str(got.tls_cert), str(got.tls_key)) == ("c.pem", "k.pem")
    assert got.allow_origins == ("https://a", "https://b")
    assert (got.max_body_bytes, got.max_ingest_bytes) == (2 * 2**20, 3 * 2**20)
    assert (got.max_texts, got.max_text_chars, got.queue_size, got.stop_seconds) == (4, 5, 6, 7)
    assert got.precision == "bfloat16"


def test_the_file_and_the_environment_have_defaults(settings, tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    (tmp_path / "twinvec.toml").write_text(
        'path = "store"\nmodel = "mine"\nrerank = "org/cross"\nprecision = "float16"\n'
    )
    got = settings()
    assert got.precision == "float16"
    assert got.path == tmp_path / "store"
    assert got.models == {"mine": str(tmp_path / "mine")}
    assert got.rerankers == {"org/cross": "org/cross"}
    monkeypatch.setenv("TWINVEC_MODEL", "org/other")
    monkeypatch.setenv("TWINVEC_RERANK", "maxsim")
    monkeypatch.setenv("TWINVEC_PRECISION", "bfloat16")
    monkeypatch.setenv("TWINVEC_SERVE_PORT", "7001")
    monkeypatch.setenv("TWINVEC_API_KEY", KEY)
    got = settings()
    assert (got.models, got.rerankers, got.port) == ({"org/other": "org/other"}, {}, 7001)
    assert len(got.write_keys) == 1
    assert got.precision == "bfloat16"
    monkeypatch.setenv("TWINVEC_SERVE_PRECISION", "float32")
    assert settings().precision == "float32"


def test_a_store_without_collections_is_told_by_its_path(tmp_path, capsys, caplog, tiny):
    given = ServeSettings(path=tmp_path / "mistyped")
    _tell_ready("http://127.0.0.1:6380", given, log_format="text", as_json=False)
    assert capsys.readouterr().out == "twinvec serve: ready at http://127.0.0.1:6380\n"
    assert f"{tmp_path / 'mistyped'} has no collections yet" in caplog.text
    Collection.open("docs", given.path, encoder=str(tiny)).close()
    caplog.clear()
    _tell_ready("http://127.0.0.1:6380", given, log_format="text", as_json=False)
    assert caplog.text == ""


def test_a_folder_with_a_sign_of_equality_is_a_folder(settings, tmp_path):
    (tmp_path / "a=b").mkdir()
    assert settings("--model", "a=b").models == {"a=b": "a=b"}


def test_two_models_of_one_name_are_refused(settings):
    with pytest.raises(ConfigurationError, match="two models have the name 'x'"):
        settings("--model", "a=x", "--model", "b=x")


@pytest.mark.parametrize(
    ("host", "address"), [("0.0.0.0", "127.0.0.1"), ("::", "[::1]"), ("::1", "[::1]"), ("a.example", "a.example")]
)
def test_the_address_is_one_that_a_client_can_use(host, address):
    assert address_of(ServeSettings(host=host, port=80)) == f"http://{address}:80"


def test_a_port_that_is_taken_is_an_error():
    with listening("127.0.0.1", 0) as (first,):
        port = first.getsockname()[1]
        with (
            pytest.raises(ConfigurationError, match=f"another process listens at port {port}"),
            listening("127.0.0.1", port),
        ):
            pass
    with listening("127.0.0.1", port):  # free at once
        pass


def test_a_store_that_cannot_be_served_is_told_before_a_port_that_is_taken(tmp_path):
    (tmp_path / "file").write_text("")
    with listening("127.0.0.1", 0) as (first,):
        given = ServeSettings(port=first.getsockname()[1], path=tmp_path / "file")
        with pytest.raises(StoreUnavailableError, match="is a file; name the folder of the store"):
            process.run(given, ready=print, stopping=print)
        given = given.model_copy(update={"path": tmp_path / "file" / "store"})
        with pytest.raises(StoreUnavailableError, match=r"cannot be the folder of a store: .*file: it is a file"):
            process.run(given, ready=print, stopping=print)
        with pytest.raises(ConfigurationError, match="another process listens"):
            process.run(given.model_copy(update={"path": tmp_path / "new"}), ready=print, stopping=print)
        assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="this system has no sockets for both IPv6 and IPv4")
@SLOW
def test_all_addresses_are_those_of_both_protocols(tmp_path, tiny):
    (tmp_path / "keys").write_text(f"read {KEY}\n")
    head = {"Authorization": f"Bearer {KEY}"}
    with serving(tmp_path, tiny, "--host", "::", "--behind-proxy", "--api-key-file", "keys") as server:
        port = server.address.rpartition(":")[2]
        for host in ("127.0.0.1", "[::1]", "localhost"):
            assert httpx.get(f"http://{host}:{port}/v1/models", headers=head, timeout=120).status_code == 200


@pytest.mark.parametrize("host", ["nowhere.invalid", "192.0.2.1"])
def test_an_address_of_another_machine_is_an_error(host):
    with (
        pytest.raises(ConfigurationError, match=f"--host {host} is not an address of this machine"),
        listening(host, 0),
    ):
        pass


# --- Real processes ---


@SLOW
def test_nohup_keeps_a_server_at_a_closed_terminal(tmp_path, tiny):
    _, terminal = os.openpty()
    nohup = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    with serving(tmp_path, tiny, terminal=terminal, before=nohup) as server:
        server.process.send_signal(signal.SIGHUP)
        with pytest.raises(subprocess.TimeoutExpired):
            server.process.wait(3)
        assert server.stop(signal.SIGTERM) == 0


@SLOW
def test_an_idle_client_over_tls_does_not_hold_up_the_stop(tmp_path, tiny):
    certificate(tmp_path)
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with (
        serving(tmp_path, tiny, "--tls-cert", "cert.pem", "--tls-key", "key.pem") as server,
        httpx.Client(base_url=server.address, verify=trusting, timeout=120) as client,
    ):
        assert client.get("/healthz").status_code == 200
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(15) == 0, "without a limit, it ends after 30 seconds"


@SLOW
def test_a_server_starts_answers_and_ends_with_a_signal(tmp_path, tiny):
    ours, terminal = os.openpty()
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        with serving(tmp_path, tiny, errors=subprocess.PIPE, terminal=terminal) as server:
            assert server.ready["models"] == ["tiny"]
            assert httpx.get(f"{server.address}/readyz", timeout=120).json() == {"status": "ok"}
            assert server.stop(sig) == 0
            said = server.process.stderr.read()
            assert "stopping" in said
            assert "Traceback" not in said
    os.close(terminal)
    os.close(ours)


@SLOW
@pytest.mark.parametrize("place", ["notify", "@twinvec-test-of-notifications"])
def test_systemd_is_told_when_the_server_is_ready_and_when_it_stops(tmp_path, tiny, place):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.settimeout(120)
        systemd.bind(f"\0{place[1:]}" if place.startswith("@") else str(tmp_path / place))
        with serving(tmp_path, tiny, NOTIFY_SOCKET=place if place.startswith("@") else str(tmp_path / place)) as server:
            assert systemd.recv(100) == b"READY=1"
            assert server.stop(signal.SIGTERM) == 0
        assert systemd.recv(100) == b"STOPPING=1"


def begun_request(server: Server, body: bytes) -> socket.socket:
    """Send the head of a request, and return the connection when the server waits for the body."""
    port = int(server.address.rpartition(":")[2])
    connection = socket.create_connection(("127.0.0.1", port), timeout=120)
    head = f"POST /v1/embeddings HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    connection.sendall(f"{head}Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n".encode())
    assert connection.recv(100).startswith(b"HTTP/1.1 100")
    return connection


BODY = json.dumps({"model": "tiny", "input": "a text"}).encode()


@SLOW
def test_a_request_in_flight_is_finished(tmp_path, tiny):
    with serving(tmp_path, tiny, errors=subprocess.PIPE) as server, begun_request(server, BODY) as connection:
        server.process.send_signal(signal.SIGTERM)
        server.said("stopping")
        connection.sendall(BODY)
        answered = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answered.startswith(b"HTTP/1.1 200")
        assert b'"embedding"' in answered
        assert server.process.wait(120) == 0


@SLOW
def test_a_second_signal_ends_at_once(tmp_path, tiny):
    with serving(tmp_path, tiny, errors=subprocess.PIPE) as server, begun_request(server, BODY):
        server.process.send_signal(signal.SIGTERM)
        server.said("stopping")
        assert server.stop(signal.SIGTERM) == 128 + signal.SIGTERM


@SLOW
def test_a_request_that_does_not_end_is_given_up(tmp_path, tiny):
    options = ["--stop-seconds", "1"]
    with serving(tmp_path, tiny, *options, errors=subprocess.PIPE) as server, begun_request(server, BODY) as connection:
        server.process.send_signal(signal.SIGTERM)
        answered = b"".join(iter(lambda: connection.recv(65536), b""))
        assert answered.startswith(b"HTTP/1.1 503")
        assert b'"code":"server_stopped"' in answered
        assert server.process.wait(120) == 0


@SLOW
@pytest.mark.timeout(1800)  # 60,000 documents, so that also a client that is late finds the ingest under way
def test_an_ingest_that_takes_longer_than_the_stop_may_is_ended_and_continues_later(tmp_path, tiny):
    lines = [json.dumps({"id": f"document {number}", "text": f"text {number}"}) for number in range(60_000)]
    head = {"Content-Type": "application/x-ndjson", "Accept": "text/event-stream"}
    events: list[dict[str, Any]] = []
    with serving(tmp_path, tiny, "--stop-seconds", "1", errors=subprocess.PIPE) as server:
        url = f"{server.address}/v1/collections"
        assert httpx.post(url, json={"name": "docs"}, timeout=120).status_code == 201
        with httpx.stream("POST", f"{url}/docs/documents", content="\n".join(lines), headers=head, timeout=120) as told:
            signalled = False
            for line in told.iter_lines():
                name, _, value = line.partition(": ")
                if name == "data":
                    events.append(json.loads(value))
                    if events[-1].get("done") and not signalled:
                        server.process.send_signal(signal.SIGTERM)
                        signalled = True
        assert server.process.wait(120) == 0
        assert "Traceback" not in server.process.stderr.read()
    last = events[-1]
    assert last["error"]["code"] == "server_stopped"
    stored = last["report"]["new"]
    later = lines[: stored + 5_000]  # the others would be encoded in the same way
    assert stored < len(lines) - 5_000
    with Collection.open("docs", tmp_path / "store", encoder=str(tiny)) as collection:
        again = collection.ingest(map(json.loads, later))
    assert stored <= again.unchanged < len(later)
    assert again.new == len(later) - again.unchanged


@SLOW
def test_documents_that_still_come_at_the_stop_are_answered(tmp_path, tiny):
    with serving(tmp_path, tiny, "--stop-seconds", "1", errors=subprocess.PIPE) as server:
        assert httpx.post(f"{server.address}/v1/collections", json={"name": "docs"}, timeout=120).status_code == 201
        port = int(server.address.rpartition(":")[2])
        line = b'{"id": "1", "text": "a text"}\n'
        with socket.create_connection(("127.0.0.1", port), timeout=120) as connection:
            head = f"POST /v1/collections/docs/documents HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
            head += "Accept: text/event-stream\r\n"
            head += "Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
            connection.sendall(head.encode() + b"%x\r\n%s\r\n" % (len(line), line))
            answered = connection.recv(65536)  # the ingest has begun
            server.process.send_signal(signal.SIGTERM)
            while part := connection.recv(65536):
                answered += part
        assert b"server_stopped" in answered
        assert server.process.wait(120) == 0
        assert "Traceback" not in server.process.stderr.read()


@SLOW
def test_what_cannot_be_served_ends_with_one_and_a_sentence(tmp_path, tiny):
    def said(*options: str) -> str:
        done = subprocess.run(
            command(tmp_path, tiny, *options), capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False
        )
        assert done.returncode == 1
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        return done.stderr

    assert "the server has no key" in said("--host", "0.0.0.0")
    assert "nowhere" in said("--model", "./nowhere=x")
    assert "'maxsim' is the name of the reranker that every server has" in said("--reranker", "org/cross=maxsim")
    with listening("127.0.0.1", 0) as (taken,):
        assert "another process listens at port" in said("--port", str(taken.getsockname()[1]))


@SLOW
def test_https_is_spoken_with_a_key(tmp_path, tiny):
    certificate(tmp_path)
    (tmp_path / "keys").write_text(f"read {KEY}\n")
    options = ["--tls-cert", "cert.pem", "--tls-key", "key.pem", "--api-key-file", "keys"]
    trusting = ssl.create_default_context(cafile=str(tmp_path / "cert.pem"))
    with serving(tmp_path, tiny, *options) as server:
        assert server.address.startswith("https://127.0.0.1:")
        with httpx.Client(verify=trusting, timeout=120) as client:
            assert client.get(f"{server.address}/metrics").status_code == 401
            headers = {"Authorization": f"Bearer {KEY}"}
            assert client.get(f"{server.address}/metrics", headers=headers).status_code == 200


@SLOW
def test_requests_are_logged_where_asked_without_texts_and_keys(tmp_path, tiny):
    with serving(tmp_path, tiny, "--log-requests", errors=subprocess.PIPE, TWINVEC_API_KEY=KEY) as server:
        with httpx.Client(headers={"Authorization": f"Bearer {KEY}"}, timeout=120) as client:
            client.post(f"{server.address}/v1/embeddings?x=a-question", json={"input": "a secret"})
            client.get(f"{server.address}/v1/a-path")
        assert server.stop(signal.SIGTERM) == 0
        said = server.process.stderr.read()
    assert "GET none 404" in said
    for secret in (KEY, "a secret", "a-question", "a-path"):
        assert secret not in said


def mcp_command(folder: Path, **environment: str) -> StdioServerParameters:
    """The command that an agent starts."""
    args = ["-m", "twinvec", "mcp", "--path", str(folder / "store")]
    return StdioServerParameters(command=sys.executable, args=args, env=os.environ | environment)


def test_the_options_of_mcp_reach_its_library(monkeypatch):
    made = []
    monkeypatch.setattr("twinvec_serve.agents.library.Library", lambda *given: made.append(given))
    monkeypatch.setattr("twinvec_serve.agents.over_stdio.run", lambda library: None)
    options = ["--path", "store", "--precision", "bfloat16", "--wait", "3"]
    result = CliRunner().invoke(build_app(), ["mcp", *options])
    assert result.exit_code == 0, result.output
    assert made == [(Path("store"), None, "bfloat16", 3.0)]


@SLOW
async def test_agents_are_served_over_standard_input_with_and_without_a_server(tmp_path, tiny):
    with Collection.open("docs", tmp_path / "store", encoder=str(tiny)) as docs:
        docs.ingest({"a.md": "Renew the certificate every year.", "b.md": "Refunds take five days."}.items())
    async with Client(mcp_command(tmp_path, TWINVEC_READ_API_KEY=KEY)) as client:

        async def found() -> str:
            result = await client.call_tool("search", {"queries": ["certificate"], "limit": 1})
            assert not result.is_error, result.content
            return result.structured_content["results"][0]["source"]

        assert len((await client.list_tools()).tools) == 4
        listed = await client.call_tool("list_collections", {})
        assert listed.structured_content["collections"][0]["documents"] == 2
        assert await found() == "a.md"
        with serving(tmp_path, tiny, "--log-requests", errors=subprocess.PIPE, TWINVEC_READ_API_KEY=KEY) as server:
            assert await found() == "a.md"
            unknown = await client.call_tool("get_document", {"id": "c.md"})
            assert unknown.is_error
            assert "the nearest ids" in unknown.content[0].text
            assert unknown.content[0].text.count("Error executing tool") == 1
            assert server.stop(signal.SIGTERM) == 0
            assert "POST /mcp 200" in server.process.stderr.read()
        assert await found() == "a.md"
    async with Client(mcp_command(tmp_path)) as client:
        with serving(tmp_path, tiny, errors=subprocess.DEVNULL, TWINVEC_READ_API_KEY=KEY):
            refused = await client.call_tool("list_collections", {})
            assert refused.is_error
            assert "the server needs a key; set TWINVEC_READ_API_KEY" in refused.content[0].text


@SLOW
async def test_agents_are_served_by_the_process(tmp_path, tiny):
    with serving(tmp_path, tiny) as server:
        async with Client(f"{server.address}/mcp") as client:
            assert len((await client.list_tools()).tools) == 4
        assert server.stop(signal.SIGTERM) == 0


# --- Containers ---

ROOT = Path(__file__).parents[3]


def test_the_container_starts_a_server_that_a_key_opens(settings, monkeypatch, tmp_path):
    (tmp_path / "api-key").write_text(f"{KEY}\n")
    composed = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["twinvec"]
    entry = re.search(r"^ENTRYPOINT (.*)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    program, command, *options = json.loads(entry[1])
    assert (program, command) == ("twinvec", "serve")
    for name, value in composed["environment"].items():
        monkeypatch.setenv(name, value.replace("/run/secrets", str(tmp_path)))
    got = settings(*options, *composed["command"])
    check_exposure(got)
    assert got.url == "http://qdrant:6333"
    assert got.models == {"default": "/home/twinvec/default"}
    assert [each.get_secret_value() for each in got.write_keys] == [KEY]
    assert composed["ports"] == [f"127.0.0.1:{got.port}:{got.port}"]


def test_the_container_copies_what_it_installs():
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = {
        path for line in lines if line.startswith("COPY ") and "--from" not in line for path in line.split()[1:-1]
    }
    assert {"constraints.txt", "pyproject.toml", "src", "integrations/qdrant", "integrations/serve"} <= copied
    assert all((ROOT / path).exists() for path in copied)


def test_a_wrong_precision_of_the_environment_is_named(monkeypatch, settings):
    monkeypatch.setenv("TWINVEC_PRECISION", "int3")
    with pytest.raises(ConfigurationError, match="TWINVEC_PRECISION: 'int3' is not one of auto, float32"):
        settings()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no file that is always full")
def test_a_log_that_cannot_be_written_costs_no_answer(tmp_path, tiny_model):
    with open("/dev/full", "w") as full, serving(tmp_path, tiny_model("bert"), errors=full) as server:
        for _ in range(2):
            answer = httpx.post(f"{server.address}/v1/embeddings", json={"input": "a dog and " * 500}, timeout=60)
            assert answer.status_code == 200
            assert answer.headers["Twinvec-Truncated"] == "1", "which the log tells as well"
        assert server.stop(signal.SIGTERM) == 0


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the limit of another process")
def test_the_server_may_open_as_many_files_as_the_system_permits(tmp_path, tiny_model):
    before = soft, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(soft, most - 1), most))
    try:
        with serving(tmp_path, tiny_model("bert")) as server:
            assert resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE) == (most, most)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_a_server_that_has_stopped_leaves_no_frozen_objects():
    """Objects of triton that the end of the process does not collect are reported on stderr."""
    counts = []

    def stop():
        counts.append(gc.get_freeze_count())
        asyncio.get_running_loop().call_soon(setattr, server, "should_exit", True)  # after the start

    config = uvicorn.Config(FastAPI(), lifespan="off", log_config=None)
    server = _Server(config, ready=stop, stopping=lambda: None, begin_stop=lambda: None)
    with listening("127.0.0.1", 0) as sockets:
        asyncio.run(server.serve(sockets))
    assert counts[0] > gc.get_freeze_count() == 0
