"""The tables of Sentence-BERT (Reimers and Gurevych 2019), smaller: pooling, concatenation, objective, training data.

    python examples/reproduce_sbert.py --data ../shared/data [--rows 1000] [--seeds 0 1 2] [--tables data]

The program trains one model for each cell, and prints the paper's figure next to ours: Spearman x 100 on STS-B.

- The base is the default model with random weights in the last two of its six layers, so that training has an effect.
  The first line has the score of the untrained base. The paper starts from BERT-base.
- NLI is SNLI dev and the train part of the counterfactual set, at most ``--rows`` rows of each file. The paper has
  942,000 rows.
- A table that is not in the paper trains by ``info_nce`` on entailed pairs only (of SNLI dev, the counterfactual set,
  TaxiNLI and RTE).
- With several seeds, the tables of the test part show the mean and deviation. A cell whose data is missing stays blank.

One seed takes about half an hour on one core. ``--rows 200 --tables objective`` trains three models in a few minutes.
"""

from __future__ import annotations

import argparse
import csv
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from twinvec import CrossEncoderReranker, Encoder
from twinvec.correlation import pair_similarities, pearson, spearman
from twinvec.evaluation.sts import StsSet, load_sts
from twinvec.training.objectives import CONCATENATIONS
from twinvec.training.run.config import check_config
from twinvec.training.run.train import train

RANDOM_LAYERS = 2  # of six
PAPER_POOLING = {"mean": (80.78, 87.44), "max": (79.07, 69.92), "cls": (79.80, 86.62)}
PAPER_CONCATENATION = {
    "u,v": 66.04,
    "|u-v|": 69.78,
    "u*v": 70.54,
    "|u-v|,u*v": 78.37,
    "u,v,u*v": 77.44,
    "u,v,|u-v|": 80.78,
    "u,v,|u-v|,u*v": 80.44,
}
BAR = r"\|"  # a "|" within a cell of a Markdown table


class MissingDataError(Exception):
    """The folder lacks a file that a cell needs."""


