"""Kill an ingesting process at random moments, again and again, and look at what is left.

    python tests/crash/kill_ingest.py --kills 200 --seed 1

Every process brings one more version of a small corpus, in which documents changed, came and went, into the same
embedded collection, and is killed (SIGKILL) at a random moment, some while they make the collection. After each kill
every document must be there in one of the versions that it could have, whole, and be found by a search that shows no
other version of it. At the end one process is left alone, and the collection is compared point by point with one that
was filled undisturbed.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line, killed, seconds_of

from twinvec.errors import CollectionNotFoundError
from twinvec_qdrant import Collection
from twinvec_qdrant.ingest import planned as batches
from twinvec_qdrant.stores.conditions import field_is
from twinvec_qdrant.stores.embedded import backend as embedded
from words import StateEncoder

DOCUMENTS = 40
SEARCHED = 10
BATCH_CHUNKS = 10  # few, so that there are many commits to be killed in

Corpus = dict[str, str]


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        finished: Processes that were done before their moment came.
        lost: Points missing at the end.
        phantoms: Points at the end that should not be there.
        duplicates: Positions of a source that more than one point claims at the end.
        points: How many points there should be.
    """

    kills: int = 0
    finished: int = 0
    lost: int = 0
    phantoms: int = 0
    duplicates: int = 0
    points: int = 0


def corpus(seed: int, version: int) -> Corpus:
    """The documents of a version: most as in the version before, some changed, some away."""
    documents = {}
    for number in range(DOCUMENTS):
        edition = max(
            (step for step in range(version + 1) if random.Random(f"{seed} {number} {step}").random() < 0.3), default=0
        )
        rng = random.Random(f"{seed} {number} {edition} text")
        if rng.random() < 0.9:
            name = f"n{number:03}"
            parts = [f"{name} edition{edition} part{part} " + "word " * 9 for part in range(rng.randint(1, 5))]
            documents[name] = "\n\n".join(part.strip() for part in parts)
    return documents


def open_collection(folder: Path, *, create: bool = True) -> Collection:
    """The collection that is killed."""
    encoder = StateEncoder(max_tokens=16)
    return Collection.open("notes", folder, encoder=encoder, late_interaction=True, create=create, wait_seconds=60)


def work(folder: Path, seed: int, version: int) -> None:
    """What the process to be killed does."""
    batches.BATCH_CHUNKS = BATCH_CHUNKS
    embedded.WORTHWHILE = 1  # an index is built, and put in place, at the end of every ingest
    with open_collection(folder) as collection:
        collection.ingest(corpus(seed, version).items(), prune=True)


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill ``kills`` processes in turn, then let one finish; raises AssertionError where a check fails."""
    rng = random.Random(seed)
    outcome = Outcome()
    work(folder / "timing", seed, 1)
    duration = seconds_of(work, folder / "timing", seed, 2)
    store = folder / "store"
    possible: dict[str, set[str | None]] = {}  # by document, its text in every version that may be the committed one
    _now_possible(possible, {}, done=False)
    version = 0
    while outcome.kills < kills:
        version += 1
        done = not killed(work, store, seed, version, rng.uniform(0, duration))
        duration *= 0.8 if done else 1.05  # so that most moments fall within
        outcome.finished += done
        outcome.kills += not done
        _now_possible(possible, corpus(seed, version), done=done)
        check(store, possible, f"seed {seed}, version {version}")
    work(store, seed, version)
    work(folder / "undisturbed", seed, version)
    found, expected = contents(store), contents(folder / "undisturbed")
    outcome.points = len(expected)
    outcome.lost = len(expected.keys() - found.keys())
    outcome.phantoms = len(found.keys() - expected.keys())
    outcome.duplicates = sum(count - 1 for count in Counter(found.values()).values())
    assert sorted(path.name for path in (store / "notes").glob("shard*")) == ["shard"], "copies are left over"
    return outcome


def check(store: Path, possible: dict[str, set[str | None]], where: str) -> None:
    """Every document is whole, in a version that it can have, and search shows that version only."""
    try:
        collection = open_collection(store, create=False)
    except CollectionNotFoundError:
        assert all(None in texts for texts in possible.values()), where
        return
    with collection:
        found = {document.id: document.text for document in collection.get(sorted(possible))}
        for name, texts in possible.items():
            assert found.get(name) in texts, (where, name)
        for name in sorted(found)[:: max(len(found) // SEARCHED, 1)]:
            hits = [hit for hit in collection.search(name, 50, "sparse", group=False) if hit.payload["source"] == name]
            assert hits, (where, name)
            assert "\n\n".join(hit.text for hit in sorted(hits, key=_position)) == found[name], (where, name)


def contents(store: Path) -> dict[str, tuple[str, str, int]]:
    """Every point of the collection by its id: kind, source and position."""
    with open_collection(store, create=False) as collection:
        assert collection.verify().sound
        return {
            point.id: (point.payload["kind"], point.payload.get("source", ""), point.payload.get("position", -1))
            for kind in ("chunk", "record", "intent")
            for point in collection._backend.scroll([field_is("kind", kind)])
        }


def _now_possible(possible: dict[str, set[str | None]], documents: Corpus, *, done: bool) -> None:
    for number in range(DOCUMENTS):
        name = f"n{number:03}"
        state = documents.get(name)
        possible[name] = {state} if done else possible.get(name, set()) | {state}


def _position(hit: object) -> int:
    return hit.payload["position"]  # type: ignore[attr-defined, no-any-return]


if __name__ == "__main__":
    command_line(__doc__, run, kills=200)
