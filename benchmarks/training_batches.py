"""What makes a good batch: its size, mined hard negatives, one dataset or two.

    python benchmarks/training_batches.py --data ../shared/data [--epochs 2] [--seeds 0 1 2] [--recipes either both]

The default model is trained on ``pairs/flickr8k`` (two captions of one picture; short enough for a CPU) by
``info_nce``, and measured on its test pairs: each anchor's partner must be found among all positives. The learning rate
grows with the square root of the batch, since larger batches take fewer steps. Hard negatives are mined by the default
model, one for each row, from ranks 5 to 30. The second dataset is ``pairs/snli_entailment``, which is measured too.
Figures are the mean and standard deviation over the seeds.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import mean, stdev
from typing import Any

SETS = ("flickr8k", "snli_entailment")
RECIPES = ("hard-negatives", "either", "both")
MIDDLE = 512
MEASURES = ("pairs.accuracy@1", "pairs.mrr@10")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with pairs/")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--sizes", type=int, nargs="*", default=[32, 512, 4096], help="sizes of batches of flickr8k")
    parser.add_argument("--recipes", nargs="*", choices=RECIPES, default=RECIPES, help="for batches of 512 rows")
    options = parser.parse_args()
    print("| batch | made of | flickr8k: accuracy@1 | MRR@10 | snli_entailment: accuracy@1 | MRR@10 |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        work, pairs = Path(name), options.data.absolute() / "pairs"
        flickr, entailment = (pairs / each / "train.jsonl" for each in SETS)
        runs: list[tuple[int, str, list[Path], int]] = [(size, "flickr8k", [flickr], 1) for size in options.sizes]
        if "hard-negatives" in options.recipes:
            mined = with_negatives(flickr, work / "mined.jsonl")
            runs.append((MIDDLE, "flickr8k with a hard negative", [mined], 1))
        if "either" in options.recipes:
            runs.append((MIDDLE, "either set", [flickr, entailment], 1))
        if "both" in options.recipes:
            runs.append((MIDDLE, "both sets", [flickr, entailment], 2))
        show("", "the model as it came", [measured("default", pairs, work)])
        for size, made_of, files, datasets in runs:
            found = [trained(size, files, datasets, seed, options.epochs, pairs) for seed in options.seeds]
            show(size, made_of, found)


def with_negatives(source: Path, target: Path) -> Path:
    """Write the pairs with one hard negative each."""
    from twinvec import Encoder
    from twinvec.training.mining.dense_index import DenseIndex
    from twinvec.training.mining.hard_negatives import MiningJob, MiningOptions, mine_file

    index = DenseIndex(Encoder("default"), source, target.with_suffix(".npy"))
    mine_file(MiningJob(source, target, MiningOptions(negatives=1, first_rank=5, last_rank=30)), index)
    return target


def trained(size: int, files: list[Path], datasets: int, seed: int, epochs: int, pairs: Path) -> list[float]:
    """Train a model; return its scores."""
    from twinvec.training.run.config import check_config
    from twinvec.training.run.train import train

    values = {
        "objective": {"name": "info_nce", "symmetric": True},
        "data": [{"path": str(file), "name": str(number)} for number, file in enumerate(files)],
        "max_tokens": 32,
        "batches": {"size": size, "datasets": datasets},
        "schedule": {
            "learning_rate": 2e-5 * (size / 32) ** 0.5,
            "epochs": epochs,
            "checkpoint_every": 10**6,
            "seed": seed,
        },
    }
    with tempfile.TemporaryDirectory() as name:
        report = train(check_config(values, Path(name), "benchmark"), Path(name) / "model")
        return measured(report.folder, pairs, Path(name))


def measured(model: str, pairs: Path, work: Path) -> list[float]:
    """Return the measures on the test pairs of each set."""
    from sentence_transformers import SentenceTransformer

    from twinvec.models.finding import find_model
    from twinvec.training.run.evaluators import encoder_measure
    from twinvec.training.settings import Evaluation

    loaded = SentenceTransformer(str(find_model(model).path))
    scores = [encoder_measure(loaded, Evaluation(pairs=pairs / each / "test.jsonl"), work)() for each in SETS]
    return [found[name] for found in scores for name in MEASURES]


def show(size: Any, made_of: str, runs: list[list[float]]) -> None:
    """Print a row of the table."""
    cells = [spread(list(values)) for values in zip(*runs, strict=True)]
    print("| " + " | ".join([str(size), made_of, *cells]) + " |", flush=True)


def spread(values: list[float]) -> str:
    """Return the mean, and with several values their standard deviation."""
    return f"{mean(values):.1f}" + (f" ± {stdev(values):.1f}" if len(values) > 1 else "")


if __name__ == "__main__":
    main()
