"""Stores as a whole: what they hold, and the end of a collection."""

from __future__ import annotations

import errno
import io
import os
import re
import shutil
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding
from qdrant_client import QdrantClient, models

from holders import holding
from langchain_twinvec import TwinvecVectorStore as LangChainStore
from llama_index.vector_stores.twinvec import TwinvecVectorStore as LlamaIndexStore
from stand_in import StandIn
from twinvec.errors import CollectionNotFoundError, ConfigurationError, StoreBusyError, StoreUnavailableError
from twinvec_qdrant import (
    Collection,
    CollectionEntry,
    backup_collection,
    drop_collection,
    list_collections,
    restore_collection,
)


def test_an_empty_place_has_no_collections(tmp_path):
    assert list_collections(tmp_path / "nowhere") == []
    assert list_collections(client=QdrantClient(":memory:")) == []
    assert list(tmp_path.iterdir()) == []


def test_collections_are_listed_by_name_and_dropped(place, words):
    for name in ("tea", "rye bread"):
        with Collection.open(name, encoder=words, chunking=False, **place) as collection:
            collection.ingest([("a", "text")])
    assert list_collections(**place) == [CollectionEntry(name, "words-0", 64) for name in ("rye bread", "tea")]
    drop_collection("rye bread", **place)
    assert [each.name for each in list_collections(**place)] == ["tea"]
    with pytest.raises(CollectionNotFoundError, match="tea"):
        drop_collection("rye bread", **place)
    with Collection.open("rye bread", encoder=words, chunking=False, **place) as collection:
        assert collection.count() == 0


@pytest.mark.parametrize("over_grpc", [False, True])
def test_a_collection_that_another_program_drops_meanwhile_is_not_listed(words, over_grpc):
    with StandIn().running() as server, server.over_grpc() as port:
        place = {"url": server.url, "grpc": over_grpc, "grpc_port": port}
        for name in ("rye", "soup", "tea"):
            Collection.open(name, encoder=words, chunking=False, **place).close()

        def drop(method: str, path: str) -> None:
            if path == "/collections/rye":  # read after the names were listed
                server.respond("DELETE", path, {})

        server.fault = drop
        assert [each.name for each in list_collections(**place)] == ["soup", "tea"]
        server.fault = lambda method, path: None
        assert [each.name for each in list_collections(**place)] == ["soup", "tea"]


