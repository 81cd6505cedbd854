"""A server that plays an OpenAI-compatible language model: its questions follow from the passage in the prompt."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from http_servers import serving

MODELS = ("small", "large", "tiny-instruct")
_NUMBER = re.compile(r"Write (\d+) different questions")
_PASSAGE = re.compile(r"<passage>\n(.*)\n</passage>", re.DOTALL)

Answer = tuple[int, dict[str, str], bytes]
"""Status, headers and body."""


def questions(prompt: str) -> str:
    """Numbered questions made of the passage's words in another order."""
    found = set(re.findall(r"\w{4,}", _PASSAGE.search(prompt)[1]))
    first, *words = sorted(found, key=lambda word: (word.isalpha(), -len(word), word))  # a number says most
    number = int(_NUMBER.match(prompt)[1])
    return "\n".join(f"{row + 1}. Who knows {', '.join([first, *words[row : row + 4]])}?" for row in range(number))


def completion(content: Any, finish_reason: str = "stop") -> Answer:
    """The answer with this content."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": finish_reason}
    return 200, {}, json.dumps({"object": "chat.completion", "choices": [choice]}).encode()


class ChatServer:
    """What the server was asked. It answers by the first of ``next``, or if that is empty by what ``say`` returns."""

    def __init__(self) -> None:
        self.url = ""
        self.prompts: list[str] = []
        self.keys: list[str | None] = []
        self.bodies: list[dict[str, Any]] = []
        self.next: list[Answer] = []
        self.say: Callable[[str], Answer] = lambda prompt: completion(questions(prompt))
        self.lock = threading.Lock()

    def answer(self, body: dict[str, Any], key: str | None) -> Answer:
        prompt = body["messages"][0]["content"]
        with self.lock:
            self.prompts.append(prompt)
            self.keys.append(key)
            self.bodies.append(body)
            if self.next:
                return self.next.pop(0)
        return self.say(prompt)


@contextmanager
def chat_server() -> Iterator[ChatServer]:
    """Run a server until the end of the block; ``url`` is its address."""
    chat = ChatServer()

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            return

        def do_GET(self) -> None:
            listed = json.dumps({"data": [{"id": each} for each in MODELS]}).encode()
            self.reply(*((200, {}, listed) if self.path == "/v1/models" else (404, {}, b"<html>lost</html>")))

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                self.reply(404, {}, b"<html>lost</html>")
                return
            self.reply(*chat.answer(body, self.headers.get("Authorization")))

        def reply(self, status: int, headers: dict[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.handle_error = lambda *_: None  # a client that breaks off
    with serving(server) as address:
        chat.url = f"{address}/v1"
        yield chat
