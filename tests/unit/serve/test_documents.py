"""The routes of documents: ingest in all its bodies, progress, get and delete."""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from contextlib import ExitStack
from itertools import count
from types import SimpleNamespace

import httpx
import pytest
from fastapi.testclient import TestClient
from sse_starlette.sse import AppStatus
from typer.testing import CliRunner

from small_disks import largest_file
from twinvec import Document, Encoder
from twinvec.cli.app import build_app
from twinvec_qdrant import Collection, Empty, Failure, opening, read_source
from twinvec_qdrant.cli.served import documents as cli_documents
from twinvec_qdrant.settings import NEWEST_READING
from twinvec_serve import ServeSettings, create_app
from twinvec_serve.collections.ingests import Ingests
from twinvec_serve.collections.reading import ndjson_pages, plain_line
from twinvec_serve.collections.store_place import StorePlace
from twinvec_serve.collections.work import Ingest
from twinvec_serve.errors import Overloaded, ServerStopsError
from twinvec_serve.routes import progress
from twinvec_serve.routes.description import EXAMPLES
from unit.serve.waiting import pause_until

ADDRESS = "http://127.0.0.1:6380"
EVENTS = {"Accept": "text/event-stream"}
NDJSON = {"Content-Type": "application/x-ndjson"}


def documents(count: int, version: str = "first"):
    return [
        {"id": f"{row}.md", "text": f"Text {row} of the {version} version.", "even": row % 2 == 0}
        for row in range(count)
    ]


def lines(values) -> bytes:
    return b"".join(json.dumps(each).encode() + b"\n" for each in values)


def settings_of(model, folder, **options):
    return ServeSettings(path=folder / "store", models={"tiny": str(model)}, **options)


@pytest.fixture(scope="module")
def served(tiny_model, tmp_path_factory):
    settings = settings_of(tiny_model("bert"), tmp_path_factory.mktemp("served"), max_texts=50, max_body_bytes=4096)
    with TestClient(create_app(settings), base_url=ADDRESS) as client:
        yield client


@pytest.fixture
def docs(served, request):
    """The path of a new collection."""
    name = str(abs(hash(request.node.name)))
    assert served.post("/v1/collections", json={"name": name, "chunking": False}).status_code == 201
    return f"/v1/collections/{name}"


def ids(served, docs) -> list[str]:
    found = served.post(f"{docs}/documents/delete", json={"filter": {"even": [True, False]}, "dry_run": True}).json()
    return found["documents"]


def events(answer) -> list[tuple[str, dict]]:
    found = []
    for block in answer.text.replace("\r\n", "\n").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append((fields["event"], json.loads(fields["data"])))
    return found


def test_the_examples_of_the_description_are_answered(served):
    order = [
        "embeddings",
        "rerank",
        "collections",
        "documents",
        "get",
        "search",
        "migrate",
        "reindex",
        "tune",
        "delete",
    ]
    for path in sorted(EXAMPLES, key=lambda path: order.index(path.rpartition("/")[2])):
        answer = served.post(path.replace("{name}", "handbook"), json=EXAMPLES[path])
        assert answer.status_code in (200, 201), answer.text
    assert served.get("/v1/collections/handbook/documents/leave.md").json()["payload"] == {"team": "hr"}


def test_a_document_may_be_longer_than_a_text_to_embed(tiny_model, tmp_path):
    long = {"id": "long.md", "text": "many words " * 100}
    files = [("files", ("file.md", long["text"].encode()))]
    settings = settings_of(tiny_model("bert"), tmp_path, max_text_chars=10)
    with TestClient(create_app(settings), base_url=ADDRESS) as client:
        client.post("/v1/collections", json={"name": "docs"})
        for version, body in enumerate(({"json": [long]}, {"content": lines([long]), "headers": NDJSON})):
            report = client.post("/v1/collections/docs/documents", **body).json()
            assert (report["new"], report["unchanged"], report["failed"]) == (1 - version, version, 0)
        assert client.post("/v1/collections/docs/documents", files=files).json()["new"] == 1
        refused = client.post("/v1/embeddings", json={"input": long["text"]})
        assert refused.json()["error"]["code"] == "text_too_long"
        assert client.post("/v1/search", json={"query": long["text"]}).status_code == 400
    described = CliRunner().invoke(build_app(), ["serve", "--help"], env={"COLUMNS": "200"}).output
    assert "Documents to ingest may be longer" in described


