"""What training gains on question-answer pairs, against sentence-transformers' loss on the same rows.

    python benchmarks/training_quality.py --data ../shared/data [--sets nl2bash medquad] [--rows 3000] [--seeds 0 1 2]

The default model is trained on the first rows of ``pairs/SET/train.jsonl`` and measured on ``test.jsonl``: each
anchor's partner is looked for among all 1,000 positives. STS-B (test) shows what was lost elsewhere. The peer runs
``SentenceTransformerTrainer`` with ``MultipleNegativesRankingLoss`` at batch 64, 64 tokens, 5e-5, one epoch. Each run
has a process of its own; its time is that of training alone.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MEASURES = ("pairs.accuracy@1", "pairs.mrr@10", "sts.spearman")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with pairs/ and sts/")
    parser.add_argument("--sets", nargs="+", default=["nl2bash"], help="folders below pairs/")
    parser.add_argument("--rows", type=int, default=10**9, help="train on the first rows only")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=CONTENDERS)
    parser.add_argument("--one", action="store_true", help="the first of each, in this process, as JSON")
    options = parser.parse_args()
    if options.one:
        contender = CONTENDERS[options.contenders[0]]
        print(json.dumps(contender(options.data, options.sets[0], options.rows, options.seeds[0])))
        return
    print(
        "| set | contender | seed | rows | seconds | accuracy@1 | MRR@10 | STS-B |\n|---|---|---|---|---|---|---|---|"
    )
    for name in options.sets:
        for contender in options.contenders:
            for seed in options.seeds:
                found = in_own_process(options, name, contender, seed)
                scores = (f"{found['before'][each]:.1f} -> {found['after'][each]:.1f}" for each in MEASURES)
                cells = (name, contender, seed, found["rows"], round(found["seconds"]), *scores)
                print("| " + " | ".join(map(str, cells)) + " |", flush=True)


def in_own_process(options: argparse.Namespace, name: str, contender: str, seed: int) -> dict[str, Any]:
    """What the contender measured."""
    command = [sys.executable, __file__, "--one", "--data", str(options.data), "--sets", name]
    command += ["--contenders", contender, "--rows", str(options.rows), "--seeds", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found


def train_ours(data: Path, name: str, rows: int, seed: int) -> dict[str, Any]:
    """A run of ``twinvec train``."""
    from twinvec.training.config import check_config
    from twinvec.training.trainer import train

    values = {
        "objective": {"name": "info_nce", "symmetric": True},
        "data": [{"path": f"pairs/{name}/train.jsonl", "limit": rows}],
        "max_tokens": 64,
        "batches": {"size": 64},
        "schedule": {"learning_rate": 1e-4, "checkpoint_every": 10**6, "seed": seed},
        "evaluation": {"pairs": f"pairs/{name}/test.jsonl", "sts": "sts/stsb/test.tsv"},
    }
    with tempfile.TemporaryDirectory() as folder:
        report = train(check_config(values, data.absolute(), "benchmark"), Path(folder) / "model")
    return {"before": report.before, "after": report.after, "seconds": report.seconds, "rows": report.rows}


def train_theirs(data: Path, name: str, rows: int, seed: int) -> dict[str, Any]:
    """sentence-transformers' trainer and loss."""
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    from twinvec.models import find_model
    from twinvec.training.config import Evaluation
    from twinvec.training.measuring import encoder_measure

    model = SentenceTransformer(str(find_model("default").path))
    model.max_seq_length = 64
    lines = (data / "pairs" / name / "train.jsonl").read_text(encoding="utf-8").splitlines()[:rows]
    pairs = Dataset.from_list([json.loads(line) for line in lines])
    with tempfile.TemporaryDirectory() as folder:
        evaluation = Evaluation(pairs=data / "pairs" / name / "test.jsonl", sts=data / "sts" / "stsb" / "test.tsv")
        measure = encoder_measure(model, evaluation, Path(folder))
        before = measure()
        arguments = SentenceTransformerTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=64,
            learning_rate=5e-5,
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
        seconds = time.perf_counter() - started
        return {"before": before, "after": measure(), "seconds": seconds, "rows": len(pairs)}


Contender = Callable[[Path, str, int, int], dict[str, Any]]
CONTENDERS: dict[str, Contender] = {"twinvec": train_ours, "MultipleNegativesRankingLoss": train_theirs}

if __name__ == "__main__":
    main()
