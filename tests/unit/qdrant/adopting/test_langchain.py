"""Collections of LangChain's own Qdrant class, adopted: both read, ours searches by words too, and both go on."""

from __future__ import annotations

from contextlib import nullcontext
from uuid import UUID

import pytest
from qdrant_client import models

from frameworks_collections import NAME, WordEmbeddings, fill_langchain, langchain_store
from langchain_twinvec import TwinvecVectorStore
from twinvec.errors import ConfigurationError, SpaceMismatchError, StoreError
from twinvec_qdrant import ChunkSettings, Collection
from twinvec_qdrant.stores.server.backend import ServerBackend
from words import WordEncoder

TEXTS = [f"note {row} about topic {row % 7}" for row in range(50)]


def test_adopted_without_encoding_and_read_by_both(theirs, words):
    store = langchain_store(theirs.client, words)
    ids = fill_langchain(store)
    before = {point.id: point for point in theirs.client.scroll(NAME, limit=99, with_vectors=True)[0]}
    words.encoded.clear()
    report = theirs.adopt("langchain", words)
    assert (report.adopted, report.skipped, report.compared) == (50, 0, 32)
    assert report.lowest_cosine == pytest.approx(1, abs=1e-5)
    assert len(set(TEXTS) & set(words.encoded)) == 32  # the sample
    after = {point.id: point for point in theirs.client.retrieve(NAME, ids, with_vectors=True)}
    for key, point in before.items():
        assert after[key].payload.items() >= point.payload.items()
        assert _unnamed(after[key].vector) == pytest.approx(_unnamed(point.vector), abs=1e-6)
    with theirs.opened() as collection:
        info = collection.info()
        assert (info["points"], info["sources"], info["model"]) == (50, 50, words.name)
        assert info["layout"]["name"] == "langchain"
        assert collection.verify().sound
        assert [each.id for each in collection.documents()] == sorted(ids)
        assert {(each.source, each.chunks, each.complete) for each in collection.documents()} == {(None, 1, True)}
    with theirs.opened(encoder=words) as collection:
        for mode in ("dense", "sparse", "hybrid"):
            (best, *_) = collection.search("note 13 about topic 6", 3, mode)
            assert (best.id, best.text) == (ids[13], TEXTS[13])
        assert collection.find({"number": {"lt": 3}, "source": "file-1.md"}) == [ids[1]]
        assert [hit.text for hit in collection.search("topic", 50, "sparse", filter={"number": 7})] == [TEXTS[7]]
    (found,) = store.similarity_search("note 13 about topic 6", k=1)
    assert found.page_content == TEXTS[13]
    assert found.metadata == {"number": 13, "source": "file-1.md", "_id": ids[13], "_collection_name": NAME}
    assert len(store.similarity_search("note", k=99)) == 50


def test_ours_goes_on_and_the_old_class_reads_what_it_writes(theirs, words):
    store = langchain_store(theirs.client, words)
    ids = fill_langchain(store)
    theirs.adopt("langchain", words)
    with theirs.opened(encoder=words) as collection:
        words.encoded.clear()
        same = {"id": ids[0], "text": TEXTS[0], "number": 0, "source": "file-0.md"}
        newer = {"id": ids[1], "text": "note one is newer", "number": 1}
        report = collection.ingest([same, newer, {"id": "new", "text": "something wholly new", "number": 99}])
        assert (report.unchanged, report.updated, report.new) == (1, 1, 1)
        assert words.encoded[:2] == ["note one is newer", "something wholly new"]
        assert collection.delete([ids[2]]) == 1
        assert collection.verify().sound
        assert collection.count() == 50
    (found,) = store.similarity_search("something wholly new", k=1)
    assert (found.page_content, found.metadata["number"]) == ("something wholly new", 99)
    texts = {document.page_content for document in store.similarity_search("note", k=99)}
    assert texts == {*TEXTS[:1], *TEXTS[3:], "note one is newer", "something wholly new"}


def test_what_the_old_class_writes_meanwhile_is_adopted_by_the_next_call(theirs, words):
    store = langchain_store(theirs.client, words)
    ids = fill_langchain(store)
    theirs.adopt("langchain", words)
    store.add_texts(["a late comer"], [{"number": 100}], ids=["00000000-0000-4000-8000-000000000100"])
    store.add_texts(["note three is newer"], [{"number": 3}], ids=[ids[3]])
    store.delete([ids[4]])
    with theirs.opened(encoder=words) as collection:
        found = collection.search("a late comer", 99)
        assert len(found) == 48  # neither the new point, nor the changed one, nor the deleted one
    report = theirs.adopt("langchain", words)
    assert (report.adopted, report.removed, report.compared) == (2, 1, 2)
    with theirs.opened(encoder=words) as collection:
        assert collection.search("a late comer", 1)[0].text == "a late comer"
        assert collection.search("note three is newer", 1, "sparse")[0].id == ids[3]
        assert collection.verify().sound
        assert len(collection.find()) == 50
    assert (theirs.adopt("langchain", words).adopted, theirs.adopt("langchain", words).unchanged) == (0, 0)


