"""What a server permits an adoption, and what it has: versions, limits, settings that stay, and other writers."""

from __future__ import annotations

import pytest
import tenacity
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse

from frameworks_collections import COSINE, NAME, fill_langchain, langchain_store
from stand_in import STRICT
from twinvec import Encoder
from twinvec.errors import CollectionNotFoundError, ConfigurationError, SpaceMismatchError, StoreError
from twinvec_qdrant import Collection, CollectionEntry, adopt_collection, list_collections
from twinvec_qdrant.adopting import in_place
from twinvec_qdrant.stores.server.backend import ServerBackend
from words import WordEncoder


def test_a_server_that_cannot_add_vectors_says_so_and_can_be_copied(on_server, words, tmp_path):
    fill_langchain(langchain_store(on_server.client, words))
    on_server.server.version = "1.17.2"
    with pytest.raises(StoreError, match=r"1\.17, and adding sparse vectors needs 1\.18 or later: update the server"):
        on_server.adopt("langchain", words)
    with Collection.open("copy", tmp_path, encoder=words, chunking=False) as copy:
        assert on_server.adopt("langchain", into=copy).adopted == 50
    on_server.server.version = "1.18.0"
    assert on_server.adopt("langchain", words).adopted == 50  # what was begun, after the update


def test_within_the_limits_of_strict_mode(strict, words):
    client = QdrantClient(strict.url, timeout=60, check_compatibility=False)
    client.create_collection(NAME, vectors_config=COSINE, strict_mode_config=STRICT)
    for row in range(23):
        vector = words.encode_document([f"note {row} about topic {row % 7}"])[0].tolist()
        payload = {"page_content": f"note {row} about topic {row % 7}", "metadata": {"number": row}}
        client.upsert(NAME, [models.PointStruct(id=row, vector=vector, payload=payload)])
    report = adopt_collection(NAME, layout="langchain", encoder=words, url=strict.url, wait_seconds=20)
    assert report.adopted == 23
    with Collection.open(NAME, url=strict.url, encoder=words, wait_seconds=20) as collection:
        assert collection.search("note 13 about topic 6", 1)[0].id == "13"
        assert collection.verify().sound
    within_the_read_limit = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(ResourceExhaustedResponse),
        wait=tenacity.wait_fixed(0.5),
        stop=tenacity.stop_after_delay(10),
    )
    (found,) = within_the_read_limit(langchain_store(client, words).similarity_search, "note 13 about topic 6", k=1)
    assert found.metadata["number"] == 13


@pytest.mark.parametrize("distance", [models.Distance.DOT, models.Distance.EUCLID])
def test_another_distance_can_only_be_copied(theirs, words, distance, tmp_path):
    theirs.client.create_collection(NAME, vectors_config=models.VectorParams(size=64, distance=distance))
    fill_langchain(langchain_store(theirs.client, words, distance=distance))
    with pytest.raises(ConfigurationError, match=f"compares vectors by {distance.value}, but twinvec by Cosine; copy"):
        theirs.adopt("langchain", words)
    with Collection.open("copy", tmp_path, encoder=words, chunking=False) as copy:
        assert theirs.adopt("langchain", into=copy).adopted == 50
        assert copy.search("note 13 about topic 6", 1)[0].text == "note 13 about topic 6"


def test_a_point_whose_vector_is_zero_stops_no_other(theirs, words, tmp_path):
    theirs.client.create_collection(NAME, vectors_config=models.VectorParams(size=64, distance=models.Distance.DOT))
    fill_langchain(langchain_store(theirs.client, words, distance=models.Distance.DOT))
    last = "ffffffff-ffff-4fff-bfff-ffffffffffff"
    theirs.client.upsert(NAME, [models.PointStruct(id=last, vector=[0.0] * 64, payload={"page_content": "nothing"})])
    with Collection.open("copy", tmp_path, encoder=words, chunking=False) as copy:
        report = theirs.adopt("langchain", into=copy)
        assert (report.adopted, [source for source, _ in report.skips]) == (50, [last])
        assert "finite and not zero" in report.skips[0][1]


