"""Pins what the commands print with ``--json``: the keys, and of what kind each value is.

Programs read this output. A key that goes away or holds something else breaks them; a new key does not.
"""

from __future__ import annotations

import contextlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from pins.pinning import encoder_folder, lacking, recorded
from twinvec.cli import main

TEXTS = [f"{kind} number {n} compares two files" for n in range(9) for kind in ("dog", "cat", "Größe", "the lazy fox")]
DOCUMENTS = {
    "cats": "Cats sleep most of the day and hunt at dusk.",
    "dogs": "Dogs bark at strangers and fetch sticks.",
    "moon": "In 1969 two astronauts walked on the moon.",
    "bread": "Bread is made of flour, water, salt and yeast.",
}
QUESTIONS = {f"{name} {n}": f"question {n} about {name}" for name in DOCUMENTS for n in range(3)}
STS = [(5, "A cat sleeps.", "The cat is asleep."), (2, "A cat sleeps.", "A dog barks."), (0, "A", "Bread")]


def values(folder: Path) -> dict[str, Any]:
    """The shape of what each command prints."""
    one, two = (encoder_folder(folder / name, "bert", normalize=name == "one") for name in ("one", "two"))
    _write(folder)
    place = ("--path", folder / "store")
    docs = ("--collection", "docs", *place)
    ir, sts = folder / "ir", folder / "stsb" / "test.tsv"
    commands: dict[str, tuple[Any, ...]] = {
        "encode": ("encode", folder / "texts.txt", "-o", folder / "v.npy", "--model", one),
        "similarity": ("similarity", "a cat", "a dog", "a moon", "--model", one),
        "pairs": ("pairs", folder / "texts.txt", "--model", one),
        "cluster": ("cluster", folder / "texts.txt", "--model", one, "--method", "kmeans", "--clusters", 3),
        "export": ("export", one, "-o", folder / "exported", "--engine", "onnx", "--calibrate", folder / "texts.txt"),
        "ingest, dry run": ("ingest", folder / "docs.jsonl", *docs, "--model", one, "--dry-run"),
        "ingest": ("ingest", folder / "docs.jsonl", *docs, "--model", one),
        "ingest with a failure": ("ingest", folder / "broken.jsonl", *docs),
        "search": ("search", "cats", *docs),
        "search, several": ("search", "cats", "the moon", *docs, "--rerank", "maxsim"),
        "search, chunks": ("search", "cats", *docs, "--chunks", "--mode", "dense", "--filter", "lang=en"),
        "info": ("info", *docs),
        "verify": ("verify", *docs),
        "collections": ("collections", *place),
        "push": ("push", *docs, "--to-path", folder / "other"),
        "tune": ("tune", *docs, "--ir", ir),
        "evaluate": ("evaluate", one, "--sts", sts, "--ir", ir, "--rerank", "maxsim"),
        "evaluate, collection": ("evaluate", *docs, "--ir", ir),
        "compare": ("compare", one, two, "-o", folder / "report", "--ir", ir),
        "train": ("train", folder / "run.yaml", "-o", folder / "trained"),
        "mine": ("mine", folder / "rows.jsonl", "-o", folder / "mined.jsonl", "--model", one),
        "migrate": ("migrate", *docs, "--to", two),
        "migrate, judged": ("migrate", *docs, "--to", one, "--ir", ir),
        "migrate, index": ("migrate", *docs, "--quantization", "int8"),
        "migrate, drop": ("migrate", *docs, "--drop-others"),
        "drop": ("drop", "docs", *place, "--yes"),
    }
    return {name: _shape(_run(*command)) for name, command in commands.items()}


def _write(folder: Path) -> None:
    (folder / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS), encoding="utf-8")
    _lines(folder / "docs.jsonl", [{"id": k, "text": t, "title": k, "lang": "en"} for k, t in DOCUMENTS.items()])
    _lines(folder / "broken.jsonl", [{"id": "cats", "text": "New."}, {"id": "no text"}])
    _lines(folder / "rows.jsonl", [{"anchor": f"what is {n}", "positive": f"it is {n}"} for n in range(8)])
    (folder / "ir" / "qrels").mkdir(parents=True)
    _lines(folder / "ir" / "corpus.jsonl", [{"_id": k, "text": text} for k, text in DOCUMENTS.items()])
    _lines(folder / "ir" / "queries.jsonl", [{"_id": k, "text": text} for k, text in QUESTIONS.items()])
    judged = "".join(f"{query}\t{query.split()[0]}\t1\n" for query in QUESTIONS)
    (folder / "ir" / "qrels" / "test.tsv").write_text(f"query-id\tcorpus-id\tscore\n{judged}")
    pairs = "".join("\t".join(map(str, row)) + "\n" for row in STS)
    (folder / "stsb").mkdir()
    (folder / "stsb" / "test.tsv").write_text(f"score\tsentence1\tsentence2\n{pairs}")
    (folder / "run.yaml").write_text(
        "model: one\nobjective: {name: info_nce}\ndata: [{path: rows.jsonl}]\nbatches: {size: 4}\n"
        "schedule: {steps: 2}\nevaluation: {pairs: rows.jsonl}\ndevice: cpu\n"
    )


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def _run(*command: Any) -> Any:
    """What a command prints; one may fail, and says so on standard error alone."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main([*map(str, command), "--json"])
    assert printed.getvalue(), command
    return json.loads(printed.getvalue())


def _shape(value: Any) -> Any:
    """Keys, and the kind of each value; of a list that of its first."""
    if isinstance(value, dict):
        return {key: _shape(each) for key, each in value.items()}
    if isinstance(value, list):
        return {"list of": _shape(value[0]) if value else "nothing"}
    return "null" if value is None else type(value).__name__


@pytest.mark.slow
def test_every_key_is_there(tmp_path):
    found = values(tmp_path)
    wrong = [text for name, shape in recorded("json").items() for text in lacking(shape, found[name], name)]
    assert not wrong, "\n".join(wrong)
