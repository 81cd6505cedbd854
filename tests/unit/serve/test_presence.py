"""A client that goes away is not computed for: real connections to a real server, in this process."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from twinvec_serve import ServeSettings, create_app
from twinvec_serve.joined_writes import JoinedProtocol
from unit.serve.waiting import until


@asynccontextmanager
async def listening(app: FastAPI, http: type[asyncio.Protocol]) -> AsyncIterator[int]:
    """Serve on the event loop of the test; yield the port."""
    config = uvicorn.Config(app, port=0, lifespan="off", log_config=None, http=http)
    server = uvicorn.Server(config)
    async with app.router.lifespan_context(app):
        running = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.001)
        try:
            yield server.servers[0].sockets[0].getsockname()[1]
        finally:
            server.should_exit = True
            await running


async def post(port: int, path: str, body: Any) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Send a request; its answer is not waited for."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    content = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\n"
    writer.write(f"{head}Content-Length: {len(content)}\r\nConnection: close\r\n\r\n".encode() + content)
    await writer.drain()
    return reader, writer


@pytest.mark.parametrize("http", [H11Protocol, JoinedProtocol])
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", {"input": "gone"}),
        ("/v2/rerank", {"query": "gone", "documents": ["gone"]}),
    ],
)
async def test_a_client_that_goes_away_is_not_computed_for(tiny_model, tmp_path, monkeypatch, http, path, body) -> None:
    app = create_app(ServeSettings(models={"a": str(tiny_model("bert"))}, path=tmp_path))
    free, calls, statuses = threading.Event(), [], []
    services = app.state.services
    monkeypatch.setattr(services.metrics, "requests", lambda route, status, seconds: statuses.append((route, status)))
    depths: list[int] = []
    monkeypatch.setattr(services.metrics, "queue", depths.append)
    async with listening(app, http) as port:
        encoder = services.models.encoder("a")
        usual = encoder.encode_counted

        def waits(texts: list[str], **options: Any) -> Any:
            calls.append(texts)
            assert free.wait(60)
            return usual(texts, **options)

        monkeypatch.setattr(encoder, "encode_counted", waits)
        try:
            first, closed_last = await post(port, "/v1/embeddings", {"input": "first"})
            await until(lambda: calls)
            if path == "/v2/rerank":  # rerankers have a queue of their own: fill it, too
                second, second_writer = await post(port, path, {"query": "stays", "documents": ["stays"]})
                await until(lambda: len(calls) == 2)
            _, gone = await post(port, path, body)
            waiting = len(calls) + 1
            await until(lambda: depths and depths[-1] == waiting)
            gone.close()
            await until(lambda: depths[-1] == waiting - 1)  # while the engine is still busy
            await until(lambda: (path, 499) in statuses)
        finally:
            free.set()
        answer = await first.read()
        assert answer.startswith(b"HTTP/1.1 200")
        closed_last.close()
        if path == "/v2/rerank":
            assert (await second.read()).startswith(b"HTTP/1.1 200")
            second_writer.close()
    assert ["gone"] not in calls
    assert ["first"] in calls


async def test_a_client_that_goes_away_while_it_is_computed_for_harms_nobody(tiny_model, tmp_path, monkeypatch) -> None:
    app = create_app(ServeSettings(models={"a": str(tiny_model("bert"))}, path=tmp_path))
    async with listening(app, "h11") as port:
        for _ in range(20):
            _, writer = await post(port, "/v1/embeddings", {"input": ["some text"] * 50})
            writer.close()
        reader, writer = await post(port, "/v1/embeddings", {"input": "text"})
        assert (await reader.read()).startswith(b"HTTP/1.1 200")
        writer.close()


async def test_an_agent_that_goes_away_in_the_middle_of_its_request_is_no_fault_of_the_server(
    tiny_model, tmp_path, monkeypatch, caplog
) -> None:
    app = create_app(ServeSettings(models={"a": str(tiny_model("bert"))}, path=tmp_path))
    statuses: list[tuple[str, int]] = []
    metrics = app.state.services.metrics
    monkeypatch.setattr(metrics, "requests", lambda route, status, seconds: statuses.append((route, status)))
    async with listening(app, JoinedProtocol) as port:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        accepted = "Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n{accepted}Content-Length: 500\r\n\r\n"
        writer.write(head.encode() + b'{"jsonrpc": "2.0"')
        await writer.drain()
        writer.close()
        await until(lambda: statuses)
    assert statuses == [("/mcp", 499)]
    assert "failed" not in caplog.text
