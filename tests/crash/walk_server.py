"""The walk of ``walk_collection`` over a collection on a strict server that cuts connections at random.

    python tests/crash/walk_server.py --kills 200 --seed 1

The server is the stand-in of the tests. It closes connections before and after a request, and says that it is busy.
Backups and renamed folders are of embedded stores only.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from killing import command_line
from qdrant_client.models import StrictModeConfig
from walk_collection import Outcome
from walk_collection import run as walk

from stand_in import Fault, StandIn

STRICT = StrictModeConfig(
    enabled=True,
    unindexed_filtering_retrieve=False,
    unindexed_filtering_update=False,
    max_query_limit=1000,
    upsert_max_batchsize=7,
    search_max_batchsize=3,
    filter_max_conditions=8,
)


def run(folder: Path, kills: int, seed: int) -> Outcome:
    """Take steps until ``kills`` processes have been killed. Raise AssertionError if a comparison fails."""
    rng = Random(seed)

    def fault(method: str, path: str) -> Fault | None:
        del method, path
        return rng.choice((Fault.REFUSED, Fault.DROPPED, Fault.BUSY)) if rng.random() < 0.05 else None

    with StandIn().running() as server:
        server.be_strict(STRICT)
        server.fault = fault
        return walk(folder, kills, seed, server.url)


if __name__ == "__main__":
    command_line(__doc__, run, kills=200)
