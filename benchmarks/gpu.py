"""Encoding on a GPU against sentence-transformers, both in half precision, in alternating rounds in one process.

    python benchmarks/gpu.py [--texts 8000] [--rounds 5] [--precision float16] [--output FILE]

Texts, kinds and columns are those of ``encoding.py``; the peak is that of matrix products on the GPU in that precision.
No GPU has been available so far, so the project has no table of results.
"""

from __future__ import annotations

import argparse
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from encoding import KINDS, PEER, Contender, Cost, compare, documentation, latency, make_texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=8000, help="texts of each kind; long ones are a quarter of that")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--model", default="default")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--output", type=Path, help="also write the tables to this file")
    options = parser.parse_args()
    peak = peak_gflops(options.device, options.precision)
    words, cost = documentation(), Cost(options.model, peak)
    contenders = load(options.model, options.device, options.precision)
    names = ("sentence-transformers", "transformers", "torch", "tokenizers")
    parts = [
        "# Encoding on a GPU: results\n",
        f"{device_name(options.device)}; {', '.join(f'{name} {version(name)}' for name in names)}. Peak of "
        f"{options.precision} matrix products: {peak / 1000:.0f} TFLOP/s. {options.rounds} rounds, model "
        f"`{options.model}`. The ratio is to {PEER}; above 1 is faster.\n",
    ]
    for kind, (least, most) in KINDS.items():
        count = options.texts // 4 if kind == "long" else options.texts
        parts.append(compare(kind, make_texts(words, count, least, most), contenders, options.rounds, cost))
    parts.append(latency(contenders, make_texts(words, 200, 3, 10)))
    print("\n".join(parts))
    if options.output:
        options.output.write_text("\n".join(parts), encoding="utf-8")


def load(model: str, device: str, precision: Any) -> list[Contender]:
    """Return the contenders, the peer first."""
    from sentence_transformers import SentenceTransformer

    from twinvec import Encoder
    from twinvec.models.finding import find_model

    peer = SentenceTransformer(str(find_model(model).path), device=device, model_kwargs={"dtype": precision})
    encoder = Encoder(model, device=device, precision=precision)
    return [
        Contender(PEER, lambda texts: peer.encode(texts)),
        Contender(f"{PEER}, batches of 256", lambda texts: peer.encode(texts, batch_size=256)),
        Contender(f"twinvec, {encoder.engine.name}", encoder.encode),
    ]


def peak_gflops(device: str, precision: str) -> float:
    """Return the best rate of five products of 4096 x 4096 matrices."""
    import torch

    a, b = (torch.randn(4096, 4096, device=device, dtype=getattr(torch, precision)) for _ in range(2))
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        (a @ b).sum().item()  # waits for the device
        best = max(best, 2 * 4096**3 / (time.perf_counter() - start) / 1e9)
    return best


def device_name(device: str) -> str:
    import torch

    return torch.cuda.get_device_name(device) if torch.device(device).type == "cuda" else device


if __name__ == "__main__":
    main()
