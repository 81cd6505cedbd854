"""Starting time: the time from the start of a process to its answer, in alternating rounds.

    python benchmarks/start.py [--rounds 7] [--output benchmarks/START.md]

The program times ``twinvec search`` in a collection of 500 passages, with a float32 export, with an int8 export, and
with the model itself. It also times the command while ``twinvec serve`` has the store open and answers the search. For
comparison, sentence-transformers is imported, loads the model and encodes the question, without searching.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

from encoding import KINDS, calibration_texts, documentation, make_texts, processor
from twinvec import Encoder
from twinvec.export.model import export_model
from twinvec.models.finding import find_model
from twinvec_qdrant import Collection

QUESTION = "how do I parse the arguments of a command"
PASSAGES = 500
_NO_BYTECODE = "PYTHONDONTWRITEBYTECODE"  # removed below, because an installed package has its bytecode
PEER = """
import sys
from sentence_transformers import SentenceTransformer
SentenceTransformer(sys.argv[1], device="cpu").encode(sys.argv[2])
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as servers:
        commands = prepare(Path(folder), servers)
        seconds: dict[str, list[float]] = {name: [] for name in commands}
        environment = {name: value for name, value in os.environ.items() if name != _NO_BYTECODE}
        for turn in range(options.rounds + 1):  # the first round only fills the file cache, and writes bytecode
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, env=environment, capture_output=True, check=True)
                if turn:
                    seconds[name].append(time.perf_counter() - start)
    lines = [
        "# Starting: results\n",
        f"{processor()}. Command: `python benchmarks/start.py {' '.join(sys.argv[1:])}`; "
        f"{options.rounds} rounds, {PASSAGES} passages in the collection.\n",
        "| | median s | shortest s | longest s |",
        "|---|---|---|---|",
        *(f"| {name} | {median(each):.2f} | {min(each):.2f} | {max(each):.2f} |" for name, each in seconds.items()),
    ]
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def prepare(root: Path, servers: ExitStack) -> dict[str, Sequence[str]]:
    """Fill the collections, and serve a copy of them; return name -> command."""
    words = documentation()
    texts = calibration_texts(words)
    passages = make_texts(words, PASSAGES, *KINDS["passages"])
    models = {
        "exported in float32": str(export_model("default", root / "float32").folder),
        "exported in int8": str(export_model("default", root / "int8", precision="int8", calibrate=texts).folder),
        "default": "default",
    }
    search = str(Path(sys.executable).with_name("twinvec"))
    commands: dict[str, Sequence[str]] = {
        "python -c pass": [sys.executable, "-c", "pass"],
        "import twinvec": [sys.executable, "-c", "import twinvec"],
    }
    for number, (name, model) in enumerate(models.items()):
        collection = f"passages-{number}"
        with Collection.open(collection, path=root / "store", encoder=Encoder(model)) as opened:
            opened.ingest({"id": str(row), "text": text} for row, text in enumerate(passages))
        place = ["--collection", collection, "--path", str(root / "store")]
        commands[f"twinvec search, model {name}"] = [search, "search", QUESTION, *place]
    served = shutil.copytree(root / "store", root / "served")
    server = servers.enter_context(serving(search, served, models["exported in float32"]))
    servers.callback(server.terminate)
    commands["twinvec search, store of twinvec serve"] = [
        search,
        "search",
        QUESTION,
        "-c",
        "passages-0",
        "--path",
        str(served),
    ]
    commands["sentence-transformers: import, load, encode"] = [
        sys.executable,
        "-c",
        PEER,
        str(find_model("default").path),
        QUESTION,
    ]
    return commands


def serving(program: str, store: Path, model: str) -> subprocess.Popen[str]:
    """Start ``twinvec serve`` on a store, and wait until it is ready and has searched once."""
    command = [program, "serve", "--path", str(store), "--model", model, "--port", "0", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    assert server.stdout.readline(), "the server did not start"
    return server


if __name__ == "__main__":
    main()