def test_documents_of_ours_that_the_old_class_has_deleted_are_removed(theirs, words):
    store = langchain_store(theirs.client, words)
    fill_langchain(store)
    theirs.adopt("langchain", words)
    with theirs.opened(encoder=words) as collection:
        collection.ingest([{"id": "kept", "text": "kept"}, {"id": "gone", "text": "gone"}, {"id": "blank", "text": ""}])
        (gone,) = store.similarity_search("gone", k=1)
        store.delete([gone.metadata["_id"]])
        assert theirs.adopt("langchain", words).removed == 1
        assert sorted(collection.find())[50:] == ["blank", "kept"]
        assert collection.verify().sound


def test_a_document_that_the_old_class_has_changed_stands_in_the_way_of_nothing(theirs, words, tmp_path):
    """The point of such a document has no fields of twinvec until the collection is adopted again."""
    store = langchain_store(theirs.client, words)
    ids = fill_langchain(store)
    theirs.adopt("langchain", words)
    store.add_texts(["note three", "note four", "note five"], [{}] * 3, ids=ids[3:6])
    with theirs.opened(encoder=words) as collection:
        assert [each.text for each in collection.get(ids[2:4])] == [TEXTS[2], ""]
        assert len(collection.sample(99)) == 47
        assert collection.verify().incomplete == ids[3:6]
        pushed = collection.push(tmp_path)
        assert (pushed.copied, sorted(pushed.missed)) == (47, ids[3:6])
        assert collection.ingest([{"id": ids[3], "text": "note three is ours"}]).updated == 1
        assert collection.search("note three is ours", 1)[0].id == ids[3]
        assert collection.delete([ids[4]]) == 1
        assert collection.verify(repair=True).incomplete == [ids[5]]
        assert collection.delete(collection.find()) == 49


def test_our_adapter_works_on_it_with_the_same_ids(theirs, words):
    ids = fill_langchain(langchain_store(theirs.client, words))
    theirs.adopt("langchain", words)
    place = {"client": theirs.client} if "client" in theirs.options else theirs.options
    store = TwinvecVectorStore(WordEmbeddings(words), collection_name=NAME, **place)
    (document,) = store.get_by_ids([ids[5]])
    assert (document.page_content, document.metadata) == (TEXTS[5], {"number": 5, "source": "file-2.md"})
    assert store.similarity_search("note 13 about topic 6", k=1)[0].id == ids[13]
    store.delete([ids[13]])
    assert store.similarity_search("note 13 about topic 6", k=1)[0].id != ids[13]


@pytest.mark.parametrize("vector_name", ["", "own"])
def test_other_keys_names_integer_ids_and_sparse_vectors_of_theirs(theirs, words, vector_name):
    client = theirs.client
    splade = {"langchain-sparse": models.SparseVectorParams()}
    config = {vector_name: models.VectorParams(size=64, distance=models.Distance.COSINE)}
    client.create_collection(NAME, vectors_config=config, sparse_vectors_config=splade)
    keys = {"content_payload_key": "body", "metadata_payload_key": "about", "vector_name": vector_name}
    store = langchain_store(client, words, **keys)
    for row, text in enumerate(TEXTS):
        vectors = {vector_name: words.encode_document([text])[0].tolist()}
        vectors["langchain-sparse"] = models.SparseVector(indices=[row], values=[1.0])
        point = models.PointStruct(id=row, vector=vectors, payload={"body": text, "about": {"number": row}, "extra": 1})
        client.upsert(NAME, [point])
    options = {"text_key": "body", "metadata_key": "about"}
    assert theirs.adopt("langchain", words, **options).adopted == 50
    with theirs.opened(encoder=words) as collection:
        assert collection.info()["vector"] == vector_name
        assert collection.search("note 13 about topic 6", 1)[0].id == "13"
        assert collection.search("topic", 9, filter={"number": 7})[0].id == "7"
        assert collection.get(["20"])[0].text == TEXTS[20]
        assert collection.delete(["20"]) == 1
        collection.ingest([{"id": "30", "text": "note thirty anew", "number": 30}])
        assert collection.verify().sound
    (found,) = store.similarity_search("note thirty anew", k=1)
    assert (found.page_content, found.metadata["number"]) == ("note thirty anew", 30)
    there = client.query_points(NAME, models.SparseVector(indices=[7], values=[1.0]), using="langchain-sparse", limit=1)
    assert there.points[0].payload["extra"] == 1
    assert there.points[0].payload["body"] == TEXTS[7]


