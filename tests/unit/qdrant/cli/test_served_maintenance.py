"""``twinvec migrate`` and ``twinvec reindex`` on a store that ``twinvec serve`` has: the process does the work."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import sys

import pytest

pytest.importorskip("twinvec_serve")

import models
from unit.qdrant.cli.test_served_store import KEY, READER, twinvec
from unit.serve.processes import serving

pytestmark = pytest.mark.slow

PLACE = ("-c", "rows", "--path", "store")
ROWS = [{"id": f"r{row}", "text": f"Row {row} of certificates.", "team": f"t{row % 3}"} for row in range(30)]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A tiny model, exported, so that a server with it starts without torch."""
    return models.export(tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def filled(tiny, tmp_path_factory):
    """A folder with a store, and another model."""
    folder = tmp_path_factory.mktemp("filled")
    models.build(folder / "other", "bert", truncate_dim=16, seed=1)
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, ROWS)))
    done = twinvec(folder, "ingest", "rows.jsonl", *PLACE, "--model", str(tiny), "--no-chunking")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(filled, tmp_path):
    """A copy of the folder for one test."""
    shutil.copytree(filled, tmp_path / "folder")
    return tmp_path / "folder"


def placeless(text, folder):
    """A text without the place of the store in ``folder``."""
    return text.replace(f"{folder}/", "")


def test_the_commands_print_the_same_as_on_a_store_of_their_own(tiny, filled, folder, tmp_path, twinvec_here):
    """The store is in the folder ``folder`` with a server, and in ``alone`` without one."""
    alone, model = tmp_path / "alone", str(filled / "other")
    shutil.copytree(folder, alone)
    commands = [
        ("reindex", *PLACE, "--quantization", "int8"),
        ("reindex", *PLACE, "--payload-index", "team:keyword", "--json"),
        ("reindex", *PLACE, "--pages", "--no-cut-code"),
        ("reindex", *PLACE, "--payload-index", "team:geo"),
        ("migrate", *PLACE, "--to", model, "--json"),
        ("migrate", *PLACE, "--to", model),
        ("migrate", *PLACE, "--quantization", "none"),
        ("migrate", *PLACE, "--to", str(tiny), "--rate", "100"),
        ("migrate", *PLACE, "--drop-others"),
        ("migrate", *PLACE, "--drop-others", "--json"),
        ("info", *PLACE, "--json"),
    ]
    expected = [twinvec_here(alone, *each) for each in commands]
    with serving(folder, tiny, "--model", model):
        for command, other in zip(commands, expected, strict=True):
            done = twinvec(folder, *command)
            assert done.returncode == other.code, command
            assert placeless(done.stdout, folder) == placeless(other.out, alone), command
            assert placeless(done.stderr, folder) == placeless(other.err, alone), command
    assert {each.code for each in expected} == {0, 1}


def test_tuning_prints_the_same_as_on_a_store_of_its_own_and_the_process_searches_by_the_choice(
    tiny, folder, tmp_path, twinvec_here
):
    """The answers of the judged queries are what a search by vectors finds."""
    texts = [f"row {row}" for row in range(len(ROWS))]
    searched = twinvec_here(folder, "search", *texts, *PLACE, "--mode", "dense", "--json")
    ids = [each["hits"][0]["id"] for each in json.loads(searched.out)["results"]]
    (folder / "judged" / "qrels").mkdir(parents=True)
    queries = [{"_id": f"q{row}", "text": text} for row, text in enumerate(texts)]
    (folder / "judged" / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)))
    rows = [f"q{row}\t{each}\t1" for row, each in enumerate(ids)]
    (folder / "judged" / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]))
    alone = tmp_path / "alone"
    shutil.copytree(folder, alone)
    commands = [
        ("tune", *PLACE, "--ir", "judged"),
        ("tune", *PLACE, "--ir", "judged", "--measure", "mrr@10", "--json"),
        ("tune", *PLACE, "--ir", "judged", "--split", "dev"),
        ("tune", *PLACE),
    ]
    expected = [twinvec_here(alone, *each) for each in commands]
    with serving(folder, tiny):
        for command, other in zip(commands, expected, strict=True):
            done = twinvec(folder, *command)
            assert done.returncode == other.code, (command, done.stderr)
            assert without_times(done.stdout) == without_times(other.out), command
            assert placeless(done.stderr, folder) == placeless(other.err, alone), command
        found = json.loads(twinvec(folder, "search", "certificates", *PLACE, "--json").stdout)
        assert list(found["hits"][0]["scores"]) == ["dense"]
        with (folder / "judged" / "qrels" / "test.tsv").open("a") as file:
            file.write("\nq0\tgone\t1")
        warned = twinvec(folder, "tune", *PLACE, "--ir", "judged", "--json")
        assert (warned.returncode, "warnings" in json.loads(warned.stdout)) == (0, False)
        assert re.search(r"the collection lacks 1 of the \d+ relevant documents, such as 'gone'", warned.stderr)
    assert [each.code for each in expected] == [0, 0, 1, 1]
    assert "chosen: dense; it beats plain hybrid beyond chance" in expected[0].out


