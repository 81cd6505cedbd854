"""Two processes that ingest overlapping folders into one collection at the same moment, again and again.

    python tests/crash/two_writers.py --rounds 50 --seed 1 [--url URL]

In every round some files of both folders change, some are new, and about half of the new ones are in both folders. Each
process takes in one folder. Then the collection holds the last version of every file there has been, once, with the
chunks that its record lists and no others. The store is embedded, or a server where a URL is given.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any
from uuid import uuid4

sys.path.insert(0, str(Path(__file__).parents[1]))

from twinvec_qdrant import Collection, read_source
from words import WordEncoder

NEW = 8  # files a round
FOLDERS = ("a", "b")


def opened(place: dict[str, Any]) -> Collection:
    """The collection."""
    return Collection.open(**place, encoder=WordEncoder(max_tokens=16), wait_seconds=120)


def change(root: Path, round_: int, random: Random) -> None:
    """Write the files of a round: new ones, and others over what there was; a file in both folders is the same."""
    known = sorted({path.name for path in root.glob("*/*.txt")})
    for name in [f"{round_}-{number}.txt" for number in range(NEW)] + random.sample(known, min(len(known), NEW)):
        text = "\n\n".join(f"{name} round {round_} part {part} " + "word " * 9 for part in range(random.randint(1, 4)))
        there = [folder for folder in FOLDERS if (root / folder / name).exists()]
        for folder in there or random.choice((FOLDERS, FOLDERS, FOLDERS[:1], FOLDERS[1:])):
            (root / folder / name).write_text(text)


def check(collection: Collection, root: Path) -> int:
    """The collection is the union of the folders, exactly; how many documents it has."""
    expected = {document.id: document.text for folder in FOLDERS for document in read_source(root / folder)}
    assert sorted(collection.find()) == sorted(expected)
    found = {document.id: document.text for document in collection.get(list(expected))}
    assert {name: text.split() for name, text in found.items()} == {
        name: text.split() for name, text in expected.items()
    }
    records = collection._catalog.records(expected).values()
    assert collection.count() == sum(len(record.chunks) for record in records) > len(expected)
    assert collection.verify().sound
    return len(expected)


def run(root: Path, rounds: int, seed: int, url: str | None) -> int:
    """``rounds`` rounds; how many documents there are in the end. Raises AssertionError where a check fails."""
    random = Random(seed)
    place: dict[str, Any] = {"name": f"notes-{uuid4().hex}", **({"url": url} if url else {"path": str(root / "store")})}
    for folder in FOLDERS:
        (root / folder).mkdir()
    documents = 0
    for round_ in range(rounds):
        change(root, round_, random)
        command = [sys.executable, __file__, "--work", json.dumps(place), "--folder"]
        processes = [subprocess.Popen([*command, str(root / folder)]) for folder in FOLDERS]
        assert [process.wait(timeout=300) for process in processes] == [0, 0], f"round {round_}"
        with opened(place) as collection:
            documents = check(collection, root)
    return documents


def main() -> None:
    """Write many rounds, or be one of the writers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url")
    parser.add_argument("--work", type=json.loads, help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work is not None:
        with opened(options.work) as collection:
            report = collection.ingest(read_source(options.folder))
        assert not report.failed, report
        return
    with TemporaryDirectory() as root:
        documents = run(Path(root), options.rounds, options.seed, options.url)
    print(json.dumps({"rounds": options.rounds, "documents": documents}))


if __name__ == "__main__":
    main()