class Laboratory:
    """Trains from one base on the sets of a folder; each model is trained once.

    Args:
        data: Folder with ``nli/`` and ``sts/``. A method whose files are missing raises ``MissingDataError``.
        work: Folder for the models.
        rows: Number of rows to use of each file.
    """

    def __init__(self, data: Path, work: Path, rows: int) -> None:
        self._data = data.absolute()
        self._work = work
        self._rows = rows
        self.base = fresh_base(work / "base")
        self._stsb = [{"path": "sts/stsb/train.tsv", "score_range": [0, 5]}]

    def nli(self, pooling: str = "mean", concatenation: str = "u,v,|u-v|", seed: int = 0) -> Path:
        """Train by softmax classification on NLI."""
        columns = {"sentence1": "premise", "sentence2": "hypothesis"}
        files = {"snli": "nli/snli/dev.tsv", "cad": "nli/cad/train.tsv"}
        data = [{"path": path, "name": name, "columns": columns} for name, path in files.items()]
        objective = {"name": "softmax", "concatenation": concatenation}
        return self._train(f"nli {pooling} {concatenation}", objective, data, seed=seed, pooling=pooling)

    def stsb(self, pooling: str = "mean", base: Path | None = None, seed: int = 0) -> Path:
        """Train by cosine regression on STS-B, from the given base or else from the untrained base."""
        name = f"stsb {pooling} {'' if base is None else base.name}"
        objective, model = {"name": "cosine_regression"}, str(base or self.base)
        return self._train(name, objective, self._stsb, seed=seed, pooling=pooling, model=model)

    def triplets(self) -> Path:
        """Train on triplets: a premise, a hypothesis that it entails, and one that contradicts it."""
        rows = []
        for premise, found in self._by_premise("snli/dev").items():
            if {"entailment", "contradiction"} <= found.keys():
                row = {"anchor": premise, "positive": found["entailment"], "negative": found["contradiction"]}
                rows.append(row)
        return self._train("triplets", {"name": "triplet"}, [self._written("triplets", rows)])

    def entailment(self, seed: int = 0) -> Path:
        """Train on premises and entailed hypotheses, with in-batch negatives and without contradictions."""
        data = []
        for name in ("snli/dev", "cad/train", "taxinli/all", "rte/train"):
            found = self._by_premise(name).items()
            rows = [{"anchor": premise, "positive": by["entailment"]} for premise, by in found if "entailment" in by]
            data.append(self._written(name.replace("/", "-"), rows))
        objective = {"name": "info_nce", "symmetric": True}
        return self._train("entailment", objective, data, seed=seed, batches={"size": 128})

    def cross_encoder(self, seed: int = 0) -> Path:
        """Train a cross-encoder on STS-B."""
        return self._train("cross-encoder", {"name": "graded"}, self._stsb, seed=seed, kind="cross-encoder")

    def cross_encoder_score(self, model: Path) -> float:
        """Return Spearman x 100 of a cross-encoder's scores on the test part of STS-B."""
        test = self._sts("test")
        scores = CrossEncoderReranker(model).score(list(zip(test.first, test.second, strict=True)))
        return float(spearman(scores, test.gold))

    def score(self, model: Path, split: str, correlation: Callable[..., Any] = spearman) -> float:
        """Return the correlation x 100 of the cosines with STS-B's scores."""
        data = self._sts(split)
        encoder = Encoder(model)
        cosines = pair_similarities(encoder.encode(data.first), encoder.encode(data.second))["cosine"]
        return float(correlation(cosines, data.gold))

    def on_test(self, make: Callable[..., Path], by: Callable[..., Any] = spearman) -> Callable[[int], float]:
        """Return the score on the test part as a function of the seed."""
        return lambda seed: self.score(make(seed=seed), "test", by)

    def _sts(self, split: str) -> StsSet:
        return load_sts(self._file(f"sts/stsb/{split}.tsv"))

    def _by_premise(self, name: str) -> dict[str, dict[str, str]]:
        """Return a mapping premise -> label -> hypothesis, from a file below ``nli``."""
        found: dict[str, dict[str, str]] = {}
        with self._file(f"nli/{name}.tsv").open(encoding="utf-8") as file:
            for row in csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE):
                found.setdefault(row["premise"], {})[row["label"]] = row["hypothesis"]
        return found

    def _file(self, name: str) -> Path:
        """Return the path of a file of the folder; raise ``MissingDataError`` without it."""
        if not (path := self._data / name).is_file():
            raise MissingDataError(name)
        return path

    def _written(self, name: str, rows: list[dict[str, str]]) -> dict[str, str]:
        """Write rows to a file; return it as a dataset."""
        path = self._work / f"{name}.jsonl"
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)
        return {"path": str(path), "name": name}

    def _train(
        self, name: str, objective: dict[str, Any], data: list[dict[str, Any]], *, seed: int = 0, **more: Any
    ) -> Path:
        folder = self._work / f"{name} {seed}".replace("|", "I").replace("*", "x").replace(" ", "_")
        for source in data:
            self._file(source["path"])
        values = {
            "model": str(self.base),
            "objective": objective,
            "data": [{**source, "limit": self._rows} for source in data],
            "max_tokens": 64,
            "batches": {"size": 16},
            "schedule": {"learning_rate": 1e-4, "checkpoint_every": 10**6, "seed": seed},
            **more,
        }
        train(check_config(values, self._data, name), folder)  # does nothing for a finished run
        return folder


def fresh_base(folder: Path) -> Path:
    """Save the default model with random last layers, mean pooling, and no normalisation."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    from twinvec.models import find_model

    torch.manual_seed(0)
    transformer = Transformer(str(find_model("default").path))
    for module in transformer.auto_model.encoder.layer[-RANDOM_LAYERS:].modules():
        if isinstance(module, torch.nn.Linear):
            torch.nn.init.normal_(module.weight, std=0.02)
            torch.nn.init.zeros_(module.bias)
        elif isinstance(module, torch.nn.LayerNorm):
            module.reset_parameters()
    pooling = Pooling(transformer.get_embedding_dimension(), "mean")
    SentenceTransformer(modules=[transformer, pooling], device="cpu").save(str(folder), create_model_card=False)
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with nli/ and sts/")
    parser.add_argument("--rows", type=int, default=1000, help="rows of each file to train on")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0], help="seeds of the tables of the test part")
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=list(TABLES), help="which (default: all)")
    options = parser.parse_args()
    if not options.data.is_dir():
        parser.exit(2, f"{options.data}: no such folder\n")
    with tempfile.TemporaryDirectory() as folder:
        laboratory = Laboratory(options.data, Path(folder), options.rows)
        print(f"The base, untrained: {dev(laboratory, lambda: laboratory.base)} on STS-B dev.")
        for name in options.tables:
            TABLES[name](laboratory, options.seeds)


def pooling_table(laboratory: Laboratory, _: list[int]) -> None:
    """Print the upper part of the paper's table 6."""
    print("\nSTS-B dev, by pooling (NLI: softmax; STS-B: regression)\n")
    print("| pooling | NLI, paper | NLI, ours | STS-B, paper | STS-B, ours |\n|---|---|---|---|---|")
    for pooling, (on_nli, on_stsb) in PAPER_POOLING.items():
        nli, stsb = (dev(laboratory, make, pooling) for make in (laboratory.nli, laboratory.stsb))
        print(f"| {pooling} | {on_nli} | {nli} | {on_stsb} | {stsb} |", flush=True)


