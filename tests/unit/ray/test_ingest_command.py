"""``twinvec ingest --ray`` fills a collection on a server as the same command does without it."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest
from qdrant_client import QdrantClient

pytestmark = [pytest.mark.slow, pytest.mark.timeout(500)]


def compared(payload):
    """A payload without the revision, which counts a document's writers; words that are as frequent have no order."""
    from twinvec_qdrant.records.words.vocabulary import _unpacked

    words = {"words": _unpacked(payload)} if "words" in payload else {}
    return {**payload, **words, "revision": None}


def points(server, name):
    with closing(QdrantClient(server.url, check_compatibility=False)) as client:
        found, _ = client.scroll(name, limit=10_000, with_vectors=True)
    return {str(each.id): each for each in found}


def test_the_collection_is_that_of_one_process(cluster, exported_model, tmp_path):
    from ray_clusters import environment
    from stand_in import StandIn
    from words import sentences

    texts = sentences(150, seed=1, longest=90)
    rows = [{"id": f"d{row}", "text": text, "part": row % 3} for row, text in enumerate(texts)]
    (tmp_path / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    program = "from twinvec.cli.app import main; main()"
    address = cluster.get_runtime_context().gcs_address
    with StandIn().running() as server:
        command = [sys.executable, "-c", program, "ingest", tmp_path / "docs.jsonl", "--url", server.url, "--json"]
        command += ["--model", exported_model, "-c"]

        def run(name: str, *options: str) -> dict[str, int]:
            done = subprocess.run([*command, name, *options], env=environment(), capture_output=True, text=True)
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)

        counts = run("spread", "--ray", address)
        assert counts["new"] == 150
        assert counts == run("alone")
        found, wanted = points(server, "spread"), points(server, "alone")
        assert len(wanted) > 2 * 150
        assert found.keys() == wanted.keys()
        for key, point in wanted.items():
            assert compared(found[key].payload) == compared(point.payload)
            for vector, values in point.vector.items():
                its = found[key].vector[vector]
                if hasattr(values, "indices"):
                    assert its == values
                else:
                    np.testing.assert_allclose(its, values, atol=1e-5)
        assert run("spread", "--ray", address)["unchanged"] == 150
