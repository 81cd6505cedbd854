"""Kill an adopting process at random moments, again and again, and check what both applications read.

    python tests/crash/kill_adoption.py --kills 50 --seed 1

A collection of LangChain's own class is on a server. Every process adopts it and is killed (SIGKILL) at a random
moment. Between the kills, LangChain's application reads all of its documents, and adds, changes and removes some. Once
an adoption has come to its end, twinvec must find every document by vectors and by words as it is now, and the store
must be sound; then a further adoption takes over what has been written since, or a new collection begins.
"""

from __future__ import annotations

import random
import sys
from dataclasses import astuple, dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line, killed, seconds_of
from qdrant_client import QdrantClient

from frameworks_collections import NAME, langchain_store
from stand_in import StandIn
from twinvec.errors import ConfigurationError
from twinvec_qdrant import Collection, adopt_collection
from twinvec_qdrant.adopting import in_place
from words import WordEncoder

DOCUMENTS = 90
PAGE = 10  # few points at a time, so that there are many steps to be killed between
ROUNDS = 2  # adoptions of a collection that come to their end


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        unfinished: Kills after which the collection was not one of twinvec yet.
        adding: Kills while points were added to a collection that had been adopted.
        finished: Adoptions that came to their end.
    """

    kills: int = 0
    unfinished: int = 0
    adding: int = 0
    finished: int = 0

    def suffices(self, kills: int) -> bool:
        """Return whether at least ``kills`` processes were killed, and no count is zero."""
        return self.kills >= kills and min(astuple(self)) > 0


def work(folder: Path, seed: int, number: int) -> None:
    """What the process to be killed does."""
    del seed, number
    in_place._PAGE = PAGE
    adopt_collection(NAME, layout="langchain", encoder=WordEncoder(), url=(folder / "url").read_text())


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill at least ``kills`` processes in turn, until no count is zero; raises AssertionError where a check fails."""
    rng = random.Random(seed)
    outcome = Outcome()
    with StandIn().running() as server:
        (folder / "url").write_text(server.url)
        client = QdrantClient(server.url, check_compatibility=False, timeout=60)
        Application(client, random.Random(seed))
        longest = seconds_of(work, folder, seed, 0)
        while not outcome.suffices(kills):
            client.delete_collection(NAME)
            theirs = Application(client, rng)
            ended = 0
            while ended < ROUNDS and not outcome.suffices(kills):
                dead = killed(work, folder, seed, outcome.kills, rng.uniform(0, longest))
                longest *= 1.05 if dead else 0.8  # so that most moments fall within
                outcome.kills += dead
                theirs.check()
                is_ours = _is_ours(server.url)
                assert is_ours or not (ended or not dead)
                outcome.unfinished += not is_ours
                outcome.adding += dead and is_ours
                if not dead or (is_ours and not ended):  # what comes after the last write may be killed
                    ended += 1
                    outcome.finished += 1
                    check(server.url, theirs.texts)
                theirs.write()
        client.close()
    return outcome


class Application:
    """LangChain's application, and the texts that it has written, by id."""

    def __init__(self, client: QdrantClient, rng: random.Random) -> None:
        self._store = langchain_store(client, WordEncoder())
        self._rng = rng
        self._count = 0
        self.texts: dict[str, str] = {}
        self._put([self._new_id() for _ in range(DOCUMENTS)])

    def write(self) -> None:
        """Add some documents, change some, and remove some."""
        gone = self._rng.sample(sorted(self.texts), 2)
        self._store.delete(gone)
        for key in gone:
            del self.texts[key]
        self._put([*self._rng.sample(sorted(self.texts), 3), *(self._new_id() for _ in range(4))])

    def check(self) -> None:
        """Read all documents, by ids and by a search."""
        found = self._store.similarity_search("note", k=2 * len(self.texts) + 9)
        assert {each.metadata["_id"]: each.page_content for each in found} == self.texts
        assert all(each.metadata["text"] == each.page_content for each in found)

    def _new_id(self) -> str:
        self._count += 1
        return f"00000000-0000-4000-8000-{self._count:012}"

    def _put(self, ids: list[str]) -> None:
        texts = [f"note {key[-4:]} about topic {self._rng.randrange(10**6)}" for key in ids]
        self._store.add_texts(texts, [{"text": text} for text in texts], ids=ids)
        self.texts.update(zip(ids, texts, strict=True))


def check(url: str, texts: dict[str, str]) -> None:
    """Twinvec finds every document as it is now, by vectors and by words, and nothing else."""
    with Collection.open(NAME, url=url, encoder=WordEncoder(), create=False) as collection:
        assert collection.verify().sound
        assert set(collection.find()) == texts.keys()
        assert {each.id: each.text for each in collection.get(list(texts))} == texts
        for mode in ("dense", "sparse"):
            for key, hits in zip(texts, collection.search_many(list(texts.values()), 9, mode), strict=True):
                best = [hit.id for hit in hits if hit.score > hits[0].score - 1e-5]  # few numbers: some are equal
                assert key in best, mode


def _is_ours(url: str) -> bool:
    try:
        with Collection.open(NAME, url=url, encoder=WordEncoder(), create=False):
            return True
    except ConfigurationError:
        return False


if __name__ == "__main__":
    command_line(__doc__, run, kills=50)
