"""Training against sentence-transformers on the same pairs: pairs per second, and peak memory.

    python benchmarks/training.py speed --data ../shared/data [--batches 512 8192] [--contenders twinvec] [--steps 2]
    python benchmarks/training.py objective [--rows 16384]

``speed`` runs steps of the default model on ``pairs/nl2bash`` (up to 256 tokens, AdamW). Each contender runs in its own
process with a memory limit, because one of them exceeds it. ``objective`` compares the time of the tiled objective with
that of the four matrix products that it cannot avoid, and measures its extra memory.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEMORY_LIMIT_GB = 20
CONTENDERS = ("twinvec", "MultipleNegativesRankingLoss", "CachedMultipleNegativesRankingLoss")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    speed = commands.add_parser("speed")
    speed.add_argument("--data", type=Path, required=True, help="folder with pairs/")
    speed.add_argument("--batches", type=int, nargs="+", default=[512])
    speed.add_argument("--contenders", nargs="+", default=CONTENDERS, choices=CONTENDERS)
    speed.add_argument("--steps", type=int, default=2, help="measured steps, after one warm-up step")
    speed.add_argument("--device", default="cpu", help="on cuda, the memory is that of the GPU, without a limit")
    speed.add_argument("--precision", default="float32", choices=["float32", "bfloat16"])
    one = commands.add_parser("one", help="one contender, in this process")
    one.add_argument("contender", choices=CONTENDERS)
    one.add_argument("pairs", type=Path)
    one.add_argument("batch", type=int)
    one.add_argument("steps", type=int)
    one.add_argument("device")
    one.add_argument("precision")
    objective = commands.add_parser("objective")
    objective.add_argument("--rows", type=int, default=16384)
    options = parser.parse_args()
    if options.command == "speed":
        compare_speed(options)
    elif options.command == "one":
        print(json.dumps(measure_steps(options)))
    else:
        time_objective(options.rows)


def compare_speed(options: argparse.Namespace) -> None:
    """Print a table: contender, batch, pairs per second, peak memory."""
    print("| batch | contender | pairs/s | peak GB |\n|---|---|---|---|", flush=True)
    for batch in options.batches:
        for contender in options.contenders:
            pairs = options.data / "pairs" / "nl2bash" / "train.jsonl"
            command = [sys.executable, __file__, "one", contender, str(pairs), str(batch), str(options.steps)]
            command += [options.device, options.precision]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                limit = f" above {MEMORY_LIMIT_GB} GB" if options.device == "cpu" else ""
                last = (done.stderr.strip().splitlines() or ["killed"])[-1]
                print(f"| {batch} | {contender} | died{limit}: {last[:60]} | |", flush=True)
            else:
                found = json.loads(done.stdout.strip().splitlines()[-1])
                print(f"| {batch} | {contender} | {found['pairs_s']:.1f} | {found['peak_gb']:.2f} |", flush=True)


def measure_steps(options: argparse.Namespace) -> dict[str, float]:
    """Time whole steps: tokenising, forward, backward, optimiser."""
    contender, batch, device = options.contender, options.batch, options.device
    if device == "cpu":
        resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT_GB * 2**30,) * 2)
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.util import batch_to_device

    from twinvec.models.finding import find_model
    from twinvec.training.losses.negatives_mask import text_hashes

    model = SentenceTransformer(str(find_model("default").path), device=device, model_kwargs={"dtype": "float32"})
    model.train()
    loss = make_loss(contender, model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    rows = [json.loads(line) for line in options.pairs.read_text(encoding="utf-8").splitlines()]

    def step(number: int) -> float:
        taken = [rows[(number * batch + place) % len(rows)] for place in range(batch)]
        arms = []
        for role in ("anchor", "positive"):
            texts = [row[role] for row in taken]
            features = dict(model.preprocess(texts))
            if contender == "twinvec":
                features["text_hash"] = text_hashes(texts)
            arms.append(batch_to_device(features, torch.device(device)))
        optimizer.zero_grad()
        with torch.autocast(device, torch.bfloat16, enabled=options.precision == "bfloat16"):
            value = loss(arms, None)
        value.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return float(value)  # waits until the GPU has finished

    step(0)
    started = time.perf_counter()
    for number in range(1, options.steps + 1):
        step(number)
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if device != "cpu":
        peak = torch.cuda.max_memory_allocated() / 2**30
    return {"pairs_s": batch * options.steps / seconds, "peak_gb": peak}


def make_loss(contender: str, model: Any) -> Any:
    """Return the loss of a contender."""
    from sentence_transformers.sentence_transformer import losses as theirs

    from twinvec.training.losses.modules import EmbeddingLoss, InfoNCELoss

    return EmbeddingLoss(model, InfoNCELoss()) if contender == "twinvec" else getattr(theirs, contender)(model)


def time_objective(rows: int, dim: int = 384, repetitions: int = 3) -> None:
    """Print the time relative to the four products, and the extra memory."""
    import torch

    from twinvec.training.losses.tiled_info_nce import InfoNCESettings, tiled_info_nce

    anchors_BD = torch.randn(rows, dim, requires_grad=True)
    candidates_ND = torch.randn(rows, dim, requires_grad=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    tiled_info_nce(anchors_BD, candidates_ND).backward()  # type: ignore[no-untyped-call]
    extra = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    print(f"{rows} x {rows} x {dim}: extra memory {extra:.0f} MB")

    def products() -> None:
        a, c = anchors_BD.detach(), candidates_ND.detach()
        for start in range(0, rows, 2048):
            scores = a[start : start + 2048] @ c.T
            scores = a[start : start + 2048] @ c.T
            _ = scores @ c, scores.T @ a[start : start + 2048]

    def timed(work: Callable[[], Any]) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    for symmetric in (False, True):
        settings = InfoNCESettings(symmetric=symmetric)
        ratios = []
        for _ in range(repetitions):
            least = timed(products)
            ours = timed(lambda: tiled_info_nce(anchors_BD, candidates_ND, settings).backward())  # type: ignore[no-untyped-call]  # noqa: B023
            ratios.append(ours / least)
        print(f"symmetric={symmetric}: {min(ratios):.2f} to {max(ratios):.2f} times the four products")


if __name__ == "__main__":
    main()
