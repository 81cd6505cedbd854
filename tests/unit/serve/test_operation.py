"""What operators and developers look at: health, metrics, the description of the API and its page."""

from __future__ import annotations

import platform
import re
import shutil
import time
from html.parser import HTMLParser

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from twinvec.version import __version__
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.observing.metrics import Metrics
from twinvec_serve.routes.description import EXAMPLES
from twinvec_serve.safety.headers import CONTENT_SECURITY_POLICY


def samples(text: str) -> dict[tuple[str, ...], float]:
    """Read an exposition: (name, label values) -> value."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_the_process_is_alive_before_its_models_are_loaded_and_ready_after():
    app = create_app()
    client = TestClient(app)
    assert client.get("/healthz").json() == {"status": "ok", "instance": None}
    answer = client.get("/readyz")
    assert answer.status_code == 503
    assert answer.headers["retry-after"] == "1"
    app.state.services.models.loaded_at = 1
    assert client.get("/readyz").json() == {"status": "ok"}


@pytest.mark.parametrize("path", ["/healthz", "/v1/models", "/v1/models/none", "/openapi.json", "/docs", "/", "/none"])
def test_head_is_answered_as_get_without_its_body(path):
    app = create_app()
    client = TestClient(app)
    app.state.services.models.loaded_at = 1
    asked, whole = client.head(path), client.get(path)
    assert (asked.status_code, asked.content) == (whole.status_code, b"")
    assert {**asked.headers, "x-request-id": ""} == {**whole.headers, "x-request-id": ""}
    assert "head" not in str(client.get("/openapi.json").json()["paths"].get(path, {}))


@pytest.mark.parametrize("path", ["/v1/collections/docs/verify", "/v1/collections/docs/backup", "/mcp"])
def test_head_does_no_long_work(path):
    assert TestClient(create_app()).head(path).status_code == 405


@pytest.mark.parametrize(
    ("method", "path", "allowed"),
    [
        ("PUT", "/v1/collections", "GET, POST"),
        ("POST", "/v1/collections/docs", "DELETE, GET"),
        ("DELETE", "/v1/collections/docs/documents/get", "GET, POST"),  # a document may have the id "get"
        ("DELETE", "/healthz", "GET"),
        ("GET", "/mcp", "POST"),
        ("GET", "/v1/embeddings", "POST"),
    ],
)
def test_a_method_that_a_path_lacks_is_answered_with_all_that_it_has(method, path, allowed):
    answer = TestClient(create_app()).request(method, path)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_metrics_count_what_the_parts_tell(tmp_path):
    metrics = Metrics()
    metrics.batch(3, 40)
    metrics.batch(1, 7)
    metrics.queue(5)
    metrics.queue(2)
    metrics.searches(3)
    metrics.tokens("tiny", 40)
    metrics.tokens("tiny", 7)
    metrics.build("onnx, cpu, float32")
    metrics.store(tmp_path)
    metrics.backed_up("docs")
    metrics.backed_up("notes")
    metrics.dropped("notes")
    metrics.dropped("other")
    before = time.time()
    found = samples(metrics.exposition().decode())
    assert found["twinvec_batch_texts_sum",] == 4
    assert found["twinvec_batch_texts_count",] == 2
    assert found["twinvec_batch_tokens_sum",] == 47
    assert found["twinvec_queue_requests",] == 2
    assert found["twinvec_queue_searches",] == 3
    assert found["twinvec_tokens_total", "tiny"] == 47
    about = {"engine": "onnx, cpu, float32", "python": platform.python_version(), "version": __version__}
    assert metrics.registry.get_sample_value("twinvec_build_info", about) == 1
    assert 0 < found["twinvec_store_free_bytes",] <= shutil.disk_usage(tmp_path).total
    assert before - 60 < found["twinvec_last_backup_timestamp_seconds", "docs"] <= before
    assert ("twinvec_last_backup_timestamp_seconds", "notes") not in found


def test_requests_are_counted_by_their_route_and_never_by_their_path():
    app = create_app()
    app.get("/v1/things/{name}")(lambda name: name)
    client = TestClient(app)
    for path in ("/openapi.json", "/docs", "/docs/start.js", "/"):
        assert client.get(path).status_code == 200
    for path in ("/v1/things/a-secret", "/v1/things/another", "/nowhere/a-secret"):
        client.get(path)
    text = client.get("/metrics").text
    found = samples(text)
    assert found["twinvec_requests_total", "/v1/things/{name}", "200"] == 2
    assert found["twinvec_requests_total", "none", "404"] == 1
    for route in ("/openapi.json", "/docs", "/docs/{name}", "/"):
        assert found["twinvec_requests_total", route, "200"] == 1
    assert found["twinvec_request_seconds_count", "/v1/things/{name}"] == 2
    assert found["process_resident_memory_bytes",] > 0
    assert "secret" not in text


@pytest.mark.parametrize(
    ("given", "kept"),
    [({"X-Request-Id": "4f1a-9"}, True), ({}, False), ({"X-Request-Id": "two words"}, False)],
)
def test_an_answer_has_the_id_of_its_request(given, kept):
    client = TestClient(create_app())
    ids = [client.get(path, headers=given).headers["x-request-id"] for path in ("/healthz", "/none")]
    if kept:
        assert ids == ["4f1a-9", "4f1a-9"]
    else:
        assert ids[0] != ids[1]
        assert all(re.fullmatch("[0-9a-f]{32}", each) for each in ids)


def test_the_description_has_the_errors_and_keys_that_there_are():
    described = TestClient(create_app()).get("/openapi.json").json()
    assert "securitySchemes" not in described["components"]
    operations = [each for operations in described["paths"].values() for each in operations.values()]
    assert operations
    for operation in operations:
        assert "422" not in operation["responses"]
        assert operation["responses"]["4XX"]["content"]["application/json"]["schema"]["$ref"].endswith("/ErrorAnswer")
    assert "HTTPValidationError" not in described["components"]["schemas"]
    keyed = TestClient(create_app(ServeSettings(read_keys=("r",)))).get("/openapi.json").json()
    assert keyed["components"]["securitySchemes"]["key"]["scheme"] == "bearer"
    assert keyed["security"] == [{"key": []}]
    assert keyed["paths"]["/healthz"]["get"]["security"] == []


def test_operations_parameters_and_bodies_are_described_with_examples():
    described = TestClient(create_app()).get("/openapi.json").json()
    paths = described["paths"]
    operations = [each for operations in paths.values() for each in operations.values()]
    summaries = [each["summary"] for each in operations]
    assert len(summaries) == len(set(summaries)) > 10
    assert not {"Get", "Search", "Create", "Delete", "Ingest"} & set(
        summaries
    )  # what FastAPI makes of functions' names
    parameters = [each for operation in operations for each in operation.get("parameters", [])]
    assert len(parameters) > 10
    assert all(each["description"] for each in parameters)
    assert "Successful Response" not in {
        text["description"] for each in operations for text in each["responses"].values()
    }
    posts = {path: of_path["post"] for path, of_path in paths.items() if "post" in of_path}
    types = {path: post["requestBody"]["content"].keys() for path, post in posts.items() if "requestBody" in post}
    assert {path for path, kinds in types.items() if "application/json" in kinds} == set(EXAMPLES)
    assert types["/v1/collections/{name}/restore"] == {"application/x-tar"}
    for path, example in EXAMPLES.items():
        assert paths[path]["post"]["requestBody"]["content"]["application/json"]["example"] == example


class _References(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.inline = ""
        self._inside = ""

    def handle_starttag(self, tag, attrs):
        self.found += [value for name, value in attrs if name in ("src", "href")]
        self._inside = tag
        assert not [name for name, _ in attrs if name == "style" or name.startswith("on")]

    def handle_data(self, data):
        if self._inside in ("script", "style"):
            self.inline += data.strip()


def test_the_documentation_has_all_its_files_from_the_package():
    client = TestClient(create_app())
    page = client.get("/docs")
    parser = _References()
    parser.feed(page.text)
    assert len(parser.found) == 4
    assert parser.inline == ""  # the policy would not run it
    for reference in parser.found:
        assert re.fullmatch(r"docs/[\w.-]+", reference), "relative, for proxies that serve a path of their own"
        assert client.get(f"/{reference}").status_code == 200
    assert page.headers["content-security-policy"] == CONTENT_SECURITY_POLICY


@pytest.mark.parametrize("name", ["LICENSE", "../operation.py", "%2e%2e%2foperation.py", "nothing.js"])
def test_no_other_file_is_reached(name):
    assert TestClient(create_app()).get(f"/docs/{name}").status_code == 404
