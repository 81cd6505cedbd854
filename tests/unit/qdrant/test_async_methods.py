"""Awaitable calls do what the blocking ones do, side by side."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import os
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from twinvec.errors import ConfigurationError
from twinvec.support import async_methods
from twinvec.support.async_methods import MOST_AT_ONCE, MOST_COMPUTING
from twinvec_qdrant import Collection
from words import WordEncoder

NOTES = [("tea", "green tea"), ("bread", "rye bread"), ("rain", "rain over the harbour")]


async def test_twins_give_what_the_blocking_calls_give(collection, words):
    assert (await collection.aingest(NOTES)).new == 3
    vector = words.encode_query(["tea"])[0]
    assert [hit.id for hit in await collection.asearch("tea", limit=1)] == ["tea"]
    assert [hits[0].id for hits in await collection.asearch_many(["tea", "rain"])] == ["tea", "rain"]
    assert [hit.id for hit in await collection.asearch_vector(vector, limit=1)] == ["tea"]
    assert [hit.id for hit in await collection.asearch_diverse("tea", 1)] == ["tea"]
    assert await collection.aget(["tea"]) == collection.get(["tea"])
    assert sorted(await collection.afind()) == ["bread", "rain", "tea"]
    assert [each async for each in collection.adocuments(limit=2)] == list(collection.documents(limit=2))
    assert await collection.adelete(["tea"]) == 1
    assert collection.find({"id": "tea"}) == []


@pytest.mark.parametrize("place", ["client"], indirect=True)
async def test_searches_of_a_server_are_under_way_together(collection, words, monkeypatch):
    collection.ingest(NOTES)
    usual = min(32, (os.cpu_count() or 1) + 4)  # what an event loop has by itself
    together = threading.Barrier(MOST_AT_ONCE)
    assert usual < MOST_AT_ONCE
    encode = words.encode_query

    def meet(texts):
        together.wait(timeout=60)  # passes only where all are here at once
        return encode(texts)

    monkeypatch.setattr(words, "encode_query", meet)
    queries = ["tea", "bread", "rain", "tea"] * (MOST_AT_ONCE // 4)
    found = await asyncio.gather(*(collection.asearch(query, 1) for query in queries))
    assert [hits[0].id for hits in found] == queries


@pytest.mark.parametrize("place", ["embedded"], indirect=True)
async def test_few_searches_compute_at_once(collection, words, monkeypatch):
    collection.ingest(NOTES)
    encode, running, most = words.encode_query, 0, 0
    lock = threading.Lock()

    def count(texts):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.005)
        with lock:
            running -= 1
        return encode(texts)

    monkeypatch.setattr(words, "encode_query", count)
    await asyncio.gather(*(collection.asearch("tea", 1) for _ in range(40)))
    assert 1 <= most <= MOST_COMPUTING


async def test_the_event_loop_starts_no_worker(collection, monkeypatch):
    """Starting a thread makes the caller wait until it runs, which takes long where many threads compute."""
    started, start = [], threading.Thread.start

    def noting(thread):
        started.append((thread.name, threading.current_thread() is threading.main_thread()))
        start(thread)

    collection.ingest(NOTES)
    await collection.asearch("tea", 1)  # starts the dispatcher
    async_methods._threads.cache_clear()
    monkeypatch.setattr(threading.Thread, "start", noting)
    await asyncio.gather(*(collection.asearch("tea", 1) for _ in range(200)))
    assert any(name.startswith("twinvec-async") for name, _ in started)
    assert [name for name, in_loop in started if in_loop] == []


async def test_cancelled_and_failing_calls_end_like_blocking_ones(collection):
    waiting = [asyncio.create_task(collection.asearch("tea", 1)) for _ in range(20)]
    await asyncio.sleep(0)
    for task in waiting:
        task.cancel()
    assert all(
        isinstance(each, asyncio.CancelledError) for each in await asyncio.gather(*waiting, return_exceptions=True)
    )
    with pytest.raises(ConfigurationError, match="limit"):
        await collection.asearch("tea", 0)
    assert await collection.asearch("tea", 1) == []


async def test_a_twin_sees_the_context_of_its_caller(collection, words, monkeypatch):
    seen, encode = [], words.encode_query
    tenant = contextvars.ContextVar("tenant", default="nobody")
    monkeypatch.setattr(words, "encode_query", lambda texts: seen.append(tenant.get()) or encode(texts))
    tenant.set("acme")
    await collection.asearch("tea")
    assert seen == ["acme"]


def test_a_forked_process_has_twins_of_its_own():
    program = textwrap.dedent("""
        import asyncio, os
        from twinvec.support.async_methods import awaitable
        twin = awaitable(lambda self: self)
        assert asyncio.run(twin(7)) == 7
        child = os.fork()
        if child == 0:
            os._exit(asyncio.run(asyncio.wait_for(twin(7), 120)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)


def test_twins_have_the_arguments_of_their_methods():
    twins = [name for name in vars(Collection) if name.startswith("a") and hasattr(Collection, name[1:])]
    assert len(twins) >= 8
    for name in twins:
        assert inspect.signature(getattr(Collection, name)) == inspect.signature(getattr(Collection, name[1:]))


@pytest.mark.parametrize("closes", [False, True])
async def test_a_cancelled_ingest_goes_on_until_the_collection_is_closed(tmp_path, words, monkeypatch, closes):
    begun, go, encode = threading.Event(), threading.Event(), words.encode_document

    def wait(texts, **options):
        begun.set()
        assert go.wait(60)
        return encode(texts, **options)

    collection = Collection.open("notes", tmp_path, encoder=words, chunking=False)
    monkeypatch.setattr(words, "encode_document", wait)
    call = asyncio.create_task(collection.aingest(NOTES))
    assert await asyncio.to_thread(begun.wait, 10)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    if closes:
        collection.close()
        collection = Collection.open("notes", tmp_path, encoder=WordEncoder())
    go.set()
    report = collection.ingest(NOTES)
    assert (report.new, report.unchanged) == ((3, 0) if closes else (0, 3))
    collection.close()


def test_the_docstrings_of_writing_calls_say_what_a_cancelled_one_does():
    for name in ("aingest", "adelete", "adelete_source"):
        assert "before a retry, close the collection" in getattr(Collection, name).__doc__
    assert "retry" not in Collection.afind.__doc__
