"""What a key for one collection permits: documents, and no change of the collection itself."""

from __future__ import annotations

import pytest

from twinvec.errors import StoreError
from twinvec_qdrant import Collection
from words import WordEncoder

NOTES = [{"id": f"n{row}", "text": f"some text {row}", "team": "a"} for row in range(9)]


@pytest.mark.parametrize("over_grpc", [False, True])
def test_a_token_for_one_collection_ingests_and_deletes(server, over_grpc):
    with server.over_grpc() as port:
        place = {"url": server.url, "grpc": over_grpc, "grpc_port": port, "wait_seconds": 20}
        encoder = WordEncoder(max_tokens=16)
        with Collection.open("notes", **place, encoder=encoder) as collection:
            collection.ingest(NOTES[:5])
        server.is_scoped = True
        with Collection.open("notes", **place, encoder=encoder) as collection:
            assert collection.ingest(NOTES[5:]).new == 4
            assert collection.ingest([{**NOTES[0], "text": "another text"}, {**NOTES[1], "size": 3}]).updated == 2
            collection.notes("memory").put({"k": {"row": 1}})
            assert collection.delete(["n2"]) == 1
            assert len(collection.search("some text", 20)) == 8
            assert collection.verify().sound
            with pytest.raises(StoreError, match="for single collections"):
                collection.reindex({"m": 8})
            with pytest.raises(StoreError, match="for single collections"):
                Collection.open("others", **place, encoder=encoder)
