"""Tools for agents, asked with the SDK's own client: in the process and over HTTP."""

from __future__ import annotations

import dataclasses
import json
import re
import shutil
import signal
import subprocess
import sys
from unittest.mock import Mock

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult

from cases import slow
from holders import holding, stopped
from stand_in import StandIn
from twinvec import Document, Encoder
from twinvec.errors import StoreBusyError
from twinvec.retrieval.base import Hit
from twinvec.retrieval.documents import HiddenKeys
from twinvec_qdrant import Collection, drop_collection, opening
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.agents import over_stdio
from twinvec_serve.agents import tools as tools_module
from twinvec_serve.agents.library import Library
from twinvec_serve.agents.over_http import running_sessions
from twinvec_serve.agents.server import build
from twinvec_serve.agents.texts import cut_text, lines_of, parse_place
from words import WordEncoder

GUIDE = "\n".join(f"line {number} of the guide" for number in range(1, 41))
TEXTS = {
    "guides/tls.md": "# Certificates\n\nRenew the certificate every year.\n\nThe renewal is free.",
    "guides/refunds.md": "Refunds take five days.",
    "notes/long.md": GUIDE,
}


class _Shelf(Library):
    """Collections that are opened with the encoder of the tests, whose model nobody can load by name."""

    def _open(self, name: str) -> Collection:
        return Collection.open(name, self.path, encoder=WordEncoder(), create=False)


@pytest.fixture
def store(tmp_path):
    """A folder with two collections."""
    path = tmp_path / "store"
    with Collection.open("docs", path, encoder=WordEncoder(), chunking=False) as docs:
        docs.ingest([{"id": name, "text": text, "lang": "en"} for name, text in TEXTS.items()])
    with Collection.open("mail", path, encoder=WordEncoder(), chunking=False) as mail:
        mail.ingest(
            {"1": "The certificate of the mail server has expired."}.items(), source="mail", describe={"": "our mail"}
        )
    return path


@pytest.fixture
def shelf(store):
    opened = _Shelf(store, None)
    yield opened
    opened.close()


async def asked(shelf: Library, tool: str, **arguments) -> CallToolResult:
    async with Client(build(shelf)) as client:
        return await client.call_tool(tool, arguments)


async def answer(shelf: Library, tool: str, **arguments):
    """Call a tool, which must not fail, and return its structured answer, which the text repeats."""
    result = await asked(shelf, tool, **arguments)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content
    return result.structured_content


@pytest.mark.slow
async def test_a_library_loads_a_model_once_for_all_collections_of_its_space(tmp_path, tiny_model):
    small, large = str(tiny_model("bert")), str(tiny_model("roberta"))
    for name, model, options in (("a", small, {}), ("b", small, {}), ("c", small, {"dim": 8}), ("d", large, {})):
        with Collection.open(name, tmp_path, encoder=Encoder(model, **options)) as collection:
            collection.ingest([("1", "The certificate has expired.")])
    library = Library(tmp_path, None)
    try:
        first = await library.open("a")
        assert first.loaded_encoder is None, "nothing was asked yet"
        assert first.search("certificate")
        opened = {name: await library.open(name) for name in "bcd"}
        assert opened["b"].loaded_encoder is first.loaded_encoder
        assert opened["c"].loaded_encoder is None, "fewer dimensions"
        assert opened["d"].loaded_encoder is None, "another model"
        assert all(each.search("certificate") for each in opened.values())
        assert opened["c"].encoder.dim == 8
    finally:
        library.close()


async def test_a_library_computes_in_its_precision(tmp_path, tiny):
    for name in "ab":
        with Collection.open(name, tmp_path, encoder=Encoder(tiny)) as collection:
            collection.ingest([("1", "The certificate has expired.")])
    library = Library(tmp_path, None, "float32")
    try:
        opened = [await library.open(name) for name in "ab"]
        assert all(each.search("certificate") for each in opened)
        assert [each.encoder._choice.precision for each in opened] == ["float32", "float32"]
    finally:
        library.close()


