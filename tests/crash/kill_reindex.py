"""Kill processes that erase deleted texts (``reindex``) at random moments, and look at what is left.

    python tests/crash/kill_reindex.py --kills 100 --seed 1

Every process brings one more version of a small corpus, deletes a document, and then erases and changes documents in
turns until it is killed (SIGKILL). After each kill every document must be there in its newest version, or, where the
kill hit a change, in the one before, also for a process that has the collection open all the time. When a process has
erased undisturbed, the files must hold no text of a deleted document or of a former version.
"""

from __future__ import annotations

import random
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from string import ascii_letters

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line, killed

from twinvec_qdrant import Collection
from words import WordEncoder

DOCUMENTS = 30
CHANGED = 10
ERASED_EVERY = 4  # kills
TURNS = 3


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        finished: Processes that were done before their moment came.
        copies: Kills that left a copy of the engine's files.
        erased: How often the files were searched for what is erased.
        documents: Documents at the end.
    """

    kills: int = 0
    finished: int = 0
    copies: int = 0
    erased: int = 0
    documents: int = 0


def opened(folder: Path) -> Collection:
    """The collection that is killed."""
    return Collection.open("notes", folder, encoder=WordEncoder(), chunking=False, wait_seconds=60)


def text(name: str, version: int, turn: int) -> str:
    """The text of a document, with a first word that has no part in common with others."""
    first = "".join(random.Random(f"{name} {version} {turn}").choices(ascii_letters, k=20))
    return f"{first} is {name} of {version} in turn {turn}"


def work(folder: Path, seed: int, version: int) -> None:
    """What the process to be killed does."""
    del seed
    with opened(folder) as collection:
        documents = [(f"n{number}", text(f"n{number}", version, 0)) for number in range(DOCUMENTS)]
        collection.ingest([*documents, ("gone", text("gone", version, 0))])
        assert collection.delete(["gone"]) == 1
        (folder / f"written-{version}").touch()
        for turn in range(1, TURNS + 1):
            assert collection.reindex().erased
            collection.ingest((f"n{number}", text(f"n{number}", version, turn)) for number in range(CHANGED))


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill at least ``kills`` processes; raises AssertionError where a check fails."""
    rng = random.Random(seed)
    outcome = Outcome()
    started = time.perf_counter()
    work(folder, seed, 0)
    duration, version = time.perf_counter() - started, 0
    with opened(folder) as other:
        while outcome.kills < kills:
            version += 1
            begun = (folder / f"written-{version}").exists
            done = not killed(work, folder, seed, version, rng.uniform(0, duration), begun)
            duration *= 0.8 if done else 1.05  # so that most moments fall within
            outcome.finished += done
            outcome.kills += not done
            outcome.copies += any((folder / "notes").glob("shard.*"))
            check(other, version, f"seed {seed}, version {version}, open all the time")
            if outcome.kills % ERASED_EVERY == 0:
                other.reindex()
                check_erased(folder, other, version)
                outcome.erased += 1
        outcome.documents = other.count()
    with opened(folder) as collection:
        check(collection, version, f"seed {seed}, version {version}")
        assert collection.verify().sound
    return outcome


def check(collection: Collection, version: int, where: str) -> None:
    """Every document is there in a version that it can have, and a search finds it."""
    found = {document.id: document.text for document in collection.get(collection.find())}
    assert found.keys() == {f"n{number}" for number in range(DOCUMENTS)}, where
    for number in range(DOCUMENTS):
        name = f"n{number}"
        turns = range(TURNS + 1 if number < CHANGED else 1)
        assert found[name] in [text(name, version, turn) for turn in turns], (where, name, found[name])
    words = found["n0"].split()[0]
    assert [hit.text for hit in collection.search(words, 1, "sparse")] == [found["n0"]], where


def check_erased(folder: Path, collection: Collection, version: int) -> None:
    """The files hold the first word of every document's text, and of no other text that the collection ever had."""
    current = {middle(document.text) for document in collection.get(collection.find())}
    names = ["gone", *(f"n{number}" for number in range(DOCUMENTS))]
    versions = range(max(version - ERASED_EVERY, 0), version + 1)
    former = {middle(text(name, each, turn)) for name in names for each in versions for turn in range(TURNS + 1)}
    files = filter(Path.is_file, (folder / "notes").rglob("*"))
    content = b"".join(path.read_bytes().rstrip(b"\0") for path in files)
    missing = [word for word in current if word.encode() not in content]
    assert not missing, f"the engine compresses these, so that this check shows nothing: {missing}"
    left = [word for word in former - current if word.encode() in content]
    assert not left, (version, left)


def middle(content: str) -> str:
    """Most of a text's first word: its ends may go on what precedes or follows it, and are then compressed."""
    return content.split()[0][4:-4]


if __name__ == "__main__":
    command_line(__doc__, run, kills=100)
