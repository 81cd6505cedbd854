"""The commands of collections on a server with every limit of strict mode on."""

from __future__ import annotations

import json

import pytest


@pytest.fixture
def articles(tmp_path):
    """A file of 30 documents."""
    lines = [
        {"id": f"n{row:02}", "text": f"note {row} " + "word " * (row % 5), "team": f"t{row % 3}"} for row in range(30)
    ]
    (tmp_path / "articles.jsonl").write_text("\n".join(map(json.dumps, lines)))
    return tmp_path / "articles.jsonl"


def figures(done):
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.mark.slow
def test_every_command_keeps_to_the_limits(twinvec, strict, clock, articles, tiny_model, tmp_path):
    place = ("--collection", "notes", "--url", strict.url, "--wait", 30, "--json")
    assert figures(twinvec("ingest", articles, *place, "--model", tiny_model("bert")))["new"] == 30
    lines = articles.read_text().splitlines()
    articles.write_text("\n".join([line.replace("note", "newer note") for line in lines[:10]] + lines[10:20]))
    report = figures(twinvec("ingest", articles, *place, "--prune"))
    assert (report["updated"], report["unchanged"], report["deleted"]) == (10, 10, 10)
    for mode in ("dense", "sparse", "hybrid"):
        found = figures(twinvec("search", "note 7 word", *place, "--mode", mode, "--limit", 15, "--filter", "team=t1"))
        assert {hit["payload"]["team"] for hit in found["hits"]} == {"t1"}
    assert len(figures(twinvec("search", "note 7 word", *place, "--rerank", "maxsim"))["hits"]) == 10
    assert figures(twinvec("info", *place))["points"] == 20
    assert figures(twinvec("verify", *place, "--repair"))["sound"]
    assert figures(twinvec("reindex", *place, "--quantization", "int8"))["recall"] is None
    pushed = figures(twinvec("push", *place, "--to-path", tmp_path / "copy"))
    assert pushed["copied"] == 20
    there = ("--collection", "notes", "--path", tmp_path / "copy", "--json", "--wait", 30)
    assert figures(twinvec("push", *there, "--to-url", strict.url, "--to-collection", "copied"))["copied"] == 20
    assert figures(twinvec("migrate", *place, "--to", tiny_model("bert", seed=1)))["switched"]
    figures(twinvec("migrate", *place, "--drop-others"))
    store = ("--url", strict.url, "--json")
    assert len(figures(twinvec("collections", *store))["collections"]) == 2
    assert figures(twinvec("drop", "notes", *store, "--yes")) == {"dropped": "notes"}
    assert clock.pauses, "the budgets were used up"
    assert max(clock.pauses) <= 30
