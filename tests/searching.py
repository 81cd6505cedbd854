"""A process that searches a collection without a pause while others migrate it; started by the tests of serving."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from twinvec_qdrant import Collection, opening
from words import WordEncoder

QUERY = "note about tea"
NOTES = {f"n{number:02}": f"note {number} about {topic}" for number, topic in enumerate(["tea", "bread", "rain"] * 4)}
MODELS = {f"words-{seed}": WordEncoder(seed=seed, dim=32 + 16 * seed) for seed in range(3)}


def load(name: str, options: object = None, precision: str = "auto") -> WordEncoder:
    """Stands for loading a recorded model by its name."""
    del options, precision
    return MODELS[name]


@contextmanager
def loading(monkeypatch) -> Iterator[None]:
    """Let collections load these models within the block."""
    with monkeypatch.context() as patched:
        patched.setattr(opening, "load_space_encoder", load)
        yield


def cosines(encoder: WordEncoder) -> dict[str, float]:
    """What a collection of the encoder's model answers: all notes with their cosines."""
    query = encoder.encode_query([QUERY])[0]
    vectors = encoder.encode_document(list(NOTES.values()))
    found = vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query)
    return dict(zip(NOTES, found.tolist(), strict=True))


class Searching(threading.Thread):
    """A thread that searches until ``over`` is set, and notes whose model has answered, in order, or what failed."""

    def __init__(self, search: Callable[[], list], over: threading.Event) -> None:
        super().__init__()
        self.models: list[str] = []
        self.searches = 0
        self.failure = ""
        self._search = search
        self._over = over

    def run(self) -> None:
        answers = {name: cosines(encoder) for name, encoder in MODELS.items()}
        while not self._over.is_set() and not self.failure:
            try:
                found = {hit.id: hit.scores["dense"] for hit in self._search()}
            except Exception as error:  # a thread that dies in silence would pass for one that searched
                self.failure = f"{type(error).__name__}: {error}"
                return
            self.searches += 1
            name = next((name for name, each in answers.items() if _equal(found, each)), f"nobody: {found}")
            if self.models[-1:] != [name]:
                self.models.append(name)
            if name not in answers:
                self.failure = name

    def wait_for(self, more: int) -> None:
        """Wait until this number of further searches has ended. The second of them has begun after this call."""
        enough = self.searches + more
        while self.searches < enough and self.is_alive():
            self.join(0.01)


def _equal(found: dict[str, float], expected: dict[str, float]) -> bool:
    return found.keys() == expected.keys() and all(abs(found[key] - expected[key]) < 1e-5 for key in found)


def main(url: str) -> None:
    """Search until the input ends; say "ready" after the first search, and at the end what came of it."""
    opening.load_space_encoder = load
    over = threading.Event()
    with Collection.open("notes", url=url, encoder=MODELS["words-0"], wait_seconds=60) as collection:
        thread = Searching(lambda: collection.search(QUERY, 50, "dense"), over)
        thread.start()
        thread.wait_for(1)
        print("ready", flush=True)
        sys.stdin.read()
        thread.wait_for(2)  # what is under way may have begun before the last migration
        over.set()
        thread.join()
    print(thread.failure or " ".join(thread.models), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
