"""Kill processes that keep a store in step with its sources (LangChain's ``index``), and look at what is served then.

    python tests/crash/kill_index.py --kills 100 --seed 1

Every process brings one more version of a few sources, of which most have changed, and is killed (SIGKILL) at a random
moment. The next ``index`` must leave exactly the documents of its version: nothing of the versions that the killed
process was about to replace, or to bring.
"""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line, killed, seconds_of
from langchain_core.documents import Document
from langchain_core.indexing import index

from langchain_twinvec import TwinvecRecordManager, TwinvecVectorStore
from twinvec_qdrant import Collection
from words import WordEncoder

SOURCES = 12
BATCH = 4
CLEANUPS = ("incremental", "full", "scoped_full")
AT_WORK = 0.8  # share of the kills that wait until the collection is open


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        finished: Processes that were done before their moment came.
        half: Kills that left documents of both versions.
        served: Documents at the end.
    """

    kills: int = 0
    finished: int = 0
    half: int = 0
    served: int = 0


def corpus(seed: int, version: int) -> list[Document]:
    """The documents of a version, some for each source."""
    documents = []
    for number in range(SOURCES):
        edition = max(
            (step for step in range(version + 1) if random.Random(f"{seed} {number} {step}").random() < 0.6), default=0
        )
        for part in range(random.Random(f"{seed} {number} {edition}").randint(1, 3)):
            text = f"source{number} edition{edition} part{part}"
            documents.append(Document(text, metadata={"source": f"s{number}"}))
    return documents


def work(folder: Path, seed: int, version: int) -> None:
    """What the process to be killed does."""
    encoder = WordEncoder()
    with Collection.open("notes", folder, encoder=encoder, chunking=False, wait_seconds=60) as collection:
        store = TwinvecVectorStore(collection=collection)
        (folder / f"opened-{version}").touch()
        index(
            corpus(seed, version),
            TwinvecRecordManager(store),
            store,
            cleanup=CLEANUPS[version % len(CLEANUPS)],
            source_id_key="source",
            key_encoder="blake2b",
            batch_size=BATCH,
        )


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill at least ``kills`` processes, until enough of them have left both versions, and repair after each kill.

    Raises AssertionError where a check fails.
    """
    rng = random.Random(seed)
    outcome = Outcome()
    work(folder, seed, 0)
    version, duration = 0, seconds_of(work, folder / "timing", seed, 1)
    before = served(folder)
    while outcome.kills < kills or outcome.half <= kills // 10:
        version += 1
        opened = folder / f"opened-{version}"
        opened.unlink(missing_ok=True)  # of a process that was killed with this version
        begun = (opened.exists,) if rng.random() < AT_WORK else ()
        done = not killed(work, folder, seed, version, rng.uniform(0, duration), *begun)
        duration *= 0.8 if done else 1.05  # so that most moments fall within
        outcome.finished += done
        outcome.kills += not done
        found = served(folder)
        new = Counter(each.page_content for each in corpus(seed, version))
        outcome.half += found not in (before, new)
        version += 1 if rng.random() < 0.7 else 0  # else the killed version again
        work(folder, seed, version)
        before = served(folder)
        assert before == Counter(each.page_content for each in corpus(seed, version)), f"seed {seed}, version {version}"
    outcome.served = before.total()
    return outcome


def served(folder: Path) -> Counter[str]:
    """The texts of all documents."""
    with Collection.open("notes", folder, encoder=WordEncoder(), chunking=False, wait_seconds=60) as collection:
        return Counter(document.text for document in collection.get(collection.find()))


if __name__ == "__main__":
    command_line(__doc__, run, kills=100)