def test_another_model_is_refused_and_nothing_is_written(theirs, words):
    fill_langchain(langchain_store(theirs.client, words))
    before = theirs.client.scroll(NAME, limit=99)[0]
    with pytest.raises(SpaceMismatchError, match=r"'words-1' does not give .* of 32 texts, 0 .* \(lowest -?0\.\d+"):
        theirs.adopt("langchain", WordEncoder(seed=1))
    with pytest.raises(SpaceMismatchError, match="64 dimensions; 'words-0' gives 32"):
        theirs.adopt("langchain", WordEncoder(dim=32))
    assert theirs.client.scroll(NAME, limit=99)[0] == before
    assert not theirs.client.get_collection(NAME).config.metadata


def test_a_single_vector_of_another_model_in_the_sample_is_refused(theirs, words):
    fill_langchain(langchain_store(theirs.client, words), 20)
    langchain_store(theirs.client, WordEncoder(seed=1)).add_texts(["of another model"])
    with pytest.raises(SpaceMismatchError, match="of 21 texts, 20 have a cosine"):
        theirs.adopt("langchain", words)


def test_points_that_cannot_be_documents_stay_and_are_named(theirs, words):
    store = langchain_store(theirs.client, words)
    fill_langchain(store)
    vector = words.encode_document(["x"])[0].tolist()

    def put(number, payload, vector=vector):
        theirs.client.upsert(NAME, [models.PointStruct(id=number, vector=vector, payload=payload)])

    put(1, {"metadata": {"number": 1}})
    put(2, {"page_content": "  ", "metadata": {}})
    put(3, {"page_content": 7, "metadata": {}})
    put(4, {"page_content": "fine", "metadata": ["a"]})
    put(5, {"page_content": "fine", "metadata": {}, "source": "of another application"})
    put(6, {"page_content": "bare"}, {})
    put(
        7,
        {"page_content": "without metadata", "metadata": None},
        words.encode_document(["without metadata"])[0].tolist(),
    )
    report = theirs.adopt("langchain", words)
    assert (report.adopted, report.skipped) == (51, 6)
    reasons = dict(report.skips)
    assert reasons == {
        "1": "it has no text",
        "2": "its text is blank",
        "3": "its text is int, not a string",
        "4": "its 'metadata' is list, not a mapping",
        "5": "its payload has 'source', which twinvec needs for its own fields",
        "6": "it has no vector of the model",
    }
    with theirs.opened(encoder=words) as collection:
        assert collection.count() == 51
        assert len(collection.search("fine x", 99, "hybrid")) == 51
        assert collection.search("without metadata", 1)[0].id == "7"
        assert collection.verify().sound
    assert theirs.client.retrieve(NAME, [5])[0].payload["source"] == "of another application"


def test_dry_run_counts_and_writes_nothing(theirs, words):
    fill_langchain(langchain_store(theirs.client, words))
    before = theirs.client.scroll(NAME, limit=99)[0]
    report = theirs.adopt("langchain", words, dry_run=True)
    assert (report.adopted, report.compared) == (50, 32)
    assert theirs.client.scroll(NAME, limit=99)[0] == before
    with pytest.raises(
        ConfigurationError, match=r"not a collection of twinvec; adopt it.*twinvec adopt, adopt_collection"
    ):
        theirs.opened()


def test_wrong_layout_and_arguments_are_errors(theirs, words):
    fill_langchain(langchain_store(theirs.client, words))
    with pytest.raises(
        ConfigurationError, match=r"none of the first 50 points .* layout 'llama_index' .* right layout"
    ):
        theirs.adopt("llama_index", words)
    with pytest.raises(ConfigurationError, match="none of the first 50 points"):
        theirs.adopt("langchain", words, text_key="body")
    with pytest.raises(ConfigurationError, match="layout 'haystack' is not one of langchain, llama_index"):
        theirs.adopt("haystack", words)
    with pytest.raises(ConfigurationError, match="name the model"):
        theirs.adopt("langchain")
    with pytest.raises(ConfigurationError, match="has no dense vectors named 'own'; it has ''"):
        theirs.adopt("langchain", words, vector_name="own")


