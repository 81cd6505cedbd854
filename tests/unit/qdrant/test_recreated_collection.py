"""Handles that are open while another program drops their collection on a server, and creates it with another model."""

from __future__ import annotations

import pytest
from qdrant_client import QdrantClient

from cases import slow
from searching import NOTES, QUERY, cosines
from stand_in import StandIn
from twinvec.errors import CollectionNotFoundError, ModelNotFoundError, SpaceMismatchError, StoreError
from twinvec_qdrant import Collection, drop_collection, opening
from twinvec_qdrant.records.schema import model_id
from words import WordEncoder

OLD, NEW = (WordEncoder(seed=seed, dim=32) for seed in range(2))
"""Models whose vectors have the same size, so the server does not tell one from the other."""


@pytest.fixture(params=["server", slow("grpc"), "client"])
def place(request):
    """Arguments of ``Collection.open`` that name a store."""
    if request.param == "client":
        client = QdrantClient(":memory:")
        yield {"client": client}
        client.close()
        return
    with StandIn().running() as server:
        if request.param == "server":
            yield {"url": server.url}
        else:
            with server.over_grpc() as port:
                yield {"url": server.url, "grpc": True, "grpc_port": port}


@pytest.fixture
def handle(place):
    """A handle that has searched before the collection is replaced."""
    with Collection.open("notes", encoder=OLD, chunking=False, **place) as opened:
        opened.ingest(NOTES.items())
        for _ in range(3):  # the last one needs no records
            assert answers(opened) == expected(OLD)
        yield opened


@pytest.fixture
def loaded(monkeypatch):
    """Let collections load ``OLD`` and ``NEW`` by their names."""
    models = {each.name: each for each in (OLD, NEW)}
    monkeypatch.setattr(opening, "load_space_encoder", lambda name, *_: models[name])


def answers(collection: Collection) -> dict[str, float]:
    return {hit.id: hit.scores["dense"] for hit in collection.search(QUERY, 50, "dense")}


def expected(encoder) -> dict[str, float]:
    return {name: pytest.approx(cosine, abs=1e-5) for name, cosine in cosines(encoder).items()}


def replace(place, encoder) -> Collection:
    drop_collection("notes", **place)
    made = Collection.open("notes", encoder=encoder, chunking=False, **place)
    made.ingest(NOTES.items())
    return made


def test_a_search_goes_over_to_the_new_model(handle, place, loaded):
    with replace(place, NEW):
        for _ in range(3):
            assert answers(handle) == expected(NEW)
        assert handle.encoder is NEW
        assert handle.search_diverse(QUERY, 1)[0].id == handle.search(QUERY, 1, "dense")[0].id
    with replace(place, OLD):
        assert answers(handle) == expected(OLD)


@pytest.mark.parametrize("options", [{"feedback": 3}, {"words": "tea"}, {"syntax": True}], ids=str)
def test_a_search_of_any_kind_goes_over(handle, place, loaded, options):
    handle.search(QUERY, 3, **options)
    with replace(place, NEW) as made:
        wanted = {hit.id: pytest.approx(hit.score, abs=1e-5) for hit in made.search(QUERY, 50, **options)}
        assert {hit.id: hit.score for hit in handle.search(QUERY, 50, **options)} == wanted


@pytest.mark.parametrize("encoder", [NEW, OLD], ids=["another model", "the same model"])
def test_a_search_goes_over_to_a_collection_of_an_older_version(handle, place, loaded, encoder):
    """Version 0.2.0 writes no point that names the model."""
    with replace(place, encoder) as made:
        made._backend.delete([model_id()])
        for _ in range(3):
            assert answers(handle) == expected(encoder)
        assert handle.encoder is encoder


def test_a_vector_is_refused_in_a_collection_of_an_older_version(handle, place, loaded):
    with replace(place, NEW) as made:
        made._backend.delete([model_id()])
        for _ in range(2):
            with pytest.raises(SpaceMismatchError, match=r"no vectors of the query's space words-0-32.*words-1"):
                handle.search_vector(OLD.encode_query([QUERY])[0], 50)


async def test_an_awaited_search_goes_over(handle, place, loaded):
    with replace(place, NEW):
        found = await handle.asearch(QUERY, 50, "dense")
    assert {hit.id: hit.scores["dense"] for hit in found} == expected(NEW)


def test_a_search_goes_over_to_a_collection_that_was_pushed(handle, place, loaded, tmp_path):
    with Collection.open("notes", tmp_path, encoder=NEW, chunking=False) as source:
        source.ingest(NOTES.items())
        drop_collection("notes", **place)
        assert source.push(**{key: each for key, each in place.items() if "grpc" not in key}).copied == len(NOTES)
    assert answers(handle) == expected(NEW)


def test_a_vector_of_the_old_model_is_refused(handle, place, loaded):
    old_D, new_D = (encoder.encode_query([QUERY])[0] for encoder in (OLD, NEW))
    with replace(place, NEW):
        for _ in range(2):
            with pytest.raises(SpaceMismatchError, match=r"no vectors of the query's space words-0-32.*words-1"):
                handle.search_vector(old_D, 50)
        found = handle.search_vector(new_D, 50, space=NEW.space)
        assert {hit.id: hit.scores["dense"] for hit in found} == expected(NEW)


def test_an_ingest_writes_vectors_of_the_new_model(handle, place, loaded):
    with replace(place, NEW) as made:
        assert handle.ingest([("late", "a late note")]).new == 1
        assert made.search("a late note", 1, "dense")[0].scores["dense"] == pytest.approx(1)
        assert handle.search("a late note", 1, "dense")[0].scores["dense"] == pytest.approx(1)


def test_an_ingest_that_is_under_way_goes_on_with_the_new_model(handle, place, loaded):
    made = []

    def documents():
        made.append(replace(place, NEW))
        yield "late", "a late note"

    assert handle.ingest(documents()).new == 1
    assert made[0].search("a late note", 1, "dense")[0].scores["dense"] == pytest.approx(1)
    made[0].close()


def test_vectors_of_the_old_model_are_not_ingested(handle, place, loaded):
    with replace(place, NEW) as made:
        with pytest.raises(SpaceMismatchError, match=r"words-1.*words-0"):
            handle.ingest([("late", "a late note")], vectors={"late": OLD.encode_document(["a late note"])[0]})
        assert made.count() == len(NOTES)


@pytest.mark.parametrize("is_older", [False, True])
def test_a_model_that_cannot_be_loaded_is_named(handle, place, monkeypatch, is_older):
    def load(name, *_):
        raise ModelNotFoundError(f"{name}: not here")

    monkeypatch.setattr(opening, "load_space_encoder", load)
    with replace(place, NEW) as made:
        if is_older:
            made._backend.delete([model_id()])
        for _ in range(3):
            with pytest.raises(SpaceMismatchError, match=r"words-1.*cannot be loaded.*not here.*encoder="):
                handle.search(QUERY, mode="dense")
        with pytest.raises(SpaceMismatchError, match=r"words-1.*cannot be loaded"):
            handle.ingest([("late", "a late note")])
        assert len(handle.search(QUERY, 50, "sparse")) == len(NOTES)
        assert made.count() == len(NOTES)


def test_a_collection_that_was_dropped_is_named(handle, place):
    drop_collection("notes", **place)
    error = StoreError if "client" in place else CollectionNotFoundError
    for call in (lambda: handle.search(QUERY), lambda: handle.ingest(NOTES.items()), handle.info):
        with pytest.raises(error, match=r"notes.*(does not exist any more|not found)"):
            call()
