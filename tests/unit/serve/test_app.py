"""Errors as answers: one form, the right status, and nothing of the server's own."""

from __future__ import annotations

import logging

import pytest
from fastapi import Depends, Query
from fastapi.testclient import TestClient

from twinvec.errors import (
    CollectionNotFoundError,
    ModelError,
    SpaceMismatchError,
    StoreBusyError,
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreLimitError,
    TextError,
)
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.errors import Overloaded, RequestError, UnknownModel
from twinvec_serve.safety.keys import reads, writes

SECRET = "the plan of the merger"


def client_that_raises(error: Exception) -> TestClient:
    app = create_app(ServeSettings(models={"tiny": "tiny"}))

    @app.get("/v1/raises")
    async def raises() -> None:
        raise error

    return TestClient(app)


@pytest.mark.parametrize(
    ("error", "status", "kind", "code"),
    [
        (RequestError("no", param="limit"), 400, "invalid_request_error", None),
        (Overloaded(2.2), 429, "rate_limit_error", "overloaded"),
        (UnknownModel("big", ["tiny"]), 404, "not_found_error", "model_not_found"),
        (TextError("text 3 is not a string"), 400, "invalid_request_error", "invalid_input"),
        (CollectionNotFoundError("no collection 'x'"), 404, "not_found_error", "collection_not_found"),
        (SpaceMismatchError("another model"), 409, "invalid_request_error", "other_model"),
        (StoreBusyError("busy"), 503, "server_error", "store_busy"),
        (StoreLimitError("search_allow_exact"), 400, "invalid_request_error", "invalid_input"),
        (StoreFullError("full"), 507, "server_error", "store_full"),
        (StoreCorruptError("chunk_0.mmap is missing or changed"), 502, "server_error", "store_corrupt"),
        (StoreError("the server wants an API key"), 502, "server_error", "store_failed"),
    ],
)
def test_an_error_has_its_status_and_the_one_form(error, status, kind, code):
    answer = client_that_raises(error).get("/v1/raises")
    assert answer.status_code == status
    assert answer.json() == {
        "error": {"message": str(error), "type": kind, "param": getattr(error, "param", None), "code": code}
    }


def test_a_full_queue_says_when_to_come_back():
    answer = client_that_raises(Overloaded(2.2)).get("/v1/raises")
    assert answer.headers["retry-after"] == "3"


def test_an_unknown_model_is_answered_with_those_that_there_are():
    message = client_that_raises(UnknownModel("big", ["tiny", "small"])).get("/v1/raises").json()["error"]["message"]
    assert message == "unknown model 'big'; this server has tiny, small"


@pytest.mark.parametrize("error", [RuntimeError(SECRET), ModelError(SECRET)])
def test_an_error_of_the_server_itself_is_answered_and_logged_without_its_text(error, caplog):
    answer = client_that_raises(error).get("/v1/raises")
    assert answer.status_code == 500
    assert answer.json()["error"]["code"] == "internal_error"
    assert SECRET not in answer.text
    assert SECRET not in caplog.text
    assert type(error).__name__ in caplog.text
    assert "in raises" in caplog.text  # the traceback, which says where


def test_an_invalid_parameter_is_named_and_its_value_is_not_repeated(caplog):
    app = create_app()

    @app.get("/v1/page")
    async def page(limit: int = Query(ge=1)) -> None: ...

    with caplog.at_level(logging.DEBUG):
        answer = TestClient(app).get("/v1/page", params={"limit": SECRET})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"] == "limit"
    assert SECRET not in answer.text
    assert SECRET not in caplog.text


@pytest.mark.parametrize(
    ("method", "path", "status", "told"),
    [("GET", "/nowhere", 404, "there is no such path"), ("POST", "/v1/here", 405, "does not support this method")],
)
def test_an_unknown_path_and_a_wrong_method_have_the_form_too(method, path, status, told):
    app = create_app()
    app.get("/v1/here")(lambda: None)
    answer = TestClient(app).request(method, path)
    assert answer.status_code == status
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert told in answer.json()["error"]["message"]
    assert "/docs" in answer.json()["error"]["message"]


def test_routes_name_the_right_that_they_need():
    app = create_app(ServeSettings(read_keys=("r",), write_keys=("w",)))
    app.get("/v1/read", dependencies=[Depends(reads)])(lambda: "read")
    app.get("/v1/write", dependencies=[Depends(writes)])(lambda: "written")
    client = TestClient(app)

    def status(path: str, key: str | None) -> int:
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return client.get(path, headers=headers).status_code

    assert [status("/v1/read", key) for key in (None, "x", "r", "w")] == [401, 401, 200, 200]
    assert [status("/v1/write", key) for key in (None, "x", "r", "w")] == [401, 401, 403, 200]
