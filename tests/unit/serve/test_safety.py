"""Who may ask what: keys, addresses, origins, sizes; and what answers and logs hold."""

from __future__ import annotations

import asyncio
import gzip
import hmac
import logging
import ssl
import subprocess
from pathlib import Path
from uuid import uuid4

import httpx
import pytest
from fastapi import Depends, Request
from fastapi.testclient import TestClient
from pydantic import SecretStr

from twinvec.errors import ConfigurationError, StoreError, StoreUnavailableError
from twinvec_qdrant.serving.process import serving_process
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.errors import RequestError
from twinvec_serve.safety.exposure import check_exposure
from twinvec_serve.safety.key_files import find_keys
from twinvec_serve.safety.keys import reads

KEY = "a-key-of-this-test-0123456789"
OTHER = "another-key-of-it-9876543210"


def client(port: int = 6380, name: str = "127.0.0.1", **settings) -> TestClient:
    """A client of a server with one route; the server believes that it is reached at ``name`` and ``port``."""
    app = create_app(ServeSettings(**settings))

    @app.post("/v1/echo", dependencies=[Depends(reads)])
    async def echo(request: Request) -> int:
        return len(await request.body())

    scheme = "https" if "tls_cert" in settings else "http"
    return TestClient(app, base_url=f"{scheme}://{name}:{port}")


# --- Without a key, loopback only; beyond it, TLS or a proxy ---


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_no_key(host):
    check_exposure(ServeSettings(host=host))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.4", "example.com", ""])
def test_beyond_loopback_a_key_is_needed(host):
    with pytest.raises(ConfigurationError, match="the server has no key: give --api-key-file FILE, or set"):
        check_exposure(ServeSettings(host=host, behind_proxy=True))


def test_behind_a_proxy_a_key_is_needed_on_loopback_too():
    with pytest.raises(ConfigurationError, match="through the proxy, and the server has no key"):
        check_exposure(ServeSettings(behind_proxy=True))
    check_exposure(ServeSettings(read_keys=(KEY,), behind_proxy=True))


def test_beyond_loopback_tls_or_a_proxy_is_needed():
    with pytest.raises(ConfigurationError, match="give --tls-cert FILE and --tls-key FILE, or --behind-proxy"):
        check_exposure(ServeSettings(host="0.0.0.0", read_keys=(KEY,)))
    check_exposure(ServeSettings(host="0.0.0.0", read_keys=(KEY,), behind_proxy=True))