def test_what_cannot_be_adopted_in_place_is_named(on_server, words):
    client = on_server.client
    taken = {"sparse": models.SparseVectorParams()}
    client.create_collection(NAME, vectors_config=COSINE, sparse_vectors_config=taken)
    with pytest.raises(ConfigurationError, match="has vectors named 'sparse', a name that twinvec needs"):
        on_server.adopt("langchain", words)
    client.delete_collection(NAME)
    client.create_collection(NAME, vectors_config=COSINE, sharding_method=models.ShardingMethod.CUSTOM)
    with pytest.raises(ConfigurationError, match="its writers choose the shards"):
        on_server.adopt("langchain", words)
    client.delete_collection(NAME)
    client.create_collection(NAME, vectors_config=COSINE, metadata={"model": "ours", "owner": "team"})
    with pytest.raises(ConfigurationError, match="its metadata have 'model', which twinvec needs for its own"):
        on_server.adopt("langchain", words)
    client.delete_collection(NAME)
    with pytest.raises(CollectionNotFoundError, match="no collection 'theirs'"):
        on_server.adopt("langchain", words)
    with pytest.raises(ConfigurationError, match="give exactly one of url, client and local_path"):
        adopt_collection(NAME, layout="langchain", encoder=words)


def test_a_collection_of_twinvec_needs_no_adoption(theirs, words):
    with Collection.open(NAME, encoder=words, chunking=False, **theirs.options) as collection:
        collection.ingest(["a note"])
    with pytest.raises(ConfigurationError, match="is already a collection of twinvec, and needs no adoption"):
        theirs.adopt("langchain", words)


def test_an_empty_collection_is_adopted(theirs, words):
    store = langchain_store(theirs.client, words)
    assert theirs.adopt("langchain", words).adopted == 0
    with theirs.opened(encoder=words) as collection:
        collection.ingest([{"id": "n", "text": "a first note"}])
        assert collection.search("first", 1)[0].id == "n"
    assert store.similarity_search("first", k=1)[0].page_content == "a first note"


def test_settings_and_metadata_of_the_collection_stay(on_server, words):
    int8 = models.ScalarQuantization(scalar=models.ScalarQuantizationConfig(type=models.ScalarType.INT8))
    vectors = models.VectorParams(size=64, distance=models.Distance.COSINE, quantization_config=int8)
    graph = models.HnswConfigDiff(m=24, ef_construct=77)
    client = on_server.client
    client.create_collection(NAME, vectors_config=vectors, hnsw_config=graph, metadata={"owner": "team"})
    fill_langchain(langchain_store(client, words))
    on_server.adopt("langchain", words)
    with on_server.opened(encoder=words) as collection:
        index = collection.info()["index"]
        assert (index["quantization"], index["m"], index["ef_construct"]) == ("int8", 24, 77)
        collection.ingest([{"id": "n", "text": "one more"}])
    config = client.get_collection(NAME).config
    assert config.params.vectors.quantization_config.scalar.type is models.ScalarType.INT8
    assert (config.hnsw_config.m, config.metadata["owner"]) == (24, "team")


def test_product_quantisation_stays_when_the_index_is_built(on_server, words):
    product = models.ProductQuantization(
        product=models.ProductQuantizationConfig(compression=models.CompressionRatio.X4)
    )
    vectors = models.VectorParams(size=64, distance=models.Distance.COSINE, quantization_config=product)
    on_server.client.create_collection(NAME, vectors_config=vectors)
    fill_langchain(langchain_store(on_server.client, words))
    on_server.adopt("langchain", words)
    with on_server.opened(encoder=words) as collection:
        collection.ingest([{"id": "n", "text": "one more"}])
    assert on_server.client.get_collection(NAME).config.params.vectors.quantization_config == product