@pytest.mark.parametrize(
    "body",
    [
        {"json": documents(5)},
        {"json": {"documents": documents(5)}},
        {"content": lines(documents(5)), "headers": NDJSON},
    ],
)
def test_documents_come_in_each_form(served, docs, body):
    first = served.post(f"{docs}/documents", **body).json()
    assert (first["new"], first["failed"], first["chunks"]) == (5, 0, 5)
    again = served.post(f"{docs}/documents", **body).json()
    assert (again["new"], again["unchanged"], again["encoded"]) == (0, 5, 0)
    assert len(ids(served, docs)) == 5


EMPTY = [
    {"id": "a", "text": ""},
    {"_id": 7, "text": " \n", "title": " ", "year": 3},
    {"id": "b", "text": "", "title": "Only a title"},
    {"id": "", "text": ""},
    {"text": ""},
    {"id": "c", "text": "", "title": 5},
]


@pytest.mark.parametrize("body", [{"json": EMPTY}, {"content": lines(EMPTY), "headers": NDJSON}])
def test_a_document_without_text_is_empty_as_it_is_in_a_file(served, docs, body, tmp_path):
    (tmp_path / "records.jsonl").write_bytes(lines(EMPTY))
    read = list(read_source(tmp_path / "records.jsonl"))
    empties = [[each.source, each.reason] for each in read if isinstance(each, Empty)]
    report = served.post(f"{docs}/documents", **body).json()
    assert (report["new"], report["failed"]) == (1, 3)
    assert report["empties"] == empties == [["a", "holds no text"], ["7", "holds no text"]]


def test_a_line_that_is_no_document_fails_alone(served, docs):
    body = (
        lines(documents(2))
        + b"not json\n\n[1]\n"
        + b'{"id": "no-text"}\n'
        + b'{"id": "x", "text": NaN}\n'
        + lines(documents(3)[2:])[:-1]
    )
    report = served.post(f"{docs}/documents", content=body, headers=NDJSON).json()
    assert (report["new"], report["failed"]) == (3, 4)
    assert [source for source, _ in report["failures"]] == ["line 3", "line 5", "no-text", "line 7"]


def test_a_document_without_an_id_is_named_by_its_line(served, docs):
    deep = b'{"id": "deep", "text": "tea", "levels": ' + b"[" * 1800 + b"]" * 1800 + b"}"
    body = lines(documents(1)) + b'\n{"text": "tea"}\n{"id": "", "text": "tea"}\n' + deep
    *without, (name, reason) = served.post(f"{docs}/documents", content=body, headers=NDJSON).json()["failures"]
    assert without == [
        ["line 3", "no 'id' among the keys ['text']"],
        ["line 4", "the id must be a non-empty string, got ''"],
    ]
    assert "nested" in reason
    assert name in ("line 5", "deep")  # from Python 3.13 on, json reads 10,000 levels, so that the id is known


def test_an_item_that_is_no_object_fails_alone(served, docs):
    body = {"documents": [*documents(1), 5, "text", *documents(2)[1:]]}
    report = served.post(f"{docs}/documents", json=body).json()
    assert (report["new"], report["failed"]) == (2, 2)
    assert report["failures"] == [
        ["document 1", "expected an object with an id and a text, got int"],
        ["document 2", "expected an object with an id and a text, got str"],
    ]