def test_a_certificate_must_be_usable(tmp_path):
    with pytest.raises(ConfigurationError, match="give both"):
        check_exposure(ServeSettings(tls_cert=tmp_path / "cert.pem"))
    with pytest.raises(ConfigurationError, match="No such file"):
        check_exposure(ServeSettings(tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem"))
    (tmp_path / "cert.pem").write_text("nonsense")
    (tmp_path / "key.pem").write_text("nonsense")
    with pytest.raises(ConfigurationError, match=r"cert\.pem cannot be used"):
        check_exposure(ServeSettings(tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem"))
    certificate(tmp_path)
    check_exposure(
        ServeSettings(host="0.0.0.0", read_keys=(KEY,), tls_cert=tmp_path / "cert.pem", tls_key=tmp_path / "key.pem")
    )


def refusal(folder: Path, cert: str, key: str) -> str:
    """What the server says about a certificate and a key of a folder."""
    with pytest.raises(ConfigurationError) as refused:
        check_exposure(ServeSettings(tls_cert=folder / cert, tls_key=folder / key))
    return str(refused.value).replace(f"{folder}/", "")


def test_what_is_wrong_with_a_certificate_or_its_key_is_said(tmp_path):
    certificate(tmp_path)
    (tmp_path / "other").mkdir()
    certificate(tmp_path / "other")
    (tmp_path / "nonsense.pem").write_text("nonsense")
    assert refusal(tmp_path, "none.pem", "key.pem") == "none.pem: cannot be read: No such file or directory"
    assert refusal(tmp_path, "cert.pem", "none.pem") == "none.pem: cannot be read: No such file or directory"
    assert "key.pem: it is the key of another certificate" in refusal(tmp_path, "cert.pem", "other/key.pem")
    for cert, key in (("nonsense.pem", "key.pem"), ("cert.pem", "nonsense.pem"), ("key.pem", "cert.pem")):
        assert "expected a certificate and a private key in PEM" in refusal(tmp_path, cert, key)


@pytest.mark.parametrize("days", [-1, 2, 40_000])
def test_an_expired_certificate_is_said_at_the_start(tmp_path, caplog, days):
    certificate(tmp_path)
    other = f"openssl x509 -in cert.pem -signkey key.pem -days {days} -out dated.pem"  # 40,000 days: a year of 4 digits
    subprocess.run(other.split(), cwd=tmp_path, check=True, capture_output=True)
    chain = (tmp_path / "dated.pem").read_text() + (tmp_path / "cert.pem").read_text()
    (tmp_path / "chain.pem").write_text(f"friendlyName: Zürich\n{chain}", encoding="utf-8")
    check_exposure(ServeSettings(tls_cert=tmp_path / "chain.pem", tls_key=tmp_path / "key.pem"))
    read = "openssl x509 -in dated.pem -noout -enddate -dateopt iso_8601"
    dated = subprocess.run(read.split(), cwd=tmp_path, check=True, capture_output=True, text=True).stdout
    day = dated.removeprefix("notAfter=").split()[0]
    said = f"{tmp_path / 'chain.pem'} expired on {day}: clients refuse it; renew it"
    assert [each.message for each in caplog.records] == ([f"the certificate {said}"] if days < 0 else [])


def test_a_certificate_whose_date_cannot_be_read_is_used_all_the_same(tmp_path):
    certificate(tmp_path)
    content = bytearray(ssl.PEM_cert_to_DER_cert((tmp_path / "cert.pem").read_text()))
    content[content.index(bytes([0xA0, 3, 2, 1, 2])) + 4] = 3  # a version that there is not, which OpenSSL takes
    (tmp_path / "odd.pem").write_text(ssl.DER_cert_to_PEM_cert(bytes(content)))
    check_exposure(ServeSettings(tls_cert=tmp_path / "odd.pem", tls_key=tmp_path / "key.pem"))


def test_a_key_with_a_pass_phrase_is_refused_and_asks_for_none(tmp_path):
    certificate(tmp_path)
    command = "openssl pkey -in key.pem -aes256 -passout pass:secret -out encrypted.pem"
    subprocess.run(command.split(), cwd=tmp_path, check=True, capture_output=True)
    said = refusal(tmp_path, "cert.pem", "encrypted.pem")
    assert "encrypted.pem: the key has a pass phrase" in said
    assert "openssl pkey -in encrypted.pem -out FILE" in said


def test_a_certificate_with_words_before_it_is_announced(tmp_path):
    certificate(tmp_path)
    cert = tmp_path / "cert.pem"
    cert.write_text(f"friendlyName: Zürich\n{cert.read_text()}", encoding="utf-8")
    settings = ServeSettings(
        path=tmp_path / "store", address="https://127.0.0.1:1", tls_cert=cert, tls_key=tmp_path / "key.pem"
    )
    check_exposure(settings)
    collections = create_app(settings).state.services.collections

    async def announced() -> None:
        await collections.start()
        try:
            serving_process(tmp_path / "store").tls_context()
        finally:
            await collections.stop()

    asyncio.run(announced())


def certificate(folder: Path) -> None:
    """Write cert.pem and key.pem."""
    command = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -keyout key.pem -out cert.pem"
    )
    named = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    subprocess.run([*command.split(), *named], cwd=folder, check=True, capture_output=True)


# --- Keys ---


def test_keys_of_a_file_are_of_two_kinds(tmp_path):
    file = tmp_path / "keys"
    file.write_text(f"\ufeff# our keys\n\nread {KEY}\nwrite {OTHER}\n{KEY}-alone\n")
    keys = find_keys(file, {"TWINVEC_API_KEY": OTHER + "-env", "TWINVEC_READ_API_KEY": KEY + "-env"})
    assert [each.get_secret_value() for each in keys.read] == [KEY, KEY + "-env"]
    assert [each.get_secret_value() for each in keys.write] == [OTHER, KEY + "-alone", OTHER + "-env"]
    assert find_keys(None, {}) == ((), ())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "the file has no key"),
        ("# only a comment\n", "the file has no key"),
        (f"\nread {KEY} {OTHER}\n", "line 2: expected read KEY, write KEY or KEY"),
        (f"admin {KEY}\n", "line 1: expected"),
        ("short-secret\n", "line 1: the key has 12 characters, and the minimum is 16"),
        (f"read {KEY}\nwrite {OTHER}\n{KEY}\n", "the same key is given as a read key and as a write key"),
        (f"{KEY}-ü\n", "line 1: a key consists of ASCII letters, digits and punctuation"),
        (b"\xff\xfe\x00", "it is not UTF-8"),
    ],
)
def test_a_file_of_keys_is_refused_without_quoting_it(tmp_path, content, message):
    file = tmp_path / "keys"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigurationError, match=message) as refused:
        find_keys(file, {})
    assert KEY not in str(refused.value)
    assert "short-secret" not in str(refused.value)


