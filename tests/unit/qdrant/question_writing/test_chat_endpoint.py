"""The endpoint of a language model: what is sent, what is retried, and what a refusal says."""

from __future__ import annotations

import json
import socket
import threading

import pytest

from chat_server import completion
from twinvec.errors import ConfigurationError, ModelError
from twinvec_qdrant import ChatEndpoint

PROMPT = "Write 1 different questions\n<passage>\nthe reception books the aquarium\n</passage>"
KEY = "sk-secret"


def refusal(status, body, **headers):
    return status, headers, body if isinstance(body, bytes) else json.dumps(body).encode()


def test_a_prompt_is_answered(chat):
    endpoint = ChatEndpoint(f"{chat.url}/chat/completions/", "small")
    assert endpoint(PROMPT) == "1. Who knows reception, aquarium, books?"
    assert chat.bodies == [{"model": "small", "messages": [{"role": "user", "content": PROMPT}]}]
    assert chat.keys == [None]
    endpoint.close()


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (completion(None), ""),
        (completion([{"type": "text"}]), ""),
        (completion("What is the", finish_reason="length"), None),
        (completion("Wer \ud83d\ude00 {x}"), "Wer 😀 {x}"),
    ],
)
def test_an_answer_may_be_empty_or_cut(chat, answer, expected):
    chat.next = [answer]
    assert ChatEndpoint(chat.url, "small")(PROMPT) == expected


@pytest.mark.parametrize("url", ["http://api.openai.com/v1", "http://10.0.0.5:8000/v1"])
def test_a_key_goes_to_no_other_host_without_encryption(url, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ConfigurationError, match="without encryption: use https") as caught:
        ChatEndpoint(url, "small", None if "openai" in url else KEY)
    assert KEY not in str(caught.value)
    ChatEndpoint("http://10.0.0.5:8000/v1", "small")
    ChatEndpoint("http://127.0.0.2:8000/v1", "small", KEY)
    ChatEndpoint("https://api.openai.com/v1", "small")


def test_the_key_comes_from_the_environment(chat, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "of OpenAI only")
    ChatEndpoint(chat.url, "small")(PROMPT)
    monkeypatch.setenv("TWINVEC_LLM_KEY", f"{KEY}\n")
    ChatEndpoint(chat.url, "small")(PROMPT)
    assert chat.keys == [None, f"Bearer {KEY}"]


def test_openai_needs_a_key_and_may_have_its_own(monkeypatch):
    with pytest.raises(ConfigurationError, match="set OPENAI_API_KEY or TWINVEC_LLM_KEY"):
        ChatEndpoint("https://api.openai.com/v1", "any")
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    made = ChatEndpoint("https://api.openai.com/v1", "any")
    assert made._client.headers["Authorization"] == f"Bearer {KEY}"
    assert KEY not in repr(made)


@pytest.mark.parametrize("key", ["sk secret", "schlüssel", "a\nb"])
def test_a_key_that_no_header_can_hold_is_not_quoted(chat, key):
    with pytest.raises(ConfigurationError, match="has characters other than visible ASCII") as caught:
        ChatEndpoint(chat.url, "small", key)
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:11434/v1",
        "ftp://host/v1",
        "http://",
        "http://host/v1?key=1",
        "http://host:port/v1",
        "http://a/\x00",
    ],
)
def test_an_address_that_cannot_be_right_is_refused(url):
    with pytest.raises(ConfigurationError, match="the address of the language model"):
        ChatEndpoint(url, "small")