async def test_a_library_waits_for_another_process_as_long_as_it_was_told(tmp_path):
    with holding(tmp_path) as holder, stopped(holder):
        library = Library(tmp_path, None, wait_seconds=0)
        with pytest.raises(StoreBusyError, match=r"\b0(\.\d+)? s"):
            await library.open("notes")


async def test_tools_describe_themselves_their_parameters_and_results(shelf):
    async with Client(build(shelf)) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert "list_collections" in client.instructions
    assert set(tools) == {"search", "get_document", "get_documents", "list_collections"}
    for tool in tools.values():
        assert len(tool.description) > 80
        assert "\n  " not in tool.description, "the indentation of the source"
        assert tool.annotations.read_only_hint
        assert not tool.annotations.destructive_hint
        assert all(each.get("description") for each in tool.input_schema["properties"].values())
        schemas = [tool.output_schema, *tool.output_schema.get("$defs", {}).values()]
        assert all(each.get("description") for schema in schemas for each in schema["properties"].values())
    assert tools["search"].input_schema["required"] == ["queries"]


async def test_collections_are_listed_with_what_they_hold(shelf):
    listed = await answer(shelf, "list_collections")
    assert [(each["name"], each["documents"]) for each in listed["collections"]] == [("docs", 3), ("mail", 1)]
    assert listed["collections"][1]["sources"][0]["describes"] == {"": "our mail"}
    assert listed["failed"] == {}


async def test_a_search_finds_passages_with_source_place_and_score(shelf):
    found = await answer(shelf, "search", queries=["renew certificate"])
    first = found["results"][0]
    assert (first["collection"], first["source"]) == ("docs", "guides/tls.md")
    assert first["place"] == "guides/tls.md:1-5"
    assert first["text"] == TEXTS["guides/tls.md"]
    assert first["score"] > 0
    assert {each["collection"] for each in found["results"]} == {"docs", "mail"}
    mail = next(each for each in found["results"] if each["collection"] == "mail")
    assert mail["describes"] == "our mail"


@pytest.mark.parametrize("queries", [[" "], ["certificate", "\n"]])
async def test_an_empty_query_is_an_error(shelf, queries):
    result = await asked(shelf, "search", queries=queries)
    assert result.is_error
    assert result.content[0].text.endswith("a query is empty; expected a question or key words")


async def test_a_search_without_collections_says_that_there_are_none(tmp_path):
    library = Library(tmp_path / "typo", None)
    found = await answer(library, "search", queries=["anything"])
    assert found["results"] == []
    assert found["hint"].startswith("There are no collections")


async def test_further_phrasings_find_more_and_a_document_once(shelf):
    one = await answer(shelf, "search", queries=["renew certificate"], collections=["docs"], limit=2)
    more = await answer(shelf, "search", queries=["renew certificate", "refunds days"], collections=["docs"], limit=2)
    assert "guides/refunds.md" not in [each["source"] for each in one["results"][:1]]
    assert {each["source"] for each in more["results"]} == {"guides/tls.md", "guides/refunds.md"}


async def test_a_filter_and_collections_narrow_a_search(shelf):
    assert (await answer(shelf, "search", queries=["certificate"], filter={"lang": "de"}))["results"] == []
    mail = await answer(shelf, "search", queries=["certificate"], collections=["mail"])
    assert [each["collection"] for each in mail["results"]] == ["mail"]


async def test_an_answer_is_cut_at_its_size_and_says_so(shelf, monkeypatch):
    monkeypatch.setattr(tools_module, "MAX_CHARS", 30)
    found = await answer(shelf, "search", queries=["certificate"])
    assert sum(len(each["text"]) for each in found["results"]) == 30
    assert found["results"][0]["shortened"]
    assert found["left_out"] > 0