@pytest.mark.parametrize(("key", "named"), [("prune", "'prune'"), ("\ud800", r"'\ud800'")])
def test_a_key_beside_the_documents_is_refused_by_its_name(served, docs, key, named):
    body = json.dumps({"documents": documents(1), key: True})
    answer = served.post(f"{docs}/documents", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert f"{named} is not known; leave it out" in answer.json()["error"]["message"]


def test_a_line_longer_than_a_body_may_be_fails_alone(served, docs):
    body = lines([{"id": "long", "text": "x" * 5000}, *documents(1)])
    report = served.post(f"{docs}/documents", content=body, headers=NDJSON).json()
    assert (report["new"], report["failed"]) == (1, 1)
    assert "the line is longer than" in report["failures"][0][1]
    assert "--max-body-mb" in report["failures"][0][1]


async def test_lines_are_cut_wherever_the_body_is_cut():
    body = "\n".join(
        json.dumps({"id": str(row), "text": "Größe " * row or "tea"}, ensure_ascii=False) for row in range(9)
    )
    data = body.encode()

    async def pieces(size):
        for start in range(0, len(data), size):
            yield data[start : start + size]

    for size in (1, 2, 7, 64, len(data)):
        pages = [page async for page in ndjson_pages(pieces(size), 1000, plain_line)]
        assert [each["id"] for page in pages for each in page] == [str(row) for row in range(9)]
    short = [each async for page in ndjson_pages(pieces(5), 40, plain_line) for each in [page]]
    failures = [each for page in short for each in page if isinstance(each, Failure)]
    assert [each.source for each in failures] == [f"line {number}" for number in range(4, 10)]


def test_the_progress_is_told_and_the_report_comes_last(served, docs):
    answer = served.post(f"{docs}/documents?total=4", content=lines(documents(4)), headers=NDJSON | EVENTS)
    assert answer.headers["content-type"].startswith("text/event-stream")
    told = events(answer)
    assert [name for name, _ in told[:-1]] == ["progress"] * (len(told) - 1)
    assert told[-2][1]["done"] == told[-2][1]["total"] == 4
    assert told[-2][1]["received"] is True
    assert told[-1][0] == "report"
    assert told[-1][1]["new"] == 4
    assert told[-2][1]["report"] == {name: value for name, value in told[-1][1].items() if isinstance(value, int)}


def test_an_error_is_the_last_event(served, docs):
    answer = served.post(f"{docs}/documents?prune=true&source=a:b", json=documents(2), headers=EVENTS)
    name, values = events(answer)[-1]
    assert name == "error"
    assert "cannot name a source" in values["error"]["message"]
    assert values["report"]["new"] == 0


def test_files_are_read_as_the_command_reads_them(served, docs):
    files = [
        ("files", ("guides/tls.md", b"# TLS\n\nRenew the certificate.\n")),
        ("files", ("rows.jsonl", b'{"id": "r1", "text": "a row"}\n')),
        ("files", ("empty.txt", b"")),
    ]
    report = served.post(f"{docs}/documents", files=files).json()
    assert (report["new"], report["empty"]) == (2, 1)
    found = served.get(f"{docs}/documents/guides/tls.md").json()
    assert found["payload"]["path"] == "guides/tls.md"
    assert "Renew" in found["text"]
    assert served.get(f"{docs}/documents/rows.jsonl/r1").json()["text"] == "a row"


URI = f"data:image/png;base64,{'A' * 120}"


@pytest.mark.parametrize(
    ("recorded", "name", "text", "read"),
    [
        (None, "tea.md", f"![A pot]({URI})", "![A pot](data:image/png;base64...)"),
        (2, "tea.log", "\x1b[36mtea\x1b[0m is hot", "tea is hot"),
    ],
)
def test_files_of_an_older_collection_are_read_as_its_version_read_them(
    recorded, name, text, read, tiny_model, tmp_path, monkeypatch
):
    model, version = tiny_model("bert"), recorded or 1
    payload = {"path": name, "format": "markdown" if name == "tea.md" else "text"}
    with monkeypatch.context() as older:
        older.setattr(opening, "NEWEST_READING", recorded)
        with Collection.open("docs", tmp_path / "store", encoder=Encoder(model)) as collection:
            collection.ingest([Document(name, text, payload=payload)])
    files = [("files", (name, text.encode()))]
    with TestClient(create_app(settings_of(model, tmp_path)), base_url=ADDRESS) as client:
        assert client.post("/v1/collections/docs/documents", files=files).json()["unchanged"] == 1
        assert client.get("/v1/collections/docs").json()["reading"] == version
    with Collection.open("docs", tmp_path / "store") as collection:
        collection.reindex()
    with TestClient(create_app(settings_of(model, tmp_path)), base_url=ADDRESS) as client:
        assert client.post("/v1/collections/docs/documents", files=files).json()["updated"] == 1
        assert client.get("/v1/collections/docs").json()["reading"] == NEWEST_READING
        assert client.get(f"/v1/collections/docs/documents/{name}").json()["text"] == read


def test_files_have_the_names_that_files_of_a_folder_may_have(served, docs):
    names = ["Screenshot at 9.41\u202fAM.md", "a\u00a0b.md", "soft\u00adhyphen.md", "日本語.md", "\u200d.md"]
    report = served.post(f"{docs}/documents", files=[("files", (name, b"text " + name.encode())) for name in names])
    assert report.json()["new"] == len(names)
    got = served.post(f"{docs}/documents/get", json={"ids": names}).json()
    assert [each["id"] for each in got["documents"]] == names


@pytest.mark.parametrize("total", [-1, 2**63, 10**40])
def test_a_total_that_no_number_of_documents_reaches_is_refused(served, docs, total):
    answer = served.post(f"{docs}/documents?total={total}", content=lines(documents(1)), headers=NDJSON)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "total")
    assert ids(served, docs) == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "a/../../b", "..", "", "x" * 300, "a\x1bb"])
