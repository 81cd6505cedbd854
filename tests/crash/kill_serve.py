"""Kill a server at random moments of an ingest over HTTP, again and again, and look at what is left.

    python tests/crash/kill_serve.py --kills 200 --seed 1

Every process serves the same embedded store, and is sent documents in new editions, a few in each request, until it is
killed (SIGKILL) at a random moment. The next process is asked for all documents: each one must be there in the edition
that was acknowledged last, or in the one that the kill cut off. Every tenth process gets SIGTERM instead: it must end
with 0, and what it has not answered it must not have stored.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line

import models
from twinvec_serve import ServeSettings
from twinvec_serve.process import run as serve

DOCUMENTS = 30
SENT_TOGETHER = 3
TERM_EVERY = 10
PATH = "/v1/collections/notes"
MOST_ANSWERED = 3  # requests that a process answers before it is killed
LONGEST = 0.15  # seconds from an answer to the kill
_START_SECONDS = 120.0
_processes = get_context("forkserver")


@dataclass
class Outcome:
    """What many kills did.

    Attributes:
        kills: Processes killed.
        terminated: Processes that were stopped with SIGTERM.
        acknowledged: Requests that were answered.
        cut: Requests that a kill cut off.
        lost: Documents that were not there in an edition that they could have.
    """

    kills: int = 0
    terminated: int = 0
    acknowledged: int = 0
    cut: int = 0
    lost: int = 0


@dataclass
class Sent:
    """What was sent: for each document, the editions that it may have."""

    possible: dict[str, list[str | None]] = field(
        default_factory=lambda: {f"n{number:03}": [None] for number in range(DOCUMENTS)}
    )
    edition: int = 0


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Kill ``kills`` servers in turn."""
    rng = random.Random(seed)
    model = _model(folder)
    outcome, sent = Outcome(), Sent()
    while outcome.kills < kills:
        terminates = (outcome.kills + outcome.terminated) % TERM_EVERY == TERM_EVERY - 1
        with _server(folder, model) as (process, port):
            _check(port, sent, outcome)
            answered = threading.Semaphore(0)
            client = threading.Thread(target=_send, args=(port, sent, outcome, rng.random(), answered, terminates))
            client.start()
            for _ in range(rng.randint(0, MOST_ANSWERED)):
                assert answered.acquire(timeout=60)
            time.sleep(rng.uniform(0, LONGEST))
            os.kill(process.pid, signal.SIGTERM if terminates else signal.SIGKILL)
            process.join(60)
            client.join(60)
            if terminates:
                assert process.exitcode == 0, process.exitcode
                outcome.terminated += 1
            else:
                outcome.kills += 1
    with _server(folder, model) as (_, port):
        _check(port, sent, outcome)
    return outcome


def _send(
    port: int, sent: Sent, outcome: Outcome, seed: float, answered: threading.Semaphore, terminates: bool
) -> None:
    """Send documents until the server is gone; what it has answered is acknowledged."""
    rng = random.Random(seed)
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    while True:
        sent.edition += 1
        names = rng.sample(sorted(sent.possible), SENT_TOGETHER)
        texts = {
            name: f"{name} in edition {sent.edition}." + " Some more words." * rng.randint(0, 30) for name in names
        }
        body = json.dumps({"documents": [{"id": name, "text": text} for name, text in texts.items()]})
        try:
            connection.request("POST", f"{PATH}/documents", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            report = json.loads(answer.read())
        except (OSError, HTTPException):
            if not terminates:
                outcome.cut += 1
                for name, text in texts.items():
                    sent.possible[name].append(text)
            return
        finally:
            connection.close()
        assert answer.status == 200, report
        assert report["failed"] == 0, report
        outcome.acknowledged += 1
        answered.release()
        for name, text in texts.items():
            sent.possible[name] = [text]


def _check(port: int, sent: Sent, outcome: Outcome) -> None:
    """Look for all documents, and take what is found as what is there."""
    documents = _post(port, f"{PATH}/documents/get", {"ids": sorted(sent.possible)})["documents"]
    found = {each["id"]: each["text"] for each in documents}
    for name, texts in sent.possible.items():
        outcome.lost += found.get(name) not in texts
        sent.possible[name] = [found.get(name)]
    there = sorted(found)[0] if found else None
    if there is not None:
        hits = _post(port, f"{PATH}/search", {"query": there, "mode": "sparse", "limit": 1})["results"][0]["hits"]
        assert hits[0]["id"] == there, hits


def _post(port: int, path: str, body: object) -> dict:
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    content = json.loads(answer.read())
    connection.close()
    assert answer.status in (200, 201, 409), content
    return content


@contextmanager
def _server(folder: Path, model: Path) -> Iterator[tuple]:
    """Start a server, which has the collection, and yield its process and port."""
    ours, theirs = _processes.Pipe(duplex=False)
    process = _processes.Process(target=_serve, args=(theirs, folder / "store", model))
    process.start()
    theirs.close()
    try:
        assert ours.poll(_START_SECONDS), "the server has not started"
        port = ours.recv()
        _post(port, "/v1/collections", {"name": "notes", "chunking": False})
        yield process, port
    finally:
        process.kill()
        process.join()


def _serve(started: Connection, store: Path, model: Path) -> None:
    settings = ServeSettings(path=store, models={"tiny": str(model)}, port=0)
    serve(settings, ready=lambda address: started.send(int(address.rpartition(":")[2])), stopping=lambda: None)


def _model(folder: Path) -> Path:
    """Return a tiny model with its graph."""
    command = [sys.executable, "-m", "twinvec", "export", str(models.build(folder / "built", "bert"))]
    subprocess.run([*command, "-o", str(folder / "tiny")], check=True, capture_output=True)
    return folder / "tiny"


if __name__ == "__main__":
    command_line(__doc__, run, kills=200)
