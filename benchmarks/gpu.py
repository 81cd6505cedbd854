"""Encoding and reranking on a GPU against sentence-transformers, in alternating rounds in one process.

    python benchmarks/gpu.py [--texts 8000] [--rounds 3] [--precisions float32 float16 bfloat16]
                             [--output benchmarks/GPU.md]

Texts, kinds and columns are those of ``encoding.py``. The peak is the rate of matrix products on the GPU in the given
precision. Both sides compute in the same precision. The peer runs with batches of 32 texts, its default, and with
larger ones.
``training.py speed --device cuda`` measures training.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from encoding import (
    CROSS_PEER,
    KINDS,
    PEER,
    Contender,
    Cost,
    compare,
    compare_scores,
    cores,
    documentation,
    latency,
    make_cross_encoder,
    make_texts,
)
from output import Output

PAIR_QUERIES, PAIR_TEXTS = 20, 100
PEER_BATCHES = (32, 256)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=8000, help="texts of each kind; a quarter as many long texts")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--model", default="default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precisions", nargs="+", default=["float32", "float16", "bfloat16"])
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    words = documentation()
    tell = Output(options.output)
    tell(describe(options))
    with tempfile.TemporaryDirectory() as folder:
        cross_encoder = make_cross_encoder(options.model, Path(folder) / "cross-encoder")
        for precision in options.precisions:
            peak = peak_gflops(options.device, precision)
            tell(f"## {precision}\n\nPeak of matrix products: {peak / 1000:.0f} TFLOP/s.\n")
            contenders = encoders(options.model, options.device, precision)
            cost = Cost(options.model, peak)
            for kind, (least, most) in KINDS.items():
                count = options.texts // 4 if kind == "long" else options.texts
                tell(nested(compare(kind, make_texts(words, count, least, most), contenders, options.rounds, cost)))
            tell(nested(latency(contenders, make_texts(words, 200, 3, 10))))
            queries, texts = make_texts(words, PAIR_QUERIES, 3, 10), make_texts(words, PAIR_TEXTS, *KINDS["mixed"])
            scorers = rerankers(cross_encoder, options.device, precision)
            tell(nested(compare_scores(scorers, queries, texts, options.rounds)))
    tell.write()


def nested(table: str) -> str:
    """Return a table with its heading below that of the precision."""
    return f"#{table}"


def encoders(model: str, device: str, precision: Any) -> list[Contender]:
    """Return the encoders, the peer first."""
    from sentence_transformers import SentenceTransformer

    from twinvec import Encoder
    from twinvec.models.finding import find_model

    peer = SentenceTransformer(str(find_model(model).path), device=device, model_kwargs={"dtype": precision})
    encoder = Encoder(model, device=device, precision=precision)
    peers = [Contender(f"{PEER}, batches of {size}", partial(peer.encode, batch_size=size)) for size in PEER_BATCHES]
    return [*peers, Contender(f"twinvec, {encoder.engine.name}", encoder.encode)]


def rerankers(folder: Path, device: str, precision: Any) -> list[Contender]:
    """Return the cross-encoders, the peer first."""
    from sentence_transformers import CrossEncoder

    from twinvec import CrossEncoderReranker

    peer = CrossEncoder(str(folder), device=device, model_kwargs={"dtype": precision})
    reranker = CrossEncoderReranker(folder, device=device, precision=precision)
    peers = [
        Contender(f"{CROSS_PEER}, batches of {size}", partial(peer.predict, batch_size=size)) for size in PEER_BATCHES
    ]
    return [*peers, Contender(f"twinvec, {reranker.engine.name}", reranker.score)]


def peak_gflops(device: str, precision: str) -> float:
    """Return the best rate of five times ten products of 8192 x 8192 matrices, or of 1024 x 1024 on a CPU."""
    import torch

    size = 1024 if device == "cpu" else 8192
    a, b = (torch.randn(size, size, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    best = 0.0
    for _ in range(5):
        a.sum().item()  # waits until the GPU has finished
        start = time.perf_counter()
        for _ in range(10):
            product = a @ b
        product.sum().item()
        best = max(best, 10 * 2 * size**3 / (time.perf_counter() - start) / 1e9)
    return best


def describe(options: argparse.Namespace) -> str:
    """Return machine, versions and command for the head of the report."""
    import torch

    device = torch.cuda.get_device_name(options.device) if options.device != "cpu" else "CPU"
    versions = ", ".join(
        f"{name} {version(name)}" for name in ("sentence-transformers", "transformers", "torch", "tokenizers")
    )
    return (
        f"# Encoding on a GPU: results\n\n{device}, {cores()} CPU cores; {versions}.\n"
        f"Command: `python benchmarks/gpu.py --texts {options.texts} --rounds {options.rounds} "
        f"--precisions {' '.join(options.precisions)}`, model "
        f"`{options.model}`. The ratio is to {PEER} and {CROSS_PEER} with batches of 32; above 1 is faster.\n"
    )


if __name__ == "__main__":
    main()