def test_a_damaged_collection_is_listed_and_can_be_dropped(tmp_path, words):
    Collection.open("notes", tmp_path, encoder=words, chunking=False).close()
    (tmp_path / "notes" / "collection.json").write_text("{")
    assert list_collections(tmp_path) == [CollectionEntry("notes", None, None)]
    drop_collection("notes", tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_this_process_may_not_read_is_an_error_of_the_store(tmp_path, words, monkeypatch):
    Collection.open("notes", tmp_path, encoder=words, chunking=False).close()
    (tmp_path / "lost+found").mkdir()
    with denied(monkeypatch, tmp_path / "notes"):  # such as a collection that another user has made
        for use in (Collection.open, drop_collection):
            with pytest.raises(StoreUnavailableError, match="notes: cannot be read: Permission denied"):
                use("notes", tmp_path)
    with denied(monkeypatch, tmp_path / "notes" / "collection.json"):
        assert list_collections(tmp_path) == [CollectionEntry("notes", None, None)]
        with pytest.raises(StoreUnavailableError, match=r"collection\.json: cannot be read: Permission denied"):
            Collection.open("notes", tmp_path)
    with denied(monkeypatch, tmp_path), pytest.raises(StoreUnavailableError, match="cannot be read: Permission denied"):
        list_collections(tmp_path)
    with denied(monkeypatch, tmp_path / "lost+found"):  # the folder that the system makes on a disk of its own
        assert list_collections(tmp_path) == [CollectionEntry("notes", "words-0", 64)]


@contextmanager
def denied(monkeypatch, place):
    """Deny this process to read a file, or a folder and all below it; the tests may run as root."""

    def refusing(call):
        def refuse(path, *given, **options):
            is_place = not isinstance(path, int) and Path(path) == place
            is_below = not isinstance(path, int) and place in Path(path).parents
            if is_below or (is_place and call is not os.stat):  # a folder's own size and mode are no secret
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return call(path, *given, **options)

        return refuse

    with monkeypatch.context() as patched:
        for name in ("stat", "listdir", "scandir"):
            patched.setattr(os, name, refusing(getattr(os, name)))
        patched.setattr(io, "open", refusing(io.open))
        yield


def test_a_collection_is_dropped_without_a_look_at_the_others(words):
    with StandIn().running() as server:
        for name in ("notes", "others"):
            Collection.open(name, url=server.url, encoder=words, chunking=False).close()
        asked = []
        server.fault = lambda method, path: asked.append(path)
        drop_collection("notes", url=server.url)
        assert asked
        assert not [path for path in asked if "others" in path], "its description may be damaged"
        assert [each.name for each in list_collections(url=server.url)] == ["others"]


def test_a_collection_of_someone_else_is_listed_and_not_dropped():
    client = QdrantClient(":memory:")
    metadata = {"model": "theirs", "dim": 5}
    client.create_collection("theirs", models.VectorParams(size=3, distance=models.Distance.DOT), metadata=metadata)
    assert list_collections(client=client) == [CollectionEntry("theirs", None, None)]
    with pytest.raises(ConfigurationError, match="not a collection of twinvec"):
        drop_collection("theirs", client=client)
    assert client.collection_exists("theirs")


def test_a_folder_of_the_local_mode_is_no_place_for_a_collection(tmp_path, words):
    folder = tmp_path / "qdrant"
    Collection.open("ours", tmp_path / "store", encoder=words, chunking=False).close()
    backup_collection("ours", tmp_path / "backup", tmp_path / "store")
    shutil.copytree(tmp_path / "store", folder)  # an older version made one there
    with closing(QdrantClient(path=str(folder))) as client:
        client.create_collection("theirs", models.VectorParams(size=3, distance=models.Distance.DOT))
    before = sorted(folder.rglob("*"))
    what_helps = re.escape(f"twinvec adopt --local-path {folder} --to-path")
    with pytest.raises(ConfigurationError, match=f"^{re.escape(str(folder))}: cannot hold a new.*{what_helps}"):
        Collection.open("theirs", folder, encoder=words, chunking=False)
    for store, embeds in ((LangChainStore, DeterministicFakeEmbedding(size=3)), (LlamaIndexStore, None)):
        with pytest.raises(ConfigurationError, match=what_helps):
            store(embeds, "theirs", path=str(folder))
    with pytest.raises(ConfigurationError, match=what_helps):
        restore_collection(tmp_path / "backup", folder, name="theirs")
    with Collection.open("ours", folder, encoder=words, chunking=False) as collection:
        assert collection.ingest([("tea", "green tea")]).new == 1
    for missing in (
        lambda: Collection.open("theirs", folder, create=False),
        lambda: LangChainStore.from_existing_collection(collection_name="theirs", path=str(folder)),
        lambda: drop_collection("theirs", folder),
    ):
        with pytest.raises(CollectionNotFoundError, match=f"there are: ours.*{what_helps}"):
            missing()
    assert {each for each in folder.rglob("*") if "ours" not in each.parts} == {
        each for each in before if "ours" not in each.parts
    }


def test_a_collection_that_is_open_is_not_dropped(tmp_path, words):
    with (
        Collection.open("notes", tmp_path, encoder=words, chunking=False) as collection,
        pytest.raises(StoreBusyError, match="open in this process"),
    ):
        drop_collection("notes", tmp_path)
    with holding(tmp_path) as holder:
        with pytest.raises(StoreBusyError, match=f"process {holder.pid}"):
            drop_collection("notes", tmp_path, wait_seconds=0.1)
        holder.stdin.close()
    with Collection.open("notes", tmp_path, encoder=words) as collection:
        assert collection.find() == ["tea"]
