"""``twinvec questions``, with a server that plays the language model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import pytest

from chat_server import chat_server, completion, questions
from twinvec_qdrant import Collection

ANIMALS = (
    "bees",
    "otters",
    "herons",
    "badgers",
    "foxes",
    "newts",
    "adders",
    "lapwings",
    "hares",
    "voles",
    "owls",
    "trout",
)
HABITS = ("sleep in {place} until March, said the ranger {number}", "were counted in {place} by {number} children")
PLACES = ("the old quarry", "a reed bed", "the orchard wall", "a hollow ash")


@pytest.fixture(scope="module")
def store(tmp_path_factory, encoder):
    path = tmp_path_factory.mktemp("store")
    texts = [
        (f"{animal}/{row}.md", f"The {animal} {habit.format(place=PLACES[row % 4], number=1000 * row + at)}.")
        for at, animal in enumerate(ANIMALS)
        for row, habit in enumerate(HABITS * 2)
    ]
    with Collection.open("docs", path=path, encoder=encoder) as collection:
        collection.ingest(texts)
    return path


@pytest.fixture(autouse=True)
def no_keys(monkeypatch):
    for name in ("TWINVEC_LLM_KEY", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def chat():
    with chat_server() as running:
        yield running


def command(store, url, folder, *more):
    place = ("--collection", "docs", "--path", store)
    return ("questions", *place, "--llm-url", url, "--llm", "small", "-o", folder / "pairs.jsonl", *more)


def test_questions_are_written_and_told(twinvec, store, chat, tmp_path):
    like = tmp_path / "like.txt"
    like.write_text("where do they winter\n\nhow many are there\n")
    judged = ("--judged", tmp_path / "judged", "--share", "0.3", "--like", like)
    done = twinvec(*command(store, chat.url, tmp_path, *judged, "--passages", "30"))
    assert done.code == 0, done.err
    rows = (tmp_path / "pairs.jsonl").read_text().splitlines()
    queries = (tmp_path / "judged" / "queries.jsonl").read_text().splitlines()
    assert f"pairs.jsonl: {len(rows)} pairs; {tmp_path}/judged: {len(queries)} judged queries\n" in done.out
    assert re.search(r"^  chunks asked about +30$", done.out, re.MULTILINE)
    assert len(chat.prompts) == 30
    assert all("- where do they winter\n" in prompt for prompt in chat.prompts)
    assert twinvec(*command(store, chat.url, tmp_path)).err.endswith("exists already; remove it, or name another\n")
    assert len(chat.prompts) == 30


def test_a_program_gets_the_counts(twinvec, store, chat, tmp_path):
    done = twinvec(*command(store, chat.url, tmp_path, "--passages", "9", "--each", "1", "--keep-rank", "0", "--json"))
    assert json.loads(done.out) == {
        **dict.fromkeys(("short", "unanswered", "malformed", "copied", "repeated", "unfound", "judged"), 0),
        **dict.fromkeys(("passages", "asked", "questions", "pairs"), 9),
    }


def test_a_refusal_ends_the_command(twinvec, store, chat, tmp_path, monkeypatch):
    monkeypatch.setenv("TWINVEC_LLM_KEY", "sk-secret")
    chat.say = lambda _: (401, {}, b'{"error": {"message": "bad key sk-secret"}}')
    done = twinvec(*command(store, chat.url, tmp_path))
    assert done.code == 1
    assert f"twinvec: {chat.url}: the key is missing or wrong: set TWINVEC_LLM_KEY" in done.err
    assert "sk-secret" not in done.out + done.err
    assert not (tmp_path / "pairs.jsonl").exists()


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (("--llm-url", "localhost:11434"), "the address of the language model is"),
        (("--llm-url", "https://api.openai.com/v1"), "OpenAI needs a key"),
        (("--share", "0.2"), "--share needs --judged"),
        (("--judged", "judged", "--share", "1.5"), "share must lie between 0 and 1"),
        (("--judged", "judged", "--share", "0"), "share must lie between 0 and 1"),
        (("--url", "http://localhost:1"), "give --path or --url"),
        (("--parallel", "0"), "greater than or equal to 1"),
    ],
)
def test_wrong_usage(twinvec, store, tmp_path, more, told):
    done = twinvec(*command(store, "http://localhost:1/v1", tmp_path, *more))
    assert done.code == 2
    assert told in " ".join(done.err.replace("│", " ").split())


def test_the_examples_are_no_output(twinvec, store, tmp_path):
    (tmp_path / "pairs.jsonl").write_text("real questions\n")
    done = twinvec(*command(store, "http://localhost:1/v1", tmp_path, "--like", tmp_path / "pairs.jsonl"))
    assert "would overwrite" in done.err


class Holding:
    """Answers ``count`` prompts; holds the others until ``released``."""

    def __init__(self, count):
        self.left = count
        self.answered = []
        self.held = threading.Semaphore(0)
        self.released = threading.Event()
        self.lock = threading.Lock()

    def __call__(self, prompt):
        with self.lock:
            self.left -= 1
            holds = self.left < 0 and not self.released.is_set()
        if holds:
            self.held.release()
            self.released.wait(120)
            return 500, {}, b""  # to a process that is dead
        self.answered.append(prompt)
        return completion(questions(prompt))


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_goes_on_and_pays_for_no_answer_twice(twinvec, store, chat, tmp_path, how):
    more = ("--judged", "judged", "--parallel", "3")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        folder.mkdir()
    program = "from twinvec.cli.app import main; main()"

    def start(folder):
        arguments = map(str, command(store, chat.url, folder, *more))
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(os.path.abspath, sys.path))}
        return subprocess.Popen([sys.executable, "-c", program, *arguments], cwd=folder, env=environment, stderr=-1)

    assert start(whole).wait(300) == 0
    assert len(chat.prompts) == 48
    chat.prompts.clear()
    chat.say = holding = Holding(10)
    with start(broken) as process:
        for _ in range(3):
            assert holding.held.acquire(timeout=300)
        while len((broken / "pairs.jsonl.partial").read_bytes().splitlines()) < 11:  # the first names the job
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(how)
        told = process.communicate(timeout=300)[1].decode()
    assert process.returncode == (-9 if how == signal.SIGKILL else 130)
    assert how == signal.SIGKILL or "twinvec: interrupted; run the same command again" in told
    holding.released.set()
    assert start(broken).wait(300) == 0
    assert len(chat.prompts) == 48 + 3  # those that nobody has answered
    assert len(holding.answered) == 48
    assert Counter(holding.answered).most_common(1)[0][1] == 1
    for name in ("pairs.jsonl", "judged/queries.jsonl", "judged/qrels/test.tsv"):
        assert (whole / name).read_bytes() == (broken / name).read_bytes()


RUN = """
model: default
objective: {name: info_nce}
data:
  - path: rows.jsonl
