"""A language model behind an OpenAI-compatible address: Ollama, vLLM, llama.cpp, LM Studio, OpenAI and others.

Requests contain only the model and one message, since servers differ in all other fields. Temporary failures are
retried for a limited time. Every other failure raises an error of twinvec, whose message never contains the key.
"""

from __future__ import annotations

import logging
import os
import ssl
from difflib import get_close_matches
from typing import Any

import httpx
import tenacity

from twinvec.errors import ConfigurationError, ModelError
from twinvec.support.checks import is_loopback, listed, number, shortened, string
from twinvec_qdrant.stores.server.errors import BUSY, retry_after_seconds

KEY_VARIABLE, OPENAI_KEY_VARIABLE = "TWINVEC_LLM_KEY", "OPENAI_API_KEY"
_OPENAI = "api.openai.com"
_TRIES = 8
_LONGEST = 600.0  # seconds for the tries and pauses of a request; only the last try may exceed this limit
_CONNECT_SECONDS = 10.0
_GROWING = tenacity.wait_random_exponential(multiplier=1.0, max=30.0)  # pauses between tries
_SHOWN = 10  # largest number of models that an error names
_FOREIGN = (
    "the server at this address is not OpenAI-compatible: check the address, which usually ends in /v1, such as "
    "http://localhost:11434/v1 for Ollama"
)
_REMEDIES = {
    401: f"the key is missing or wrong: set {KEY_VARIABLE}, or for OpenAI {OPENAI_KEY_VARIABLE}",
    403: f"the key does not permit this: check {KEY_VARIABLE}, or for OpenAI {OPENAI_KEY_VARIABLE}",
}

logger = logging.getLogger(__name__)


class ChatEndpoint:
    """A language model that answers prompts, by ``POST {url}/chat/completions``; several threads may ask at once.

    Args:
        url: The address up to the version, such as "http://localhost:11434/v1".
        model: The name of the model on this server.
        key: The key. Default: the environment variable ``TWINVEC_LLM_KEY``, or for OpenAI ``OPENAI_API_KEY``.
        seconds: How long one try waits for an answer.

    Raises:
        ConfigurationError: the address, the name or the key is invalid, or the key for OpenAI is missing.
    """

    def __init__(self, url: str, model: str, key: str | None = None, *, seconds: float = 300.0) -> None:
        self.url = checked_url(url)
        self.model = string(model, "model")
        if not isinstance(key, str | None):  # the error shows no value, which may hold the key
            raise ConfigurationError(f"key must be a string, got {type(key).__name__}")
        self._key = _checked_key(key or key_for(self.url))
        if self._key and not _may_have_key(self.url):
            raise ConfigurationError(
                f"{self.url}: the key would go to another host without encryption: use https, or unset {KEY_VARIABLE}"
            )
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Timeout(number(seconds, "seconds", least=0), connect=_CONNECT_SECONDS)
        self._client = httpx.Client(headers=headers, timeout=limits)
        self._told: set[str] = set()

    def __repr__(self) -> str:
        return f"ChatEndpoint({self.url!r}, {self.model!r})"

    def __call__(self, prompt: str) -> str | None:
        """Return the model's answer to a prompt; None if the answer was cut because it became too long.

        Raises:
            ConfigurationError: the endpoint refuses the request, or is not OpenAI-compatible.
            ModelError: the endpoint does not answer, stays busy or fails.
        """
        body = {"model": self.model, "messages": [{"role": "user", "content": prompt}]}
        response = self._sent(body)
        try:
            choice = response.json()["choices"][0]
            content, cut = choice["message"].get("content"), choice.get("finish_reason") == "length"
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise ConfigurationError(f"{self.url}: {_FOREIGN}{self._said(response)}") from error
        return None if cut else content if isinstance(content, str) else ""

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _sent(self, body: dict[str, Any]) -> httpx.Response:
        policy = tenacity.Retrying(
            retry=tenacity.retry_if_exception(_is_temporary),
            wait=_pause,
            stop=tenacity.stop_after_attempt(_TRIES) | tenacity.stop_before_delay(_LONGEST),
            before_sleep=self._announce,
            reraise=True,
        )
        try:
            return policy(self._tried, body)
        except httpx.HTTPStatusError as error:
            raise self._refused(error.response) from error
        except httpx.HTTPError as error:
            raise ModelError(f"{self.url}: no answer: {_reason(error)}") from error

    def _tried(self, body: dict[str, Any]) -> httpx.Response:
        return self._client.post(f"{self.url}/chat/completions", json=body).raise_for_status()

    def _announce(self, state: tenacity.RetryCallState) -> None:
        """Log each reason for a retry once."""
        reason = _reason(state.outcome.exception() if state.outcome else None)
        if reason not in self._told:
            self._told.add(reason)
            logger.warning("%s: %s; trying again", self.url, reason)

    def _refused(self, response: httpx.Response) -> ConfigurationError | ModelError:
        status, said = response.status_code, self._said(response)
        if status in BUSY:
            pause = retry_after_seconds(response.headers.get("retry-after", ""))
            later = f"; it asks for a pause of {pause:,.0f} s: run the command again later" if pause > 0 else ""
            return ModelError(f"{self.url}: the server is too busy or failed, status {status}{said}{later}")
        if status == 404:
            return ConfigurationError(f"{self.url}: {self._not_found()}{said}")
        remedy = _REMEDIES.get(status, _FOREIGN if response.is_redirect else f"refused with status {status}")
        return ConfigurationError(f"{self.url}: {remedy}{said}")

    def _not_found(self) -> str:
        """Return the error for status 404: an unknown model, with the most similar names, or a wrong address."""
        try:
            models = self._client.get(f"{self.url}/models").raise_for_status().json()["data"]
            names = [str(each["id"]) for each in models]
        except (httpx.HTTPError, ValueError, LookupError, TypeError, RecursionError):
            return _FOREIGN
        near = get_close_matches(self.model, names, len(names) or 1, cutoff=0.0)
        return f"the server does not know the model {self.model!r}; it has {listed(near, _SHOWN) or 'no model'}"

    def _said(self, response: httpx.Response) -> str:
        """Return the server's own error message in brackets, without the key; "" if it sent none."""
        try:
            found = response.json()
            for name in ("error", "message", "detail"):
                found = found.get(name, found) if isinstance(found, dict) else found
        except (ValueError, RecursionError):
            found = response.text
        if not isinstance(found, str) or not found.strip() or found.lstrip().startswith("<"):
            return ""
        sentence = found.replace(self._key, "***") if self._key else found
        return f" (the server: {shortened(' '.join(sentence.split()))})"