def test_a_password_in_the_address_is_refused_and_not_quoted():
    with pytest.raises(ConfigurationError, match="give the key in TWINVEC_LLM_KEY") as caught:
        ChatEndpoint("http://user:hidden@host/v1", "small")
    assert "hidden" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            refusal(401, {"error": {"message": f"Incorrect API key: {KEY}"}}),
            r"the key is missing or wrong: set TWINVEC_LLM_KEY.*\(the server: Incorrect API key: \*\*\*\)",
        ),
        (refusal(403, {"detail": "not for you"}), r"the key does not permit this.*\(the server: not for you\)"),
        (refusal(400, {"error": "too long"}), r"refused with status 400 \(the server: too long\)"),
        (
            refusal(404, {"message": "no such model"}),
            "the server does not know the model 'smal'; it has small, large, tiny-instruct .*no such model",
        ),
        (refusal(302, b"", Location="https://elsewhere.example"), "not OpenAI-compatible"),
        (refusal(200, b"<html>hello</html>"), "not OpenAI-compatible"),
        (refusal(200, b"[]"), "not OpenAI-compatible"),
        (refusal(200, b"[" * 100_000), "not OpenAI-compatible"),
        (refusal(200, {"choices": []}), "not OpenAI-compatible"),
        (refusal(200, {"error": {"message": "overloaded"}}), r"not OpenAI-compatible.*\(the server: overloaded\)"),
    ],
)
def test_a_refusal_says_what_to_do_and_is_not_retried(chat, answer, told):
    chat.next = [answer]
    with pytest.raises(ConfigurationError, match=told) as caught:
        ChatEndpoint(chat.url, "smal", KEY)(PROMPT)
    assert str(caught.value).startswith(chat.url)
    assert KEY not in str(caught.value)
    assert len(chat.prompts) == 1


def test_a_wrong_path_is_told_from_an_unknown_model(chat):
    with pytest.raises(ConfigurationError, match="usually ends in /v1"):
        ChatEndpoint(chat.url.removesuffix("/v1"), "small")(PROMPT)


def test_a_busy_endpoint_is_asked_again_after_the_pause_that_it_names(chat, clock, caplog):
    chat.next = [refusal(429, {}, **{"Retry-After": "45"}), refusal(500, b"x"), refusal(503, b""), refusal(500, b"x")]
    assert ChatEndpoint(chat.url, "small")(PROMPT).startswith("1. Who knows")
    assert len(chat.prompts) == 5
    assert clock.pauses[0] == 45
    assert [each.message.rpartition(": ")[2] for each in caplog.records] == [
        f"status {status}; trying again" for status in (429, 500, 503)
    ]


def test_an_endpoint_that_stays_busy_ends_the_run(chat, clock):
    chat.next = [refusal(503, b"later")] * 20
    with pytest.raises(ModelError, match=r"the server is too busy or failed, status 503 \(the server: later\)$"):
        ChatEndpoint(chat.url, "small")(PROMPT)
    assert len(chat.prompts) == 8
    chat.next = [refusal(429, {}, **{"Retry-After": "3600"})]
    with pytest.raises(ModelError, match="it asks for a pause of 3,600 s: run the command again later"):
        ChatEndpoint(chat.url, "small")(PROMPT)
    assert sum(clock.pauses) < 600


def test_silence_is_retried(chat, clock, caplog):
    released = threading.Event()
    silent = iter([True, True])

    def say(prompt):
        if next(silent, False):
            released.wait(60)
        return completion("What now?")

    chat.say = say
    assert ChatEndpoint(chat.url, "small", seconds=0.5)(PROMPT) == "What now?"
    released.set()
    assert len(chat.prompts) == 3
    assert "the request timed out; trying again" in caplog.text


def test_a_refused_connection_is_retried_and_then_told(clock):
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{held.getsockname()[1]}/v1"  # nobody listens there
        with pytest.raises(ModelError, match=r"no answer: ConnectError: .*refused"):
            ChatEndpoint(url, "small")(PROMPT)
    assert len(clock.pauses) == 7


def test_a_server_without_tls_is_not_asked_again(chat, clock):
    with pytest.raises(ModelError, match=r"no answer: .*SSL"):
        ChatEndpoint(chat.url.replace("http:", "https:"), "small")(PROMPT)
    assert not clock.pauses