def test_the_application_writes_while_points_are_adopted(theirs, words, monkeypatch):
    """Between the reading of a page and its commit: a changed point, a deleted one, and a new one."""
    monkeypatch.setattr(in_place, "_PAGE", 20)
    store = langchain_store(theirs.client, words)
    ids = fill_langchain(store)
    add_fields, calls = ServerBackend.add_fields, []

    def meanwhile(backend, fields):
        calls.append(len(fields))
        if len(calls) == 2:
            changed, deleted = list(fields)[:2]
            store.add_texts(["changed before our fields"], [{"number": -1}], ids=[changed])
            store.delete([deleted])
        add_fields(backend, fields)
        if len(calls) == 3:  # the same points again, without the deleted one
            store.add_texts(["changed after our fields"], [{"number": -2}], ids=[list(fields)[2]])
            store.add_texts(["new meanwhile"], [{"number": -3}], ids=["00000000-0000-4000-8000-000000009999"])

    monkeypatch.setattr(ServerBackend, "add_fields", meanwhile)
    report = theirs.adopt("langchain", words)
    assert report.adopted == 50  # one less, and one more
    with theirs.opened(encoder=words) as collection:
        texts = {"changed before our fields": -1, "changed after our fields": -2, "new meanwhile": -3}
        for text, number in texts.items():
            (hit,) = collection.search(text, 1)
            assert (hit.text, hit.payload["number"]) == (text, number)
            assert collection.search(text, 1, "sparse")[0].text == text
        assert len(collection.find()) == 50
        assert collection.verify().sound
    assert len(ids) == 50


def test_the_progress_counts_the_points_of_the_application(theirs, words, monkeypatch, capsys):
    monkeypatch.setattr(in_place, "_PAGE", 7)
    monkeypatch.setattr("twinvec_qdrant.stores.server.reading.PAGE", 7)  # records come before points yet to be read
    monkeypatch.setattr("twinvec.support.progress._LINE_SECONDS", 0)
    fill_langchain(langchain_store(theirs.client, words))
    theirs.adopt("langchain", words, progress=True)
    assert capsys.readouterr().err.splitlines()[-1] == "Adopting: 50 of 50 points"


def test_an_unfinished_adoption_is_not_opened_and_keeps_to_its_model(theirs, words, monkeypatch):
    store = langchain_store(theirs.client, words)
    fill_langchain(store)

    def fails(*_):
        raise StoreError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr(ServerBackend, "commit", fails)
        with pytest.raises(StoreError, match="the disk is full"):
            theirs.adopt("langchain", words)
    with pytest.raises(ConfigurationError, match="adoption of this collection is not finished"):
        theirs.opened()
    assert list_collections(**theirs.options) == [CollectionEntry(NAME, None, None, adopting=True)]
    with pytest.raises(ConfigurationError, match="its layout is 'langchain', not 'llama_index'"):
        theirs.adopt("llama_index", words)
    with pytest.raises(SpaceMismatchError):
        theirs.adopt("langchain", WordEncoder(seed=1))
    assert len(store.similarity_search("note", k=99)) == 50
    assert theirs.adopt("langchain", words).adopted == 50
    with theirs.opened(encoder=words) as collection:
        assert collection.verify().sound
    assert list_collections(**theirs.options) == [CollectionEntry(NAME, words.name, words.dim)]


def test_the_prompt_of_documents_counts(theirs, prompted):
    model = Encoder(prompted)
    texts = [f"note {row} about topic {row % 7}" for row in range(20)]
    theirs.client.create_collection(
        NAME, vectors_config=models.VectorParams(size=model.dim, distance=models.Distance.COSINE)
    )
    for row, vector in enumerate(model.encode(texts, prompt="")):
        point = models.PointStruct(id=row, vector=vector.tolist(), payload={"page_content": texts[row]})
        theirs.client.upsert(NAME, [point])
    with pytest.raises(SpaceMismatchError, match=r"without a prompt, the mean is 1\.0000.*--document-prompt ''"):
        theirs.adopt("langchain", prompted)
    plain = Encoder(prompted, prompts={**model.prompts, "document": ""})
    assert theirs.adopt("langchain", plain).adopted == 20
    with theirs.opened() as collection:  # by its recorded name and prompts
        assert collection.search(texts[3], 1, "sparse")[0].id == "3"
        assert collection.encoder.document_prompt == ""