def checked_url(url: str) -> str:
    """Return an address without a final "/chat/completions"; raise ConfigurationError if the address is invalid."""
    try:
        parsed = httpx.URL(string(url, "url"))
    except httpx.InvalidURL as error:
        raise ConfigurationError(f"the address of the language model cannot be read: {error}") from None
    if parsed.userinfo:
        raise ConfigurationError(f"the address of the language model has a password: give the key in {KEY_VARIABLE}")
    if parsed.scheme not in ("http", "https") or not parsed.host or parsed.query or parsed.fragment:
        raise ConfigurationError(
            f"the address of the language model is {url!r}; expected one such as http://localhost:11434/v1"
        )
    return url.rstrip("/").removesuffix("/chat/completions")


def key_for(url: str) -> str | None:
    """Return the key for an address from the environment variables, or None.

    Raises:
        ConfigurationError: no key is set for OpenAI's address.
    """
    key = os.environ.get(KEY_VARIABLE)
    if key or httpx.URL(url).host != _OPENAI:
        return key or None
    if not (key := os.environ.get(OPENAI_KEY_VARIABLE)):
        raise ConfigurationError(f"OpenAI needs a key: set {OPENAI_KEY_VARIABLE} or {KEY_VARIABLE}")
    return key


def _may_have_key(url: str) -> bool:
    """Return whether a key may be sent to an address: over https, or to this machine."""
    parsed = httpx.URL(url)
    return parsed.scheme == "https" or is_loopback(parsed.host)


def _checked_key(key: str | None) -> str:
    """Return the key, or "" for None; raise ConfigurationError (which does not quote it) if a header cannot hold it."""
    key = (key or "").strip()
    if not all(" " < character <= "~" for character in key):
        raise ConfigurationError(
            f"the key of the language model ({KEY_VARIABLE}) has characters other than visible ASCII: copy it again"
        )
    return key


def _is_temporary(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code in BUSY
    return isinstance(error, httpx.TransportError) and not _is_about_tls(error)


def _is_about_tls(error: BaseException | None) -> bool:
    """Return whether an error, or one of its causes, is about TLS or a certificate."""
    return error is not None and (
        isinstance(error, ssl.SSLError) or _is_about_tls(error.__cause__ or error.__context__)
    )


def _pause(state: tenacity.RetryCallState) -> float:
    """Return the seconds before the next try: at least as many as the endpoint asks for."""
    error = state.outcome.exception() if state.outcome else None
    header = error.response.headers.get("retry-after", "") if isinstance(error, httpx.HTTPStatusError) else ""
    return max(retry_after_seconds(header), _GROWING(state))


def _reason(error: BaseException | None) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"status {error.response.status_code}"
    if isinstance(error, httpx.TimeoutException):
        return "the request timed out"
    return f"{type(error).__name__}: {error}"