def test_a_file_cannot_be_written_elsewhere(served, docs, name):
    answer = served.post(f"{docs}/documents", files=[("files", (name, b"text"))])
    assert answer.status_code == 400
    assert ids(served, docs) == []


def test_a_file_whose_whole_path_is_too_long_is_refused(served, docs, tmp_path, monkeypatch):
    (tmp_path / ("x" * 200)).mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / ("x" * 200)))
    name = "/".join(["x" * 199] * 20)  # each part could be a file's name
    answer = served.post(f"{docs}/documents", files=[("files", (name, b"text"))])
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "bad_name")
    assert "File name too long" in answer.json()["error"]["message"]


@pytest.mark.parametrize("size", [300_000, 2_000_000])  # starlette writes large files while it reads the form
def test_files_without_room_are_told_to_come_again(served, docs, size, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with largest_file(200_000):
        answer = served.post(f"{docs}/documents", files=[("files", ("a.md", b"a" * size))])
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "store_unavailable")
    assert "cannot be kept: File too large; see that the server's folder" in answer.json()["error"]["message"]
    assert answer.headers["Retry-After"]
    assert ids(served, docs) == []
    pause_until(lambda: not list(tmp_path.iterdir()))


def test_two_files_of_one_name_are_refused(served, docs):
    answer = served.post(f"{docs}/documents", files=[("files", ("a.md", b"1")), ("files", ("a.md", b"2"))])
    assert answer.status_code == 400
    assert "two files" in answer.json()["error"]["message"]


def test_documents_for_a_missing_collection_are_told_what_creates_it(served, docs):
    answer = served.post("/v1/collections/missing/documents", json={"documents": documents(1)})
    assert answer.status_code == 404
    message = answer.json()["error"]["message"]
    assert message.startswith("no collection 'missing'; there are: ")
    assert message.endswith("; POST /v1/collections creates a collection")


def test_pruning_and_a_dry_run(served, docs):
    path = f"{docs}/documents"
    assert served.post(f"{path}?source=s", json=documents(4)).json()["new"] == 4
    trial = served.post(f"{path}?source=s&prune=true&dry_run=true", json=documents(2)).json()
    assert (trial["deleted"], len(ids(served, docs))) == (2, 4)
    assert served.post(f"{path}?source=s&prune=true", json=documents(2)).json()["deleted"] == 2
    assert ids(served, docs) == ["0.md", "1.md"]
    assert served.post(f"{path}?source=s&prune=true", json=[]).status_code == 400


def test_the_nearest_ids_need_not_be_looked_for(served, docs):
    served.post(f"{docs}/documents", json=documents(4))
    body = {"ids": ["2.md", "22.md"], "nearest": False}
    got = served.post(f"{docs}/documents/get", json=body).json()
    assert ([each["id"] for each in got["documents"]], got["missing"], got["nearest"]) == (["2.md"], ["22.md"], {})