def concatenation_table(laboratory: Laboratory, _: list[int]) -> None:
    """Print the lower part of the paper's table 6."""
    print("\nSTS-B dev, by concatenation (NLI, mean pooling)\n\n| concatenation | paper | ours |\n|---|---|---|")
    for name in CONCATENATIONS:
        ours = dev(laboratory, laboratory.nli, "mean", name)
        print(f"| {name.replace('|', BAR)} | {PAPER_CONCATENATION[name]} | {ours} |", flush=True)


def objective_table(laboratory: Laboratory, _: list[int]) -> None:
    """Compare the paper's three objectives."""
    print("\nSTS-B dev, by objective (mean pooling; the paper's triplets are from Wikipedia)\n")
    print("| objective | data | paper | ours |\n|---|---|---|---|")
    print(f"| softmax | NLI | 80.78 | {dev(laboratory, laboratory.nli)} |")
    print(f"| regression | STS-B | 87.44 | {dev(laboratory, laboratory.stsb)} |")
    print(f"| triplet | NLI | | {dev(laboratory, laboratory.triplets)} |", flush=True)


def data_table(laboratory: Laboratory, seeds: list[int]) -> None:
    """Print the paper's table 2, with the cross-encoder."""

    def both(seed: int) -> Path:
        return laboratory.stsb(base=laboratory.nli(seed=seed), seed=seed)

    print("\nSTS-B test, by data\n\n| model | data | paper | ours |\n|---|---|---|---|")
    rows: list[tuple[str, float, Callable[..., Path]]] = [
        ("NLI", 77.03, laboratory.nli),
        ("STS-B", 84.67, laboratory.stsb),
        ("NLI, then STS-B", 85.35, both),
    ]
    for data, paper, make in rows:
        ours = spread(laboratory.on_test(make), seeds)
        print(f"| bi-encoder | {data} | {paper:.2f} | {ours} |", flush=True)
    crossed = spread(lambda seed: laboratory.cross_encoder_score(laboratory.cross_encoder(seed)), seeds)
    print(f"| cross-encoder | STS-B | 84.30 | {crossed} |", flush=True)


def entailment_table(laboratory: Laboratory, seeds: list[int]) -> None:
    """Print a table that is not in the paper."""
    by_rank, by_value = (spread(laboratory.on_test(laboratory.entailment, by), seeds) for by in (spearman, pearson))
    print("\nSTS-B test, from entailed pairs alone (info_nce)\n\n| Spearman | Pearson |\n|---|---|")
    print(f"| {by_rank} | {by_value} |", flush=True)


def dev(laboratory: Laboratory, make: Callable[..., Path], *how: str) -> str:
    """Make a model; return its score on the dev part as a cell."""
    return spread(lambda _: laboratory.score(make(*how), "dev"), [0])


def spread(score: Callable[[int], float], seeds: list[int]) -> str:
    """Return the mean over the seeds, and the standard deviation of several seeds; a blank if data is missing."""
    try:
        values = [score(seed) for seed in seeds]
    except MissingDataError:
        return ""
    return f"{mean(values):.2f}" + (f" ± {stdev(values):.2f}" if len(values) > 1 else "")


TABLES = {
    "pooling": pooling_table,
    "concatenation": concatenation_table,
    "objective": objective_table,
    "data": data_table,
    "entailment": entailment_table,
}

if __name__ == "__main__":
    main()
