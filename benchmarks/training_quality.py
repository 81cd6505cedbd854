"""The gain of training on question-answer pairs, compared with sentence-transformers' loss on the same rows.

    python benchmarks/training_quality.py --data ../shared/data [--sets nl2bash medquad nl2bash+medquad] [--seeds 0 1 2]

The default model is trained on ``pairs/SET/train.jsonl`` (of all sets joined by ``+``, in one run) and measured on
``test.jsonl``: each anchor's partner must be found among all 1,000 positives. STS-B (test) shows whether the model gets
worse at other tasks. The peer runs ``SentenceTransformerTrainer`` with ``MultipleNegativesRankingLoss``: batches of 64,
64 tokens, one epoch, and the learning rates 5e-5, its default, and 1e-4, ours. Each run has its own process; its time
is that of training alone. A GPU is used if there is one.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

TOKENS = 64
MEASURES = ("pairs.accuracy@1", "pairs.mrr@10", "sts.spearman")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with pairs/ and sts/")
    parser.add_argument("--sets", nargs="+", default=["nl2bash"], help="folders below pairs/, several joined by +")
    parser.add_argument("--rows", type=int, default=10**9, help="train only on this many rows of each file")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--one", action="store_true", help="run the first of each in this process; print JSON")
    options = parser.parse_args()
    if options.one:
        contender = CONTENDERS[options.contenders[0]]
        print(json.dumps(run(contender, options.data, options.sets[0].split("+"), options.rows, options.seeds[0])))
        return
    print("| trained on | contender | seed | seconds | measured on | accuracy@1 | MRR@10 | STS-B |")
    print("|---|---|---|---|---|---|---|---|")
    for sets in options.sets:
        for contender in options.contenders:
            for seed in options.seeds:
                found = in_own_process(options, sets, contender, seed)
                for name, (before, after) in found["scores"].items():
                    scores = (f"{before[each]:.1f} -> {after[each]:.1f}" for each in MEASURES)
                    cells = (sets, contender, seed, round(found["seconds"]), name, *scores)
                    print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def in_own_process(options: argparse.Namespace, sets: str, contender: str, seed: int) -> dict[str, Any]:
    """Run a contender in its own process, and return its measurements."""
    command = [sys.executable, __file__, "--one", "--data", str(options.data), "--sets", sets]
    command += ["--contenders", contender, "--rows", str(options.rows), "--seeds", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def run(contender: Contender, data: Path, sets: list[str], rows: int, seed: int) -> dict[str, Any]:
    """Train, and measure before and after on every set."""
    from sentence_transformers import SentenceTransformer

    from twinvec.models.finding import find_model

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        before = measure(SentenceTransformer(str(find_model("default").path)), data, sets, folder)
        seconds, model = contender(data, sets, rows, seed, folder)
        after = measure(model, data, sets, folder)
    return {"seconds": seconds, "scores": {each: (before[each], after[each]) for each in sets}}


def measure(model: Any, data: Path, sets: list[str], folder: Path) -> dict[str, dict[str, float]]:
    """Return the scores of a SentenceTransformer on each set."""
    from twinvec.training.run.evaluators import encoder_measure
    from twinvec.training.settings import Evaluation

    model.max_seq_length = TOKENS
    sts = data / "sts" / "stsb" / "test.tsv"
    files = {name: data / "pairs" / name / "test.jsonl" for name in sets}
    return {name: encoder_measure(model, Evaluation(pairs=file, sts=sts), folder)() for name, file in files.items()}


def train_ours(data: Path, sets: list[str], rows: int, seed: int, folder: Path) -> tuple[float, Any]:
    """Train as ``twinvec train`` does; return the seconds, and the model."""
    from sentence_transformers import SentenceTransformer

    from twinvec.training.run.config import check_config
    from twinvec.training.run.train import train

    values = {
        "objective": {"name": "info_nce", "symmetric": True},
        "data": [{"path": f"pairs/{name}/train.jsonl", "name": name, "limit": rows} for name in sets],
        "max_tokens": TOKENS,
        "batches": {"size": 64},
        "schedule": {"learning_rate": 1e-4, "checkpoint_every": 10**6, "seed": seed},
    }
    report = train(check_config(values, data.absolute(), "benchmark"), folder / "model")
    return report.seconds, SentenceTransformer(report.folder)


def train_theirs(
    data: Path, sets: list[str], rows: int, seed: int, folder: Path, learning_rate: float = 5e-5
) -> tuple[float, Any]:
    """Train with sentence-transformers' trainer and loss; return the seconds, and the model."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from twinvec.models.finding import find_model

    model = SentenceTransformer(str(find_model("default").path))
    model.max_seq_length = TOKENS
    pairs = {}
    for name in sets:
        lines = (data / "pairs" / name / "train.jsonl").read_text(encoding="utf-8").splitlines()[:rows]
        pairs[name] = Dataset.from_list([json.loads(line) for line in lines])
    arguments = SentenceTransformerTrainingArguments(
        output_dir=str(folder / "theirs"),
        per_device_train_batch_size=64,
        learning_rate=learning_rate,
        num_train_epochs=1,
        warmup_steps=0.1,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        seed=seed,
    )
    loss = MultipleNegativesRankingLoss(model)
    trainer = SentenceTransformerTrainer(model=model, args=arguments, train_dataset=pairs, loss=loss)
    started = time.perf_counter()
    trainer.train()
    return time.perf_counter() - started, model


Contender = Callable[[Path, list[str], int, int, Path], tuple[float, Any]]
CONTENDERS: dict[str, Contender] = {
    "twinvec": train_ours,
    "MultipleNegativesRankingLoss": train_theirs,
    "MultipleNegativesRankingLoss, 1e-4": partial(train_theirs, learning_rate=1e-4),
}

if __name__ == "__main__":
    main()
