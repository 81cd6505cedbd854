"""Kill a migrating process at random moments, again and again, and check which model the collection has.

    python tests/crash/kill_migration.py --kills 50 --seed 1

The collection goes from one model to another and, once it has arrived, on to the next. Every process works at one of
these migrations and is killed (SIGKILL) at a random moment. After each kill the collection must be of the old model or
of the new one, and answer as that model alone would, with every document.
"""

from __future__ import annotations

import random
import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from killing import command_line, killed, seconds_of

from twinvec import MaxSimReranker
from twinvec_qdrant import Collection
from twinvec_qdrant.maintenance import migration
from words import StateEncoder

DOCUMENTS = {f"n{number:03}": f"note {number} about topic {number % 7} and {number % 11}" for number in range(300)}
PAGE = 20  # few chunks at a time, so that there are many steps to be killed between
QUERY = "a note about topic 3"


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        migrations: Migrations that arrived, after the first one, which nobody kills.
        before: Kills after which the collection had the old model.
        after: Kills after which it had the new model.
    """

    kills: int = 0
    migrations: int = 0
    before: int = 0
    after: int = 0


def model(number: int) -> StateEncoder:
    """The encoder of a model; their vectors and token states differ in size, too."""
    return StateEncoder(seed=number, dim=32 + 16 * (number % 3), states_dim=8 + 4 * (number % 2))


def work(folder: Path, seed: int, number: int) -> None:
    """What the process to be killed does: bring the collection to a model."""
    del seed  # only the moments depend on it
    migration._PAGE = PAGE
    with Collection.open("notes", folder, encoder=model(number - 1), wait_seconds=60) as collection:
        collection.migrate(model(number))


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill ``kills`` processes in turn; raises AssertionError where a check fails."""
    rng = random.Random(seed)
    outcome = Outcome()
    with Collection.open("notes", folder, encoder=model(0), chunking=False, late_interaction=True) as collection:
        collection.ingest(DOCUMENTS.items())
    number, longest = 2, seconds_of(work, folder, seed, 1)
    while outcome.kills < kills:
        dead = killed(work, folder, seed, number, rng.uniform(0, longest))
        longest *= 1.05 if dead else 0.8  # so that most moments fall within
        outcome.kills += dead
        arrived = _in_force(folder) == model(number).name
        assert dead or arrived
        check(folder, model(number if arrived else number - 1))
        outcome.before += dead and not arrived
        outcome.after += dead and arrived
        outcome.migrations += arrived
        number += arrived
    return outcome


def check(folder: Path, encoder: StateEncoder) -> None:
    """The collection answers as a new one of this model would."""
    query = encoder.encode_query([QUERY])[0]
    vectors = encoder.encode_document(list(DOCUMENTS.values()))
    cosines = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    with Collection.open("notes", folder, encoder=encoder, wait_seconds=60) as collection:
        hits = collection.search(QUERY, len(DOCUMENTS), "dense")
        found = {hit.id: hit.score for hit in hits}
        assert found.keys() == DOCUMENTS.keys()
        assert np.allclose([found[name] for name in DOCUMENTS], cosines, atol=1e-5)
        computed = {hit.id: hit.scores["maxsim"] for hit in MaxSimReranker(encoder).rerank(QUERY, hits)}
        kept = {hit.id: hit.scores["maxsim"] for hit in collection.maxsim().rerank(QUERY, hits)}
        assert np.allclose([kept[name] for name in DOCUMENTS], [computed[name] for name in DOCUMENTS], atol=1e-3)
        assert collection.verify().sound


def _in_force(folder: Path) -> str:
    with Collection.open("notes", folder, create=False, wait_seconds=60) as collection:
        return str(collection.info()["model"])


if __name__ == "__main__":
    command_line(__doc__, run, kills=50)
