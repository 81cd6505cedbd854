"""The most similar pair of 10,000 sentences: the example of the SBERT paper (Reimers and Gurevych 2019, section 1).

    python benchmarks/pairs.py --data DIR [--sentences 10000] [--output FILE]

The sentences are the distinct sentences of the similarity sets below DATA/sts, in the order of their SHA-256. The
program times ``twinvec pairs`` as users run it: start, loading the model, encoding, and the exact comparison of all
pairs. For comparison, it times a cross-encoder on a sample of pairs and extrapolates to all pairs. The cross-encoder
has the size of the default model, which is smaller than the paper's BERT-base, and a random head, which does not affect
its rate.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from twinvec import CrossEncoderReranker, Encoder
from twinvec.engines.torch import quiet_transformers
from twinvec.evaluation.sts import load_sts
from twinvec.models.finding import find_model
from twinvec.similarity import most_similar_pairs

SAMPLE = 2048
HERE = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Times:
    """The measured seconds, and the pair found."""

    command: float
    encoding: float
    comparing: float
    pairs_a_second: float
    best: dict[str, Any]


def main() -> None:
    """Measure and write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with sts/*/*.tsv")
    parser.add_argument("--sentences", type=int, default=10_000)
    parser.add_argument("--output", type=Path, default=HERE / "PAIRS.md")
    options = parser.parse_args()
    sentences = read_sentences(options.data / "sts", options.sentences)
    options.output.write_text(report(sentences, measure(sentences)), encoding="utf-8")
    print(options.output.read_text(encoding="utf-8"))


def read_sentences(folder: Path, count: int) -> list[str]:
    """Return ``count`` distinct sentences of all sets, in the order of their hashes."""
    known: set[str] = set()
    for each in sorted(path for path in folder.iterdir() if path.is_dir()):
        data = load_sts(each)
        known.update(" ".join(text.split()) for text in data.first + data.second)
    ordered = sorted(known, key=lambda text: hashlib.sha256(text.encode()).digest())
    if len(ordered) < count:
        sys.exit(f"{folder}: only {len(ordered):,} distinct sentences")
    return ordered[:count]


def measure(sentences: list[str]) -> Times:
    """Time the command in its own process, then its parts, then a cross-encoder on a sample of pairs."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sentences.txt"
        path.write_text("\n".join(sentences) + "\n", encoding="utf-8")
        start = time.perf_counter()
        command = [
            sys.executable,
            "-c",
            "from twinvec.cli.app import main; main()",
            "pairs",
            str(path),
            "--limit",
            "1",
            "--json",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        whole = time.perf_counter() - start
        found = json.loads(done.stdout)
        assert found["texts"] == len(sentences)
        encoder = Encoder("default")
        encoder.encode("ready")  # the first use loads the engine
        start = time.perf_counter()
        vectors = encoder.encode(sentences)
        encoding = time.perf_counter() - start
        start = time.perf_counter()
        most_similar_pairs(vectors, 1)
        comparing = time.perf_counter() - start
        rate = cross_encoder_rate(Path(folder) / "cross-encoder", sentences)
    return Times(whole, encoding, comparing, rate, found["pairs"][0])


def cross_encoder_rate(folder: Path, sentences: list[str]) -> float:
    """Return the pairs per second of a cross-encoder with the default model's backbone and a random head."""
    from sentence_transformers import CrossEncoder

    with quiet_transformers():
        model = CrossEncoder(str(find_model("default").path), num_labels=1, device="cpu", local_files_only=True)
        model.save_pretrained(str(folder), create_model_card=False)
    scorer = CrossEncoderReranker(folder)
    half = min(SAMPLE, len(sentences) // 2)
    pairs = list(zip(sentences[:half], sentences[half : 2 * half], strict=True))
    scorer.score(pairs[:64])
    start = time.perf_counter()
    scorer.score(pairs)
    return len(pairs) / (time.perf_counter() - start)


def report(sentences: list[str], times: Times) -> str:
    """Return the table in Markdown."""
    count = len(sentences)
    pairs = count * (count - 1) // 2
    hours = pairs / times.pairs_a_second / 3600
    machine = f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end"
    packages = ", ".join(f"{name} {version(name)}" for name in ("twinvec", "torch", "transformers", "numpy"))
    return f"""# The most similar pair of {count:,} sentences

{pairs:,} pairs; written by `python benchmarks/pairs.py`. {machine}; {packages}.

| way | time here | in the paper, one V100 |
|---|---|---|
| `twinvec pairs`, all included | {times.command:.1f} s | about 5 s |
| - encoding alone | {times.encoding:.1f} s ({count / times.encoding:,.0f} sentences/s) | |
| - comparing all pairs alone | {times.comparing:.2f} s | |
| cross-encoder over all pairs, at {times.pairs_a_second:,.0f} pairs/s | {hours:,.0f} hours | about 65 hours |

The pair found, cosine {times.best["score"]:.4f}:

- {times.best["first"]}
- {times.best["second"]}

The model is the default one (6 layers, 384 dimensions) on both sides; the paper's is BERT-base.
"""


if __name__ == "__main__":
    main()
