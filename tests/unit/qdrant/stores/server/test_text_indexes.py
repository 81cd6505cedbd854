"""Words on a server: searched by a text index, and refused without one."""

from __future__ import annotations

import asyncio

import pytest
from qdrant_client import QdrantClient, models

from twinvec.errors import FilterError
from twinvec_qdrant import Collection
from words import WordEncoder

WORDS = {"body": {"text": "apple"}}
PHRASE = {"not": {"author.bio": {"phrase": "red apple"}}}


@pytest.fixture
def server(server):
    return server.url


@pytest.fixture
def collection(server):
    with Collection.open("notes", encoder=WordEncoder(), chunking=False, url=server) as opened:
        opened.ingest([{"id": "a", "text": "tea", "body": "An Apple"}, {"id": "b", "text": "tea", "body": "applet"}])
        yield opened


def index(server: str, path: str, *, phrases: bool) -> None:
    params = models.TextIndexParams(type=models.TextIndexType.TEXT, phrase_matching=phrases)
    QdrantClient(url=server, timeout=60, check_compatibility=False).create_payload_index(
        "notes", f"metadata.{path}", params
    )


@pytest.mark.parametrize("wanted", [WORDS, PHRASE, {"or": [{"body": "x"}, WORDS]}])
def test_the_error_names_the_key_and_the_line_that_adds_the_index(collection, wanted):
    key = "author.bio" if wanted is PHRASE else "body"
    for search in (
        lambda: collection.search("tea", filter=wanted),
        lambda: collection.search_vector(WordEncoder().encode_query(["tea"])[0], filter=wanted),
        lambda: collection.find(wanted),
        lambda: asyncio.run(collection.asearch("tea", filter=wanted)),
    ):
        with pytest.raises(FilterError, match=f"payload_indexes={{'{key}': 'text'}}.*--payload-index {key}:text"):
            search()


def test_an_index_that_is_there_later_is_used(collection, server):
    with pytest.raises(FilterError, match="text needs"):
        collection.find(WORDS)
    index(server, "body", phrases=False)
    assert collection.find(WORDS) == ["a"]
    assert [hit.id for hit in collection.search("tea", filter=WORDS)] == ["a"]
    with pytest.raises(FilterError, match="phrase needs"):
        collection.find({"body": {"phrase": "an apple"}})


def test_every_path_of_a_key_needs_an_index(collection, server):
    index(server, "author.bio", phrases=True)
    with pytest.raises(FilterError, match="phrase needs"):
        collection.find(PHRASE)
    index(server, "author[].bio", phrases=True)
    assert sorted(collection.find(PHRASE)) == ["a", "b"]
