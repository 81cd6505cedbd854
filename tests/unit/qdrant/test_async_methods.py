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

from twinvec.support.async_methods import MOST_AT_ONCE
from twinvec_qdrant import Collection

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
    assert await collection.adelete(["tea"]) == 1
    assert collection.find({"id": "tea"}) == []


async def test_searches_are_under_way_together(collection, words, monkeypatch):
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
            os._exit(asyncio.run(asyncio.wait_for(twin(7), 20)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    """)
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_twins_have_the_arguments_of_their_methods():
    twins = [name for name in vars(Collection) if name.startswith("a") and hasattr(Collection, name[1:])]
    assert len(twins) >= 8
    for name in twins:
        assert inspect.signature(getattr(Collection, name)) == inspect.signature(getattr(Collection, name[1:]))