async def test_a_passage_of_several_results_comes_once(shelf, store, monkeypatch):
    text = "The pump starts at noon."
    with Collection.open("pumps", store, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest({"a.md": text, "copy.md": text, "b.md": "The pump stops at night."}.items())
    monkeypatch.setattr(tools_module, "MAX_CHARS", len(text) + 20)
    found = await answer(shelf, "search", queries=["pump noon"], collections=["pumps"])
    first, same, other = found["results"]
    assert (first["text"], first["same_as"]) == (text, None)
    assert (same["text"], same["shortened"], same["same_as"]) == ("", False, first["place"])
    assert {first["source"], same["source"]} == {"a.md", "copy.md"}
    assert (len(other["text"]), other["same_as"]) == (20, None)


async def test_a_document_is_read_whole_by_lines_and_by_place(shelf):
    whole = await answer(shelf, "get_document", id="notes/long.md")
    assert whole["text"] == GUIDE
    assert (whole["first_line"], whole["last_line"], whole["lines"], whole["next_line"]) == (1, 40, 40, None)
    assert whole["metadata"] == {"lang": "en"}
    part = await answer(shelf, "get_document", id="notes/long.md", from_line=3, to_line=4)
    assert part["text"] == "line 3 of the guide\nline 4 of the guide"
    assert await answer(shelf, "get_document", id="notes/long.md:3-4", collection="docs") == part
    last = await answer(shelf, "get_document", id="notes/long.md", from_line=40, to_line=900)
    assert last["text"] == "line 40 of the guide"


async def test_metadata_that_a_document_hides_from_language_models_is_not_shown(shelf, store):
    hidden = HiddenKeys(llm=("salary",), embed=("team",))
    with Collection.open("pay", store, encoder=WordEncoder(), chunking=False) as opened:
        opened.ingest([Document("pay", "Paid monthly.", payload={"salary": "secret", "team": "hr"}, hidden=hidden)])
    found = await answer(shelf, "get_document", id="pay", collection="pay")
    assert (found["metadata"], found["metadata_left_out"]) == ({"team": "hr"}, 0)


async def test_a_long_document_says_where_to_go_on(shelf, monkeypatch):
    monkeypatch.setattr(tools_module, "MAX_CHARS", 100)
    read, line = [], 1
    while line is not None:
        part = await answer(shelf, "get_document", id="notes/long.md", from_line=line)
        assert len(part["text"]) <= 100
        read.append(part["text"])
        line = part["next_line"]
    assert len(read) > 5
    assert "\n".join(read) == GUIDE


LONG_LINES = "\n".join(["", "a" * 260, "b", "", "c" * 100, "d" * 99, "e" * 101, "x y", ""])


@pytest.mark.parametrize("text", [LONG_LINES, slow("z" * 1000), slow("\n" * 250)])
async def test_every_character_of_long_lines_can_be_read(shelf, monkeypatch, text):
    (await shelf.open("docs")).ingest([("long", text + ".")])
    monkeypatch.setattr(tools_module, "MAX_CHARS", 100)
    read, go_on = "", {}
    for _ in range(20):
        part = await answer(shelf, "get_document", id="long", **go_on)
        assert 0 < len(part["text"]) <= 100 or part["next_line"] > part["first_line"]
        assert part["last_line"] == part["first_line"] + part["text"].count("\n")
        read += part["text"]
        if part["next_line"] is None:
            break
        go_on = {"from_line": part["next_line"]}
        if part["next_char"] is None:
            read += "\n"
        else:
            go_on["from_char"] = part["next_char"]
    assert read == text + "."


async def test_a_line_is_read_from_a_character_on(shelf):
    part = await answer(shelf, "get_document", id="notes/long.md", from_line=3, to_line=4, from_char=8)
    assert part["text"] == "of the guide\nline 4 of the guide"
    assert await answer(shelf, "get_document", id="notes/long.md:3-4", from_char=8) == part
    beyond = await answer(shelf, "get_document", id="notes/long.md", from_line=3, to_line=4, from_char=900)
    assert beyond["text"] == "\nline 4 of the guide"


async def test_a_document_is_known_by_its_id_whatever_its_metadata_say(shelf):
    pages = [
        {"id": f"page-{number}", "text": f"the heading\nzebra {number}", "source": "book.pdf", "page": number}
        for number in (1, 2)
    ]
    (await shelf.open("docs")).ingest(pages)
    found = await answer(shelf, "search", queries=["zebra"], collections=["docs"], limit=2)
    assert {each["source"] for each in found["results"]} == {"page-1", "page-2"}
    for each in found["results"]:
        number = int(each["source"][-1])
        assert each["place"] == f"{each['source']}:1-2, page {number}"
        whole = await answer(shelf, "get_document", id=each["source"])
        assert whole["metadata"] == {"source": "book.pdf", "page": number}
        assert await answer(shelf, "get_document", id=each["place"]) == whole


async def test_a_text_of_several_pages_names_them_all(shelf):
    (await shelf.open("docs")).ingest([{"id": "deck.pdf", "text": "zebra one\n\ftwo\n\fthree", "page": 3}])
    (found,) = (await answer(shelf, "search", queries=["zebra"], collections=["docs"], limit=1))["results"]
    assert found["place"].endswith(", pages 3-5")
    assert (await answer(shelf, "get_document", id=found["place"]))["id"] == "deck.pdf"


async def test_metadata_that_are_too_large_are_counted(shelf):
    (await shelf.open("docs")).ingest([{"id": "1", "text": "a text", "small": 1, "large": "x" * 3000, "last": 2}])
    document = await answer(shelf, "get_document", id="1", collection="docs")
    assert document["metadata"] == {"small": 1, "last": 2}
    assert document["metadata_left_out"] == 1


@pytest.fixture
def damaged(store):
    """The same folder, where a collection that cannot be read comes first."""
    with Collection.open("broken", store, encoder=WordEncoder(), chunking=False) as broken:
        broken.ingest([("1", "The certificate has expired.")])
    (store / "broken" / "collection.json").write_text("{")


async def test_a_collection_that_cannot_be_read_is_named_and_the_others_answer(damaged, shelf):
    for tool, arguments in (
        ("list_collections", {}),
        ("search", {"queries": ["certificate"]}),
        ("get_documents", {"pattern": "guides/*"}),
    ):
        found = await answer(shelf, tool, **arguments)
        assert list(found["failed"]) == ["broken"]
        assert len(found.get("collections") or found.get("results") or found["documents"]) > 1
    assert (await answer(shelf, "get_document", id="guides/tls.md"))["text"] == TEXTS["guides/tls.md"]
    for tool, arguments in (("get_document", {"id": "guide/tls.md"}), ("get_documents", {"pattern": "guide/*"})):
        result = await asked(shelf, tool, **arguments)
        assert result.is_error
        assert "; not read: broken (" in result.content[0].text
        assert (await asked(shelf, tool, **arguments, collection="broken")).is_error


async def test_a_search_shows_what_it_found_in_a_collection_that_fails_then(shelf, monkeypatch):
    usual, opened = shelf.open, []

    async def once(name: str) -> Collection:
        opened.append(name)
        if name == "mail" and opened.count(name) > 1:
            raise StoreBusyError("busy")
        return await usual(name)

    monkeypatch.setattr(shelf, "open", once)
    found = await answer(shelf, "search", queries=["expired certificate"])
    assert found["failed"] == {"mail": "busy"}
    assert {("mail", "1"), ("docs", "guides/tls.md:1-5")} <= {(e["collection"], e["place"]) for e in found["results"]}


async def test_an_unknown_id_is_answered_with_the_nearest(shelf):
    result = await asked(shelf, "get_document", id="guide/tls.md")
    assert result.is_error
    assert "no document 'guide/tls.md'" in result.content[0].text
    assert "'guides/tls.md'" in result.content[0].text


async def test_an_id_of_several_collections_is_named_once_among_the_nearest(shelf):
    (await shelf.open("mail")).ingest([("guides/tls.md", "The certificate has expired.")])
    result = await asked(shelf, "get_document", id="guide/tls.md")
    assert result.content[0].text.count("'guides/tls.md'") == 1


async def test_documents_of_a_pattern_are_cut_at_a_size(shelf):
    found = await answer(shelf, "get_documents", pattern="guides/*")
    assert [each["id"] for each in found["documents"]] == ["guides/refunds.md", "guides/tls.md"]
    cut = await answer(shelf, "get_documents", pattern="*.md", max_chars=200)
    assert sum(len(each["text"]) for each in cut["documents"]) <= 200
    assert [each["id"] for each in cut["documents"]] + cut["left_out"] == sorted(TEXTS)
    assert cut["documents"][-1]["next_line"]
    (await shelf.open("docs")).ingest([("guides/zz.md", "z" * 500)])
    last = (await answer(shelf, "get_documents", pattern="guides/*", max_chars=400))["documents"][-1]
    assert (last["id"], last["next_line"], last["next_char"]) == ("guides/zz.md", 1, len(last["text"]) + 1)
    assert (await asked(shelf, "get_documents", pattern="nothing*")).is_error


async def test_a_size_holds_for_ids_and_metadata_too(shelf):
    (await shelf.open("docs")).ingest([{"id": f"n/{i}", "text": "x", "note": "n" * 100} for i in range(9)])
    found = await answer(shelf, "get_documents", pattern="n/*", max_chars=300)
    assert [each["id"] for each in found["documents"]] == ["n/0", "n/1", "n/2"]
    assert found["left_out_count"] == 6


@pytest.mark.slow
async def test_a_pattern_that_fits_thousands_of_ids_has_a_short_answer(shelf):
    (await shelf.open("docs")).ingest([(f"n/{number}", "x") for number in range(2000)])
    result = await asked(shelf, "get_documents", pattern="n/*")
    found = result.structured_content
    assert [each["id"] for each in found["documents"]] == sorted(f"n/{number}" for number in range(2000))[:50]
    assert (len(found["left_out"]), found["left_out_count"]) == (100, 1950)
    assert len(result.content[0].text) < 40_000


async def test_a_size_holds_for_long_ids(shelf):
    ids = [f"n/{letter * 9000}" for letter in "abcdef"]
    (await shelf.open("docs")).ingest([(each, f"The certificate {each[2]} has expired.") for each in ids])
    found = await answer(shelf, "search", queries=["certificate expired"], collections=["docs"])
    assert (len(found["results"]), found["left_out"] > 2) == (2, True)
    result = await asked(shelf, "get_documents", pattern="n/*")
    assert [each["id"] for each in result.structured_content["documents"]] == ids[:3]
    assert (result.structured_content["left_out"], result.structured_content["left_out_count"]) == (ids[3:5], 3)
    short = await answer(shelf, "get_documents", pattern="n/a*", max_chars=8720)
    assert len(short["documents"][0]["text"]) < 30, "cut, because the id has taken the size"


async def test_a_long_title_is_cut(shelf):
    (await shelf.open("docs")).ingest([{"id": "t", "title": "certificate " * 5000, "text": "A certificate."}])
    result = await asked(shelf, "search", queries=["certificate"])
    assert "t" in [each["source"] for each in result.structured_content["results"]]
    assert len(result.content[0].text) < 10_000


async def test_a_model_learns_by_what_it_can_filter(shelf):
    listed = (await answer(shelf, "list_collections"))["collections"]
    assert {each["name"]: each["metadata"] for each in listed} == {"docs": {"lang": "keyword"}, "mail": {}}
    found = await answer(shelf, "search", queries=["certificate"], filter={"language": "en"})
    assert found["results"] == []
    assert found["hint"].startswith("Nothing was found with this filter. list_collections names the keys")
    assert (await answer(shelf, "search", queries=["certificate"], filter={"lang": "en"}))["hint"] is None


async def test_keys_of_metadata_that_are_not_listed_are_counted(shelf):
    (await shelf.open("docs")).ingest([{"id": "k", "text": "x"} | {f"key{number}": 1 for number in range(59)}])
    listed = {each["name"]: each for each in (await answer(shelf, "list_collections"))["collections"]}
    assert (len(listed["docs"]["metadata"]), listed["docs"]["metadata_left_out"]) == (50, 10)
    assert listed["mail"]["metadata_left_out"] == 0


async def test_in_a_pattern_only_the_star_is_special(shelf):
    (await shelf.open("docs")).ingest(
        [("app/[slug]/a?.md", "one"), ("app/s/ab.md", "two"), ("app/[slug]/b.md", "three")]
    )
    for pattern, ids in (
        ("app/[slug]/*", ["app/[slug]/a?.md", "app/[slug]/b.md"]),
        ("*/a?.md", ["app/[slug]/a?.md"]),
        ("app/*b.md", ["app/[slug]/b.md", "app/s/ab.md"]),
    ):
        found = await answer(shelf, "get_documents", pattern=pattern)
        assert [each["id"] for each in found["documents"]] == ids


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("search", {"queries": ["x"], "collections": ["none"]}, "none"),
        ("search", {"queries": []}, "queries"),
        ("search", {"queries": ["x"], "collections": []}, "collections"),
        ("search", {"queries": ["x"], "filter": {"year": {"around": 3}}}, "around"),
        ("search", {"queries": ["x"], "limit": 1000}, "limit"),
        ("get_document", {"id": "1", "collection": "none"}, "none"),
        ("get_document", {"id": ""}, "id: should have at least 1 character"),
        ("get_document", {"id": "x" * 100_000}, "id: should have at most 4000 characters"),
        ("get_document", {"id": "notes/long.md:41-50"}, "has no line 41: its last line is 40"),
        (
            "get_document",
            {"id": "notes/long.md", "from_line": 5, "to_line": 2},
            "2, which is before the first line to return, 5",
        ),
        ("get_documents", {"pattern": "x" * 100_000}, "pattern: should have at most 4000 characters"),
        (
            "search",
            {"queries": ["x"]} | {f"{'k' * 1000}{i}": 1 for i in range(1000)},
            "; it takes queries, collections",
        ),
    ],
)
async def test_a_model_learns_what_was_wrong(shelf, tool, arguments, message):
    result = await asked(shelf, tool, **arguments)
    assert result.is_error
    assert message in result.content[0].text
    assert "Traceback" not in result.content[0].text
    assert len(result.content[0].text) < 1000


