"""Serving embeddings: ``twinvec serve`` against infinity-emb, and against ``Encoder.encode`` in a process, in rounds.

    python -m venv build/infinity
    build/infinity/bin/pip install torch==2.13.0 "click<8.2" "infinity-emb[server,torch]==0.0.78"
    python benchmarks/serving.py --infinity build/infinity [--rounds 3] [--seconds 5] [--minutes 10]
        [--output benchmarks/SERVING.md]

All contenders serve the default model on the CPU. A second ``twinvec serve`` has its int8 export. A third one computes
in bfloat16, if OpenVINO supports this on the processor. In every round, each contender in turn answers 1, 8 and 64
clients that send one short text after the other, and one client that sends 256 texts at once. The other contenders are
idle meanwhile. ``serving_load.py`` sends the load, in a process of its own. ``Encoder.encode`` gets as many texts in
one call as the server has clients. A ratio is the median over the rounds of the ratio in a round, so that other load on
the machine affects all alike. Without ``--infinity``, only twinvec's servers and encoder are measured.

Then 32 clients embed, rerank and search for ``--minutes``, while a thread ingests documents. The table has the answers
by status, the latencies, and the growth of the server's memory.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np

from encoding import KINDS, documentation, make_texts, processor
from twinvec import Encoder
from twinvec.engines.openvino import has_bfloat16
from twinvec.export.model import export_model
from twinvec.models.finding import find_model

CASES = ((1, 1), (8, 1), (64, 1), (1, 256))
"""Clients, and texts of each request."""

OURS, INFINITY, ENCODER = "twinvec serve", "infinity", "Encoder.encode"
INT8, BFLOAT16 = f"{OURS}, int8", f"{OURS}, bfloat16"
CALIBRATION_TEXTS = 300
DOCUMENTS = 500
MIXED_CLIENTS = 32
OWN, MAPPED = "RssAnon", "RssFile"
LOAD = Path(__file__).with_name("serving_load.py")

Texts = list[str]


@dataclass
class Measured:
    """The measurements of a contender in one case: one value for each round."""

    rates: list[float] = field(default_factory=list)
    medians: list[float] = field(default_factory=list)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--infinity", type=Path, help="environment with infinity-emb")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--minutes", type=float, default=10.0, help="minutes of the mixed load; 0 for none")
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    words = documentation()
    sections = [
        "# Serving: results\n",
        f"{processor()}. Command: `python benchmarks/serving.py {' '.join(sys.argv[1:])}`.\n",
    ]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        port, pid = stack.enter_context(twinvec_server(Path(folder) / "float32"))
        int8 = exported_in_int8(Path(folder) / "model", words)
        servers = {OURS: port, INT8: stack.enter_context(twinvec_server(Path(folder) / "int8", int8))[0]}
        if has_bfloat16():
            server = twinvec_server(Path(folder) / "bfloat16", precision="bfloat16")
            servers[BFLOAT16] = stack.enter_context(server)[0]
        if options.infinity:
            servers[INFINITY] = stack.enter_context(infinity_server(options.infinity))
        sections.append(compare(servers, make_texts(words, 20_000, *KINDS["short queries"]), options))
        if options.minutes:
            sections.append(mixed_load(port, pid, words, options.minutes))
    print("\n".join(sections))
    if options.output:
        options.output.write_text("\n".join(sections) + "\n", encoding="utf-8")


@contextmanager
def twinvec_server(store: Path, model: str = "default", precision: str = "auto") -> Iterator[tuple[int, int]]:
    """Run ``twinvec serve`` with a store and a model, named "default"; yield its port and process id."""
    command = [str(Path(sys.executable).with_name("twinvec")), "serve", "--json", "--port", "0"]
    options = ["--path", str(store), "--model", f"{model}=default", "--precision", precision]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            ready = json.loads(process.stdout.readline())
            yield int(ready["address"].rpartition(":")[2]), ready["pid"]
        finally:
            process.terminate()


def exported_in_int8(folder: Path, words: list[str]) -> str:
    """Export the default model in int8; return its folder."""
    texts = make_texts(words, CALIBRATION_TEXTS, *KINDS["passages"], 1)
    return str(export_model("default", folder, precision="int8", calibrate=texts).folder)


@contextmanager
def infinity_server(environment: Path) -> Iterator[int]:
    """Run infinity with the default model's folder, named "default"; yield its port."""
    port = 7997
    folder = shutil.copytree(find_model("default").path, Path(tempfile.mkdtemp()) / "default")
    command = [str(environment / "bin" / "infinity_emb"), "v2", "--model-id", str(folder), "--port", str(port)]
    options = ["--served-model-name", "default", "--engine", "torch", "--device", "cpu", "--no-bettertransformer"]
    with subprocess.Popen(
        [*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=_clean_environment()
    ) as process:
        try:
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{port}/health").raise_for_status()
                    break
                except httpx.HTTPError:
                    assert process.poll() is None, "infinity has ended"
                    time.sleep(0.5)
            yield port
        finally:
            process.terminate()
            shutil.rmtree(folder.parent)


def _clean_environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | {"HF_HUB_OFFLINE": "1"}


def compare(servers: dict[str, int], texts: Texts, options: argparse.Namespace) -> str:
    """Let the contenders answer in turn; return the table."""
    found: dict[tuple[int, int], dict[str, Measured]] = {}
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as encoder:
        encoder.submit(encode_in_turn, texts[:256], 256, 1.0).result()
        for turn in range(options.rounds):
            for clients, each in CASES:
                case = found.setdefault((clients, each), {})
                shifted = texts[turn * 4096 :] + texts[: turn * 4096]
                for name, port in servers.items():
                    lines = embedding_requests("/embeddings" if name == INFINITY else "/v1/embeddings", shifted, each)
                    send(port, lines, clients, 0.5)
                    note(case, name, *rate_of(send(port, lines, clients, options.seconds), each))
                size = max(clients, each)
                note(case, ENCODER, *encoder.submit(encode_in_turn, shifted, size, options.seconds).result())
    return table(found)


def embedding_requests(path: str, texts: Texts, each: int) -> list[str]:
    return [
        json.dumps([path, {"model": "default", "input": texts[start] if each == 1 else texts[start : start + each]}])
        for start in range(0, len(texts) - each + 1, each)
    ]


def send(port: int, lines: list[str], clients: int, seconds: float) -> dict[str, Any]:
    """Run ``serving_load.py``, and return its measurements."""
    command = [sys.executable, str(LOAD), "--port", str(port), "--clients", str(clients), "--seconds", str(seconds)]
    done = subprocess.run(command, input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def rate_of(result: dict[str, Any], each: int) -> tuple[float, float]:
    """Return texts per second, and the median of the milliseconds of a request."""
    assert result["statuses"].keys() == {"200"}, result["statuses"]
    return each * len(result["milliseconds"]) / result["seconds"], median(result["milliseconds"])


def note(case: dict[str, Measured], name: str, rate: float, milliseconds: float) -> None:
    measured = case.setdefault(name, Measured())
    measured.rates.append(rate)
    measured.medians.append(milliseconds)


@cache
def loaded() -> Encoder:
    return Encoder("default")


def encode_in_turn(texts: Texts, size: int, seconds: float) -> tuple[float, float]:
    """Encode ``size`` texts a call for some seconds; return texts per second, and the median milliseconds of a call."""
    encoder, times = loaded(), []
    end = time.perf_counter() + seconds
    start = 0
    while (before := time.perf_counter()) < end:
        encoder.encode(texts[start : start + size])
        times.append(1000 * (time.perf_counter() - before))
        start = (start + size) % (len(texts) - size + 1)
    return 1000 * size * len(times) / sum(times), median(times)


def table(found: dict[tuple[int, int], dict[str, Measured]]) -> str:
    """Return the rates and their ratios as a table of Markdown."""
    faster = [name for name in (INT8, BFLOAT16) if name in next(iter(found.values()))]
    columns = ["load", INFINITY, OURS, f"times {INFINITY}", f"{ENCODER}, one call", "share of it", "ms over it"]
    columns += [column for name in faster for column in (name, f"times {INFINITY}")]
    rows = [columns, ["---"] * len(columns)]
    for (clients, each), case in found.items():
        over = median(a - b for a, b in zip(case[OURS].medians, case[ENCODER].medians, strict=True))
        row = [f"{clients} client{'s' * (clients > 1)}, {each} text{'s' * (each > 1)} a request", shown(case, INFINITY)]
        row += [shown(case, OURS), f"{ratio(case, OURS, INFINITY):.1f}"]
        row += [shown(case, ENCODER), f"{ratio(case, OURS, ENCODER):.0%}", f"{over:.1f}"]
        row += [cell for name in faster for cell in (shown(case, name), f"{ratio(case, name, INFINITY):.1f}")]
        rows.append(row)
    lines = ["Texts a second, median of the rounds; in brackets, the median time of a request in ms.\n"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines) + "\n"


def shown(case: dict[str, Measured], name: str) -> str:
    """Return a cell of the table: a contender's rate and median time, or a dash if it has not been measured."""
    return f"{median(case[name].rates):.0f} ({median(case[name].medians):.1f})" if name in case else "-"


def ratio(case: dict[str, Measured], ours: str, other: str) -> float:
    """Return the median of the rounds' ratios of rates, or NaN if the other contender was not measured."""
    if other not in case:
        return float("nan")
    return median(a / b for a, b in zip(case[ours].rates, case[other].rates, strict=True))


def mixed_load(port: int, pid: int, words: list[str], minutes: float) -> str:
    """Let 32 clients embed, rerank and search while documents are ingested; return the report in Markdown."""
    address = f"http://127.0.0.1:{port}"
    httpx.post(f"{address}/v1/collections", json={"name": "load"}, timeout=60).raise_for_status()
    ended, ingested, memory = threading.Event(), Ingested(), [resident(pid)]
    ingest(address, words, 0, ingested)
    ingesting = threading.Thread(target=ingest_until, args=(ended, address, words, ingested))
    watching = threading.Thread(target=watch, args=(ended, pid, memory))
    ingesting.start()
    watching.start()
    try:
        result = send(port, mixed_requests(words), MIXED_CLIENTS, 60 * minutes)
    finally:
        ended.set()
        ingesting.join()
        watching.join()
    statuses = ", ".join(f"{status}: {count:,}" for status, count in sorted(result["statuses"].items()))
    p50, p99 = np.percentile(result["milliseconds"], (50, 99))
    kinds = [grown(memory, kind) for kind in (OWN, MAPPED)]
    return "\n".join(
        [
            f"## {minutes:g} minutes of {MIXED_CLIENTS} clients, with an ingest beside them\n",
            "The clients take turns between four requests: one short text, 16 passages, 20 texts to rerank by MaxSim, "
            "and a hybrid search.\n",
            "| answers by status | p50 ms | p99 ms | ingested documents | errors of ingests | own memory MB | growth | "
            "mapped files MB | growth |",
            "|---|---|---|---|---|---|---|---|---|",
            f"| {statuses} | {p50:.0f} | {p99:.0f} | {ingested.documents:,} | {ingested.errors} | "
            f"{' | '.join(kinds)} |\n",
            f"The ingest replaces the same {DOCUMENTS} documents again and again. Growth is from the second fifth of "
            "the time to the last. Mapped files are pages of the store's files and of libraries that the kernel keeps "
            "in memory; it frees them when other processes need memory.\n",
        ]
    )


def mixed_requests(words: list[str]) -> list[str]:
    short, passages = (
        make_texts(words, 4000, *KINDS["short queries"], 1),
        make_texts(words, 4000, *KINDS["passages"], 1),
    )
    lines = []
    for row in range(1000):
        some = passages[4 * row : 4 * row + 4]
        lines += [
            json.dumps(["/v1/embeddings", {"input": short[row]}]),
            json.dumps(["/v1/embeddings", {"input": [passages[(16 * row + at) % 4000] for at in range(16)]}]),
            json.dumps(["/v2/rerank", {"query": short[1000 + row], "documents": some * 5, "top_n": 3}]),
            json.dumps(["/v1/collections/load/search", {"query": short[2000 + row], "limit": 10}]),
        ]
    return lines


@dataclass
class Ingested:
    """Counts of documents and errors of the ingests."""

    documents: int = 0
    errors: int = 0


def ingest_until(ended: threading.Event, address: str, words: list[str], ingested: Ingested) -> None:
    turn = 0
    while not ended.wait(0.2):
        turn += 1
        ingest(address, words, turn, ingested)


def ingest(address: str, words: list[str], turn: int, ingested: Ingested) -> None:
    """Ingest the same ids with changing texts; if the server is busy, retry later."""
    texts = make_texts(words, DOCUMENTS, *KINDS["passages"], turn)
    lines = "".join(json.dumps({"id": str(row), "text": text}) + "\n" for row, text in enumerate(texts))
    answer = httpx.post(
        f"{address}/v1/collections/load/documents",
        content=lines,
        headers={"Content-Type": "application/x-ndjson"},
        timeout=3600,
    )
    if answer.status_code == 200:
        ingested.documents += DOCUMENTS
    elif answer.status_code != 429:
        ingested.errors += 1


def watch(ended: threading.Event, pid: int, memory: list[dict[str, int]]) -> None:
    while not ended.wait(1):
        memory.append(resident(pid))


def resident(pid: int) -> dict[str, int]:
    """Return the resident memory of a process in MB, by the kind of memory."""
    status = Path(f"/proc/{pid}/status").read_text()
    fields = (line.split() for line in status.splitlines() if line.startswith("Rss"))
    return {name.rstrip(":"): int(kilobytes) // 1024 for name, kilobytes, _ in fields}


def grown(memory: list[dict[str, int]], kind: str) -> str:
    """Return the median memory of this kind in the last fifth of the run, and its growth since the second fifth."""
    fifth = len(memory) // 5
    first, last = (median(each[kind] for each in part) for part in (memory[fifth : 2 * fifth], memory[-fifth:]))
    return f"{last:.0f} | {last / first - 1:+.1%}"


if __name__ == "__main__":
    main()