@pytest.mark.parametrize("body", [{}, {"ids": ["a"], "filter": {"a": 1}}, {"ids": ["a"], "source": "a"}])
def test_a_deletion_is_by_ids_by_a_filter_or_of_a_source(served, docs, body):
    answer = served.post(f"{docs}/documents/delete", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == "give one of ids, filter and source"


def test_a_source_is_deleted_with_its_documents(served, docs):
    served.post(f"{docs}/documents?source=first", json=documents(2))
    served.post(f"{docs}/documents?source=second", json=documents(2))
    body = {"source": "second"}
    trial = served.post(f"{docs}/documents/delete", json={**body, "dry_run": True}).json()
    assert trial == {"deleted": 0, "documents": ["second:0.md", "second:1.md"], "missing": []}
    assert served.post(f"{docs}/documents/delete", json=body).json() == {**trial, "deleted": 2}
    assert ids(served, docs) == ["0.md", "1.md"]
    unknown = served.post(f"{docs}/documents/delete", json=body)
    assert unknown.status_code == 400
    assert "there is no source 'second'; its sources are 'first'" in unknown.json()["error"]["message"]


def test_only_commands_that_read_the_folder_learn_the_roots(served, docs):
    answer = served.get(f"{docs}/roots")
    assert answer.status_code == 403
    assert answer.json()["error"]["code"] == "not_permitted"


def test_get_and_delete(served, docs):
    served.post(f"{docs}/documents", json=documents(4))
    got = served.post(f"{docs}/documents/get", json={"ids": ["2.md", "22.md", "0.md"]}).json()
    assert [each["id"] for each in got["documents"]] == ["2.md", "0.md"]
    assert got["documents"][0]["payload"]["even"] is True
    assert got["missing"] == ["22.md"]
    assert "2.md" in got["nearest"]["22.md"]
    missing = served.get(f"{docs}/documents/22.md")
    assert missing.status_code == 404
    assert "'2.md'" in missing.json()["error"]["message"]
    deleted = served.post(f"{docs}/documents/delete", json={"ids": ["0.md", "9.md"]}).json()
    assert deleted == {"deleted": 1, "documents": ["0.md"], "missing": ["9.md"]}
    assert served.post(f"{docs}/documents/delete", json={"filter": {"even": False}}).json()["deleted"] == 2
    assert ids(served, docs) == ["2.md"]


def test_documents_are_listed_a_page_at_a_time(served, docs):
    served.post(f"{docs}/documents", json=documents(7))
    pages, after = [], {}
    while not pages or pages[-1]["next"]:
        pages.append(served.get(f"{docs}/documents", params={"limit": 3, **after}).json())
        after = {"after": pages[-1]["next"]}
    assert [[each["id"] for each in page["documents"]] for page in pages] == [
        ["0.md", "1.md", "2.md"],
        ["3.md", "4.md", "5.md"],
        ["6.md"],
    ]
    assert pages[0]["documents"][0] == {"id": "0.md", "title": "", "source": None, "chunks": 1, "complete": True}
    full = served.get(f"{docs}/documents", params={"limit": 7}).json()
    assert (len(full["documents"]), full["next"]) == (7, None)
    chosen = {"filter": '{"even": true}', "pattern": ["4*", "6.md", "1.md"]}
    assert [each["id"] for each in served.get(f"{docs}/documents", params=chosen).json()["documents"]] == [
        "4.md",
        "6.md",
    ]


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 100_001}, "limit"),
        ({"source": "none"}, None),
        ({"filter": '{"even"'}, "filter"),
        ({"filter": "[" * 20_000}, "filter"),
        ({"filter": "[1]"}, None),
        ({"patern": "a"}, "patern"),
    ],
)
def test_a_list_with_wrong_parameters_is_refused(served, docs, given, param):
    answer = served.get(f"{docs}/documents", params=given)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, param)


def test_a_served_list_goes_on_where_a_page_ends(served, docs, monkeypatch):
    monkeypatch.setattr(cli_documents, "_LISTED_AT_ONCE", 2)
    served.post(f"{docs}/documents", json=documents(5))
    client = SimpleNamespace(get=lambda path: served.get(path).raise_for_status().json())
    listed = cli_documents.ServedDocuments(client, docs.rpartition("/")[2])
    assert [each["id"] for each in listed.entries(None)] == [f"{row}.md" for row in range(5)]
    assert [each["id"] for each in listed.entries(3, filter={"even": [True, False]})] == ["0.md", "1.md", "2.md"]
    assert [each["id"] for each in listed.entries(2, pattern=["3*", "4.md"])] == ["3.md", "4.md"]