CALLS = (
    ("search", {"queries": ["certificate"], "collections": ["docs"]}),
    ("get_document", {"id": "notes/long.md", "collection": "docs"}),
    ("get_documents", {"pattern": "*", "collection": "docs"}),
)
GONE = "there is no collection 'docs' any more; there are: mail"


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_collection_that_is_dropped_while_it_is_used_is_gone(shelf, store, monkeypatch, tool, arguments):
    async def dropped_meanwhile(name: str) -> Collection:
        opened = await Library.open(shelf, name)
        opened.close()
        drop_collection(name, store)
        return opened

    monkeypatch.setattr(shelf, "open", dropped_meanwhile)
    result = await asked(shelf, tool, **arguments)
    assert result.is_error
    assert result.content[0].text.endswith(GONE)


async def test_a_collection_that_another_program_drops_from_a_server_is_gone():
    with StandIn().running() as server:
        for name in ("docs", "mail"):
            with Collection.open(name, url=server.url, encoder=WordEncoder(), chunking=False) as opened:
                opened.ingest([("a", "the certificate")])
        shelf = Library(None, server.url)
        shelf._opened = {"docs": Collection.open("docs", url=server.url, encoder=WordEncoder())}
        assert not (await asked(shelf, "search", **CALLS[0][1])).is_error
        drop_collection("docs", url=server.url)
        for tool, arguments in CALLS:
            result = await asked(shelf, tool, **arguments)
            assert result.is_error
        assert result.content[0].text.endswith(GONE)
        shelf.close()