def without_times(text):
    """A report of tuning without the times of searches."""
    return re.sub(r"[\d.,]+ ms|\"milliseconds\": {[^}]*}", "", text)


def test_a_folder_is_found_by_its_path_and_a_model_by_its_name(tiny, folder):
    with serving(folder, tiny, "--model", "other=short"):
        done = twinvec(folder, "migrate", *PLACE, "--to", "./other", "--json")
        assert json.loads(done.stdout) == {
            "model": str(folder / "other"),
            "encoded": 30,
            "truncated": 0,
            "switched": True,
        }
        assert json.loads(twinvec(folder, "migrate", *PLACE, "--to", "tiny", "--json").stdout)["encoded"] == 0
        assert json.loads(twinvec(folder, "migrate", *PLACE, "--to", "short", "--json").stdout)["encoded"] == 0


def test_what_the_process_cannot_do_is_said_with_what_to_do(tiny, folder):
    keys = {"TWINVEC_API_KEY": KEY, "TWINVEC_READ_API_KEY": READER}
    with serving(folder, tiny, **keys):
        unknown = twinvec(folder, "migrate", *PLACE, "--to", "other", **keys)
        assert unknown.returncode == 1
        assert f"unknown model '{folder / 'other'}'; this server has tiny" in unknown.stderr
        assert "start twinvec serve with --model other as well as its present ones" in unknown.stderr
        judged = twinvec(folder, "migrate", *PLACE, "--to", "other", "--ir", "judged", **keys)
        assert judged.returncode == 1
        assert "--ir compares the models in the command's own process" in judged.stderr
        cluster = twinvec(folder, "reindex", *PLACE, "--cluster", "replication_factor=2", **keys)
        assert cluster.returncode == 1
        assert "leave --cluster out" in cluster.stderr
        for command in (("migrate", *PLACE, "--drop-others"), ("reindex", *PLACE)):
            refused = twinvec(folder, *command, TWINVEC_READ_API_KEY=READER)
            assert refused.returncode == 1
            assert "the commands read the key from TWINVEC_API_KEY" in refused.stderr
        missing = twinvec(folder, "migrate", "--path", "store", "-c", "none", "--to", "tiny", **keys)
        assert "no collection 'none'; there are: rows" in missing.stderr


def test_an_interrupted_command_leaves_the_migration_to_the_process_and_a_killed_process_to_the_next(tiny, folder):
    command = [sys.executable, "-m", "twinvec", "migrate", *PLACE, "--to", "other", "--rate", "1"]
    with serving(folder, tiny, "--model", "other") as server:
        for sig in (signal.SIGINT, signal.SIGKILL):
            with subprocess.Popen(command, cwd=folder, text=True, stderr=subprocess.PIPE) as process:
                while not (info := json.loads(twinvec(folder, "info", *PLACE, "--json").stdout))["migrating_to"]:
                    assert process.poll() is None, process.stderr.read()
                if sig == signal.SIGINT:
                    process.send_signal(sig)
                    _, errors = process.communicate()
                    assert "the process that serves the store goes on with the work" in errors
                    second = twinvec(folder, "migrate", *PLACE, "--to", "other")
                    assert "a migration of 'rows' to 'other' is under way" in second.stderr
                    assert twinvec(folder, "migrate", *PLACE, "--drop-others").returncode == 0
                else:
                    assert info["chunks_to_migrate"] <= 30
                    server.stop(sig)
                    _, errors = process.communicate()
                    assert "run the same command again to do the rest" in errors
                assert process.returncode != 0
                assert "Traceback" not in errors
    done = twinvec(folder, "migrate", *PLACE, "--to", "other", "--json")  # without a server
    assert json.loads(done.stdout)["switched"]