batches: {size: 8}
schedule: {steps: 4, learning_rate: 1.0e-5}
"""


@pytest.mark.slow
def test_the_whole_loop(twinvec, store, chat, tmp_path, monkeypatch):
    """The other commands take both outputs as they are."""
    monkeypatch.chdir(tmp_path)
    place = ("--collection", "docs", "--path", store)

    def ran(*arguments):
        done = twinvec(*arguments)
        assert done.code == 0, done.err
        return done.out

    ran(*command(store, chat.url, tmp_path, "--judged", "judged", "--share", "0.4"))
    mined = json.loads(ran("mine", "pairs.jsonl", "-o", "rows.jsonl", *place, "--json"))
    assert mined["rows"] == len((tmp_path / "pairs.jsonl").read_text().splitlines()) > 40
    assert mined["unfound"] == 0
    assert mined["negatives"] > mined["rows"]
    (tmp_path / "run.yaml").write_text(RUN)
    assert "4 steps" in ran("train", "run.yaml", "-o", "tuned")
    (tmp_path / "pairs.yaml").write_text(RUN.replace("rows.jsonl", "pairs.jsonl"))
    assert "4 steps" in ran("train", "pairs.yaml", "-o", "tuned-by-pairs")
    measured = json.loads(ran("evaluate", *place, "--ir", "judged", "--json"))
    assert measured["ir"]["judged"]["ndcg@10"] > 30
    ran("tune", *place, "--ir", "judged")
    out = ran("migrate", *place, "--to", "tuned", "--ir", "judged", "--allow-truncation")
    assert "ndcg@10 after" in out
