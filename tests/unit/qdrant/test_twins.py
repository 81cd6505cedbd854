"""Awaitable calls do what the blocking ones do, side by side."""

from __future__ import annotations

import asyncio
import inspect
import threading

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
    together = threading.Barrier(3)
    encode = words.encode_query

    def meet(texts):
        together.wait(timeout=60)  # passes only where three are here at once
        return encode(texts)

    monkeypatch.setattr(words, "encode_query", meet)
    found = await asyncio.gather(*(collection.asearch(query, 1) for query in ("tea", "bread", "rain")))
    assert [hits[0].id for hits in found] == ["tea", "bread", "rain"]


def test_twins_have_the_arguments_of_their_methods():
    twins = [name for name in vars(Collection) if name.startswith("a") and hasattr(Collection, name[1:])]
    assert len(twins) >= 8
    for name in twins:
        assert inspect.signature(getattr(Collection, name)) == inspect.signature(getattr(Collection, name[1:]))