@pytest.fixture(params=["stdio", "http"])
async def either_shelf(request, shelf, store, monkeypatch):
    """The collections of ``twinvec mcp``, or of a server."""
    if request.param == "stdio":
        yield shelf
        return
    monkeypatch.setattr(opening, "load_space_encoder", lambda *_: WordEncoder())
    app = create_app(ServeSettings(path=store))
    async with app.router.lifespan_context(app):
        yield app.state.services.collections


@pytest.mark.parametrize(("tool", "arguments"), CALLS)
async def test_a_collection_whose_folder_was_replaced_is_opened_again(either_shelf, store, tool, arguments):
    before = await answer(either_shelf, tool, **arguments)
    shutil.rmtree(store / "docs")
    with Collection.open("docs", store, encoder=WordEncoder(), chunking=False) as docs:
        docs.ingest([{"id": name, "text": text, "lang": "en"} for name, text in TEXTS.items()])
    result = await asked(either_shelf, tool, **arguments)
    assert result.is_error
    assert "the collection 'docs' has been removed or replaced; " in result.content[0].text
    assert str(store) not in result.content[0].text
    assert await answer(either_shelf, tool, **arguments) == before


async def test_an_error_of_the_server_says_nothing_of_its_text(shelf, monkeypatch, caplog):
    secret = "the " + "secret"  # not as a whole in the source, of which the traceback in the log has a line

    async def failing() -> list[str]:
        raise RuntimeError(secret)

    monkeypatch.setattr(shelf, "names", failing)
    result = await asked(shelf, "list_collections")
    assert result.is_error
    assert secret not in result.content[0].text
    assert secret not in caplog.text
    assert "RuntimeError" in caplog.text


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a.md", None),
        ("a.md:12", ("a.md", 12, 12)),
        ("a.md:12-15", ("a.md", 12, 15)),
        ("a.md#3", ("a.md", None, None)),
        ("a, b.md:12-15, page 3, Certificates > Renewal: 4", ("a, b.md", 12, 15)),
        ("c:a", None),
        (":3", None),
    ],
)
def test_places_are_read(text, place):
    assert parse_place(text) == place


