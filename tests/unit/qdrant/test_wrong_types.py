"""Wrong types at the entry points of collections: twinvec raises its own error, which names the argument."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from stand_in import StandIn
from twinvec import MemoryIndex
from twinvec.errors import BadVectorError, TwinvecError
from twinvec_qdrant import (
    Asked,
    ChatEndpoint,
    Chunker,
    ChunkSettings,
    ClusterSettings,
    Collection,
    IndexSettings,
    RecordColumns,
    Root,
    TemporaryBackup,
    adopt_collection,
    backup_collection,
    check_new_name,
    delete_documents,
    drop_collection,
    list_collections,
    read_source,
    restore_collection,
    search_as_asked,
    search_collections,
    serving_process,
    update_collection,
)
from words import WordEncoder


@pytest.fixture(scope="module")
def collection(tmp_path_factory):
    with Collection.open(
        "notes", tmp_path_factory.mktemp("store"), encoder=WordEncoder(), chunking=False
    ) as collection:
        collection.ingest([("tea", "green tea"), ("rain", "heavy rain")])
        yield collection


def refused(said: str, function, *arguments, **options):
    with pytest.raises(TwinvecError, match=re.escape(said)):
        function(*arguments, **options)


@pytest.mark.parametrize("path", [5, b"bytes", "\ud800", "a\0b"], ids=repr)
def test_paths(collection, path, tmp_path):
    refused("path ", Collection.open, "notes", path, encoder=WordEncoder())
    refused("path ", collection.push, path)
    refused("path ", list_collections, path)
    refused("path ", serving_process, path)
    refused("to ", backup_collection, "notes", path, tmp_path)
    refused("source ", restore_collection, path, tmp_path)


@pytest.mark.parametrize("path", ["", b"", 0, False, [], {}], ids=repr)
def test_an_empty_path_does_not_name_the_default_folder(collection, path, tmp_path, monkeypatch):
    """The default is the folder .twinvec, whose collection a restore would replace."""
    monkeypatch.chdir(tmp_path)
    with Collection.open("notes", encoder=WordEncoder(), chunking=False) as there:
        there.ingest([("snow", "light snow")])
    backup_collection("notes", "backup", Path(collection.info()["location"]).parent)
    refused("path ", restore_collection, "backup", path, overwrite=True)
    refused("path ", backup_collection, "notes", "other", path)
    refused("path ", TemporaryBackup, "notes", path)
    with Collection.open("notes", create=False) as there:
        assert there.find() == ["snow"]


def test_a_path_that_the_system_refuses(tmp_path):
    """A name that is too long stands for a folder that the process may not enter, which root may."""
    path = tmp_path / ("a" * 300) / "store"
    refused("cannot be read: File name too long", Collection.open, "notes", path, encoder=WordEncoder())
    refused("cannot be read: File name too long", list_collections, path)
    refused("cannot be read: File name too long", drop_collection, "notes", path)
    refused("cannot be read: File name too long", restore_collection, path, tmp_path)
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False):
        refused("cannot be read: File name too long", backup_collection, "notes", path, tmp_path)


@pytest.mark.parametrize("name", ["", b"", 0, False, [], {}, np.array([])], ids=repr)
def test_an_empty_name_does_not_name_the_copy_that_a_push_prunes(collection, name, tmp_path):
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=False) as copy:
        copy.ingest([("snow", "light snow")])
    refused("the name of a collection must be", collection.push, tmp_path, name=name, prune=True)
    with Collection.open("notes", tmp_path, create=False) as copy:
        assert copy.find() == ["snow"]


@pytest.mark.parametrize("value", [5, b"", [], ["secret"], np.array(3)], ids=repr)
def test_urls_and_keys(value):
    refused("url: expected", list_collections, url=value)
    with pytest.raises(TwinvecError, match=r"^the API key must be a string, got (int|bytes|list|ndarray)$"):
        list_collections(url="http://127.0.0.1:1", api_key=value)


@pytest.mark.parametrize("seconds", ["5", None, float("nan"), np.array([1.0, 2.0]), -1], ids=repr)
def test_seconds(seconds, tmp_path):
    refused("wait_seconds must be", Collection.open, "notes", tmp_path, encoder=WordEncoder(), wait_seconds=seconds)
    refused("wait_seconds must be", list_collections, tmp_path, wait_seconds=seconds)
    refused("wait_seconds must be", backup_collection, "notes", tmp_path / "to", tmp_path, wait_seconds=seconds)


@pytest.mark.parametrize("value", [5, None, "default", b"bytes", [1], np.array(3), Path("model")], ids=repr)
def test_a_migration_takes_an_encoder(collection, value):
    refused("encoder: expected an encoder, such as Encoder(...), got", collection.migrate, value)


@pytest.mark.parametrize("value", [5, "false", True, [1]], ids=repr)
def test_a_migration_checks_its_functions_before_it_encodes(collection, value):
    encoder = WordEncoder(seed=1)
    refused("check: expected a function, got", collection.migrate, encoder, check=value)
    refused("on_progress: expected a function, got", collection.migrate, encoder, on_progress=value)
    assert not encoder.encoded


@pytest.mark.parametrize("value", [5, "notes", [1], np.array([]), False], ids=repr)
def test_an_adoption(value):
    with StandIn().running() as server:
        found = {"name": "theirs", "layout": "langchain", "url": server.url}
        refused("into: expected a collection", adopt_collection, **found, into=value)
        if not isinstance(value, str):
            refused("encoder: expected an encoder", adopt_collection, **found, encoder=value)
            for name in ("text_key", "metadata_key", "vector_name"):
                refused(f"{name} must be a string", adopt_collection, **found, encoder=WordEncoder(), **{name: value})


@pytest.mark.parametrize("value", [5, "x", b"bytes", [[1.0, 2.0]], np.array(3), {"a"}, (1, "a")], ids=repr)
def test_arguments_of_an_ingest(collection, value):
    refused("vectors must map document ids to vectors", collection.ingest, [], vectors=value)
    refused("report: expected IngestReport(...)", collection.ingest, [], report=value)
    refused("helpers: expected helpers", collection.ingest, [], helpers=value)


@pytest.mark.parametrize("value", [5, [1], {}, {"s"}, b"bytes", np.array(3), "\ud800"], ids=repr)
def test_names_of_sources_and_spaces(collection, value):
    refused("source ", collection.find, source=value)
    refused("source ", collection.delete_source, value)
    refused("space ", collection.search_vector, np.ones(collection.info()["dim"]), space=value)


def test_the_source_to_delete_has_a_name(collection):
    collection.ingest([("tea", "Tea is served at four.")], source="menu")
    before = sorted(collection.find())
    refused("source must be a string, got None", collection.delete_source, None)
    assert sorted(collection.find()) == before, "None would mean all sources"


@pytest.mark.parametrize("value", ["*.md", 5, None, b"bytes", [1], np.array(3), Path("a")], ids=repr)
def test_patterns_and_languages(tmp_path, value):
    for name in ("include", "exclude"):
        refused(f"{name}: expected a list of patterns", read_source, tmp_path, **{name: value})
        refused(f"{name}: expected a list of patterns", Root, str(tmp_path), **{name: value})
    if value is not None:
        refused("code must be names of languages", ChunkSettings, code=value)


def test_settings_and_names(collection, tmp_path):
    for value in (5, b"bytes", "\ud800", "a\0b"):
        refused("path ", Root(value).read)
        refused("source ", read_source, value)
        refused("local_path ", adopt_collection, "x", layout="langchain", local_path=value)
    for value in ("5", 1.5, True, [1]):
        refused("max_tokens must be a whole number", ChunkSettings, max_tokens=value)
        refused("overlap must be a whole number", ChunkSettings, overlap=value)
        refused("settings: expected ChunkSettings(...)", Chunker, WordEncoder(), value)
    for value in (5, "notes", np.array(3)):
        refused("names: expected a list of strings", search_collections, "tea", path=tmp_path, names=value)
    refused("name 0: expected a string", search_collections, "tea", path=tmp_path, names=[1])
    for value in (5, b"bytes", [1], np.array(3), Path("model"), WordEncoder):
        refused("encoder: expected an encoder", Collection.open, "notes", tmp_path / "new", encoder=value)


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("name", None, "name of the encoder must be a string, got None"),
        ("dim", "8", "dim of the encoder must be a whole number, got '8'"),
        ("dim", 0, "dim of the encoder must be at least 1, got 0"),
        ("space", b"x", "space of the encoder must be a string, got b'x'"),
    ],
)
def test_the_attributes_of_an_own_encoder(collection, tmp_path, attribute, value, said):
    encoder = WordEncoder()
    own = SimpleNamespace(
        name="own", dim=8, space="s", encode_query=encoder.encode_query, encode_document=encoder.encode_document
    )
    setattr(own, attribute, value)
    refused(said, Collection.open, "own", tmp_path / "new", encoder=own)
    refused(said, collection.migrate, own)
    delattr(own, attribute)
    refused(f"has no {attribute}; a collection needs", Collection.open, "own", tmp_path / "new", encoder=own)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("rows", [None, [[1.0], [1.0, 2.0]], "ab", object()])
def test_vectors_of_an_own_encoder_that_are_no_numbers(tmp_path, rows):
    class Wrong(WordEncoder):
        def encode_document(self, texts, **options):
            return rows

    with pytest.raises(BadVectorError, match=r"encoder 'words.*'"):
        Collection.open("own", tmp_path / "new", encoder=Wrong(), chunking=False)
    with pytest.raises(BadVectorError, match="the encoder"):
        MemoryIndex(Wrong(), ["tea", "rye"])


def test_texts_and_ids(collection):
    for value in (5, b"bytes", np.array(3), True):
        refused("words: expected a list of strings", collection.search, "tea", words=value)
        refused("answers: expected a list of strings", collection.search, "tea", answers=value)
        refused("queries: expected a list of strings", collection.search_many, value)
        for method in (collection.get, collection.described, collection.delete):
            refused("ids: expected a list of strings", method, value)
    for value in (1.5, b"bytes", None):
        refused("source: expected a string", collection.nearest_ids, value)


def test_other_arguments(collection):
    for value in (5, "x", b"bytes", np.array(3), None):
        refused("expected an iterable of documents", collection.ingest, value)
        refused("hits: expected a list of hits", collection.with_passages, "tea", value)
    for value in (5, "x", [1], {"a": 1}):
        refused("cluster: expected ClusterSettings(...)", collection.reindex, cluster=value)
        refused("chunking: expected ChunkSettings(...)", collection.reindex, chunking=value)
    refused("chunks_per_second must be a number", collection.migrate, WordEncoder(seed=1), chunks_per_second="x")
    refused("grpc_port must be a whole number", Collection.open, "notes", "store", grpc_port=None)
    assert collection.search("tea", exact=1)[0].id == "tea"


@pytest.mark.parametrize("value", ["false", "", 0, 1, None, [], np.array([True])], ids=repr)
def test_flags_are_true_or_false(collection, value, tmp_path):
    """A text such as "false", as a form or an environment variable has it, would count as true."""

    def flag(name, function, *arguments, **options):
        refused(f"{name} must be True or False, got {value!r}", function, *arguments, **{name: value}, **options)

    before = sorted(collection.find())
    for name in ("prune", "allow_empty", "dry_run", "progress", "allow_all_failed"):
        flag(name, collection.ingest, [("snow", "light snow")])
    for name in ("prune", "allow_empty", "progress"):
        flag(name, collection.push, tmp_path / "copy")
    for name in ("allow_truncation", "progress"):
        flag(name, collection.migrate, WordEncoder(seed=1))
    flag("repair", collection.verify)
    for name in ("prune", "progress"):
        flag(name, update_collection, collection)
    flag("dry_run", delete_documents, collection, ["tea"], None)
    for name in ("create", "grpc", "repair"):
        flag(name, Collection.open, "notes", tmp_path, encoder=WordEncoder())
    for name in ("gitignore", "records"):
        flag(name, read_source, tmp_path)
    with StandIn().running() as server:
        flag("dry_run", adopt_collection, "x", layout="langchain", url=server.url, encoder=WordEncoder())
    flag("overwrite", backup_collection, "notes", tmp_path / "backup", tmp_path)
    flag("overwrite", restore_collection, tmp_path / "backup", tmp_path)
    flag("enabled", ChunkSettings)
    if value is not None:
        flag("pages", ChunkSettings)
        flag("on_disk", ClusterSettings)
        flag("late_interaction", Collection.open, "notes", tmp_path, encoder=WordEncoder())
    assert sorted(collection.find()) == before
    assert not list(tmp_path.iterdir())


def test_a_flag_may_be_of_numpy(collection):
    assert collection.ingest([("snow", "light snow")], dry_run=np.True_).new == 1
    assert collection.find({"id": "snow"}) == []


def test_an_update_takes_names_of_sources(collection):
    for value in ("menu", b"menu", 5, Path("menu")):
        refused("only: expected a list of names of sources", update_collection, collection, only=value)
    for value in (None, "notes", 5):
        refused("collection: expected an open collection", update_collection, value)


def test_languages_of_code(collection, tmp_path):
    said = "code: the language 'klingon' is not one of bash, c, "
    settings = ChunkSettings(code=["klingon"])
    refused(said, Collection.open, "new", tmp_path, encoder=WordEncoder(max_tokens=8), chunking=settings)
    refused(said, collection.reindex, chunking=settings)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("value", [5, None, "x", [1], {"klingon": 1}, {1: 2}], ids=repr)
def test_settings_of_mappings(value):
    for kind in (ChunkSettings, IndexSettings, ClusterSettings):
        with pytest.raises(TwinvecError, match=r"has no setting 'klingon'|expected a mapping with strings as keys"):
            kind.from_dict(value)


@pytest.mark.parametrize("value", [5, b"x", [1], {"a": 1}, np.array(3)], ids=repr)
def test_names_of_columns_and_collections(collection, value):
    for name in ("id", "title"):
        refused(f"columns: {name} must be a string", RecordColumns, **{name: value})
    refused("columns: text ", RecordColumns, text=value)
    refused("columns: expected RecordColumns(...)", Root, ".", columns=value)
    refused("the name of a collection must be a string", check_new_name, value)
    refused("key must be a string, got ", ChatEndpoint, "http://127.0.0.1:1", "model", value)
    if value != [1]:
        refused("expected a ", search_as_asked, collection, value, Asked())
    if value != 5:
        refused("reading must be a whole number", Chunker, WordEncoder(max_tokens=8), reading=value)


def test_settings_keep_numpy_scalars_as_python_values(tmp_path):
    """A new collection records its settings as JSON, which has no NumPy scalars."""
    index = IndexSettings(m=np.int64(32), ef=np.uint8(200), oversampling=np.float32(2))
    chunking = ChunkSettings(enabled=np.bool_(False))
    with Collection.open("notes", tmp_path, encoder=WordEncoder(), chunking=chunking, index=index) as notes:
        info = notes.info()
    assert info["index"] == IndexSettings(m=32, ef=200, oversampling=2.0).as_dict()
    assert info["chunking"] == ChunkSettings(enabled=False).as_dict()
    cut = ChunkSettings(max_tokens=np.int64(64), overlap=np.int8(8), surroundings=np.int32(8))
    assert json.dumps(cut.as_dict()) == json.dumps(ChunkSettings(max_tokens=64, overlap=8, surroundings=8).as_dict())
    assert json.dumps(ClusterSettings(shards=np.int64(3)).given()) == '{"shards": 3}'