@pytest.mark.parametrize(
    ("path", "request_", "status"),
    [
        ("documents", {"json": {"text": "a"}}, 400),
        ("documents", {"json": "a"}, 400),
        ("documents", {"content": b"{", "headers": {"Content-Type": "application/json"}}, 400),
        ("documents", {"content": b"a", "headers": {"Content-Type": "text/plain"}}, 415),
        ("documents", {"json": [{}] * 51}, 400),
        ("documents", {"files": {"other": b"text"}}, 400),
        ("documents", {"content": b"{}\n", "headers": {"Content-Type": "application/x-ndjson; form=read"}}, 403),
        ("documents/delete", {"json": {}}, 400),
        ("documents/delete", {"json": {"filter": {}}}, 400),
        ("documents/delete", {"json": {"filter": {"even": {"not_in": []}}}}, 400),
        ("documents/delete", {"json": {"ids": ["a"], "filter": {"a": 1}}}, 400),
        ("documents/get", {"json": {"ids": []}}, 400),
        ("documents/get", {"json": {"ids": "a"}}, 400),
    ],
)
def test_a_body_that_is_none_is_refused(served, docs, path, request_, status):
    answer = served.post(f"{docs}/{path}", **request_)
    assert answer.status_code == status, answer.text
    assert answer.json()["error"]["message"]


async def test_searches_go_on_during_an_ingest_and_ingests_wait_for_one_another(tiny_model, tmp_path):
    """The body of the first ingest stops half-way: back pressure, a search beside it, and another that waits."""
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await client.post("/v1/collections", json={"name": "docs", "chunking": False})
        await client.post("/v1/collections/docs/documents", json=documents(3))
        half, rest = asyncio.Event(), asyncio.Event()

        async def body():
            yield lines(documents(2, "second"))
            half.set()
            await rest.wait()
            yield lines(documents(3, "second")[2:])

        path = "/v1/collections/docs/documents"
        first = asyncio.create_task(client.post(path, content=body(), headers=NDJSON))
        await half.wait()
        second = asyncio.create_task(client.post(path, json=documents(1, "third")))
        found = await client.post("/v1/collections/docs/search", json={"query": "text 2", "mode": "sparse"})
        assert found.json()["results"][0]["hits"]
        assert not first.done()
        assert not second.done()
        rest.set()
        assert (await first).json()["updated"] == 3
        assert (await second).json()["updated"] == 1
        text = (await client.get(f"{path}/0.md")).json()["text"]
        assert "third" in text