def test_the_lines_of_a_short_chunk_are_those_below_its_heading():
    chunks = ["FAQ > Alpha\n\nNo.", "FAQ > Beta\n\nNo.", "FAQ > Hours\n\n**Off**ice hours.", "FAQ > Wifi\n\nOff"]
    text = "\n\n".join([*chunks, "FAQ > Twice\n\nYes.", "FAQ > Twice\n\nYes."])

    def lines(chunk):
        return lines_of(Hit("faq.md", chunk, 1.0, payload={"heading": chunk.partition("\n")[0]}), text)

    assert [lines(chunk) for chunk in chunks] == [(3, 3), (7, 7), (11, 11), (15, 15)]
    assert lines("FAQ > Twice\n\nYes.") is None, "it is in two places"
    assert lines("FAQ > Gamma\n\nNo.") is None


def test_whole_lines_are_taken_and_a_line_that_is_too_long_is_cut():
    assert cut_text("abc\nde\nf", 8) == ("abc\nde\nf", False)
    assert cut_text("abc\nde\nf", 7) == ("abc\nde", False)
    assert cut_text("abc\nde\nf", 6) == ("abc\nde", False)
    assert cut_text("abc\nde\nf", 5) == ("abc", False)
    assert cut_text("abcdefgh\nij", 5) == ("abcde", True)
    assert cut_text("\nabcdefgh", 5) == ("", False)


