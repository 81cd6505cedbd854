"""A language model of the tests."""

from __future__ import annotations

import pytest

from chat_server import chat_server
from twinvec_qdrant.question_writing import chat_endpoint


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in (chat_endpoint.KEY_VARIABLE, chat_endpoint.OPENAI_KEY_VARIABLE):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chat():
    with chat_server() as running:
        yield running