def test_one_key_of_both_kinds_is_refused_in_the_environment_too():
    with pytest.raises(ConfigurationError, match="as a read key and as a write key"):
        find_keys(None, {"TWINVEC_API_KEY": KEY, "TWINVEC_READ_API_KEY": KEY})


def test_a_file_of_keys_that_everybody_can_read_gets_a_warning(tmp_path, caplog):
    file = tmp_path / "keys"
    file.write_text(KEY)
    file.chmod(0o600)
    find_keys(file, {})
    assert not caplog.messages
    file.chmod(0o644)
    find_keys(file, {})
    assert caplog.messages == [
        f"every user of this machine can read the keys in {file}; protect the file with chmod 600"
    ]


def test_a_missing_file_of_keys_is_an_error(tmp_path):
    with pytest.raises(ConfigurationError, match="No such file"):
        find_keys(tmp_path / "none", {})
    with pytest.raises(ConfigurationError, match="TWINVEC_API_KEY: the key has 3 characters"):
        find_keys(None, {"TWINVEC_API_KEY": "abc"})


def test_every_key_is_compared_in_constant_time(monkeypatch):
    compared = []
    genuine = hmac.compare_digest

    def noting(first: bytes, second: bytes) -> bool:
        compared.append((len(first), len(second)))
        return genuine(first, second)

    monkeypatch.setattr(hmac, "compare_digest", noting)
    asked = client(read_keys=(KEY,), write_keys=(OTHER, "third"))
    for given in (KEY, OTHER, "third", "x", "ü" * 400):
        compared.clear()
        asked.post("/v1/echo", headers={"Authorization": f"Bearer {given}".encode()})
        assert compared == [(32, 32)] * 3  # all keys, at one length, whichever of them it is


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer ", f"Basic {KEY}", KEY, f"Bearer {KEY}x", "Bearer \udcff"])
def test_a_request_without_a_known_key_is_refused_before_its_body_is_read(header):
    asked = client(read_keys=(KEY,))
    headers = {"Authorization": header.encode("utf-8", "surrogateescape")} if header else {}

    def unread():
        raise AssertionError("the body was asked for")
        yield b""

    answer = asked.post("/v1/echo", headers=headers, content=unread())
    assert answer.status_code == 401
    assert answer.headers["www-authenticate"] == "Bearer"
    assert KEY not in answer.text


def test_every_path_but_the_page_and_the_description_is_closed_without_a_key():
    app = create_app(ServeSettings(write_keys=(KEY,)))
    asked = TestClient(app)
    closed = [
        (path, asked.request(method, path.replace("{", "").replace("}", "").replace(":path", "")).status_code)
        for path, operations in asked.get("/openapi.json").json()["paths"].items()
        for method in operations
    ]
    public = {path for path, status in closed if status != 401}
    assert public <= {"/healthz", "/readyz"}
    assert len(closed) > len(public)
    assert asked.get("/metrics").status_code == 401
    assert asked.post("/mcp").status_code == 401
    assert asked.get("/unheard-of").status_code == 401
    assert asked.get("/docs").status_code == 200