# --- Over standard input ---

SURROGATE = (
    '{"jsonrpc":"2.0","id":13,"method":"tools/call","params":{"name":"search","arguments":{"queries":["\\ud800"]}}}'
)


LINES = [
    (SURROGATE, 13, -32700, "the line is not JSON: .*hex escape"),
    ("not json", None, -32700, "the line is not JSON: .*column 2"),
    ("[" * 5000, None, -32700, "the line is not JSON: "),
    ("[]", None, -32600, "not a JSON-RPC message"),
    ('{"id": "a", "method": 5}', "a", -32600, "not a JSON-RPC message"),
    ('{"id": {}, "method": 5}', None, -32600, "not a JSON-RPC message"),
]


PING = '{"jsonrpc":"2.0","id":14,"method":"ping"}\n'


def started_tools(folder) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "twinvec", "mcp", "--path", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    return subprocess.Popen(command, text=True, **pipes)


def test_a_line_that_is_no_message_is_answered(tmp_path):
    with started_tools(tmp_path) as process:
        process.stdin.write("\n".join([*(line for line, *_ in LINES), "", PING]))
        process.stdin.flush()
        *refused, answered = (json.loads(process.stdout.readline()) for _ in range(len(LINES) + 1))
        process.stdin.close()  # not before: the end of the input ends what is under way
        assert process.wait(60) == 0
    for (_, identity, code, told), answer in zip(LINES, refused, strict=True):
        assert (answer["id"], answer["error"]["code"]) == (identity, code)
        assert re.search(told, answer["error"]["message"])
    assert answered == {"jsonrpc": "2.0", "id": 14, "result": {}}


