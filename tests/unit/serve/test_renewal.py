"""Keys and certificates that change while a server runs: on SIGHUP, and when their files are replaced."""

from __future__ import annotations

import os
import signal
import ssl
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from twinvec_qdrant import serving_process
from unit.serve.processes import Server, serving
from unit.serve.test_safety import KEY, OTHER, certificate
from unit.serve.waiting import pause_until

pytestmark = pytest.mark.slow

TLS = ("--tls-cert", "cert.pem", "--tls-key", "key.pem", "--api-key-file", "keys")


def status(client: httpx.Client, key: str) -> int:
    """The status of a request with a key."""
    return client.get("/metrics", headers={"Authorization": f"Bearer {key}"}).status_code


def shown(server: Server) -> str:
    """The certificate that a server shows to new clients."""
    port = int(server.address.rpartition(":")[2])
    return ssl.get_server_certificate(("127.0.0.1", port))


def test_sighup_changes_keys_and_the_certificate_without_closing_connections(tmp_path, tiny):
    certificate(tmp_path)
    keys, cert = tmp_path / "keys", tmp_path / "cert.pem"
    keys.write_text(f"read {KEY}\n")
    trusting = ssl.create_default_context(cafile=str(cert))
    with (
        serving(tmp_path, tiny, *TLS, errors=subprocess.PIPE) as server,
        httpx.Client(base_url=server.address, verify=trusting, timeout=120) as client,
    ):
        assert (status(client, KEY), status(client, OTHER)) == (200, 401)
        stream = client.get("/healthz").extensions["network_stream"]
        before = shown(server)
        assert before.strip() == cert.read_text().strip()
        keys.write_text(f"write {OTHER}\n")
        certificate(tmp_path)
        server.process.send_signal(signal.SIGHUP)
        server.said("read the keys again from keys: 0 read and 1 write keys")
        server.said("read the certificate again")
        assert (status(client, KEY), status(client, OTHER)) == (401, 200)
        assert client.get("/healthz").extensions["network_stream"] is stream, "the connection is still open"
        assert shown(server).strip() == cert.read_text().strip() != before.strip()
        announced = serving_process(tmp_path / "store")
        assert announced.certificate == cert.read_text(), "commands of twinvec trust the new one"
        assert httpx.get(f"{server.address}/healthz", verify=announced.tls_context()).status_code == 200
        assert server.stop(signal.SIGTERM) == 0


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder: (folder / "keys").write_text("short\n"), "keys, line 1: the key has 5 characters"),
        (lambda folder: (folder / "keys").unlink(), "the file of keys cannot be read"),
        (lambda folder: (folder / "cert.pem").write_text("no certificate"), "cert.pem cannot be used with the key"),
        (lambda folder: (folder / "key.pem").unlink(), "key.pem: cannot be read"),
    ],
)
def test_broken_files_change_nothing_and_are_told_once(tmp_path, tiny, spoil: Callable[[Path], object], words):
    certificate(tmp_path)
    (tmp_path / "keys").write_text(f"read {KEY}\n")
    with serving(tmp_path, tiny, *TLS, errors=subprocess.PIPE) as server:
        before = shown(server)
        spoil(tmp_path)
        server.process.send_signal(signal.SIGHUP)
        line = server.said(words)
        assert "goes on with the present" in line
        assert shown(server) == before
        with httpx.Client(base_url=server.address, verify=False, timeout=120) as client:
            assert status(client, KEY) == 200
        assert server.stop(signal.SIGTERM) == 0
        rest = server.process.stderr.read()
    assert words not in rest
    assert KEY not in line + rest


def test_files_that_a_link_swap_replaces_are_read_without_a_signal(tmp_path, tiny):
    """Kubernetes mounts a secret as links through ``..data``, which it replaces as a whole."""
    for version, key in (("1", KEY), ("2", OTHER)):
        (tmp_path / version).mkdir()
        certificate(tmp_path / version)
        (tmp_path / version / "keys").write_text(f"read {key}\n")
    (tmp_path / "..data").symlink_to("1")
    for name in ("keys", "cert.pem", "key.pem"):
        (tmp_path / name).symlink_to(f"..data/{name}")
    with serving(tmp_path, tiny, *TLS, errors=subprocess.PIPE) as server:
        with httpx.Client(base_url=server.address, verify=False, timeout=120) as client:
            assert (status(client, KEY), status(client, OTHER)) == (200, 401)
            (tmp_path / "new").symlink_to("2")
            os.replace(tmp_path / "new", tmp_path / "..data")
            pause_until(lambda: (status(client, KEY), status(client, OTHER)) == (401, 200), 60)
            pause_until(lambda: shown(server).strip() == (tmp_path / "2" / "cert.pem").read_text().strip(), 60)
        assert server.stop(signal.SIGTERM) == 0


def test_sighup_of_a_server_without_files_stops_nothing(tmp_path, tiny):
    with serving(tmp_path, tiny, errors=subprocess.PIPE, TWINVEC_API_KEY=KEY) as server:
        server.process.send_signal(signal.SIGHUP)
        server.said("has no file of keys and no certificate")
        with httpx.Client(base_url=server.address, timeout=120) as client:
            assert status(client, KEY) == 200
        assert server.stop(signal.SIGTERM) == 0


def test_keys_from_a_pipe_stay(tmp_path, tiny):
    keys = tmp_path / "pipe"
    os.mkfifo(keys)
    filler = subprocess.Popen(["sh", "-c", f"echo 'read {KEY}' > {keys}"])
    with serving(tmp_path, tiny, "--api-key-file", str(keys), errors=subprocess.PIPE) as server:
        assert filler.wait(60) == 0
        server.process.send_signal(signal.SIGHUP)
        server.said("has no file of keys and no certificate")
        with httpx.Client(base_url=server.address, timeout=120) as client:
            assert status(client, KEY) == 200
        assert server.stop(signal.SIGTERM) == 0