async def post(app, content_type: bytes, *messages, hear=None) -> None:
    """Send a request in pieces, and go away; a client that gives ``hear`` stays, and gets each piece of the answer."""
    headers = {b"host": b"127.0.0.1:6380", b"content-type": content_type, b"accept": b"text/event-stream"}
    scope = {"type": "http", "method": "POST", "path": "/v1/collections/docs/documents", "query_string": b""}
    scope |= {"headers": list(headers.items()), "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 6380)}
    left = list(messages)

    async def receive():
        if hear is not None and not left:
            await asyncio.Event().wait()
        return left.pop(0) if left else {"type": "http.disconnect"}

    async def send(message):
        if hear is not None:
            hear(message.get("body", b""))

    await app({**scope, "scheme": "http", "http_version": "1.1"}, receive, send)


async def test_an_ingest_goes_on_without_its_client(tiny_model, tmp_path):
    """All documents have been sent, and the client goes away before the answer: they are stored all the same."""
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    async with app.router.lifespan_context(app):
        collections = app.state.services.collections
        opened = await collections.create("docs", "tiny", {"chunking": False})
        with opened._backend.writing:  # the ingest waits for its turn
            body = json.dumps(documents(3)).encode()
            await post(app, b"application/json", {"type": "http.request", "body": body})
            assert opened.count() == 0
        await collections.ingests.finish()
        assert len(opened.find()) == 3


async def test_an_ingest_that_waits_for_another_says_so(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_serve.routes.progress._SILENT_SECONDS", 0.0)
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    waits, go, answer = asyncio.Event(), threading.Event(), []

    def hear(piece):
        answer.append(piece)
        if b'"waiting": true' in piece:
            waits.set()

    async with app.router.lifespan_context(app):
        collections = app.state.services.collections
        opened = await collections.create("docs", "tiny", {"chunking": False})
        before = asyncio.create_task(collections.ingests.write(opened, go.wait))
        await asyncio.sleep(0)
        body = {"type": "http.request", "body": json.dumps(documents(3)).encode()}
        asked = asyncio.create_task(post(app, b"application/json", body, hear=hear))
        await waits.wait()
        go.set()
        await asyncio.gather(before, asked)
    told = b"".join(answer).split(b"event: progress")
    assert b'"waiting": true' in told[1]
    assert b'"waiting"' not in told[-1]
    assert b"event: report" in told[-1]
    assert b"event: report" in b"".join(answer)


async def test_a_client_that_goes_away_before_the_end_stops_its_ingest(tiny_model, tmp_path):
    """What it had sent is not acknowledged; the collection takes the next ingest."""
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    async with app.router.lifespan_context(app):
        collections = app.state.services.collections
        opened = await collections.create("docs", "tiny", {"chunking": False})
        begun = {"type": "http.request", "body": lines(documents(1)), "more_body": True}
        await post(app, b"application/x-ndjson", begun)
        await collections.ingests.finish()
        assert opened.find() == []
        await post(app, b"application/x-ndjson", begun | {"more_body": False})
        await collections.ingests.finish()
        assert opened.find() == ["0.md"]


SILENT = [
    ("application/x-ndjson", lines(documents(1))),
    ("application/x-ndjson", b""),
    ("application/json", b'{"documents": ['),
    (
        "multipart/form-data; boundary=b",
        b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.md"\r\n\r\ntext',
    ),
]


@pytest.mark.parametrize(("kind", "begun"), SILENT, ids=["lines", "nothing", "json", "files"])
async def test_a_client_that_falls_silent_does_not_keep_the_collection(tiny_model, tmp_path, monkeypatch, kind, begun):
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    path = "/v1/collections/docs/documents"

    async def body():
        yield begun
        await asyncio.Event().wait()

    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await client.post("/v1/collections", json={"name": "docs", "chunking": False})
        with monkeypatch.context() as patch:
            patch.setattr("twinvec_serve.safety.silence.IDLE_SECONDS", 0.01)
            answer = await client.post(path, content=body(), headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error"]["code"]) == (408, "client_silent")
        assert "committed documents stay" in answer.json()["error"]["message"]
        assert answer.headers["connection"] == "close"
        assert (await client.post(path, json=documents(2))).json()["new"] == 2


async def test_a_slow_client_is_kept_until_other_collections_wait(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_serve.collections.ingests._AT_ONCE", 1)
    monkeypatch.setattr("twinvec_serve.routes.ingest_bodies._SLOW_SECONDS", 0.0)
    monkeypatch.setattr("twinvec_serve.routes.ingest_bodies._LEAST_RATE", 1e12)
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    ingests, slow = app.state.services.collections.ingests, asyncio.Event()

    async def body():
        yield lines(documents(1))
        for blank in range(10_000_000):
            yield b"\n"
            if blank == 100:
                slow.set()
            await asyncio.sleep(0)

    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        for name in ("docs", "others"):
            await client.post("/v1/collections", json={"name": name, "chunking": False})
        path = "/v1/collections/docs/documents"
        first = asyncio.create_task(client.post(path, content=body(), headers=NDJSON))
        await slow.wait()
        assert not first.done()
        assert not ingests.crowded
        assert (await client.post("/v1/collections/others/documents", json=documents(2))).json()["new"] == 2
        answer = await first
        assert (answer.status_code, answer.json()["error"]["code"]) == (408, "client_slow")
        assert (await client.post(path, json=documents(2))).json()["failed"] == 0


async def test_the_events_of_a_client_that_falls_silent_end_with_what_was_done(tiny_model, tmp_path, monkeypatch):
    monkeypatch.setattr("twinvec_serve.safety.silence.IDLE_SECONDS", 0.01)
    app, answer = create_app(settings_of(tiny_model("bert"), tmp_path)), []
    async with app.router.lifespan_context(app):
        opened = await app.state.services.collections.create("docs", "tiny", {"chunking": False})
        begun = {"type": "http.request", "body": lines(documents(1)), "more_body": True}
        await post(app, b"application/x-ndjson", begun, hear=answer.append)
        assert opened.find() == []
    error = b"".join(answer).split(b"event: error\r\ndata: ")[1]
    told = json.loads(error)
    assert (told["error"]["code"], told["report"]["new"]) == ("client_silent", 0)


async def test_other_requests_are_answered_while_a_body_is_parsed(tiny_model, tmp_path, monkeypatch):
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    parses, go, seen = threading.Event(), threading.Event(), []

    def waits(value):
        seen.append(value)
        parses.set()
        assert go.wait(60)
        return value

    monkeypatch.setattr("twinvec_serve.routes.ingest_bodies.itself", waits)
    transport = httpx.ASGITransport(app)
    async with app.router.lifespan_context(app), httpx.AsyncClient(transport=transport, base_url=ADDRESS) as client:
        await client.post("/v1/collections", json={"name": "docs", "chunking": False})
        ingested = asyncio.create_task(client.post("/v1/collections/docs/documents", json=documents(3)))
        assert await asyncio.to_thread(parses.wait, 60)
        assert (await client.get("/healthz")).status_code == 200
        assert not ingested.done()
        go.set()
        assert (await ingested).json()["new"] == 3
    assert seen == documents(3)


async def test_more_ingests_than_may_wait_are_turned_away(monkeypatch):
    monkeypatch.setattr("twinvec_serve.collections.ingests._MOST_WAITING", 2)
    ingests, go = Ingests(StorePlace(None, None)), threading.Event()

    class Opened:
        def __init__(self, name="docs"):
            self.name = name

    waiting = [asyncio.create_task(ingests.write(Opened(), go.wait)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(Overloaded):
        await ingests.write(Opened(), go.wait)
    assert await ingests.write(Opened("other"), lambda: "written") == "written"
    go.set()
    assert await asyncio.gather(*waiting) == [True, True]
    assert await ingests.write(Opened(), lambda: "written") == "written"
    await ingests.finish()


async def test_the_stop_ends_ingests_first_however_long_other_collections_take(tiny_model, tmp_path):
    app = create_app(settings_of(tiny_model("bert"), tmp_path))
    async with app.router.lifespan_context(app):
        collections = app.state.services.collections
        others = [await collections.create(f"other{number}", None, {}) for number in range(9)]  # more than threads
        docs = await collections.create("docs", None, {"chunking": False})
        with ExitStack() as stack:
            for each in others:
                stack.enter_context(each._backend.undisturbed())  # as a call of the engine that takes long
            ingest = collections.ingests.begin(docs, ({"id": str(each), "text": "a text"} for each in count()))
            collections.stop_in(0)
            with pytest.raises(ServerStopsError):
                await asyncio.wait_for(asyncio.shield(ingest.done), 60)
    with Collection.open("docs", tmp_path / "store", encoder=Encoder(str(tiny_model("bert")))) as again:
        assert again.count() >= ingest.report.new


async def test_work_that_cannot_end_in_time_is_told_as_stopped(monkeypatch):
    monkeypatch.setattr(progress, "LAST_ANSWERS_SECONDS", 2)
    monkeypatch.setattr(AppStatus, "should_exit", True)  # as after the signal
    work, ended, sent = Ingest(), asyncio.Event(), []
    work.done = asyncio.get_running_loop().create_future()
    work.report.new = 3
    ended.set()
    answer = progress.ProgressAnswer(work, ended, stop_seconds=0)

    async def send(message):
        sent.append(message)

    await asyncio.wait_for(answer({"type": "http", "method": "POST"}, asyncio.Event().wait, send), 60)
    assert sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    assert b"server_stopped" in sent[-2]["body"]
    assert b'"new": 3' in sent[-2]["body"]


@pytest.mark.parametrize("kept", [10, 110, -30, -6])
def test_a_form_that_is_cut_off_is_refused(served, docs, kept):
    part = '--cut\r\nContent-Disposition: form-data; name="files"; filename="{}.md"\r\n\r\nThe text of {}.\r\n'
    whole = (part.format("a", "a") + part.format("b", "b") + "--cut--\r\n").encode()
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    refused = served.post(f"{docs}/documents", content=whole[:kept], headers=headers)
    assert refused.status_code == 400
    assert "the form was cut off: its closing boundary is missing" in refused.json()["error"]["message"]
    assert served.get(docs).json()["sources"] == 0
    assert served.post(f"{docs}/documents", content=whole, headers=headers).json()["new"] == 2


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (
            b'--cut\r\nContent-Disposition: form-data; name="a"\r\n\r\na\r\n--cut--\r\n',
            "the form has no files: give each file in a part with the name files",
        ),
        (b"garbage", "Invalid multipart data."),
        (b"--cut\r\nContent-Disposition: form-data\r\n\r\na\r\n--cut--\r\n", 'field "name" must be provided'),
    ],
)
def test_a_form_without_files_is_refused(served, docs, content, told):
    headers = {"Content-Type": "multipart/form-data; boundary=cut"}
    refused = served.post(f"{docs}/documents", content=content, headers=headers)
    assert (refused.status_code, told in refused.json()["error"]["message"]) == (400, True)