def test_ctrl_c_ends_the_tools_while_they_wait_for_input(tmp_path):
    with started_tools(tmp_path) as process:
        process.stdin.write(PING)
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == -signal.SIGINT


def test_an_agent_that_does_not_read_the_last_answer_is_no_error(monkeypatch):
    async def gone() -> None:
        raise ExceptionGroup("tasks", [ExceptionGroup("tasks", [BrokenPipeError()])])

    monkeypatch.setattr(over_stdio, "build", lambda *_: Mock(run_stdio_async=gone))
    monkeypatch.setattr(signal, "signal", Mock())  # this process keeps its handlers
    library = Mock(spec=Library)
    over_stdio.run(library)
    library.close.assert_called_once()


# --- Over HTTP ---

KEY = "a-key-of-this-test-0123456789"


@pytest.fixture
async def served(shelf):
    """An app that runs, and a way to ask it with a key."""
    app = create_app(ServeSettings(read_keys=(KEY,)))
    app.state.services = dataclasses.replace(app.state.services, collections=shelf)
    async with running_sessions(app):
        yield app


def http(app, **headers) -> httpx2.AsyncClient:
    headers = {"Authorization": f"Bearer {KEY}"} | headers
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app), headers=headers)


@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_tools_are_there_over_http(served, mode):
    address = "http://127.0.0.1:6380/mcp"
    async with http(served) as web, Client(streamable_http_client(address, http_client=web), mode=mode) as client:
        assert len((await client.list_tools()).tools) == 4
        result = await client.call_tool("search", {"queries": ["renew certificate"], "limit": 1})
        assert result.structured_content["results"][0]["source"] == "guides/tls.md"


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": "Bearer unknown"}, 401),
        ({"Host": "evil.example:6380"}, 421),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
async def test_keys_hosts_and_origins_are_checked_for_agents_too(served, headers, status):
    accepted = {"Accept": "application/json, text/event-stream"}
    async with http(served, **accepted, **headers) as web:
        answer = await web.post("http://127.0.0.1:6380/mcp", json=CALL)
        assert answer.status_code == status
        assert (await web.get("http://127.0.0.1:6380/mcp")).status_code in (405, status)


async def test_a_request_that_no_tool_needs_is_refused_unread(served):
    query = "\N{SEEDLING}" * 4000
    kinds = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    async with http(served, **kinds) as web:
        for queries, status in (([query] * 8, 200), ([query] * 16, 413)):
            call = {"name": "search", "arguments": {"queries": queries}}
            body = json.dumps(CALL | {"method": "tools/call", "params": call})  # escaped: twelve bytes a letter
            answer = await web.post("http://127.0.0.1:6380/mcp", content=body)
            assert answer.status_code == status, answer.text
        message = answer.json()["error"]["message"]
        assert message.endswith("larger than this server's limit of 524,288 bytes; send fewer or shorter arguments")


async def test_before_the_start_agents_are_told_to_wait():
    async with http(create_app()) as web:
        assert (await web.post("http://127.0.0.1:6380/mcp", json=CALL)).status_code == 503


async def test_an_argument_that_a_tool_does_not_have_is_refused(shelf):
    result = await asked(shelf, "search", queries=["certificate"], filters={"lang": "en"})
    assert result.is_error
    assert result.content[0].text.startswith("search has no argument filters; it takes queries, ")
    result = await asked(shelf, "list_collections", all=True)
    assert result.content[0].text == "list_collections has no argument all; it takes none"
    result = await asked(shelf, "list_collections", **{f"x{number}": 1 for number in range(8)})
    assert "no argument x0, x1, x2, x3, x4 and 3 more; it takes none" in result.content[0].text


async def test_an_argument_of_a_wrong_type_is_named_without_its_value(shelf):
    result = await asked(shelf, "search", queries=[7], limit="secret")
    assert result.is_error
    text = result.content[0].text
    assert text.startswith("queries.0: should be a valid string; limit: should be a valid integer")
    assert "secret" not in text
    assert "http" not in text