def test_every_route_says_which_right_it_needs():
    """A read key reads and does not write: no operation of the description leaves its right unsaid."""
    app = create_app(ServeSettings(read_keys=(KEY,)))
    asked = TestClient(app, headers={"Authorization": f"Bearer {KEY}"}, raise_server_exceptions=False)
    described = asked.get("/openapi.json").json()["paths"]
    refused = set()
    for path, operations in described.items():
        for method in operations:
            answer = asked.request(method, path.replace("{name}", "x").replace("{id}", "y"), json={})
            if answer.status_code == 403:
                refused.add((method, path))
    writing = {
        ("get", "/v1/collections/{name}/verify"),  # searches and ingests wait for it
        ("get", "/v1/collections/{name}/backup"),  # and for this
        ("delete", "/v1/collections/{name}"),
        ("post", "/v1/collections"),
        ("post", "/v1/collections/{name}/migrate"),
        ("post", "/v1/collections/{name}/reindex"),
        ("post", "/v1/collections/{name}/tune"),
        ("post", "/v1/collections/{name}/restore"),
        ("post", "/v1/collections/{name}/repair"),
        ("post", "/v1/collections/{name}/documents"),
        ("post", "/v1/collections/{name}/documents/delete"),
    }
    here = {(method, path) for path, operations in described.items() for method in operations}
    assert refused == writing & here


def test_a_redirect_keeps_to_the_address_that_the_client_knows():
    """Behind a proxy, the server knows neither the scheme nor the host. A client that follows sends its body again."""
    asked = client(read_keys=(KEY,), behind_proxy=True)
    answer = asked.get("/v1/collections/?a=b%2F", headers={"Authorization": f"Bearer {KEY}"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (307, "../collections?a=b%2F")
    assert answer.url.join(answer.headers["location"]).path == "/v1/collections"


# --- Hosts and origins ---

SERVED = [
    "127.0.0.1:6380",
    "localhost:6380",
    "LocalHost:6380",
    "localhost.:6380",
    "[::1]:6380",
    "[0:0:0:0::0:0:1]:6380",
]


@pytest.mark.parametrize("host", SERVED)
def test_the_addresses_of_loopback_are_served(host):
    assert client().post("/v1/echo", headers={"Host": host}).status_code == 200


FOREIGN = [
    "evil.example:6380",
    "127.0.0.1",
    "127.0.0.1:80",
    "127.0.0.1:6381",
    "localhost.evil.example:6380",
    "",
    "[::1]",
    "127.0.0.1:6380@evil.example",
    "evil.example#127.0.0.1:6380",
    "[::2]:6380",
    "127.0.0.1:6380:6380",
    "a b",
    "0.0.0.0:6380",
    "127.0.0.1:06380x",
    "2130706433:6380",
    "127.1:6380",
]


@pytest.mark.parametrize("host", FOREIGN)
def test_another_host_is_refused(host):
    answer = client().post("/v1/echo", headers={"Host": host})
    assert answer.status_code == 421
    assert answer.json()["error"]["code"] == "unknown_host"


def test_one_host_is_needed():
    asked = client()
    asked.headers["X"] = "y"
    twice = [("Host", "127.0.0.1:6380"), ("Host", "evil.example")]
    assert asked.post("/v1/echo", headers=twice).status_code == 400


@pytest.mark.parametrize("origin", ["http://127.0.0.1:6380", "http://localhost:6380", "http://[::1]:6380"])
def test_the_servers_own_pages_may_use_it(origin):
    assert client().post("/v1/echo", headers={"Origin": origin}).status_code == 200


FOREIGN_PAGES = [
    "http://evil.example",
    "null",
    "",
    "https://127.0.0.1:6380",
    "http://127.0.0.1",
    "http://127.0.0.1:8080",
    "file://",
    "http://localhost:6380.evil.example",
    "http://127.0.0.1:6380/",
    "chrome-extension://abcdef",
    "http://a:b:c",
]


@pytest.mark.parametrize("origin", FOREIGN_PAGES)
def test_pages_of_other_origins_are_refused(origin):
    answer = client().post("/v1/echo", headers={"Origin": origin})
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "foreign_origin"
    assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
def test_pages_of_other_sites_cost_nothing_by_a_get_without_an_origin(site):
    """A browser sends no Origin for a picture, whose address may be that of a backup."""
    answer = client().get("/v1/models", headers={"Sec-Fetch-Site": site})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "foreign_origin")
    for own in ("same-origin", "none"):
        assert client().get("/v1/models", headers={"Sec-Fetch-Site": own}).status_code != 403
    assert client().get("/", headers={"Sec-Fetch-Site": site}).status_code != 403, "a link to the page"


def test_a_name_made_to_point_here_reads_nothing():
    """DNS rebinding: Host and Origin agree, and are of another site."""
    answer = client().get("/openapi.json", headers={"Host": "evil.example:6380", "Origin": "http://evil.example:6380"})
    assert answer.status_code == 421


def test_beyond_loopback_the_address_of_the_connection_is_served():
    asked = client(host="0.0.0.0", name="10.1.2.3", read_keys=(KEY,), behind_proxy=True)
    asked.headers["Authorization"] = f"Bearer {KEY}"
    assert asked.post("/v1/echo").status_code == 200
    assert asked.post("/v1/echo", headers={"Host": "localhost:6380"}).status_code == 200
    assert asked.post("/v1/echo", headers={"Host": "10.1.2.4:6380"}).status_code == 421


def test_an_allowed_origin_is_a_host_too_and_its_pages_may_read_answers():
    asked = client(allow_origins=("https://search.example.com", "http://intranet:8080"))
    assert asked.post("/v1/echo", headers={"Host": "search.example.com"}).status_code == 200
    assert asked.post("/v1/echo", headers={"Host": "search.example.com:443"}).status_code == 200
    assert asked.post("/v1/echo", headers={"Host": "search.example.com:80"}).status_code == 421
    assert asked.post("/v1/echo", headers={"Host": "intranet:8080"}).status_code == 200
    answer = asked.post("/v1/echo", headers={"Origin": "https://search.example.com"})
    assert answer.headers["access-control-allow-origin"] == "https://search.example.com"
    assert asked.post("/v1/echo", headers={"Origin": "https://search.example.com:8443"}).status_code == 403


def test_an_allowed_page_may_ask_beforehand_and_learns_of_errors():
    asked = client(allow_origins=("https://search.example.com",), read_keys=(KEY,))
    page = {"Origin": "https://search.example.com"}
    wanted = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = asked.options("/v1/echo", headers=page | wanted)
    assert answer.status_code == 200
    assert answer.headers["access-control-allow-methods"] == "GET, POST, DELETE"  # no route has another one
    refused = asked.post("/v1/echo", headers=page)
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "https://search.example.com"


def test_nothing_is_shared_between_origins_unless_asked_for():
    wanted = {"Origin": "http://127.0.0.1:6380", "Access-Control-Request-Method": "POST"}
    answer = client().options("/v1/echo", headers=wanted)
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    "origin", ["*", "search.example.com", "ftp://a", "https://a/b", "https://a?b", "https://u:p@a", "https://*.a"]
)
def test_a_malformed_origin_is_refused_at_the_start(origin):
    with pytest.raises(ConfigurationError, match="is not an origin: expected http:// or https://"):
        check_exposure(ServeSettings(allow_origins=(origin,)))