@pytest.mark.parametrize("finished", [True, False])
def test_settings_other_than_those_of_the_adoption_are_refused(theirs, words, monkeypatch, finished):
    fill_langchain(langchain_store(theirs.client, words))
    indexes = {"source": "keyword", "*": False}
    with monkeypatch.context() as patched:
        if not finished:
            patched.setattr(ServerBackend, "commit", _full)
        with nullcontext() if finished else pytest.raises(StoreError, match="the disk is full"):
            theirs.adopt("langchain", words, language="german", payload_indexes=indexes)
    for options, said in (
        ({"language": "french"}, "its language is 'german', not 'french', and cannot change"),
        ({"payload_indexes": False}, "its payload indexes are source keyword, no others, not no others"),
        ({"chunking": ChunkSettings(max_tokens=64)}, "leave chunking out"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            theirs.adopt("langchain", words, **options)
    same = theirs.adopt("langchain", words, language="german", payload_indexes=indexes)
    assert same.adopted == (0 if finished else 50)
    assert theirs.adopt("langchain", words).adopted == 0
    with theirs.opened(encoder=words) as collection:
        info = collection.info()
        assert (info["language"], info["sources"]) == ("german", 50)


def test_the_language_of_a_copy_is_that_of_its_collection(theirs, words, tmp_path):
    fill_langchain(langchain_store(theirs.client, words))
    with Collection.open("copy", tmp_path / "s", encoder=words, chunking=False, language="german") as copy:
        with pytest.raises(ConfigurationError, match="its language is 'german', not 'french'"):
            theirs.adopt("langchain", into=copy, language="french")
        assert copy.count() == 0
        for setting in ({"chunking": ChunkSettings(max_tokens=20)}, {"payload_indexes": False}):
            with pytest.raises(ConfigurationError, match="keeps its chunking and payload indexes"):
                theirs.adopt("langchain", into=copy, **setting)
        assert theirs.adopt("langchain", into=copy, language="german").adopted == 50
        assert theirs.adopt("langchain", into=copy).unchanged == 50


def _full(*_):
    raise StoreError("the disk is full")


def test_later_migrations_and_pushes_keep_the_old_class_reading(theirs, words, tmp_path):
    store = langchain_store(theirs.client, words)
    fill_langchain(store)
    theirs.adopt("langchain", words)
    other = WordEncoder(seed=1, dim=32)
    with theirs.opened(encoder=words) as collection:
        assert collection.push(tmp_path / "copy").copied == 50
        assert collection.migrate(other).encoded == 50
        assert collection.search("note 13 about topic 6", 1, "dense")[0].text == TEXTS[13]
        assert collection.drop_others() == [words.name]
        assert collection.verify().sound
    assert store.similarity_search("note 13 about topic 6", k=1)[0].page_content == TEXTS[13]
    with Collection.open(NAME, tmp_path / "copy", encoder=words) as copy:
        assert "layout" not in copy.info()
        assert copy.search("note 13 about topic 6", 1)[0].text == TEXTS[13]


@pytest.mark.parametrize("copied", [False, True])
def test_ids_as_the_old_class_has_returned_them_name_their_documents(on_server, words, copied, tmp_path):
    """``QdrantVectorStore`` returns UUIDs without dashes for the texts that it gives ids; Qdrant adds the dashes."""
    embeddings = WordEmbeddings(words)
    ids = langchain_store(on_server.client, words).add_texts(["one note", "two notes", "three notes"])
    assert not any("-" in key for key in ids)
    if copied:
        with Collection.open(NAME, tmp_path, encoder=words, chunking=False) as copy:
            on_server.adopt("langchain", into=copy)
    else:
        on_server.adopt("langchain", words)
    with Collection.open(NAME, tmp_path, encoder=words) if copied else on_server.opened(encoder=words) as collection:
        store = TwinvecVectorStore(embeddings, collection=collection)
        assert [found.page_content for found in store.get_by_ids([*ids, "none"])] == [
            "one note",
            "two notes",
            "three notes",
        ]
        named = models.Filter(must=[models.HasIdCondition(has_id=[ids[1]])])
        assert [found.page_content for found in store.similarity_search("note", filter=named)] == ["two notes"]
        assert store.add_texts(["one newer note", "four"], ids=[ids[0], "f" * 32]) == [str(UUID(ids[0])), "f" * 32]
        assert store.delete([ids[1]], filter={"missing": 1})
        assert collection.count() == 4
        assert store.delete([ids[1], ids[2].upper()])
        assert sorted(collection.find()) == sorted([str(UUID(ids[0])), "f" * 32])
        assert store.get_by_ids([ids[0]])[0].page_content == "one newer note"


def _unnamed(vector):
    return vector[""] if isinstance(vector, dict) else vector
