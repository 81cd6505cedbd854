"""Kill a process that brings a huge document, again and again, and count what is encoded more than once.

    python tests/crash/kill_slow_ingest.py --kills 20 --seed 1

The encoder is slow by a clock of its own (``slow.SlowEncoder``), and notes each text in a file before it returns. Each
process is killed (SIGKILL) at a random moment after its first text, and the next one goes on with the same document.
A process encodes a quarter of the texts at most, and then waits until it is killed.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line, killed

from slow import SlowEncoder
from twinvec_qdrant import ChunkSettings, Collection
from twinvec_qdrant.ingest import pace

PARTS = 600
SECONDS = 0.1  # what a text takes by the clock of the encoder
REAL_SECONDS = 0.012
LAST = -1  # the step of the process that is left alone


class NotingEncoder(SlowEncoder):
    """Notes what it encodes. Every text takes some real time, so that kills come while it encodes.

    After ``most`` texts it encodes nothing more, and waits until its process is killed.
    """

    def __init__(self, log: Path, most: int) -> None:
        super().__init__(lambda text: SECONDS, max_tokens=24)
        pace.clock = lambda: self.now
        self._log = log
        self._left = most

    def encode_document(self, texts):
        with self._log.open("a") as log:
            for text in texts:
                while not self._left:
                    time.sleep(1)
                self._left -= 1
                log.write(" ".join(text.split()[:2]) + "\n")
                log.flush()
                time.sleep(REAL_SECONDS)
        return super().encode_document(texts)


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        worst: The most seconds of encoding that one kill has cost, by the encoder's clock.
        repeated: Seconds of encoding that all kills together cost.
        chunks: Chunks at the end.
        whole: Whether the document is there, and nothing else.
    """

    kills: int = 0
    worst: float = 0.0
    repeated: float = 0.0
    chunks: int = 0
    whole: bool = False


def document(seed: int) -> str:
    """The huge document."""
    return "\n\n".join(
        f"part {number} " + " ".join(f"word{seed + number + step}" for step in range(number % 3 + 13))
        for number in range(PARTS)
    )


def work(folder: Path, seed: int, step: int) -> None:
    """What the process to be killed does; at the last step, nobody kills it."""
    settings = ChunkSettings(max_tokens=24)
    encoder = NotingEncoder(folder.with_suffix(".log"), 10 * PARTS if step == LAST else PARTS // 4)
    with Collection.open("notes", folder, encoder=encoder, chunking=settings, wait_seconds=60) as collection:
        collection.ingest([("huge", document(seed))])


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill up to ``kills`` processes in turn, then let one finish."""
    rng = random.Random(seed)
    outcome = Outcome()
    store, log = folder / "store", folder / "store.log"
    before = 0.0
    while outcome.kills < kills and killed(work, store, seed, outcome.kills, rng.uniform(0.5, 2.0), _goes_on(log)):
        outcome.kills += 1
        cost = _repeated(log) - before
        before += cost
        outcome.worst = max(outcome.worst, cost)
    work(store, seed, LAST)
    outcome.worst = max(outcome.worst, _repeated(log) - before)
    outcome.repeated = _repeated(log)
    with Collection.open("notes", store, create=False) as collection:
        outcome.chunks = collection.count()
        (found,) = collection.get(["huge"])
        outcome.whole = collection.verify().sound and found.text.split() == document(seed).split()
    return outcome


def _goes_on(log: Path) -> Callable[[], bool]:
    """Return a function that says whether any text has been encoded since this call."""
    before = _encoded(log).total()
    return lambda: _encoded(log).total() > before


def _repeated(log: Path) -> float:
    """Return how long the texts took that were encoded more than once."""
    return SECONDS * sum(count - 1 for count in _encoded(log).values())


def _encoded(log: Path) -> Counter[str]:
    """Return how often each part of the document was encoded; the probes of the encoder do not count."""
    lines = log.read_text().splitlines() if log.exists() else []
    return Counter(line for line in lines if line.startswith("part "))


if __name__ == "__main__":
    command_line(__doc__, run, kills=20)