# --- Sizes ---


def test_a_body_over_the_limit_is_refused():
    asked = client(max_body_bytes=1000)
    assert asked.post("/v1/echo", content=b"x" * 1000).json() == 1000
    answer = asked.post("/v1/echo", content=b"x" * 1001)
    assert answer.status_code == 413
    assert answer.json()["error"]["code"] == "body_too_large"


@pytest.mark.parametrize("lie", [{}, {"Content-Length": "10"}])
def test_a_body_of_unknown_or_wrong_length_is_counted(lie):
    asked = client(max_body_bytes=1000)
    parts = (b"x" * 100 for _ in range(1_000_000))
    sent = []

    def noted():
        for part in parts:
            sent.append(part)
            yield part
            if len(sent) > 200:
                break

    assert asked.post("/v1/echo", content=noted(), headers=lie).status_code == 413


def test_streamed_documents_have_a_limit_of_their_own():
    app = create_app(ServeSettings(max_body_bytes=10, max_ingest_bytes=100))
    asked = TestClient(app)
    path = "/v1/collections/notes/documents"
    for kind, size, fits in [
        ("application/x-ndjson", 50, True),
        ("application/x-ndjson", 101, False),
        ("application/json", 50, False),
    ]:
        answer = asked.post(path, content=b"x" * size, headers={"Content-Type": kind})
        assert (answer.status_code != 413) == fits, (kind, size)
    answer = asked.post("/v1/echo", content=b"x" * 50, headers={"Content-Type": "application/x-ndjson"})
    assert answer.status_code == 413


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/rerank", "/v1/search", "/v1/collections"])
async def test_a_client_that_falls_silent_within_its_body_is_sent_away(tmp_path, monkeypatch, path):
    monkeypatch.setattr("twinvec_serve.safety.silence.IDLE_SECONDS", 0.01)

    async def body():
        yield b'{"input'
        await asyncio.Event().wait()

    address = "http://127.0.0.1:6380"
    transport = httpx.ASGITransport(create_app(ServeSettings(path=tmp_path)))
    async with httpx.AsyncClient(transport=transport, base_url=address) as asking:
        answer = await asking.post(path, content=body(), headers={"Content-Type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (408, "client_silent")
    assert answer.headers["connection"] == "close"


@pytest.mark.parametrize("encoding", ["gzip", "br", "gzip, deflate"])
def test_a_compressed_body_is_refused_by_its_encoding(encoding):
    body = gzip.compress(b'{"input": "a text"}')
    answer = client().post("/v1/embeddings", content=body, headers={"Content-Encoding": encoding})
    assert (answer.status_code, answer.headers["accept-encoding"]) == (415, "identity")
    error = answer.json()["error"]
    assert error["code"] == "unsupported_encoding"
    assert error["message"].startswith(f"the body is compressed (Content-Encoding: {encoding})")
    assert client().post("/v1/echo", content=b"x", headers={"Content-Encoding": "identity"}).json() == 1


# --- What answers and logs hold ---


@pytest.mark.parametrize("path", ["/healthz", "/docs", "/nowhere", "/v1/echo"])
def test_every_answer_tells_browsers_to_be_careful(path):
    headers = client().get(path).headers
    assert "default-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"]
    assert "strict-transport-security" not in headers


def test_refusals_have_the_headers_too():
    for answer in (client(read_keys=(KEY,)).get("/v1/echo"), client().get("/", headers={"Host": "evil"})):
        assert answer.status_code in (401, 421)
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"


def test_https_is_kept_to(tmp_path):
    answer = client(tls_cert=tmp_path / "c", tls_key=tmp_path / "k").get("/healthz")
    assert answer.headers["strict-transport-security"]


def test_the_reason_of_an_error_is_logged_once_a_minute(caplog, monkeypatch):
    monkeypatch.setattr("twinvec_serve.reasons._logged", {})  # other tests may have logged the same
    app = create_app()
    place = uuid4().hex

    @app.get("/v1/fails/{kind}")
    async def fails(kind: str) -> None:
        free = len(caplog.messages)
        if kind == "full":
            raise StoreUnavailableError(f"{place}: the disk is full: {free} MB are free")
        if kind == "engine":
            raise StoreError(f"{place}: the engine could not search: the words of a text")
        raise RequestError(f"{place}: the models are being loaded", code="starting", status=503)

    asked = TestClient(app, base_url="http://127.0.0.1:6380")
    for kind, status in (("full", 503), ("full", 503), ("full", 503), ("starting", 503), ("engine", 502)):
        assert asked.get(f"/v1/fails/{kind}").status_code == status
    reasons = [each for each in caplog.messages if "answered with" in each]
    full, failed = reasons
    assert full.startswith(f"requests are answered with 503 (store_unavailable): {place}: the disk is full")
    assert failed.startswith("requests are answered with 502 (store_failed): the store failed")


def test_logs_and_settings_name_no_text_and_no_key(caplog):
    settings = ServeSettings(read_keys=(KEY,), write_keys=(OTHER,))
    assert KEY not in repr(settings)
    assert OTHER not in str(settings)
    assert settings.read_keys == (SecretStr(KEY),)
    app = create_app(settings)

    @app.post("/v1/fails/{name}")
    async def fails(name: str, request: Request) -> None:
        body = (await request.body()).decode()
        raise ValueError(f"{name} {body}")

    asked = TestClient(app)
    with caplog.at_level(logging.DEBUG):
        for key in (KEY, OTHER, "unknown-key"):
            headers = {"Authorization": f"Bearer {key}"}
            asked.post("/v1/fails/named-thing?q=a-question", content="words of a body", headers=headers)
    said = "".join(
        logging.Formatter().format(record) for record in caplog.records if not record.name.startswith("httpx")
    )
    assert "POST /v1/fails/{name} 500" in said
    assert "ValueError" in said
    for secret in (KEY, OTHER, "unknown-key", "named-thing", "a-question", "words of a body"):
        assert secret not in said
