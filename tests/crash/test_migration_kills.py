"""A killed migration leaves the collection with the old model or the new one, never with a mixture."""

from __future__ import annotations

import os
import signal

import pytest

from crash.killing import outcome, processes
from stand_in import StandIn
from twinvec_qdrant import Collection
from twinvec_qdrant.stores.server.backend import ServerBackend
from words import WordEncoder

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def test_killed_at_random_moments_one_model_is_in_force():
    found = outcome("kill_migration.py", "--kills", "6", "--seed", "0")
    assert found["kills"] == found["before"] + found["after"] == 6


def test_an_ingest_brings_over_what_a_migration_killed_after_its_switch_has_missed():
    """Only on a server can another process write between the last look for chunks and the switch."""
    old, new = WordEncoder(), WordEncoder(seed=1, dim=48)
    with StandIn().running() as server:
        place = {"name": "notes", "url": server.url}
        with Collection.open(**place, encoder=old, chunking=False) as collection:
            collection.ingest([("early", "an early note")])
        process = processes.Process(target=killed_after_switch, args=(place,))
        process.start()
        process.join(120)
        assert process.exitcode == -signal.SIGKILL
        with Collection.open(**place, encoder=new) as collection:
            assert collection.get(["late"])
            assert [hit.id for hit in collection.search("note", mode="dense")] == ["early"]
            collection.ingest([])
            assert {hit.id for hit in collection.search("note", mode="dense")} == {"early", "late"}
            assert collection.verify().sound


def killed_after_switch(place: dict[str, str]) -> None:
    """Migrate; a document is written just before the switch, and this process dies just after it."""
    write_metadata = ServerBackend.write_metadata

    def write(self, changes):
        if "vector" in changes:
            with Collection.open(**place, encoder=WordEncoder()) as other:
                other.ingest([("late", "a late note")])
        write_metadata(self, changes)
        if "vector" in changes:
            os.kill(os.getpid(), signal.SIGKILL)

    ServerBackend.write_metadata = write
    with Collection.open(**place, encoder=WordEncoder()) as collection:
        collection.migrate(WordEncoder(seed=1, dim=48))
